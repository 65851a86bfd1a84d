"""The bytes of claimed rows: after the commit, through the gate, and written down."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg

from filejobs_dagster.jobs.collecting.totals import BYTES_LEFT
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.deletion import (
    AdmissionFailed,
    Deletion,
    DeletionStopped,
    ProofRefused,
    StorageRejected,
)
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.manner import Manner, VersioningUnknown, manner_of
from filejobs_dagster.objects.measure import measure
from filejobs_dagster.postgres.locks import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.jobs.collecting.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.collecting.storage import Storage
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.objects.gate import GateResult

WHY_STOPPED: Mapping[type[DeletionStopped], str] = {
    StorageRejected: "storage rejected a batch",
    AdmissionFailed: "a source of references could not be read",
    ProofRefused: "it could not be proven that the run may still delete",
}

MOST_REFUSED_IN_A_ROW = 10

WHERE_THE_KEYS_ARE = (
    "and the audit event objects.delete.intent of the batch names the keys; taking such objects "
    "away is the task of storage_orphans."
)


def _without_objects(result: GateResult, absent: Sequence[str]) -> tuple[GateResult, list[str]]:
    """Leave what was never there to those that count it."""
    answered = {*result.deletion.deleted, *result.deletion.failed, *result.kept}
    never = [key for key in absent if key not in answered]
    gone = tuple(key for key in result.deletion.already_gone if key not in never)
    return replace(result, deletion=replace(result.deletion, already_gone=gone)), never


class Removal:
    """Removes the bytes of rows whose removal is committed."""

    def __init__(self, context: RunContext, storage: Storage, books: Bookkeeping) -> None:
        self._context = context
        self._storage = storage
        self._books = books
        self._manner = Manner()

    def prepare(self) -> None:
        """Ask how this bucket removes, before anything is claimed.

        Raises:
            JobFailed: All versions are to go, and the server does not say whether it keeps any.
        """
        try:
            self._manner = manner_of(
                self._storage.client,
                self._storage.bucket,
                purge_versions=self._storage.purge_versions,
            )
        except VersioningUnknown as error:
            raise JobFailed(f"{error} Nothing was claimed.") from error

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
            unseen = [key for key in keys if sizes.get(key, 0) is None]
            # Behind a delete marker, which a HEAD takes for no object, versions may lie.
            absent = [] if self._manner.purges else unseen
            present = [key for key in keys if self._manner.purges or sizes.get(key, 0) is not None]
            result = self._storage.gate.delete(present, self._context.prove_alive, self._manner)
            result, absent = _without_objects(result, unseen)
        except DeletionStopped as stopped:
            self._stop(keys, absent, sizes, stopped)
        self._books.totals.note_deletion(absent, result.deletion, result.kept, sizes)
        refused = self._refused_as_a_whole(result.deletion, asked=len(keys))
        if refused is not None:
            self._books.stopped = WHY_STOPPED[StorageRejected]
        self._record(absent, result.deletion, result.kept)
        if refused is not None:
            raise JobFailed(refused)

    def _record(
        self,
        absent: Sequence[str],
        deletion: Deletion,
        kept: Mapping[str, str],
        **facts: str | list[str],
    ) -> None:
        """What became of the intent: counts, and by name whatever was not simply deleted."""
        absent_rows: dict[str, Any] = {self._books.totals.absent_field: list(absent)}
        self._books.commit_result(
            **absent_rows,
            deleted=len(deletion.deleted),
            marked=len(deletion.marked),
            already_gone=list(deletion.already_gone),
            kept=dict(kept),
            failed=dict(deletion.failed),
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
        done = stopped.deleted_so_far
        if isinstance(stopped.__cause__, GivenUp | LeaseLost):
            # Whoever holds the locks now may be at work. The progress row counts the whole batch
            # as left, and the audit log keeps the intent; what did go is added to it.
            if done.answered():
                self._books.commit_event_of_result(
                    deleted=list(done.deleted), failed=dict(done.failed), stopped=stopped.reason
                )
            raise stopped.__cause__
        self._books.totals.note_deletion(absent, done, stopped.kept, sizes)
        answered = {*absent, *done.answered(), *stopped.kept}
        left = [key for key in keys if key not in answered]
        for key in left:
            self._books.totals.note(BYTES_LEFT, key, why=stopped.reason)
        self._books.stopped = WHY_STOPPED[type(stopped)]
        unwritten = ""
        try:
            self._record(absent, done, stopped.kept, left=left, stopped=stopped.reason)
        except (psycopg.Error, GivenUp) as error:
            unwritten = f" This could not be written to the audit log: {type(error).__name__}."
        raise JobFailed(
            f"{stopped.reason} The bytes of {len(left)} of the {len(keys)} objects in batch "
            f"{self._books.batch} may be left; their rows are gone, no further row was claimed, "
            f"{WHERE_THE_KEYS_ARE}{unwritten}"
        ) from stopped

    def _refused_as_a_whole(self, deletion: Deletion, asked: int) -> str | None:
        """A 200 in which every key is refused is a rejection too; a poison item is not.

        Small batches add up: a run that meets only refusals stops at the tenth object.
        """
        failed, in_a_row = deletion.failed, self._books.totals.refused_in_a_row
        whole_batch = len(failed) > 1 and len(failed) == asked
        if not failed or not (whole_batch or in_a_row >= MOST_REFUSED_IN_A_ROW):
            return None
        return (
            f"Storage refused {in_a_row} objects in a row, all of them up to the end of batch "
            f"{self._books.batch} ({next(iter(failed.values()))}). Their rows are gone and no "
            f"further row was claimed, {WHERE_THE_KEYS_ARE} Check the bucket's permissions, holds "
            "and locks."
        )
