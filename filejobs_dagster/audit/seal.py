"""Sealing a chain: where it has reached, signed, and copied outside of the database.

A seal is made from one snapshot. Appenders hold the chain's head row until they commit, so all
numbers up to the head of a snapshot are committed, and an append in flight has a higher one: a
seal skips nothing and waits for nobody. The range that is sealed is verified while it is read, and
so is every seal that an earlier run wrote and could not pin.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import COLLECTORS_CHAIN
from filejobs_dagster.audit.note import sign_note, text_of
from filejobs_dagster.audit.pins import bookkeeping
from filejobs_dagster.audit.pins.read import read_pins
from filejobs_dagster.audit.pins.store import PinReceipt, PinStoreUnusable
from filejobs_dagster.audit.session import (
    SealRefused,
    code_for,
    locked,
    must_be_trusted,
    must_have_the_right_time,
    set_writing,
    snapshot,
)
from filejobs_dagster.audit.statement import (
    NOTHING_BEFORE,
    ManifestStatement,
    UnreadableStatement,
    moment_text,
    sha256_of,
)
from filejobs_dagster.audit.tables import SealRow, names_by_need, newest_put_below
from filejobs_dagster.audit.verify import CHECKS, Sealing, VerifyPolicy, examine, known_chains

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from filejobs_dagster.audit.note import Signer
    from filejobs_dagster.audit.origin import Origin
    from filejobs_dagster.audit.pins.store import PinStore
    from filejobs_dagster.audit.verify import Evidence
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.postgres.locks import Lease

LOOKED_AT = (
    "chain_exists",
    "genesis_is_right",
    "bodies_match",
    "hashes_match",
    "links_hold",
    "numbers_are_dense",
    "times_do_not_go_back",
    "head_row_is_the_last_event",
    "seals_are_signed",
    "seals_equal_their_notes",
    "seals_form_a_chain",
    "events_reach_the_seals",
    "sealed_heads_match",
    "sealed_roots_match",
    "seals_equal_their_pins",
    "each_place_has_one_text",
    "no_pin_is_ahead",
    "events_reach_the_pins",
    "pinned_heads_match",
    "pinned_roots_match",
    "restores_are_genuine",
)
"""The checks that decide whether the chain can be sealed. What concerns old receipts, holds or
deleted pins is the verifier's to tell: new events are better sealed all the same."""


class NotPinned(Exception):
    """A seal is written and has no copy outside yet; the next run makes it first."""


@dataclass(frozen=True)
class SealPolicy:
    """How a chain is sealed.

    Attributes:
        verify: What is believed, and where the pins are.
        signers: Whoever signs; two while a key is replaced, none to seal without a signature.
        pin_for: How long a pin is locked where the place can lock; None for no lock.
        heartbeat: Whether to seal when nothing was appended, so that sealing that stopped shows.
    """

    verify: VerifyPolicy
    signers: tuple[Signer, ...] = ()
    pin_for: timedelta | None = None
    heartbeat: bool = True

    def locked_until(self, now: datetime) -> datetime | None:
        """Until when a pin that is put now stays."""
        return None if self.pin_for is None else now + self.pin_for


@dataclass(frozen=True)
class Sealed:
    """What a run did for one chain, or in a dry run would have done.

    Attributes:
        chain: Its name.
        seal_no: The seal's number; the newest one's when none was made.
        size: How many events it counts.
        events: How many of them no earlier seal counted.
        made: False for a heartbeat that is switched off, and for a dry run.
        signed: Whether anybody signed it.
        pinned: Whether it stands outside of the database.
        pinned_late: Numbers of older seals that were pinned first.
        note: Its text; empty when none was made.
    """

    chain: str
    seal_no: int
    size: int
    events: int
    made: bool
    signed: bool
    pinned: bool
    pinned_late: tuple[int, ...] = ()
    note: str = ""


def chains_by_need(database: Database, connection: Connection, policy: VerifyPolicy) -> list[str]:
    """All known chains: the jobs' own first, then the one that was longest not sealed.

    What an application writes must not keep what the jobs have done from being sealed.

    Raises:
        PinStoreUnusable: The place of the pins cannot be read.
    """
    known = known_chains(database, connection, policy)
    with snapshot(database, connection) as cursor:
        order = names_by_need(cursor, database)
    place = {chain: number for number, chain in enumerate(order)}
    # A chain that only its pins or its seals know is refused anyway.
    return sorted(known, key=lambda one: (one != COLLECTORS_CHAIN, place.get(one, len(place))))


def seal_chain(
    database: Database,
    connection: Connection,
    chain: str,
    policy: SealPolicy,
    *,
    live: bool,
    lease: Lease | None = None,
) -> Sealed:
    """Seal one chain, or in a dry run tell what would be sealed.

    Args:
        database: Where the tables are.
        connection: One without an open transaction.
        chain: Which chain.
        policy: How.
        live: False writes nothing, neither a seal nor a pin.
        lease: The locks of the run that seals; None where no run does.

    Raises:
        SealRefused: CHAIN_BUSY, ROLLED_BACK, EQUIVOCATION, SEAL_GAP, VERIFY_FAILED, CLOCK_WRONG or
            KEY_UNKNOWN.
        Equivocation: Another text stands where the pin belongs.
        NotPinned: The seal is written, and the place for pins did not take it.
        PinStoreUnusable: The place for pins cannot be read; nothing was written.
        LeaseLost: The chain's lock is gone; nothing more was written.
    """
    if not live:
        return _would_seal(_look(database, connection, chain, policy), policy)
    with locked(database, chain, SealRefused, lease) as held:
        evidence = _look(database, connection, chain, policy)
        late = _pin_what_is_not(database, connection, policy, evidence)
        planned = _would_seal(evidence, policy)
        if not planned.events and not policy.heartbeat and evidence.seals:
            newest = evidence.seals[-1]
            if evidence.pinned is not None:
                _keep_manifest(database, connection, policy, evidence, newest)
            return Sealed(
                chain,
                newest.seal_no,
                planned.size,
                0,
                made=False,
                signed=bool(policy.signers),
                pinned=evidence.pinned is not None,
                pinned_late=late,
            )
        row = _next_seal(evidence, policy)
        _write(database, connection, held, chain, row)
        pinned = _pin(database, connection, policy, evidence, row)
        _keep_manifest(database, connection, policy, evidence, row)
    return Sealed(
        chain,
        row.seal_no,
        row.size,
        planned.events,
        made=True,
        signed=bool(policy.signers),
        pinned=pinned,
        pinned_late=late,
        note=row.note,
    )


def _look(database: Database, connection: Connection, chain: str, policy: SealPolicy) -> Evidence:
    must_have_the_right_time(database, connection, policy.verify, SealRefused)
    evidence = examine(database, connection, chain, policy.verify, mode=Sealing())
    findings = [
        finding
        for name in LOOKED_AT
        for finding in CHECKS[name](evidence)
        if finding.severity == "finding"
    ]
    if findings:
        raise SealRefused(*code_for(findings, gap="SEAL_GAP"))
    if evidence.tail is None or evidence.tail.last.frontier is None:
        raise SealRefused(
            "VERIFY_FAILED",
            "the tree of the newest pinned seal is not in the database, so no root can be computed "
            "behind it. Verify the chain.",
        )
    following = _following(evidence)
    must_be_trusted(policy.verify.trusted, policy.signers, following, SealRefused)
    return evidence


def _following(evidence: Evidence) -> int:
    return evidence.seals[-1].seal_no + 1 if evidence.seals else 1


def _would_seal(evidence: Evidence, policy: SealPolicy) -> Sealed:
    before = evidence.seals[-1].size if evidence.seals else 0
    size = evidence.last_seq
    return Sealed(
        evidence.chain,
        _following(evidence),
        size,
        size - before,
        made=False,
        signed=bool(policy.signers),
        pinned=False,
    )


def _next_seal(evidence: Evidence, policy: SealPolicy) -> SealRow:
    place = evidence.scans[-1].last
    frontier = place.frontier
    if frontier is None:  # pragma: no cover - refused before
        raise LookupError("a chain without a tree cannot be sealed")
    last = evidence.seals[-1] if evidence.seals else None
    system_id, timeline = evidence.identity
    unsigned = SealRow(
        seal_no=1 if last is None else last.seal_no + 1,
        incarnation=evidence.incarnation,
        size=place.seq,
        head_hash=place.hash,
        root=frontier.root(),
        frontier=frontier.to_bytes(),
        sealed_at=moment_text(evidence.now),
        prev_seal=NOTHING_BEFORE if last is None else last.sha256,
        system_id=system_id,
        timeline=timeline,
        note="",
    )
    note = sign_note(unsigned.statement(evidence.origin).text(), policy.signers)
    return replace(unsigned, note=note)


def _write(
    database: Database, connection: Connection, lease: Lease, chain: str, row: SealRow
) -> None:
    lease.prove()
    with database.transaction(connection) as cursor:
        set_writing(cursor)
        cursor.execute(
            "INSERT INTO audit_seal (chain_id, seal_no, incarnation, size, head_hash, root,"
            " frontier, sealed_at, prev_seal, system_id, timeline, note)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s::timestamptz, %s, %s, %s, %s)",
            (chain, *vars(row).values()),
        )


def _pin_what_is_not(
    database: Database, connection: Connection, policy: SealPolicy, evidence: Evidence
) -> tuple[int, ...]:
    if evidence.pinned is None:
        return ()
    late: list[int] = []
    for seal in evidence.seals:
        key = evidence.origin.seal_key(seal.incarnation, seal.seal_no)
        if key in evidence.put_pins:
            # One that was there and is gone is not put again: the trace of it would be lost.
            continue
        there = evidence.pinned.versions.get(key)
        if there is None:
            if not late:
                # Nobody knows whether its COMMIT was taken by the standbys that the server waits
                # for: this one comes later, and is waited for.
                with database.transaction(connection) as cursor:
                    cursor.execute(
                        "SELECT pg_catalog.pg_logical_emit_message(true, 'filejobs/audit', '')"
                    )
            _pin(database, connection, policy, evidence, seal)
            late.append(seal.seal_no)
        else:
            # An earlier run ended between the pin and its row.
            receipt = PinReceipt(key, min(there, key=str), None, was_there=True)
            with database.transaction(connection) as cursor:
                bookkeeping.write_down(cursor, database, evidence.chain, seal.note, receipt)
    return tuple(late)


def _pin(
    database: Database,
    connection: Connection,
    policy: SealPolicy,
    evidence: Evidence,
    row: SealRow,
) -> bool:
    store: PinStore | None = policy.verify.pins
    if store is None:
        return False
    key = evidence.origin.seal_key(row.incarnation, row.seal_no)
    try:
        receipt = bookkeeping.put(store, key, row.note, policy.locked_until(evidence.now))
    except PinStoreUnusable as error:
        raise NotPinned(
            f"Seal {row.seal_no} of the chain {evidence.chain!r} is written and has no copy "
            f"outside of the database: {error} The next run pins it first."
        ) from error
    with database.transaction(connection) as cursor:
        bookkeeping.write_down(cursor, database, evidence.chain, row.note, receipt)
    return True


def _keep_manifest(
    database: Database,
    connection: Connection,
    policy: SealPolicy,
    evidence: Evidence,
    seal: SealRow,
) -> None:
    """Put a manifest beside the pins where the newest one differs, or is of another day.

    Nothing is written over, so each is an object of its own, locked as long as the pins of its day.
    """
    store, origin = policy.verify.pins, evidence.origin
    if store is None:
        return
    wanted = ManifestStatement(
        origin=origin.line(seal.incarnation),
        chain=evidence.chain,
        incarnation=seal.incarnation,
        keys=tuple(str(signer.verifier) for signer in policy.signers),
        first_seq=evidence.base.seq + 1,
        first_at=evidence.began or "-",
        before=evidence.base.hash,
        seal_no=seal.seal_no,
        size=seal.size,
        note=seal.sha256,
        sealed_at=seal.sealed_at,
    )
    try:
        if _newest_manifest_is_as_good(database, connection, store, wanted, origin):
            return
        note = sign_note(wanted.text(), policy.signers)
        key = origin.manifest_key(seal.incarnation, seal.seal_no, sha256_of(note))
        receipt = bookkeeping.put(store, key, note, policy.locked_until(evidence.now))
    except PinStoreUnusable as error:
        raise NotPinned(
            f"Seal {seal.seal_no} of the chain {evidence.chain!r} is pinned, and the manifest "
            f"beside it could not be put: {error} The next run puts it."
        ) from error
    with database.transaction(connection) as cursor:
        bookkeeping.write_down(cursor, database, evidence.chain, note, receipt)


def _newest_manifest_is_as_good(
    database: Database,
    connection: Connection,
    store: PinStore,
    wanted: ManifestStatement,
    origin: Origin,
) -> bool:
    folder = origin.manifest_folder(wanted.incarnation)
    with database.transaction(connection, read_only=True) as cursor:
        key = newest_put_below(cursor, database, origin.chain, folder)
    if key is None:
        return False
    try:
        return any(
            ManifestStatement.parse(text_of(pin.note or "")).is_as_good_as(wanted)
            for pin in read_pins(store, origin, under=key).all
        )
    except UnreadableStatement:
        return False
