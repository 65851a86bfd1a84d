"""One run: candidates in order, claims in batches, and what is left at the end."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import psycopg

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME, nothing_worked
from filejobs_dagster.book.totals import KEPT, Meaning
from filejobs_dagster.jobs.collecting.detail import (
    CLAIM_REFUSED,
    HELD,
    KEPT_BY_ROWS,
    LET_GO,
    REFUSED_ANEW,
    UNUSABLE,
    WON_BY_OTHERS,
    WOULD_COLLECT,
    SmallerBatch,
    because,
    refuses_a_row,
    unusable_rows,
    with_derived,
)
from filejobs_dagster.jobs.setbacks import WAITS, Setbacks, as_item
from filejobs_dagster.postgres.connect import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, timedelta

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.jobs.collecting import Storage
    from filejobs_dagster.jobs.collecting.removal import Removal
    from filejobs_dagster.jobs.setbacks import Setback
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext


class Item(Protocol):
    """One row that may be collected."""

    @property
    def id(self) -> object:
        """Which row it is; like rows of one run have equal ones."""
        ...

    @property
    def key(self) -> str:
        """The key of its object."""
        ...


class Limits(Protocol):
    """How far one run goes."""

    @property
    def limit(self) -> int:
        """Most rows to act on."""
        ...

    @property
    def batch_size(self) -> int:
        """Rows in one transaction."""
        ...

    @property
    def max_runtime(self) -> timedelta:
        """No further batch is begun after this."""
        ...


AnyItem = TypeVar("AnyItem", bound=Item)


class Collection(ABC, Generic[AnyItem]):
    """One run at work. A collector says which rows there are, and how it claims some.

    Attributes:
        rows: What the rows are called in messages.
    """

    rows = "rows"

    def __init__(
        self,
        context: RunContext,
        limits: Limits,
        storage: Storage,
        books: Bookkeeping,
        removal: Removal,
        *,
        place: str,
    ) -> None:
        self._setbacks = Setbacks(context, place)
        self._failed_before: dict[bytes, Setback] = {}
        self._context = context
        self._limits = limits
        self._storage = storage
        self._books = books
        self._removal = removal
        self._ends_at = time.monotonic() + limits.max_runtime.total_seconds()

    # What a collector says ---------------------------------------------------------------------

    @abstractmethod
    def _read(
        self, after: AnyItem | None, begins: datetime, before: datetime, size: int
    ) -> list[AnyItem]:
        """The next candidates; only a guess, and nothing is locked.

        Args:
            after: The last one that was read, or None to begin.
            begins: The earliest moment at which they became due, inclusive.
            before: The latest, exclusive.
            size: The most to return.
        """

    @abstractmethod
    def _claim(
        self, wanted: Sequence[AnyItem], begins: datetime, before: datetime
    ) -> list[AnyItem]:
        """Claim rows with progress and audit in one transaction, and return those that it won.

        Raises:
            SmallerBatch: It was rolled back, and may succeed with fewer rows.
        """

    @abstractmethod
    def _still_due(
        self, missed: Sequence[AnyItem], begins: datetime, before: datetime
    ) -> Iterable[object]:
        """The ids of those rows that a claim has missed and that are as due as before.

        Nobody has won them: another session holds them, or the claim does not want them.
        """

    def _prepare(self) -> None:
        """What a live run makes sure of before its first claim."""
        self._removal.prepare()

    def _kept_for_its_name(self, row: AnyItem) -> str | None:
        """Why the gate would never let a row's bytes go for their name's sake; else None."""
        return self._storage.gate.owned(row.key)

    def _owned_beside(self, keys: Iterable[str]) -> list[str]:
        """Which derived objects of a dry run's batch the gate would let go; others are counted."""
        ours = []
        for key in sorted(keys):
            reason = self._storage.gate.owned(key)
            if reason is None:
                ours.append(key)
            else:
                self._removal.note(KEPT + reason, key, Meaning.STAYS)
        return ours

    def _objects_of(self, won: Sequence[AnyItem]) -> list[str]:
        """The keys whose bytes go with claimed rows, each once: rows may share an object."""
        return list(dict.fromkeys(row.key for row in won))

    # The run -----------------------------------------------------------------------------------

    def _work(self, begins: datetime, before: datetime) -> None:
        """Batch after batch, live or dry."""
        self._began = self._context.now()
        if self._context.live:
            self._prepare()
        work = self._claim_batch if self._context.live else self._report_batch
        for batch in self._batches(begins, before):
            work(batch, begins, before)
            self._say()
        if self._books.stopped is None:
            self._setbacks.forget_old()

    def _batches(self, begins: datetime, before: datetime) -> Iterator[list[AnyItem]]:
        """Rows that may go, oldest first, until nothing is due or a limit says stop.

        Pages are read whole, so that rows which may not go cost the same however little the limit
        leaves; a row counts as scanned when its turn comes.
        """
        after: AnyItem | None = None
        size = self._limits.batch_size
        while (room := self._room()) > 0 and time.monotonic() < self._ends_at:
            page = self._read(after, begins, before, size)
            self._failed_before = self._setbacks.known([as_item(row.id) for row in page])
            batch: list[AnyItem] = []
            for row in page:
                after = row
                self._books.totals.scanned += 1
                if self._may_go(row):
                    batch.append(row)
                if len(batch) == room:
                    break
            if page:
                yield batch
            if len(page) < size and len(batch) < room:
                return
        if self._read(after, begins, before, 1):
            self._books.stopped = LIMIT if room <= 0 else MAX_RUNTIME

    def _room(self) -> int:
        """How much of the limit is left; rows that others won do not use it up."""
        return self._limits.limit - self._books.totals.claimed

    def _may_go(self, row: AnyItem) -> bool:
        """Leave rows alone whose bytes the gate would never let go for their name's sake.

        Those, too, whose claim was refused before, until their pause has ended.
        """
        reason = self._kept_for_its_name(row)
        if reason is not None:
            self._books.totals.note(KEPT + reason, row.key, Meaning.PASSED_OVER)
            return False
        setback = self._failed_before.get(as_item(row.id))
        if setback is not None and setback.not_before > self._began:
            why = f"refused {setback.attempts} times, tried again after {setback.not_before}"
            self._books.totals.note(WAITS, row.key, Meaning.PASSED_OVER, why=why)
            return False
        return True

    def _report_batch(self, batch: Sequence[AnyItem], *_: datetime) -> None:
        """A dry run: what would happen, and no mutating call."""
        self._books.batch += 1
        self._books.totals.claimed += len(batch)
        keys = self._objects_of(batch)
        sizes = self._removal.sizes(keys)
        for key in keys:
            self._removal.note(WOULD_COLLECT, key, Meaning.WOULD_GO, sizes=sizes)
        self._books.commit()

    def _claim_batch(self, batch: Sequence[AnyItem], begins: datetime, before: datetime) -> None:
        self._books.batch += 1
        if not batch:
            self._books.commit()
            return
        try:
            won = self._won(batch, begins, before)
        except SmallerBatch as smaller:
            self._split(batch, begins, before, smaller)
            return
        except psycopg.Error as error:
            if not refuses_a_row(error):
                raise
            self._split(batch, begins, before, error)
            return
        self._books.claim_committed()
        taken = {row.id for row in won}
        self._count_missed([row for row in batch if row.id not in taken], begins, before)
        self._setbacks.settle({}, [as_item(row.id) for row in won])
        if won:
            self._take_bytes(won)

    def _count_missed(
        self, missed: Sequence[AnyItem], begins: datetime, before: datetime, why: str | None = None
    ) -> None:
        """Tell rows that others won from those that others only hold: these are due and stay."""
        held = set(self._still_due(missed, begins, before)) if missed else set()
        for row in missed:
            if row.id in held:
                self._books.totals.note(HELD, row.key, Meaning.PASSED_OVER, why=why)
            else:
                count_not_won(self._books.totals, 1)

    def _won(
        self, batch: Sequence[AnyItem], begins: datetime, before: datetime
    ) -> Sequence[AnyItem]:
        return trying_again(self._claim, batch, begins, before)

    def _take_bytes(self, won: Sequence[AnyItem]) -> None:
        self._removal.remove(self._objects_of(won))

    def _say(self) -> None:
        """One line of progress."""
        totals = self._books.totals
        if self._context.live:
            did = f"collected {totals.acted:,}"
        else:
            did = f"would collect {totals.classes[WOULD_COLLECT]:,}"
        left = f"; the bytes of {totals.left:,} are left" if totals.left else ""
        self._context.log.info(
            "batch %d: scanned %s, %s%s", self._books.batch, f"{totals.scanned:,}", did, left
        )

    def _split(
        self,
        batch: Sequence[AnyItem],
        begins: datetime,
        before: datetime,
        error: psycopg.Error | SmallerBatch,
    ) -> None:
        """Halve a batch that was refused until the row for whose sake it was stands alone."""
        if time.monotonic() >= self._ends_at:
            self._books.stopped = MAX_RUNTIME
            self._books.commit()
            return
        if len(batch) > 1:
            half = len(batch) // 2
            self._claim_batch(batch[:half], begins, before)
            self._claim_batch(batch[half:], begins, before)
            return
        if isinstance(error, SmallerBatch):
            self._count_missed(batch, begins, before, why=str(error))
        else:
            item = as_item(batch[0].id)
            why, totals = because(error), self._books.totals
            totals.note(CLAIM_REFUSED, batch[0].key, Meaning.PASSED_OVER, why=why)
            # A row that others name stays for its own sake, and what was refused before is no news:
            # neither says anything of the run.
            known = isinstance(error, KEPT_BY_ROWS) or item in self._failed_before
            totals.more[REFUSED_ANEW] += not known
            self._setbacks.settle({item: why}, ())
        self._books.commit()

    def _count_unusable(self, rows: Iterable[tuple[str, str, bool]]) -> None:
        """Count rows that no page returns: each with its class, its id, and whether it is due."""
        for fate, row, due in rows:
            self._books.totals.note(fate, row, Meaning.PASSED_OVER if due else Meaning.STAYS)
            self._books.totals.more[UNUSABLE] += due

    # Its end -----------------------------------------------------------------------------------

    def _outcome_of(self, cutoff: datetime, oldest_left: datetime | None, **more: Any) -> Outcome:
        """The outcome, from the totals.

        Args:
            cutoff: The moment before which rows had to be due.
            oldest_left: Since when the oldest row that is still there could have been collected.
            more: What else the record says.

        Raises:
            JobFailed: The run's time was over before it had looked at anything.
        """
        self._books.require_begun(
            self._limits.max_runtime, f"one of the {self.rows}, although some are due"
        )
        return self._books.outcome(
            oldest_left=oldest_left,
            finding=unusable_rows(self._books.totals.more[UNUSABLE]),
            error=self._nothing_worked(),
            cutoff=cutoff.isoformat(),
            **more,
        )

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed.

        An object that was never there needs no deletion, so it does not show that deleting works:
        with bytes left, only an object that storage let go does.
        """
        totals = self._books.totals
        if not self._context.live:
            return None
        advice = (
            "the constraints and triggers that refuse a claim"
            if totals.more[REFUSED_ANEW]
            else "the bucket's permissions, and `owns` and `protect` in filejobs.yaml"
        )
        return nothing_worked(
            totals,
            worked=with_derived(totals, *LET_GO) if totals.left else totals.acted,
            failed=totals.more[REFUSED_ANEW] + totals.left,
            what=f"Of {totals.scanned:,} {self.rows} none could be collected whose bytes are in "
            "storage",
            advice=advice,
        )


def count_not_won(totals: Totals, many: int) -> None:
    """Count rows that a claim did not get: somebody else has them."""
    totals.count(WON_BY_OTHERS, Meaning.STAYS, many)
