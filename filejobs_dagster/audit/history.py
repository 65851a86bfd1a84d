"""The events of one file, and which seal and pin cover each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from filejobs_dagster.audit.own_events import read_body
from filejobs_dagster.audit.session import table

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Database

_EVENTS = """
WITH of_file AS (
    SELECT chain_id, seq, recorded_at, body
      FROM {event}
     WHERE body LIKE '%%"file_id"%%'
       AND left(body::jsonb ->> 'file_id', 200) = left(%(file)s::text, 200)
       AND body::jsonb ->> 'file_id' = %(file)s
), keys AS (
    SELECT DISTINCT body::jsonb ->> 'storage_key' AS key FROM of_file
     UNION SELECT %(file)s::text
), of_key AS (
    SELECT chain_id, seq, recorded_at, body
      FROM keys
      JOIN {event} AS event
        ON body LIKE '%%"keys"%%'
       AND body::jsonb -> 'keys' @> to_jsonb(ARRAY[key])
     WHERE key IS NOT NULL
), of_batch AS (
    SELECT result.chain_id, result.seq, result.recorded_at, result.body
      FROM of_key AS intent
     CROSS JOIN LATERAL (
            SELECT chain_id, seq, recorded_at, body
              FROM {event} AS later
             WHERE later.chain_id = intent.chain_id AND later.seq > intent.seq
               AND later.body LIKE '%%"objects.%%'
               AND left(later.body::jsonb ->> 'run_id', 200)
                   = left(intent.body::jsonb ->> 'run_id', 200)
               AND later.body::jsonb ->> 'kind' = 'objects.delete.result'
               AND later.body::jsonb ->> 'run_id' = intent.body::jsonb ->> 'run_id'
               AND later.body::jsonb ->> 'batch' = intent.body::jsonb ->> 'batch'
             ORDER BY later.seq
             LIMIT 1) AS result
)
SELECT found.chain_id, found.seq, found.recorded_at, found.body, seal.seal_no, seal.sealed_at,
       pin.object_key, pin.pinned_at
  FROM (SELECT * FROM of_file UNION SELECT * FROM of_key UNION SELECT * FROM of_batch) AS found
  LEFT JOIN LATERAL (
        SELECT seal_no, sealed_at, sha256(convert_to(note, 'UTF8')) AS note_hash
          FROM {seal} AS covering
         WHERE covering.chain_id = found.chain_id AND covering.size >= found.seq
         ORDER BY seal_no
         LIMIT 1) AS seal ON true
  LEFT JOIN {pin} AS pin ON pin.chain_id = found.chain_id AND pin.sha256 = seal.note_hash
 ORDER BY found.chain_id, found.seq
"""


@dataclass(frozen=True)
class FileEvent:
    """One event that concerns a file.

    Attributes:
        chain: In which chain it stands.
        seq: Its number there.
        recorded_at: When it was recorded.
        kind: What happened; empty when the event does not say.
        body: The event.
        seal_no: The first seal that covers it; None while it is not sealed.
        sealed_at: When that was.
        pin: The key of that seal's pin, as the database remembers it; None when it does not.
        pinned_at: When that was put.
    """

    chain: str
    seq: int
    recorded_at: datetime
    kind: str
    body: dict[str, Any]
    seal_no: int | None
    sealed_at: datetime | None
    pin: str | None
    pinned_at: datetime | None


def events_of_file(
    cursor: psycopg.Cursor[TupleRow], database: Database, file: str
) -> list[FileEvent]:
    """Find the events of one file that were not trimmed, in every chain.

    Those that name the file's identifier; the intents to delete that name its storage key, or the
    key that is given; and the results of those intents.

    Args:
        cursor: In any transaction.
        database: Where the tables are.
        file: The file's identifier, or a storage key.
    """
    names = {name: table(database, f"audit_{name}") for name in ("event", "seal", "pin")}
    cursor.execute(sql.SQL(_EVENTS).format(**names), {"file": file})
    return [_file_event(row) for row in cursor.fetchall()]


def _file_event(row: tuple[Any, ...]) -> FileEvent:
    chain, seq, recorded_at, text, *covering = row
    body = read_body(text)
    return FileEvent(chain, seq, recorded_at, str(body.get("kind", "")), body, *covering)
