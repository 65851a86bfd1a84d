"""What keeps a claim from a row that somebody else's uncommitted row has just come to need.

No statement sees what another session has not committed. A predicate about another table, such as
`NOT EXISTS (SELECT FROM attachments …)`, therefore holds only with a foreign key behind it, which
PostgreSQL looks at without regard to snapshots, and only for a DELETE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from filejobs_dagster.doctor.finding import Finding, ok, warning
from filejobs_dagster.settings.statements import NotOneStatement, parsed

if TYPE_CHECKING:
    import psycopg

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
