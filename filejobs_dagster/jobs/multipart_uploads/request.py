"""What a run is given: its limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        limit: Most uploads to abort.
        batch_size: Uploads with one intent in the audit log.
        idle_for: How old the newest part must be; without parts, the initiation.
        ask_again_for: How long after a row of `upload` was cleaned its multipart upload is still
            asked for by its id.
        max_runtime: No further upload is aborted after this.
    """

    limit: int = 10_000
    batch_size: int = 100
    idle_for: timedelta = timedelta(days=7)
    ask_again_for: timedelta = timedelta(days=7)
    max_runtime: timedelta = timedelta(hours=2)
