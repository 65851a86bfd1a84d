"""Asks every source whether it names a key.

An error, a timeout or a source that looks empty is never "no reference": each of them raises.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row
from psycopg.types.array import ListBinaryDumper

from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.primary import server_state
from filejobs_dagster.references.copying import copied_blocks, only_column
from filejobs_dagster.references.near import INSIDE, Sieve
from filejobs_dagster.references.operator import Column, OperatorQuery, ReferencesUnknown, Source
from filejobs_dagster.references.own_tables import (
    OWN_TABLES,
    TABLE,
    Claim,
    OwnTable,
    as_parameters,
    without_claimed,
)
from filejobs_dagster.references.plans import reads_of
from filejobs_dagster.references.replica import require_nothing_exchanged
from filejobs_dagster.text import display_key, sanitize, sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

    from filejobs_dagster.postgres.primary import ServerState
    from filejobs_dagster.references.near import ReferenceForms

__all__ = ["ReferenceCheck", "ReferencesUnknown"]

STATEMENT_TIMEOUT = timedelta(minutes=5)
LOCK_TIMEOUT = timedelta(seconds=10)

READING_TIMEOUT = timedelta(hours=1)
"""Limit of reading one source from end to end."""

HOLDS_FOR_TIMES = 10
"""So many times as long as it took to read a source is what it said believed."""

PROBE = "filejobs/preflight"
"""A key to ask for; whether a source names it does not matter."""


SAMPLES = 500
"""So many of the first keys of a source, and as many by chance, must be known to its own check."""

SAMPLED_AMONG = 100_000
"""Rows: those by chance are taken from so many, so that no table is read as a whole."""


class ReferenceCheck:
    """Every source of one bucket: the project's own tables, then those of the operator.

    Each call is a READ ONLY transaction of its own on the primary, which sees whatever was
    committed before the call; one for each database that sources are in. It is REPEATABLE READ: a
    key that moves from one source to another meanwhile must not be missed by both. A source with
    its own `database` is asked over a connection of the check's own, opened when it is first
    needed and kept until `close`.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any] | Callable[[], psycopg.Connection[Any]],
        sources: Sequence[Source] = (),
        *,
        schema: str = "public",
        statement_timeout: timedelta = STATEMENT_TIMEOUT,
        recognise: Callable[[str, ServerState], None] | None = None,
    ) -> None:
        """Prepare the sources; nothing is sent yet.

        Args:
            connection: Outside a transaction at each call. A connection with uncommitted changes
                would see rows as gone that others still see. Or what gives one, made anew where
                it had broken: a question that met a broken one is then asked once more.
            sources: The operator's queries, in addition to the project's own tables.
            schema: Where the project's own tables are. The operator's SQL is run with the
                connection's own search path.
            statement_timeout: Limit of one query.
            recognise: Told after each transaction which server answered in it at an address that is
                not the connection's; it raises when that one is not to be believed. None believes.

        Raises:
            ReferencesUnknown: A source's SQL is not one query.
        """
        self._give = connection if callable(connection) else lambda: connection
        self._once_more = callable(connection)
        self._connection: psycopg.Connection[Any] | None = None
        self._own = OWN_TABLES
        queries = [OperatorQuery(source) for source in sources]
        self._queries = tuple(query for query in queries if query.url is None)
        self._elsewhere: dict[str, list[OperatorQuery]] = {}
        for query in queries:
            if query.url is not None:
                self._elsewhere.setdefault(query.url, []).append(query)
        self._connections: dict[str, psycopg.Connection[Any]] = {}
        self._schema = schema
        self._statement_timeout = statement_timeout
        self._recognise = recognise
        self._columns: dict[str, Column] = {}
        self._sieves: dict[str, tuple[Sieve, float]] = {}
        self.samples: dict[str, dict[str, bytes]] = {}
        """What `examine` saw of each source of the operator: keys, with the value of their row."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that the check has opened itself; a later call opens new ones."""
        while self._connections:
            _, connection = self._connections.popitem()
            connection.close()

    @property
    def queries_here(self) -> tuple[str, ...]:
        """The SQL of the operator's sources in the project's own database."""
        return tuple(query.source.sql for query in self._queries)

    def examine(self) -> tuple[str, ...]:
        """Prove of every source that it answers, shows every row, and knows its own keys.

        Returns:
            Remarks, in sentences without a full stop: what of the sources cannot be looked into.

        Raises:
            ReferencesUnknown: A source failed, returns other than one column of text or bytea, or
                has fewer keys than its `min_rows`; or something in a query may hide rows, and
                nobody has checked that by hand; or a key that a source yields is none that it
                knows.
        """
        remarks: list[str] = []
        for cursor, tables, queries in self._by_database():
            for table in tables:
                self._named_by_table(cursor, table, _storable([]))
            for query in queries:
                remarks += self._require_every_row(cursor, query)
                self._require_own_keys(cursor, query)
        return tuple(remarks)

    def named(
        self, keys: Sequence[str], *, claims: Sequence[Claim] = ()
    ) -> dict[str, tuple[str, ...]]:
        """Return those of the keys that a source names, with the names of all such sources.

        Keys are compared byte by byte. NULL and the empty string name nothing.

        Args:
            keys: Exact keys.
            claims: Rows of `upload` that do not count while the caller's claim on them holds;
                asked in the same snapshot.

        Raises:
            ReferencesUnknown: As `examine`; no key of the call may then be deleted.
        """
        wanted = [key for key in dict.fromkeys(keys) if key]
        if not wanted:
            return {}
        names: dict[str, list[str]] = {}
        storable = _storable(wanted)
        for cursor, tables, queries in self._by_database():
            for table in tables:
                for key in self._named_by_table(cursor, table, storable, claims):
                    names.setdefault(key, []).append(table.name)
            for query in queries:
                for key in self._named_by_query(cursor, query, wanted):
                    names.setdefault(key, []).append(query.name)
        return {key: tuple(names[key]) for key in wanted if key in names}

    def judged(
        self, keys: Sequence[str], forms: ReferenceForms, *, claims: Sequence[Claim] = ()
    ) -> dict[str, str]:
        """Return those of the keys that must stay, and why: a source names them, or comes near.

        In one snapshot, every source is asked for the keys and for their `spellings`. Of the
        operator's sources, besides, every value that is anything but a plain key of ours is read
        and folded. What that found holds for ten times as long as it took, so that it never takes
        more than a tenth of the time of a run.

        Args:
            keys: Exact keys.
            forms: Says what is near, with what the bucket owns.
            claims: As in `named`.

        Returns:
            Key to `referenced by NAMES`, or `ambiguous: near NAME (WHAT DIFFERS)`.

        Raises:
            ReferencesUnknown: As `examine`; no key of the call may then be deleted.
        """
        wanted = [key for key in dict.fromkeys(keys) if key]
        if not wanted:
            return {}
        try:
            return self._judged(wanted, forms, claims)
        except ReferencesUnknown:
            broken = self._connection is not None and self._connection.closed
            if not (broken and self._once_more):
                raise
        return self._judged(wanted, forms, claims)

    def _judged(
        self, wanted: Sequence[str], forms: ReferenceForms, claims: Sequence[Claim]
    ) -> dict[str, str]:
        near_to = _Spelled(wanted, forms)
        storable = _storable(near_to.all_spellings)
        for cursor, tables, queries in self._by_database():
            for table in tables:
                near_to.found(table.name, self._named_by_table(cursor, table, storable, claims))
            for query in queries:
                # The operator's own check may not understand what is no key at all.
                asked = near_to.plain_spellings if query.recheck_sql else near_to.all_spellings
                near_to.found(query.name, self._named_by_query(cursor, query, asked))
                kept = self._sieves.get(query.name)
                sieve = self._sieve(cursor, query, forms)
                if kept is not None and sieve is kept[0] and near_to.sifted(sieve):
                    # What was read may be gone since: the row of the caller's own claim, for one.
                    sieve = self._sieve(cursor, query, forms, again=True)
                near_to.sift(query.name, sieve)
        return near_to.reasons()

    def _sieve(
        self,
        cursor: psycopg.RawCursor[TupleRow],
        query: OperatorQuery,
        forms: ReferenceForms,
        *,
        again: bool = False,
    ) -> Sieve:
        """The forms of all values of a source but those that are plain keys of ours."""
        known = self._sieves.get(query.name)
        now = time.monotonic()
        if known is not None and now < known[1] and not again:
            return known[0]
        sieve = Sieve()
        transforms = query.transforms
        with _answering(query.name):
            _limit(cursor, READING_TIMEOUT)
            for block in copied_blocks(cursor, query.keys(self._column(cursor, query))):
                values = list(filter(None, block))
                keys = list(filter(None, map(transforms.apply, values)))
                sieve.add(form for form, _ in forms.other_forms(keys))
                if transforms.steps:
                    # A transform may lead away from the key that a row has right.
                    sieve.add(set(values).difference(keys))
            _limit(cursor, self._statement_timeout)
        taken = time.monotonic() - now
        self._sieves[query.name] = (sieve, now + taken + HOLDS_FOR_TIMES * taken)
        return sieve

    def _by_database(
        self,
    ) -> Iterator[tuple[psycopg.RawCursor[TupleRow], Sequence[OwnTable], Sequence[OperatorQuery]]]:
        """What is asked of each database, with a cursor in a transaction there."""
        with _answering("the project's own tables"):
            self._connection = self._give()
        with self._transaction(self._connection) as cursor:
            yield cursor, self._own, self._queries
        for url, queries in self._elsewhere.items():
            whom = ", ".join(query.name for query in queries)
            with self._transaction(self._reached(url, whom), whom) as cursor:
                here = None if self._recognise is None else server_state(cursor)
                yield cursor, (), queries
            if self._recognise is not None and here is not None:
                # Not before: it may look with a connection of its own, which a pool of one lacks.
                with _answering(whom):
                    self._recognise(url, here)

    def _reached(self, url: str, whom: str) -> psycopg.Connection[Any]:
        """The check's own connection to a database, opened again when it has broken."""
        known = self._connections.get(url)
        if known is None or known.closed:
            with _answering(whom):
                known = Database(url).connect(f"references {whom}")
            self._connections[url] = known
        return known

    # Sources ----------------------------------------------------------------------------------

    def _named_by_table(
        self,
        cursor: psycopg.RawCursor[TupleRow],
        table: OwnTable,
        storable: _Many,
        claims: Sequence[Claim] = (),
    ) -> list[str]:
        with _answering(table.name):
            if claims and table.table == TABLE:
                cursor.execute(
                    without_claimed(table.query(self._schema)), (storable, *as_parameters(claims))
                )
            else:
                cursor.execute(table.query(self._schema), (storable,))
            return [key for (key,) in cursor]

    def _named_by_query(
        self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery, keys: Sequence[str]
    ) -> list[str]:
        by_bytes = {key.encode("utf-8"): key for key in keys if _encodes(key)}
        column = self._column(cursor, query)
        if query.recheck_sql is not None:
            named = _rechecked(cursor, query, by_bytes)
        else:
            named = _matched(cursor, query, column, by_bytes)
        # Afterwards: a source that is emptied while it is asked looks as if it named nothing.
        self._require_rows(cursor, query)
        return [by_bytes[key] for key in named]

    def _require_rows(self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery) -> None:
        column = self._column(cursor, query)
        with _answering(query.name):
            cursor.execute(query.count(column), (max(query.min_rows, 1),))
            row = cursor.fetchone()
        found = row[0] if row else 0
        if found < query.min_rows:
            raise ReferencesUnknown(
                f"Source {query.name!r} returned {found} keys, and at least {query.min_rows} are "
                "expected. An empty source would make every object look unreferenced, so nothing "
                "is deleted. Check its SQL, the rights of this role and the search path; if so "
                "few are normal, lower its min_rows (`min_rows: 0` for a source that may be empty)."
            )

    def _require_every_row(
        self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery
    ) -> list[str]:
        """Look for what may hide rows, and return what remains to be said of it."""
        column = self._column(cursor, query)
        with _answering(query.name):
            looked = [reads_of(cursor, query.keys(column))]
            if query.recheck_sql is not None:
                looked.append(reads_of(cursor, query.recheck(), ([PROBE],)))
        doubted = ", ".join(dict.fromkeys(it for reads in looked for it in reads.doubted))
        opaque = ", ".join(dict.fromkeys(it for reads in looked for it in reads.opaque))
        if doubted and not query.rows_checked_by_hand:
            raise ReferencesUnknown(
                f"Source {query.name!r} reads {doubted}. Whether rows are hidden there cannot be "
                "seen from here, and an object that a hidden row names would look unreferenced. "
                "Ask the table itself (with `database`, where it is on another server). Only when "
                "you have made sure that every row is shown, write `rows_checked_by_hand: true`."
            )
        said = [f"{query.name} reads {doubted}: checked by hand"] if doubted else []
        if opaque:
            said.append(f"{query.name} calls {opaque}, and which rows that reads is not seen here")
        return said

    def _require_own_keys(self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery) -> None:
        """Ask for keys that the source has just returned, in the snapshot that returned them."""
        column = self._column(cursor, query)
        with _answering(query.name):
            cursor.execute(query.samples(column), (SAMPLES, SAMPLED_AMONG))
            values = [bytes(value) for (value,) in cursor]
        keys: dict[str, bytes] = {}
        for value in values:
            key = _as_text(query.transforms.apply(value))
            if key:
                keys.setdefault(key, value)
        self.samples[query.name] = keys
        # The very statement that decides later: too slow for some keys is too slow.
        known = set(self._named_by_query(cursor, query, list(keys) or [PROBE]))
        unknown = [key for key in keys if key not in known]
        if not unknown:
            return
        key = unknown[0]
        written = keys[key].decode("utf-8", "backslashreplace")
        raise ReferencesUnknown(
            f"Source {query.name!r} says that {display_key(key)!r} is in use (its row says "
            f"{display_key(written)!r}), and its own check before a deletion does not know that "
            f"key; it does not know {len(unknown)} of {len(keys)} samples. Their objects would "
            "look unreferenced. "
            + (
                "Let recheck_sql return those of the keys in $1 that are in use as they stand in "
                "the bucket, which is what sql and transforms make of a row."
                if query.recheck_sql is not None
                else "Its SQL does not return the same rows twice: leave out what depends on "
                "chance, on an order or on the moment."
            )
        )

    def _column(self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery) -> Column:
        """Look at what the source returns, once per check."""
        if query.name not in self._columns:
            with _answering(query.name):
                self._columns[query.name] = only_column(cursor, query)
        return self._columns[query.name]

    # Transactions -----------------------------------------------------------------------------

    @contextmanager
    def _transaction(
        self, connection: psycopg.Connection[Any], whom: str = "the database"
    ) -> Iterator[psycopg.RawCursor[TupleRow]]:
        with _answering(whom):
            status = connection.info.transaction_status
        if status is not TransactionStatus.IDLE:
            raise ReferencesUnknown(
                f"References were to be read on a connection that is {status.name}, not IDLE: it "
                "would see its own uncommitted changes. Commit first, or use another connection."
            )
        # The outer guard sees a COMMIT that fails; inner ones have named the source by then.
        with (
            _answering(whom),
            connection.transaction(),
            psycopg.RawCursor(connection, row_factory=tuple_row) as cursor,
        ):
            cursor.adapters.register_dumper(_Many, ListBinaryDumper)
            self._prepare(cursor)
            yield cursor
            try:
                require_nothing_exchanged(cursor, whom)
            except ReferencesUnknown:
                # They may have been read in that very snapshot.
                self._sieves.clear()
                raise

    def _prepare(self, cursor: psycopg.RawCursor[TupleRow]) -> None:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        cursor.execute(
            """
            SELECT set_config('statement_timeout', $1, true),
                   set_config('lock_timeout', $2, true),
                   -- A policy that hides rows raises, instead of making keys look unreferenced.
                   set_config('row_security', 'off', true),
                   pg_is_in_recovery()
            """,
            (_milliseconds(self._statement_timeout), _milliseconds(LOCK_TIMEOUT)),
        )
        row = cursor.fetchone()
        if row is None or row[-1]:
            raise ReferencesUnknown(
                "This connection leads to a replica, which may lack references that the primary "
                "already has. Connect to the primary (`target_session_attrs=read-write`)."
            )


class _Many(list[Any]):
    """Values of one parameter that goes in binary form: as text, each is searched for quotes."""


class _Spelled:
    """Some keys and how else a value may spell them; gathers what the sources say."""

    def __init__(self, keys: Sequence[str], forms: ReferenceForms) -> None:
        self._forms = forms
        self._of: dict[str, list[tuple[str, str]]] = {}
        self.keys = list(keys)
        encodable = [key for key in keys if _encodes(key)]
        self._sought = {key: forms.sought(key.encode("utf-8")) for key in encodable}
        for key in encodable:
            for spelling, differs in forms.spellings(key).items():
                self._of.setdefault(spelling, []).append((key, differs))
        self.all_spellings = list(dict.fromkeys((*keys, *self._of)))
        self._names: dict[str, list[str]] = {}
        self._near: dict[str, str] = {}

    @cached_property
    def plain_spellings(self) -> list[str]:
        """A value that is plain, so not read for its forms, is one of these or near to no key."""
        encodable = filter(_encodes, self.keys)
        others = {text for key in encodable for text in self._forms.plain_spellings(key)}
        return list(dict.fromkeys((*self.keys, *others)))

    def found(self, name: str, values: Iterable[str]) -> None:
        """Take note of what a source names."""
        exact = frozenset(self.keys)
        for value in values:
            if value in exact:
                self._names.setdefault(value, []).append(name)
            for key, differs in self._of.get(value, ()):
                self._near.setdefault(key, near(name, differs))

    def sift(self, name: str, sieve: Sieve) -> None:
        """Take note of what a source may name in a form that cannot be listed."""
        for key in self.sifted(sieve):
            self._near[key] = near(name, INSIDE)

    def sifted(self, sieve: Sieve) -> list[str]:
        """The keys that the source may name so, and of which nothing is noted yet."""
        return [
            key
            for key, sought in self._sought.items()
            if key not in self._near and any(form in sieve for form in sought)
        ]

    def reasons(self) -> dict[str, str]:
        """Why each of those must stay that must; an exact name before a near one."""
        said = {key: f"referenced by {', '.join(names)}" for key, names in self._names.items()}
        return {
            key: said.get(key) or self._near[key]
            for key in self.keys
            if key in said or key in self._near
        }


def near(name: str, differs: str) -> str:
    """Why a key stays to which a source comes near."""
    return f"ambiguous: near {name} ({differs})"


def _limit(cursor: psycopg.RawCursor[TupleRow], timeout: timedelta) -> None:
    cursor.execute("SELECT set_config('statement_timeout', $1, true)", (_milliseconds(timeout),))


def _matched(
    cursor: psycopg.RawCursor[TupleRow],
    query: OperatorQuery,
    column: Column,
    keys: Iterable[bytes],
) -> set[bytes]:
    """Those of the keys that a value of the query becomes."""
    keys_of: dict[bytes, list[bytes]] = {}
    for key in keys:
        for value in query.transforms.inverse(key) or ():
            keys_of.setdefault(value, []).append(key)
    values = _Many(keys_of)
    # A text column holds no NUL and nothing that is no UTF-8, so it cannot name such a key.
    texts = _Many(text for value in values if (text := _as_text(value)) is not None)
    with _answering(query.name):
        cursor.execute(query.matches(column), (values,) if column.is_bytes else (values, texts))
        return {key for (value,) in cursor for key in keys_of[bytes(value)]}


def _rechecked(
    cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery, keys: Mapping[bytes, str]
) -> set[bytes]:
    """Those of the keys that the operator's own check calls in use."""
    storable = [text for key in keys if (text := _as_text(key)) is not None]
    with _answering(query.name):
        cursor.execute(query.recheck(), (storable,))
        named = {found for (key,) in cursor if key is not None and (found := bytes(key)) in keys}
    # What cannot be asked about may be in use: a transform may have decoded it.
    return named | {key for key in keys if _as_text(key) is None}


def _as_text(value: bytes) -> str | None:
    """The value as a text column could hold it, or None."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


@contextmanager
def _answering(source: str) -> Iterator[None]:
    """Turn whatever goes wrong into the one answer that lets nothing be deleted."""
    try:
        yield
    except ReferencesUnknown:
        raise
    except DatabaseUnavailable as error:
        # Its own message says everything; as a cause it would be told again.
        raise ReferencesUnknown(
            f"Source {source!r} could not be asked which keys it names, so nothing is deleted. "
            f"{sanitize(str(error), limit=1000)}"
        ) from None
    except Exception as error:
        raise ReferencesUnknown(
            f"Source {source!r} could not be asked which keys it names: "
            f"{sanitize_exception(error, limit=1000)}. Nothing is deleted on that ground; see "
            "that its SQL runs with this role's rights and in the time that it is given."
        ) from error


def _storable(keys: Iterable[str]) -> _Many:
    """A text column holds neither NUL nor what is no UTF-8, so it cannot name such a key."""
    return _Many(key for key in keys if "\x00" not in key and _encodes(key))


def _encodes(key: str) -> bool:
    if key.isascii():
        return True
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _milliseconds(duration: timedelta) -> str:
    return f"{round(duration.total_seconds() * 1000)}ms"
