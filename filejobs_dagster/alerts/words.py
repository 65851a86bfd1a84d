"""The words of alerts: what can be wrong, how loudly to say it, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

Severity = Literal["warning", "critical"]

Kind = Literal[
    "never run",
    "first run awaited",
    "failed",
    "started again",
    "stale",
    "not swept",
    "behind",
    "dead letters",
    "missing",
    "breaker",
    "findings",
    "stuck",
    "queued",
    "unrecorded",
    "held",
    "silent",
    "settings",
    "database",
]

What = Literal["raised", "reminder", "recovered"]

SEVERITY: Mapping[Kind, Severity] = {
    "never run": "critical",
    "first run awaited": "warning",
    "failed": "critical",
    "started again": "warning",
    "stale": "critical",
    "not swept": "critical",
    "behind": "warning",
    "dead letters": "warning",
    "missing": "warning",
    "breaker": "critical",
    "findings": "critical",
    "stuck": "warning",
    "queued": "warning",
    "unrecorded": "warning",
    "held": "warning",
    "silent": "critical",
    "settings": "critical",
    "database": "critical",
}

TITLE: Mapping[Kind, str] = {
    "never run": "has never run",
    "first run awaited": "has not run yet",
    "failed": "fails",
    "started again": "lost a run, which is started again",
    "stale": "is stale",
    "not swept": "runs, and has never swept",
    "behind": "is behind",
    "dead letters": "has given up on items",
    "missing": "found references without an object",
    "breaker": "was stopped by a breaker",
    "findings": "found something wrong with the audit log",
    "stuck": "has a run that is stuck",
    "queued": "has a run that does not start",
    "unrecorded": "has a run that ended without its record",
    "held": "is held",
    "silent": "Nobody records what ran",
    "settings": "filejobs.yaml has mistakes, so no job can run",
    "database": "The standing of the jobs cannot be read",
}
"""What is wrong; behind the name of a job, where it concerns one."""

ADVICE: Mapping[Kind, str] = {
    "never run": "Look whether its schedule is on (Automation in the web UI), and start the job "
    "once by hand: `filejobs run JOB`.",
    "first run awaited": "Wait for its first tick, or start the job now: `filejobs run JOB`.",
    "failed": "Read the newest run's error (`filejobs runs --failed`), mend its cause, and let the "
    "job run again.",
    "started again": "Wait a minute: unless its repetition succeeds by then, it is a failure. If "
    "this comes often, look for what ends its processes (memory, restarts).",
    "stale": "Look whether its schedule is on and what its last runs say (`filejobs runs`).",
    "not swept": "Only a successful run in the configured mode over everything due counts: "
    "start one, or change `mode` in the settings.",
    "behind": "It leaves due items. Read the run's classes; raise `limit`, or let it run more "
    "often.",
    "dead letters": "Read why each was given up, mend the cause, and have them tried again.",
    "missing": "Look at the run's samples: whoever opens such a file gets none. Restore the "
    "objects from a backup or an older version, or mend the rows that name them.",
    "breaker": "Read the run's samples before anything else. If the numbers are right, let one run "
    "pass over the breaker.",
    "findings": "Treat it as an incident: run `filejobs verify`, and change nothing before you "
    "know why.",
    "stuck": "Look at the run's page. End it there if nothing moves: the next run goes on where it "
    "stopped.",
    "queued": "Look at the queue in the web UI: what holds its place, and does the code server "
    "answer?",
    "unrecorded": "Look at job_run_reconciler in the web UI, or run `filejobs mirror`.",
    "held": "Ask whoever holds it. When it may go on: `filejobs release`, with the job's name "
    "where one was held.",
    "silent": "Start Dagster's daemon and the code server again; until then nothing is scheduled.",
    "settings": "Mend the file and reload the code location; `filejobs settings check` names every "
    "mistake.",
    "database": "Check that PostgreSQL answers, and that `filejobs migrate` has been run.",
}
