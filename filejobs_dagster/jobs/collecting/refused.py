"""A statement that PostgreSQL refuses: some row of it, or the statement as it is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.postgres.connect import CommitUnconfirmed

if TYPE_CHECKING:
    from collections.abc import Iterator

NOTHING_CLAIMED = "Nothing was claimed"
NONE_FURTHER = "No further row was claimed"
ROLLED_BACK = "It was rolled back: no row of its batch was changed, and none of its bytes deleted"


KEPT_BY_ROWS = (psycopg.errors.ForeignKeyViolation, psycopg.errors.RestrictViolation)
"""Rows of another table name the row; it goes when they have gone."""


class SmallerBatch(Exception):
    """A claim was rolled back that may succeed with fewer rows; nothing was changed."""


class RowsHeld(SmallerBatch):
    """A claim waited in vain for rows that somebody else has locked; nothing was changed."""


class SourceRefused(JobFailed):
    """An operator's statement cannot be used as it is; nothing was changed."""


def because(error: BaseException) -> Any:
    """The database's own sentence, or the kind of the error."""
    if isinstance(error, CommitUnconfirmed):
        return error.said
    diagnostics = getattr(error, "diag", None)
    return getattr(diagnostics, "message_primary", None) or type(error).__name__


def refuses_a_row(error: psycopg.Error) -> bool:
    """Tell whether PostgreSQL refused some row of a statement, so that the others can go on.

    A foreign key does, a value that a column cannot hold, and any trigger of the operator's,
    whatever its error code: then the error names a PL/pgSQL function. A missing grant names none,
    and concerns every row.
    """
    of_a_row = (psycopg.IntegrityError, psycopg.DataError, psycopg.errors.RaiseException)
    if isinstance(error, of_a_row):
        return True
    if isinstance(error, psycopg.OperationalError):
        return False
    return "PL/pgSQL function" in (error.diag.context or "")


@contextmanager
def refusing(source: str, which: str, so_far: str, *, rows_alone: bool = False) -> Iterator[None]:
    """Name the operator's statement that PostgreSQL refuses, and say what became of the rows.

    Args:
        source: What the source is called.
        which: The statement's key in the settings.
        so_far: What was done, and what not.
        rows_alone: Let an error pass that concerns some row: it is tried without the others.

    Raises:
        SourceRefused: The statement was refused, or took too long.
    """
    try:
        yield
    except psycopg.Error as error:
        too_slow = isinstance(error, psycopg.errors.QueryCanceled)
        if isinstance(error, psycopg.OperationalError) and not too_slow:
            raise
        if rows_alone and refuses_a_row(error):
            raise
        if too_slow:
            advice = "give it an index, or a smaller batch_size, or a longer statement_timeout"
        elif isinstance(error, psycopg.errors.InsufficientPrivilege):
            advice = "GRANT the role what it lacks"
        else:
            advice = "name the schema of each table: the role's own search path counts"
        raise SourceRefused(
            f"PostgreSQL refuses {which} of source {source!r}: {because(error)}. {so_far}. See "
            f"`filejobs doctor`, and {advice}."
        ) from error
