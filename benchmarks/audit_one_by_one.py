"""The log that most people write first, and the loop that they check it with.

The append reads the newest row and inserts its child, without a lock: two at once take the same
parent, and the chain forks. The check fetches every row and hashes it in Python: it needs no
function of the database, and all of the table in memory.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from benchmarks.audit_chain import CHAIN, preimage
from filejobs_dagster.audit.rows import genesis

if TYPE_CHECKING:
    from filejobs_dagster.postgres.connect import Connection

BARE_TABLE = """
CREATE TABLE bare_event (
    id          bigserial PRIMARY KEY,
    chain       text NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    body        text NOT NULL,
    prev_hash   bytea NOT NULL,
    hash        bytea NOT NULL
);
CREATE INDEX bare_event_newest ON bare_event (chain, id);
"""

_NEWEST = "SELECT hash FROM bare_event WHERE chain = %s ORDER BY id DESC LIMIT 1"
_CHILD = "INSERT INTO bare_event (chain, body, prev_hash, hash) VALUES (%s, %s, %s, %s)"
_FORKS = """
SELECT count(*), count(*) - count(DISTINCT (chain, prev_hash))
  FROM bare_event
"""
_EVENTS = """
SELECT seq, recorded_at, body, body_hash, prev_hash, hash
  FROM audit_event
 WHERE chain_id = %s
 ORDER BY seq
"""


def append_bare(connection: Connection, chain: str, body: str) -> None:
    """Read the newest event of a chain and append another to it, in one transaction."""
    with connection.transaction():
        row = connection.execute(_NEWEST, (chain,)).fetchone()
        previous = genesis(chain) if row is None else row[0]
        own = hashlib.sha256(previous + body.encode()).digest()
        connection.execute(_CHILD, (chain, body, previous, own))


def count_forks(connection: Connection) -> tuple[int, int]:
    """Return how many events there are, and how many have an elder sibling of the same parent.

    Raises:
        LookupError: PostgreSQL counted nothing.
    """
    row = connection.execute(_FORKS).fetchone()
    if row is None:
        raise LookupError("count(*) returned no row")
    return int(row[0]), int(row[1])


def check_in_a_loop(connection: Connection) -> tuple[int, list[int]]:
    """Return how many events the chain has, and the numbers of those that do not match."""
    expected, previous, wrong = 0, genesis(CHAIN), []
    for seq, moment, body, body_hash, prev_hash, own in connection.execute(_EVENTS, (CHAIN,)):
        expected += 1
        hash_of_body = hashlib.sha256(body.encode()).digest()
        hash_of_event = hashlib.sha256(preimage(seq, moment, prev_hash, body_hash)).digest()
        if (seq, hash_of_body, hash_of_event, prev_hash) != (expected, body_hash, own, previous):
            wrong.append(seq)
        previous = own
    return expected, wrong
