"""Proving that one event stands under a pin: a file that `offline.py` checks by itself."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from psycopg import sql

from filejobs_dagster.audit.offline import FORMAT
from filejobs_dagster.audit.session import snapshot, table
from filejobs_dagster.audit.tables import (
    base_of,
    read_checkpoints,
    read_moments,
    read_put_pins,
    read_seals,
)

if TYPE_CHECKING:
    from filejobs_dagster.audit.merkle import Frontier
    from filejobs_dagster.audit.origin import Origin
    from filejobs_dagster.postgres.connect import Connection, Database


class NothingToProve(Exception):
    """The event is not there, or no pinned seal counts it; the message says which."""


def prove_event(
    database: Database, connection: Connection, origin: Origin, seq: int
) -> tuple[str, str]:
    """Make the proof that an event stands in the first pinned seal that counts it.

    Nothing is verified here: a proof from a chain that was tampered with does not hold.

    Args:
        database: Where the tables are.
        connection: One without an open transaction.
        origin: Which chain.
        seq: Which event.

    Returns:
        The text of the file, and the key of the pin to compare it with.

    Raises:
        NothingToProve: See there.
    """
    events = table(database, "audit_event")
    with snapshot(database, connection) as cursor:
        base = base_of(origin.chain, read_checkpoints(cursor, database, origin.chain))
        pins = read_put_pins(cursor, database, origin.chain)
        seal = next(
            (
                one
                for one in read_seals(cursor, database, origin.chain)
                if one.size >= seq and origin.seal_key(one.incarnation, one.seal_no) in pins
            ),
            None,
        )
        if seal is None:
            raise NothingToProve(
                f"no pinned seal of the chain {origin.chain!r} counts event {seq}: seal it first"
            )
        if seq <= base.seq or base.frontier is None:
            raise NothingToProve(
                f"event {seq} was trimmed (up to {base.seq}): prove it from the archive's copy of "
                "the chain"
            )
        cursor.execute(
            sql.SQL("SELECT body, prev_hash FROM {} WHERE chain_id = %s AND seq = %s").format(
                events
            ),
            (origin.chain, seq),
        )
        event = cursor.fetchone()
        moment = read_moments(cursor, database, origin.chain, [seq]).get(seq)
        cursor.execute(
            sql.SQL(
                "SELECT hash FROM {} WHERE chain_id = %s AND seq > %s AND seq <= %s ORDER BY seq"
            ).format(events),
            (origin.chain, base.seq, seal.size),
        )
        hashes = [bytes(row[0]) for row in cursor.fetchall()]
    if event is None or moment is None or len(hashes) != seal.size - base.seq:
        raise NothingToProve(f"events up to {seal.size} are missing: verify the chain")
    path = _path(base.frontier, hashes, seq - 1, seal.size)
    document = {
        "format": FORMAT,
        "chain": origin.chain,
        "event": {
            "seq": seq,
            "recorded_at": moment,
            "body": event[0],
            "prev_hash": bytes(event[1]).hex(),
        },
        "path": [one.hex() for one in path],
        "note": seal.note,
        "pin": origin.seal_key(seal.incarnation, seal.seal_no),
    }
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return text, origin.seal_key(seal.incarnation, seal.seal_no)


def _path(trimmed: Frontier, hashes: list[bytes], index: int, size: int) -> list[bytes]:
    """The inclusion path of RFC 6962 for one leaf, smallest subtree first.

    What was trimmed is known by the peaks of its tree only. A subtree that the path names lies
    beside the leaf, which is live, so it never cuts through one of those peaks.
    """
    known: dict[tuple[int, int], bytes] = {}
    at, raw = 0, trimmed.to_bytes()
    for bit in reversed(range(trimmed.size.bit_length())):
        if trimmed.size >> bit & 1:
            known[at, at + (1 << bit)], raw = raw[:32], raw[32:]
            at += 1 << bit

    def root(low: int, high: int) -> bytes:
        if (low, high) in known:
            return known[low, high]
        if high - low == 1:
            return hashlib.sha256(b"\x00" + hashes[low - trimmed.size]).digest()
        middle = low + _half(high - low)
        return hashlib.sha256(b"\x01" + root(low, middle) + root(middle, high)).digest()

    path: list[bytes] = []
    low, high = 0, size
    while high - low > 1:
        middle = low + _half(high - low)
        if index < middle:
            path.append(root(middle, high))
            high = middle
        else:
            path.append(root(low, middle))
            low = middle
    return path[::-1]


def _half(count: int) -> int:
    """The largest power of two below a count."""
    return 1 << (count - 1).bit_length() - 1
