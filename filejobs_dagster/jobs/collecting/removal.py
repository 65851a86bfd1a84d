"""The bytes of claimed rows: after the commit, through the gate, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from filejobs_dagster.book.outcomes import (
    WHY_STOPPED,
    DeletionStopped,
    Fate,
    Outcomes,
    StorageRejected,
)
from filejobs_dagster.book.totals import Meaning
from filejobs_dagster.jobs.collecting.detail import (
    BYTES_LEFT,
    DERIVED,
    NEVER_ARRIVED,
    class_of,
)
from filejobs_dagster.jobs.late_landings import note_never_arrived
from filejobs_dagster.objects.deletion_mode import DeletionMode, VersioningUnknown, deletion_mode_of
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.heads import measure
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.collecting import Storage
    from filejobs_dagster.run_context import RunContext

WHERE_THE_KEYS_ARE = (
    "and the audit event objects.delete.intent of the batch names the keys; taking such objects "
    "away is the task of storage_orphans."
)

_WITH_BYTES = (Fate.DELETED, Fate.MARKED, Fate.QUARANTINED, Fate.PURGED)


def _without_absent(
    outcomes: Outcomes[str], unseen: Sequence[str]
) -> tuple[Outcomes[str], list[str]]:
    """Tell apart the keys behind which nothing was, of those of which a HEAD saw nothing."""
    there = {it.key for it in outcomes if it.fate is not Fate.ALREADY_GONE}
    absent = [key for key in unseen if key not in there]
    return Outcomes(tuple(it for it in outcomes if it.key not in set(absent))), absent


class Removal:
    """Removes the bytes of rows whose removal is committed.

    Attributes:
        derived: Keys of objects that were derived from those of the rows at work. They have
            classes of their own and are never counted as rows.
    """

    def __init__(
        self, context: RunContext, storage: Storage, books: Bookkeeping, *, absent: str
    ) -> None:
        """Work for one run.

        Args:
            context: The run.
            storage: Where the bytes are.
            books: Where it is written down.
            absent: The class of a row whose object was not there when it was measured.
        """
        self._context = context
        self._storage = storage
        self._books = books
        self._absent = absent
        self._deletion_mode = DeletionMode()
        self.derived: frozenset[str] = frozenset()
        self.owners: Mapping[str, Sequence[str]] = {}

    def prepare(self) -> None:
        """Ask how this bucket removes, before anything is claimed.

        Raises:
            JobFailed: All versions are to go, and the server does not say whether it keeps any.
        """
        try:
            self._deletion_mode = deletion_mode_of(
                self._storage.client,
                self._storage.bucket,
                purge_versions=self._storage.purge_versions,
                quarantine=self._storage.quarantine,
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
            absent = [] if self._deletion_mode.purges else unseen
            present = [
                key for key in keys if self._deletion_mode.purges or sizes.get(key, 0) is not None
            ]
            outcomes = self._storage.gate.delete(
                present, self._context.prove_alive, self._deletion_mode, owners=self.owners
            )
            outcomes, absent = _without_absent(outcomes, unseen)
        except DeletionStopped as stopped:
            self._stop(keys, absent, sizes, stopped)
        self._note(absent, outcomes, sizes)
        refused = self._books.refused_as_a_whole(
            outcomes.failed,
            len(keys),
            f"Their rows are gone and no further row was claimed, {WHERE_THE_KEYS_ARE} Check the "
            "bucket's permissions, holds and locks.",
        )
        self._record(absent, outcomes, sizes)
        if refused is not None:
            raise JobFailed(refused)

    def note(
        self,
        fate: str,
        key: str,
        means: Meaning,
        *,
        why: str | None = None,
        sizes: Mapping[str, int | None] | None = None,
    ) -> None:
        """Count one object.

        Args:
            fate: Its class, without `DERIVED`.
            key: Which.
            means: What the class means.
            why: The reason, for the sample.
            sizes: Where its size is, 0 for no object and unknown without an entry; None where the
                class has no bytes.
        """
        totals, derived = self._books.totals, key in self.derived
        if derived:
            fate = DERIVED + fate
        size = None if sizes is None else sizes.get(key)
        totals.note(fate, key, means, size=size, why=why, extra=derived)
        if sizes is not None and key not in sizes:
            totals.unmeasured[fate] += 1

    def _note(
        self, absent: Sequence[str], outcomes: Outcomes[str], sizes: Mapping[str, int | None]
    ) -> None:
        """Count what became of the bytes of claimed rows, as far as it is known."""
        # With all its versions, more went than what was measured.
        sizes = {**sizes, **{it.key: it.freed for it in outcomes if it.fate is Fate.PURGED}}
        for key in absent:
            self.note(self._absent, key, Meaning.DONE)
        for it in outcomes:
            if it.fate is Fate.UNANSWERED:
                continue
            fate, means = class_of(it)
            self.note(
                fate,
                it.key,
                means,
                why=it.reason if means is Meaning.LEFT else None,
                sizes=sizes if it.fate in _WITH_BYTES else None,
            )
        self._books.totals.note_refusals(outcomes)

    def _record(
        self, absent: Sequence[str], outcomes: Outcomes[str], sizes: Mapping[str, int | None]
    ) -> None:
        """Write what became of the intent."""
        self._books.commit_result(
            self._result(absent, outcomes), self._remembering(absent, outcomes, sizes)
        )

    def _remembering(
        self, absent: Sequence[str], outcomes: Outcomes[str], sizes: Mapping[str, int | None]
    ) -> Callable[[psycopg.Cursor[TupleRow]], None]:
        """The bytes of an upload may still come; a file's whose object is missing will not.

        Of what nobody has measured, nothing may have been there, so all that is gone counts.
        """
        gone = (*outcomes.removed(), *outcomes.of(Fate.ALREADY_GONE))
        may_come = [*absent, *(key for key in gone if key not in sizes)]

        def remember(cursor: psycopg.Cursor[TupleRow]) -> None:
            if self._absent == NEVER_ARRIVED:
                job = self._context.identity.job
                note_never_arrived(cursor, self._storage.bucket, job, may_come)

        return remember

    def _result(
        self, absent: Sequence[str], outcomes: Outcomes[str], **facts: str | list[str]
    ) -> dict[str, Any]:
        """Counts, and by name whatever was not simply deleted."""
        absent_rows: dict[str, Any] = {self._absent.replace(" ", "_"): list(absent)}
        return self._books.event_of_batch(
            "objects.delete.result",
            **absent_rows,
            deleted=len(outcomes.of(Fate.DELETED, Fate.PURGED)),
            marked=len(outcomes.marked),
            quarantined=len(outcomes.quarantined) or None,
            already_gone=list(outcomes.already_gone),
            kept=outcomes.kept | {key: str(lock) for key, lock in outcomes.locked.items()},
            failed=outcomes.why(Fate.FAILED, Fate.UNSEEN, Fate.UNDECIDED, Fate.CHANGED),
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
        went = self._books.event_of_batch(
            "objects.delete.result",
            deleted=list(done.of(Fate.DELETED, Fate.PURGED)),
            failed=done.failed,
            stopped=stopped.reason,
        )
        self._books.hand_over(stopped, went if done.answered() else None)
        self._note(absent, done, sizes)
        answered = {*absent, *done.answered()}
        left = [key for key in keys if key not in answered]
        for key in left:
            self.note(BYTES_LEFT, key, Meaning.LEFT, why=stopped.reason)
        self._books.stopped = WHY_STOPPED[stopped.kind]
        unwritten = self._books.try_result(
            self._result(absent, done, left=left, stopped=stopped.reason),
            self._remembering(absent, done, sizes),
        )
        raise JobFailed(
            f"{stopped.reason} The bytes of {len(left)} of the {len(keys)} objects in batch "
            f"{self._books.batch} may be left; their rows are gone, no further row was claimed, "
            f"{WHERE_THE_KEYS_ARE}{unwritten}"
        ) from stopped
