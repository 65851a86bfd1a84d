"""Seeing, and interrupting, the statements that the project's own functions execute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from filejobs_dagster.postgres.connect import Connection


def watch(connection: Connection, before: Callable[[str], None] | None = None) -> list[str]:
    """Record every statement that the connection's cursors execute from now on.

    What a report shows as the guarded statement is therefore what PostgreSQL was given, never a
    copy that may have grown old.

    Args:
        connection: Its later cursors are watched.
        before: Called with each statement right before it is sent: where an interleaving happens.

    Returns:
        The list that the statements are added to.
    """
    seen: list[str] = []

    class WatchedCursor(psycopg.Cursor[TupleRow]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
            text = _text(query, self)
            if before is not None:
                before(text)
            seen.append(text)
            return super().execute(query, params, **options)

    connection.cursor_factory = WatchedCursor
    return seen


def those_that(statements: list[str], *beginnings: str) -> str:
    """The different statements that begin in one of these ways, in the order of execution."""
    chosen = [
        statement
        for statement in dict.fromkeys(map(str.strip, statements))
        if statement.startswith(beginnings)
    ]
    return ";\n\n".join(chosen) if chosen else "(no such statement was executed)"


def _text(query: Any, cursor: psycopg.Cursor[TupleRow]) -> str:
    if isinstance(query, bytes):
        return query.decode()
    return query.as_string(cursor) if isinstance(query, sql.Composable) else str(query)
