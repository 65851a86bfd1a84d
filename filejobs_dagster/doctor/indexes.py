"""Which index would serve an operator's statement."""

from __future__ import annotations

from sqlglot import exp

from filejobs_dagster.jobs.upload_reservations.claims.predicates import (
    conjuncts,
    due_of,
    only_table,
    shown_as_sql,
)
from filejobs_dagster.settings.statements import NotOneStatement, parsed


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
