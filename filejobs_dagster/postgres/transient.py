"""Failures of a transaction that pass: the same transaction is worth another try."""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

TRANSIENT = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
"""All of them are raised before a commit, never by one: trying again cannot do a thing twice.

`CommitUnconfirmed` is none of them: on this server its transaction has been committed.
"""

TRIES = 4


def trying_again(
    transaction: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Run a function that is one transaction, up to four times.

    Raises:
        psycopg.Error: The last try failed, or a try failed for a reason that does not pass.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(TRANSIENT),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    return attempts(transaction, *args, **kwargs)
