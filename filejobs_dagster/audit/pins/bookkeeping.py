"""Putting a pin and writing down that it was put."""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

from filejobs_dagster.audit.session import table
from filejobs_dagster.audit.statement import sha256_of

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.pins.store import PinReceipt, PinStore
    from filejobs_dagster.postgres.connect import Database


def put(store: PinStore, key: str, note: str, retain_until: datetime | None) -> PinReceipt:
    """Copy a note outside.

    Raises:
        Equivocation: Another text stands there.
        PinStoreUnusable: It could not be put.
    """
    return store.put_once(key, note.encode(), retain_until=retain_until)


def write_down(
    cursor: psycopg.Cursor[TupleRow],
    database: Database,
    chain: str,
    note: str,
    receipt: PinReceipt,
) -> None:
    """Note where a pin is, for whoever looks for it; nothing believes it."""
    cursor.execute(
        sql.SQL(
            "INSERT INTO {} (object_key, chain_id, version_id, sha256, retain_until)"
            " VALUES (%s, %s, %s, %s, %s) ON CONFLICT (object_key) DO NOTHING"
        ).format(table(database, "audit_pin")),
        (receipt.key, chain, receipt.version, sha256_of(note), receipt.locked_until),
    )
