"""The run tags that this project reads and writes, and what Dagster's own tags say of a run."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from datetime import timedelta

from filejobs_dagster.ledger.words import Trigger, TriggerKind

INSTALLATION = "filejobs/installation"
EXCLUSIVE = "filejobs/exclusive"
MODE = "filejobs/mode"
WINDOW = "filejobs/window"
EFFECTIVE_MODE = "filejobs/effective_mode"

COVERS_EVERYTHING = "everything"
"""Value of `filejobs/window`: the run carries a day only to show on the Partitions tab."""

MAX_RUNTIME = "dagster/max_runtime"
PARTITION = "dagster/partition"
PARTITION_SET = "dagster/partition_set"

SLACK = timedelta(minutes=10)
"""A run stops by itself at its max_runtime; Dagster ends it this much later if it did not."""

_PARENT_RUN = "dagster/parent_run_id"
_RETRY_NUMBER = "dagster/retry_number"
_BACKFILL = "dagster/backfill"
_SCHEDULE = "dagster/schedule_name"
_SENSOR = "dagster/sensor_name"
_FROM_UI = "dagster/from_ui"
_USER = "user"

_DOORS: tuple[tuple[str, TriggerKind, str], ...] = (
    (_RETRY_NUMBER, "retry", _PARENT_RUN),
    (_PARENT_RUN, "ui", _USER),
    (_BACKFILL, "backfill", _BACKFILL),
    (_SCHEDULE, "schedule", _SCHEDULE),
    (_SENSOR, "sensor", _SENSOR),
    (_FROM_UI, "ui", _USER),
)
"""Tag, door, and the tag that names it; the first that a run carries decides."""


def trigger_of(tags: Mapping[str, str]) -> Trigger:
    """Tell through which door a run came.

    A run that repeats another copies its tags, so Dagster's automatic retry and a person's
    "Re-execute" in the UI are asked for first. What carries no tag of Dagster's was started by
    `dagster job execute` or `dagster job launch`.
    """
    for tag, kind, name in _DOORS:
        if tag in tags:
            return Trigger(kind, tags.get(name))
    return Trigger("cli")


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
