"""One run over reservations."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, Protocol

import psycopg

from filejobs_dagster.book.bookkeeping import Bookkeeping, Taken
from filejobs_dagster.book.totals import Meaning, Totals
from filejobs_dagster.door.clocks import MOST_APART
from filejobs_dagster.jobs.collecting import collection
from filejobs_dagster.jobs.collecting.collection import count_not_won
from filejobs_dagster.jobs.collecting.detail import (
    NEVER_ARRIVED,
    SmallerBatch,
    SourceRefused,
    because,
    detail_of,
)
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.setbacks import Setbacks
from filejobs_dagster.jobs.storage_orphans.classification.records import NAMED_ELSEWHERE
from filejobs_dagster.jobs.storage_orphans.judging import fingerprint
from filejobs_dagster.jobs.storage_orphans.supply import require_searched
from filejobs_dagster.jobs.upload_reservations.claims import WAIVER
from filejobs_dagster.jobs.upload_reservations.file_table import (
    ClaimUnconfirmed,
    FileTable,
    Reservation,
)
from filejobs_dagster.jobs.upload_reservations.statements import (
    BEGINNING,
    CANDIDATES,
    CLAIM,
    SEARCHED,
)
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.heads import THREADS
from filejobs_dagster.postgres.connect import DatabaseUnavailable, one
from filejobs_dagster.references.elsewhere.search import (
    MOST_AT_ONCE,
    Elsewhere,
    unsearched_in_words,
)
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from filejobs_dagster.jobs.collecting import Storage
    from filejobs_dagster.jobs.upload_reservations.file_table import ReservationSource
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.references.elsewhere.search import Found, OwnRows
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings.storage import BucketSettings

MOST_WITHOUT_EXPIRY = 10_000
"""Pending rows without expiry are counted up to here."""


MOST_UNUSABLE = 1_000
"""Rows without a key or a usable deadline are counted up to here."""


@dataclass(frozen=True)
class Words:
    """What a job calls the rows that it collects.

    Attributes:
        rows: In messages.
        event: The kind of the audit event of a claimed row.
        due: What the event calls the moment at which the row was due.
        absent: The class of a claimed row whose object was not there.
    """

    rows: str
    event: str
    due: str
    absent: Literal["never arrived", "missing"]


MOST_BELOW = 5_000
"""Objects in folders of derived_below that one batch takes along. A row with more goes alone."""

MOST_BELOW_ONE = 100_000
"""Those that a single row takes along: their keys are held in memory."""

SEARCH_HOLDS_FOR = timedelta(days=1)
"""So long the search of a live run holds that found no candidate in any other place."""


def _name_of_rules(
    bucket: BucketSettings, own_rows: Sequence[OwnRows], declared: Sequence[str]
) -> str:
    """A short name for what decides which rows are candidates, and where they are looked for."""
    ignored = bucket.named_elsewhere.model_dump_json(exclude={"databases"})
    places = [f"{rows.database} {rows.schema}.{rows.table}.{rows.column}" for rows in own_rows]
    text = json.dumps([fingerprint(bucket), ignored, sorted(places), sorted(declared)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


RESERVATIONS = Words(
    "reservations", "upload_reservation.collected", "upload_expires_at", NEVER_ARRIVED
)


class Limits(collection.Limits, Protocol):
    """How far one run goes, and whether it measures."""

    @property
    def count_bytes(self) -> bool:
        """Whether sizes are asked for before objects go."""
        ...


class Collection(collection.Collection[Reservation]):
    """One run at work. The methods follow the order in which things happen."""

    _rules: str
    _names: dict[object, str]

    def __init__(
        self,
        context: RunContext,
        limits: Limits,
        storage: Storage,
        sources: Sequence[ReservationSource] = (),
        *,
        grace: timedelta = timedelta(0),
        words: Words = RESERVATIONS,
    ) -> None:
        self._grace = grace
        self._words = words
        self.rows = words.rows
        self._sources: Sequence[ReservationSource] = sources or (
            FileTable(
                context.database, lambda: context.connection, candidates=CANDIDATES, claim=CLAIM
            ),
        )
        self._source = self._sources[0]
        self._below: dict[str, str] = {}
        self._beside: list[str] = []
        books = Bookkeeping(
            context,
            Totals(live=context.live, measured=limits.count_bytes),
            partial(detail_of, absent=words.absent),
            bucket=storage.bucket,
        )
        removal = Removal(context, storage, books, absent=words.absent)
        super().__init__(context, limits, storage, books, removal, place=self._source.name)

    def run(self, **more: Any) -> Outcome:
        """Everything, from the cutoff to the outcome.

        Args:
            more: What else the record says.
        """
        cutoff = self._now() - self._grace
        self._check_bucket()
        for source in self._sources:
            source.preflight()
            self._require_sound_claim(source)
            if source.by_hand:
                self._books.facts["by_hand"] = source.name
        self._elsewhere, self._names = self._search_of_names(), {}
        begins = self._context.window.begins or BEGINNING
        before = min(cutoff, self._context.window.ends or cutoff)
        for source in self._oldest_first(before):
            self._source, self._setbacks = source, Setbacks(self._context, source.name)
            scanned, claimed = self._books.totals.scanned, self._books.totals.claimed
            self._work(begins, before)
            self._count_unusable(source.unusable(begins, before, most=MOST_UNUSABLE))
            if len(self._sources) > 1:
                self._books.facts.setdefault("by_table", {})[source.name] = {
                    "scanned": self._books.totals.scanned - scanned,
                    "claimed" if self._context.live else "would_collect": (
                        self._books.totals.claimed - claimed
                    ),
                }
        return self._outcome(cutoff, **more)

    def _check_bucket(self) -> None:
        """See that the bucket answers, before anything is claimed."""
        check_access(self._storage.client, self._storage.bucket)

    def _oldest_first(self, before: datetime) -> Sequence[ReservationSource]:
        """The sources in the order of what waits longest, so that none starves behind a limit."""
        if len(self._sources) == 1:
            return self._sources
        oldest = {source.name: source.oldest_left(before) or before for source in self._sources}
        return sorted(self._sources, key=lambda source: oldest[source.name])

    def _now(self) -> datetime:
        """The moment by which is judged, fixed before anything else is read.

        Raises:
            SourceRefused: The rows are in another database, and its clock is another one.
        """
        earliest = ours = self._context.now()
        for source in self._sources:
            theirs = source.now()
            if abs(theirs - ours) > MOST_APART:
                raise SourceRefused(
                    f"The clocks are too far apart: by the database that holds the {self.rows} it "
                    f"is {theirs:%Y-%m-%d %H:%M:%S} UTC, by that of the record "
                    f"{ours:%Y-%m-%d %H:%M:%S} UTC; at most five minutes are tolerated. Let both "
                    "follow the same time (NTP). Nothing was touched."
                )
            # Both have agreed with each other, and only one of them with all other clocks.
            earliest = min(earliest, theirs)
        return earliest

    def _require_sound_claim(self, source: ReservationSource) -> None:
        """Refuse to claim where a row that changed after the candidates were read may be taken.

        Raises:
            SourceRefused: A live run, and the settings do not vouch for the claim.
        """
        doubt = source.doubt()
        if doubt is None:
            return
        if self._context.live and not doubt.waived:
            raise SourceRefused(doubt.refusal())
        self._books.facts["claim_doubted"] = doubt.noted()
        if doubt.waived:
            self._context.log.info("Reservations %s: %s.", doubt.source, doubt.noted())
        else:
            self._context.log.warning(
                "Reservations %s: %s. A live run would refuse: %s, or make sure of it yourself and "
                "write %s: true.",
                doubt.source,
                doubt.noted(),
                doubt.advice,
                WAIVER,
            )

    def _read(
        self, after: Reservation | None, begins: datetime, before: datetime, size: int
    ) -> list[Reservation]:
        page = self._source.read(after, begins, before, size)
        if self._elsewhere is not None and page and self._room() > 0:
            self._look_elsewhere(self._elsewhere, page, begins, before, size)
        return page

    def _may_go(self, row: Reservation) -> bool:
        """Leave a row alone, too, whose object another place of the databases names."""
        if not super()._may_go(row):
            return False
        column = self._names.get(row.id)
        if column is not None:
            totals = self._books.totals
            totals.note(NAMED_ELSEWHERE, row.key, Meaning.PASSED_OVER, why=f"column {column}")
        return column is None

    # Names elsewhere --------------------------------------------------------------------------

    def _search_of_names(self) -> Elsewhere | None:
        """What looks for the candidates in all columns; None where that need not be.

        A table of the operator's that is declared may be named by a column of which nobody has
        told: a key that stands in another row, or another table, is kept, with its row. Each search
        reads the databases whole. So it is made before the first live run by these rules has ended
        well, and from then on once in `SEARCH_HOLDS_FOR`; in every run, while it finds something.
        Of the project's own tables, and of statements by hand, no search is made: the rows of the
        former say by their state that nobody has the file any more, and of the latter it is not
        known which column names the object.
        """
        bucket = self._storage.settings if self._storage else None
        own_rows = [rows for source in self._sources for rows in source.own_rows()]
        if bucket is None or not own_rows:
            return None
        identity = self._context.identity
        self._rules = _name_of_rules(bucket, own_rows, [it.declared() for it in self._sources])
        values = {
            "job": identity.job,
            "installation": identity.installation,
            "rules": self._rules,
            "holds_for": SEARCH_HOLDS_FOR,
        }
        with self._books.reading() as cursor:
            cursor.execute(SEARCHED, values)
            if one(cursor)[0]:
                return None
        return Elsewhere(self._context.database, bucket, ends_at=self._ends_at, own_rows=own_rows)

    def _look_elsewhere(
        self,
        elsewhere: Elsewhere,
        page: Sequence[Reservation],
        begins: datetime,
        before: datetime,
        size: int,
    ) -> None:
        """Look for the objects of a page and of those behind it, as far as the limit may reach.

        Raises:
            JobFailed: Something could not be searched, and nobody has said that it need not be.
        """
        found = elsewhere.found
        if all(row.key.encode() in found.asked for row in page):
            self._note_named(page, found)
            return
        ahead, last = list(page), page
        while len(last) == size and len(ahead) < min(self._room(), MOST_AT_ONCE):
            last = self._source.read(ahead[-1], begins, before, size)
            ahead += last
        keys = [row.key for row in ahead] + self._source.keys_beside(ahead)
        elsewhere.search([key.encode() for key in keys])
        found.candidates = len(found.asked)
        # What a source names that is another one than these rows is the gate's to keep.
        own = frozenset[str]().union(*(source.own_sources() for source in self._sources))
        for key, names in self._storage.references.named(
            [key.decode() for key in found.named]
        ).items():
            if not own.issuperset(names):
                del found.named[key.encode()]
        detail = found.as_detail()
        detail["search"]["rules"] = self._rules
        self._books.facts |= detail
        if found.unsearched:
            self._context.log.warning("%s", unsearched_in_words(found.unsearched))
        if self._context.live:
            require_searched(found)
        self._note_named(page, found)

    def _note_named(self, page: Sequence[Reservation], found: Found) -> None:
        """Which rows of a page stay: one whose object is named, or an object that goes with it."""
        if not found.named:
            return
        of_others = any(key.encode() in found.named for key in self._source.keys_beside(page))
        for row in page:
            keys = [row.key, *(self._source.keys_beside([row]) if of_others else ())]
            naming = next(filter(None, (found.named.get(key.encode()) for key in keys)), None)
            if naming is not None:
                self._names[row.id] = naming.column

    def _won(
        self, batch: Sequence[Reservation], begins: datetime, before: datetime
    ) -> Sequence[Reservation]:
        # Before the claim: nobody waits for storage while rows are locked.
        self._below = self._lying_below(batch)
        try:
            return super()._won(batch, begins, before)
        except ClaimUnconfirmed as unconfirmed:
            self._leave(unconfirmed)
            raise

    def _leave(self, unconfirmed: ClaimUnconfirmed) -> None:
        """Write that the bytes of an unconfirmed claim were left, unless it claimed nothing."""
        if not unconfirmed.keys:
            return
        try:
            left = self._books.event_of_batch(
                "objects.delete.result",
                deleted=0,
                left=list(unconfirmed.keys),
                stopped=str(unconfirmed),
            )
            self._books.commit_events([left])
        except (psycopg.Error, DatabaseUnavailable) as error:
            self._context.log.warning("The audit log has no word of it: %s", because(error))

    def _claim(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        """Rows, progress, audit: one transaction, the audit's head lock last and shortest.

        Where the rows are in another database, the intent commits before the claim does, and that
        the rows are collected is said after it.
        """
        self._context.prove_alive()
        run_id, facts = self._context.identity.run_id, dict(self._books.facts)
        try:
            with self._source.claiming(wanted, begins, before, run_id) as (won, cursor):
                self._count_also_deleted()
                self._made_from(won, self._source.keys_beside())
                self._books.commit_claim(
                    cursor,
                    Taken(self._source.table, [row.known_since for row in won]),
                    self._objects_of(won),
                    self._intents_of(won) if self._source.elsewhere else self._events_of(won),
                    not_won=lambda totals: self._count_claim(totals, len(won), len(wanted)),
                )
        except BaseException:
            # What was counted with the claim was rolled back with it.
            self._books.facts = facts
            raise
        return won

    def _count_claim(self, totals: Totals, won: int, wanted: int) -> None:
        """Count what is known of a claim as soon as it commits."""
        count_not_won(totals, wanted - won)

    def _intents_of(self, won: Sequence[Reservation]) -> Iterable[dict[str, Any]]:
        """What is said of rows of another database before their claim commits."""
        del won
        # Their objects are named there by an intent, as everywhere.
        return ()

    def _count_also_deleted(self) -> None:
        """Rows of other tables that went with the claimed ones, by table."""
        more = Counter(self._source.also_deleted())
        if more:
            known = Counter(self._books.facts.get("also_deleted", {}))
            self._books.facts["also_deleted"] = dict(known + more)

    def _report_batch(self, batch: Sequence[Reservation], *moments: datetime) -> None:
        try:
            self._below = self._lying_below(batch)
        except SmallerBatch:
            half = len(batch) // 2
            self._report_batch(batch[:half], *moments)
            self._report_batch(batch[half:], *moments)
            return
        self._made_from(batch, self._source.keys_beside(batch))
        self._beside = self._owned_beside(self._beside)
        super()._report_batch(batch, *moments)

    def _lying_below(self, batch: Sequence[Reservation]) -> dict[str, str]:
        """Objects that were made from those of rows, each with the key that it was made from.

        What came after its row was due may be somebody's that nobody knows of yet.

        Raises:
            JobFailed: Storage does not list a folder; nothing was claimed.
            SmallerBatch: There are more of them than one batch holds.
        """
        asked = [(folder, row) for row in batch for folder in self._source.folders_below(row.key)]
        if not asked:
            return {}
        most = MOST_BELOW if len(batch) > 1 else MOST_BELOW_ONE
        found: dict[str, str] = {}

        def list_one(one: tuple[str, Reservation]) -> None:
            folder, row = one
            pages = self._storage.client.get_paginator("list_objects_v2").paginate(
                Bucket=self._storage.bucket, Prefix=folder, Delimiter="/"
            )
            for page in pages:
                if len(found) > most:
                    return
                found.update(
                    (it["Key"], row.key)
                    for it in page.get("Contents", [])
                    if it["Key"].startswith(folder)
                    and "/" not in it["Key"][len(folder) :]
                    and it["LastModified"] < row.due
                )

        with ThreadPoolExecutor(max_workers=THREADS) as pool:
            try:
                for _ in pool.map(list_one, asked):
                    pass
            except Exception as error:
                raise JobFailed(
                    f"The folders of derived_below could not be listed: {described(error)}. No "
                    "further row was claimed. See what `filejobs doctor` says of the bucket."
                ) from error
        if len(found) <= most:
            return found
        if len(batch) > 1:
            raise SmallerBatch(f"more than {most:,} objects were made from {len(batch)} rows")
        self._context.log.warning(
            "More than %s objects lie below %s: the first go with the row, and storage_orphans "
            "takes the others.",
            f"{most:,}",
            display_key(asked[0][0]),
        )
        return dict(islice(found.items(), most))

    def _made_from(self, rows: Sequence[Reservation], beside: Sequence[str]) -> None:
        """What goes with rows, whatever the claim has left of the batch."""
        own = {row.key for row in rows}
        below = {key: of for key, of in self._below.items() if of in own and key not in own}
        self._beside = [key for key in dict.fromkeys([*beside, *below]) if key not in own]
        self._removal.derived = frozenset(self._beside)
        self._removal.owners = {key: (of,) for key, of in below.items()}

    def _objects_of(self, won: Sequence[Reservation]) -> list[str]:
        return [*super()._objects_of(won), *self._beside]

    def _still_due(
        self, missed: Sequence[Reservation], begins: datetime, before: datetime
    ) -> set[UUID | str]:
        return self._source.still_due(missed, begins, before)

    def _events_of(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        for reservation in won:
            yield self._books.event(
                self._words.event,
                **self._source.facts(reservation),
                storage_key=reservation.key,
                **{self._words.due: reservation.due.isoformat()},
            )
        also_deleted = self._source.also_deleted()
        if won and also_deleted:
            yield self._books.event_of_batch(
                "rows.also_deleted", source=self._source.name, rows=also_deleted
            )

    def _take_bytes(self, won: Sequence[Reservation]) -> None:
        if self._source.elsewhere:
            self._books.commit_collected(list(self._events_of(won)))
        super()._take_bytes(won)

    def _outcome(self, cutoff: datetime, **more: Any) -> Outcome:
        left = [source.oldest_left(cutoff) for source in self._sources]
        oldest = min((moment for moment in left if moment is not None), default=None)
        most = MOST_WITHOUT_EXPIRY + 1
        without_expiry = sum(source.count_without_expiry(most=most) for source in self._sources)
        # Collectable since: the grace belongs to the operator, not to what is overdue.
        since = None if oldest is None else oldest + self._grace
        return self._outcome_of(
            cutoff,
            since,
            without_expiry=min(without_expiry, MOST_WITHOUT_EXPIRY),
            without_expiry_is_floor=without_expiry > MOST_WITHOUT_EXPIRY,
            **more,
        )
