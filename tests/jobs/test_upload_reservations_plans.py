"""The collector's statements on a table of a million rows: which index, and how much is read.

Nothing here is timed. What PostgreSQL says of its plan and of the rows and pages that it read holds
on every machine. The table is looked at with statistics and as if never analyzed, which is how it
stands after a restore; and from two moments: one at which nothing is due, and one at which most of
the table is.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.upload_reservations.statements import (
    BEGINNING,
    CANDIDATES,
    CLAIM,
    DUE,
    IN_INDEX_ORDER,
    LAST_ID,
    OLDEST_LEFT,
    WITHOUT_EXPIRY,
)
from filejobs_dagster.references.own_tables import OWN_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.thorough

ROWS = 1_000_000
RESERVATIONS = 600_000
WITHOUT_EXPIRY_ROWS = 20_000
AHEAD = timedelta(days=60)
"""By then every reservation of the table is due; now none is."""

BATCH = 500
PAGES_OF_THE_WAY = 40
"""Pages that a statement may read to find its place: indexes' upper levels, catalogs, and so on."""

DUE_INDEX, WITHOUT_EXPIRY_INDEX, KEY_INDEX, PRIMARY_KEY = (
    "file_reservation_due",
    "file_pending_without_expiry",
    "file_storage_key_unique",
    "file_pkey",
)

_LOAD = """
INSERT INTO file (id, state, storage_key, upload_expires_at)
SELECT id,
       CASE WHEN n <= %(reservations)s + %(without_expiry)s THEN 'pending' ELSE 'ready' END,
       'files/' || id,
       CASE WHEN n <= %(reservations)s THEN now() + interval '1 day' + n * interval '1 second'
            WHEN n <= %(reservations)s + %(without_expiry)s THEN NULL
            ELSE now() - interval '300 days' + n * interval '10 seconds' END
  FROM (SELECT n, md5(n::text)::uuid AS id FROM generate_series(1, %(rows)s) AS n) AS made
"""

_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'file'"


@dataclass(frozen=True)
class Plan:
    """What EXPLAIN (ANALYZE, BUFFERS) says."""

    root: dict[str, Any]

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.get("Plans", []))

    def indexes(self) -> set[str]:
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node}

    def kinds(self) -> set[str]:
        return {node["Node Type"] for node in self.nodes()}

    def rows_read(self) -> int:
        """Rows that scans found or looked at in vain."""
        read: float = sum(
            (
                node["Actual Rows"]
                + node.get("Rows Removed by Filter", 0)
                + node.get("Rows Removed by Index Recheck", 0)
            )
            * node["Actual Loops"]
            for node in self.nodes()
            if "Scan" in node["Node Type"] and "Subquery" not in node["Node Type"]
        )
        return round(read)

    def pages(self) -> int:
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])

    def __str__(self) -> str:
        return "\n".join(self._lines(self.root, 0))

    def _lines(self, node: dict[str, Any], depth: int) -> Iterator[str]:
        told = ("Node Type", "Index Name", "Index Cond", "Filter", "Actual Rows", "Actual Loops",
                "Rows Removed by Filter", "Plan Rows", "Shared Hit Blocks")  # fmt: skip
        yield "  " * depth + "; ".join(f"{name}: {node[name]}" for name in told if name in node)
        for below in node.get("Plans", []):
            yield from self._lines(below, depth + 1)


@pytest.fixture(scope="module")
def million(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    """The table, loaded without its indexes, which are made afterwards: that is much faster."""
    name = f"million_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template_database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET maintenance_work_mem = '256MB'")
        connection.execute("ALTER TABLE file SET (autovacuum_enabled = false)")
        indexes: dict[str, str] = dict(connection.execute(_INDEXES).fetchall())
        for constraint in (PRIMARY_KEY, KEY_INDEX):
            connection.execute(f"ALTER TABLE file DROP CONSTRAINT {constraint}")
        for index in set(indexes) - {PRIMARY_KEY, KEY_INDEX}:
            connection.execute(f"DROP INDEX {index}")
        values = {
            "rows": ROWS,
            "reservations": RESERVATIONS,
            "without_expiry": WITHOUT_EXPIRY_ROWS,
        }
        connection.execute(_LOAD, values)
        for definition in indexes.values():
            connection.execute(definition)
        connection.execute(f"ALTER TABLE file ADD PRIMARY KEY USING INDEX {PRIMARY_KEY}")
        connection.execute(
            f"ALTER TABLE file ADD CONSTRAINT {KEY_INDEX} UNIQUE USING INDEX {KEY_INDEX}"
        )
        connection.execute("VACUUM ANALYZE file")
    yield url
    postgres_server.drop_database(name)


STATISTICS = pytest.mark.parametrize("analyzed", [True, False], ids=["analyzed", "never analyzed"])
MOMENTS = pytest.mark.parametrize("behind", [False, True], ids=["nothing is due", "behind"])


@pytest.fixture
def look(million: str, analyzed: bool) -> Iterator[psycopg.Connection]:
    """A connection in a transaction that is rolled back; without statistics where so asked."""
    # As the collector connects: parameters are bound by the server, nothing is prepared.
    with psycopg.connect(million, prepare_threshold=None) as connection:
        if not analyzed:
            forget_statistics(connection)
        yield connection
        connection.rollback()


def forget_statistics(connection: psycopg.Connection) -> None:
    """What PostgreSQL knows of a table that was loaded a moment ago: the size of its files."""
    connection.execute("DELETE FROM pg_statistic WHERE starelid = 'file'::regclass")
    for (name,) in [("file",), *connection.execute(_INDEXES.replace(", indexdef", "")).fetchall()]:
        connection.execute("SELECT pg_clear_relation_stats('public', %s)", (name,))
    row = connection.execute("SELECT reltuples FROM pg_class WHERE relname = 'file'").fetchone()
    assert row == (-1,)


def explain(connection: psycopg.Connection, statement: str, values: Any) -> Plan:
    question = f"EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {statement}"
    row = connection.execute(question.encode(), values).fetchone()
    assert row is not None
    return Plan(row[0][0]["Plan"])


def moment(connection: psycopg.Connection, *, behind: bool) -> datetime:
    """The cutoff: the database's time, or the one at which everything is due."""
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    now: datetime = row[0]
    return now + AHEAD if behind else now


def candidates(connection: psycopg.Connection, before: datetime, **changes: Any) -> Plan:
    values = {
        "before": before,
        "after": BEGINNING - timedelta(microseconds=1),
        "after_id": LAST_ID,
        "size": BATCH,
        **changes,
    }
    connection.execute(IN_INDEX_ORDER)
    return explain(connection, CANDIDATES, values)


@STATISTICS
@MOMENTS
def test_the_candidate_query_reads_the_partial_index_and_no_row_too_many(
    look: psycopg.Connection, behind: bool, analyzed: bool
) -> None:
    plan = candidates(look, moment(look, behind=behind))
    found = BATCH if behind else 0
    assert plan.root["Actual Rows"] == found
    assert plan.indexes() == {DUE_INDEX}, str(plan)
    assert plan.kinds() == {"Limit", "Index Scan"}, str(plan)
    assert plan.rows_read() == found, str(plan)
    assert plan.pages() <= 2 * found + PAGES_OF_THE_WAY, str(plan)


@STATISTICS
def test_a_page_in_the_middle_of_the_backlog_costs_what_the_first_one_costs(
    look: psycopg.Connection, analyzed: bool
) -> None:
    middle = look.execute(
        "SELECT upload_expires_at, id FROM file WHERE state = 'pending'"
        " ORDER BY 1, 2 OFFSET 300000 LIMIT 1"
    ).fetchone()
    assert middle is not None
    plan = candidates(look, moment(look, behind=True), after=middle[0], after_id=middle[1])
    assert plan.root["Actual Rows"] == BATCH
    assert plan.indexes() == {DUE_INDEX}, str(plan)
    assert plan.kinds() == {"Limit", "Index Scan"}, str(plan)
    assert plan.rows_read() == BATCH, str(plan)
    assert plan.pages() <= 2 * BATCH + PAGES_OF_THE_WAY, str(plan)


@STATISTICS
def test_the_page_after_the_last_one_reads_nothing(
    look: psycopg.Connection, analyzed: bool
) -> None:
    before = moment(look, behind=True)
    plan = candidates(look, before, after=before - timedelta(seconds=1))
    assert plan.indexes() == {DUE_INDEX}, str(plan)
    assert plan.rows_read() == 0, str(plan)
    assert plan.pages() <= PAGES_OF_THE_WAY, str(plan)


@STATISTICS
@MOMENTS
def test_the_oldest_that_is_left_is_the_first_entry_of_the_index(
    look: psycopg.Connection, behind: bool, analyzed: bool
) -> None:
    plan = explain(look, OLDEST_LEFT, {"cutoff": moment(look, behind=behind)})
    assert plan.indexes() == {DUE_INDEX}, str(plan)
    assert plan.rows_read() <= 1, str(plan)
    assert plan.pages() <= PAGES_OF_THE_WAY, str(plan)


@STATISTICS
@MOMENTS
def test_counting_what_is_due_stops_at_the_limit(
    look: psycopg.Connection, behind: bool, analyzed: bool
) -> None:
    most = 1001
    plan = explain(look, DUE, {"grace": -AHEAD if behind else timedelta(0), "most": most})
    assert plan.indexes() == {DUE_INDEX}, str(plan)
    assert "Seq Scan" not in plan.kinds(), str(plan)
    assert plan.rows_read() <= most + 1, str(plan)
    assert plan.pages() <= most + PAGES_OF_THE_WAY, str(plan)


@STATISTICS
def test_counting_what_never_expires_stops_at_the_limit(
    look: psycopg.Connection, analyzed: bool
) -> None:
    most = 10_001
    plan = explain(look, WITHOUT_EXPIRY, {"most": most})
    assert plan.indexes() == {WITHOUT_EXPIRY_INDEX}, str(plan)
    assert "Seq Scan" not in plan.kinds(), str(plan)
    # A bitmap, which a table without statistics gets, holds every entry of the index.
    assert plan.rows_read() <= most + (0 if analyzed else 2 * WITHOUT_EXPIRY_ROWS), str(plan)


@STATISTICS
def test_the_claim_finds_its_rows_by_the_primary_key(
    look: psycopg.Connection, analyzed: bool
) -> None:
    before = moment(look, behind=True)
    values = {"before": before, "after": BEGINNING, "after_id": LAST_ID, "size": BATCH}
    ids = [row[0] for row in look.execute(CANDIDATES.encode(), values).fetchall()]
    assert len(ids) == BATCH
    claim = {"ids": ids, "from": BEGINNING, "before": before}
    plan = explain(look, CLAIM, claim)
    assert plan.root["Actual Rows"] == BATCH
    assert plan.indexes() <= {PRIMARY_KEY, *([] if analyzed else [DUE_INDEX])}, str(plan)
    assert "Seq Scan" not in plan.kinds(), str(plan)
    # Once by the list of ids and once by the outer statement, which repeats every predicate.
    assert plan.rows_read() <= 4 * BATCH, str(plan)


@STATISTICS
def test_the_gate_asks_by_the_index_of_the_keys(look: psycopg.Connection, analyzed: bool) -> None:
    (own,) = [table for table in OWN_TABLES if table.table == "file"]
    named = look.execute("SELECT storage_key FROM file LIMIT 250").fetchall()
    keys = [row[0] for row in named] + [f"files/{uuid.uuid4()}" for _ in named]
    statement = own.query("public").replace("$1", "%s")
    plan = explain(look, statement, (keys,))
    assert plan.root["Actual Rows"] == len(named)
    assert plan.indexes() == {KEY_INDEX}, str(plan)
    assert "Seq Scan" not in plan.kinds(), str(plan)
    assert plan.rows_read() <= 2 * len(keys), str(plan)


def test_control_counting_without_an_order_may_read_everything(million: str) -> None:
    careless = DUE.replace("ORDER BY upload_expires_at, id", "")
    assert careless != DUE
    with psycopg.connect(million, prepare_threshold=None) as connection:
        forget_statistics(connection)
        plan = explain(connection, careless, {"grace": -AHEAD, "most": 1001})
        connection.rollback()
    assert plan.rows_read() > RESERVATIONS, str(plan)


@STATISTICS
def test_control_pages_by_offset_read_everything_before_them(
    look: psycopg.Connection, analyzed: bool
) -> None:
    careless = CANDIDATES.replace("LIMIT %(size)s", "LIMIT %(size)s OFFSET 300000")
    values = {
        "before": moment(look, behind=True),
        "after": BEGINNING - timedelta(microseconds=1),
        "after_id": LAST_ID,
        "size": BATCH,
    }
    assert explain(look, careless, values).rows_read() >= 300_000
