"""Looks for the names of candidates in every column of every database that the settings name.

One COPY for each part of a table, in its binary form, of all its columns together; what arrives is
searched here, for all forms of all candidates at once. One snapshot for all parts of a database: a
row that moves from a part that is still to come to one that was read would otherwise be missed. No
lock is kept from one part to the next, and nothing is written. What cannot be searched is named: it
is never taken for "nothing was found".
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections import Counter
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from ahocorasick_rs import BytesAhoCorasick

from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.references.copying import grouped
from filejobs_dagster.references.elsewhere.columns import (
    Catalogue,
    Unsearched,
    catalogue,
    fingerprint,
)
from filejobs_dagster.references.elsewhere.forms import Needles, folders_of_many
from filejobs_dagster.references.operator import OperatorQuery, ReferencesUnknown
from filejobs_dagster.references.replica import catch_up, keep_open, require_nothing_exchanged
from filejobs_dagster.text import display_key, sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence

    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.references.elsewhere.columns import Table
    from filejobs_dagster.references.elsewhere.forms import Layer
    from filejobs_dagster.references.transforms import Transforms
    from filejobs_dagster.settings.storage import BucketSettings

MOST_AT_ONCE = 20_000
"""Candidates that are looked for together, in about 250 MB of memory. Of more, a pass looks for a
sample; the rest is looked for before it is deleted."""

PAGES_AT_ONCE = 8192
"""64 MB of a table that keeps nothing apart."""

FIRST_PAGES = 1024

A_STATEMENT = 0.25
"""Seconds that a statement should take, with what is done here with its rows: the number of pages
follows from the one before. A long one holds a lock, and what waits for that lock, up."""

STATEMENT_TIMEOUT = timedelta(seconds=10)
LONGEST_WHOLE = timedelta(minutes=10)
"""Of a statement that cannot be made shorter."""

LOCK_TIMEOUT = timedelta(seconds=5)

MOST_SHOWN = 50
"""Columns that a record names."""

FOR_IGNORED = 10.0
"""Seconds that ignored columns may take, or as many as all others took."""

OVER_BUDGET = "the time of the search was over before it"

_BLOCK = 1 << 20
_TID_RANGES = 140_000
_HEADER = 19
_MOST_NAMED = 5


ReadsPart: TypeAlias = "Callable[[psycopg.Cursor[Any], tuple[int, int] | None], None]"
"""Reads the rows of some pages of a table, or of all."""


@dataclass(frozen=True)
class OwnRows:
    """The rows of a table by which candidates are known: no other place that names them.

    Attributes:
        database: Its address (`Database.address`).
        schema: Of the table.
        table: Its name.
        column: Which of its columns holds the key.
        transforms: How a value becomes the key.
    """

    database: str
    schema: str
    table: str
    column: str
    transforms: Transforms


@dataclass(frozen=True)
class Naming:
    """Where a candidate is named.

    Attributes:
        column: `schema.table.column`.
        how: What a source would have to say to name the key, as a line of the settings.
    """

    column: str
    how: str


@dataclass(frozen=True)
class NamingColumn:
    """A column that names candidates.

    Attributes:
        column: `schema.table.column`.
        count: How many.
        sample: One of them.
        how: The line of the settings that would declare it, for that one.
    """

    column: str
    count: int
    sample: bytes
    how: str

    def as_detail(self) -> dict[str, Any]:
        """A row of the record."""
        return {
            "column": self.column,
            "candidates": self.count,
            "sample": display_key(self.sample.decode("utf-8", "backslashreplace")),
            "declare": self.how,
        }


@dataclass
class Found:
    """What searches have found together.

    Attributes:
        candidates: How many the pass had.
        asked: Those of the pass that were looked for, and of all others the last ones.
        named: Where each of those is named that is.
        only_ignored: Those of the others that a column names which the settings ignore: they may
            go, and nothing but that column speaks for them.
        looked_for: How many were, with those that are remembered no more.
        unsearched: What could not be searched.
        idle: Entries of the settings that match no column.
        columns: How many were read, and of how many tables.
        fingerprint: Of all columns that there were to be searched.
        tables: See `columns`.
        size: Bytes of these tables.
        seconds: How long it took.
        whole_only: Candidates that were looked for by their whole key alone.
    """

    candidates: int = 0
    asked: set[bytes] = field(default_factory=set)
    named: dict[bytes, Naming] = field(default_factory=dict)
    only_ignored: dict[bytes, Naming] = field(default_factory=dict)
    looked_for: int = 0
    unsearched: tuple[Unsearched, ...] = ()
    idle: tuple[str, ...] = ()
    columns: int = 0
    fingerprint: str = ""
    tables: int = 0
    size: int = 0
    seconds: float = 0.0
    whole_only: int = 0
    _before: dict[str, NamingColumn] = field(default_factory=dict)
    _ignored_before: dict[str, NamingColumn] = field(default_factory=dict)

    def forget(self, but: Collection[bytes]) -> None:
        """Keep of what was looked for the counts alone, and a sample for each column.

        Args:
            but: These are remembered.
        """
        kept = set(but)
        gone = {key: self.named.pop(key) for key in self.named.keys() - kept}
        self._before = {it.column: it for it in _by_column(gone, self._before)}
        gone = {key: self.only_ignored.pop(key) for key in self.only_ignored.keys() - kept}
        self._ignored_before = {it.column: it for it in _by_column(gone, self._ignored_before)}
        self.asked.intersection_update(but)

    def as_detail(self) -> dict[str, Any]:
        """What the record says of it."""
        return {
            "named_elsewhere": [column.as_detail() for column in self.by_column()[:MOST_SHOWN]],
            "only_ignored": [
                column.as_detail() for column in self.by_ignored_column()[:MOST_SHOWN]
            ],
            "unsearched": [
                {"column": one.column, "why": one.why, "bytes": one.size}
                for one in self.unsearched[:MOST_SHOWN]
            ],
            "search": {
                "candidates": self.candidates,
                "looked_for": self.looked_for,
                "by_whole_key_only": self.whole_only,
                "found": sum(column.count for column in self.by_column()),
                "only_in_ignored": sum(it.count for it in self.by_ignored_column()),
                "tables": self.tables,
                "columns": self.columns,
                "fingerprint": self.fingerprint,
                "bytes": self.size,
                "seconds": round(self.seconds, 1),
                "columns_not_searched": len(self.unsearched),
                "ignored_in_vain": list(self.idle[:MOST_SHOWN]),
            },
        }

    def by_column(self) -> list[NamingColumn]:
        """The columns that name candidates, those with the most first."""
        return _by_column(self.named, self._before)

    def by_ignored_column(self) -> list[NamingColumn]:
        """The ignored columns that alone name candidates, those with the most first."""
        return _by_column(self.only_ignored, self._ignored_before)

    def most_ignored(self) -> NamingColumn | None:
        """The ignored column that alone names the most candidates, as far as the sample tells."""
        first = next(iter(self.by_ignored_column()), None)
        if first is None:
            return None
        return replace(first, count=first.count * self.candidates // max(1, self.looked_for))


def _by_column(
    named: Mapping[bytes, Naming], before: Mapping[str, NamingColumn]
) -> list[NamingColumn]:
    """What names these, added to what was counted before; those with the most first."""
    counts = Counter(naming.column for naming in named.values())
    first: dict[str, bytes] = {}
    for key, naming in named.items():
        first.setdefault(naming.column, key)
    found: list[NamingColumn] = []
    for column in dict.fromkeys([*before, *counts]):
        if column in before:
            known = before[column]
            found.append(replace(known, count=known.count + counts[column]))
        else:
            key = first[column]
            found.append(NamingColumn(column, counts[column], key, named[key].how))
    return sorted(found, key=lambda it: -it.count)


def unsearched_in_words(unsearched: Sequence[Unsearched]) -> str:
    """What could not be searched, in a sentence; the first few by name."""
    named = "; ".join(map(str, unsearched[:_MOST_NAMED]))
    more = len(unsearched) - _MOST_NAMED
    return f"Not searched: {named}{f'; and {more:,} more' if more > 0 else ''}."


class Elsewhere:
    """The search of one bucket's candidates, for one run."""

    def __init__(
        self,
        primary: Database,
        bucket: BucketSettings,
        *,
        ends_at: float = math.inf,
        on_progress: Callable[[str, int], None] = lambda _table, _bytes: None,
        statement_timeout: timedelta = STATEMENT_TIMEOUT,
        pages_at_once: int = PAGES_AT_ONCE,
        own_rows: Sequence[OwnRows] = (),
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            primary: The project's database.
            bucket: Its sources say which databases there are, and `named_elsewhere` what else.
            ends_at: By the monotonic clock: no search goes on after it.
            on_progress: Told each table and the bytes read so far; it may raise to stop.
            statement_timeout: Of each statement; what is too slow is read in smaller parts.
            pages_at_once: Of a table, at most.
            own_rows: Of candidates that rows name: where these rows are. What else a row says of
                its own object counts for nothing; what another one says does.
        """
        self._own_rows = own_rows
        self._places = _places(primary, bucket)
        self._owned = [prefix.encode() for prefix in bucket.owned_prefixes]
        self._settings = bucket.named_elsewhere
        self._ends_at = ends_at
        self._on_progress = on_progress
        self._statement_timeout = statement_timeout
        self._pages_at_once = pages_at_once
        self._of_many: set[Layer] = set()
        self._of_pass: frozenset[bytes] = frozenset()
        self.found = Found()

    def look(self) -> Mapping[str, Catalogue | str]:
        """What a search would read, by database; in words why one cannot be looked into."""
        return {label: self._catalogue(place) for label, place in self._places.items()}

    def _catalogue(self, place: _Place) -> Catalogue | str:
        try:
            with closing(place.database.connect("look for columns")) as connection:
                return self._columns(connection, place)
        except (psycopg.Error, DatabaseUnavailable) as error:
            return sanitize_exception(error, limit=500)

    def look_for(
        self, blocks: Iterator[list[bytes]], references: Iterator[Sequence[bytes]]
    ) -> dict[bytes, bytes]:
        """Look for the candidates of a pass: all of them, or a sample where they are too many.

        Args:
            blocks: All of them.
            references: Blocks of the keys that sources name, in order, each once: a folder whose
                files are named one by one is not what a row means that holds its name alone.

        Returns:
            Those that a column names, with the column.
        """
        step, held, count = 1, list[bytes](), 0
        for key in chain.from_iterable(blocks):
            if count % step == 0:
                held.append(key)
                if len(held) > MOST_AT_ONCE:
                    held, step = held[::2], step * 2
            count += 1
        self.found.candidates = count
        # What is looked for later, in a folder that no sample came from, is found by its folder.
        self._of_many = folders_of_many(held, step, references, self._owned)
        self.search(held)
        self._of_pass = frozenset(held)
        return {key: naming.column.encode() for key, naming in self.found.named.items()}

    def search(self, keys: Sequence[bytes]) -> None:
        """Look for candidates that were not looked for before, and add it to what was found.

        Args:
            keys: Candidates, about `MOST_AT_ONCE` for what memory and one reading are worth. What
                was found of all of these is known until the next search, however many there are.
        """
        wanted = [key for key in dict.fromkeys(keys) if key not in self.found.asked]
        if not wanted:
            return
        # A run may look for a million, one search after another, and asks of each only right after.
        self.found.forget(self._of_pass.union(keys))
        for start in range(0, len(wanted), MOST_AT_ONCE):
            self._search_portion(wanted[start : start + MOST_AT_ONCE])

    def _search_portion(self, wanted: Sequence[bytes]) -> None:
        started = time.monotonic()
        ends_at = min(self._ends_at, started + self._settings.max_time.total_seconds())
        needles = Needles(wanted, self._owned, self._of_many, of_rows=bool(self._own_rows))
        work = _Work(wanted, needles, self._owned)
        unsearched: dict[str, Unsearched] = {}
        catalogues: list[Catalogue] = []
        ignored: list[tuple[str, _Place, tuple[Table, ...]]] = []
        idle: set[str] | None = None
        for label, place in self._places.items():
            work.own_rows = self._own_rows_in(label)
            try:
                with self._snapshot(place) as connection:
                    found = self._search_database(connection, place, work, ends_at)
            except (psycopg.Error, DatabaseUnavailable, ReferencesUnknown) as error:
                why = f"it could not be searched: {sanitize_exception(error, limit=500)}"
                unsearched[label] = Unsearched(f"the database of {label}", why)
                continue
            catalogues.append(found)
            ignored.append((label, place, found.ignored_tables))
            unsearched |= {one.column: one for one in found.unsearched}
            idle = set(found.idle) if idle is None else idle & set(found.idle)
        known = self.found
        known.asked.update(wanted)
        known.looked_for += len(wanted)
        known.named |= work.named
        known.columns, known.tables, known.size = work.columns, work.tables, work.size
        # Whoever ignores all wants nothing read.
        if not any(one.column == "*" for one in self._settings.ignore):
            took = max(time.monotonic() - started, FOR_IGNORED)
            known.only_ignored |= self._search_ignored(
                ignored, work, min(ends_at, time.monotonic() + took)
            )
        known.unsearched = tuple(
            ({one.column: one for one in known.unsearched} | unsearched).values()
        )
        known.fingerprint = fingerprint(catalogues)
        known.idle = tuple(sorted(idle or ()))
        known.seconds += time.monotonic() - started
        known.whole_only += needles.whole_only

    def _own_rows_in(self, label: str) -> dict[tuple[str, str, str], Transforms]:
        return {
            (own.schema, own.table, own.column): own.transforms
            for own in self._own_rows
            if own.database == label
        }

    def _search_ignored(
        self, ignored: Sequence[tuple[str, _Place, Sequence[Table]]], work: _Work, ends_at: float
    ) -> dict[bytes, Naming]:
        """Who is named in ignored columns alone: looked for last, and as far as the time goes."""
        kept, work.named = work.named, {}
        for label, place, tables in ignored:
            if not tables:
                continue
            work.own_rows = self._own_rows_in(label)
            # They need not be searched: what cannot be is no finding.
            with (
                suppress(psycopg.Error, DatabaseUnavailable, ReferencesUnknown),
                self._snapshot(place) as connection,
            ):
                for table in tables:
                    self._search_table(connection, table, work, ends_at)
        return {key: naming for key, naming in work.named.items() if key not in kept}

    @contextmanager
    def _snapshot(self, place: _Place) -> Iterator[Connection]:
        """A connection in a transaction that only reads, and that outlasts a pause."""
        with ExitStack() as stack:
            connection = stack.enter_context(
                closing(place.database.connect("look for names elsewhere"))
            )
            if place.replica_of is not None:
                origin = stack.enter_context(
                    closing(place.replica_of.connect("compare with its replica"))
                )
                catch_up(origin, connection, "named_elsewhere")
                origin.close()
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            stack.enter_context(connection.transaction())
            keep_open(stack.enter_context(connection.cursor()))
            yield connection

    def _search_database(
        self, connection: Connection, place: _Place, work: _Work, ends_at: float
    ) -> Catalogue:
        found = self._columns(connection, place)
        left: list[Unsearched] = []
        for table in found.tables:
            why = self._search_table(connection, table, work, ends_at)
            if why is not None:
                whole = f"{table}.*"
                left.append(Unsearched(whole, why, table.size))
        return replace(found, unsearched=(*found.unsearched, *left))

    def _columns(self, connection: Connection, place: _Place) -> Catalogue:
        patterns = [one.column for one in self._settings.ignore]
        return catalogue(connection, patterns, own_schema=place.own_schema)

    def _search_table(
        self, connection: Connection, table: Table, work: _Work, ends_at: float
    ) -> str | None:
        """Search one table; why not, or not to its end, otherwise."""

        def read(cursor: psycopg.Cursor[Any], pages: tuple[int, int] | None) -> None:
            self._on_progress(str(table), work.size)
            work.read(cursor, table, pages)
            require_nothing_exchanged(cursor, str(table))

        why = read_in_parts(
            connection,
            table,
            read,
            ends_at=ends_at,
            statement_timeout=self._statement_timeout,
            pages_at_once=self._pages_at_once,
        )
        if why is None:
            work.end(table)
        return why


def read_in_parts(
    connection: Connection,
    table: Table,
    read: ReadsPart,
    *,
    ends_at: float,
    statement_timeout: timedelta = STATEMENT_TIMEOUT,
    pages_at_once: int = PAGES_AT_ONCE,
) -> str | None:
    """Read a table in short statements, each with a timeout, and no lock from one to the next.

    Args:
        connection: To its database.
        table: What is read.
        read: Given a cursor, and the first page and the one behind the last of a part, or None for
            the whole table. Called again for a smaller part after one that was too slow.
        ends_at: By the monotonic clock: nothing is begun after it.
        statement_timeout: Of each statement.
        pages_at_once: At most.

    Returns:
        Why it was not read, or not to its end; None when it was.

    Raises:
        psycopg.Error: The connection is gone.
    """
    in_parts = table.in_parts and connection.info.server_version >= _TID_RANGES
    # Of a table that keeps most of its bytes apart, a page stands for more than 8 KB.
    limit = max(1, pages_at_once * table.pages * 8192 // max(table.size, 1))
    most = max(1, min(limit, FIRST_PAGES * limit // pages_at_once))
    at, timeout = 0, statement_timeout
    if not in_parts:
        limit, most, timeout = table.pages, table.pages, LONGEST_WHOLE
    # Pages that are added meanwhile hold rows that the snapshot does not see.
    while at < table.pages:
        if time.monotonic() >= ends_at:
            return OVER_BUDGET
        until = at + most
        # The last part has no end: a table that was rewritten meanwhile may be longer.
        pages = (at, until if until < table.pages else 0xFFFFFFFF) if in_parts else None
        begun = time.monotonic()
        try:
            read_part(connection, read, pages, timeout)
        except psycopg.errors.QueryCanceled as error:
            if in_parts and most > 1:
                most = max(1, most // 2)
            elif timeout < LONGEST_WHOLE:
                timeout = LONGEST_WHOLE
            else:
                return f"it was too slow: {sanitize_exception(error, limit=200)}"
            continue
        except (psycopg.DatabaseError, ReferencesUnknown) as error:
            if connection.closed:
                raise
            return _why_unread(error)
        at = until
        faster = A_STATEMENT / max(time.monotonic() - begun, 0.001)
        most = max(1, min(limit, round(most * min(2, max(0.5, faster)))))
    return None


def read_part(
    connection: Connection, read: ReadsPart, pages: tuple[int, int] | None, timeout: timedelta
) -> None:
    """Read one part of a table, as `read_in_parts` does."""
    # Rolled back to where it began, it gives back the lock on the table.
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        _prepare(cursor, timeout)
        read(cursor, pages)


def _why_unread(error: psycopg.DatabaseError | ReferencesUnknown) -> str:
    if isinstance(error, ReferencesUnknown):
        return str(error)
    if isinstance(error, psycopg.errors.UndefinedTable):
        # Under a new name it may name as much as before.
        return "there is no table of that name any more: it was dropped or renamed"
    return f"it could not be read: {sanitize_exception(error, limit=300)}"


def _prepare(cursor: psycopg.Cursor[Any], timeout: timedelta) -> None:
    cursor.execute(
        """
        SELECT set_config('statement_timeout', %s, true),
               set_config('lock_timeout', %s, true),
               set_config('client_encoding', 'UTF8', true),
               -- A policy that hides rows raises, instead of hiding what they name.
               set_config('row_security', 'off', true)
        """,
        (_milliseconds(timeout), _milliseconds(LOCK_TIMEOUT)),
    )


def _milliseconds(duration: timedelta) -> str:
    return f"{round(duration.total_seconds() * 1000)}ms"


class _Work:
    """The matching of what arrives, for one set of candidates."""

    def __init__(self, keys: Sequence[bytes], needles: Needles, owned: Sequence[bytes]) -> None:
        self._keys = keys
        self._needles = needles.needles
        self._owned = owned
        self._matcher = BytesAhoCorasick(needles.patterns)
        self._done: set[int] = set()
        self.own_rows: Mapping[tuple[str, str, str], Transforms] = {}
        self.named: dict[bytes, Naming] = {}
        self.tables = self.columns = self.size = 0

    def end(self, table: Table) -> None:
        """Count a table that was read to its end."""
        self.tables += 1
        self.columns += len(table.columns)
        self.size += table.size

    def read(
        self, cursor: psycopg.Cursor[Any], table: Table, pages: tuple[int, int] | None
    ) -> None:
        """Read rows and search them, in blocks that end with a row."""
        query = table.query(pages)
        rows: list[bytes] = []
        held, first = 0, True
        with cursor.copy(b"COPY (" + query.as_bytes(cursor) + b") TO STDOUT (FORMAT binary)") as it:
            for piece in it:
                row = bytes(piece)
                if first:
                    row, first = row[_HEADER:], False
                rows.append(row)
                held += len(row)
                if held >= _BLOCK:
                    self._match(rows, table)
                    rows, held = [], 0
        self._match(rows, table)

    def _match(self, rows: list[bytes], table: Table) -> None:
        block = b"".join(rows).lower()
        hits = self._matcher.find_matches_as_indexes(block, overlapping=True)
        if not hits:
            return
        starts = [0, *accumulate(map(len, rows))]
        for pattern, start, end in hits:
            if pattern in self._done:
                continue
            place = bisect_right(starts, start) - 1
            found = _field(rows[place], start - starts[place], end - starts[place])
            if found is None:
                continue
            column, value, at = found
            own = self._own_keys(rows[place], table) if self.own_rows else {}
            # What this column holds is asked of each deletion, as the sources are.
            if column not in own:
                self._hit(pattern, table, column, value, at, at + end - start, own.values())

    def _own_keys(self, row: bytes, table: Table) -> dict[int, bytes]:
        """The keys by which the row is a candidate's own, by their column."""
        wanted = {
            place: steps
            for place, column in enumerate(table.columns)
            if (steps := self.own_rows.get((*table.known_as, column.name))) is not None
        }
        return {
            place: wanted[place].apply(value)
            for place, (value, _) in enumerate(_fields(row) if wanted else ())
            if place in wanted and value is not None
        }

    def _hit(
        self,
        pattern: int,
        table: Table,
        column: int,
        value: bytes,
        start: int,
        end: int,
        own: Container[bytes],
    ) -> None:
        lowered = value.lower()
        needles = self._needles[pattern]
        for needle in needles:
            before = (needle.keys, dict(needle.by_rest)) if own else None
            for place in needle.take(lowered, start, end):
                key = self._keys[place]
                if key in own:
                    # Another row may still name it.
                    needle.keys, needle.by_rest = before or ([], {})
                elif key not in self.named:
                    how = _line(table, column, value, key, self._owned)
                    self.named[key] = Naming(table.column(column), how)
        if all(needle.is_spent for needle in needles):
            self._done.add(pattern)


def _field(row: bytes, start: int, end: int) -> tuple[int, bytes, int] | None:
    """(column, value, place in it) of a hit; None for one that is not inside of a value."""
    for column, (value, at) in enumerate(_fields(row)):
        if value is not None and at <= start and end <= at + len(value):
            return column, value, start - at
    return None


def _fields(row: bytes) -> Iterator[tuple[bytes | None, int]]:
    """The values of a row, as COPY sends it, each with its place; None for NULL."""
    at = 2
    while at + 4 <= len(row):
        size = int.from_bytes(row[at : at + 4], "big", signed=True)
        at += 4
        yield (row[at : at + size] if size >= 0 else None), at
        at += max(size, 0)


def _line(table: Table, column: int, value: bytes, key: bytes, owned: Sequence[bytes]) -> str:
    """The source that would name the key, as far as one value shows it."""
    name, (schema, of) = table.columns[column].name, table.known_as
    # Shown to people, and not sent.
    sql = f"select {quoted(name)} from {quoted(schema)}.{quoted(of)}"  # noqa: S608
    steps = _steps(value, key, owned) if table.columns[column].kind == "text" else None
    if steps is not None:
        return f"- {{name: {of}_{name}, sql: '{sql}'{steps}}}"
    return f"- {{name: {of}_{name}, sql: '…'}}, whose sql takes the key out of {table}.{name}"


def _steps(value: bytes, key: bytes, owned: Sequence[bytes]) -> str | None:
    """The transforms that make the value the key; None when it takes more than one step."""
    if value == key:
        return ""
    if value and key.endswith(value):
        front = key[: -len(value)]
        if front in owned:
            return f", transforms: [{{prepend: {front.decode()}}}]"
    if value.endswith(key):
        base = value[: -len(key)].decode("utf-8", "replace")
        return f", transforms: [{{strip_base: ['{base}']}}]"
    return None


def quoted(name: str) -> str:
    """An identifier for people: in quotes only where it needs them."""
    plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class _Place:
    """A database to search."""

    database: Database
    own_schema: str | None
    replica_of: Database | None


def _places(primary: Database, bucket: BucketSettings) -> dict[str, _Place]:
    """The databases of all sources and of `named_elsewhere`, each once; replicas where declared."""
    found: dict[str, _Place] = {}
    groups = grouped(primary, (), [OperatorQuery(source) for source in bucket.sources])
    # A replica takes the place of its primary.
    for group in sorted(groups, key=lambda group: group.replica_of is None):
        home = group.replica_of or group.database
        schema = primary.schema if home.address() == primary.address() else None
        found.setdefault(home.address(), _Place(group.database, schema, group.replica_of))
    for other in bucket.named_elsewhere.databases:
        database = Database(other.url.reveal())
        found.setdefault(database.address(), _Place(database, None, None))
    return found
