"""Keeping the events of a batch before they are cut: compressed JSON lines, checked."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol

from psycopg import sql

from filejobs_dagster.audit.pins.store import PinEntry
from filejobs_dagster.audit.rows import event_prefix
from filejobs_dagster.audit.session import TrimRefused, table
from filejobs_dagster.audit.statement import moment_of

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.origin import Origin
    from filejobs_dagster.audit.pins.store import PinStore
    from filejobs_dagster.audit.rows import Position
    from filejobs_dagster.postgres.connect import Database

_EPOCH = datetime(2000, 1, 1, tzinfo=timezone.utc)


class Archive(Protocol):
    """A place that keeps files."""

    def keep(self, key: str, content: bytes) -> None:
        """Store a file; the same one again is a success."""
        ...

    def read(self, key: str) -> bytes:
        """Read it back."""
        ...


class StoreArchive:
    """An archive in the same kind of place as the pins."""

    def __init__(self, store: PinStore, *, keep_for: timedelta | None = None) -> None:
        self._store = store
        self._keep_for = keep_for

    def keep(self, key: str, content: bytes) -> None:
        """Store a file once.

        Raises:
            Equivocation: Another file stands there.
            PinStoreUnusable: The place did not take it.
        """
        now = self._store.now() or datetime.now(timezone.utc)
        until = None if self._keep_for is None else now + self._keep_for
        self._store.put_once(key, content, retain_until=until)

    def read(self, key: str) -> bytes:
        """Read it back.

        Raises:
            PinStoreUnusable: It could not be read.
        """
        return self._store.get(PinEntry(key, None, None)).content


def keep_batch(
    cursor: psycopg.Cursor[TupleRow],
    database: Database,
    archive: Archive,
    origin: Origin,
    *,
    incarnation: int,
    start: Position,
    end: Position,
) -> str:
    """Keep the events behind one place, up to and with another.

    Returns:
        The file's key.

    Raises:
        TrimRefused: ARCHIVE_MISSING: what was read back is not what is to be cut.
        Exception: What the archive raises.
    """
    content = gzip.compress(_lines(cursor, database, origin.chain, start.seq, end.seq), mtime=0)
    digest = hashlib.sha256(content).digest()
    key = origin.archive_key(incarnation, start.seq + 1, end.seq, digest)
    archive.keep(key, content)
    problem = check_archive(archive.read(key), origin.chain, start.seq, start.hash, end.hash)
    if problem is not None:
        raise TrimRefused(
            "ARCHIVE_MISSING",
            f"the archive gave back something else for {key}: {problem}. Nothing was removed.",
        )
    return key


def check_archive(
    content: bytes, chain: str, start_seq: int, start_hash: bytes, end_hash: bytes
) -> str | None:
    """Compute a kept file again, without the database; say what is wrong, or None.

    Args:
        content: The file.
        chain: The chain's name.
        start_seq: The number before the first event.
        start_hash: The hash before it.
        end_hash: The hash of the last one.
    """
    try:
        lines = gzip.decompress(content).decode().splitlines()
        events = [json.loads(line) for line in lines]
    except (OSError, EOFError, ValueError) as error:
        return f"it cannot be read ({type(error).__name__})"
    seq, previous = start_seq, start_hash
    for event in events:
        seq += 1
        computed = _hash(chain, seq, event, previous)
        if event.get("seq") != str(seq) or event.get("hash") != computed.hex():
            return f"event {seq} does not match its hash"
        previous = computed
    return None if previous == end_hash else f"it ends at event {seq}, with another hash"


def _hash(chain: str, seq: int, event: dict[str, Any], previous: bytes) -> bytes:
    moment = moment_of(str(event["recorded_at"])) or _EPOCH
    since = moment - _EPOCH
    return hashlib.sha256(
        event_prefix()
        + struct.pack(">h", event["alg"])
        + hashlib.sha256(chain.encode()).digest()
        + struct.pack(">qq", seq, since // timedelta(microseconds=1))
        + previous
        + hashlib.sha256(event["body"].encode()).digest()
    ).digest()


def _lines(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str, start: int, end: int
) -> bytes:
    cursor.execute(
        sql.SQL(
            "SELECT seq, to_char(recorded_at AT TIME ZONE 'UTC', {}), alg, body, hash"
            " FROM {} WHERE chain_id = %s AND seq > %s AND seq <= %s ORDER BY seq"
        ).format(sql.Literal('YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), table(database, "audit_event")),
        (chain, start, end),
    )
    lines = [
        json.dumps(
            {
                "seq": str(seq),
                "recorded_at": moment,
                "alg": alg,
                "hash": bytes(digest).hex(),
                "body": body,
            },
            ensure_ascii=False,
        )
        for seq, moment, alg, body, digest in cursor
    ]
    # splitlines() also splits at separators that JSON leaves as they are.
    return "\n".join(line.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
                     .replace("\x85", "\\u0085") for line in lines).encode()  # fmt: skip
