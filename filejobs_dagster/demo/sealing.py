"""The demo's audit log: sealed, pinned into a folder, verified."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.audit.seal import seal_chain
from filejobs_dagster.audit.verify import known_chains, verify_chain
from filejobs_dagster.demo.failure import DemoFailed
from filejobs_dagster.jobs.audit_setup import seal_policy
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from filejobs_dagster.settings import Settings


@dataclass(frozen=True)
class SealedChain:
    """One chain of the demo.

    Attributes:
        chain: Its name.
        events: How many events its seal counts; each of them was computed again.
    """

    chain: str
    events: int


def seal_and_verify(settings: Settings) -> list[SealedChain]:
    """Seal every chain of the demo, and verify it in full.

    Raises:
        DemoFailed: Something does not match.
    """
    database = Database.of(settings.database)
    policy = seal_policy(settings)
    sealed = []
    with database.connect("demo") as connection:
        for chain in known_chains(database, connection, policy.verify):
            seal_chain(database, connection, chain, policy, live=True)
            found = verify_chain(database, connection, chain, policy.verify)
            if not found.clean or found.unprotected:
                raise DemoFailed(
                    f"to verify the audit chain {chain}",
                    f"{found.verdict}: {', '.join(sorted(found.codes)) or 'unprotected events'}",
                    "please report this with the folder `logs`: nobody has changed anything yet",
                )
            sealed.append(SealedChain(chain, found.sealed_to))
    return sealed
