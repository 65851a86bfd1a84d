"""What one run of run_history is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

JOB = "run_history"

LEAST_KEPT = timedelta(days=7)
"""The floor of `keep`: the reconciler looks back further than this for runs without a record."""


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        keep: How long a run is kept after its end; at least `LEAST_KEPT`.
        limit: Most runs to remove, and most rows of progress.
        batch_size: Runs between two signs of life, each batch with its audit events.
        max_runtime: No further batch is begun after this.
    """

    keep: timedelta
    limit: int = 10_000
    batch_size: int = 100
    max_runtime: timedelta = timedelta(minutes=30)

    def __post_init__(self) -> None:
        if self.keep < LEAST_KEPT:
            raise ValueError(f"keep is {self.keep}; the least is {LEAST_KEPT}")
