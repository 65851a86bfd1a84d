"""Writing down what becomes of deleted files, in the same transactions as what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.collecting import bookkeeping
from filejobs_dagster.jobs.collecting.totals import Totals
from filejobs_dagster.jobs.deleted_files.settings import JOB

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.deleted_files.deleted_file import DeletedFile


MISSING = "missing"
"""The fate of a claimed file whose object was not there."""


class Bookkeeping(bookkeeping.Bookkeeping):
    """The books of a run that collects deleted files."""

    def __init__(self, context: RunContext, bucket: str, *, measured: bool) -> None:
        totals = Totals(live=context.live, measured=measured, absent=MISSING)
        super().__init__(context, JOB, bucket, totals)

    def commit_claim(
        self,
        cursor: psycopg.Cursor[TupleRow],
        won: Sequence[DeletedFile],
        keys: Sequence[str],
        *,
        not_won: int,
    ) -> None:
        """Write a claim into progress and audit, the last statements of its transaction.

        Args:
            cursor: In the claim's transaction.
            won: The files that it took.
            keys: Of all objects that go with them.
            not_won: How many files it did not get.
        """
        self.advance(cursor, newly_claimed=len(won), newly_left=len(keys), not_won=not_won)
        append(cursor, [*self._events_of_rows(won), *self.intents(keys)])

    def _events_of_rows(self, won: Sequence[DeletedFile]) -> Iterator[dict[str, Any]]:
        for file in won:
            retained = file.retain_until
            yield self.event_of_row(
                "deleted_file.collected",
                file_id=str(file.id),
                storage_key=file.key,
                deleted_at=file.deleted_at.isoformat(),
                **({} if retained is None else {"retain_until": retained.isoformat()}),
            )
