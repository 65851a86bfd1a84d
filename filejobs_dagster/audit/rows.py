"""Reading a range of events: every hash computed again, every link followed, the tree folded.

PostgreSQL computes the hashes with functions of its own and sends 32 bytes and a few flags for
each event; Python folds the tree meanwhile. Nothing grows with the range.

The tree is the Merkle tree of RFC 6962 over the hashes of the events (`Frontier`).
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

# The Merkle tree of RFC 6962 over the hashes of a chain's events, folded as they come.

HASH_BYTES = 32

EMPTY_ROOT = hashlib.sha256(b"").digest()
"""RFC 6962, 2.1: the hash of an empty list is the hash of an empty string."""

_LEAF = b"\x00"
_NODE = b"\x01"


class BrokenFrontier(ValueError):
    """The bytes are no frontier of a tree of that size."""


class Frontier:
    """The roots of the perfect subtrees of a growing tree, largest first.

    It has one hash for each bit that is set in the number of leaves, so it stays small whatever
    the size, and a tree can be continued from it without its leaves.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Continue a tree.

        Args:
            size: How many leaves it has.
            peaks: The roots of its perfect subtrees, largest first.

        Raises:
            BrokenFrontier: There are not as many peaks as the size says.
        """
        if size < 0 or len(peaks) != size.bit_count():
            raise BrokenFrontier(f"a tree of {size} leaves does not have {len(peaks)} peaks")
        self.size = size
        self._peaks = list(peaks)

    @classmethod
    def from_bytes(cls, size: int, content: bytes) -> Frontier:
        """Read what `to_bytes` wrote.

        Raises:
            BrokenFrontier: It was not written for a tree of that size.
        """
        if len(content) % HASH_BYTES:
            raise BrokenFrontier(f"{len(content)} bytes are not a number of hashes")
        peaks = [content[at : at + HASH_BYTES] for at in range(0, len(content), HASH_BYTES)]
        return cls(size, peaks)

    def to_bytes(self) -> bytes:
        """The peaks one after the other."""
        return b"".join(self._peaks)

    def copy(self) -> Frontier:
        """The same tree, to be continued apart from this one."""
        return Frontier(self.size, self._peaks)

    def add(self, entry: bytes) -> None:
        """Append one leaf; the entry is hashed with the prefix of a leaf first."""
        sha256 = hashlib.sha256
        peaks = self._peaks
        node = sha256(_LEAF + entry).digest()
        size = self.size
        # Each bit that is set at the end is a perfect subtree of the new node's own size.
        while size & 1:
            node = sha256(_NODE + peaks.pop() + node).digest()
            size >>= 1
        peaks.append(node)
        self.size += 1

    def extend(self, entries: Iterable[bytes]) -> None:
        """Append leaves in order."""
        for entry in entries:
            self.add(entry)

    def root(self) -> bytes:
        """The root of the tree as it is now."""
        if not self._peaks:
            return EMPTY_ROOT
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = hashlib.sha256(_NODE + peak + node).digest()
        return node


EV_BODY = "EV_BODY"
EV_HASH = "EV_HASH"
EV_LINK = "EV_LINK"
EV_SEQ = "EV_SEQ"
EV_TIME = "EV_TIME"
EV_AHEAD = "EV_AHEAD"

CLOCK = "audit.clock"
"""The kind of the event by which the append says that the clock went back, and time with it."""

FLAGS = {1: EV_BODY, 2: EV_HASH, 4: EV_LINK, 8: EV_SEQ, 16: EV_TIME}
"""What each bit of an event's flags says is wrong with it."""

_SCAN = """
COPY (
    SELECT CASE WHEN octet_length(hash) = 32 THEN hash ELSE {nothing} END,
           seq,
           ((body_hash IS DISTINCT FROM sha256(convert_to(body, 'UTF8')))::int
            + 2 * (hash IS DISTINCT FROM sha256({prefix} || int2send(alg) || {chain_digest}
                       || int8send(seq) || timestamptz_send(recorded_at) || prev_hash
                       || body_hash))::int
            + 4 * (prev_hash IS DISTINCT FROM lag(hash, 1, {start_hash}) OVER in_order)::int
            + 8 * (seq <> lag(seq, 1, {start}::bigint) OVER in_order + 1)::int
            + 16 * CASE WHEN recorded_at < lag(recorded_at) OVER in_order
                        THEN (body NOT LIKE {clock_event})::int ELSE 0 END)::int2
      FROM {table}
     WHERE chain_id = {chain} AND seq > {start}::bigint AND seq <= {end}::bigint
    WINDOW in_order AS (ORDER BY seq)
     ORDER BY seq
) TO STDOUT (FORMAT BINARY)
"""

_HEADER = b"PGCOPY\n\xff\r\n\0"
_RECORD = struct.Struct(">hi32siqih")
"""Three fields, each behind its length: the hash, the number, the flags."""
_FIELDS = 3

LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Position:
    """A place in a chain, from which it can be followed.

    Attributes:
        seq: The number of events up to here.
        hash: The hash of the last one, or the chain's genesis.
        frontier: The tree up to here; None when nobody knows it, and no root can be computed.
    """

    seq: int
    hash: bytes
    frontier: Frontier | None


@dataclass(frozen=True)
class Boundary:
    """What the events say at one size.

    Attributes:
        hash: The hash of the event of that number.
        root: The root over everything up to it; None when it could not be computed.
    """

    hash: bytes
    root: bytes | None


@dataclass
class Tally:
    """How often something is wrong, and where first."""

    count: int = 0
    first: int = 0

    def note(self, seq: int) -> None:
        """Count one more."""
        if not self.count:
            self.first = seq
        self.count += 1


@dataclass
class Scan:
    """What a range of events looks like.

    Attributes:
        start: Where it was entered.
        end: The last number that was asked for.
        count: How many events it has.
        last: The newest of them, or the start.
        wrong: What is wrong, by code.
        boundaries: The sizes that were asked for and are there.
    """

    start: Position
    end: int
    count: int = 0
    last: Position = field(init=False)
    wrong: dict[str, Tally] = field(default_factory=dict)
    boundaries: dict[int, Boundary] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing was read yet."""
        self.last = self.start

    def covers(self, size: int) -> bool:
        """Tell whether the size lies in the range that was asked for."""
        return self.start.seq < size <= self.end


def event_prefix() -> bytes:
    """What the pre-image of every event begins with."""
    return b"filejobs/audit/event\n"


def genesis(chain: str) -> bytes:
    """The hash before the first event."""
    return hashlib.sha256(b"filejobs/audit/genesis\n" + chain.encode()).digest()


def scan(
    cursor: psycopg.Cursor[TupleRow],
    table: sql.Identifier,
    chain: str,
    start: Position,
    *,
    end: int = LARGEST,
    sizes: Iterable[int] = (),
) -> Scan:
    """Read the events behind a position, up to and with `end`.

    Args:
        cursor: In a `session.snapshot`, or wherever nobody else changes the range.
        table: `audit_event` with its schema.
        chain: Which chain.
        start: What comes before; the first event must link to it.
        end: The last number.
        sizes: Where head and root are wanted.
    """
    found = Scan(start, end)
    wanted = iter(sorted({size for size in sizes if found.covers(size)}))
    _fold(found, _records(cursor, _statement(table, chain, start, end)), wanted)
    return found


def _statement(table: sql.Identifier, chain: str, start: Position, end: int) -> sql.Composed:
    return sql.SQL(_SCAN).format(
        table=table,
        chain=sql.Literal(chain),
        nothing=_bytes(bytes(HASH_BYTES)),
        prefix=_bytes(event_prefix()),
        chain_digest=_bytes(hashlib.sha256(chain.encode()).digest()),
        start=sql.Literal(start.seq),
        start_hash=_bytes(start.hash),
        end=sql.Literal(end),
        clock_event=sql.Literal(f'{{"from":"%","kind":"{CLOCK}","to":"%"}}'),
    )


def _bytes(value: bytes) -> sql.Composed:
    # decode() means the same whatever standard_conforming_strings says.
    return sql.SQL("decode({}, 'hex')").format(sql.Literal(value.hex()))


def _records(
    cursor: psycopg.Cursor[TupleRow], statement: sql.Composed
) -> Iterator[tuple[bytes, int, int]]:
    size, unpack = _RECORD.size, _RECORD.unpack_from
    rest, begun = b"", False
    with cursor.copy(statement) as copy:
        for block in copy:
            content = rest + block if rest else bytes(block)
            at = 0
            if not begun:
                if len(content) < len(_HEADER) + 8:
                    rest = content
                    continue
                at = len(_HEADER) + 8 + int.from_bytes(content[15:19], "big")
                begun = True
            end = len(content)
            while end - at >= size:
                _, _, digest, _, seq, _, flags = unpack(content, at)
                at += size
                yield digest, seq, flags
            rest = content[at:]
    if rest != b"\xff\xff":
        raise ValueError(f"PostgreSQL ended a binary COPY with {rest[:20]!r}")


def _fold(found: Scan, records: Iterator[tuple[bytes, int, int]], wanted: Iterator[int]) -> None:
    tree = None if found.start.frontier is None else found.start.frontier.copy()
    add = None if tree is None else tree.add
    following = next(wanted, None)
    digest, seq, count = found.start.hash, found.start.seq, 0
    for digest, seq, flags in records:
        count += 1
        if add is not None:
            add(digest)
        if flags:
            _note(found, seq, flags)
        while following is not None and seq >= following:
            if seq == following:
                root = None if tree is None else tree.root()
                found.boundaries[seq] = Boundary(digest, root)
            following = next(wanted, None)
    found.count = count
    found.last = Position(seq, digest, tree)


def _note(found: Scan, seq: int, flags: int) -> None:
    for bit, code in FLAGS.items():
        if flags & bit:
            found.wrong.setdefault(code, Tally()).note(seq)


def described(wrong: dict[str, Tally]) -> str:
    """What is wrong, in one line with the first number of each code."""
    return ", ".join(
        f"{code} at {tally.first}" + (f" and {tally.count - 1} more" if tally.count > 1 else "")
        for code, tally in sorted(wrong.items())
    )


def all_wrong(scans: Sequence[Scan]) -> dict[str, Tally]:
    """What is wrong in several ranges together."""
    together: dict[str, Tally] = {}
    for one in scans:
        for code, tally in one.wrong.items():
            total = together.setdefault(code, Tally(0, tally.first))
            total.first = min(total.first, tally.first)
            total.count += tally.count
    return together
