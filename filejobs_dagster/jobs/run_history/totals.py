"""What a run of run_history has found and done so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.jobs.run_history.history import OldRun
    from filejobs_dagster.jobs.run_history.settings import Request

PRUNED = "pruned"
NOT_RECORDED = "not recorded"
RECORD_TOO_YOUNG = "record too young"
BACKFILL_OPEN = "backfill in progress"
LEANED_ON = "parent of a run that is kept"
AWAITS_RETRY = "about to be retried"
NOT_REMOVED = "not removed"
ITSELF = "this run"

SHOWN = 20
"""Ids of each class that a run shows."""


@dataclass
class Totals:
    """Counts, samples and what was left.

    Attributes:
        live: Whether the run removes.
        cutoff: What ended before it is old.
        classes: Runs by what became of them.
        samples: Some ids of each class but `pruned`, with a reason where there is one.
        progress_rows: Rows of `job_progress` that went, or would go.
        oldest_left: When the oldest run ended that was to go and is left.
        stopped: `limit` or `max_runtime`, or None.
    """

    live: bool
    cutoff: datetime
    classes: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)
    progress_rows: int = 0
    oldest_left: datetime | None = None
    stopped: str | None = None

    @property
    def scanned(self) -> int:
        """Runs that are over and old."""
        return sum(self.classes.values())

    @property
    def acted(self) -> int:
        """Runs that were removed."""
        return self.classes[PRUNED] if self.live else 0

    def count(self, fate: str, run: OldRun, reason: str | None = None) -> None:
        """Count a run under what became of it."""
        self.classes[fate] += 1
        if fate == PRUNED:
            return
        shown = self.samples.setdefault(fate, [])
        if len(shown) < SHOWN:
            more = f": {reason}" if reason else ""
            shown.append(f"{run.run_id} ({run.job}, {run.ended_at:%Y-%m-%d}){more}")

    def leave(self, ended_at: datetime) -> None:
        """Remember a run that was to go and is left."""
        if self.oldest_left is None or ended_at < self.oldest_left:
            self.oldest_left = ended_at

    def as_detail(self, request: Request) -> dict[str, Any]:
        """The totals as `job_run.detail` holds them."""
        would = {} if self.live else {
            "would_collect": self.classes[PRUNED],
            "would_remove_progress_rows": self.progress_rows,
        }  # fmt: skip
        due = None if self.oldest_left is None else self.oldest_left + request.keep
        untouched = self.scanned - self.classes[PRUNED]
        return {
            **would,
            **({"progress_rows": self.progress_rows} if self.live else {}),
            "classes": {
                (fate if self.live or fate != PRUNED else "would be pruned"): count
                for fate, count in self.classes.items()
            },
            "samples": self.samples,
            "untouched": untouched,
            "cutoff": self.cutoff.isoformat(),
            "keep_seconds": round(request.keep.total_seconds()),
            "oldest_left": None if due is None else due.isoformat(),
            "truncated": self.stopped is not None,
            "stopped_reason": self.stopped,
            "swept": self.live and self.stopped is None and not self.classes[NOT_REMOVED],
            **self._explained(),
        }

    def _explained(self) -> dict[str, str]:
        unrecorded = self.classes[NOT_RECORDED]
        if not unrecorded:
            return {}
        return {
            "explained": f"{unrecorded:,} old runs have no record in job_run and are kept: see "
            "whether the sensor job_run_reconciler works, or run `filejobs mirror`."
        }
