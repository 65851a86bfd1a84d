"""The rows of seals, checkpoints and restores, as they stand in the database: claims, not facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from filejobs_dagster.audit.rows import BrokenFrontier, Frontier, Position, genesis
from filejobs_dagster.audit.session import table
from filejobs_dagster.audit.statement import (
    NOTHING_BEFORE,
    LostPin,
    RestoreStatement,
    SealStatement,
    TrimStatement,
    UnreadableStatement,
    sha256_of,
)
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.origin import Origin
    from filejobs_dagster.postgres.connect import Database


@dataclass(frozen=True)
class ChainRow:
    """The head row of a chain."""

    incarnation: int
    genesis: bytes
    head_seq: int
    head_hash: bytes


@dataclass(frozen=True)
class SealRow:
    """One row of `audit_seal`; times as notes write them."""

    seal_no: int
    incarnation: int
    size: int
    head_hash: bytes
    root: bytes
    frontier: bytes
    sealed_at: str
    prev_seal: bytes
    system_id: str
    timeline: str
    note: str

    @property
    def sha256(self) -> bytes:
        """The hash of its note."""
        return sha256_of(self.note)

    def statement(self, origin: Origin) -> SealStatement:
        """What the note must say if the columns are right."""
        return SealStatement(
            origin=origin.line(self.incarnation),
            size=self.size,
            root=self.root,
            head=self.head_hash,
            seal_no=self.seal_no,
            sealed_at=self.sealed_at,
            previous=self.prev_seal,
            system_id=self.system_id,
            timeline=self.timeline,
        )

    def position(self) -> Position:
        """Where the chain was when it was sealed."""
        return Position(self.size, self.head_hash, read_frontier(self.size, self.frontier))


@dataclass(frozen=True)
class CheckpointRow:
    """One row of `audit_checkpoint`; times as notes write them."""

    checkpoint_no: int
    incarnation: int
    from_seq: int
    to_seq: int
    events: int
    first_at: str
    last_at: str
    prev_hash: bytes
    last_hash: bytes
    frontier: bytes
    seal_no: int
    newest_seal_no: int
    cutoff: str
    retention: int
    actor: str
    run_id: str
    archive: str | None
    prev_checkpoint: bytes
    note: str
    event_seq: int

    @property
    def sha256(self) -> bytes:
        """The hash of its note."""
        return sha256_of(self.note)

    def statement(self, origin: Origin) -> TrimStatement:
        """What the note must say if the columns are right."""
        frontier = read_frontier(self.to_seq, self.frontier)
        return TrimStatement(
            origin=origin.line(self.incarnation),
            checkpoint_no=self.checkpoint_no,
            from_seq=self.from_seq,
            to_seq=self.to_seq,
            events=self.events,
            root=NOTHING_BEFORE if frontier is None else frontier.root(),
            prev_hash=self.prev_hash,
            last_hash=self.last_hash,
            first_at=self.first_at,
            last_at=self.last_at,
            seal_no=self.seal_no,
            newest_seal_no=self.newest_seal_no,
            cutoff=self.cutoff,
            retention=self.retention,
            actor=self.actor,
            run_id=self.run_id,
            archive=self.archive,
            previous=self.prev_checkpoint,
        )

    def position(self) -> Position:
        """Where the chain begins after it."""
        return Position(self.to_seq, self.last_hash, read_frontier(self.to_seq, self.frontier))


@dataclass(frozen=True)
class RestoreRow:
    """One row of `audit_restore`; times as notes write them."""

    incarnation: int
    survived_seal: int
    survived_size: int
    survived_head: bytes
    lost_seal: int
    lost_size: int
    lost_note: bytes
    actor: str
    reason: str
    restored_at: str
    note: str
    matched_size: int | None = None
    matched_head: bytes | None = None
    lost_pins: str | None = None

    @property
    def lost(self) -> tuple[LostPin, ...]:
        """The pins that were lost; none where the text names none."""
        try:
            return tuple(map(LostPin.parse, (self.lost_pins or "").splitlines()))
        except UnreadableStatement:
            return ()

    def statement(self, origin: Origin) -> RestoreStatement:
        """What the note must say if the columns are right."""
        return RestoreStatement(
            origin=origin.line(self.incarnation),
            survived_seal=self.survived_seal,
            survived_size=self.survived_size,
            survived_head=self.survived_head,
            lost_seal=self.lost_seal,
            lost_size=self.lost_size,
            lost_note=self.lost_note,
            restored_at=self.restored_at,
            actor=self.actor,
            reason=self.reason,
            matched=None
            if self.matched_size is None or self.matched_head is None
            else (self.matched_size, self.matched_head),
            lost_pins=self.lost,
        )


def read_frontier(size: int, content: bytes) -> Frontier | None:
    """The frontier of a row; None when the bytes are none, which a tampered row may hold."""
    try:
        return Frontier.from_bytes(size, content)
    except BrokenFrontier:
        return None


def base_of(chain: str, checkpoints: Sequence[CheckpointRow]) -> Position:
    """Where the live events begin: behind the newest checkpoint, or at the genesis."""
    if not checkpoints:
        return Position(0, genesis(chain), Frontier())
    return checkpoints[-1].position()


def read_chain(cursor: psycopg.Cursor[TupleRow], database: Database, chain: str) -> ChainRow | None:
    """Read the head row; None when there is no such chain."""
    cursor.execute(
        sql.SQL(
            "SELECT incarnation, genesis, head_seq, head_hash FROM {} WHERE chain_id = %s"
        ).format(table(database, "audit_chain")),
        (chain,),
    )
    row = cursor.fetchone()
    return None if row is None else ChainRow(*row)


def chain_names(cursor: psycopg.Cursor[TupleRow], database: Database) -> list[str]:
    """The chains that the database knows, by any of its tables."""
    cursor.execute(
        sql.SQL(
            "SELECT chain_id FROM {} UNION SELECT chain_id FROM {} UNION SELECT chain_id FROM {}"
            " ORDER BY 1"
        ).format(
            *(table(database, name) for name in ("audit_chain", "audit_seal", "audit_checkpoint"))
        )
    )
    return [str(row[0]) for row in cursor.fetchall()]


def names_by_need(cursor: psycopg.Cursor[TupleRow], database: Database) -> list[str]:
    """The chains with a head row, the one first that was longest not sealed.

    One that was never sealed waits since its oldest event, so that new chains, of which an
    application may make as many as it likes, do not pass before those that wait already.
    """
    cursor.execute(
        sql.SQL(
            "SELECT chain_id"
            "  FROM {chain}"
            "  LEFT JOIN LATERAL (SELECT sealed_at FROM {seal} AS seal"
            "                      WHERE seal.chain_id = {chain}.chain_id"
            "                      ORDER BY seal_no DESC LIMIT 1) AS seal ON true"
            "  LEFT JOIN LATERAL (SELECT recorded_at FROM {event} AS event"
            "                      WHERE event.chain_id = {chain}.chain_id"
            "                      ORDER BY seq LIMIT 1) AS event ON true"
            " ORDER BY coalesce(sealed_at, recorded_at), chain_id"
        ).format(
            chain=table(database, "audit_chain"),
            seal=table(database, "audit_seal"),
            event=table(database, "audit_event"),
        )
    )
    return [str(row[0]) for row in cursor.fetchall()]


def read_seals(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, first: int = 1
) -> list[SealRow]:
    """Read the seals of a chain in the order of their numbers, from one on."""
    cursor.execute(
        sql.SQL(
            "SELECT seal_no, incarnation, size, head_hash, root, frontier, {sealed_at}, prev_seal,"
            " system_id, timeline, note FROM {table} WHERE chain_id = %s AND seal_no >= %s"
            " ORDER BY seal_no"
        ).format(sealed_at=_time("sealed_at"), table=table(database, "audit_seal")),
        (chain, first),
    )
    return [SealRow(*row) for row in cursor.fetchall()]


def read_checkpoints(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str
) -> list[CheckpointRow]:
    """Read the checkpoints of a chain in the order of their numbers."""
    cursor.execute(
        sql.SQL(
            "SELECT checkpoint_no, incarnation, from_seq, to_seq, events, {first_at}, {last_at},"
            " prev_hash, last_hash, frontier, seal_no, newest_seal_no, {cutoff}, retention,"
            " actor, run_id, archive, prev_checkpoint, note, event_seq"
            " FROM {table} WHERE chain_id = %s ORDER BY checkpoint_no"
        ).format(
            first_at=_time("first_at"),
            last_at=_time("last_at"),
            cutoff=_time("cutoff"),
            table=table(database, "audit_checkpoint"),
        ),
        (chain,),
    )
    return [CheckpointRow(*row) for row in cursor.fetchall()]


def read_restores(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str
) -> list[RestoreRow]:
    """Read the acknowledged restores of a chain in their order."""
    cursor.execute(
        sql.SQL(
            "SELECT incarnation, survived_seal, survived_size, survived_head, lost_seal,"
            " lost_size, lost_note, actor, reason, {restored_at}, note, matched_size,"
            " matched_head, lost_pins"
            " FROM {table} WHERE chain_id = %s ORDER BY incarnation"
        ).format(restored_at=_time("restored_at"), table=table(database, "audit_restore")),
        (chain,),
    )
    return [RestoreRow(*row) for row in cursor.fetchall()]


def newest_put_seal(
    cursor: psycopg.Cursor[TupleRow], database: Database, origin: Origin, incarnation: int
) -> int | None:
    """The newest seal of an incarnation that was written down as pinned and that is there.

    Not simply the newest row: a row alone would make a new seal pass over the seals before it.
    """
    cursor.execute(
        sql.SQL(
            "SELECT seal_no, incarnation FROM {} WHERE chain_id = %s AND incarnation = %s"
            " ORDER BY seal_no DESC LIMIT 100"
        ).format(table(database, "audit_seal")),
        (origin.chain, incarnation),
    )
    keys = {origin.seal_key(own, number): int(number) for number, own in cursor.fetchall()}
    cursor.execute(
        sql.SQL("SELECT object_key FROM {} WHERE chain_id = %s AND object_key = ANY(%s)").format(
            table(database, "audit_pin")
        ),
        (origin.chain, list(keys)),
    )
    return max((keys[row[0]] for row in cursor.fetchall()), default=None)


@dataclass(frozen=True)
class PutPin:
    """What was written down when a pin was put.

    Attributes:
        version: Which version; None where the place keeps none.
        sha256: Of its text.
    """

    version: str | None
    sha256: bytes


def read_put_pins(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str
) -> dict[str, PutPin]:
    """Read what was ever written down as pinned, by its key."""
    cursor.execute(
        sql.SQL(
            "SELECT object_key, version_id, sha256 FROM {} WHERE chain_id = %s ORDER BY object_key"
        ).format(table(database, "audit_pin")),
        (chain,),
    )
    return {str(key): PutPin(version, bytes(digest)) for key, version, digest in cursor.fetchall()}


def newest_put_below(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, folder: str
) -> str | None:
    """The last key below a folder that was written down as pinned; None when there is none."""
    cursor.execute(
        sql.SQL(
            "SELECT max(object_key) FROM {} WHERE chain_id = %s AND object_key >= %s"
            " AND object_key < %s"
        ).format(table(database, "audit_pin")),
        (chain, folder, f"{folder}~"),
    )
    key: str | None = one(cursor)[0]
    return key


def read_moments(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, numbers: Iterable[int]
) -> dict[int, str]:
    """When events were recorded, as notes write it; those that are not there are left out."""
    cursor.execute(
        sql.SQL(
            "SELECT seq, {moment} FROM {table} WHERE chain_id = %s AND seq = ANY(%s::bigint[])"
        ).format(moment=_time("recorded_at"), table=table(database, "audit_event")),
        (chain, sorted(numbers)),
    )
    return {int(seq): str(moment) for seq, moment in cursor.fetchall()}


def read_beginning(cursor: psycopg.Cursor[TupleRow], database: Database, chain: str) -> str | None:
    """When the oldest live event was recorded, as notes write it; None when there is none."""
    cursor.execute(
        sql.SQL("SELECT {moment} FROM {table} WHERE chain_id = %s ORDER BY seq LIMIT 1").format(
            moment=_time("recorded_at"), table=table(database, "audit_event")
        ),
        (chain,),
    )
    row = cursor.fetchone()
    return None if row is None else str(row[0])


def _time(column: str) -> sql.Composed:
    # Text, because a tampered row may hold infinity, which no datetime is.
    return sql.SQL(
        "coalesce(nullif(to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), ''),"
        " 'infinity')"
    ).format(sql.Identifier(column))
