"""What a run is given: its limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        limit: Most reservations to act on.
        batch_size: Reservations in one transaction, and objects in one DeleteObjects request.
        grace: How long after its expiry a reservation is still left alone.
        max_runtime: No further batch is begun after this.
        count_bytes: Ask storage for each object's size first; at most one request an object.
    """

    limit: int = 10_000
    batch_size: int = 500
    grace: timedelta = timedelta(0)
    max_runtime: timedelta = timedelta(minutes=30)
    count_bytes: bool = True
