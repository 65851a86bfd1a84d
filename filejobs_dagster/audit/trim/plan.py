"""How far a chain may be trimmed, and what decides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from psycopg import sql

from filejobs_dagster.audit.refused import TrimRefused
from filejobs_dagster.audit.session import table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.holds import Hold
    from filejobs_dagster.audit.note import Signer
    from filejobs_dagster.audit.tables import SealRow
    from filejobs_dagster.audit.trim.archive import Archive
    from filejobs_dagster.audit.verify import Evidence, VerifyPolicy
    from filejobs_dagster.postgres.connect import Database

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
