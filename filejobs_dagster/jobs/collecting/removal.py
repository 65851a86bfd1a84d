"""The bytes of claimed rows: after the commit, through the gate, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import psycopg

from filejobs_dagster.book.outcomes import (
    WHY_STOPPED,
    DeletionStopped,
    Outcomes,
    StorageRejected,
)
from filejobs_dagster.jobs.collecting.totals import BYTES_LEFT
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.measure import measure
from filejobs_dagster.postgres.locks import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.jobs.collecting.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.collecting.storage import Storage
    from filejobs_dagster.jobs.context import RunContext

MOST_REFUSED_IN_A_ROW = 10

WHERE_THE_KEYS_ARE = (
    "and the audit event objects.delete.intent of the batch names the keys; taking such objects "
    "away is the task of storage_orphans."
)


class Removal:
    """Removes the bytes of rows whose removal is committed."""

    def __init__(self, context: RunContext, storage: Storage, books: Bookkeeping) -> None:
        self._context = context
        self._storage = storage
        self._books = books

    def sizes(self, keys: Sequence[str]) -> Mapping[str, int | None]:
        """Size by key; None where no object is there; no entry where it is not known.

        Raises:
            StorageRejected: No request can succeed.
        """
        if not self._books.totals.measured or not keys:
            return {}
        found = measure(self._storage.client, self._storage.bucket, keys)
        return {
            key: None if it is None else it.size
            for key, it in found.items()
            if not isinstance(it, StorageError)
        }

    def _sizes_if_known(self, keys: Sequence[str]) -> Mapping[str, int | None]:
        """The rows are gone by now: a size that storage would not say must not stop the rest."""
        try:
            return self.sizes(keys)
        except StorageRejected as rejected:
            self._context.log.warning("Sizes are not known: %s", rejected)
            return {}

    def remove(self, keys: Sequence[str]) -> None:
        """Measure, delete through the gate, and write down what became of each key.

        Args:
            keys: Exact keys of rows that this run has removed by a committed transaction.

        Raises:
            JobFailed: Storage or a source of references refused; what is left is written down.
            GivenUp: Somebody wrote this run's record meanwhile; nothing more was deleted.
            LeaseLost: This run's locks are gone; nothing more was deleted.
        """
        sizes: Mapping[str, int | None] = {}
        absent: list[str] = []
        try:
            self._context.prove_alive()
            sizes = self._sizes_if_known(keys)
            absent = [key for key in keys if sizes.get(key, 0) is None]
            present = [key for key in keys if sizes.get(key, 0) is not None]
            outcomes = self._storage.gate.delete(present, self._context.prove_alive)
        except DeletionStopped as stopped:
            self._stop(keys, absent, sizes, stopped)
        self._books.totals.note_outcomes(absent, outcomes, sizes)
        refused = self._refused_as_a_whole(outcomes, asked=len(keys))
        if refused is not None:
            self._books.stopped = WHY_STOPPED["storage"]
        self._record(absent, outcomes)
        if refused is not None:
            raise JobFailed(refused)

    def _record(
        self, absent: Sequence[str], outcomes: Outcomes[str], **facts: str | list[str]
    ) -> None:
        """What became of the intent: counts, and by name whatever was not simply deleted."""
        absent_rows: dict[str, Any] = {self._books.totals.absent_field: list(absent)}
        self._books.commit_result(
            **absent_rows,
            deleted=len(outcomes.deleted),
            marked=len(outcomes.marked),
            already_gone=list(outcomes.already_gone),
            kept=outcomes.kept,
            failed=outcomes.failed,
            **facts,
        )

    def _stop(
        self,
        keys: Sequence[str],
        absent: Sequence[str],
        sizes: Mapping[str, int | None],
        stopped: DeletionStopped,
    ) -> NoReturn:
        """The batch ended early: what was not answered counts as left, and the run fails."""
        done: Outcomes[str] = stopped.so_far
        if isinstance(stopped.__cause__, GivenUp | LeaseLost):
            # Whoever holds the locks now may be at work. The progress row counts the whole batch
            # as left, and the audit log keeps the intent; what did go is added to it.
            if done.answered():
                self._books.commit_event_of_result(
                    deleted=list(done.deleted), failed=done.failed, stopped=stopped.reason
                )
            raise stopped.__cause__
        self._books.totals.note_outcomes(absent, done, sizes)
        answered = {*absent, *done.answered()}
        left = [key for key in keys if key not in answered]
        for key in left:
            self._books.totals.note(BYTES_LEFT, key, why=stopped.reason)
        self._books.stopped = WHY_STOPPED[stopped.kind]
        unwritten = ""
        try:
            self._record(absent, done, left=left, stopped=stopped.reason)
        except (psycopg.Error, GivenUp) as error:
            unwritten = f" This could not be written to the audit log: {type(error).__name__}."
        raise JobFailed(
            f"{stopped.reason} The bytes of {len(left)} of the {len(keys)} objects in batch "
            f"{self._books.batch} may be left; their rows are gone, no further row was claimed, "
            f"{WHERE_THE_KEYS_ARE}{unwritten}"
        ) from stopped

    def _refused_as_a_whole(self, outcomes: Outcomes[str], asked: int) -> str | None:
        """A 200 in which every key is refused is a rejection too; a poison item is not.

        Small batches add up: a run that meets only refusals stops at the tenth object.
        """
        failed, in_a_row = outcomes.failed, self._books.totals.refused_in_a_row
        whole_batch = len(failed) > 1 and len(failed) == asked
        if not failed or not (whole_batch or in_a_row >= MOST_REFUSED_IN_A_ROW):
            return None
        return (
            f"Storage refused {in_a_row} objects in a row, all of them up to the end of batch "
            f"{self._books.batch} ({next(iter(failed.values()))}). Their rows are gone and no "
            f"further row was claimed, {WHERE_THE_KEYS_ARE} Check the bucket's permissions, holds "
            "and locks."
        )
