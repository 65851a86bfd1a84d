"""Deleting confirmed orphans: intent, wait, gate, and what became of each.

`recover` begins: it settles what a run that ended early had said it would delete.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from filejobs_dagster.book import outcomes as book
from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.book.outcomes import DeletionStopped, Fate, Outcomes, StorageRejected
from filejobs_dagster.book.totals import Meaning
from filejobs_dagster.jobs.setbacks import GHOST, LONGEST_PAUSE, Setbacks
from filejobs_dagster.jobs.storage_orphans import detail
from filejobs_dagster.jobs.storage_orphans.detail import (
    TOO_RECENT,
    UNANSWERED,
    WON_BY_OTHERS,
    note_outcomes,
)
from filejobs_dagster.jobs.storage_orphans.marks import Aside
from filejobs_dagster.jobs.storage_orphans.review import named, reasons
from filejobs_dagster.jobs.storage_orphans.ticker import BETWEEN_LINES
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import measure
from filejobs_dagster.objects.targets import Expected
from filejobs_dagster.postgres.connect import database_now, trying_again
from filejobs_dagster.postgres.fence import Fence
from filejobs_dagster.postgres.locks import LeaseLost
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    import psycopg

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.book.outcomes import ItemOutcome, StopKind
    from filejobs_dagster.jobs.storage_orphans import Storage, StorageOrphansRun
    from filejobs_dagster.jobs.storage_orphans.marks import Intended, Marks
    from filejobs_dagster.jobs.storage_orphans.supply import Supply
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.references.transforms import Rewrites
    from filejobs_dagster.run_context import RunContext

OLDER_TRANSACTIONS = "older transactions"

WHY_STOPPED: Mapping[StopKind, str] = book.WHY_STOPPED | {
    "verification": "what storage had reported as deleted was still there"
}

BETWEEN_PROOFS = 5.0
"""Seconds between two proofs that the run is alive, while it waits."""


@dataclass(frozen=True)
class Means:
    """What deleting needs.

    Attributes:
        rewrites: Lead from a key to the owners that keep it.
        deletion_mode: How this bucket's objects are removed.
        confirmed_before: Orphans that an earlier run saw until then are due.
        there_before: A version that was there until then may be an orphan.
        ends_at: No batch is begun after this moment of the monotonic clock.
    """

    rewrites: Rewrites
    deletion_mode: DeletionMode
    confirmed_before: datetime
    there_before: datetime
    ends_at: float


class Drain:
    """Deletes what is due, batch by batch, oldest first."""

    def __init__(
        self,
        context: RunContext,
        request: StorageOrphansRun,
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
        self._setbacks = Setbacks(context, storage.entry)
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
                won = self._marks.intend(
                    cursor, keys, self._means.confirmed_before, self._means.there_before
                )
                # Until their result is written nobody knows: a run killed in between leaves them.
                self._books.totals.intended = len(won)
                if won:
                    keys_going = named("keys", [one.key for one in won])
                    intent = self._books.event_of_batch("objects.delete.intent", **keys_going)
                    self._books.write(cursor, intent)
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
                self._books.totals.note(WON_BY_OTHERS, key, Meaning.STAYS)

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
            format_duration(self._request.wait_for_transactions),
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
                self._books.write(cursor, self._result(deleted=0, deferred=len(keys), why=why))

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
            outcomes = self._storage.gate.remove(expected, before_bytes, self._means.deletion_mode)
        except DeletionStopped as stopped:
            self._stop(intended, stopped, asked=asked)
        self._settle(intended, outcomes)
        refused = self._books.refused_as_a_whole(
            detail.refused(outcomes, _kinds(intended)),
            len(intended),
            "No further batch was begun. Check the bucket's permissions.",
        )
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
            seen_as=one.seen_as,
        )

    def _settle(self, intended: Sequence[Intended], outcomes: Outcomes[bytes]) -> None:
        """Write what became of the intent: marks, totals and audit in one transaction."""
        event = self._count(intended, outcomes)
        self._books.commit_result(event, partial(self._settle_marks, outcomes=outcomes))

    def _count(
        self, intended: Sequence[Intended], outcomes: Outcomes[bytes], **facts: object
    ) -> dict[str, Any]:
        """Count what became of the intent, and return the event that says it."""
        note_outcomes(self._books.totals, outcomes, _kinds(intended))
        self._note_oldest_failed(intended, outcomes)
        return self._result(**_as_event(outcomes), **facts)

    def _result(self, **facts: object) -> dict[str, Any]:
        return self._books.event_of_batch("objects.delete.result", **facts)

    def _settle_marks(
        self,
        cursor: psycopg.Cursor[psycopg.rows.TupleRow],
        outcomes: Outcomes[bytes],
        unasked: Sequence[bytes] = (),
    ) -> None:
        # Whoever referred to one of these would lose it when the deletion still arrives, so they
        # stay refused until a later run has looked what became of them.
        unsettled = {it.key: _reason(it) for it in outcomes if it.unsettled}
        self._marks.keep_intent(cursor, unsettled)
        settled = Outcomes(tuple(it for it in outcomes if not it.unsettled))
        # What changed or became referenced is no candidate any more: it begins anew, if at all.
        over = settled.of(Fate.CHANGED, Fate.KEPT)
        self._marks.gone(cursor, [*settled.removed(), *over])
        # A legal hold has no end of its own, and asking every hour would be noise.
        again = database_now(cursor) + LONGEST_PAUSE
        self._marks.set_aside(
            cursor,
            "locked",
            [
                Aside(key, str(lock), again if lock.until is None else lock.until)
                for key, lock in settled.locked.items()
            ],
        )
        failed = dict(_failed(settled))
        versions = {it.key: it.version for it in settled}
        aside = [Aside(key, why, version=versions[key]) for key, why in failed.items()]
        self._marks.set_aside(cursor, "failed", aside)
        self._setbacks.write(cursor, failed, [*settled.removed(), *over])
        self._marks.release(cursor, unasked)

    def _note_oldest_failed(self, intended: Sequence[Intended], outcomes: Outcomes[bytes]) -> None:
        """Remember since when what failed has been due; the marks do not count it as due."""
        failed = outcomes.failed
        left = [one.first_seen for one in intended if one.key in failed]
        if left:
            self._books.totals.leave(min(left))

    def _stop(
        self, intended: Sequence[Intended], stopped: DeletionStopped, *, asked: bool
    ) -> NoReturn:
        """The batch ended early: what was not answered counts as left, and the run fails.

        Args:
            intended: The batch.
            stopped: Where and why.
            asked: True when storage was asked to delete anything of it.
        """
        done: Outcomes[bytes] = stopped.so_far
        facts = {**named("removed", done.removed()), "stopped": stopped.reason}
        went = self._result(**_as_event(done), **facts) if done.answered() else None
        self._books.hand_over(stopped, went)
        for key in stopped.unanswered:
            self._books.totals.note(UNANSWERED, key, Meaning.LEFT, why=stopped.reason)
        self._books.stopped = WHY_STOPPED[stopped.kind]
        # Where storage was asked and did not answer, the object may yet go: the intent stays, so
        # that nobody refers to the key before the next run has looked. A source that fails before
        # a further try of a request says nothing about the first.
        unasked = stopped.unanswered if stopped.kind == "references" and not asked else ()
        unwritten = self._books.try_result(
            self._count(intended, done, **facts, **named("unanswered", stopped.unanswered)),
            partial(self._settle_marks, outcomes=done, unasked=unasked),
        )
        raise JobFailed(
            f"{stopped.reason} Of the {len(intended):,} orphans of batch {self._books.batch}, "
            f"{len(done.removed()):,} are gone and {len(stopped.unanswered):,} are left for the "
            f"next run.{unwritten}"
        ) from stopped

    def _say(self) -> None:
        """A line now and then: ten million orphans are ten thousand batches."""
        if time.monotonic() - self._said_at < BETWEEN_LINES:
            return
        self._said_at = time.monotonic()
        totals = self._books.totals
        self._context.log.info(
            "batch %d: so far %s; %s refused by storage",
            self._books.batch,
            detail.in_words(totals),
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


def _kinds(intended: Sequence[Intended]) -> dict[bytes, str]:
    """For keys that an earlier run could not remove, the kind of its reason."""
    return {one.key: one.kind for one in intended if one.kind}


def _failed(settled: Outcomes[bytes]) -> Iterator[tuple[bytes, str]]:
    """What nobody can decide, look at or delete, and what is listed without being there.

    The mark of what is listed and not there stays: where the next listing does not show it, it is
    cleared with all others, and where it does, it is a ghost.
    """
    for it in settled:
        if it.fate is Fate.ALREADY_GONE:
            yield it.key, f"{GHOST}: it is listed, and a HEAD finds nothing"
        elif it.fate in (Fate.UNDECIDED, Fate.UNSEEN, Fate.FAILED):
            yield it.key, _reason(it)


def _reason(it: ItemOutcome[bytes]) -> str:
    """With its kind in front, by which the next runs know it again."""
    return f"{it.fate.value}: {it.reason}"


def _as_event(outcomes: Outcomes[bytes]) -> dict[str, object]:
    """Counts of what went, and by name whatever was not simply deleted."""
    return {
        "deleted": len(outcomes.deleted),
        "marked": len(outcomes.marked),
        **({"quarantined": len(outcomes.quarantined)} if outcomes.quarantined else {}),
        "purged": len(outcomes.purged),
        "versions_purged": sum(outcomes.purged.values()),
        "bytes_freed": str(outcomes.freed),
        **named("already_gone", outcomes.already_gone),
        **reasons("changed", outcomes.changed),
        **reasons("undecided", outcomes.undecided),
        **reasons("unseen", outcomes.unseen),
        **reasons("locked", outcomes.locked),
        **reasons("failed", outcomes.failed),
        **reasons("kept", outcomes.kept),
    }


# What a run that ended early had said it would delete: looked at, and settled.

SETTLED_AFTER = timedelta(minutes=15)
"""Nobody refers to an object that is still there until a deletion sent before has surely arrived.

A client gives up a request after a minute, and tries a few times; the server may be at it longer.
"""


def recover(
    storage: Storage, marks: Marks, context: RunContext, books: Bookkeeping, now: datetime
) -> None:
    """Find out what became of interrupted intents, and write it down.

    Only a live run does that: it holds the lock that the interrupted run held, so that one is
    over. What is gone is forgotten; what is still there is judged anew, its first sighting kept.
    Where storage does not say of a single object, its intent stays, and the others go on.

    Raises:
        JobFailed: Storage does not say it of any object.
    """
    keys = marks.interrupted()
    if not keys:
        return
    try:
        found = measure(storage.client, storage.bucket.bucket, [key.decode() for key in keys])
    except StorageRejected as error:
        raise JobFailed(f"{error.reason} Nothing was touched.") from error
    unknown = {key: it for key, it in found.items() if isinstance(it, StorageError)}
    if unknown and len(unknown) == len(keys) > 1:
        key, why = next(iter(unknown.items()))
        raise JobFailed(
            f"An earlier run ended while it deleted {len(keys):,} objects, and storage does not "
            f"say of any of them whether it is there ({key!r}: {why}). Nothing was touched."
        )
    for text, why in unknown.items():
        why_left = f"left by an earlier run: {why}"
        books.totals.note(UNANSWERED, text.encode(), Meaning.LEFT, why=why_left)
    gone = [key for key in keys if found[key.decode()] is None]
    there = [key for key in keys if isinstance(found[key.decode()], Present)]

    def once() -> list[bytes]:
        with context.database.transaction(context.connection) as cursor:
            anew = marks.recover(cursor, gone=gone, there=there, settled=now - SETTLED_AFTER)
            result = books.event_of_batch(
                "objects.delete.result",
                recovered=True,
                **named("found_gone", gone),
                **named("found_there", anew),
                **(named("not_known", [key.encode() for key in unknown]) if unknown else {}),
            )
            books.write(cursor, result)
        return anew

    anew = set(trying_again(once))
    for recent in (one for one in there if one not in anew):
        why_left = f"asked to go less than {SETTLED_AFTER} ago"
        books.totals.note(TOO_RECENT, recent, Meaning.PASSED_OVER, why=why_left)
    recovered = {"gone": len(gone), "there": len(anew)}
    rest = {"too_recent": len(there) - len(anew), "not_known": len(unknown)}
    books.facts["recovered"] = recovered | {name: count for name, count in rest.items() if count}
    context.log.warning(
        "An earlier run ended while it deleted %s objects: %s are gone, %s are judged anew, %s "
        "were asked for so recently that they may still go, and of %s storage does not say.",
        f"{len(keys):,}",
        f"{len(gone):,}",
        f"{len(anew):,}",
        f"{rest['too_recent']:,}",
        f"{len(unknown):,}",
    )


def note_unsettled(marks: Marks, context: RunContext, books: Bookkeeping) -> None:
    """Say which intents nobody has settled: until then nobody can refer to their keys."""
    elsewhere = marks.interrupted_elsewhere()
    if elsewhere:
        books.facts["interrupted_elsewhere"] = elsewhere
        context.log.warning(
            "Runs over other entries of `buckets` ended while they deleted, and no run over this "
            "one can settle it: %s. Their keys cannot be referred to until a live run over that "
            "entry has looked; an entry that was renamed needs its old name once more.",
            ", ".join(f"{entry} ({count:,} objects)" for entry, count in elsewhere.items()),
        )
    if context.live:
        return
    keys = marks.interrupted()
    if keys and not marks.live_run_at_work():
        books.facts["interrupted"] = len(keys)
        context.log.warning(
            "An earlier run ended while it deleted %s objects. Nobody can refer to their keys "
            "until a live run has looked which of them are there.",
            f"{len(keys):,}",
        )
