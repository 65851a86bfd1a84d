"""The run tags that this project reads and writes, and what Dagster's own tags say of a run."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from datetime import timedelta

from filejobs_dagster.ledger.outcome import Trigger, TriggerKind

INSTALLATION = "filejobs/installation"
EXCLUSIVE = "filejobs/exclusive"
MODE = "filejobs/mode"
WINDOW = "filejobs/window"
EFFECTIVE_MODE = "filejobs/effective_mode"
TRIGGER = "filejobs/trigger"
STARTED_BY = "filejobs/started_by"
CANCELLED_BY = "filejobs/cancelled_by"
"""Of a backfill: who cancelled it by `filejobs backfill --cancel`; of a run: whom the proxy named
when it was ended in the web UI, written by this project's run coordinator."""

NOBODY_KNOWS = "nobody knows"
"""Value of `filejobs/cancelled_by`: nothing that could know was asked."""

STARTED_HOW = "filejobs/started_how"

SUBMITTED = "filejobs/submitted"
"""Written by this project's run coordinator: how a run came into the queue."""

WEB = "web"
"""Value of `filejobs/submitted`: by a request to the webserver, whatever else its tags say."""

HTTP = "http"
"""Value of `filejobs/trigger`: the run was asked for over HTTP, by `filejobs serve-trigger`."""

SETTINGS = "filejobs/settings"
"""The settings that the code server had read when the run was asked for: `Settings.digest`."""

ALLOW_LIVE = "filejobs/allow_live"
"""`false` where those forbade live runs."""

COVERS_EVERYTHING = "everything"
"""Value of `filejobs/window`: the run carries a day only to show on the Partitions tab."""

MAX_RUNTIME = "dagster/max_runtime"
PARTITION = "dagster/partition"
PARTITION_SET = "dagster/partition_set"

SLACK = timedelta(minutes=10)
"""A run stops by itself at its max_runtime; Dagster ends it this much later if it did not."""

PARENT_RUN = "dagster/parent_run_id"
WILL_RETRY = "dagster/will_retry"
BACKFILL = "dagster/backfill"

_RETRY_NUMBER = "dagster/retry_number"
_OF_A_RETRY = frozenset({_RETRY_NUMBER, PARENT_RUN})
_SCHEDULE = "dagster/schedule_name"
_SENSOR = "dagster/sensor_name"
_FROM_UI = "dagster/from_ui"
_USER = "user"

_BY_HAND: frozenset[TriggerKind] = frozenset({"ui", "cli", "http", "backfill"})

_DAEMONS: frozenset[TriggerKind] = frozenset({"schedule", "sensor"})
"""Doors that only Dagster's daemon goes through, so no request to the webserver does."""

_DOORS: tuple[tuple[str, TriggerKind, str], ...] = (
    (_RETRY_NUMBER, "retry", PARENT_RUN),
    (PARENT_RUN, "ui", _USER),
    (BACKFILL, "backfill", BACKFILL),
    (_SCHEDULE, "schedule", _SCHEDULE),
    (_SENSOR, "sensor", _SENSOR),
    (_FROM_UI, "ui", _USER),
)
"""Tag, door, and the tag that names it; the first that a run carries decides."""


def trigger_of(tags: Mapping[str, str]) -> Trigger:
    """Tell through which door a run came.

    A run that repeats another copies its tags, so Dagster's automatic retry and a person's
    "Re-execute" in the UI are asked for first. What the webserver submitted was started by
    somebody, even where tags that were typed name a schedule. What carries no tag of Dagster's was
    started over HTTP when it says so, else by `dagster job execute` or `dagster job launch`.
    """
    by_web = tags.get(SUBMITTED) == WEB
    for tag, kind, name in _DOORS:
        if tag in tags and not (by_web and kind in _DAEMONS):
            return Trigger(kind, tags.get(name))
    if by_web:
        return Trigger("ui", tags.get(_USER))
    return Trigger("http" if tags.get(TRIGGER) == HTTP else "cli")


def is_by_hand(tags: Mapping[str, str]) -> bool:
    """Tell whether somebody asked for the run, rather than a schedule or a sensor.

    An automatic retry is what its first run was: Dagster copies the tags that say so.
    """
    trigger = trigger_of(tags)
    if trigger.kind == "retry":
        copied = {tag: value for tag, value in tags.items() if tag not in _OF_A_RETRY}
        trigger = trigger_of(copied)
    return trigger.kind in _BY_HAND


def seconds_until_ended(max_runtime: timedelta) -> str:
    """The value of `dagster/max_runtime` for a run that ends by itself after `max_runtime`."""
    return str(round((max_runtime + SLACK).total_seconds()))


def holder() -> str:
    """This process, for whoever is refused because of it: user, host and process id."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user id has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} (process {os.getpid()})"
