"""One batch of a trim: one transaction, which is complete or has removed nothing.

Check again, keep, delete, read back, sign, pin, append the event, look for holds once more, write
the checkpoint, commit. The pin is put before the commit: a crash in between leaves a pin of a trim
that never was, which the verifier recognises because its events are still there; a commit without
a pin could be undone by nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.holds import active_holds
from filejobs_dagster.audit.note import sign_note
from filejobs_dagster.audit.pins import bookkeeping
from filejobs_dagster.audit.refused import TrimRefused
from filejobs_dagster.audit.rows import Scan, described, scan
from filejobs_dagster.audit.session import set_writing, table
from filejobs_dagster.audit.statement import NOTHING_BEFORE, moment_text
from filejobs_dagster.audit.tables import CheckpointRow, base_of, read_checkpoints
from filejobs_dagster.audit.trim.archive import keep_batch
from filejobs_dagster.audit.trim.plan import covering_seal, recorded_at
from filejobs_dagster.audit.verify.load import TRIMMED
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.pins.store import PinStore
    from filejobs_dagster.audit.trim.plan import TrimPlan, TrimPolicy
    from filejobs_dagster.audit.verify import Evidence
    from filejobs_dagster.postgres.connect import Connection, Database


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
