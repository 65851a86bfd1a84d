"""Verifying a chain: what was changed, what is missing, and what nobody can know.

Pins are listed first, then everything is read in one snapshot, then judged by the checks of the
registry. Nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.origin import unquoted
from filejobs_dagster.audit.session import snapshot
from filejobs_dagster.audit.tables import chain_names
from filejobs_dagster.audit.verify import (  # noqa: F401 (each import registers its checks)
    check_checkpoints,
    check_pinned_trims,
    check_pins,
    check_restores,
    check_rows,
    check_seals,
)
from filejobs_dagster.audit.verify.evidence import (
    CHECKS,
    ChainFinding,
    Evidence,
    Full,
    Incremental,
    Mode,
    Rolling,
    Sealing,
    VerifyPolicy,
    part_of_day,
)
from filejobs_dagster.audit.verify.load import (
    list_incarnations,
    list_pins,
    list_places,
    load,
    where_to_look,
)
from filejobs_dagster.audit.verify.verdict import Verification, conclude

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.audit.verify.evidence import Check
    from filejobs_dagster.postgres.connect import Connection, Database

__all__ = [
    "CHECKS",
    "ChainFinding",
    "Evidence",
    "Full",
    "Incremental",
    "Mode",
    "Rolling",
    "Sealing",
    "Verification",
    "VerifyPolicy",
    "examine",
    "judge",
    "known_chains",
    "part_of_day",
    "verify_chain",
]


def verify_chain(
    database: Database,
    connection: Connection,
    chain: str,
    policy: VerifyPolicy,
    *,
    mode: Mode = Full(),  # noqa: B008 (frozen)
    checks: Mapping[str, Check] | None = None,
) -> Verification:
    """Verify one chain.

    Args:
        database: Where the tables are.
        connection: One without an open transaction.
        chain: Which chain.
        policy: What the verifier believes.
        mode: Which events are computed again.
        checks: Other checks than all (for tests).

    Raises:
        PinStoreUnusable: The place of the pins cannot be read: nothing is said.
        psycopg.Error: The database cannot be read.
    """
    evidence = examine(database, connection, chain, policy, mode=mode)
    return judge(evidence, CHECKS if checks is None else checks)


def examine(
    database: Database, connection: Connection, chain: str, policy: VerifyPolicy, *, mode: Mode
) -> Evidence:
    """Read everything that is judged; arguments and exceptions are those of `verify_chain`."""
    if isinstance(mode, Sealing):
        return _examine_the_end(database, connection, chain, policy, mode)
    pinned = list_pins(policy, chain, mode)
    with snapshot(database, connection) as cursor:
        return load(cursor, database, policy, chain, mode=mode, pinned=pinned)


def _examine_the_end(
    database: Database, connection: Connection, chain: str, policy: VerifyPolicy, mode: Sealing
) -> Evidence:
    """Look only at seals and pins from the newest one on that was written down as pinned."""
    outside = list_incarnations(policy, chain)
    with snapshot(database, connection) as cursor:
        newest, places = where_to_look(cursor, database, policy.origin_of(chain), outside)
    if newest is None:
        # Nothing was pinned yet, or nobody wrote it down: everything is looked at.
        return examine(database, connection, chain, policy, mode=Incremental())
    pinned = list_places(policy, chain, places)
    with snapshot(database, connection) as cursor:
        return load(cursor, database, policy, chain, mode=mode, pinned=pinned, first_seal=newest)


def judge(evidence: Evidence, checks: Mapping[str, Check]) -> Verification:
    """Let the checks look at the evidence."""
    found = _found(evidence, checks)
    rest = None
    if any(finding.code == "PIN_AHEAD_SEAL" for finding in found):
        # Events that were appended since contradict the lost pins, and nothing else: so look at
        # what is left without them.
        rest = _found(evidence.without_lost_pins()[0], checks)
    return conclude(evidence, found, rest)


def _found(evidence: Evidence, checks: Mapping[str, Check]) -> list[ChainFinding]:
    return [finding for check in checks.values() for finding in check(evidence)]


def known_chains(database: Database, connection: Connection, policy: VerifyPolicy) -> list[str]:
    """The chains that the database or the pins know: one that was wiped is only among the latter.

    Raises:
        PinStoreUnusable: The place of the pins cannot be read.
    """
    outside: set[str] = set()
    if policy.pins is not None:
        outside = {unquoted(word) for word in policy.pins.words(f"{policy.origin}/")}
    with snapshot(database, connection) as cursor:
        return sorted({*chain_names(cursor, database), *outside})
