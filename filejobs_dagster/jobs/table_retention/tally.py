"""What a rule has done so far."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Tally:
    """Numbers of one rule in one run; each is written with the batch that it belongs to.

    Attributes:
        scanned: Due rows that were locked, and partitions that were dropped.
        deleted: Rows deleted one by one.
        scrubbed: Rows whose columns became NULL.
        children: Rows of the declared child tables.
        refused: Rows that PostgreSQL refused to change, each tried alone.
        in_use: Those of the refused that rows of other tables name.
        held: Due rows that are left at the end, and that nobody refused: other sessions hold them.
        before_all_time: Rows with a time of -infinity, which no rule takes.
        pending: Partitions that are pending detach: their rows are seen by nobody.
        not_won: Rows that were locked and that a trigger of the operator's left alone.
        partitions: Partitions dropped as a whole.
        rows_in_partitions: How many rows PostgreSQL believed them to hold.
        batches: Transactions.
    """

    scanned: int = 0
    deleted: int = 0
    scrubbed: int = 0
    children: int = 0
    refused: int = 0
    in_use: int = 0
    held: int = 0
    before_all_time: int = 0
    pending: int = 0
    not_won: int = 0
    partitions: int = 0
    rows_in_partitions: int = 0
    batches: int = 0

    @property
    def acted(self) -> int:
        """Items that were taken: rows, and partitions as one each."""
        return self.deleted + self.scrubbed + self.partitions

    @property
    def passed_over(self) -> int:
        """Due rows that are left, each for a reason of its own."""
        return self.refused + self.not_won + self.held + self.before_all_time + self.pending

    def plus(self, **more: int) -> Tally:
        """The tally with some numbers raised."""
        return replace(self, **{name: getattr(self, name) + many for name, many in more.items()})
