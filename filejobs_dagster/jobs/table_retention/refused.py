"""Why a rule is not carried out, and what of PostgreSQL's refusals may be written down."""

from __future__ import annotations

import psycopg

from filejobs_dagster.postgres.connect import CommitUnconfirmed


class RuleRefused(Exception):
    """The rule cannot be carried out as it is; the other rules go on.

    Attributes:
        found: What is wrong, without the final full stop.
        advice: What to do.
    """

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}. {advice[:1].upper()}{advice[1:]}.")
        self.found = found
        self.advice = advice


def ends_the_run(error: psycopg.Error, connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Tell whether no rule can go on: the connection broke, or commits are not confirmed."""
    return connection.closed or connection.broken or isinstance(error, CommitUnconfirmed)


def refuses_rows(error: psycopg.Error) -> bool:
    """Tell whether PostgreSQL may accept the statement for other or for fewer rows.

    A foreign key refuses some row, or a trigger of the operator's does; a statement that took too
    long may not with half of the rows.
    """
    of_rows = (
        psycopg.IntegrityError,
        psycopg.DataError,
        psycopg.errors.RaiseException,
        psycopg.errors.QueryCanceled,
    )
    return isinstance(error, of_rows) or "PL/pgSQL function" in (error.diag.context or "")


def said(error: psycopg.Error) -> str:
    """What PostgreSQL said, without what a row holds.

    Its DETAIL quotes the values of a row, and so does the first line of a data error.
    """
    if isinstance(error, psycopg.errors.QueryCanceled):
        return "a statement took longer than database.statement_timeout"
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return "somebody else held a lock for longer than database.lock_timeout"
    if isinstance(error, psycopg.DataError):
        return f"{type(error).__name__}: a value of some row does not fit the condition"
    return error.diag.message_primary or type(error).__name__
