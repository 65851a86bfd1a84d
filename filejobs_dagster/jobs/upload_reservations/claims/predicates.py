"""Which predicates of a candidate query its claim does not repeat."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from filejobs_dagster.jobs.upload_reservations.claims.locked_rows import (
    columns_of_the_id,
    locked_rows,
    only_source,
    shuts_others_out,
)
from filejobs_dagster.settings.statements import NotOneStatement, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

CUTOFF = "$2"


class NotComparable(ValueError):
    """The candidate query has no list of predicates; the message says why."""


def unrepeated(candidates: str, claim: str) -> list[str]:
    """Name each predicate of the candidate query that the claim does not repeat.

    The due time, which the candidate query leaves to us, is one of them: the claim compares it
    with `$2`. Predicates are compared as they are written, whatever they are called by: aliases,
    case, parentheses and the sides of a comparison do not matter. A predicate counts when it stands
    in the claim's own WHERE and speaks of the row that is claimed, or in a query that locks the
    rows it finds and from which the claim takes the ids, for such a query looks again at a row that
    has changed.

    Args:
        candidates: The candidate query of the settings.
        claim: The claim of the settings.

    Returns:
        The predicates as SQL, in the order of the candidate query.

    Raises:
        NotComparable: The candidate query is a UNION, groups rows, joins what is no plain table,
            does not read the claim's table, or could not be read.
    """
    try:
        return _unrepeated(parsed(candidates), parsed(claim))
    except NotOneStatement as error:
        raise NotComparable("it could not be read") from error
    except RecursionError as error:
        raise NotComparable("it has too many parts") from error


def _unrepeated(query: exp.Expr, change: exp.Expr) -> list[str]:
    target = change.this.name if isinstance(change.this, exp.Table) else ""
    if target not in {table.name for table in query.find_all(exp.Table)}:
        raise NotComparable(f"it does not read {target or 'a table that the claim changes'} itself")
    wanted = dict(_wanted(query, target))
    identifiers = columns_of_the_id(query)
    repeated = {
        _comparable(predicate, change, target)
        for predicate in _repeated(change, target, identifiers)
    }
    return [shown for normal, shown in wanted.items() if normal not in repeated]


def _wanted(query: exp.Expr, target: str) -> Iterator[tuple[str, str]]:
    """Each predicate in comparable form, with the words to name it by."""
    select = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(select, exp.Select):
        raise NotComparable("it is a UNION or the like")
    if any(select.args.get(name) for name in ("group", "having", "distinct", "qualify")):
        raise NotComparable("it groups rows or takes out repeated ones")
    for part in _parts(select):
        yield from _of_joins(part, query, target)
        for predicate in conjuncts(part.args.get("where")):
            if not _is_true(predicate):
                yield _comparable(predicate, query, target), shown_as_sql(predicate)
    due = due_of(select)
    within = exp.LT(this=due.copy(), expression=exp.Parameter(this=exp.Literal.number(2)))
    # The copy has no place in the query; its columns are those of the query's own table.
    within.set("this", _resolved(due, query, target))
    yield _text(within), f"{shown_as_sql(due)} < {CUTOFF}"


def _of_joins(part: exp.Select, query: exp.Expr, target: str) -> Iterator[tuple[str, str]]:
    for join in part.args.get("joins") or ():
        if not _plain(join.this) or join.method == "NATURAL":
            raise NotComparable("it joins a sub-query or a function, or has a NATURAL JOIN")
        if join.args.get("using"):
            raise NotComparable("it joins by USING, and could be compared with an ON")
        if join.this.name == target:
            raise NotComparable(f"it joins {target} with other rows of its own")
        for predicate in conjuncts(join.args.get("on")):
            yield _comparable(predicate, query, target), shown_as_sql(predicate)


def due_of(select: exp.Select) -> exp.Expr:
    """What a candidate query returns as due time."""
    due: exp.Expr = select.selects[2].unalias()
    return due


def _parts(select: exp.Select) -> Iterator[exp.Select]:
    """The query, and those in its FROM and its WITH: whatever cuts its rows."""
    yield select
    common = select.args.get("with_")
    inner = [expression.this for expression in common.expressions] if common else []
    source = select.args.get("from_")
    if source is not None and isinstance(source.this, exp.Subquery):
        inner.append(source.this.unnest())
    for query in inner:
        if not isinstance(query, exp.Select):
            raise NotComparable("a part of it is a UNION or the like")
        yield from _parts(query)


def _plain(source: exp.Expr) -> bool:
    """True for a table or a view by its name; false for whatever has predicates of its own."""
    return isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)


def _is_true(predicate: exp.Expr) -> bool:
    return isinstance(predicate, exp.Boolean) and bool(predicate.this)


def _repeated(change: exp.Expr, target: str, identifiers: set[str]) -> Iterator[exp.Expr]:
    for condition in conjuncts(change.args.get("where")):
        yield condition
        select = locked_rows(condition, change, target, identifiers)
        if select is not None:
            yield from conjuncts(select.args.get("where"))


def conjuncts(where: exp.Expr | None) -> Iterator[exp.Expr]:
    """The parts of a condition that all must hold."""
    if where is None:
        return
    inner = where.this if isinstance(where, exp.Where) else where
    inner = inner.unnest()
    if isinstance(inner, exp.And):
        yield from conjuncts(inner.left)
        yield from conjuncts(inner.right)
    else:
        yield inner


def _comparable(predicate: exp.Expr, statement: exp.Expr, target: str) -> str:
    return _text(_resolved(predicate, statement, target))


def _resolved(predicate: exp.Expr, statement: exp.Expr, target: str) -> exp.Expr:
    """A copy in which each column is called by its table's own name, and nothing by an alias."""
    tables = {
        table.alias_or_name: _called(table, statement, target)
        for table in statement.find_all(exp.Table)
    }
    owners = {
        id(column): column.table and tables.get(column.table, column.table)
        for column in predicate.find_all(exp.Column)
    }
    for column in predicate.find_all(exp.Column):
        if not owners[id(column)]:
            owners[id(column)] = only_table(column) or target
    names = [owners[id(column)] for column in predicate.find_all(exp.Column)]
    copy = predicate.copy()
    for column, name in zip(list(copy.find_all(exp.Column)), names, strict=True):
        column.set("table", exp.to_identifier(name.lower()) if name else None)
        column.set("db", None)
        if not column.this.args.get("quoted") and isinstance(column.this, exp.Identifier):
            column.set("this", exp.to_identifier(column.name.lower()))
    for table in copy.find_all(exp.Table):
        table.set("alias", None)
        table.set("db", None)
    for exists in copy.find_all(exp.Exists):
        if isinstance(exists.this, exp.Select):
            # What EXISTS selects means nothing.
            exists.this.set("expressions", [exp.Literal.number(1)])
    return copy


def _called(table: exp.Table, statement: exp.Expr, target: str) -> str:
    """A table's own name; in a claim, the claimed table in USING or FROM is another row's."""
    claims = isinstance(statement, exp.Update | exp.Delete) and table is not statement.this
    if claims and table.name == target and table.find_ancestor(exp.Select) is None:
        return f"{table.alias_or_name} of another row"
    return table.name


def only_table(column: exp.Column) -> str | None:
    """The table of a column that names none, where its sub-query reads one alone."""
    select = column.find_ancestor(exp.Select)
    return None if select is None else only_source(select)


def _text(expression: exp.Expr) -> str:
    """One way to write what may be written in several."""

    def same(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Paren):
            inner: exp.Expr = node.this.transform(same)
            return inner
        if isinstance(node, exp.GT):
            return exp.LT(this=node.expression, expression=node.this)
        if isinstance(node, exp.GTE):
            return exp.LTE(this=node.expression, expression=node.this)
        if isinstance(node, exp.EQ | exp.NEQ) and node.left.sql() > node.right.sql():
            return type(node)(this=node.right, expression=node.left)
        return node

    return str(expression.copy().transform(same).sql(dialect="postgres", comments=False))


def shown_as_sql(expression: exp.Expr) -> str:
    """An expression in words of SQL, without comments, that may stand beside an AND."""
    if isinstance(expression, exp.Or):
        expression = exp.Paren(this=expression.copy())
    return str(expression.sql(dialect="postgres", comments=False))


def tables_read(statement: str) -> set[str]:
    """The names of the tables that a statement reads or changes, without their schemas."""
    try:
        return {table.name for table in parsed(statement).find_all(exp.Table)}
    except NotOneStatement:
        return set()


def changed_table(claim: str) -> str | None:
    """The name of the table that a claim changes, without its schema."""
    try:
        changed = parsed(claim).this
    except NotOneStatement:
        return None
    return changed.name if isinstance(changed, exp.Table) else None


def leaves_candidates(candidates: str, claim: str) -> bool:
    """True when a claimed row is no candidate any more, as far as the statements tell.

    A DELETE takes the row away. An UPDATE must set a column that the candidate query looks at, or
    every run would claim the same rows again.
    """
    try:
        query, change = parsed(candidates), parsed(claim)
    except NotOneStatement:
        return True
    if not isinstance(change, exp.Update):
        return True
    assigned = {
        column.name.lower()
        for assignment in change.expressions
        for column in assignment.this.find_all(exp.Column)
    }
    looked_at = {column.name.lower() for column in query.find_all(exp.Column)}
    if isinstance(query, exp.Select):
        # What is only returned decides nothing, except for the due time.
        decisive = [query.args.get("where"), due_of(query), *(query.args.get("joins") or ())]
        looked_at = {
            column.name.lower()
            for part in decisive
            if part is not None
            for column in part.find_all(exp.Column)
        }
    return bool(assigned & looked_at)


def waits_for_locks(claim: str) -> bool:
    """True when a claim waits for rows that somebody else holds, instead of leaving them."""
    try:
        statement = parsed(claim)
    except NotOneStatement:
        return False
    return not any(
        lock.args.get("wait") is False and shuts_others_out(lock)
        for lock in statement.find_all(exp.Lock)
    )
