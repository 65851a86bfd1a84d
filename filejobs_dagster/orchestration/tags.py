"""The run tags that this project reads and writes, and what Dagster's own tags say of a run."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping

from filejobs_dagster.ledger.words import Trigger

INSTALLATION = "filejobs/installation"
EXCLUSIVE = "filejobs/exclusive"
MODE = "filejobs/mode"
WINDOW = "filejobs/window"

COVERS_EVERYTHING = "everything"
"""Value of `filejobs/window`: the run carries a day only to show on the Partitions tab."""

MAX_RUNTIME = "dagster/max_runtime"
PARTITION = "dagster/partition"
PARTITION_SET = "dagster/partition_set"

_PARENT_RUN = "dagster/parent_run_id"
_BACKFILL = "dagster/backfill"
_SCHEDULE = "dagster/schedule_name"
_SENSOR = "dagster/sensor_name"
_FROM_UI = "dagster/from_ui"


def trigger_of(tags: Mapping[str, str]) -> Trigger:
    """Tell through which door a run came.

    A retry copies the tags of the run that it repeats, so it is asked for first. What carries no
    tag of Dagster's was started by `dagster job execute` or `dagster job launch`.
    """
    if _PARENT_RUN in tags:
        return Trigger("retry", tags[_PARENT_RUN])
    if _BACKFILL in tags:
        return Trigger("backfill", tags[_BACKFILL])
    if _SCHEDULE in tags:
        return Trigger("schedule", tags[_SCHEDULE])
    if _SENSOR in tags:
        return Trigger("sensor", tags[_SENSOR])
    if _FROM_UI in tags:
        return Trigger("ui", tags.get("user"))
    return Trigger("cli")


def holder() -> str:
    """This process, for whoever is refused because of it: user, host and process id."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user id has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()} (process {os.getpid()})"
