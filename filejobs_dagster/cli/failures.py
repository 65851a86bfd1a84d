"""From an exception to what a person is told, without a traceback and without a secret."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable
from dataclasses import dataclass

import psycopg

from filejobs_dagster.cli.terminal import FAILED, INTERNAL, one_line
from filejobs_dagster.text import LOG_LIMIT, Teaching, sanitize, sanitize_exception

TRACEBACK_VARIABLE = "FILEJOBS_TRACEBACK"


@dataclass(frozen=True)
class Failure:
    """What is printed, and the exit code.

    Attributes:
        text: Without secrets.
        exit_code: 1 for what the surroundings refused, 70 for a fault of the program.
    """

    text: str
    exit_code: int


def failure_of(error: Exception, secrets: Iterable[str] = ()) -> Failure:
    """Describe any exception that ended a command."""
    known = tuple(secrets)
    text = expected_failure(error, known)
    if text is not None:
        return Failure(text, FAILED)
    text = f"filejobs met an error it did not expect: {sanitize_exception(error, known=known)}"
    if os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0"):
        trace = "".join(traceback.format_exception(error))
        text = f"{sanitize(trace, limit=LOG_LIMIT, known=known)}\n{text}"
    else:
        text += f"\nSet {TRACEBACK_VARIABLE}=1 to see where it happened."
    return Failure(text, INTERNAL)


def expected_failure(error: Exception, secrets: Iterable[str] = ()) -> str | None:
    """What to tell of a failure that the program understands, else None."""
    if isinstance(error, Teaching):
        return sanitize(str(error), known=secrets)
    if not isinstance(error, psycopg.Error):
        return None
    said = sanitize(one_line(error.diag.message_primary or str(error)), known=secrets)
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return (
            f"The project's tables are not all in the database ({said}). Run `filejobs migrate`, "
            "and check database.schema in the settings."
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return (
            f"The database's role lacks a privilege ({said}). `filejobs grants --missing --role "
            "ROLE` prints the SQL that gives it what the jobs need; with --for status or --for "
            "mirror, what a role needs that only looks or only records."
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return (
            f"Somebody else holds a lock that is needed here ({said}). Nothing was changed: wait "
            "for the other session to finish, and call again."
        )
    kind = type(error).__name__
    return f"PostgreSQL refused or went away ({kind}: {said}). `filejobs doctor` looks closer."
