"""The lock that a seal, a trim and a restore of one chain share."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from filejobs_dagster.postgres.locks import Lease, LockTaken

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.audit.refused import Refused
    from filejobs_dagster.postgres.connect import Database

SECONDS_FOR_A_GHOST = 0.5
"""A backend that ends tells its client so shortly before it frees its locks: a trim right behind a
seal would meet the lock of a session that is gone."""

_PAUSE = 0.05


def chain_lock(schema: str, chain: str) -> str:
    """Name of the lock. Appenders do not take it: they go on meanwhile."""
    return f"{schema}/audit/{chain}"


@contextmanager
def locked(
    database: Database, chain: str, refused: type[Refused], lease: Lease | None = None
) -> Iterator[Lease]:
    """Hold the chain's lock; prove it before each write.

    Args:
        database: Where the tables are.
        chain: Which chain.
        refused: What says that somebody else holds it.
        lease: The locks of a run, which takes this one on their connection; None for one of its
            own.

    Raises:
        Refused: Of the class that is given, with CHAIN_BUSY: somebody else holds it.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(LockTaken),
        stop=stop_after_delay(SECONDS_FOR_A_GHOST),
        wait=wait_fixed(_PAUSE),
        reraise=True,
    )
    name = chain_lock(database.schema, chain)
    with ExitStack() as stack:
        holding = lease
        if holding is None:
            holding = Lease(database, f"audit lock {chain}")
            stack.callback(holding.release)
        on = holding.for_a_while
        try:
            attempts(lambda: stack.enter_context(on(name)))
        except LockTaken as taken:
            raise refused(
                "CHAIN_BUSY", f"another session seals or trims the chain {chain!r}: wait for it."
            ) from taken
        yield holding
