"""How a run or a backfill is started from outside a Dagster process.

Three ways exist in Dagster 1.13. `dagster job launch` and `job backfill` are commands, not calls,
and the latter creates all runs itself and reports a backfill as completed while its runs still
wait. The webserver's GraphQL needs a webserver, which has no log-in of its own and stands behind
somebody's proxy. What is left, and what the webserver itself does: a workspace's code location,
`instance.create_run` with `submit_run` for a run, `instance.add_backfill` for a backfill. So both
need the instance (DAGSTER_HOME) and the code server, the queue and the daemon do the rest, and
what was started is to be seen, and can be cancelled, in the web UI.

A backfill carries no run config: it would be dropped where a job has config of its own, and a
person could not see it in the UI. Its mode is the tag `filejobs/mode`.
"""

from __future__ import annotations

from filejobs_dagster.orchestration.launching.backfills import (
    Backfill,
    BackfillState,
    NoSuchBackfill,
    backfill_named,
    cancel_backfill,
    newest_backfills,
    open_backfills,
    request_backfill,
)
from filejobs_dagster.orchestration.launching.daemon import daemon_is_silent
from filejobs_dagster.orchestration.launching.place import (
    CodeUnavailable,
    LaunchPlace,
    NoWorkspace,
    opened_place,
    workspace_path,
)
from filejobs_dagster.orchestration.launching.runs import StartedRun, start_run

__all__ = [
    "Backfill",
    "BackfillState",
    "CodeUnavailable",
    "LaunchPlace",
    "NoSuchBackfill",
    "NoWorkspace",
    "StartedRun",
    "backfill_named",
    "cancel_backfill",
    "daemon_is_silent",
    "newest_backfills",
    "open_backfills",
    "opened_place",
    "request_backfill",
    "start_run",
    "workspace_path",
]
