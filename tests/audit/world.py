"""A chain to be tampered with: events in the past, seals, pins, trims, holds; and the tools."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append, canonical
from filejobs_dagster.audit.holds import release_hold, set_hold
from filejobs_dagster.audit.note import Ed25519Signer, TrustedKey, TrustedKeys, generate
from filejobs_dagster.audit.pins.store import Equivocation, PinContent, PinEntry, PinReceipt
from filejobs_dagster.audit.seal import Sealed, SealPolicy, seal_chain
from filejobs_dagster.audit.trim import Trimmed, TrimPolicy, trim_chain
from filejobs_dagster.audit.verify import Full, Mode, Verification, VerifyPolicy, verify_chain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from filejobs_dagster.postgres.connect import Connection, Database

ORIGIN = "files.example/audit"
EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
DAY = timedelta(days=1)


def sha256(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def genesis(chain: str) -> bytes:
    return sha256(b"filejobs/audit/genesis\n" + chain.encode())


def event_hash(chain: str, seq: int, moment: datetime, previous: bytes, body: str) -> bytes:
    """The documented pre-image, written down apart from the package."""
    return sha256(
        b"filejobs/audit/event\n"
        + struct.pack(">h", 1)
        + sha256(chain.encode())
        + struct.pack(">qq", seq, (moment - EPOCH) // timedelta(microseconds=1))
        + previous
        + sha256(body.encode())
    )


@dataclass
class MemoryPins:
    """A place for pins in memory, which tests may tamper with: key to versions, oldest first."""

    objects: dict[str, list[tuple[datetime, bytes]]] = field(default_factory=dict)
    markers: set[str] = field(default_factory=set)
    locked_until: datetime | None = None
    protects: bool = False
    skew: timedelta = timedelta()
    description: str = "memory"
    replaced: set[str] = field(default_factory=set)

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        there = self.objects.setdefault(key, [(datetime.now(timezone.utc), content)])
        if there[0][1] != content:
            raise Equivocation(key, self.description)
        return PinReceipt(key, "0", retain_until, was_there=False)

    def list(self, prefix: str) -> list[PinEntry]:
        found = [
            PinEntry(
                key,
                f"{number}{' anew' if key in self.replaced else ''}",
                moment,
                etag=hashlib.md5(content, usedforsecurity=False).hexdigest(),
            )
            for key, versions in list(self.objects.items())
            for number, (moment, content) in enumerate(versions)
        ]
        found += [PinEntry(key, "marker", EPOCH, marker=True) for key in self.markers]
        return sorted(
            (entry for entry in found if entry.key.startswith(prefix)), key=lambda one: one.key
        )

    def list_after(self, prefix: str, key: str) -> Sequence[PinEntry]:
        return [entry for entry in self.list(prefix) if entry.key > key]

    def words(self, prefix: str) -> set[str]:
        return {entry.key.removeprefix(prefix).split("/")[0] for entry in self.list(prefix)}

    def get(self, entry: PinEntry) -> PinContent:
        content = self.objects[entry.key][int((entry.version or "0").split()[0])][1]
        return PinContent(content, self.locked_until)

    def now(self) -> datetime | None:
        return datetime.now(timezone.utc) + self.skew

    def under(self, folder: str) -> Sequence[str]:
        return sorted(key for key in self.objects if folder in key)

    def copy(self) -> MemoryPins:
        return MemoryPins(
            {key: list(one) for key, one in self.objects.items()},
            set(self.markers),
            replaced=set(self.replaced),
        )


@dataclass
class World:
    """A database with chains, the key, and the pins."""

    database: Database
    connection: Connection
    signer: Ed25519Signer = field(default_factory=lambda: generate("files.example/audit-seal"))
    pins: Any = field(default_factory=MemoryPins)
    grace: timedelta = timedelta()

    @property
    def trusted(self) -> TrustedKeys:
        return TrustedKeys((TrustedKey(self.signer.verifier),))

    @property
    def verify_policy(self) -> VerifyPolicy:
        return VerifyPolicy(ORIGIN, self.trusted, self.pins, pin_grace=self.grace)

    @property
    def seal_policy(self) -> SealPolicy:
        return SealPolicy(self.verify_policy, (self.signer,))

    def trim_policy(self, **changes: Any) -> TrimPolicy:
        values: dict[str, Any] = {"retention": 150 * DAY, "signers": (self.signer,), **changes}
        return TrimPolicy(values.pop("verify", self.verify_policy), **values)

    def seal(self, chain: str = "a", policy: SealPolicy | None = None) -> Sealed:
        return seal_chain(
            self.database, self.connection, chain, policy or self.seal_policy, live=True
        )

    def trim(self, chain: str = "a", *, live: bool = True, **changes: Any) -> Trimmed:
        return trim_chain(
            self.database,
            self.connection,
            chain,
            self.trim_policy(**changes),
            live=live,
            actor="tester",
            run_id="run 1",
        )

    def verify(
        self, chain: str = "a", mode: Mode | None = None, policy: VerifyPolicy | None = None
    ) -> Verification:
        return verify_chain(
            self.database,
            self.connection,
            chain,
            policy or self.verify_policy,
            mode=mode or Full(),
        )

    def append(self, count: int, chain: str = "a", **more: Any) -> None:
        with self.database.transaction(self.connection) as cursor:
            append(cursor, [{"n": number, **more} for number in range(count)], chain=chain)

    def append_in_the_past(self, count: int, age: timedelta, chain: str = "a") -> None:
        """Events as they would stand if they had been appended then."""
        moment = datetime.now(timezone.utc) - age
        with self.database.transaction(self.connection) as cursor:
            cursor.execute(
                "INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at)"
                " VALUES (%s, %s, 0, %s, %s) ON CONFLICT DO NOTHING",
                (chain, genesis(chain), genesis(chain), moment),
            )
            head = cursor.execute(
                "SELECT head_seq, head_hash, greatest(head_at, %s) FROM audit_chain"
                " WHERE chain_id = %s",
                (moment, chain),
            ).fetchone()
            assert head is not None
            seq, previous, moment = head
            rows = []
            for number in range(count):
                seq += 1
                body = canonical({"kind": "test", "n": number, "file_id": f"file {seq}"})
                own = event_hash(chain, seq, moment, previous, body)
                rows.append((chain, seq, moment, body, sha256(body.encode()), previous, own))
                previous = own
            cursor.executemany("INSERT INTO audit_event VALUES (%s,%s,%s,%s,%s,%s,%s,1)", rows)
            cursor.execute(
                "UPDATE audit_chain SET head_seq = %s, head_hash = %s, head_at = %s"
                " WHERE chain_id = %s",
                (seq, previous, moment, chain),
            )

    def hold(self, chain: str = "a", **what: Any) -> str:
        with self.database.transaction(self.connection) as cursor:
            return set_hold(cursor, chain=chain, actor="counsel", reason="case 7", **what).hold_id

    def release(self, hold_id: str) -> None:
        with self.database.transaction(self.connection) as cursor:
            release_hold(cursor, hold_id=hold_id, actor="counsel")

    def value(self, statement: str, values: Any = None) -> Any:
        row = self.connection.execute(statement.encode(), values).fetchone()
        assert row is not None
        return row[0]


def old_world(database: Database, connection: Connection, **more: Any) -> World:
    """100 events in four seals of 25: 50 of them 200 days old, 50 of them 100 days old."""
    world = World(database, connection, **more)
    for age in (200 * DAY, 200 * DAY, 100 * DAY, 100 * DAY):
        world.append_in_the_past(25, age)
        world.seal()
    return world


def trimmed_world(database: Database, connection: Connection, **more: Any) -> World:
    """The old world with holds, a trim in three batches, and a chain b.

    Holds are set at 101 and 102, one is released at 103; the trim to 50 left 104 to 106; the fifth
    seal counts 106, and three events stand behind it.
    """
    world = old_world(database, connection, **more)
    world.hold(file_id="file 60")
    world.release(world.hold(from_seq=70))
    world.trim(batch=20)
    world.seal()
    world.append(3)
    world.append_in_the_past(110, DAY, "b")
    world.seal("b")
    return world


def tampering(cursor: psycopg.Cursor[Any]) -> None:
    """Become somebody whom no trigger and no constraint stops."""
    cursor.execute("SET LOCAL session_replication_role = replica")
