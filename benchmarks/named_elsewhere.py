"""The names of 1,000 candidates in 300 columns, against one `position()` for each name, and a COPY.

Of the candidates 320 are planted, in eight ways; both sides must find the planted names that they
can find, and the search all of them.
"""

from __future__ import annotations

import json
import resource
import time
import uuid
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import quote

from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more, readable
from benchmarks.processor import MILLION, THOUSAND, server_seconds
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.elsewhere import search
from filejobs_dagster.settings.storage import BucketSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.postgres.connect import Connection

NAME = "named_elsewhere"
SUMMARY = "the names of 1,000 candidates in 300 columns, against one position() for each"

CANDIDATES = 1000
PLANTED_EACH = 40
COLUMNS = 6
GIGABYTE = 1 << 30
HOUR = 3600
BLOCK = 8192
MOST_NAME_BY_NAME = 10_000
"""Rows that are searched name by name, which a larger table would take hours for."""

_TABLE = """
CREATE UNLOGGED TABLE part_{number}
    (key varchar(99), state text, title text, body text, meta jsonb, id uuid)
"""
# Made once and copied to every table: ten million digests and uuids take longer than the search.
_ROWS = """
CREATE UNLOGGED TABLE rows_of_all AS
SELECT 'files/2024/' || md5(n::text) || '.jpg' AS key, 'ready' AS state,
       'a photo of number ' || n AS title,
       '<p>' || repeat('words and more words ', 8) || '<img src="/files/' || md5(n::text) || '">'
           AS body,
       jsonb_build_object('src', 'files/' || md5((n + 7)::text) || '.png', 'n', n) AS meta,
       gen_random_uuid() AS id
  FROM generate_series(1, %s) n
"""
_FILL = "INSERT INTO part_{number} SELECT * FROM rows_of_all LIMIT %s"
_READ = "SELECT count(*) FROM part_{number}"
_SHARES = (0.1,) * 4 + (0.05,) * 6 + (0.0075,) * 40
"""Of all rows, in each table: a few large ones and many small ones."""
TABLES = len(_SHARES)
_PLANT = "INSERT INTO part_{number} (key, body, meta, id) VALUES (%s, %s, %s, %s)"

_POSITION = """
SELECT DISTINCT n FROM unnest(%s::text[]) n
  JOIN (SELECT * FROM part_0 LIMIT {rows}) AS part
               ON position(n IN key) > 0 OR position(n IN state) > 0 OR position(n IN title) > 0
              OR position(n IN body) > 0 OR position(n IN meta::text) > 0
              OR position(n IN id::text) > 0
"""


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Search all tables at once, and one of them name by name."""
    url = surroundings.database()
    database = Database(url)
    keys = _keys()
    with closing(database.connect("benchmark")) as connection:
        with _patient(connection):
            rows = _fill(connection, keys, scale.rows_searched)
        with _patient(connection):
            _settle(connection)
        bucket = BucketSettings.model_validate(
            {"bucket": "acme", "owns": ["files/"], "min_age": "48h"}
            | {"named_elsewhere": {"max_time": "2h"}}
        )
        one = search.Elsewhere(database, bucket)
        before = _blocks_of(connection)
        with _watched() as cost:
            one.search([key.encode() for key in keys])
        blocks = _blocks_of(connection) - before
        found = one.found
        planted = PLANTED_EACH * len(_WAYS)
        if len(found.named) != planted or found.unsearched:
            raise NotTheSameWork(
                f"{len(found.named)} of {planted} planted names were found; not searched: "
                f"{list(map(str, found.unsearched))}"
            )
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / THOUSAND
        with _patient(connection):
            bare, bare_server = _copied(connection)
        naive, of_one, names = _name_by_name(connection, keys)
    ours = Value(rows * COLUMNS / found.seconds, "values/s", "search")
    theirs = Value(of_one * COLUMNS / naive, "values/s", "position() of each name")
    per_gigabyte = readable(found.seconds / found.size * GIGABYTE)
    yield Measurement(
        benchmark=NAME,
        what=f"{CANDIDATES:,} candidates in {found.columns} columns and {rows:,} rows",
        measured=ours,
        compared=theirs,
        ratio=more(ours, theirs),
        reading="times as fast",
        note=(
            f"{readable(found.seconds)} s for {found.size / MILLION:,.0f} MB, {per_gigabyte} s a "
            f"GB; {planted} of {planted} planted names found; position() read {of_one:,} rows of "
            f"one table and found {names} of its names: for all rows it would take "
            f"{readable(naive * rows / of_one / HOUR)} hours"
        ),
    )
    searched = Value(found.seconds, "s", "search")
    copied = Value(bare, "s", "a COPY of the same tables, thrown away")
    yield Measurement(
        benchmark=NAME,
        what=f"the same, against what it costs to read {rows:,} rows",
        measured=searched,
        compared=copied,
        ratio=more(searched, copied),
        reading="times as long",
        note=(
            f"the server's processor worked {readable(cost.server)} s for the search and "
            f"{readable(bare_server)} s for the COPY; this process worked {readable(cost.own)} s "
            f"and held {most:,.0f} MB at most, with all else that it did before; the search asked "
            f"for {blocks:,} blocks of 8 KB, {blocks * BLOCK / MILLION:,.0f} MB"
        ),
    )
    longest = Value(cost.longest, "s", "longest statement of the search")
    theirs = Value(bare / TABLES, "s", "a COPY of a table, on average")
    yield Measurement(
        benchmark=NAME,
        what=f"its longest statement, of {cost.statements:,}",
        measured=longest,
        compared=theirs,
        ratio=more(longest, theirs),
        reading="times as long",
    )
    surroundings.drop(url)


@dataclass
class _Cost:
    """What a search took: statements, the longest of them, and processor seconds."""

    statements: int = 0
    longest: float = 0.0
    server: float = 0.0
    own: float = 0.0


@contextmanager
def _watched() -> Iterator[_Cost]:
    """Look at every statement of the searches within."""
    cost, read_part, before = _Cost(), search.read_part, time.process_time()

    def timed(connection: Connection, *rest: Any) -> None:
        started = time.monotonic()
        try:
            read_part(connection, *rest)
        finally:
            cost.statements += 1
            cost.longest = max(cost.longest, time.monotonic() - started)
            cost.server = server_seconds(connection)

    with mock.patch.object(search, "read_part", timed):
        yield cost
    cost.own = time.process_time() - before


def _blocks_of(connection: Connection) -> int:
    """Blocks that all connections to the database have asked for, once they are closed."""
    connection.commit()
    row = connection.execute(
        "SELECT blks_read + blks_hit FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    connection.commit()
    return int(row[0]) if row else 0


@contextmanager
def _patient(connection: Connection) -> Iterator[None]:
    """A transaction whose statements may take minutes."""
    with connection.transaction():
        connection.execute("SET LOCAL statement_timeout = 0")
        yield


def _copied(connection: Connection) -> tuple[float, float]:
    """Seconds, and the server's processor seconds, of reading all tables without looking."""
    started, before = time.monotonic(), server_seconds(connection)
    for number in range(TABLES):
        statement = f"COPY part_{number} TO STDOUT (FORMAT binary)".encode()
        with connection.cursor().copy(statement) as copy:
            for _ in copy:
                pass
    return time.monotonic() - started, server_seconds(connection) - before


def _keys() -> list[str]:
    return [
        f"files/{'ærø ' if n % 8 in (4, 5, 6) else ''}{uuid.UUID(int=n * 7919 << 64 | n)}_large.png"
        for n in range(CANDIDATES)
    ]


def _name(key: str) -> str:
    return key.rpartition("/")[2]


_WAYS = (
    lambda key: (key, None, None, None),
    lambda key: (None, f'<img src="https://cdn.example.com/{key}?w=1">', None, None),
    lambda key: (None, None, json.dumps({"src": key}), None),
    lambda key: (None, None, None, _name(key)[-46:-10]),
    lambda key: (None, f'<a href="/{quote(key)}">', None, None),
    lambda key: (None, None, json.dumps({"x": json.dumps({"src": key})}), None),
    lambda key: (key.upper(), None, None, None),
    lambda key: (f"copy-of-{_name(key)}", None, None, None),
)
"""Exact, address, JSON, uuid, percent-encoded, JSON in JSON, upper case, inside another name."""


def _fill(connection: Connection, keys: list[str], rows: int) -> int:
    planted = keys[: PLANTED_EACH * len(_WAYS)]
    for number in range(TABLES):
        connection.execute(_TABLE.format(number=number).encode())
    for n, key in enumerate(planted):
        statement = _PLANT.format(number=n // len(_WAYS) % TABLES).encode()
        connection.execute(statement, _WAYS[n % len(_WAYS)](key))
    sizes = [max(1, round(rows * share)) for share in _SHARES]
    connection.execute(_ROWS, (max(sizes),))
    for number, size in enumerate(sizes):
        connection.execute(_FILL.format(number=number).encode(), (size,))
    connection.execute("DROP TABLE rows_of_all")
    return sum(sizes) + len(planted)


def _settle(connection: Connection) -> None:
    """Read every row once, which marks it as committed: whoever is measured first would do it."""
    for number in range(TABLES):
        connection.execute(_READ.format(number=number).encode())


def _name_by_name(connection: Connection, keys: list[str]) -> tuple[float, int, int]:
    """(seconds, rows that were read, names found) of the first rows of one table."""
    row = connection.execute(
        "SELECT count(*) FROM (SELECT FROM part_0 LIMIT %s) AS part", (MOST_NAME_BY_NAME,)
    ).fetchone()
    started = time.monotonic()
    with _patient(connection):
        # The planted names stand at the beginning, where a scan of a large table need not begin.
        connection.execute("SET LOCAL synchronize_seqscans = off")
        statement = _POSITION.format(rows=MOST_NAME_BY_NAME).encode()
        found = connection.execute(statement, ([_name(key) for key in keys],)).fetchall()
    if not found:
        raise NotTheSameWork("position() found no planted name")
    return time.monotonic() - started, int(row[0]) if row else 0, len(found)
