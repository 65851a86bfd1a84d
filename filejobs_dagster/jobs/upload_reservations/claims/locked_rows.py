"""The query by which a claim locks rows before it changes them."""

from __future__ import annotations

from sqlglot import exp


def locked_rows(
    condition: exp.Expr, change: exp.Expr, target: str, identifiers: set[str]
) -> exp.Select | None:
    """Find the query that locks rows of the table, and whose ids a condition asks for.

    Such a query looks at a row again when it has changed meanwhile, so its predicates hold when
    the row is changed.

    Args:
        condition: One of those in the claim's WHERE that all must hold.
        change: The claim.
        target: The name of the table that it changes.
        identifiers: From `columns_of_the_id`.

    Returns:
        None for any other condition, also for one that only looks similar: NOT IN, EXISTS, or a
        comparison of another column lets rows pass that the query did not look at.
    """
    common = change.args.get("with_")
    named = {each.alias: each.this for each in common.expressions} if common else {}
    select = _taken_from(condition, change, identifiers, named)
    if select is None or only_source(select) != target:
        return None
    return (
        select if any(shuts_others_out(lock) for lock in select.args.get("locks") or ()) else None
    )


def shuts_others_out(lock: exp.Lock) -> bool:
    """True when nobody else can change the rows; FOR KEY SHARE only keeps their keys."""
    return bool(lock.args.get("update") or not lock.args.get("key"))


def columns_of_the_id(query: exp.Expr) -> set[str]:
    """The columns that make a candidate's id; by `ctid` a statement means one row as well."""
    if not isinstance(query, exp.Query):
        return set()
    columns = query.selects[0].find_all(exp.Column)
    return {"ctid"} | {column.name.lower() for column in columns}


def only_source(select: exp.Select) -> str | None:
    """The name of the one table that a query reads; None when it reads more, or something else."""
    source = select.args.get("from_")
    if source is None or select.args.get("joins") or not isinstance(source.this, exp.Table):
        return None
    return str(source.this.name)


def _taken_from(
    condition: exp.Expr, change: exp.Expr, identifiers: set[str], named: dict[str, exp.Expr]
) -> exp.Select | None:
    """The query from which a condition takes the ids; one that only looks similar is none."""
    if isinstance(condition, exp.In):
        column, found = condition.this, _query_of(condition.args.get("query"))
    elif isinstance(condition, exp.EQ) and isinstance(condition.right, exp.Any):
        column, found = condition.left, _query_of(condition.right.this)
    elif isinstance(condition, exp.EQ):
        return _joined(condition, change, identifiers, named)
    else:
        return None
    if not _is_identifier(column, identifiers) or not isinstance(found, exp.Select):
        return None
    name = only_source(found)
    if not _selects_identifier(found, identifiers):
        return None
    return found if name not in named else _common(named[name], identifiers)


def _joined(
    condition: exp.EQ, change: exp.Expr, identifiers: set[str], named: dict[str, exp.Expr]
) -> exp.Select | None:
    """The query of the WITH whose id a condition compares with that of the row."""
    left, right = condition.left, condition.right
    if not (_is_identifier(left, identifiers) and _is_identifier(right, identifiers)):
        return None
    tables = {table.alias_or_name: table.name for table in change.find_all(exp.Table)}
    names = [
        tables.get(each.args["table"].name) for each in (left, right) if each.args.get("table")
    ]
    found = [name for name in names if name in named]
    # Both sides of one query would compare nothing with the row.
    return _common(named[found[0]], identifiers) if len(found) == 1 else None


def _common(query: exp.Expr, identifiers: set[str]) -> exp.Select | None:
    """A query of the WITH, when it returns ids."""
    if isinstance(query, exp.Select) and _selects_identifier(query, identifiers):
        return query
    return None


def _query_of(expression: exp.Expr | None) -> exp.Expr | None:
    """The query in parentheses, or in the ARRAY of an ANY."""
    while isinstance(expression, exp.Paren | exp.Subquery):
        expression = expression.this
    if isinstance(expression, exp.Array) and len(expression.expressions) == 1:
        return _query_of(expression.expressions[0])
    return expression


def _is_identifier(expression: exp.Expr, identifiers: set[str]) -> bool:
    return isinstance(expression, exp.Column) and expression.name.lower() in identifiers


def _selects_identifier(select: exp.Select, identifiers: set[str]) -> bool:
    return any(_is_identifier(column.unalias(), identifiers) for column in select.selects)
