"""Reads every key that is in use: the project's own tables, then every source of the operator.

One snapshot for all sources of a database: a key that moves from one table to another while they
are read would otherwise be missed by both. Nothing is written there, no temporary table either,
and no process holds all keys. Whatever goes wrong raises, so that no key is absent by accident.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import TupleRow, tuple_row

from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable, one
from filejobs_dagster.references.copying import SourceGroup, copied_blocks, grouped, only_column
from filejobs_dagster.references.operator import OperatorQuery, ReferencesUnknown, Source
from filejobs_dagster.references.own_tables import OWN_TABLES, OwnTable
from filejobs_dagster.references.plans import tables_of
from filejobs_dagster.references.reference_set import SAMPLES, ReferenceSet, SourceCount
from filejobs_dagster.references.replica import (
    WAIT,
    ReplicaState,
    catch_up,
    keep_open,
    require_nothing_exchanged,
)
from filejobs_dagster.references.transforms import Transforms
from filejobs_dagster.streams import Sorter
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from filejobs_dagster.streams import Scratch, Spool

STATEMENT_TIMEOUT = timedelta(hours=4)
LOCK_TIMEOUT = timedelta(seconds=10)

MEMORY_FOR_AWAITED = 8 * 1024 * 1024
"""Bytes: open reservations are few beside all keys."""

_AS_IS = Transforms()


class BulkReferences:
    """All sources of one bucket, to be read as a whole."""

    def __init__(
        self,
        primary: Database,
        sources: Sequence[Source] = (),
        *,
        scratch: Scratch,
        owned: tuple[bytes, ...] = (b"",),
        own_tables: Sequence[OwnTable] = OWN_TABLES,
        statement_timeout: timedelta = STATEMENT_TIMEOUT,
        replica_wait: timedelta = WAIT,
        made_before: datetime | None = None,
        on_rows: Callable[[str, int], None] = lambda _source, _rows: None,
    ) -> None:
        """Prepare the sources; nothing is sent yet.

        Args:
            primary: The project's database.
            sources: The operator's queries, in addition to the project's own tables. Each may have
                `transforms`, a `database` of its own and a replica to `read_from`.
            scratch: Where the keys are sorted and kept.
            owned: Prefixes; how many of a source's keys lie in them is counted. Every key is kept,
                wherever it lies.
            own_tables: The project's own tables.
            statement_timeout: Limit of one query.
            replica_wait: How long a replica may take to catch up with its primary.
            made_before: By the primary's clock: of the project's own tables, the keys of rows that
                were made before are counted beside all.
            on_rows: Told a source's name and its rows so far, about every 10,000 rows and at its
                end; it may raise to stop the read.

        Raises:
            ReferencesUnknown: A source's SQL is not one query.
        """
        self._groups = grouped(primary, own_tables, [OperatorQuery(source) for source in sources])
        self._schema = primary.schema
        self._scratch = scratch
        self._owned = owned
        self._statement_timeout = statement_timeout
        self._replica_wait = replica_wait
        self._made_before = made_before
        self._on_rows = on_rows

    def read(self) -> ReferenceSet:
        """Read all sources, in snapshots that are not older than this call.

        Call it after the listing: a reference that was made while the bucket was listed must be
        seen.

        Raises:
            ReferencesUnknown: A source failed, returns other than one column of text or bytea, has
                fewer keys than its `min_rows`, or its replica lags behind.
            NotEnoughRoom: The scratch folder's disk is full.
        """
        sorter: Sorter[bytes] = Sorter(self._scratch, "references")
        awaited: Sorter[bytes] = Sorter(self._scratch, "awaited", memory=MEMORY_FOR_AWAITED)
        written = self._scratch.spool("references-as-written")
        counts: dict[str, SourceCount] = {}
        moments: dict[str, datetime] = {}
        replicas: dict[str, ReplicaState] = {}
        for group in self._groups:
            with self._connected(group, replicas) as connection, _reading(group.whom):
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                with (
                    connection.transaction(),
                    psycopg.RawCursor(connection, row_factory=tuple_row) as cursor,
                ):
                    moments[group.whom] = self._prepare(cursor, primary=not group.replica_of)
                    for table in group.own:
                        keys = _Keys(_AS_IS, self._owned, sorter, written)
                        self._copy(cursor, table.name, table.keys(self._schema), keys)
                        keys.count.tables = frozenset({table.name})
                        keys.count.older = self._made_earlier(cursor, table)
                        counts[table.name] = keys.count
                        self._read_awaited(cursor, table, keys.count.rows, awaited)
                    for query in group.queries:
                        counts[query.name] = self._read_query(
                            cursor, query, sorter, written, awaited
                        )
                    require_nothing_exchanged(cursor, group.whom)
        written.finish()
        kept = self._kept("references", sorter)
        return ReferenceSet(
            keys=kept.count,
            per_source=counts,
            read_at=moments,
            replicas=replicas,
            _sorted=kept,
            _written=written,
            _awaited=self._kept("awaited", awaited),
        )

    def _made_earlier(self, cursor: psycopg.RawCursor[TupleRow], table: OwnTable) -> int | None:
        counting = table.count_made_before(self._schema)
        if counting is None or self._made_before is None:
            return None
        with _reading(table.name):
            return int(one(cursor.execute(counting.encode(), (self._made_before,)))[0])

    def _read_awaited(
        self,
        cursor: psycopg.RawCursor[TupleRow],
        table: OwnTable,
        rows: int,
        awaited: Sorter[bytes],
    ) -> None:
        """Read, in the same snapshot, which of a table's keys need not have an object."""
        query = table.awaited_keys(self._schema)
        if query is None:
            return
        with _reading(table.name), closing(copied_blocks(cursor, query)) as blocks:
            for block in blocks:
                awaited.add(filter(None, block))
                self._on_rows(table.name, rows)

    def _read_query(
        self,
        cursor: psycopg.RawCursor[TupleRow],
        query: OperatorQuery,
        sorter: Sorter[bytes],
        written: Spool,
        awaited: Sorter[bytes],
    ) -> SourceCount:
        # An owner need not be an object, as the key of an upload that may still come.
        need_none = awaited if query.names_owners else None
        keys = _Keys(query.transforms, self._owned, sorter, written, need_none)
        with _reading(query.name):
            column = only_column(cursor, query)
            if query.url is None:
                keys.count.tables = tables_of(cursor, query.keys(column))
        self._copy(cursor, query.name, query.keys(column), keys)
        if keys.count.keys < query.min_rows:
            raise ReferencesUnknown(
                f"Source {query.name!r} returned {keys.count.keys} keys in {keys.count.rows} rows, "
                f"and at least {query.min_rows} are expected. An empty source would make every "
                "object look unreferenced, so nothing is concluded. Check its SQL, its transforms, "
                "the rights of this role and the search path; if so few are normal, lower its "
                "min_rows (`min_rows: 0` for a source that may be empty)."
            )
        return keys.count

    def _copy(
        self, cursor: psycopg.RawCursor[TupleRow], name: str, query: str, keys: _Keys
    ) -> None:
        with _reading(name), closing(copied_blocks(cursor, query)) as blocks:
            for block in blocks:
                keys.add(block)
                self._on_rows(name, keys.count.rows)
        self._on_rows(name, keys.count.rows)

    @contextmanager
    def _connected(
        self, group: SourceGroup, replicas: dict[str, ReplicaState]
    ) -> Iterator[psycopg.Connection[Any]]:
        with ExitStack() as stack:
            with _reading(group.whom):
                connection = stack.enter_context(
                    closing(group.database.connect(f"read {group.whom}"))
                )
                if group.replica_of is not None:
                    origin = stack.enter_context(
                        closing(group.replica_of.connect(f"compare {group.whom}"))
                    )
                    state = catch_up(
                        origin,
                        connection,
                        group.whom,
                        wait=self._replica_wait,
                        while_waiting=lambda: self._on_rows(group.whom, 0),
                    )
                    origin.close()
                    if state is not None:
                        replicas[group.whom] = state
            yield connection

    def _prepare(self, cursor: psycopg.RawCursor[TupleRow], *, primary: bool) -> datetime:
        row = one(
            cursor.execute(
                b"""
                SELECT set_config('statement_timeout', $1, true),
                       set_config('lock_timeout', $2, true),
                       set_config('client_encoding', 'UTF8', true),
                       -- A policy that hides rows raises, instead of making keys look unreferenced.
                       set_config('row_security', 'off', true),
                       pg_is_in_recovery(),
                       clock_timestamp()
                """,
                (_milliseconds(self._statement_timeout), _milliseconds(LOCK_TIMEOUT)),
            )
        )
        *_, is_replica, moment = row
        keep_open(cursor)
        if primary and is_replica:
            raise ReferencesUnknown(
                "This connection leads to a replica, which may lack references that the primary "
                "already has. Connect to the primary (`target_session_attrs=read-write`), and name "
                "a replica only as `read_from`."
            )
        found: datetime = moment
        return found

    def _kept(self, name: str, sorter: Sorter[bytes]) -> Spool:
        kept = self._scratch.spool(name)
        for block in sorter.sorted_blocks(unique=True):
            kept.append(block)
        kept.finish()
        return kept


class _Keys:
    """Turns a source's values into keys, counts them, and hands them to the sort."""

    def __init__(
        self,
        transforms: Transforms,
        owned: tuple[bytes, ...],
        sorter: Sorter[bytes],
        written: Spool,
        need_no_object: Sorter[bytes] | None = None,
    ) -> None:
        self._need_no_object = need_no_object
        self._transforms = transforms
        self._owned = owned
        self._sorter = sorter
        self._written = written
        self.count = SourceCount(owners=need_no_object is not None)

    def add(self, values: list[bytes]) -> None:
        present = list(filter(None, values))
        keys = present
        if self._transforms.steps:
            transformed = list(map(self._transforms.apply, present))
            keys = list(filter(None, transformed))
            changed = [
                value
                for value, key in zip(present, transformed, strict=True)
                if key and key != value
            ]
            if changed:
                self._written.append(changed)
        self._sorter.add(keys)
        if self._need_no_object is not None:
            self._need_no_object.add(keys)
        self.count.rows += len(values)
        self.count.keys += len(keys)
        self.count.null_or_empty += len(values) - len(keys)
        self.count.in_owns += sum(key.startswith(self._owned) for key in keys)
        if len(self.count.samples) < SAMPLES:
            self.count.samples += tuple(keys[: SAMPLES - len(self.count.samples)])


@contextmanager
def _reading(whom: str) -> Iterator[None]:
    """Turn a failure of the database into the one answer from which nothing may be concluded."""
    try:
        yield
    except (psycopg.Error, DatabaseUnavailable, UnicodeError, LookupError, OSError) as error:
        raise ReferencesUnknown(
            f"Source {whom!r} could not be read to its end: {sanitize_exception(error, limit=1000)}"
            ". Which keys it names is not known, so nothing is concluded; see that its SQL runs "
            "with this role's rights and in the time that it is given."
        ) from error


def _milliseconds(duration: timedelta) -> str:
    return f"{round(duration.total_seconds() * 1000)}ms"
