"""Standings as a JSON document for programs. Fields are added, never renamed or removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filejobs_dagster.cli.words import instant
from filejobs_dagster.ledger.runs import would_act
from filejobs_dagster.ledger.words import StartedBy

if TYPE_CHECKING:
    from filejobs_dagster.alerts.conditions import Condition
    from filejobs_dagster.alerts.mutes import Mute
    from filejobs_dagster.cli.verdict import Verdict
    from filejobs_dagster.ledger.standing import Running, RunSummary, Standing
    from filejobs_dagster.settings import Settings


@dataclass(frozen=True)
class SettingsInForce:
    """Which settings a command has read; runs record the same digest as `settings`.

    Attributes:
        path: The file.
        digest: Of its content.
        changed_at: When the file was written, by the machine's clock.
    """

    path: Path
    digest: str
    changed_at: datetime

    @classmethod
    def of(cls, path: Path, settings: Settings) -> SettingsInForce | None:
        """What was read; None where the file is gone by now."""
        try:
            written = path.stat().st_mtime
        except OSError:
            return None
        return cls(path, settings.digest, datetime.fromtimestamp(written, timezone.utc))

    def __str__(self) -> str:
        return f"Settings {self.digest}, {self.path} of {self.changed_at:%Y-%m-%d %H:%M} UTC."


def status_document(
    installation: str,
    verdict: Verdict,
    standings: Sequence[Standing] = (),
    now: datetime | None = None,
    besides: Sequence[Condition] = (),
    settings: SettingsInForce | None = None,
    mutes: Sequence[Mute] = (),
) -> dict[str, Any]:
    """The whole document.

    Args:
        installation: Whose jobs.
        verdict: Over the jobs shown.
        standings: Empty when they could not be determined.
        now: The database's time of the look; None when there was none.
        besides: What is wrong and no standing says.
        settings: Which settings were read.
        mutes: What nobody is told of.
    """
    return {
        "installation": installation,
        "at": instant(now),
        "verdict": verdict.word,
        "summary": verdict.reason,
        "jobs": [_job(standing) for standing in standings],
        "besides": [
            {
                "kind": each.kind,
                "job": each.job,
                "severity": each.severity,
                "reason": each.reason,
                "see": each.see,
            }
            for each in besides
        ],
        "settings": None
        if settings is None
        else {
            "path": str(settings.path),
            "digest": settings.digest,
            "changed_at": instant(settings.changed_at),
        },
        "muted": [
            {
                "job": each.job,
                "kind": each.kind,
                "since": instant(each.since),
                "until": instant(each.until),
                "by": each.by,
                "why": each.why,
            }
            for each in mutes
        ],
    }


def _job(standing: Standing) -> dict[str, Any]:
    return {
        "job": standing.job,
        "standing": standing.word,
        "severity": standing.severity,
        "reason": standing.reason,
        "see": standing.see or None,
        "configured": standing.configured,
        "mode": standing.mode if standing.configured else None,
        "stale": standing.stale,
        "stale_after_seconds": _seconds(standing.stale_after),
        "behind": standing.behind,
        "age_seconds": _seconds(standing.age),
        "consecutive_failures": standing.consecutive_failures,
        "last_run": _run(standing.last_run),
        "last_success": _run(standing.last_success),
        "last_live_success": _run(standing.last_live_success),
        "running": _running(standing.running),
    }


def _run(run: RunSummary | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "run_id": run.run_id,
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "outcome": run.outcome,
        "mode": run.mode,
        "scanned": run.scanned,
        "acted": run.acted,
        "would_act": would_act(run.mode, run.detail),
        "error": run.error,
        "started_by": _starter(StartedBy.in_detail(run.detail)),
    }


def _running(running: Running | None) -> dict[str, Any] | None:
    if running is None:
        return None
    return {
        "run_id": running.run_id,
        "mode": running.mode,
        "holder": running.holder,
        "started_at": instant(running.started_at),
        "heartbeat_at": instant(running.heartbeat_at),
        "started_by": _starter(running.started_by),
    }


def _starter(starter: StartedBy | None) -> dict[str, str | None] | None:
    return None if starter is None else starter.as_detail()


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
