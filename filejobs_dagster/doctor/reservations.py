"""An operator's own table of reservations: can its statements be used, and are they safe?

It also names the index that would serve each of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from sqlglot import exp

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.door.clocks import NOTICEABLE
from filejobs_dagster.jobs.collecting.detail import SourceRefused
from filejobs_dagster.jobs.upload_reservations.claims import (
    WAIVER,
    changed_table,
    conjuncts,
    doubt_about,
    due_of,
    leaves_candidates,
    only_table,
    shown_as_sql,
    tables_read,
    waits_for_locks,
)
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.postgres.connect import DatabaseUnavailable, database_now, one
from filejobs_dagster.settings.statements import NotOneStatement, parsed
from filejobs_dagster.settings.tables import RowRuleSettings, RowsSettings, TableSettings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.collecting.declared import Statements
    from filejobs_dagster.jobs.upload_reservations.settings import ReservationSourceSettings
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import SourceSettings

# What keeps a claim from a row that somebody else's uncommitted row has just come to need.
#
# No statement sees what another session has not committed. A predicate about another table, such
# as `NOT EXISTS (SELECT FROM attachments …)`, therefore holds only with a foreign key behind it,
# which PostgreSQL looks at without regard to snapshots, and only for a DELETE.

_FOREIGN_KEYS = """
    SELECT coalesce(bool_or(confdeltype IN ('a', 'r')), false),
           coalesce(bool_or(confdeltype NOT IN ('a', 'r')), false)
      FROM pg_constraint
     WHERE contype = 'f'
       AND conrelid = to_regclass(%s)
       AND confrelid = to_regclass(%s)
       -- A column that PostgreSQL 18 has brought.
       AND coalesce((to_jsonb(pg_constraint) ->> 'conenforced')::boolean, true)
"""


def check_guard(
    name: str, candidates: str, claim: str, cursor: psycopg.Cursor[Any]
) -> Finding | None:
    """Look for the foreign keys behind predicates about other tables.

    Args:
        name: What findings call the reservation source.
        candidates: The candidate query of the settings.
        claim: The claim of the settings.
        cursor: In a transaction of the database that holds the rows.

    Returns:
        None when the candidate query looks at no other table.
    """
    try:
        query, change = parsed(candidates), parsed(claim)
    except NotOneStatement:
        return None
    if not isinstance(change.this, exp.Table):
        return None
    claimed = change.this
    others = _other_tables(query, claimed)
    if not others:
        return None
    check = f"{name} guard"
    if isinstance(change, exp.Update):
        return warning(
            check,
            f"the claim is an UPDATE, and the candidate query looks at {', '.join(others)}: a row "
            "that is committed there while the claim works is not seen, and no foreign key "
            "refuses an UPDATE",
            "claim by a DELETE with a foreign key behind it, or let a source of the bucket return "
            "the keys which those tables need",
        )
    # The operator's names are those of the role's own search path.
    cursor.execute("SET LOCAL search_path TO DEFAULT")
    unguarded: list[str] = []
    for other in others:
        cursor.execute(_FOREIGN_KEYS, (other, _name(claimed)))
        refuses, follows = cursor.fetchone() or (False, False)
        if not refuses:
            why = "its foreign key deletes or changes its rows with the claimed one"
            unguarded.append(f"{other} ({why if follows else 'no foreign key'})")
    if unguarded:
        return warning(
            check,
            "the claim does not see what is committed while it works, and nothing refuses it for "
            f"the sake of a row in {' or '.join(unguarded)}",
            f"unless such a row needs no upload, give it a FOREIGN KEY to {_name(claimed)} "
            "without ON DELETE CASCADE or SET NULL",
        )
    return ok(check, f"foreign keys of {', '.join(others)} refuse the claim of a row in use")


def _other_tables(query: exp.Expr, claimed: exp.Table) -> list[str]:
    common = {each.alias for each in query.find_all(exp.CTE)}
    names = {
        _name(table): None
        for table in query.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
        and table.name != claimed.name
        and table.name not in common
    }
    return list(names)


def _name(table: exp.Table) -> str:
    """The name as it is written, without its alias."""
    return str(exp.Table(this=table.this.copy(), db=table.args.get("db")).sql(dialect="postgres"))


# Which index would serve an operator's statement.


def index_for(candidates: str) -> str | None:
    """The statement that makes an index in the order of the candidates, where one is enough.

    Returns:
        None when the rows do not come from one table.
    """
    try:
        query = parsed(candidates)
    except NotOneStatement:
        return None
    if not isinstance(query, exp.Select) or query.args.get("joins"):
        return None
    source = query.args.get("from_")
    if source is None or not isinstance(source.this, exp.Table):
        return None
    table = source.this
    own = [each for each in conjuncts(query.args.get("where")) if not each.find(exp.Query)]
    where = " AND ".join(_bare(predicate) for predicate in own)
    name = exp.table_(table.name, db=table.db or None).sql(dialect="postgres")
    identifier, due = query.selects[0].unalias(), due_of(query)
    columns = ", ".join(_indexed(column) for column in (due, identifier))
    return f"CREATE INDEX CONCURRENTLY ON {name} ({columns})" + (f" WHERE {where}" if where else "")


def _bare(expression: exp.Expr) -> str:
    copy = expression.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", None)
    return shown_as_sql(copy)


def _indexed(expression: exp.Expr) -> str:
    bare = _bare(expression)
    return bare if isinstance(expression, exp.Column) else f"({bare})"


def compared_columns(statement: str, table: str) -> list[str]:
    """The columns of a table that a statement compares: what an index for it should hold.

    Those that are compared with the ids come first, then those that join tables, then the others.
    """
    try:
        read = parsed(statement)
    except NotOneStatement:
        return []
    tables = {each.alias_or_name: each.name for each in read.find_all(exp.Table)}
    changed = read.this.name if isinstance(read.this, exp.Table) else None
    found: dict[str, int] = {}
    for comparison in read.find_all(exp.EQ, exp.In):
        sides = (comparison.this, comparison.args.get("expression"))
        for side, other in (sides, sides[::-1]):
            if not isinstance(side, exp.Column):
                continue
            owner = tables.get(side.table, side.table) or only_table(side) or changed
            if owner == table:
                found[side.name] = min(_weight(other), found.get(side.name, _LAST))
    return sorted(found, key=lambda name: found[name])


_LAST = 2


def _weight(compared_with: exp.Expr | None) -> int:
    if compared_with is None or isinstance(compared_with, exp.Any):
        return 0
    return 1 if isinstance(compared_with, exp.Column) else _LAST


LARGE_ROWS = 10_000
LARGE_BYTES = 8 * 1024 * 1024
"""From either of them on, reading a whole table for each batch is worth an index."""


def check_reservation_source(
    settings: ReservationSourceSettings | TableSettings | RowRuleSettings,
    references: Sequence[SourceSettings],
    database: Database,
    connection: Connection,
    *,
    rows: str = "reservations",
) -> Iterator[Finding]:
    """Look at a table of the operator's; its statements are planned, and none is executed.

    Args:
        settings: A table of the job's, or its statements by hand.
        references: `sources` of the job's bucket, by which the gate knows the table.
        database: The project's own.
        connection: An open connection to it.
        rows: What findings call the rows that are collected.
    """
    name = f"{rows} {settings.name}"
    if isinstance(settings, RowsSettings):
        yield ok(f"{name} claim", "candidate query, claim and source are written from one `where`")
    else:
        yield _repeats(name, settings)
        yield _locks(name, settings)
        yield _known_to_the_gate(name, settings, references)
    if settings.database is None:
        yield from _statements(name, settings, database, connection)
        return
    other = database.elsewhere(settings.database.url.reveal())
    try:
        reached = other.connect("doctor")
    except DatabaseUnavailable as error:
        yield failed(name, str(error), f"see the variable {settings.database.url.env}")
        return
    with reached:
        yield _clock(name, _now(database, connection), _now(other, reached))
        yield from _statements(name, settings, other, reached)


def _now(database: Database, connection: Connection) -> datetime:
    with database.transaction(connection, read_only=True) as cursor:
        return database_now(cursor)


def _clock(name: str, projects: datetime, theirs: datetime) -> Finding:
    """Due times are compared by their clock, and what is left by the project's."""
    check, apart = f"{name} clock", abs(projects - theirs)
    found = f"the two databases are {round(apart.total_seconds())}s apart"
    if apart > NOTICEABLE:
        return warning(check, found, "synchronise the clocks of both machines (NTP)")
    return ok(check, found)


def _statements(
    name: str,
    settings: ReservationSourceSettings | TableSettings | RowRuleSettings,
    database: Database,
    connection: Connection,
) -> Iterator[Finding]:
    table = OperatorTable(settings, database, connection)
    try:
        table.preflight()
        plans, statements = list(table.plans()), table.statements()
        rows, timed = table.times(most=LARGE_ROWS)
    except (SourceRefused, psycopg.Error) as error:
        hint = getattr(getattr(error.__cause__, "diag", None), "message_hint", None)
        grant = (
            "GRANT what the role lacks (SELECT for the candidates; SELECT, and UPDATE or DELETE, "
            "for the claim; INSERT for the audit statement), or mend the statement"
        )
        yield failed(
            name, str(error), grant if hint is None else f"follow PostgreSQL's hint: {hint}"
        )
        return
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute("SELECT current_user, current_setting('default_transaction_read_only')")
        role, read_only = one(cursor)
        if read_only == "on":
            yield failed(
                name,
                f"default_transaction_read_only is on for the role {role}: no claim can succeed",
                "switch it off for the role of the jobs, or connect to the primary",
            )
            return
        yield ok(name, f"{database.address()} plans every statement for the role {role}")
        yield from _whole_tables(name, statements, plans, cursor)
        if isinstance(settings, RowsSettings):
            if rows and not timed:
                yield _no_times(name, settings, rows)
            return
        guard = check_guard(name, settings.candidates, settings.claim, cursor)
        if guard is not None:
            yield guard


def _no_times(name: str, settings: TableSettings | RowRuleSettings, rows: int) -> Finding:
    return warning(
        f"{name} times",
        f"of {rows:,} rows none has in {settings.due} what reads as {settings.due_as}, so none is "
        "ever due",
        "see what the column holds, and mend due_as; NULL, 0 and what is no time is never due",
    )


def _repeats(name: str, settings: ReservationSourceSettings) -> Finding:
    check = f"{name} claim"
    doubt = doubt_about(settings)
    if doubt is not None and not doubt.waived:
        return failed(
            check,
            f"{doubt.found}, so live runs refuse",
            f"{doubt.advice}: a row that changes between the two statements, such as an upload "
            f"that completes, is lost otherwise. Or make sure of it yourself, and write {WAIVER}: "
            "true",
        )
    if not leaves_candidates(settings.candidates, settings.claim):
        return failed(
            check,
            "the claim sets no column that the candidate query looks at, so each run would claim "
            "the same rows again",
            "set the state by which a row is no reservation any more",
        )
    if doubt is not None:
        return warning(
            check,
            doubt.noted(),
            "look at the claim again whenever one of the two statements or the tables change; "
            "nobody else does",
        )
    repeated = "by hand: the claim repeats every predicate of the candidate query, and the due time"
    if settings.claim_checked_by_hand:
        return warning(
            check,
            f"{repeated}, and {WAIVER} is set all the same",
            "take the key out, so that a later change of the statements is compared",
        )
    return ok(check, repeated)


def _locks(name: str, settings: ReservationSourceSettings) -> Finding:
    check = f"{name} locks"
    if waits_for_locks(settings.claim):
        return warning(
            check,
            "the claim waits for rows that a client holds, up to lock_timeout for each",
            "take the ids from (SELECT id … WHERE id = ANY($1) FOR UPDATE SKIP LOCKED)",
        )
    return ok(check, "the claim leaves rows alone that somebody else holds")


def _known_to_the_gate(
    name: str, settings: ReservationSourceSettings, references: Sequence[SourceSettings]
) -> Finding:
    """The settings make sure of a source in that database; here, whether it reads the table."""
    check = f"{name} references"
    table = changed_table(settings.claim)
    there = [source for source in references if source.database == settings.database]
    named = [source.name for source in there if table in tables_read(source.sql)]
    if named:
        return ok(check, f"the gate asks {', '.join(named)} whether {table} still names a key")
    return warning(
        check,
        f"no source of the bucket reads {table}, unless a view does",
        "add a source whose query returns the key of every row that still needs its object",
    )


def _whole_tables(
    name: str,
    statements: Statements,
    plans: Sequence[tuple[str, Any]],
    cursor: psycopg.Cursor[Any],
) -> Iterator[Finding]:
    found = False
    for which, plan in plans:
        for schema, table in dict.fromkeys(_scanned_as_a_whole(plan[0]["Plan"])):
            rows, size = _size(cursor, schema, table)
            if rows < LARGE_ROWS and size < LARGE_BYTES:
                continue
            found = True
            yield warning(
                f"{name} {which}",
                f"each batch would read the whole table {schema}.{table} (about {rows:,} rows)",
                _advice(which, statements, schema, table),
            )
    if not found:
        yield ok(f"{name} plans", "neither statement reads a large table as a whole")


def _advice(which: str, statements: Statements, schema: str, table: str) -> str:
    index = index_for(statements.candidates) if which == "candidates" else None
    if index is not None and table in tables_read(statements.candidates):
        return f"{index}; then ANALYZE {schema}.{table}"
    statement = statements.candidates if which == "candidates" else statements.claim
    columns = compared_columns(statement, table)
    if columns:
        return f"CREATE INDEX CONCURRENTLY ON {schema}.{table} ({columns[0]})"
    return f"give {schema}.{table} an index for the columns that the statement compares"


def _scanned_as_a_whole(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if node["Node Type"] == "Seq Scan":
        yield node["Schema"], node["Relation Name"]
    for child in node.get("Plans", ()):
        yield from _scanned_as_a_whole(child)


def _size(cursor: psycopg.Cursor[Any], schema: str, table: str) -> tuple[int, int]:
    """Rows as far as PostgreSQL has counted them (0 when it never did), and bytes."""
    cursor.execute(
        """
        SELECT greatest(reltuples, 0)::bigint, pg_relation_size(pg_class.oid)
          FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
         WHERE nspname = %s AND relname = %s
        """,
        (schema, table),
    )
    row = cursor.fetchone()
    return (0, 0) if row is None else (int(row[0]), int(row[1]))
