"""Appending events to the audit log, and reading back those of one file with what covers them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rfc8785
from psycopg import sql

from filejobs_dagster.audit.session import table
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Database

COLLECTORS_CHAIN = "collectors"
"""The collectors write a chain of their own, so that the application never waits for its head."""


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_MAY_BE_NUL = "\\u0000"

_FIRST_INEXACT = 2**53
"""The first integer that a double, and so JSON as RFC 8785 has it, does not hold for certain."""


class NotCanonical(ValueError):
    """The event has no RFC 8785 form: an infinite float, an integer of 2^53 or more, and so on."""


def canonical(event: Mapping[str, Any]) -> str:
    """Return the RFC 8785 text of an event, which is what is stored and hashed.

    Raises:
        NotCanonical: Such a value does not survive JSON; write identifiers and sizes as text. Or
            a NUL character, which is JSON but nothing that PostgreSQL stores.
    """
    text = _quickly(event)
    if text is None:
        try:
            text = rfc8785.dumps(dict(event)).decode()
        except rfc8785.CanonicalizationError as error:
            raise NotCanonical(
                f"An audit event cannot be written as RFC 8785 JSON: {error}"
            ) from error
    if _MAY_BE_NUL in text and _NUL.search(text):
        raise NotCanonical("An audit event holds a NUL character, which jsonb refuses: escape it.")
    return text


def _quickly(event: Mapping[str, Any]) -> str | None:
    """The same text from Python's own encoder, ten times as fast, where both agree; else None.

    They agree on text, small integers, truth values and null below ASCII names: the escapes are
    the same, and ASCII names sort by UTF-16 as they do by code point. They do not on floats.
    """
    if not _is_plain(event):
        return None
    text = json.dumps(event, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: RFC 8785 has words for that.
        return None
    return text


def _is_plain(value: object) -> bool:
    """Tell whether a value is made of nothing but what both encoders write alike."""
    kind = type(value)
    if kind is str or kind is bool or value is None:
        return True
    if isinstance(value, int):
        return kind is int and -_FIRST_INEXACT < value < _FIRST_INEXACT
    if isinstance(value, dict):
        return all(
            type(name) is str and name.isascii() and _is_plain(held) for name, held in value.items()
        )
    return isinstance(value, list | tuple) and all(map(_is_plain, value))


def append(
    cursor: psycopg.Cursor[TupleRow],
    events: Iterable[Mapping[str, Any]],
    *,
    chain: str = COLLECTORS_CHAIN,
) -> tuple[int, int] | None:
    """Append events in order, in the caller's transaction.

    The chain's head stays locked until that transaction ends, so this is its last statement.

    Returns:
        The first and the last sequence number, or None when there was nothing to append.

    Raises:
        NotCanonical: See `canonical`.
    """
    bodies: Sequence[str] = [canonical(event) for event in events]
    if not bodies:
        return None
    # Binary: as text, every quotation mark of every event would have to be escaped.
    cursor.execute(
        "SELECT first_seq, last_seq FROM audit_append_many(%s, %b::text[])", (chain, bodies)
    )
    first, last = one(cursor)
    return int(first), int(last)


# The events that the chain's own work leaves in it: trims, holds.
#
# Bodies are read here and not by PostgreSQL: it refuses a whole statement for one body that is no
# JSON, and a body that somebody damaged must be a finding, not an outage.


def own_events(
    cursor: psycopg.Cursor[TupleRow],
    events: sql.Identifier,
    chain: str,
    *kinds: str,
) -> list[tuple[int, dict[str, Any]]]:
    """Read the live events of some kinds, with their numbers, in order.

    A body that is no JSON object is of no kind: what is wrong with it is told by its hash.

    Args:
        cursor: In any transaction.
        events: `audit_event` with its schema.
        chain: Which chain.
        kinds: Such as `audit.trim`; each begins with `audit.`.
    """
    cursor.execute(
        sql.SQL(
            # The first LIKE is the condition of an index, word for word; without it the whole table
            # is read, and a trim does this in every batch.
            "SELECT seq, body FROM {} WHERE chain_id = %s AND body LIKE '%%\"audit.%%'"
            " AND body LIKE ANY(%s) ORDER BY seq"
        ).format(events),
        (chain, [f'%"{kind}"%' for kind in kinds]),
    )
    found = [(int(seq), read_body(body)) for seq, body in cursor.fetchall()]
    return [(seq, body) for seq, body in found if body.get("kind") in kinds]


def text_field(body: dict[str, Any], name: str) -> str | None:
    """A field as text; None when it is missing or null."""
    value = body.get(name)
    return value if value is None or isinstance(value, str) else json.dumps(value)


def read_body(body: str) -> dict[str, Any]:
    """Read the body of an event, whatever an application has written; {} when it is no object.

    An integer with more digits than Python reads stays the text that it was.
    """
    try:
        read = json.loads(body, parse_int=_whole)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _whole(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits


# The events of one file, and which seal and pin cover each.

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
