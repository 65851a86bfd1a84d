"""Reading an operator's candidate query and claim: is a claim safe, as far as they tell?

Only `doubt` may be imported by what every run imports; the others load the parser.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from filejobs_dagster.settings.statements import NotOneStatement, parsed
from filejobs_dagster.text import DEFAULT_LIMIT, bounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.jobs.upload_reservations.settings import ReservationSourceSettings


# What speaks against a claim before it is ever sent.

WAIVER = "claim_checked_by_hand"
"""The key by which an operator vouches for a claim."""


@dataclass(frozen=True)
class Doubt:
    """A claim of which nobody can see that it leaves alone what was completed meanwhile.

    Attributes:
        source: What the reservation source is called.
        found: What is missing, or why the statements cannot be compared; a clause.
        advice: What to write instead; a clause.
        waived: True when the settings vouch for the claim.
    """

    source: str
    found: str
    advice: str
    waived: bool

    def noted(self) -> str:
        """The doubt as a record holds it."""
        said = f"{self.found}; {WAIVER} waives it" if self.waived else self.found
        return bounded(said, DEFAULT_LIMIT)

    def refusal(self) -> str:
        """Why a live run goes no further, and what to do."""
        return (
            f"The claim of source {self.source!r} may lose uploads that complete in between: "
            f"{self.found}. So this live run refuses, and nothing was claimed. "
            f"{self.advice[0].upper()}{self.advice[1:]}. Where a claim is safe in a way that this "
            f"comparison cannot see, make sure of it yourself, and write `{WAIVER}: true` beside "
            "it. Dry runs go ahead."
        )


def doubt_about(settings: ReservationSourceSettings) -> Doubt | None:
    """Compare a claim with its candidate query; nothing is sent anywhere.

    Args:
        settings: `jobs.upload_reservations.source`.

    Returns:
        None when the claim repeats every predicate of the candidate query, and the due time.
    """
    # Loads the parser, for which runs on the table `file` should not wait.

    waived = settings.claim_checked_by_hand
    try:
        missing = unrepeated(settings.candidates, settings.claim)
    except NotComparable as reason:
        return Doubt(
            settings.name,
            f"the candidate query cannot be compared with the claim: {reason}",
            "write the candidate query as one SELECT with a WHERE, from the table itself, and "
            "repeat its predicates in the claim",
            waived,
        )
    if not missing:
        return None
    return Doubt(
        settings.name,
        "the claim does not repeat " + ", and not ".join(f"`{each}`" for each in missing),
        f"add `AND {' AND '.join(missing)}` to the claim's own WHERE, by the name that the table "
        "has there",
        waived,
    )


# The query by which a claim locks rows before it changes them.


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


# Which predicates of a candidate query its claim does not repeat.

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
