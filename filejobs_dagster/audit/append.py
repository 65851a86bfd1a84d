"""Appending events to the audit log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import rfc8785

from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

COLLECTORS_CHAIN = "collectors"
"""The collectors write a chain of their own, so that the application never waits for its head."""


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


class NotCanonical(ValueError):
    """The event has no RFC 8785 form: an infinite float, an integer of 2^53 or more, and so on."""


def canonical(event: Mapping[str, Any]) -> str:
    """Return the RFC 8785 text of an event, which is what is stored and hashed.

    Raises:
        NotCanonical: Such a value does not survive JSON; write identifiers and sizes as text. Or
            a NUL character, which is JSON but nothing that PostgreSQL stores.
    """
    try:
        text = rfc8785.dumps(dict(event)).decode()
    except rfc8785.CanonicalizationError as error:
        raise NotCanonical(f"An audit event cannot be written as RFC 8785 JSON: {error}") from error
    if _NUL.search(text):
        raise NotCanonical("An audit event holds a NUL character, which jsonb refuses: escape it.")
    return text


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
    cursor.execute(
        "SELECT first_seq, last_seq FROM audit_append_many(%s, %s::text[])", (chain, bodies)
    )
    first, last = one(cursor)
    return int(first), int(last)
