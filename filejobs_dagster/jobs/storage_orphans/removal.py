"""Deleting confirmed orphans: intent, wait, gate, and what became of each."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

import psycopg

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.storage_orphans.bookkeeping import named, reasons
from filejobs_dagster.jobs.storage_orphans.candidates import Aside
from filejobs_dagster.jobs.storage_orphans.ticker import BETWEEN_LINES
from filejobs_dagster.jobs.storage_orphans.totals import (
    GHOST,
    UNANSWERED,
    UNDECIDED,
    UNSEEN,
    WON_BY_OTHERS,
    in_words,
)
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.removal import Expected, Removal, RemovalStopped
from filejobs_dagster.postgres.clock import database_now
from filejobs_dagster.postgres.fence import Fence
from filejobs_dagster.postgres.locks import LeaseLost
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans import Request, Storage
    from filejobs_dagster.jobs.storage_orphans.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.storage_orphans.candidates import Intended
    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.supply import Supply
    from filejobs_dagster.objects.manner import Manner
    from filejobs_dagster.references.rewrites import Rewrites

LIMIT = "limit"
MAX_RUNTIME = "max_runtime"
OLDER_TRANSACTIONS = "older transactions"

WHY_STOPPED: Mapping[str, str] = {
    "storage": "storage rejected a batch",
    "references": "a source of references could not be read",
    "proof": "it could not be proven that the run may still delete",
    "verification": "what storage had reported as deleted was still there",
}

MOST_REFUSED_IN_A_ROW = 10

LOOK_AT_A_HOLD_AGAIN = timedelta(days=1)
"""A legal hold has no end of its own, and asking every hour would be noise."""

LATEST_AGAIN = timedelta(days=30)
"""What could not be decided is looked at again after as long as it has been an orphan already, so
later and later: a day after the first time at the earliest, and at the latest after so long."""

BETWEEN_PROOFS = 5.0
"""Seconds between two proofs that the run is alive, while it waits."""


@dataclass(frozen=True)
class Means:
    """What deleting needs.

    Attributes:
        rewrites: Lead from a key to the owners that keep it.
        manner: How this bucket's objects are removed.
        confirmed_before: Orphans that an earlier run saw until then are due.
        ends_at: No batch is begun after this moment of the monotonic clock.
    """

    rewrites: Rewrites
    manner: Manner
    confirmed_before: datetime
    ends_at: float


class Drain:
    """Deletes what is due, batch by batch, oldest first."""

    def __init__(
        self,
        context: RunContext,
        request: Request,
        storage: Storage,
        books: Bookkeeping,
        marks: Marks,
        means: Means,
    ) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._books = books
        self._marks = marks
        self._means = means
        self._taken = 0
        self._said_at = 0.0

    def run(self, supply: Supply) -> None:
        """Delete until nothing is due, or a limit says stop.

        Raises:
            JobFailed: Storage or a source refused; what is left is written down.
            GivenUp: Somebody wrote this run's record meanwhile; nothing more was deleted.
            LeaseLost: This run's locks are gone; nothing more was deleted.
        """
        while True:
            room = self._request.limit - self._taken
            if room <= 0:
                self._books.stopped = LIMIT
                return
            if time.monotonic() >= self._means.ends_at:
                self._books.stopped = MAX_RUNTIME
                return
            keys = supply.take(min(self._request.batch_size, room))
            if not keys:
                return
            if not self._batch(keys):
                self._books.stopped = OLDER_TRANSACTIONS
                return

    def _batch(self, keys: Sequence[bytes]) -> bool:
        """One batch; False when it was put off because of older transactions."""
        self._books.batch += 1
        self._context.prove_alive()
        intended = self._intend(keys)
        self._note_won_by_others(keys, intended)
        if not intended:
            self._books.commit()
            return True
        try:
            if not self._wait_for_older_transactions(intended):
                return False
        except (GivenUp, LeaseLost):
            raise
        except Exception:
            self._release(intended, why="the wait for older transactions failed")
            raise
        self._taken += len(intended)
        self._remove(intended)
        self._say()
        return True

    def _intend(self, keys: Sequence[bytes]) -> list[Intended]:
        """Commit the intent: from then on the project's tables refuse these keys."""

        def once() -> list[Intended]:
            with self._context.database.transaction(self._context.connection) as cursor:
                won = self._marks.intend(cursor, keys, self._means.confirmed_before)
                # Until their result is written nobody knows: a run killed in between leaves them.
                self._books.totals.intended = len(won)
                if won:
                    self._books.write_intent(cursor, [one.key for one in won])
            return won

        try:
            return trying_again(once)
        except BaseException:
            self._books.totals.intended = 0
            raise

    def _note_won_by_others(self, keys: Sequence[bytes], intended: Sequence[Intended]) -> None:
        won = {one.key for one in intended}
        for key in keys:
            if key not in won:
                self._books.totals.note(WON_BY_OTHERS, key)

    def _wait_for_older_transactions(self, intended: Sequence[Intended]) -> bool:
        """Wait until nobody can still refer to the keys on a view from before the intent."""
        connection = self._context.connection
        fence = Fence.now(connection)
        if fence.wait(
            connection, self._request.wait_for_transactions, while_waiting=self._prover()
        ):
            return True
        blockers = fence.waiting_for(connection)
        who = "; ".join(str(blocker) for blocker in blockers[:3]) or "they have just ended"
        self._books.facts["waited_for"] = [str(blocker) for blocker in blockers[:10]]
        self._context.log.warning(
            "Batch %d is left for the next run: after %s, transactions from before its intent are "
            "still at work (%s). They could still refer to its objects.",
            self._books.batch,
            in_words(self._request.wait_for_transactions),
            who,
        )
        self._release(intended, why=OLDER_TRANSACTIONS)
        return False

    def _prover(self) -> ProofNowAndThen:
        return ProofNowAndThen(self._context)

    def _release(self, intended: Sequence[Intended], *, why: str) -> None:
        """Take the intent back: nothing of the batch was deleted."""
        keys = [one.key for one in intended]

        def once() -> None:
            with self._context.database.transaction(self._context.connection) as cursor:
                self._marks.release(cursor, keys)
                self._books.write_result(cursor, deleted=0, deferred=len(keys), why=why)

        self._books.totals.intended = 0
        trying_again(once)

    def _remove(self, intended: Sequence[Intended]) -> None:
        expected = [self._expected(one) for one in intended]
        asked = False

        def before_bytes() -> None:
            nonlocal asked
            self._context.prove_alive()
            asked = True

        try:
            removal = self._storage.gate.remove(expected, before_bytes, self._means.manner)
        except RemovalStopped as stopped:
            self._stop(intended, stopped, asked=asked)
        self._settle(intended, removal)
        refused = self._refused_as_a_whole(removal, intended)
        if refused is not None:
            raise JobFailed(refused)

    def _expected(self, one: Intended) -> Expected:
        owners = self._means.rewrites.owners(one.key)
        return Expected(
            key=one.key,
            etag=one.etag,
            size=one.size,
            modified=one.modified_milliseconds,
            owners=tuple(owner.decode("utf-8", "surrogateescape") for owner in owners),
        )

    def _settle(
        self,
        intended: Sequence[Intended],
        removal: Removal,
        *,
        unasked: Sequence[bytes] = (),
        **facts: object,
    ) -> None:
        """Write what became of the intent: marks, totals and audit in one transaction.

        Raises:
            GivenUp: The run's record stands already; the event was written all the same.
        """
        self._books.totals.note_removal(removal, {one.key: one.kind for one in intended})
        self._books.totals.intended = 0
        result = {**_as_event(removal), **facts}

        def once() -> None:
            with self._context.database.transaction(self._context.connection) as cursor:
                self._settle_marks(cursor, intended, removal, unasked)
                self._books.write_result(cursor, **result)

        self._note_oldest_failed(intended, removal)
        try:
            trying_again(once)
        except GivenUp:
            self._books.commit_result(**result)
            raise

    def _settle_marks(
        self,
        cursor: psycopg.Cursor[psycopg.rows.TupleRow],
        intended: Sequence[Intended],
        removal: Removal,
        unasked: Sequence[bytes],
    ) -> None:
        # Whoever referred to one of these would lose it when the deletion still arrives, so they
        # stay refused until a later run has looked what became of them.
        self._marks.keep_intent(cursor, _unsettled(removal))
        settled = [key for key in (*removal.changed, *removal.kept) if key not in removal.unsettled]
        # What changed or became referenced is no candidate any more: it begins anew, if at all.
        self._marks.gone(cursor, [*removal.removed(), *settled])
        now = database_now(cursor)
        again = now + LOOK_AT_A_HOLD_AGAIN
        self._marks.set_aside(
            cursor,
            "locked",
            [
                Aside(key, str(lock), again if lock.until is None else lock.until)
                for key, lock in removal.locked.items()
                if key not in removal.unsettled
            ],
        )
        self._marks.set_aside(
            cursor,
            "failed",
            [
                Aside(key, why)
                for key, why in removal.failed.items()
                if key not in removal.unsettled
            ],
        )
        self._marks.set_aside(cursor, "failed", list(_put_off(intended, removal, now)))
        self._marks.release(cursor, unasked)

    def _note_oldest_failed(self, intended: Sequence[Intended], removal: Removal) -> None:
        """Remember since when what failed has been due; the marks do not count it as due."""
        left = [one.first_seen for one in intended if one.key in removal.failed]
        known = self._books.oldest_failed
        self._books.oldest_failed = min([*left, *([known] if known else [])], default=None)

    def _stop(
        self, intended: Sequence[Intended], stopped: RemovalStopped, *, asked: bool
    ) -> NoReturn:
        """The batch ended early: what was not answered counts as left, and the run fails.

        Args:
            intended: The batch.
            stopped: Where and why.
            asked: True when storage was asked to delete anything of it.
        """
        done = stopped.so_far
        if isinstance(stopped.__cause__, GivenUp | LeaseLost):
            # Whoever holds the locks now may be at work. The audit log keeps the intent, and gets
            # what did go; the next run looks for the rest.
            if done.answered():
                self._books.commit_result(
                    **_as_event(done),
                    **named("removed", done.removed()),
                    stopped=stopped.reason,
                )
            raise stopped.__cause__
        for key in stopped.unanswered:
            self._books.totals.note(UNANSWERED, key, stopped.reason)
        self._books.stopped = WHY_STOPPED[stopped.kind]
        # Where storage was asked and did not answer, the object may yet go: the intent stays, so
        # that nobody refers to the key before the next run has looked. A source that fails before
        # a further try of a request says nothing about the first.
        unasked = stopped.unanswered if stopped.kind == "references" and not asked else ()
        unwritten = ""
        try:
            self._settle(
                intended,
                done,
                unasked=unasked,
                stopped=stopped.reason,
                **named("removed", done.removed()),
                **named("unanswered", stopped.unanswered),
            )
        except (psycopg.Error, GivenUp) as error:
            unwritten = f" This could not be written to the audit log: {type(error).__name__}."
        raise JobFailed(
            f"{stopped.reason} Of the {len(intended):,} orphans of batch {self._books.batch}, "
            f"{len(done.removed()):,} are gone and {len(stopped.unanswered):,} are left for the "
            f"next run.{unwritten}"
        ) from stopped

    def _refused_as_a_whole(self, removal: Removal, intended: Sequence[Intended]) -> str | None:
        """A batch in which every key is refused is a rejection too; a poison item is not."""
        known = {one.key for one in intended if one.kind == UNSEEN}
        unseen = {key: why for key, why in removal.unseen.items() if key not in known}
        failed, in_a_row = {**removal.failed, **unseen}, self._books.totals.refused_in_a_row
        whole_batch = len(failed) > 1 and len(failed) == len(intended)
        if not failed or not (whole_batch or in_a_row >= MOST_REFUSED_IN_A_ROW):
            return None
        self._books.stopped = WHY_STOPPED["storage"]
        return (
            f"Storage refused {in_a_row} objects in a row, all of them up to the end of batch "
            f"{self._books.batch} ({next(iter(failed.values()))}). No further batch was begun. "
            "Check the bucket's permissions."
        )

    def _say(self) -> None:
        """A line now and then: ten million orphans are ten thousand batches."""
        if time.monotonic() - self._said_at < BETWEEN_LINES:
            return
        self._said_at = time.monotonic()
        totals = self._books.totals
        self._context.log.info(
            "batch %d: so far %s; %s refused by storage",
            self._books.batch,
            totals.done,
            f"{totals.left:,}",
        )


class ProofNowAndThen:
    """Proves every few seconds that the run is alive, however often it is called."""

    def __init__(self, context: RunContext) -> None:
        """Begin with a proof."""
        self._context = context
        self._proven_at = 0.0

    def __call__(self) -> None:
        """Prove it, when the last proof is old.

        Raises:
            GivenUp: Somebody gave the run up.
            LeaseLost: Its locks are gone.
        """
        if time.monotonic() - self._proven_at >= BETWEEN_PROOFS:
            self._context.prove_alive()
            self._proven_at = time.monotonic()


def _unsettled(removal: Removal) -> dict[bytes, str]:
    """Why each of the keys is still there that may yet go."""
    locked = {key: str(lock) for key, lock in removal.locked.items()}
    undecided = {**removal.undecided, **removal.unseen}
    reasons = {**removal.failed, **removal.changed, **undecided, **locked, **removal.kept}
    return {key: why for key, why in reasons.items() if key in removal.unsettled}


def _put_off(intended: Sequence[Intended], removal: Removal, now: datetime) -> Iterator[Aside]:
    """What nobody can decide, or look at, and what is listed without being there.

    The mark of what is listed and not there stays: where the next listing does not show it, it is
    cleared with all others, and where it does, it is a ghost.
    """
    why = {
        **{key: f"{UNDECIDED}: {reason}" for key, reason in removal.undecided.items()},
        **{key: f"{UNSEEN}: {reason}" for key, reason in removal.unseen.items()},
        **dict.fromkeys(removal.already_gone, f"{GHOST}: it is listed, and a HEAD finds nothing"),
    }
    for one in intended:
        if one.key in why and one.key not in removal.unsettled:
            wait = min(max(now - one.first_seen, LOOK_AT_A_HOLD_AGAIN), LATEST_AGAIN)
            yield Aside(one.key, why[one.key], now + wait)


def _as_event(removal: Removal) -> dict[str, object]:
    """Counts of what went, and by name whatever was not simply deleted."""
    return {
        "deleted": len(removal.deleted),
        "marked": len(removal.marked),
        "purged": len(removal.purged),
        "versions_purged": sum(removal.purged.values()),
        "bytes_freed": str(removal.freed),
        **named("already_gone", removal.already_gone),
        **reasons("changed", removal.changed),
        **reasons("undecided", removal.undecided),
        **reasons("unseen", removal.unseen),
        **reasons("locked", removal.locked),
        **reasons("failed", removal.failed),
        **reasons("kept", removal.kept),
    }
