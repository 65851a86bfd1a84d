"""Acknowledging that a database was restored: the chain goes on, and what was lost stays named.

The database must agree with the newest pin that it still has a seal for, and with everything
before it. What was appended since the restore may contradict the pins that were lost, which count
other events under the same numbers: those are left out, and named in the note one by one.

Pins that count more than the database has are never explained away: they keep standing under the
old incarnation, and the note of the restore says which was the last of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import sign_note
from filejobs_dagster.audit.pins import bookkeeping
from filejobs_dagster.audit.pins.store import PinReceipt
from filejobs_dagster.audit.session import (
    RestoreRefused,
    code_for,
    locked,
    must_be_trusted,
    set_writing,
)
from filejobs_dagster.audit.statement import moment_text, sha256_of
from filejobs_dagster.audit.tables import RestoreRow
from filejobs_dagster.audit.verify import CHECKS, Full, examine, judge
from filejobs_dagster.audit.verify.verdict import TOLD_ALL_THE_SAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.audit.pins.read import Pinned
    from filejobs_dagster.audit.seal import SealPolicy
    from filejobs_dagster.audit.verify import Evidence
    from filejobs_dagster.audit.verify.verdict import Lost
    from filejobs_dagster.postgres.connect import Connection, Database

RESTORED = "audit.restore"
"""The kind of the event that stands where the chain goes on."""


def acknowledge_restore(
    database: Database,
    connection: Connection,
    chain: str,
    policy: SealPolicy,
    *,
    actor: str,
    reason: str,
) -> RestoreRow:
    """Let a chain go on whose database is older than its pins.

    The chain gets the next incarnation that nothing is pinned under; its seals are numbered on and
    pinned under that number.

    Args:
        database: Where the tables are.
        connection: One without an open transaction.
        chain: Which chain.
        policy: How it is sealed.
        actor: Who takes this upon himself; stands in the note and in the chain.
        reason: What happened, in words.

    Returns:
        What was written: what survived and what was lost.

    Raises:
        RestoreRefused: CHAIN_BUSY; NOT_ROLLED_BACK when no pin is ahead; VERIFY_FAILED when
            something else does not match either; SEAL_UNPINNED without a place for pins;
            KEY_UNKNOWN.
        PinStoreUnusable: The note could not be pinned; nothing was written.
    """
    store = policy.verify.pins
    if store is None:
        raise RestoreRefused("SEAL_UNPINNED", "no place for pins is set: nothing can be ahead.")
    with locked(database, chain, RestoreRefused) as lease:
        evidence = examine(database, connection, chain, policy.verify, mode=Full())
        lost = _must_be_older(evidence)
        survived = evidence.seals[-1].seal_no if evidence.seals else 0
        must_be_trusted(policy.verify.trusted, policy.signers, survived + 1, RestoreRefused)
        row = _row(evidence, lost, actor, reason)
        text = row.statement(evidence.origin).text()
        row = replace(row, note=sign_note(text, policy.signers))
        key = evidence.origin.restore_key(row.incarnation, sha256_of(row.note))
        lease.prove()
        receipt = bookkeeping.put(store, key, row.note, policy.locked_until(evidence.now))
        with database.transaction(connection) as cursor:
            set_writing(cursor)
            cursor.execute(
                "INSERT INTO audit_restore (chain_id, incarnation, survived_seal, survived_size,"
                " survived_head, lost_seal, lost_size, lost_note, actor, reason, restored_at,"
                " note, matched_size, matched_head, lost_pins) VALUES (%s, %s, %s, %s, %s, %s, %s,"
                " %s, %s, %s, %s::timestamptz, %s, %s, %s, %s)",
                (chain, *vars(row).values()),
            )
            bookkeeping.write_down(cursor, database, chain, row.note, receipt)
            for pin, put in _without_a_row(evidence):
                bookkeeping.write_down(cursor, database, chain, pin.note or "", put)
            cursor.execute(
                "UPDATE audit_chain SET incarnation = %s WHERE chain_id = %s",
                (row.incarnation, chain),
            )
            append(cursor, [_event(row)], chain=chain)
    return row


def _must_be_older(evidence: Evidence) -> Lost:
    result = judge(evidence, CHECKS)
    if result.lost is None:
        if result.codes <= TOLD_ALL_THE_SAME:
            raise RestoreRefused(
                "NOT_ROLLED_BACK",
                f"no pin of the chain {evidence.chain!r} is ahead of the database: there is "
                "nothing to acknowledge, seal as usual.",
            )
        raise RestoreRefused(*code_for(list(result.findings), gap="VERIFY_FAILED"))
    if result.lost.others:
        told = "; ".join(f"{one.code}: {one.message}" for one in result.lost.others[:5])
        raise RestoreRefused(
            "VERIFY_FAILED", f"the database is not only older, it does not match: {told}"
        )
    return result.lost


def _row(evidence: Evidence, lost: Lost, actor: str, reason: str) -> RestoreRow:
    head, newest = evidence.head, lost.pins[-1] if lost.pins else None
    ahead = evidence.without_lost_pins()[1]
    if head is None or newest is None or len(lost.pins) < len(ahead):
        raise RestoreRefused(
            "VERIFY_FAILED", "a pin that is ahead cannot be read, or the chain is not there: "
            "nothing can be said of what was lost.",
        )  # fmt: skip
    # An earlier restore of the same backup has pinned under the next number already.
    pinned = 0 if evidence.pinned is None else evidence.pinned.newest_incarnation
    return RestoreRow(
        incarnation=max(head.incarnation, pinned) + 1,
        survived_seal=evidence.seals[-1].seal_no if evidence.seals else 0,
        survived_size=head.head_seq,
        survived_head=head.head_hash,
        lost_seal=newest.seal_no,
        lost_size=newest.size,
        lost_note=newest.sha256,
        actor=actor,
        reason=reason,
        restored_at=moment_text(evidence.now),
        note="",
        matched_size=lost.matched_size,
        matched_head=lost.matched_head,
        lost_pins="\n".join(map(str, lost.pins)),
    )


def _without_a_row(evidence: Evidence) -> Iterator[tuple[Pinned, PinReceipt]]:
    """What stands outside, and whose row was lost with the database: it is demanded from now on."""
    pinned = evidence.pinned
    if pinned is None:
        return
    for pin in pinned.all:
        if pin.key not in evidence.put_pins:
            version = min(pinned.versions.get(pin.key, {None}), key=str)
            yield pin, PinReceipt(pin.key, version, pin.locked_until, was_there=True)


def _event(row: RestoreRow) -> dict[str, str]:
    return {
        "kind": RESTORED,
        "incarnation": str(row.incarnation),
        "survived_size": str(row.survived_size),
        "matched_size": str(row.matched_size),
        "lost_size": str(row.lost_size),
        "note_sha256": sha256_of(row.note).hex(),
        "by": row.actor,
        "reason": row.reason,
    }
