"""Whether somebody will work off what was asked for."""

import time

import dagster as dg

BACKFILL_DAEMON = "BACKFILL"

SILENT_FOR = 180
"""Seconds. The daemon shows itself every 30."""


def daemon_is_silent(instance: dg.DagsterInstance) -> bool:
    """Tell whether the part of the daemon that works off backfills has not shown itself lately."""
    heartbeat = instance.get_daemon_heartbeats().get(BACKFILL_DAEMON)
    return heartbeat is None or time.time() - heartbeat.timestamp > SILENT_FOR
