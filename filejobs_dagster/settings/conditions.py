"""Names and conditions of an operator's, as SQL writes them, read before they are ever sent.

The parser decides about form only: one condition, on the columns of one row. What it means,
PostgreSQL says, before anything is claimed.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, StrictStr, WithJsonSchema

from filejobs_dagster.settings.problems import mistake, shown

if TYPE_CHECKING:
    from sqlglot import exp

_PART = r'(?:[A-Za-z_][A-Za-z0-9_$]{0,62}|"(?:[^"\x00]|""){1,63}")'
_TABLE = re.compile(rf"(?:{_PART}\.)?{_PART}")
_COLUMN = re.compile(_PART)

_UNREADABLE = re.compile(
    r"""--|/\*                            # a comment could swallow what is written behind it
      | \$[0-9] | \$\w*\$                 # a parameter, a dollar-quoted text
      | (?<![a-z0-9_])(?:e|u&|b|x)'       # texts with rules of their own
    """,
    re.VERBOSE | re.IGNORECASE,
)

_PLAIN = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*\"""")
"""A text or a quoted name: whatever stands inside of it is no syntax."""

_HOW = (
    "write one condition on the row's own columns, without a table's name before them: "
    "status = 'sent'"
)
_ZONE = re.compile(r"UTC|[A-Z][A-Za-z_]+(?:/[A-Za-z0-9_+-]+){1,2}")


def name_of(written: str) -> str:
    """The name that PostgreSQL reads: without quotes in lower case, with quotes as it stands."""
    if written.startswith('"'):
        return written[1:-1].replace('""', '"')
    return written.lower()


def is_column(written: object) -> bool:
    """True for the name of a column, as SQL writes it."""
    return isinstance(written, str) and _COLUMN.fullmatch(written) is not None


def quoted(written: str) -> str:
    """A table or a column as SQL writes it, each part in quotes: no part is read as anything else.

    Args:
        written: As the settings have it, with or without a schema and quotes of its own.
    """
    parts = [name_of(each).replace('"', '""') for each in re.findall(_PART, written)]
    return ".".join(f'"{each}"' for each in parts)


def columns_of(condition: str) -> set[str]:
    """The columns that a condition looks at, as PostgreSQL names them.

    Raises:
        ValueError: It is no condition.
    """
    from sqlglot import exp  # noqa: PLC0415 (a tenth of a second)

    return {
        column.name if column.this.quoted else column.name.lower()
        for column in _parsed(condition).find_all(exp.Column)
    }


def _without_its_inside(plain: re.Match[str]) -> str:
    return plain[0][0] * 2


def _parsed(text: str) -> exp.Expr:
    import sqlglot  # noqa: PLC0415 (a tenth of a second that other settings should not wait for)
    from sqlglot import exp  # noqa: PLC0415
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    log = logging.getLogger("sqlglot")
    was_disabled, log.disabled = log.disabled, True
    try:
        return sqlglot.parse_one(text, into=exp.Condition, dialect="postgres")
    except (SqlglotError, RecursionError):
        raise ValueError(text) from None
    finally:
        log.disabled = was_disabled


def _condition(text: str) -> str:
    from sqlglot import exp  # noqa: PLC0415

    # Nothing of the text is shown: a condition may hold what its author wanted to hide.
    if not text.strip():
        raise mistake("the condition is empty", _HOW)
    if ";" in text or "\x00" in text:
        raise mistake("the condition has a ; or a NUL character in it", _HOW)
    if _UNREADABLE.search(_PLAIN.sub(_without_its_inside, text)):
        raise mistake(
            "the condition has a comment, a parameter, or a text that begins with $$, E', U&', B' "
            "or X'",
            f"{_HOW}; put what is unusual into a generated column",
        )
    try:
        condition = _parsed(text)
    except ValueError:
        raise mistake(
            "it could not be read as one condition of PostgreSQL",
            f"{_HOW}; put what is unusual into a generated column",
        ) from None
    if condition.find(exp.Query):
        raise mistake(
            "the condition has a query in it: what another session changes in the other table "
            "while a row is claimed would not be seen",
            f"{_HOW}; a row that other rows need is kept by their foreign key",
        )
    if condition.find(exp.AggFunc, exp.Window):
        raise mistake("the condition counts or sums over several rows", _HOW)
    if condition.find(exp.Column) is None:
        raise mistake(
            "the condition looks at no column, so it is the same for every row: it chooses or "
            "keeps all of them, or none",
            _HOW,
        )
    if any(column.table for column in condition.find_all(exp.Column)):
        raise mistake("a column has a table's name before it", _HOW)
    return text


def _table_name(text: str) -> str:
    if not _TABLE.fullmatch(text):
        raise mistake(
            f"{shown(text)} is not the name of a table",
            'write it as SQL does: sessions, public.sessions, or public."Session" in quotes',
        )
    return text


def _column_name(text: str) -> str:
    if not is_column(text):
        raise mistake(
            f"{shown(text)} is not the name of a column",
            "write it as SQL does: expires_at, or '\"expiresAt\"' with both kinds of quotes",
        )
    return text


def _time_zone(text: str) -> str:
    # +02 and EST mean one thing to POSIX and another to people; both are refused.
    if not _ZONE.fullmatch(text):
        raise mistake(
            f"{shown(text)} is not the name of a time zone",
            "write UTC, or a name of the IANA list such as Europe/Berlin",
        )
    return text


Condition = Annotated[
    StrictStr,
    AfterValidator(_condition),
    WithJsonSchema({"type": "string", "pattern": "^[^;]*[^;\\s][^;]*$"}),
]
"""One condition on the columns of a row."""

TableName = Annotated[
    StrictStr,
    AfterValidator(_table_name),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
"""A table, with or without its schema, as SQL writes it."""

ColumnName = Annotated[
    StrictStr,
    AfterValidator(_column_name),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
"""A column, as SQL writes it."""

TimeZone = Annotated[
    StrictStr,
    AfterValidator(_time_zone),
    WithJsonSchema({"type": "string", "pattern": f"^({_ZONE.pattern})$"}),
]
"""UTC, or a name of the IANA list."""
