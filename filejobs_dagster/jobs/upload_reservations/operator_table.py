"""A table of the operator's as the source of reservations, and the judgement of its claims.

A claim must have returned exactly what it was asked for, or nothing counts.
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import tuple_row

from filejobs_dagster.jobs.collecting.declared import Statements, statements_of
from filejobs_dagster.jobs.collecting.detail import (
    NO_KEY,
    NO_USABLE_TIME,
    NONE_FURTHER,
    NOTHING_CLAIMED,
    ROLLED_BACK,
    RowsHeld,
    SourceRefused,
    because,
    kept_row,
    refusing,
)
from filejobs_dagster.jobs.table_retention.resolving import table_named
from filejobs_dagster.jobs.upload_reservations.claims import doubt_about
from filejobs_dagster.jobs.upload_reservations.file_table import ClaimUnconfirmed, Reservation
from filejobs_dagster.jobs.upload_reservations.operator_statements import (
    Candidates,
    Ids,
    Shape,
    claim_query,
    explained,
    ids,
    prepare,
    shape_of,
    shape_query,
    tables_changed,
    values_for_a_look,
)
from filejobs_dagster.jobs.upload_reservations.statements import BEGINNING
from filejobs_dagster.postgres.connect import database_now, reached
from filejobs_dagster.postgres.replica_identity import HINT
from filejobs_dagster.postgres.replica_identity import refusing as refusing_publications
from filejobs_dagster.references.elsewhere.search import OwnRows
from filejobs_dagster.references.transforms import Transforms
from filejobs_dagster.settings.conditions import name_of
from filejobs_dagster.settings.tables import (
    RowRuleSettings,
    RowsSettings,
    TableSettings,
    sources_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from uuid import UUID

    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.collecting.declared import AlsoDeleted
    from filejobs_dagster.jobs.upload_reservations.claims import Doubt
    from filejobs_dagster.jobs.upload_reservations.settings import ReservationSourceSettings
    from filejobs_dagster.postgres.connect import Connection, Database, Reachable
    from filejobs_dagster.settings.tables import DependentTableSettings

    Raw = psycopg.RawCursor[TupleRow]

# Judging what an operator's claim returned: exactly what it was asked for, or nothing counts.

UNIQUE_KEYS = "Return each reservation once, and give each object a key of its own."


def rounds(wanted: Sequence[Reservation]) -> Iterator[list[Reservation]]:
    """Split rows so that no key stands twice in one claim: its answer tells rows by their keys."""
    left = list(wanted)
    while left:
        distinct = {row.key: row for row in reversed(left)}
        yield list(distinct.values())
        left = [row for row in left if distinct[row.key] is not row]


def matched(
    source: str, wanted: Sequence[Reservation], returned: Sequence[str | None]
) -> list[Reservation]:
    """Find the row of each key that a claim returned.

    Args:
        source: What the source is called.
        wanted: The rows that the claim was asked for, no two of one key.
        returned: The keys.

    Raises:
        SourceRefused: The claim returned something else; its transaction must not commit.
    """
    by_key = {row.key: row for row in wanted}
    problem = None
    if len(returned) > len(wanted):
        problem = f"returned {len(returned)} rows for {len(wanted)} ids: compare id with $1"
    elif None in returned:
        problem = "returned NULL as a key: return the key as it was before the claim"
    elif not set(returned) <= set(by_key):
        problem = (
            "returned a key that was no candidate: compare id with $1, and return the same "
            "column as the candidate query; or the row was given another key meanwhile"
        )
    elif len(set(returned)) < len(returned):
        problem = "returned a key twice"
    if problem is not None:
        raise SourceRefused(
            f"The claim of source {source!r} {problem}. It was rolled back: no row was changed "
            f"and no bytes were deleted. {UNIQUE_KEYS}"
        )
    return [by_key[key] for key in returned if key is not None]


def _keys(each: AlsoDeleted, cursor: Raw) -> list[str]:
    """The keys of rows that a statement has returned."""
    values = [value for (value,) in cursor.fetchall() if value is not None]
    return [each.transforms.apply(value.encode()).decode() for value in values]


class OperatorTable:
    """Reservations by the operator's own statements; each call is one transaction.

    Their statements run with the search path of the role, not with that of the project's tables.
    """

    def __init__(
        self,
        settings: ReservationSourceSettings | TableSettings | RowRuleSettings,
        database: Database,
        connection: Reachable,
        *,
        after: timedelta = timedelta(0),
        records: tuple[Database, Reachable] | None = None,
        leave_out: Sequence[str] | None = None,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            settings: The statements, or the table that they are written from.
            database: Where the rows are.
            connection: An open connection to it, outside a transaction at each call.
            after: How long after the time that a row has it is due.
            records: Where progress and audit are, when that is another database.
            leave_out: Columns that the event of a row leaves out; None where it holds no row.
        """
        self._leave_out = leave_out
        self._rows: dict[str, str] = {}
        self._settings = settings
        self._database = database
        self._reachable = connection
        self._records = records
        self._after = after
        self._transforms = Transforms.of(getattr(settings, "transforms", ()))
        self._known_statements: Statements | None = None
        self._known_shape: Shape | None = None
        self._also_deleted: Counter[str] = Counter()
        self._keys_beside: list[str] = []
        self._claim_leaves_none = False
        self._table: str | None = None

    @property
    def table(self) -> str | None:
        """Schema and name of the one table that the claim changes in the project's database."""
        return self._table

    @property
    def name(self) -> str:
        """What the settings call it."""
        return self._settings.name

    @property
    def _connection(self) -> Connection:
        return reached(self._reachable)

    @property
    def by_hand(self) -> bool:
        """True when no declaration stands behind the statements."""
        return not isinstance(self._settings, RowsSettings)

    @property
    def elsewhere(self) -> bool:
        """True when the rows are in another database than the audit log."""
        return self._records is not None

    @property
    def _left_by_a_claim(self) -> str:
        """What stands when a claim is committed, and nobody heard of it."""
        if isinstance(self._settings, RowRuleSettings):
            return "as the rule says; the audit event rows.intent says which were meant"
        return (
            "gone and their objects are left; the audit event objects.delete.intent names the "
            "keys. No bytes were deleted"
        )

    def facts(self, reservation: Reservation) -> dict[str, Any]:
        """The source and the row's id, and the row where it is kept."""
        known = {"source": self._settings.name, "row_id": str(reservation.id)}
        if not isinstance(self._settings, TableSettings):
            return known
        row = self._rows.get(str(reservation.id))
        return {**known, **kept_row(row, self._settings.table, self._leave_out)}

    def also_deleted(self) -> dict[str, int]:
        """Rows of other tables that the newest claim has deleted, by table."""
        return dict(self._also_deleted)

    def keys_beside(self, rows: Sequence[Reservation] | None = None) -> list[str]:
        """Keys that rows of other tables name which go with some rows.

        Args:
            rows: They are looked at alone; None for what the newest claim has deleted.
        """
        if rows is None:
            return list(self._keys_beside)
        found: list[str] = []
        with self._reading() as cursor, self._refusing("also_delete", NONE_FURTHER):
            prepare(cursor, self._shape(cursor))
            for each in self._statements(cursor).also_deleted:
                if each.keys is not None:
                    cursor.execute(each.keys, (ids(row.id for row in rows),))
                    found += _keys(each, cursor)
        return found

    def folders_below(self, key: str) -> list[str]:
        """The folders in which objects lie that were made from the one of that key."""
        declared = getattr(self._settings, "derived_below", ())
        return [folder.replace("{key}", key) for folder in declared]

    def own_rows(self) -> list[OwnRows]:
        """Where the rows of a declared table, and those that go with them, name their objects."""
        if not isinstance(self._settings, TableSettings):
            return []
        named: list[TableSettings | DependentTableSettings] = [self._settings]
        for child in self._settings.also_delete:
            named += [child, *child.also_delete]
        with self._reading() as cursor:
            return [
                OwnRows(
                    self._database.address(),
                    relation.schema,
                    relation.name,
                    name_of(each.key),
                    Transforms.of(each.transforms),
                )
                for each in named
                if each.key is not None
                for relation, _ in (table_named(cursor, each.table),)
            ]

    def declared(self) -> str:
        """What the settings say of it, as text, to tell whether that has changed."""
        return self._settings.model_dump_json(exclude={"database"})

    def own_sources(self) -> frozenset[str]:
        """The sources that the declared table, and the tables of also_delete, are."""
        if not isinstance(self._settings, TableSettings):
            return frozenset()
        return frozenset(source.name for source in sources_of([self._settings], ()))

    # Looking ----------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Let PostgreSQL plan every statement; it executes none of them.

        Raises:
            SourceRefused: The server is a standby, or it refuses a statement.
        """
        with self._reading() as cursor:
            cursor.execute("SELECT pg_is_in_recovery()")
            if cursor.fetchone() != (False,):
                raise SourceRefused(
                    f"The database of source {self._settings.name!r} is a standby, where nothing "
                    "can be claimed. Connect to the primary (`target_session_attrs=read-write`)."
                )
            shape = self._shape(cursor)
            moment = database_now(cursor)
            values = values_for_a_look(shape, moment)
            plans = [self._plan(cursor, "claim", self._claim_sql(cursor), values)]
            statements = self._statements(cursor)
            if statements.lock is not None:
                self._plan(cursor, "claim", statements.lock, values)
            plans += [
                self._plan(cursor, "also_delete", each.sql, values[:1])
                for each in statements.also_deleted
            ]
            self._require_identity(cursor, plans)
            self._plan(cursor, "candidates", self._candidates(cursor).among(), values[:1])
            if self._settings.audit is not None:
                self._plan(cursor, "audit", self._settings.audit, (ids(()), [""], ""))

    def statements(self) -> Statements:
        """What is sent, for the doctor.

        Raises:
            SourceRefused: The table is not as it is declared.
        """
        with self._reading() as cursor:
            return self._statements(cursor)

    def _require_identity(self, cursor: Raw, plan: Any) -> None:
        """Refuse a claim on a published table that PostgreSQL would refuse at the first row.

        Raises:
            SourceRefused: It would.
        """
        changed = tables_changed(plan)
        if len(changed) == 1 and not self.elsewhere:
            self._table = ".".join(changed[0])
        cursor.execute(
            "SELECT array_agg(to_regclass(format('%I.%I', schema, name))::oid)"
            "  FROM unnest($1::text[], $2::text[]) AS changed (schema, name)",
            ([schema for schema, _ in changed], [name for _, name in changed]),
        )
        (oids,) = cursor.fetchone() or (None,)
        found = refusing_publications(cursor, oids or (), updates=True)
        if found:
            raise SourceRefused(
                f"PostgreSQL will refuse the claim of source {self._settings.name!r}: "
                f"{'; '.join(found)}. {NOTHING_CLAIMED}. {HINT[0].upper()}{HINT[1:]}."
            )

    def doubt(self) -> Doubt | None:
        """A predicate that the claim does not repeat, or that nobody can tell."""
        # A declared table has one `where`, and nothing to compare.
        return None if isinstance(self._settings, RowsSettings) else doubt_about(self._settings)

    def plans(self) -> Iterator[tuple[str, Any]]:
        """The plans of a page of candidates and of a claim, by their keys in the settings.

        Raises:
            SourceRefused: The server refuses a statement.
        """
        with self._reading() as cursor:
            shape = self._shape(cursor)
            moment = database_now(cursor)
            page = self._candidates(cursor).page(first=True)
            yield "candidates", self._plan(cursor, "candidates", page, (BEGINNING, moment, 500))
            values = values_for_a_look(shape, moment)
            yield "claim", self._plan(cursor, "claim", self._claim_sql(cursor), values)

    def now(self) -> datetime:
        """The time of the database that holds the rows: it has set their due times."""
        with self._reading() as cursor:
            return database_now(cursor)

    def read(
        self, after: Reservation | None, begins: datetime, before: datetime, size: int
    ) -> list[Reservation]:
        """The next candidates.

        Raises:
            SourceRefused: The query returned one id twice, or the server refused it.
        """
        values: list[Any] = [self._written(begins), self._written(before), size]
        if after is not None:
            values += [self._written(after.due), str(after.id)]
        with self._reading() as cursor, self._refusing("candidates", NONE_FURTHER):
            cursor.execute(self._candidates(cursor).page(first=after is None), values)
            page = [
                Reservation(row, self._key(key), due + self._after, size_of)
                for row, key, due, size_of in cursor.fetchall()
            ]
        if len({row.id for row in page}) < len(page):
            raise SourceRefused(
                f"The candidate query of source {self._settings.name!r} returns one id more than "
                f"once, as a join does that finds several rows. {UNIQUE_KEYS}"
            )
        return page

    def oldest_left(self, cutoff: datetime) -> datetime | None:
        """When the oldest reservation expired that is due and still there."""
        with self._reading() as cursor:
            moment: datetime | None = self._one(
                cursor, self._candidates(cursor).oldest(), BEGINNING, self._written(cutoff)
            )
            return None if moment is None else moment + self._after

    def unusable(
        self, begins: datetime, before: datetime, *, most: int
    ) -> list[tuple[str, str, bool]]:
        """Rows without id or key, or with a deadline that no calendar holds, up to `most` each."""
        with self._reading() as cursor, self._refusing("candidates", NONE_FURTHER):
            sql = self._candidates(cursor).unusable(NO_KEY, NO_USABLE_TIME)
            cursor.execute(sql, (self._written(begins), self._written(before), most))
            return [(str(fate), str(row), bool(due)) for fate, row, due in cursor.fetchall()]

    def count_due(self, grace: timedelta, *, most: int) -> int:
        """Count the reservations that are due, up to `most`."""
        with self._reading() as cursor:
            age = grace + self._after
            return int(self._one(cursor, self._candidates(cursor).due(), BEGINNING, age, most))

    def times(self, *, most: int) -> tuple[int, int]:
        """How many of the first `most` candidates there are, and how many of them have a time."""
        with self._reading() as cursor:
            cursor.execute(self._candidates(cursor).times(), (most,))
            rows, timed = cursor.fetchone() or (0, 0)
            return int(rows), int(timed)

    def count_without_expiry(self, *, most: int) -> int:
        """Count the rows without a due time, up to `most`."""
        with self._reading() as cursor:
            return int(self._one(cursor, self._candidates(cursor).without_due(), most))

    def still_due(
        self, rows: Sequence[Reservation], begins: datetime, before: datetime
    ) -> set[UUID | str]:
        """The ids of those of the rows that are candidates as due as before."""
        with self._reading() as cursor, self._refusing("candidates", NONE_FURTHER):
            values = (ids(row.id for row in rows), self._written(begins), self._written(before))
            cursor.execute(self._candidates(cursor).still_due(), values)
            return {str(row[0]) for row in cursor.fetchall()}

    # Claiming ---------------------------------------------------------------------------------

    @contextmanager
    def claiming(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime, run_id: str
    ) -> Iterator[tuple[list[Reservation], psycopg.Cursor[TupleRow]]]:
        """Claim by the operator's statement, with their audit event in the same transaction."""
        # The day's beginning is not asked for again: a row that became due earlier is due.
        del begins
        recorded: list[str] | None = None
        try:
            with self._database.transaction(self._connection) as cursor:
                won = self._claim(wanted, self._written(before), run_id)
                if self._records is None:
                    yield won, cursor
                else:
                    database, connection = self._records
                    with database.transaction(reached(connection)) as records:
                        yield won, records
                    recorded = list(dict.fromkeys([*(row.key for row in won), *self._keys_beside]))
        except psycopg.Error as error:
            if recorded is None:
                self._name_a_broken_connection(error, ROLLED_BACK)
                raise
            raise ClaimUnconfirmed(
                f"The database of source {self._settings.name!r} did not confirm a claim: "
                f"{because(error)}. Either its rows are as before, and the next run takes them, or "
                f"they are {self._left_by_a_claim}. No further row was claimed.",
                recorded,
            ) from error

    def _claim(
        self, wanted: Sequence[Reservation], before: datetime, run_id: str
    ) -> list[Reservation]:
        won: list[Reservation] = []
        with self._raw() as cursor, self._roles_search_path(cursor):
            prepare(cursor, self._shape(cursor))
            if isinstance(self._settings, RowsSettings):
                # A migration since the last look may have left a view, or taken a foreign key.
                self._known_statements = statements_of(cursor, self._settings, ROLLED_BACK)
            self._also_deleted.clear()
            self._keys_beside.clear()
            self._rows.clear()
            for distinct in rounds(wanted):
                try:
                    with self._refusing("claim", ROLLED_BACK, rows_alone=True):
                        won += self._claim_some(cursor, distinct, before)
                except psycopg.errors.LockNotAvailable as error:
                    raise RowsHeld(because(error)) from error
            if won and not self._claim_leaves_none:
                self._require_none_left(cursor, won)
            if won and self._settings.audit is not None:
                keys = [row.key for row in won]
                with self._refusing("audit", ROLLED_BACK, rows_alone=True):
                    cursor.execute(self._settings.audit, (ids(row.id for row in won), keys, run_id))
            # A deferred foreign key speaks now, before anything is written down elsewhere.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return won

    def _claim_some(
        self, cursor: Raw, wanted: Sequence[Reservation], before: datetime
    ) -> list[Reservation]:
        statements, chosen = self._statements(cursor), ids(row.id for row in wanted)
        if statements.lock is not None:
            chosen = self._with_what_belongs_to_them(cursor, statements, chosen, before)
        if self._leave_out is not None and statements.rows is not None:
            cursor.execute(statements.rows, (chosen, before, list(self._leave_out)))
            self._rows.update((str(identity), row) for identity, row in cursor.fetchall())
        cursor.execute(self._claim_sql(cursor), (chosen, before))
        returned = [None if row[0] is None else self._key(row[0]) for row in cursor.fetchall()]
        if statements.lock is not None and len(returned) != len(chosen.texts):
            raise SourceRefused(
                f"A claim of source {self._settings.name!r} won {len(returned)} of "
                f"{len(chosen.texts)} rows after the rows that belong to them were deleted. "
                f"{ROLLED_BACK}. See whether a trigger keeps such rows."
            )
        return matched(self._settings.name, wanted, returned)

    def _with_what_belongs_to_them(
        self, cursor: Raw, statements: Statements, wanted: Ids, before: datetime
    ) -> Ids:
        """Lock the rows that may go, and delete what belongs to them; those rows."""
        chosen = wanted
        # The second look is that of a later statement: it sees what was committed before the locks
        # were got, and under them nothing can come that a foreign key would have to look up.
        for _ in range(2):
            cursor.execute(statements.lock or "", (chosen, before))
            chosen = ids(row[0] for row in cursor.fetchall())
        for each in statements.also_deleted:
            cursor.execute(each.sql, (chosen,))
            if cursor.rowcount > 0:
                self._also_deleted[each.table] += cursor.rowcount
            if each.keys is not None:
                self._keys_beside += _keys(each, cursor)
        return chosen

    def _require_none_left(self, cursor: Raw, won: Sequence[Reservation]) -> None:
        """See once a run that the claim takes rows away from the candidates.

        A client that completes a row afterwards would have a finished upload without bytes.
        """
        among = self._candidates(cursor).among()
        with self._refusing("candidates", ROLLED_BACK):
            left = self._one(cursor, among, ids(row.id for row in won))
        if left:
            raise SourceRefused(
                f"The claim of source {self._settings.name!r} leaves {left} of {len(won)} rows "
                f"candidates, to be completed when their bytes are gone. {ROLLED_BACK}. Set the "
                "state by which a row is no reservation, and let the candidate query ask for it."
            )
        self._claim_leaves_none = True

    # Statements -------------------------------------------------------------------------------

    def _written(self, moment: datetime) -> datetime:
        """The time that a row has which is due at the moment, not before the beginning of dates."""
        return BEGINNING if moment - BEGINNING < self._after else moment - self._after

    def _key(self, value: str) -> str:
        return self._transforms.apply(value.encode()).decode()

    def _statements(self, cursor: Raw) -> Statements:
        """What is sent, written once."""
        if self._known_statements is None:
            if isinstance(self._settings, RowsSettings):
                self._known_statements = statements_of(cursor, self._settings)
            else:
                self._known_statements = Statements(self._settings.candidates, self._settings.claim)
        return self._known_statements

    def _claim_sql(self, cursor: Raw) -> str:
        return claim_query(self._statements(cursor).claim)

    def _candidates(self, cursor: Raw) -> Candidates:
        return Candidates(self._statements(cursor).candidates, self._shape(cursor))

    def _shape(self, cursor: Raw) -> Shape:
        """What the candidate query returns, looked at once."""
        if self._known_shape is None:
            with self._refusing("candidates"):
                cursor.execute(shape_query(self._statements(cursor).candidates))
                types = [column.type_code for column in cursor.description or []]
                cursor.execute(
                    "SELECT typname, typcategory, typarray::bigint"
                    "  FROM unnest($1::oid[]) WITH ORDINALITY AS column_type (oid, place)"
                    "  JOIN pg_type USING (oid) ORDER BY place",
                    (types,),
                )
                columns = [(str(row[0]), str(row[1]), int(row[2])) for row in cursor.fetchall()]
            self._known_shape = shape_of(self._settings.name, columns)
        prepare(cursor, self._known_shape)
        return self._known_shape

    def _plan(self, cursor: Raw, which: str, statement: str, values: Sequence[Any]) -> Any:
        with self._refusing(which):
            return self._one(cursor, explained(statement), *values)

    @staticmethod
    def _one(cursor: Raw, statement: str, *values: Any) -> Any:
        cursor.execute(statement, values)
        row = cursor.fetchone()
        return None if row is None else row[0]

    def _refusing(
        self, which: str, so_far: str = NOTHING_CLAIMED, *, rows_alone: bool = False
    ) -> AbstractContextManager[None]:
        return refusing(self._settings.name, which, so_far, rows_alone=rows_alone)

    # Transactions -----------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Raw]:
        try:
            with (
                self._database.transaction(self._connection, read_only=True),
                self._raw() as cursor,
                self._roles_search_path(cursor),
            ):
                yield cursor
        except psycopg.OperationalError as error:
            self._name_a_broken_connection(error, NONE_FURTHER)
            raise

    def _name_a_broken_connection(self, error: psycopg.Error, so_far: str) -> None:
        """Say which of two databases went away; where there is one, everybody knows."""
        if self.elsewhere and self._connection.closed:
            raise SourceRefused(
                f"The connection to {self._database.address()}, the database of source "
                f"{self._settings.name!r}, broke ({because(error)}). {so_far}. See that its server "
                "runs; the next run takes what is left."
            ) from error

    def _raw(self) -> AbstractContextManager[Raw]:
        return psycopg.RawCursor(self._connection, row_factory=tuple_row)

    @contextmanager
    def _roles_search_path(self, cursor: Raw) -> Iterator[None]:
        """Resolve names as the role does; what follows finds the project's tables again."""
        cursor.execute("SELECT current_setting('search_path')")
        (projects,) = cursor.fetchone() or ("",)
        cursor.execute("SET LOCAL search_path TO DEFAULT")
        yield
        # After an error the transaction is over, and this setting with it.
        cursor.execute("SELECT set_config('search_path', $1, true)", (projects,))
