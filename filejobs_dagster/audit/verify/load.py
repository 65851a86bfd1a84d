"""Reading the evidence: pins first, then everything in one snapshot, then pins put meanwhile.

What is read follows from the mode: which events are computed again, and where somebody says what
they must come to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from psycopg import sql

from filejobs_dagster.audit.append import own_events, text_field
from filejobs_dagster.audit.holds import read_holds
from filejobs_dagster.audit.note import text_of
from filejobs_dagster.audit.pins.read import PinnedChain, read_pins
from filejobs_dagster.audit.rows import CLOCK, EMPTY_ROOT, LARGEST, Boundary, Position, scan
from filejobs_dagster.audit.session import is_standby, server_identity, table
from filejobs_dagster.audit.statement import TrimFacts, UnreadableStatement, sha256_of
from filejobs_dagster.audit.tables import (
    base_of,
    newest_put_seal,
    read_beginning,
    read_chain,
    read_checkpoints,
    read_frontier,
    read_moments,
    read_put_pins,
    read_restores,
    read_seals,
)
from filejobs_dagster.audit.verify.evidence import (
    Evidence,
    Full,
    Rolling,
    Sealing,
    StrayTrim,
    TrimEvent,
)
from filejobs_dagster.postgres.connect import database_now, one
from filejobs_dagster.postgres.inventory import changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.origin import Origin
    from filejobs_dagster.audit.pins.read import Pinned
    from filejobs_dagster.audit.tables import RestoreRow, SealRow
    from filejobs_dagster.audit.verify.evidence import Mode, VerifyPolicy
    from filejobs_dagster.postgres.connect import Database

# Which events a mode computes again, and where somebody says what they must come to.


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


MOST_LOOKS = 20
"""So many pins are looked for one by one after the snapshot."""

_INCARNATION = re.compile("[1-9][0-9]{0,9}")

TRIMMED = "audit.trim"
"""The kind of the event that names a checkpoint."""


def list_pins(policy: VerifyPolicy, chain: str, mode: Mode) -> PinnedChain | None:
    """Read what stands outside, before the snapshot: afterwards a new pin would look ahead.

    Raises:
        PinStoreUnusable: The place cannot be read.
    """
    if policy.pins is None:
        return None
    origin = policy.origin_of(chain)
    if isinstance(mode, Full | Rolling):
        return read_pins(policy.pins, origin)
    found = read_pins(policy.pins, origin, lambda _: False)
    since = mode.since_seal
    newest = found.newest_seal(found.incarnation)
    if newest is not None:
        first = newest.name.number if since is None else min(since, newest.name.number)
        for pinned in list(found.seals.values()):
            if pinned.name.number >= first and not pinned.was_read:
                _read_again(found, policy, origin, pinned)
    last = max((key[:2] for key in found.manifests), default=None)
    manifests = [pin for key, pin in found.manifests.items() if key[:2] == last]
    for pinned in (*found.restores.values(), *manifests):
        _read_again(found, policy, origin, pinned)
    return found


def where_to_look(
    cursor: psycopg.Cursor[TupleRow], database: Database, origin: Origin, pinned: set[int]
) -> tuple[int | None, list[tuple[str, str | None]]]:
    """Where pins may stand that matter to a new seal.

    Args:
        cursor: In a `session.snapshot`.
        database: Where the tables are.
        origin: Which chain.
        pinned: The incarnations that something stands under outside, of `list_incarnations`.

    Returns:
        The newest seal that was written down as pinned, None when there is none in the newest
        incarnation with seals; and folders of pins, each with the key behind which it is listed.
    """
    head = read_chain(cursor, database, origin.chain)
    restores = read_restores(cursor, database, origin.chain)
    incarnation = 1 if head is None else head.incarnation
    own_numbers = [1, *(row.incarnation for row in restores)]
    if incarnation != own_numbers[-1]:
        return None, []
    places: list[tuple[str, str | None]] = [
        (f"{origin.prefix}{later}/seal/", None) for later in sorted(pinned) if later > incarnation
    ]
    for previous, row in zip(own_numbers, restores, strict=False):
        places.append((f"{origin.prefix}{row.incarnation}/restore-", None))
        # Numbers in between are those of other restored databases.
        for before in sorted(pinned):
            if previous <= before < row.incarnation:
                lost = origin.seal_key(before, max(0, row.lost_seal - 1))
                places.append((f"{origin.prefix}{before}/seal/", lost))
    for own in reversed(own_numbers):
        newest = newest_put_seal(cursor, database, origin, own)
        behind = None if newest is None else origin.seal_key(own, newest - 1)
        places.append((f"{origin.prefix}{own}/seal/", behind))
        if newest is not None:
            return newest, places
    return None, []


def list_incarnations(policy: VerifyPolicy, chain: str) -> set[int]:
    """The incarnations of a chain that anything stands under outside.

    Raises:
        PinStoreUnusable: The place cannot be read.
    """
    if policy.pins is None:
        return set()
    words = policy.pins.words(policy.origin_of(chain).prefix)
    return {int(word) for word in words if _INCARNATION.fullmatch(word)}


def list_places(
    policy: VerifyPolicy, chain: str, places: Iterable[tuple[str, str | None]]
) -> PinnedChain | None:
    """Read the pins that stand at these places, see `where_to_look`.

    Raises:
        PinStoreUnusable: The place cannot be read.
    """
    if policy.pins is None:
        return None
    found = PinnedChain()
    for under, after in places:
        found.take(read_pins(policy.pins, policy.origin_of(chain), under=under, after=after))
    return found


def load(
    cursor: psycopg.Cursor[TupleRow],
    database: Database,
    policy: VerifyPolicy,
    chain: str,
    *,
    mode: Mode,
    pinned: PinnedChain | None,
    first_seal: int = 1,
) -> Evidence:
    """Read one chain in the snapshot that the cursor is in.

    Args:
        cursor: In a `session.snapshot`.
        database: Where the tables are.
        policy: What the verifier believes.
        chain: Which chain.
        mode: Which events are computed again.
        pinned: Of `list_pins`, or of `list_places`.
        first_seal: Read seals from this number on.

    Raises:
        PinStoreUnusable: A pin cannot be read.
    """
    origin = policy.origin_of(chain)
    seals = read_seals(cursor, database, chain, first_seal)
    checkpoints = read_checkpoints(cursor, database, chain)
    restores = read_restores(cursor, database, chain)
    put_pins = read_put_pins(cursor, database, chain)
    if pinned is not None and not isinstance(mode, Sealing):
        notes = {
            **{origin.seal_key(row.incarnation, row.seal_no): row.note for row in seals},
            **{origin.trim_key(row.incarnation, row.checkpoint_no, row.sha256): row.note
               for row in checkpoints},
            **{origin.restore_key(row.incarnation, sha256_of(row.note)): row.note
               for row in restores},
        }  # fmt: skip
        _look_again(pinned, policy, origin, notes.keys() | put_pins.keys())
        _read_what_differs(pinned, policy, origin, notes)
    base = base_of(chain, checkpoints)
    events = table(database, "audit_event")
    entry = entry_of(mode, seals, restores, pinned)
    if pinned is not None and entry is not None:
        pin = pinned.seals[entry.incarnation, entry.seal_no]
        if not pin.was_read:
            _read_again(pinned, policy, origin, pin)
    claims = claimed_sizes(seals, restores, pinned)
    scans = [
        scan(cursor, events, chain, start, end=end, sizes=claims)
        for start, end in ranges_of(mode, base, seals, entry, pinned)
    ]
    boundaries = {base.seq: _boundary_of(base)}
    for one_scan in scans:
        boundaries.update(one_scan.boundaries)
    # Times do not go back, but where the append says that the clock did: so the latest of a range
    # stands at its end, or before such an event.
    ends = {scan.last.seq for scan in scans if scan.count} | set(boundaries)
    ends |= {seq - 1 for seq, _ in own_events(cursor, events, chain, CLOCK)}
    ends = {seq for seq in ends if any(scan.covers(seq) for scan in scans)}
    holds, hold_events = read_holds(cursor, database, chain)
    return Evidence(
        chain=chain,
        policy=policy,
        origin=origin,
        mode=mode,
        now=database_now(cursor),
        identity=server_identity(cursor),
        head=read_chain(cursor, database, chain),
        seals=seals,
        checkpoints=checkpoints,
        restores=restores,
        base=base,
        below_base=_below(cursor, events, chain, base.seq),
        scans=scans,
        boundaries=boundaries,
        trim_events=_trim_events(cursor, events, chain),
        holds=holds,
        hold_events=hold_events,
        pinned=pinned,
        first_seal=first_seal,
        moments=read_moments(cursor, database, chain, ends),
        put_pins=put_pins,
        began=read_beginning(cursor, database, chain),
        standby=is_standby(cursor),
        changes=changes(cursor, database.schema),
        stray_trims=_stray_trims(cursor, database, policy, chain, pinned=pinned, base=base.seq,
                                 known={row.sha256.hex() for row in checkpoints}),
    )  # fmt: skip


def _boundary_of(position: Position) -> Boundary:
    if position.seq == 0:
        return Boundary(position.hash, EMPTY_ROOT)
    root = None if position.frontier is None else position.frontier.root()
    return Boundary(position.hash, root)


def _look_again(
    pinned: PinnedChain,
    policy: VerifyPolicy,
    origin: Origin,
    wanted: Iterable[str],
) -> None:
    """Look for pins that were put between the listing and the snapshot."""
    if policy.pins is None:
        return
    keys = [key for key in wanted if key not in pinned.versions]
    if len(keys) > MOST_LOOKS:
        # Not what came meanwhile: somebody emptied the place. One more listing tells it all.
        keys = [origin.prefix]
    for key in keys:
        later = read_pins(policy.pins, origin, under=key)
        pinned.take(later)


def _read_what_differs(
    pinned: PinnedChain, policy: VerifyPolicy, origin: Origin, notes: Mapping[str, str]
) -> None:
    """Read the pins of which the listing does not show that they are what the database has.

    A place without versions can be overwritten, and only the bytes tell.
    """
    # What a manifest says is in no table; the newest one was read.
    listed = [pin for pin in pinned.all if not pin.was_read and pin.name.kind != "manifest"]
    unread = {pin.key for pin in listed if not pin.is_listed_as(notes.get(pin.key))}
    if policy.pins is None:
        return
    if len(unread) > MOST_LOOKS:
        pinned.take(read_pins(policy.pins, origin, unread.__contains__))
        return
    for key in sorted(unread):
        pinned.take(read_pins(policy.pins, origin, under=key))


def _read_again(found: PinnedChain, policy: VerifyPolicy, origin: Origin, pinned: Pinned) -> None:
    if policy.pins is None:
        return
    found.take(read_pins(policy.pins, origin, under=pinned.key))


def _below(
    cursor: psycopg.Cursor[TupleRow], events: sql.Identifier, chain: str, base: int
) -> tuple[int, int]:
    cursor.execute(
        sql.SQL(
            "SELECT count(*), coalesce(min(seq), 0) FROM {} WHERE chain_id = %s AND seq <= %s"
        ).format(events),
        (chain, base),
    )
    count, first = one(cursor)
    return int(count), int(first)


def _trim_events(
    cursor: psycopg.Cursor[TupleRow], events: sql.Identifier, chain: str
) -> list[TrimEvent]:
    return [
        TrimEvent(seq, text_field(body, "checkpoint"), text_field(body, "note_sha256"))
        for seq, body in own_events(cursor, events, chain, TRIMMED)
    ]


def _stray_trims(
    cursor: psycopg.Cursor[TupleRow],
    database: Database,
    policy: VerifyPolicy,
    chain: str,
    *,
    pinned: PinnedChain | None,
    base: int,
    known: set[str],
) -> list[StrayTrim]:
    strays = []
    for (_, _, sha256), pin in () if pinned is None else sorted(pinned.trims.items()):
        if sha256 in known:
            continue
        if not pin.was_read and policy.pins is not None:
            origin = policy.origin_of(chain)
            again = read_pins(policy.pins, origin, under=pin.key)
            pin = next(iter(again.trims.values()), pin)  # noqa: PLW2901 (the same pin, read)
        try:
            facts = TrimFacts.parse(text_of(pin.note or ""))
        except UnreadableStatement:
            strays.append(StrayTrim(pin, None))
            continue
        missing = _missing(cursor, database, chain, facts, base)
        strays.append(StrayTrim(pin, missing, facts.newest_seal_no))
    return strays


def _missing(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, facts: TrimFacts, base: int
) -> int:
    first = max(facts.from_seq, base + 1)
    if first > facts.to_seq:
        return 0
    cursor.execute(
        sql.SQL("SELECT count(*) FROM {} WHERE chain_id = %s AND seq BETWEEN %s AND %s").format(
            table(database, "audit_event")
        ),
        (chain, first, facts.to_seq),
    )
    return facts.to_seq - first + 1 - int(one(cursor)[0])
