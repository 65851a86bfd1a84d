"""Statements of an operator's, read before they are ever sent.

The parser is sqlglot: it knows PostgreSQL's grammar well enough, has no dependencies, runs on every
platform, and its licence (MIT) asks nothing of this project. It decides about form only. What
PostgreSQL makes of a statement, PostgreSQL says: `filejobs doctor` and every run let it plan each
of them before anything is claimed, and one message never carries two statements.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, StrictStr, WithJsonSchema

from filejobs_dagster.settings.problems import mistake

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlglot import exp

# In strings and comments, too: what looks like a parameter is never guessed to be none.
_PARAMETER = re.compile(r"\$([0-9]+)")

FEWEST_COLUMNS, MOST_COLUMNS = 3, 4
"""Of a candidate query: id, key, due time, and perhaps the size."""

CLAIM_PARAMETERS = {1: "$1 (the ids, an array)", 2: "$2 (the cutoff)"}
DERIVED_PARAMETERS = {1: "$1 (the ids of files, uuid[])"}
AUDIT_PARAMETERS = {1: "$1 (the ids)", 2: "$2 (the keys)", 3: "$3 (the run's id)"}


class NotOneStatement(ValueError):
    """The parser did not find exactly one statement that it understands."""


def parsed(text: str) -> exp.Expr:
    """Take one statement apart.

    Raises:
        NotOneStatement: It is none, or several, or one that the parser does not know.
    """
    # A tenth of a second that settings without such statements should not wait for.
    import sqlglot  # noqa: PLC0415
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    log = logging.getLogger("sqlglot")
    was_disabled, log.disabled = log.disabled, True
    try:
        # Without the space, the parser takes `$1,$` for the beginning of a dollar-quoted text.
        found = sqlglot.parse(_PARAMETER.sub(r"$\1 ", text), dialect="postgres")
    except (SqlglotError, RecursionError) as error:
        raise NotOneStatement from error
    finally:
        log.disabled = was_disabled
    statements = [statement for statement in found if statement is not None]
    if len(statements) != 1:
        raise NotOneStatement
    return statements[0]


def _candidate_query(text: str) -> str:
    from sqlglot import exp  # noqa: PLC0415

    expected = "write one SELECT of id, key and due time, and if you like the size in bytes"
    _plain(text, expected)
    numbers = _parameters(text)
    if numbers:
        raise mistake(
            f"the candidate query has the parameter ${min(numbers)}, and it gets none",
            "leave the moment out: `due before the cutoff`, order and limit are added around it",
        )
    query = _statement(text, expected)
    if not isinstance(query, exp.Query) or query.find(exp.Insert, exp.Update, exp.Delete, exp.Into):
        raise mistake("it is not a query that only reads", expected)
    if query.find(exp.Lock):
        raise mistake(
            "the candidate query locks rows (FOR UPDATE)",
            "leave the lock to the claim: candidates are only a guess",
        )
    if any(query.args.get(name) is not None for name in ("limit", "offset")):
        raise mistake(
            "the candidate query has a LIMIT or an OFFSET",
            "leave it out: batch_size and limit are added around it, oldest first",
        )
    columns = query.selects
    starred = any(column.is_star for column in columns)
    if starred:
        raise mistake("it returns *, and a new column would change its meaning", expected)
    if not FEWEST_COLUMNS <= len(columns) <= MOST_COLUMNS:
        raise mistake(f"it returns {len(columns)} columns", expected)
    return text


def _claim_statement(text: str) -> str:
    from sqlglot import exp  # noqa: PLC0415

    expected = (
        "write one DELETE or UPDATE … WHERE id = ANY($1) AND every predicate again, with the due "
        "time < $2, RETURNING the key"
    )
    _plain(text, expected)
    _only(text, CLAIM_PARAMETERS, "the claim")
    claim = _statement(text, expected)
    if not isinstance(claim, exp.Delete | exp.Update):
        raise mistake("the claim is neither a DELETE nor an UPDATE", expected)
    if len(list(claim.find_all(exp.Insert, exp.Update, exp.Delete))) > 1:
        raise mistake("the claim changes more than one thing", expected)
    returning = claim.args.get("returning")
    if returning is None:
        raise mistake(
            "the claim has no RETURNING, so nobody would know which rows it won", expected
        )
    columns = returning.expressions
    if len(columns) != 1 or columns[0].is_star:
        raise mistake(
            "the claim returns more than the key", "write RETURNING and the key's column alone"
        )
    if 1 not in _used(claim):
        raise mistake("the claim does not use $1, so it would take every row", expected)
    return text


def _audit_statement(text: str) -> str:
    from sqlglot import exp  # noqa: PLC0415

    expected = (
        "write one INSERT, or a SELECT that calls your function, with $1 (the ids), $2 (the keys, "
        "text[]) and $3 (the run's id, text)"
    )
    _plain(text, expected)
    _only(text, AUDIT_PARAMETERS, "the audit statement")
    statement = _statement(text, expected)
    if not isinstance(statement, exp.Insert | exp.Query):
        raise mistake("the audit statement is neither an INSERT nor a SELECT", expected)
    return text


def _derived_query(text: str) -> str:
    from sqlglot import exp  # noqa: PLC0415

    expected = (
        "write one SELECT of one column, the keys of the objects that were made from the files "
        "in $1 (uuid[])"
    )
    _plain(text, expected)
    _only(text, DERIVED_PARAMETERS, "the query of derived objects")
    query = _statement(text, expected)
    if not isinstance(query, exp.Query) or query.find(exp.Insert, exp.Update, exp.Delete, exp.Into):
        raise mistake("it is not a query that only reads", expected)
    if query.find(exp.Lock):
        raise mistake(
            "the query of derived objects locks rows (FOR UPDATE)",
            "leave the lock out: the files themselves are locked, and their foreign keys do the "
            "rest",
        )
    if any(query.args.get(name) is not None for name in ("limit", "offset")):
        raise mistake(
            "the query of derived objects has a LIMIT or an OFFSET",
            "leave it out: a key that is left out is never collected",
        )
    columns = query.selects
    if len(columns) != 1 or any(column.is_star for column in columns):
        raise mistake("it returns more than the key", "select the key's column alone")
    if 1 not in _used(query):
        raise mistake("it does not use $1, so it would return the keys of every file", expected)
    return text


def _plain(text: str, expected: str) -> None:
    # Nothing of the text is shown: a statement may hold what its author wanted to hide.
    if not text.strip():
        raise mistake("it is empty", expected)
    if ";" in text:
        raise mistake(
            "it has a ; in it",
            "write one statement without any ; (write chr(59) where a text needs one)",
        )
    if "\x00" in text:
        raise mistake("it has a NUL character in it", "take it out")


def _statement(text: str, expected: str) -> exp.Expr:
    try:
        return parsed(text)
    except NotOneStatement:
        raise mistake(
            "it could not be read as one statement of PostgreSQL",
            f"{expected}; put what is unusual into a view or a function",
        ) from None


def _parameters(text: str) -> set[int]:
    return {int(number) for number in _PARAMETER.findall(text)}


def _only(text: str, known: Collection[int], whose: str) -> None:
    unknown = _parameters(text) - set(known)
    if unknown:
        raise mistake(
            f"{whose} has the parameter ${min(unknown)}, which does not exist",
            f"it gets $1 to ${max(known)}; write any other value itself",
        )


def _used(statement: exp.Expr) -> set[int]:
    """The parameters that are really parameters, and not part of a comment or a text."""
    from sqlglot import exp  # noqa: PLC0415

    return {int(found.name) for found in statement.find_all(exp.Parameter) if found.name.isdigit()}


_ONE_STATEMENT = WithJsonSchema({"type": "string", "pattern": "^[^;]*[^;\\s][^;]*$"})

CandidateQuery = Annotated[StrictStr, AfterValidator(_candidate_query), _ONE_STATEMENT]
"""One SELECT of id, key, due time and perhaps a size, without parameters."""

ClaimStatement = Annotated[StrictStr, AfterValidator(_claim_statement), _ONE_STATEMENT]
"""One DELETE or UPDATE … RETURNING the key; `$1` ids, `$2` cutoff."""

AuditStatement = Annotated[StrictStr, AfterValidator(_audit_statement), _ONE_STATEMENT]
"""One INSERT or SELECT; `$1` ids, `$2` keys, `$3` run id."""

DerivedStatement = Annotated[StrictStr, AfterValidator(_derived_query), _ONE_STATEMENT]
"""One SELECT of keys; `$1` is an array of ids of files."""
