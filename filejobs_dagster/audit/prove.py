"""Proving that events stand under pins: a file that `offline.py` checks by itself."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from filejobs_dagster.audit.append import events_of_file
from filejobs_dagster.audit.offline import FILE_FORMAT, FORMAT, NotProven, event_hash, root_of
from filejobs_dagster.audit.session import snapshot, table
from filejobs_dagster.audit.tables import (
    base_of,
    read_checkpoints,
    read_moments,
    read_put_pins,
    read_seals,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.origin import Origin
    from filejobs_dagster.audit.rows import Frontier
    from filejobs_dagster.audit.verify import VerifyPolicy
    from filejobs_dagster.postgres.connect import Connection, Database


class NothingToProve(Exception):
    """The event is not there, or no pinned seal counts it; the message says which."""


def prove_event(
    database: Database, connection: Connection, origin: Origin, seq: int
) -> tuple[str, str]:
    """Make the proof that an event stands in the first pinned seal that counts it.

    Nothing but this event is verified here: that is `verify_chain`.

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
    with snapshot(database, connection) as cursor:
        document = _Proving(cursor, database, origin, [seq]).proof(seq)
    return _text(document), document["pin"]


def prove_file(
    database: Database, connection: Connection, policy: VerifyPolicy, file: str, chain: str | None
) -> FileProof:
    """Make the proofs of every event that concerns a file, in one text.

    Args:
        database: Where the tables are.
        connection: One without an open transaction.
        policy: The origin of the chains.
        file: The file's identifier, or a storage key.
        chain: Look into this chain only; None for all.

    Raises:
        NothingToProve: No event concerns it, or none of them can be proven.
    """
    proofs: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    with snapshot(database, connection) as cursor:
        numbers: dict[str, list[int]] = {}
        for event in events_of_file(cursor, database, file):
            if chain in {None, event.chain}:
                numbers.setdefault(event.chain, []).append(event.seq)
        if not numbers:
            raise NothingToProve(
                f"no event names {file!r}. It may never have been told of, or have been trimmed"
            )
        for name, wanted in numbers.items():
            proving = _Proving(cursor, database, policy.origin_of(name), wanted)
            for seq in wanted:
                try:
                    proofs.append(proving.proof(seq))
                except NothingToProve as error:
                    left_out.append({"chain": name, "seq": seq, "why": str(error)})
    if not proofs:
        raise NothingToProve(left_out[0]["why"])
    document = {"format": FILE_FORMAT, "file": file, "proofs": proofs, "left_out": left_out}
    return FileProof(
        _text(document),
        len(proofs),
        tuple(dict.fromkeys(proof["pin"] for proof in proofs)),
        tuple(one["why"] for one in left_out),
    )


@dataclass(frozen=True)
class FileProof:
    """The proofs of one file.

    Attributes:
        text: What stands in the file.
        events: How many events it proves.
        pins: The keys of the pins to compare it with.
        left_out: Why each event that concerns the file and is not proven is not.
    """

    text: str
    events: int
    pins: tuple[str, ...]
    left_out: tuple[str, ...]


class _Proving:
    """One chain in a snapshot, read once for all the events that are proven."""

    def __init__(
        self,
        cursor: psycopg.Cursor[TupleRow],
        database: Database,
        origin: Origin,
        numbers: Sequence[int],
    ) -> None:
        self._origin = origin
        chain = origin.chain
        events = table(database, "audit_event")
        self._base = base_of(chain, read_checkpoints(cursor, database, chain))
        pins = read_put_pins(cursor, database, chain)
        pinned = [
            one
            for one in read_seals(cursor, database, chain)
            if origin.seal_key(one.incarnation, one.seal_no) in pins
        ]
        self._seals = {
            seq: next((one for one in pinned if one.size >= seq), None) for seq in numbers
        }
        self._moments = read_moments(cursor, database, chain, numbers)
        cursor.execute(
            sql.SQL(
                "SELECT seq, body, prev_hash FROM {} WHERE chain_id = %s"
                " AND seq = ANY(%s::bigint[])"
            ).format(events),
            (chain, list(numbers)),
        )
        self._events = {seq: (body, bytes(before)) for seq, body, before in cursor.fetchall()}
        cursor.execute(
            sql.SQL(
                "SELECT hash FROM {} WHERE chain_id = %s AND seq > %s AND seq <= %s ORDER BY seq"
            ).format(events),
            (
                chain,
                self._base.seq,
                max((one.size for one in self._seals.values() if one is not None), default=0),
            ),
        )
        self._hashes = [bytes(row[0]) for row in cursor.fetchall()]

    def proof(self, seq: int) -> dict[str, Any]:
        """The document that proves one event.

        Raises:
            NothingToProve: See there.
        """
        chain, base, seal = self._origin.chain, self._base, self._seals[seq]
        if seal is None:
            raise NothingToProve(
                f"no pinned seal of the chain {chain!r} counts event {seq}: seal it first"
            )
        if seq <= base.seq or base.frontier is None:
            raise NothingToProve(
                f"event {seq} was trimmed (up to {base.seq}): prove it from the archive's copy of "
                "the chain"
            )
        if seq not in self._events or len(self._hashes) < seal.size - base.seq:
            raise NothingToProve(f"events up to {seal.size} are missing: verify the chain")
        body, before = self._events[seq]
        event = {
            "seq": seq,
            "recorded_at": self._moments[seq],
            "body": body,
            "prev_hash": before.hex(),
        }
        path = _path(base.frontier, self._hashes, seq - 1, seal.size)
        try:
            root = root_of(event_hash(chain, event), seq - 1, seal.size, path)
        except NotProven:
            root = None
        if root != seal.root:
            raise NothingToProve(
                f"event {seq} does not lead to the root of seal {seal.seal_no}: verify the chain"
            )
        return {
            "format": FORMAT,
            "chain": chain,
            "event": event,
            "path": [one.hex() for one in path],
            "note": seal.note,
            "pin": self._origin.seal_key(seal.incarnation, seal.seal_no),
        }


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


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
