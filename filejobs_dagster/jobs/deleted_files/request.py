"""What a run is given: the restore window, the derived objects, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class DerivedQuery(Protocol):
    """A query for keys of objects that were made from files: an entry of `derived`."""

    @property
    def name(self) -> str:
        """What reports call it."""
        ...

    @property
    def sql(self) -> str:
        """One SELECT of one column of keys; `$1` is an array of ids of files."""
        ...


@dataclass(frozen=True)
class Request:
    """What one run does.

    Attributes:
        restore_window: How long after its deletion a file can be restored for certain.
        derived: The queries of derived objects.
        limit: Most files to act on.
        batch_size: Files in one transaction.
        max_runtime: No further batch is begun after this.
        count_bytes: Ask storage for each object's size first; at most one request an object.
    """

    restore_window: timedelta
    derived: Sequence[DerivedQuery] = ()
    limit: int = 10_000
    batch_size: int = 500
    max_runtime: timedelta = timedelta(minutes=30)
    count_bytes: bool = True
