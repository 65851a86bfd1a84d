"""The data of the audit log's benchmarks: chains of events in the past, sealed, signed, pinned."""

from __future__ import annotations

import hashlib
import struct
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.collector import NotTheSameWork
from filejobs_dagster.audit.append import canonical
from filejobs_dagster.audit.note import TrustedKey, TrustedKeys, generate, read_verifier_key
from filejobs_dagster.audit.pins.places import FolderPins
from filejobs_dagster.audit.rows import event_prefix, genesis
from filejobs_dagster.audit.seal import SealPolicy, seal_chain
from filejobs_dagster.audit.verify import VerifyPolicy
from filejobs_dagster.postgres.connect import Database, one

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.note import Ed25519Signer

CHAIN = "benchmark"
ORIGIN = "benchmark.example/audit"
PURPOSE = "benchmark"

EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)
"""From which PostgreSQL counts the microseconds of a moment."""

_HEAD = """
INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at)
VALUES (%(chain)s, %(genesis)s, 0, %(genesis)s, %(moment)s)
ON CONFLICT (chain_id) DO NOTHING
"""
_PLACE = "SELECT head_seq, head_hash FROM audit_chain WHERE chain_id = %s"
_ADVANCE = """
UPDATE audit_chain SET head_seq = %s, head_hash = %s, head_at = %s WHERE chain_id = %s
"""
_COPY = """
COPY audit_event (chain_id, seq, recorded_at, body, body_hash, prev_hash, hash, alg) FROM STDIN
"""


def event(number: int) -> dict[str, str | int]:
    """An event as a collector of reservations writes it, of 280 bytes."""
    identity = uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128)
    return {
        "bucket": "acme-uploads",
        "expired_at": "2026-01-01T00:00:00.000000Z",
        "file_id": str(identity),
        "kind": "upload_reservation.collected",
        "run_id": "3f0c8a52-8a0e-4c0a-9c39-5d1f0d7f2a11",
        "size": number,
        "storage_key": f"files/{identity}/report.pdf",
    }


@dataclass(frozen=True)
class AuditLog:
    """A database with a chain, and what seals and judges it.

    Attributes:
        database: Where the tables are.
        signer: Who signs.
        folder: Where the pins are.
    """

    database: Database
    signer: Ed25519Signer
    folder: Path

    @classmethod
    def make(cls, database_url: str, folder: Path) -> AuditLog:
        """With a new key, and a folder of its own for pins."""
        own = folder / f"pins-{uuid.uuid4().hex[:12]}"
        own.mkdir()
        return cls(Database(database_url), generate(f"{ORIGIN}-seal"), own)

    @property
    def verify_policy(self) -> VerifyPolicy:
        """What is believed."""
        return verify_policy(str(self.signer.verifier), str(self.folder))

    def append_in_the_past(self, count: int, age: timedelta) -> None:
        """Fill the chain with events as they would stand if they had been appended then."""
        moment = datetime.now(timezone.utc) - age
        with (
            self.database.connect(PURPOSE) as connection,
            self.database.transaction(connection, unlimited=True) as cursor,
        ):
            # Without it every event would be looked up in `audit_chain`.
            cursor.execute("SET LOCAL session_replication_role = replica")
            first = {"chain": CHAIN, "genesis": genesis(CHAIN), "moment": moment}
            cursor.execute(_HEAD, first)
            seq, previous = one(cursor.execute(_PLACE, (CHAIN,)))
            seq, previous = _copy(cursor, seq, previous, moment, count)
            cursor.execute(_ADVANCE, (seq, previous, moment, CHAIN))
        with self.database.connect(PURPOSE) as connection:
            connection.execute("VACUUM (ANALYZE) audit_event")

    def seal(self) -> None:
        """Seal, sign and pin what there is.

        Raises:
            NotTheSameWork: It was not sealed outside of the database.
        """
        policy = SealPolicy(self.verify_policy, (self.signer,))
        with self.database.connect(PURPOSE) as connection:
            sealed = seal_chain(self.database, connection, CHAIN, policy, live=True)
        if not (sealed.made and sealed.signed and sealed.pinned):
            raise NotTheSameWork(f"The chain was not sealed: {sealed}")


def verify_policy(verifier: str, folder: str) -> VerifyPolicy:
    """What is believed, from texts that another process can be given."""
    trusted = TrustedKeys((TrustedKey(read_verifier_key(verifier)),))
    return VerifyPolicy(ORIGIN, trusted, FolderPins(Path(folder)))


def preimage(seq: int, recorded_at: datetime, previous: bytes, body_hash: bytes) -> bytes:
    """What is hashed for an event of the chain."""
    return (
        _FIXED
        + struct.pack(">qq", seq, (recorded_at - EPOCH) // timedelta(microseconds=1))
        + previous
        + body_hash
    )


_FIXED = event_prefix() + struct.pack(">h", 1) + hashlib.sha256(CHAIN.encode()).digest()


def _copy(
    cursor: psycopg.Cursor[TupleRow], seq: int, previous: bytes, moment: datetime, count: int
) -> tuple[int, bytes]:
    with cursor.copy(_COPY) as copy:
        for row in _rows(seq, previous, moment, count):
            copy.write_row(row)
            seq, previous = row[1], row[6]
    return seq, previous


def _rows(
    seq: int, previous: bytes, moment: datetime, count: int
) -> Iterator[tuple[str, int, datetime, str, bytes, bytes, bytes, int]]:
    for number in range(seq + 1, seq + count + 1):
        body = canonical(event(number))
        body_hash = hashlib.sha256(body.encode()).digest()
        digest = hashlib.sha256(preimage(number, moment, previous, body_hash)).digest()
        yield CHAIN, number, moment, body, body_hash, previous, digest, 1
        previous = digest
