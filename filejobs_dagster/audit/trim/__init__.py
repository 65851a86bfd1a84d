"""Trimming a chain: removing its oldest events with a receipt, and refusing whenever in doubt.

Only a prefix goes, only up to a seal that stands outside of the database, never past a hold, never
all of it. The whole chain is verified first: evidence beside damage is not destroyed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.audit.holds import active_holds
from filejobs_dagster.audit.session import (
    TrimRefused,
    code_for,
    locked,
    must_be_trusted,
    must_have_the_right_time,
    snapshot,
)
from filejobs_dagster.audit.trim.batch import (
    Batch,
    Record,
    Trimming,
    TrimPlan,
    TrimPolicy,
    make_plan,
    record_nothing,
    remove_batch,
)
from filejobs_dagster.audit.verify import CHECKS, Full, judge
from filejobs_dagster.audit.verify.load import list_pins, load
from filejobs_dagster.audit.verify.verdict import A_CLOCK_WAS_WRONG
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.audit.verify import Evidence
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.postgres.locks import Lease

__all__ = ["Batch", "Record", "TrimPlan", "TrimPolicy", "Trimmed", "trim_chain"]


@dataclass(frozen=True)
class Trimmed:
    """What a run did to one chain, or in a dry run would have done.

    Attributes:
        plan: How far it was to go.
        batches: What was removed.
    """

    plan: TrimPlan
    batches: tuple[Batch, ...] = ()

    @property
    def events(self) -> int:
        """How many events went."""
        return sum(batch.to_seq - batch.from_seq + 1 for batch in self.batches)


def trim_chain(
    database: Database,
    connection: Connection,
    chain: str,
    policy: TrimPolicy,
    *,
    live: bool,
    actor: str,
    run_id: str,
    go_on: Callable[[Batch | None], bool] = lambda _: True,
    record: Record = record_nothing,
    lease: Lease | None = None,
) -> Trimmed:
    """Trim one chain, or in a dry run tell what would go.

    Args:
        database: Where the tables are.
        connection: One without an open transaction.
        chain: Which chain.
        policy: How.
        live: False removes nothing and pins nothing.
        actor: Who has it done; stands in the receipt and in the chain.
        run_id: In which run.
        go_on: Asked before each batch, with the one before; False ends the run there.
        record: Called last in each batch's transaction, with cursor, plan and batch: the caller's
            own books are then as exact as the chain. What it raises undoes the batch.
        lease: The locks of the run that trims; None where no run does.

    Raises:
        TrimRefused: CHAIN_BUSY, VERIFY_FAILED, ROLLED_BACK, EQUIVOCATION, SEAL_UNPINNED,
            NO_COVERING_SEAL, LEGAL_HOLD, RETENTION, WOULD_EMPTY, KEY_UNKNOWN, ENCODING or
            ARCHIVE_MISSING. Batches that were committed before stay, with their receipts.
        Equivocation: Another text stands where a pin belongs.
        PinStoreUnusable: The place for pins cannot be used.
        LeaseLost: The chain's lock is gone.
    """
    store = policy.verify.pins
    if store is None:
        raise TrimRefused(
            "SEAL_UNPINNED", "no place for pins is set, so nothing outside covers what would go."
        )
    if not live:
        return Trimmed(_prepare(database, connection, chain, policy)[1])
    with locked(database, chain, TrimRefused, lease) as held:
        evidence, plan = _prepare(database, connection, chain, policy)
        trimming = Trimming(
            database,
            connection,
            policy,
            evidence,
            plan,
            store,
            actor=actor,
            run_id=run_id,
            record=record,
        )
        batches: list[Batch] = []
        reached = plan.base
        while reached < plan.to_seq and go_on(batches[-1] if batches else None):
            held.prove()
            batches.append(remove_batch(trimming))
            reached = batches[-1].to_seq
    return Trimmed(plan, tuple(batches))


def _prepare(
    database: Database,
    connection: Connection,
    chain: str,
    policy: TrimPolicy,
) -> tuple[Evidence, TrimPlan]:
    mode = Full()
    pinned = list_pins(policy.verify, chain, mode)
    must_have_the_right_time(database, connection, policy.verify, TrimRefused)
    with snapshot(database, connection) as cursor:
        evidence = load(cursor, database, policy.verify, chain, mode=mode, pinned=pinned)
        _refuse_what_does_not_match(evidence)
        cursor.execute("SELECT pg_catalog.current_setting('server_encoding')")
        _refuse_encoding(str(one(cursor)[0]))
        _refuse_a_younger_pin(evidence)
        newest = evidence.seals[-1].seal_no if evidence.seals else 1
        must_be_trusted(policy.verify.trusted, policy.signers, newest, TrimRefused)
        holds = active_holds(cursor, database, chain)
        return evidence, make_plan(cursor, database, policy, evidence, holds)


def _refuse_what_does_not_match(evidence: Evidence) -> None:
    # An event that a wrong clock has dated ahead stays a finding until it goes itself, and keeps
    # everything behind it from being due: it must not keep what is older as well.
    findings = [
        one for one in judge(evidence, CHECKS).findings if one.code not in A_CLOCK_WAS_WRONG
    ]
    if findings:
        raise TrimRefused(*code_for(findings, gap="VERIFY_FAILED"))


def _refuse_encoding(encoding: str) -> None:
    if encoding != "UTF8":
        raise TrimRefused(
            "ENCODING", f"the server's encoding is {encoding}; bodies are hashed as UTF8."
        )


def _refuse_a_younger_pin(evidence: Evidence) -> None:
    """Retention is a matter of the clock, which must not be the database's alone."""
    tolerance = evidence.policy.clock_tolerance
    newest = evidence.newest_pin()
    stored_at = None if newest is None else newest.stored_at
    if stored_at is not None and evidence.now < stored_at - tolerance:
        raise TrimRefused(
            "RETENTION",
            f"the database's clock says {evidence.now.isoformat()}, and the newest pin was stored "
            f"at {stored_at.isoformat()}.",
        )
