"""One batch of a trim: one transaction, which is complete or has removed nothing.

Check again, keep, delete, read back, sign, pin, append the event, look for holds once more, write
the checkpoint, commit. The pin is put before the commit: a crash in between leaves a pin of a trim
that never was, which the verifier recognises because its events are still there; a commit without
a pin could be undone by nobody.

`make_plan` says before how far a chain may be trimmed, and what decides it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from psycopg import sql

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.holds import active_holds
from filejobs_dagster.audit.note import sign_note
from filejobs_dagster.audit.pins import bookkeeping
from filejobs_dagster.audit.rows import Scan, described, scan
from filejobs_dagster.audit.session import TrimRefused, set_writing, table
from filejobs_dagster.audit.statement import NOTHING_BEFORE, moment_text
from filejobs_dagster.audit.tables import CheckpointRow, base_of, read_checkpoints
from filejobs_dagster.audit.trim.archive import keep_batch
from filejobs_dagster.audit.verify.load import TRIMMED
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.holds import Hold
    from filejobs_dagster.audit.note import Signer
    from filejobs_dagster.audit.pins.store import PinStore
    from filejobs_dagster.audit.tables import SealRow
    from filejobs_dagster.audit.trim.archive import Archive
    from filejobs_dagster.audit.verify import Evidence, VerifyPolicy
    from filejobs_dagster.postgres.connect import Connection, Database

# How far a chain may be trimmed, and what decides it.

StoppedBy = Literal["RETENTION", "SEAL", "LEGAL_HOLD", "UP_TO", "WOULD_EMPTY"]


@dataclass(frozen=True)
class TrimPolicy:
    """How a chain is trimmed.

    Attributes:
        verify: What is believed, and where the pins are; a trim needs a place for pins.
        retention: How long an event is kept.
        signers: Whoever signs the receipts.
        pin_for: How long a pin is locked where the place can lock.
        batch: How many events one transaction removes.
        up_to: No event behind this one is removed; None for no such limit.
        archive: Where events are kept before they are removed, or None.
    """

    verify: VerifyPolicy
    retention: timedelta
    signers: tuple[Signer, ...] = ()
    pin_for: timedelta | None = None
    batch: int = 10_000
    up_to: int | None = None
    archive: Archive | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that would remove everything, or nothing for ever."""
        if self.retention <= timedelta() or self.batch < 1:
            raise ValueError("A trim keeps events for a while, and removes at least one at a time")


@dataclass(frozen=True)
class TrimPlan:
    """What a trim would remove.

    Attributes:
        chain: Which chain.
        base: Up to where it was trimmed before.
        due_to: The last event that is older than the retention.
        to_seq: The last event that goes; `base` when none does.
        stopped_by: What kept it from going as far as what is due: the retention itself, the
            boundary of a pinned seal, a hold, the operator's limit, or that the last event stays.
        cutoff: What was recorded before this moment is due.
        holds: The holds that stand.
        covering_seal: The pinned seal that covers all of it; 0 when nothing goes.
        first_at: When the first event that goes was recorded, or None.
        last_at: When the last one was, or None.
        ends: The hash of the last event of each batch, as the verification saw it. A chain of
            hashes that ends there is the one that was verified.
    """

    chain: str
    base: int
    due_to: int
    to_seq: int
    stopped_by: StoppedBy
    cutoff: datetime
    holds: tuple[Hold, ...] = field(default=())
    covering_seal: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    ends: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def events(self) -> int:
        """How many go."""
        return self.to_seq - self.base


def make_plan(
    cursor: psycopg.Cursor[TupleRow],
    database: Database,
    policy: TrimPolicy,
    evidence: Evidence,
    holds: Sequence[Hold],
) -> TrimPlan:
    """Decide how far to go. The chain was verified: its numbers are dense.

    Raises:
        TrimRefused: LEGAL_HOLD, NO_COVERING_SEAL, SEAL_UNPINNED or WOULD_EMPTY.
    """
    base, head = evidence.base.seq, evidence.last_seq
    if policy.up_to is not None and policy.up_to >= head:
        raise TrimRefused(
            "WOULD_EMPTY",
            f"the limit {policy.up_to} is not below the newest event, {head}, which stays.",
        )
    cutoff = evidence.now - policy.retention
    due = last_before(cursor, database, evidence.chain, cutoff, base=base, head=head)
    plan = TrimPlan(evidence.chain, base, due, base, "RETENTION", cutoff, tuple(holds))
    if due <= base:
        return plan
    if holds and holds[0].from_seq <= base + 1:
        raise TrimRefused(
            "LEGAL_HOLD",
            f"hold {holds[0].hold_id} keeps everything from event {holds[0].from_seq} on, and "
            f"{base + 1} is the first one. Events up to {due} are due.",
        )
    to_seq, stopped_by = _nearest(policy, evidence, holds, due)
    if to_seq <= base:
        return TrimPlan(evidence.chain, base, due, base, stopped_by, cutoff, tuple(holds))
    return TrimPlan(
        evidence.chain,
        base,
        due,
        to_seq,
        stopped_by,
        cutoff,
        tuple(holds),
        covering_seal(evidence, to_seq).seal_no,
        recorded_at(cursor, database, evidence.chain, base + 1),
        recorded_at(cursor, database, evidence.chain, to_seq),
        _hashes_at(
            cursor, database, evidence.chain, [*range(base, to_seq, policy.batch)[1:], to_seq]
        ),
    )


def covering_seal(evidence: Evidence, to_seq: int) -> SealRow:
    """The smallest pinned seal that counts an event.

    Raises:
        TrimRefused: SEAL_UNPINNED: its pin is not locked any more.
    """
    seal = next(seal for seal in pinned_rows(evidence) if seal.size >= to_seq)
    store, pinned = evidence.policy.pins, evidence.pinned
    if store is None or pinned is None:  # pragma: no cover - refused before
        raise TrimRefused("SEAL_UNPINNED", "there is no place for pins")
    locked_until = pinned.seals[seal.incarnation, seal.seal_no].locked_until
    if store.protects and (locked_until is None or locked_until <= evidence.now):
        raise TrimRefused(
            "SEAL_UNPINNED",
            f"the pin of seal {seal.seal_no}, which covers event {to_seq}, is "
            f"{'not locked' if locked_until is None else f'locked until {locked_until} only'}. "
            "Pins must be locked for longer than events are kept.",
        )
    return seal


def pinned_rows(evidence: Evidence) -> list[SealRow]:
    """The seals that stand outside of the database, in order."""
    pins = {} if evidence.pinned is None else evidence.pinned.seals
    return [seal for seal in evidence.seals if (seal.incarnation, seal.seal_no) in pins]


def last_before(
    cursor: psycopg.Cursor[TupleRow],
    database: Database,
    chain: str,
    cutoff: datetime,
    *,
    base: int,
    head: int,
) -> int:
    """The last event before the first one that was not recorded before a moment.

    Not the last with an older time: a clock may have gone back, and an event in between, dated
    ahead, then keeps what is behind it.
    """
    cursor.execute(
        sql.SQL(
            "SELECT seq FROM {} WHERE chain_id = %s AND seq > %s AND seq <= %s"
            " AND recorded_at >= %s ORDER BY seq LIMIT 1"
        ).format(table(database, "audit_event")),
        (chain, base, head, cutoff),
    )
    row = cursor.fetchone()
    return head if row is None else int(row[0]) - 1


def recorded_at(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, seq: int
) -> datetime | None:
    """When an event was recorded; None when it is not there."""
    cursor.execute(
        sql.SQL("SELECT recorded_at FROM {} WHERE chain_id = %s AND seq = %s").format(
            table(database, "audit_event")
        ),
        (chain, seq),
    )
    row = cursor.fetchone()
    return None if row is None else row[0]


def _hashes_at(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, numbers: Sequence[int]
) -> dict[int, bytes]:
    cursor.execute(
        sql.SQL("SELECT seq, hash FROM {} WHERE chain_id = %s AND seq = ANY(%s::bigint[])").format(
            table(database, "audit_event")
        ),
        (chain, list(numbers)),
    )
    return {int(seq): bytes(digest) for seq, digest in cursor.fetchall()}


def _nearest(
    policy: TrimPolicy, evidence: Evidence, holds: Sequence[Hold], due: int
) -> tuple[int, StoppedBy]:
    base = evidence.base.seq
    sizes = [seal.size for seal in pinned_rows(evidence)]
    newest = max(sizes, default=0)
    if newest <= base or (newest < due and not any(base < size <= due for size in sizes)):
        raise TrimRefused(
            "NO_COVERING_SEAL",
            f"events {base + 1} to {due} are due, and the newest pinned seal counts {newest}: "
            "seal the chain first.",
        )
    boundary = max((size for size in sizes if base < size <= due), default=base)
    choices: list[tuple[int, StoppedBy]] = [
        (due, "RETENTION"),
        (boundary, "SEAL"),
        (evidence.last_seq - 1, "WOULD_EMPTY"),
    ]
    if holds:
        choices.append((holds[0].from_seq - 1, "LEGAL_HOLD"))
    if policy.up_to is not None:
        choices.append((policy.up_to, "UP_TO"))
    return min(choices, key=lambda choice: choice[0])


Record = Callable[["psycopg.Cursor[TupleRow]", "TrimPlan", "Batch"], None]


def record_nothing(cursor: psycopg.Cursor[TupleRow], plan: TrimPlan, batch: Batch) -> None:
    """Keep no books besides the chain's own."""


@dataclass(frozen=True)
class Trimming:
    """A trim at work.

    Attributes:
        database: Where the tables are.
        connection: One without an open transaction.
        policy: How.
        evidence: What the verification before it saw.
        plan: How far to go.
        store: Where the pins are.
        actor: Who has it done.
        run_id: In which run.
        record: Called last in each batch's transaction, with its cursor: what it writes is
            committed with the batch or not at all. What it raises undoes the batch.
    """

    database: Database
    connection: Connection
    policy: TrimPolicy
    evidence: Evidence
    plan: TrimPlan
    store: PinStore
    actor: str
    run_id: str
    record: Record = record_nothing

    @property
    def chain(self) -> str:
        """Which chain."""
        return self.plan.chain


@dataclass(frozen=True)
class Batch:
    """What one transaction removed.

    Attributes:
        checkpoint_no: Its checkpoint.
        from_seq: The first event.
        to_seq: The last one.
        archive: Where they are kept, or None.
        pin: The key of the checkpoint's pin.
    """

    checkpoint_no: int
    from_seq: int
    to_seq: int
    archive: str | None
    pin: str


def remove_batch(trimming: Trimming) -> Batch:
    """Remove the next batch of the plan.

    Raises:
        TrimRefused: VERIFY_FAILED, LEGAL_HOLD, RETENTION, ARCHIVE_MISSING or SEAL_UNPINNED.
        Equivocation: Another text stands where the pin belongs.
        PinStoreUnusable: The pin could not be put; nothing was removed.
    """
    database, chain = trimming.database, trimming.chain
    with database.transaction(trimming.connection, unlimited=True) as cursor:
        set_writing(cursor)
        earlier = read_checkpoints(cursor, database, chain)
        base = base_of(chain, earlier)
        end = min(trimming.plan.to_seq, base.seq + trimming.policy.batch)
        _refuse_for_a_hold(cursor, trimming, end)
        found = scan(cursor, table(database, "audit_event"), chain, base, end=end)
        first_at, last_at = _checked(cursor, trimming, found)
        archive = _archived(cursor, trimming, found)
        _delete(cursor, chain, found)
        row = _checkpoint(trimming, found, earlier[-1] if earlier else None)
        row = replace(row, first_at=first_at, last_at=last_at, archive=archive)
        text = row.statement(trimming.evidence.origin).text()
        row = replace(row, note=sign_note(text, trimming.policy.signers))
        _record(cursor, trimming, row)
        key = trimming.evidence.origin.trim_key(row.incarnation, row.checkpoint_no, row.sha256)
        batch = Batch(row.checkpoint_no, row.from_seq, row.to_seq, archive, key)
        trimming.record(cursor, trimming.plan, batch)
    return batch


def _refuse_for_a_hold(cursor: psycopg.Cursor[TupleRow], trimming: Trimming, end: int) -> None:
    for hold in active_holds(cursor, trimming.database, trimming.chain):
        if hold.from_seq <= end:
            raise TrimRefused(
                "LEGAL_HOLD",
                f"hold {hold.hold_id} was set meanwhile and keeps everything from event "
                f"{hold.from_seq} on; this batch would have gone to {end}.",
            )


def _checked(cursor: psycopg.Cursor[TupleRow], trimming: Trimming, found: Scan) -> tuple[str, str]:
    """Make sure that the range is whole and due; return when it begins and ends."""
    if found.wrong or found.last.seq != found.end or found.last.frontier is None:
        what = described(found.wrong) or f"the events end at {found.last.seq}"
        raise TrimRefused("VERIFY_FAILED", f"{what}. Nothing of this batch was removed.")
    if trimming.plan.ends.get(found.end) != found.last.hash:
        # A chain that was rewritten since is whole in itself; removing it would hide what it was.
        raise TrimRefused(
            "VERIFY_FAILED",
            f"the chain up to event {found.end} is not the one that was verified a moment ago: "
            "somebody rewrites it. Nothing of this batch was removed.",
        )
    first, last = (
        recorded_at(cursor, trimming.database, trimming.chain, seq)
        for seq in (found.start.seq + 1, found.end)
    )
    if first is None or last is None:  # pragma: no cover - they were counted
        raise LookupError("an event that was read is not there")
    if last >= trimming.plan.cutoff:
        raise TrimRefused(
            "RETENTION",
            f"event {found.end} was recorded at {last.isoformat()}, which is not before "
            f"{trimming.plan.cutoff.isoformat()}.",
        )
    return moment_text(first), moment_text(last)


def _archived(cursor: psycopg.Cursor[TupleRow], trimming: Trimming, found: Scan) -> str | None:
    if trimming.policy.archive is None:
        return None
    return keep_batch(
        cursor,
        trimming.database,
        trimming.policy.archive,
        trimming.evidence.origin,
        incarnation=trimming.evidence.incarnation,
        start=found.start,
        end=found.last,
    )


def _delete(cursor: psycopg.Cursor[TupleRow], chain: str, found: Scan) -> None:
    cursor.execute("SELECT set_config('filejobs.audit_trim', %s, true)", (f"{found.end} {chain}",))
    cursor.execute(
        "DELETE FROM audit_event WHERE chain_id = %s AND seq > %s AND seq <= %s",
        (chain, found.start.seq, found.end),
    )
    removed = cursor.rowcount
    cursor.execute(
        "SELECT (SELECT count(*) FROM audit_event WHERE chain_id = %s AND seq <= %s),"
        " (SELECT prev_hash FROM audit_event WHERE chain_id = %s ORDER BY seq LIMIT 1)",
        (chain, found.end, chain),
    )
    left, next_hash = one(cursor)
    if (removed, left, next_hash) != (found.count, 0, found.last.hash):
        raise TrimRefused(
            "VERIFY_FAILED",
            f"{removed} of {found.count} events went, {left} were left, or the first one behind "
            "them does not name the last of them. Everything of this batch was put back.",
        )


def _checkpoint(trimming: Trimming, found: Scan, before: CheckpointRow | None) -> CheckpointRow:
    frontier = found.last.frontier
    if frontier is None:  # pragma: no cover - refused before
        raise LookupError("a range without a tree was removed")
    evidence = trimming.evidence
    return CheckpointRow(
        checkpoint_no=1 if before is None else before.checkpoint_no + 1,
        incarnation=evidence.incarnation,
        from_seq=found.start.seq + 1,
        to_seq=found.end,
        events=found.count,
        first_at="",
        last_at="",
        prev_hash=found.start.hash,
        last_hash=found.last.hash,
        frontier=frontier.to_bytes(),
        seal_no=covering_seal(evidence, found.end).seal_no,
        newest_seal_no=evidence.seals[-1].seal_no,
        cutoff=moment_text(trimming.plan.cutoff),
        retention=int(trimming.policy.retention.total_seconds()),
        actor=trimming.actor,
        run_id=trimming.run_id,
        archive=None,
        prev_checkpoint=NOTHING_BEFORE if before is None else before.sha256,
        note="",
        event_seq=0,
    )


def _record(cursor: psycopg.Cursor[TupleRow], trimming: Trimming, row: CheckpointRow) -> None:
    """Pin first; the event takes the chain's head, so it comes late."""
    key = trimming.evidence.origin.trim_key(row.incarnation, row.checkpoint_no, row.sha256)
    receipt = bookkeeping.put(trimming.store, key, row.note, _locked_until(trimming))
    numbers = append(
        cursor,
        [
            {
                "kind": TRIMMED,
                "checkpoint": str(row.checkpoint_no),
                "from_seq": str(row.from_seq),
                "to_seq": str(row.to_seq),
                "note_sha256": row.sha256.hex(),
                "by": row.actor,
                "run_id": row.run_id,
            }
        ],
        chain=trimming.chain,
    )
    if numbers is None:  # pragma: no cover - there is one event
        raise LookupError("an event was appended and has no number")
    # Whoever sets a hold takes the head first, which is ours now: nothing comes in between.
    _refuse_for_a_hold(cursor, trimming, row.to_seq)
    _insert(cursor, trimming.chain, replace(row, event_seq=numbers[0]))
    bookkeeping.write_down(cursor, trimming.database, trimming.chain, row.note, receipt)


def _locked_until(trimming: Trimming) -> datetime | None:
    if trimming.policy.pin_for is None:
        return None
    return trimming.evidence.now + trimming.policy.pin_for


def _insert(cursor: psycopg.Cursor[TupleRow], chain: str, row: CheckpointRow) -> None:
    cursor.execute(
        "INSERT INTO audit_checkpoint (chain_id, checkpoint_no, incarnation, from_seq, to_seq,"
        " events, first_at, last_at, prev_hash, last_hash, frontier, seal_no, newest_seal_no,"
        " cutoff, retention, actor, run_id, archive, prev_checkpoint, note, event_seq)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s::timestamptz, %s::timestamptz, %s, %s, %s, %s, %s,"
        " %s::timestamptz, %s, %s, %s, %s, %s, %s, %s)",
        (chain, *vars(row).values()),
    )
