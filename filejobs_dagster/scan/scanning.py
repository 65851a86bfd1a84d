"""The scan: list, learn, read what was learnt to its end, compare on disk, and look once more.

Nothing is written, neither to the database, whose transactions are read-only and short, nor to the
bucket. Memory is flat: a byte for each object, a sample of the keys, and what is sorted on disk.
"""

from __future__ import annotations

import os
import random
import re
import time
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import chain, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.objects.client import check_access, make_client, read_versioning
from filejobs_dagster.objects.listing import ListingFailed, list_objects
from filejobs_dagster.objects.listing.ask import Asker
from filejobs_dagster.objects.listing.page import Page, pages_of
from filejobs_dagster.objects.listing.part import Reader
from filejobs_dagster.objects.multipart import (
    MultipartUpload,
    PartsUnknown,
    list_parts,
    list_uploads,
)
from filejobs_dagster.objects.targets import MARKERS, QUARANTINE
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.elsewhere.columns import catalogue
from filejobs_dagster.references.elsewhere.search import (
    OVER_BUDGET,
    STATEMENT_TIMEOUT,
    Elsewhere,
    read_in_parts,
    read_part,
)
from filejobs_dagster.scan.findings import Tally, shapes_of, sources_of
from filejobs_dagster.scan.learning import PART, Index, Lead, Learner
from filejobs_dagster.scan.result import Amount, Scan, Unseen, Uploads
from filejobs_dagster.scan.shapes import MOST_SHAPES, Learnt, Spans, form_of, general
from filejobs_dagster.settings.storage import BucketSettings
from filejobs_dagster.streams import Scratch, Sorter, merge
from filejobs_dagster.text import display_key, sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.listing import Listed, ListingProgress
    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.references.elsewhere.columns import Table
    from filejobs_dagster.streams import Spool

MOST_LEARNT = 200_000
"""Keys from which is learnt; of more, a sample."""

MOST_LEADS = 200
"""Of columns that seem to name keys; the state of an object is one byte."""

SAMPLE_BYTES = 1 << 20
"""Of a table, about; one of four times as much is read as a whole."""

SAMPLED_PLACES = 8
MOST_ROWS = 20_000
"""Of a table that can only be read from its beginning."""

LONGEST_VALUE = 1 << 16
LONGEST_BYTES = 64
PAGES_AT_ONCE = 1024
LOOKED_FOR = 1000
"""Keys that nothing names whose names are looked for in all columns."""

MOST_MEASURED = 100
"""Multipart uploads whose parts are asked for."""

SHAPES_FROM = 3000
SHOWN = 5
PARTS_AT_ONCE = 8

NOTHING, DERIVED, WEAKLY_DERIVED, NAMED, APART = 0, 251, 252, 253, 254
"""States of an object, beside the number of the lead that names it, which begins with 1."""

KEYS = {
    "access_key_id": "FILEJOBS_S3_ACCESS_KEY_ID",
    "secret_access_key": "FILEJOBS_S3_SECRET_ACCESS_KEY",
}
"""Where the bucket's keys are, as in examples of the settings; without them botocore decides."""

_WEEK = timedelta(days=7)
_TID_RANGES = 140_000
_PAST = re.compile(
    r"(?:^|_)(?:hist\w*|versions?|revisions?|audits?|logs?|activity|activities|cache\w*|kvstore"
    r"|thumb\w*|archived?|backups?|trash)(?:_|$)"
)
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"

_key = itemgetter(0)

_TYPES = """
SELECT concat_ws('.', nspname, relname, attname), format_type(atttypid, NULL)
  FROM pg_catalog.pg_attribute
  JOIN pg_catalog.pg_class ON pg_class.oid = attrelid
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
 WHERE attnum > 0 AND relkind IN ('r', 'p', 'm')
   AND nspname NOT IN ('pg_catalog', 'information_schema')
"""


@dataclass(frozen=True)
class Options:
    """What is scanned.

    Attributes:
        database_url: A libpq connection string; a secret.
        bucket: The bucket's name.
        prefix: Below which it is listed; empty for the whole bucket.
        endpoint_url: The server's address, None for AWS.
        region: None to let botocore find it.
        sample: About so many objects are looked at, at places here and there; None for all.
        max_time: How long the database is read.
        scratch: An existing folder for what is sorted, None for the system's temporary one.
    """

    database_url: str = field(repr=False)
    bucket: str
    prefix: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    sample: int | None = None
    max_time: timedelta = timedelta(minutes=15)
    scratch: Path | None = None


def scan(options: Options, on_progress: Callable[[str], None] = lambda _line: None) -> Scan:
    """Scan a bucket and a database.

    Args:
        options: Which.
        on_progress: Told in a line what is being done, a few times a second at most.

    Returns:
        What was found. After KeyboardInterrupt, what was found until then, with the reason in
        `stopped`.

    Raises:
        BucketUnavailable: The bucket cannot be reached, or not be listed.
        ListingFailed: It could not be listed to its end.
        DatabaseUnavailable: No connection can be made.
        NotEnoughRoom: The disk is full.
    """
    said: dict[str, Any] = {
        "bucket": options.bucket,
        "owns_whole_bucket": True,
        "endpoint_url": options.endpoint_url,
        "region": options.region,
        "addressing": "path" if options.endpoint_url else "auto",
        "min_age": "48h",
    }
    if all(os.environ.get(name) for name in KEYS.values()):
        said |= {which: {"env": name} for which, name in KEYS.items()}
    bucket = BucketSettings.model_validate(said, context={"environ": os.environ})
    with Scratch(options.scratch) as scratch:
        return _Scanner(options, bucket, scratch, on_progress).scan()


class _Scanner:
    def __init__(
        self,
        options: Options,
        bucket: BucketSettings,
        scratch: Scratch,
        on_progress: Callable[[str], None],
    ) -> None:
        self._options = options
        self._bucket = bucket
        self._scratch = scratch
        self._say = on_progress
        self._database = Database(options.database_url)
        self._client: S3Client = make_client(bucket)
        self._begun = datetime.now(timezone.utc)
        self._started = time.monotonic()
        self._doing = "connecting"
        self._versioning = "unknown"
        self._listed: Listed | None = None
        self._seen: list[Page] | None = None
        self._so_far = Amount()
        self._count = 0
        self._states = bytearray()
        self._places: list[int] = []
        self._keys: list[bytes] = []
        self._tables: dict[str, list[Table]] = {}
        self._types: dict[str, str] = {}
        self._leads: list[Lead] = []
        self._found: dict[int, Counts] = {}
        self._incomplete: dict[int, str] = {}
        self._shapes: list[Learnt] = []
        self._shape_counts: list[Counts] = []
        self._names: Spool | None = None
        self._unseen: list[Unseen] = []
        self._is_partial = False
        self._reasons: dict[int, str] = {}
        self._named: dict[bytes, str] = {}
        self._uploads: Uploads | None = None
        self._read_bytes = 0
        self._ends_at = 0.0
        self._read_seconds = 0.0

    def scan(self) -> Scan:
        stopped: str | None = None
        try:
            check_access(self._client, self._options.bucket)
            with closing(self._database.connect("scan")) as connection:
                connection.read_only = True
                self._catalogue(connection)
            self._versioning = read_versioning(self._client, self._options.bucket)
            self._list()
            self._look_at_uploads()
            begun = time.monotonic()
            self._ends_at = begun + self._options.max_time.total_seconds()
            try:
                with closing(self._database.connect("scan")) as connection:
                    connection.read_only = True
                    self._compare(connection)
                self._set_apart()
                self._look_elsewhere()
            finally:
                self._read_seconds = time.monotonic() - begun
        except KeyboardInterrupt:
            stopped = f"It was interrupted while {self._doing}."
        return self._result(stopped)

    def _now(self, doing: str) -> None:
        self._doing = doing
        self._say(doing)

    # The bucket ---------------------------------------------------------------------------------

    def _list(self) -> None:
        self._now("listing the bucket")
        if self._options.sample is not None:
            self._seen = self._sampled(self._options.sample)
        else:
            self._listed = list_objects(
                self._client,
                self._options.bucket,
                [self._options.prefix],
                parts=PARTS_AT_ONCE,
                scratch=self._scratch,
                on_progress=self._on_listing,
            )
        self._count = self._listed.objects if self._listed else sum(map(len, self._seen or ()))
        self._states = bytearray(self._count)
        step = max(1, self._count // MOST_LEARNT)
        chance = random.Random(self._count)  # noqa: S311 (a sample, no secret)
        following, place = chance.randrange(step), 0
        for page in self._pages():
            while following < place + len(page):
                self._places.append(following)
                self._keys.append(page.keys[following - place])
                following += chance.randrange(1, 2 * step)
            place += len(page)

    def _on_listing(self, progress: ListingProgress) -> None:
        self._so_far = Amount(objects=progress.objects, bytes=progress.bytes)
        self._say(f"listing the bucket: {progress.objects:,} objects")

    def _pages(self) -> Iterator[Page]:
        if self._listed is not None:
            return self._listed.pages()
        return iter(self._seen or ())

    def _sampled(self, wanted: int) -> list[Page]:
        """Pages from here and there."""
        chance = random.Random(wanted)  # noqa: S311 (a sample, no secret)
        reader = Reader(Asker(self._client, self._options.bucket))
        folders = self._folders(max(8, wanted // 2000))
        begun: set[str] = set()
        rows: dict[bytes, tuple[bytes, int, int, bytes]] = {}
        for _page in range(2 * -(-wanted // 1000) + len(folders)):
            folder = chance.choice(folders)
            after = None
            if folder in begun:
                after = (folder + "".join(chance.choices(_ALPHABET, k=2))).encode()
            begun.add(folder)
            rows.update(
                (row[0], row) for row in reader.read(folder.encode(), after=after).page.rows()
            )
            self._so_far = Amount(objects=len(rows), bytes=sum(row[1] for row in rows.values()))
            self._say(f"listing a sample of the bucket: {len(rows):,} objects")
            if len(rows) >= wanted:
                break
        return list(pages_of(iter([sorted(rows.values())])))

    def _folders(self, wanted: int) -> list[str]:
        """Some of the bucket's folders, level by level."""
        found, level = [self._options.prefix], [self._options.prefix]
        while level and len(found) < wanted:
            below: list[str] = []
            for folder in level[: max(1, wanted // 4)]:
                try:
                    answer = self._client.list_objects_v2(
                        Bucket=self._options.bucket, Prefix=folder, Delimiter="/"
                    )
                except Exception:  # noqa: BLE001 (a server without delimiters is sampled all the same)
                    return found
                below += [each["Prefix"] for each in answer.get("CommonPrefixes", [])]
            found += below
            level = below
        return found

    def _look_at_uploads(self) -> None:
        self._now("listing multipart uploads")
        count = old = 0
        oldest: datetime | None = None
        first: list[MultipartUpload] = []
        try:
            for upload in list_uploads(self._client, self._options.bucket, self._options.prefix):
                count += 1
                if upload.initiated is not None:
                    old += self._begun - upload.initiated > _WEEK
                    oldest = min(oldest or upload.initiated, upload.initiated)
                if len(first) < MOST_MEASURED:
                    first.append(upload)
        except ListingFailed as error:
            why = sanitize_exception(error, limit=300)
            self._unseen.append(Unseen(what="multipart uploads", why=why))
            return
        sizes = self._sizes(first)
        self._uploads = Uploads(
            uploads=count,
            over_a_week=old,
            oldest=oldest,
            bytes=sum(sizes) if sizes else None,
            measured=len(sizes),
            sample=tuple(display_key(upload.key) for upload in first[:SHOWN]),
        )

    def _sizes(self, uploads: Sequence[MultipartUpload]) -> list[int]:
        """Bytes of the parts of each upload, as far as they may be listed."""
        sizes = []
        for upload in uploads:
            try:
                parts = list_parts(self._client, self._options.bucket, upload.key, upload.upload_id)
            except (PartsUnknown, StorageRejected) as error:
                why = sanitize_exception(error, limit=300)
                self._unseen.append(Unseen(what="parts of multipart uploads", why=why))
                break
            sizes.append(parts.size if parts else 0)
        return sizes

    # The database -------------------------------------------------------------------------------

    def _catalogue(self, connection: Connection) -> None:
        self._now("looking at the database's tables")
        found = catalogue(connection, own_schema=None)
        for table in found.tables:
            self._tables.setdefault(str(table), []).append(table)
        for one in found.unsearched:
            self._unseen.append(Unseen(what=one.column, why=one.why, bytes=one.size))
        with connection.transaction():
            self._types = dict(connection.execute(_TYPES).fetchall())

    def _compare(self, connection: Connection) -> None:
        self._learn(connection)
        exact = [lead for lead in self._leads if lead.is_exact]
        self._read_exact(connection, sorted(exact, key=_worth))
        self._derive()
        others = [lead for lead in self._leads if not lead.is_exact]
        self._doubt(others)
        folders = [lead for lead in others if lead.kind == "folder"]
        self._read_owners(connection, sorted(folders, key=_worth))
        weak = [lead for lead in others if lead.kind != "folder"]
        unnamed = {place for place, at in enumerate(self._places) if not self._states[at]}
        weak = [lead for lead in weak if lead.keys & unnamed]
        self._read_owners(connection, sorted(weak, key=_worth))

    def _doubt(self, leads: Sequence[Lead]) -> None:
        """Do not believe owners below which other columns name the objects one by one."""
        named = {place for place, at in enumerate(self._places) if self._states[at]}
        for lead in leads:
            if lead.unsure is None and 2 * len(lead.keys & named) >= len(lead.keys):
                lead.unsure = "other columns name one by one what lies below what it names"

    def _learn(self, connection: Connection) -> None:
        self._now("indexing keys")
        learner = Learner(Index(self._keys))
        tables = list(chain.from_iterable(self._tables.values()))
        for number, table in enumerate(tables, 1):
            self._now(f"sampling table {number} of {len(tables)}: {table}")
            if time.monotonic() >= self._ends_at:
                self._miss(table, OVER_BUDGET)
                continue
            try:
                columns = self._sample(connection, table)
            except (psycopg.Error, UnicodeError) as error:
                self._miss(table, f"it could not be read: {sanitize_exception(error, limit=200)}")
                if connection.closed:
                    raise
                continue
            for place, values in enumerate(columns):
                learner.read(table, place, values)
        found = sorted(learner.leads(), key=lambda lead: -len(lead.keys))
        self._leads = found[:MOST_LEADS]
        _judge(self._leads)

    def _miss(self, table: Table, why: str) -> None:
        self._is_partial = True
        self._unseen.append(Unseen(what=f"{table}.*", why=why, bytes=table.size))

    def _sample(self, connection: Connection, table: Table) -> list[list[str]]:
        """Values of each column, from some places of a large table."""
        rows: list[tuple[Any, ...]] = []
        in_parts = table.in_parts and connection.info.server_version >= _TID_RANGES
        parts: list[tuple[int, int] | None] = [None]
        if in_parts and table.size > 4 * SAMPLE_BYTES:
            each = max(table.size / table.pages, 1)
            width = max(1, round(SAMPLE_BYTES / SAMPLED_PLACES / each))
            chance = random.Random(str(table))  # noqa: S311 (a sample, no secret)
            starts = sorted(chance.randrange(table.pages) for _ in range(SAMPLED_PLACES))
            parts = [(start, start + width) for start in starts]

        def read(cursor: psycopg.Cursor[Any], pages: tuple[int, int] | None) -> None:
            most = None if in_parts else MOST_ROWS
            names = [column.name for column in table.columns]
            rows.extend(cursor.execute(_query(table, names, pages, most)).fetchall())

        for part in parts:
            read_part(connection, read, part, STATEMENT_TIMEOUT)
        self._read_bytes += min(table.size, SAMPLE_BYTES if parts != [None] else table.size)
        if not rows:
            return []
        return [[each for each in column if each] for column in zip(*rows, strict=True)]

    def _read_exact(self, connection: Connection, leads: Sequence[Lead]) -> None:
        if not leads:
            return
        numbers = self._number(leads)
        sorter: Sorter[tuple[Any, ...]] = Sorter(self._scratch, "names")
        self._read(connection, leads, numbers, sorter)
        self._now("comparing with the listing")
        names = self._names = self._scratch.spool("named keys")
        held: list[tuple[bytes, int]] = []
        is_sample = self._listed is None
        for key, group in _groups([sorter.sorted_blocks(), self._rows()]):
            found, objects = _apart(group)
            if not found:
                continue
            held.append((key, found[0]))
            if len(held) >= MOST_ROWS:
                names.append(held)
                held = []
            for number in found:
                counts = self._found[number]
                counts.values += 1
                if objects:
                    counts.met += 1
                    counts.add(objects[0][2], alone=number == found[0])
                elif not is_sample and len(counts.sample) < SHOWN:
                    counts.sample.append(key)
            if objects:
                self._states[objects[0][1]] = found[0]
        if held:
            names.append(held)

    def _read_owners(self, connection: Connection, leads: Sequence[Lead]) -> None:
        if not leads or all(self._states):
            return
        numbers = self._number(leads)
        sorter: Sorter[tuple[Any, ...]] = Sorter(self._scratch, "owners")
        self._read(connection, leads, numbers, sorter)
        self._now("comparing with the listing")
        objects: Sorter[tuple[Any, ...]] = Sorter(self._scratch, "keys by owner")
        by_way: dict[tuple[str, Any], Lead] = {(it.kind, it.front): it for it in leads}
        for rows in self._rows():
            for key, place, size in rows:
                if self._states[place] == NOTHING:
                    made = {anchor for lead in by_way.values() for anchor in lead.anchors(key)}
                    objects.add((anchor, place, size) for anchor in made)
        for _, group in _groups([sorter.sorted_blocks(), objects.sorted_blocks()]):
            found, below = _apart(group)
            for number in found:
                counts = self._found[number]
                counts.values += 1
                counts.met += bool(below)
            for _, place, size in below if found else ():
                state = self._states[place]
                number = found[0]
                if state == NOTHING:
                    self._states[place] = number
                    self._found[number].add(size, alone=True)
                elif state < DERIVED and number < state:
                    self._states[place] = number
                    self._found[state].take(size)
                    self._found[number].add(size, alone=True)

    def _number(self, leads: Sequence[Lead]) -> dict[int, int]:
        """A number of its own for each lead, in their order."""
        first = len(self._found) + 1
        numbers = {id(lead): first + place for place, lead in enumerate(leads)}
        for lead in leads:
            self._found[numbers[id(lead)]] = Counts(lead)
            if lead.unsure:
                self._reasons[numbers[id(lead)]] = f"named only by {_named(lead)}: {lead.unsure}"
        return numbers

    def _read(
        self,
        connection: Connection,
        leads: Sequence[Lead],
        numbers: dict[int, int],
        sorter: Sorter[tuple[Any, ...]],
    ) -> None:
        """Read the columns of some leads to their end."""
        by_table: dict[str, list[Lead]] = {}
        for lead in leads:
            by_table.setdefault(str(lead.table), []).append(lead)
        for name, wanted in by_table.items():
            for table in self._tables[name]:
                why = self._read_table(connection, table, wanted, numbers, sorter)
                if why is not None:
                    self._miss(table, why)
                    for lead in wanted:
                        self._incomplete[numbers[id(lead)]] = why

    def _read_table(
        self,
        connection: Connection,
        table: Table,
        leads: Sequence[Lead],
        numbers: dict[int, int],
        sorter: Sorter[tuple[Any, ...]],
    ) -> str | None:
        columns = list(dict.fromkeys(lead.table.columns[lead.place].name for lead in leads))
        known = {column.name for column in table.columns}
        if not known.issuperset(columns):
            return "one of its partitions lacks a column"
        rows = 0

        def read(cursor: psycopg.Cursor[Any], pages: tuple[int, int] | None) -> None:
            nonlocal rows
            self._now(f"reading {table}: {rows:,} rows")
            for answer in _batches(cursor, _query(table, columns, pages, None)):
                rows += len(answer)
                for lead in leads:
                    place = columns.index(lead.table.columns[lead.place].name)
                    number = numbers[id(lead)]
                    names = lead.all_names(row[place] for row in answer)
                    sorter.add((name, -number) for name in names)

        why = read_in_parts(
            connection, table, read, ends_at=self._ends_at, pages_at_once=PAGES_AT_ONCE
        )
        self._read_bytes += table.size if why is None else 0
        return why

    def _rows(self) -> Iterator[list[tuple[bytes, int, int]]]:
        """(key, place, size) of every object, in the order of the keys."""
        place = 0
        for page in self._pages():
            places = range(place, place + len(page))
            yield list(zip(page.keys, places, page.sizes, strict=True))
            place += len(page)

    # Derived objects ----------------------------------------------------------------------------

    def _derive(self) -> None:
        unnamed = [place for place, at in enumerate(self._places) if self._states[at] == NOTHING][
            :: max(1, self._count // MOST_LEARNT)
        ]
        if not unnamed or self._names is None:
            return
        self._now("looking for objects made from others")
        if len(unnamed) > SHAPES_FROM:
            unnamed = unnamed[:: len(unnamed) // SHAPES_FROM + 1]
        spans = Spans({place: _text(self._keys[place]) for place in unnamed})
        for key, _number in chain.from_iterable(self._names.blocks()):
            spans.look_at(_text(key))
        own = {
            general(_text(self._keys[place]))
            for place, at in enumerate(self._places[:MOST_ROWS])
            if self._states[at]
        }
        self._shapes = spans.learn(own)[:MOST_SHAPES]
        self._shape_counts = [Counts(None) for _ in self._shapes]
        if self._shapes:
            self._apply_shapes()

    def _apply_shapes(self) -> None:
        derived = self._of_a_shape()
        owners: Sorter[tuple[Any, ...]] = Sorter(self._scratch, "owners of derived")
        used = {shape.form for shape in self._shapes}
        for block in self._names.blocks() if self._names else ():
            owners.add(
                (_form(form, form_of(_text(key), form)), -number)
                for key, number in block
                for form in used
            )
        for _, group in _groups([owners.sorted_blocks(), derived.sorted_blocks()]):
            numbers, below = _apart(group)
            if numbers:
                self._take_derived(numbers, below)

    def _of_a_shape(self) -> Sorter[tuple[Any, ...]]:
        """(owner's form, place, size, number of the shape, key) of what may be derived."""
        patterns = [(number, it, it.pattern()) for number, it in enumerate(self._shapes)]
        derived: Sorter[tuple[Any, ...]] = Sorter(self._scratch, "derived")
        for rows in self._rows():
            left = [row for row in rows if self._states[row[1]] == NOTHING]
            for number, shape, pattern in patterns:
                matches = ((pattern.fullmatch(_text(row[0])), row) for row in left)
                derived.add(
                    (_form(shape.form, match["owner"]), place, size, number, key)
                    for match, (key, place, size) in matches
                    if match is not None
                )
        return derived

    def _take_derived(self, numbers: Sequence[int], below: Sequence[tuple[Any, ...]]) -> None:
        """Judge what may be derived from what these leads name."""
        done: set[int] = set()
        for _, place, size, number, key in below:
            shape, counts = self._shapes[number], self._shape_counts[number]
            is_common = shape.form in ("name", "stem") and len(numbers) > 1
            sure = shape.unsure is None and not is_common
            state = self._states[place]
            if state not in (NOTHING, WEAKLY_DERIVED) or (state and not sure):
                continue
            if number not in done:
                done.add(number)
                counts.values += 1
            counts.add(size, alone=True)
            counts.sample = counts.sample or [key]
            # What is made from something unsure is as unsure.
            weak = numbers[0] in self._reasons
            self._states[place] = numbers[0] if weak else DERIVED if sure else WEAKLY_DERIVED

    # What is left -------------------------------------------------------------------------------

    def _set_apart(self) -> None:
        """Do not judge a folder of which no row names anything: another application may own it."""
        tops, sure = set[bytes](), self._sure
        for rows in self._rows():
            tops.update(_top(key) for key, place, _ in rows if self._states[place] in sure)
        for rows in self._rows():
            for key, place, _ in rows:
                if self._states[place] == NOTHING and _top(key) not in tops:
                    self._states[place] = APART

    @property
    def _sure(self) -> set[int]:
        """The states of what is certainly in use."""
        return {DERIVED} | {number for number in self._found if number not in self._reasons}

    def _look_elsewhere(self) -> None:
        """Look for the names of what nothing names, in every column, in every form."""
        left, count = self._unnamed()
        if not left:
            return
        self._now(f"looking for {len(left):,} names in every column")
        if self._ends_at - time.monotonic() <= 1:
            why = "the time for the database was over before it: see --max-time"
            self._unseen.append(Unseen(what="the names of what is left, in all columns", why=why))
            return
        search = Elsewhere(
            self._database,
            self._bucket,
            ends_at=self._ends_at,
            on_progress=lambda table, size: self._say(f"{self._doing}: {table}, {size:,} bytes"),
        )
        search.search([key for _, key in left])
        self._read_bytes += search.found.size
        known = {one.what for one in self._unseen}
        for one in search.found.unsearched:
            if one.column not in known:
                self._unseen.append(Unseen(what=one.column, why=one.why, bytes=one.size))
        named = search.found.named
        for place, key in left:
            if key in named:
                self._states[place] = NAMED
                self._named[key] = named[key].column
        if named and count > len(left):
            share = 100 * len(named) / len(left)
            self._reasons[NAMED] = (
                f"; of {count:,} objects that nothing names, {len(left):,} were looked for, and "
                f"{share:.1f} % of these are named: so may be as many of the others"
            )

    def _unnamed(self) -> tuple[list[tuple[int, bytes]], int]:
        """(place, key) of what nothing names, a sample of many; and how many there are."""
        left: list[tuple[int, bytes]] = []
        count, step = 0, 1
        for rows in self._rows():
            for key, place, _ in rows:
                if self._states[place] == NOTHING:
                    if count % step == 0:
                        left.append((place, key))
                    if len(left) > 2 * LOOKED_FOR:
                        left, step = left[::2], step * 2
                    count += 1
        return left, count

    # The result ---------------------------------------------------------------------------------

    def _result(self, stopped: str | None) -> Scan:
        self._now("counting")
        classes = self._class_of(is_partial=stopped is not None or self._is_partial)
        tally = Tally(self._begun)
        place = 0
        for page in self._pages():
            states = self._states[place : place + len(page)]
            tally.add(page, bytes(states), classes, self._why)
            place += len(page)
        if not place and self._so_far.objects:
            why = "they were listed, and nothing more"
            tally.guess(self._so_far, why)
        counted = [
            (self._found[number], number not in self._incomplete) for number in sorted(self._found)
        ]
        sources = sources_of(counted, self._types, is_sample=self._listed is None)
        shapes = shapes_of(list(zip(self._shapes, self._shape_counts, strict=True)))
        if self._versioning in ("enabled", "suspended"):
            why = "the bucket keeps old versions, which cost as much: only the current ones count"
            self._unseen.append(Unseen(what="old versions", why=why))
        why = "only this database was looked at; whatever else names objects of this bucket was not"
        self._unseen.append(Unseen(what="other databases", why=why))
        return Scan(
            at=self._begun,
            seconds=round(time.monotonic() - self._started, 1),
            stopped=stopped,
            database=self._database.address(),
            bucket=self._options.bucket,
            endpoint_url=self._options.endpoint_url,
            prefix=self._options.prefix,
            sampled=None if self._options.sample is None else len(self._seen or ()),
            versioning=self._versioning,
            total=tally.total(),
            sources=sources,
            shapes=shapes,
            prefixes=tally.prefixes(),
            months=tally.months(),
            ages=tally.ages(),
            uploads=self._uploads,
            unsure=tally.unsure(),
            unreferenced_sample=tally.unreferenced_sample,
            unseen=tuple(self._unseen),
            read_bytes=self._read_bytes,
            read_seconds=round(self._read_seconds, 1),
        )

    def _class_of(self, *, is_partial: bool) -> bytes:
        """The place of each state's class in `CLASSES`."""
        classes = bytearray(256)
        for number in self._found:
            classes[number] = 2 if number in self._reasons else 0
        classes[NOTHING] = 2 if is_partial else 3
        classes[DERIVED] = 1
        classes[WEAKLY_DERIVED] = classes[NAMED] = classes[APART] = 2
        return bytes(classes)

    def _why(self, state: int, key: bytes) -> str:
        if state == NOTHING:
            return "nothing names them so far: the scan did not come to its end"
        if state == APART:
            top = display_key(_text(_top(key)), 60)
            if top in (QUARANTINE, f"{MARKERS}/"):
                return f"this project keeps its own in {top}"
            return f"no row names anything in {top or 'the top folder'}: it may be another's"
        if state == WEAKLY_DERIVED:
            return "they look like something made from a named object, and may be so by accident"
        if state == NAMED:
            more = self._reasons.get(NAMED, "")
            column = self._named.get(key, "a column")
            return f"their name, or a part of it, stands in {column}{more}"
        return self._reasons[state]


@dataclass
class Counts:
    """What a lead, or a shape, has been found to name.

    Attributes:
        lead: Whose; None for a shape.
        values: Different names that were met; of a shape, its owners.
        met: How many of them are in the bucket.
        objects: Objects, and of these those that nothing before it names.
        sample: Names without an object, or one object of a shape.
    """

    lead: Lead | None
    values: int = 0
    met: int = 0
    objects: int = 0
    size: int = 0
    alone: int = 0
    alone_size: int = 0
    sample: list[bytes] = field(default_factory=list)

    def add(self, size: int, *, alone: bool) -> None:
        """Count an object."""
        self.objects += 1
        self.size += size
        if alone:
            self.alone += 1
            self.alone_size += size

    def take(self, size: int) -> None:
        """It is another one's."""
        self.alone -= 1
        self.alone_size -= size


def _judge(leads: Sequence[Lead]) -> None:
    """Say of each lead why it is not believed, where it is not."""
    folders = {
        front + core + b"/"
        for lead in leads
        if lead.kind == "folder"
        for core in lead.cores
        for front in lead.fronts
    }
    above = {folder[: cut.end()] for folder in folders for cut in re.finditer(b"/", folder[:-1])}
    for lead in leads:
        if lead.is_few:
            lead.unsure = "so few of its values name something that it may be an accident"
        elif _PAST.search(lead.table.known_as[1].lower()):
            lead.unsure = (
                "by its name its table is a cache or a history, which may name what is gone"
            )
        elif lead.is_ambiguous:
            lead.unsure = "the same names lie in several folders, and it does not say in which"
        elif lead.kind == "folder" and any(
            front + core + b"/" in above for core in lead.cores for front in lead.fronts
        ):
            lead.unsure = "it names wide folders, below which rows name folders of their own"


def _worth(lead: Lead) -> tuple[Any, ...]:
    kinds = ("key", "suffix", "folder", "name", "word")
    depth = lead.depth if lead.kind == "folder" else 0
    return (
        lead.unsure is not None,
        kinds.index(lead.kind),
        any(PART in how for how in lead.hows),
        2 * len(lead.values) < lead.of,
        -depth,
        -len(lead.keys),
        -lead.length,
    )


def _named(lead: Lead) -> str:
    return f"{lead.column}{f' ({lead.path})' if lead.path else ''}"


def _query(
    table: Table, names: Sequence[str], pages: tuple[int, int] | None, most: int | None
) -> sql.Composed:
    """Read some columns as text, cut where they are long."""
    by_name = {column.name: column for column in table.columns}
    columns = []
    for name in names:
        column = by_name[name]
        if column.kind == "bytes":
            of = sql.Identifier(name)
            read: sql.Composable = sql.SQL(
                "CASE WHEN octet_length({0}) <= {1} THEN encode({0}, 'hex') END"
            ).format(of, LONGEST_BYTES)
        elif column.kind == "nested":
            read = sql.SQL("left({}::text, {})").format(sql.Identifier(name), LONGEST_VALUE)
        else:
            read = sql.SQL("left({}, {})").format(column.read(), LONGEST_VALUE)
        columns.append(read)
    query = sql.SQL("SELECT {} FROM {} {}").format(
        sql.SQL(", ").join(columns),
        sql.SQL("" if table.with_partitions else "ONLY"),
        sql.Identifier(table.schema, table.name),
    )
    if pages is not None:
        query += sql.SQL(" WHERE ctid >= {} AND ctid < {}").format(
            sql.Literal(f"({pages[0]},0)"), sql.Literal(f"({pages[1]},0)")
        )
    if most is not None:
        query += sql.SQL(" LIMIT {}").format(most)
    return query


def _batches(cursor: psycopg.Cursor[Any], query: sql.Composed) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a query, of which few are held at a time, also where it reads a whole table."""
    with cursor.connection.cursor("filejobs_scan") as held:
        held.execute(query)
        while rows := held.fetchmany(MOST_ROWS):
            yield rows


def _groups(
    streams: Sequence[Iterator[Any]],
) -> Iterator[tuple[bytes, Iterator[tuple[Any, ...]]]]:
    return groupby(chain.from_iterable(merge(streams)), key=_key)


def _apart(group: Iterator[tuple[Any, ...]]) -> tuple[list[int], list[tuple[Any, ...]]]:
    """(numbers of the leads, each once and in order; objects) of what has one key."""
    items = list(group)
    if len(items) == 1 and len(items[0]) > 2:  # noqa: PLR2004 (an object alone)
        return [], items
    numbers = {-item[1] for item in items if len(item) == 2}  # noqa: PLR2004 (a name)
    return sorted(numbers), [item for item in items if len(item) > 2]  # noqa: PLR2004


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _top(key: bytes) -> bytes:
    """The first folder of a key; empty when it lies in none."""
    return key[: key.find(b"/") + 1]


def _form(form: str, text: str) -> bytes:
    return f"{form}:{text}".encode("utf-8", "surrogateescape")
