"""Alerts as far as they need Dagster: the runs that wait, and a memory beside our own database."""

import json
import os
from collections.abc import Mapping
from datetime import timedelta, timezone
from typing import Any

import dagster as dg

from filejobs_dagster.alerts.broken import tell_of_broken_settings
from filejobs_dagster.alerts.conditions import QueuedRun
from filejobs_dagster.alerts.memory import parsed
from filejobs_dagster.alerts.rounds import Round, Teller, teller_of
from filejobs_dagster.alerts.sending import complain
from filejobs_dagster.orchestration import tags
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import (
    Loaded,
    Salvaged,
    Settings,
    known_secrets,
    last_good,
    recalled,
    salvage,
)

BUDGET = timedelta(seconds=20)
"""For sending. A tick has 60 seconds; the rest is for the database."""

LONGEST_WAIT = timedelta(seconds=5)
"""For the database to connect, to answer, and to give a lock."""

MOST_WAITING = 500

_LAST_GOOD = "last_good"
_WAITING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
]


class InstanceMemory:
    """A memory in Dagster's own storage, which is there whenever a sensor is evaluated."""

    def __init__(self, instance: dg.DagsterInstance, installation: str) -> None:
        """Remember for one installation."""
        self._instance = instance
        self._key = f"filejobs/alerts/{installation}"

    def read(self) -> dict[str, Any]:
        """What was written last."""
        values = self._instance.daemon_cursor_storage.get_cursor_values({self._key})
        return parsed(values.get(self._key))

    def write(self, value: Mapping[str, Any]) -> None:
        """Replace it."""
        try:
            self._instance.daemon_cursor_storage.set_cursor_values({self._key: json.dumps(value)})
        except Exception as error:  # noqa: BLE001 (Dagster's storage, of whatever kind)
            complain(f"Dagster's storage remembers nothing of alerts ({type(error).__name__})")


def queued_runs_if_readable(
    instance: dg.DagsterInstance, installation: str
) -> list[QueuedRun] | None:
    """The installation's runs that have not begun; None when Dagster's storage does not say."""
    try:
        return queued_runs(instance, installation)
    except Exception as error:  # noqa: BLE001 (whatever Dagster's storage does)
        complain(f"Dagster's queue could not be read ({type(error).__name__})")
        return None


def queued_runs(instance: dg.DagsterInstance, installation: str) -> list[QueuedRun]:
    """The installation's runs that have not begun, the oldest first."""
    records = instance.get_run_records(
        dg.RunsFilter(statuses=_WAITING, tags={tags.INSTALLATION: installation}),
        limit=MOST_WAITING,
        ascending=True,
    )
    return [
        QueuedRun(
            record.dagster_run.run_id,
            record.dagster_run.job_name,
            record.create_timestamp
            if record.create_timestamp.tzinfo
            else record.create_timestamp.replace(tzinfo=timezone.utc),
        )
        for record in records
        if record.dagster_run.job_name in BY_NAME
    ]


def teller(instance: dg.DagsterInstance, settings: Settings) -> Teller:
    """Who tells whom, with settings that are right; they are remembered for when they are not."""
    memory = InstanceMemory(instance, settings.installation)
    try:
        kept, good = memory.read(), last_good(settings)
        if kept.get(_LAST_GOOD) != good:
            memory.write({**kept, _LAST_GOOD: good})
    except Exception as error:  # noqa: BLE001 (whatever Dagster's storage does)
        complain(f"Dagster's storage remembers nothing of alerts ({type(error).__name__})")
    return teller_of(settings.installation, settings.alerts, memory, known_secrets(settings))


def tell_of_broken(instance: dg.DagsterInstance, loaded: Loaded) -> Round:
    """Tell whom the file still names, or named when it was right. Never raises an `Exception`.

    The section `alerts` of a broken file counts where it is right by itself; otherwise the last
    good one, of which Dagster's storage keeps the names of its variables.
    """
    memory = InstanceMemory(instance, loaded.installation)
    try:
        found = _what_is_known(loaded, memory)
    except Exception as error:  # noqa: BLE001 (whatever Dagster's storage does)
        complain(f"Dagster's storage remembers nothing of alerts ({type(error).__name__})")
        found = salvage(loaded.path, os.environ)
    return tell_of_broken_settings(loaded, found, memory, budget=BUDGET)


def _what_is_known(loaded: Loaded, memory: InstanceMemory) -> Salvaged:
    now = salvage(loaded.path, os.environ)
    kept = recalled(memory.read().get(_LAST_GOOD, {}), os.environ)
    alerts = now.alerts if now.complete else kept.alerts or now.alerts
    return Salvaged(now.database or kept.database, alerts, complete=now.complete)
