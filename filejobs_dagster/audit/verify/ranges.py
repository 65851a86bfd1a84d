"""Which events a mode computes again, and where somebody says what they must come to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.rows import LARGEST, Position
from filejobs_dagster.audit.tables import read_frontier
from filejobs_dagster.audit.verify.evidence import Full, Rolling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.audit.pins.read import PinnedChain
    from filejobs_dagster.audit.tables import RestoreRow, SealRow
    from filejobs_dagster.audit.verify.evidence import Mode


def claimed_sizes(
    seals: Sequence[SealRow], restores: Sequence[RestoreRow], pinned: PinnedChain | None
) -> set[int]:
    """The sizes at which somebody says what head and root are."""
    sizes = {seal.size for seal in seals} | {row.survived_size for row in restores}
    sizes |= {row.matched_size for row in restores if row.matched_size is not None}
    for pin in () if pinned is None else pinned.seals.values():
        if pin.statement is not None:
            sizes.add(pin.statement.size)
    return sizes


def entry_of(
    mode: Mode,
    seals: Sequence[SealRow],
    restores: Sequence[RestoreRow],
    pinned: PinnedChain | None,
) -> SealRow | None:
    """The newest seal that an incremental look may start behind: pinned, in the table, not lost.

    A database that is older than its pins is entered where it still agrees with them.
    """
    since = LARGEST if isinstance(mode, Full) or mode.since_seal is None else mode.since_seal
    for seal in reversed(seals):
        lost = any(
            row.incarnation > seal.incarnation and seal.seal_no > row.survived_seal
            for row in restores
        )
        known = pinned is None or (seal.incarnation, seal.seal_no) in pinned.seals
        if seal.seal_no <= since and known and not lost:
            return seal
    return None


def ranges_of(
    mode: Mode,
    base: Position,
    seals: Sequence[SealRow],
    entry: SealRow | None,
    pinned: PinnedChain | None,
) -> list[tuple[Position, int]]:
    """Where to enter the chain and how far to go; the last range goes to the end."""
    tail = base if isinstance(mode, Full) else _believed(base, entry, pinned)
    ranges = []
    if isinstance(mode, Rolling):
        before = base
        for seal in seals:
            if before.seq < seal.size <= tail.seq:
                if seal.seal_no % mode.parts == mode.part:
                    ranges.append((before, seal.size))
                before = _believed(base, seal, pinned)
    return [*ranges, (tail, LARGEST)]


def _believed(base: Position, seal: SealRow | None, pinned: PinnedChain | None) -> Position:
    """The place of a seal as its pin says it; as the table says only where nothing is pinned.

    The tree up to there is the table's, and counts only when it has the root that is believed.
    """
    if seal is None:
        return base
    size, head, root = seal.size, seal.head_hash, seal.root
    if pinned is not None:
        pin = pinned.seals.get((seal.incarnation, seal.seal_no))
        statement = None if pin is None else pin.statement
        if statement is None:
            return base
        size, head, root = statement.size, statement.head, statement.root
    if size <= base.seq:
        return base
    frontier = read_frontier(size, seal.frontier)
    if frontier is not None and frontier.root() != root:
        frontier = None
    return Position(size, head, frontier)
