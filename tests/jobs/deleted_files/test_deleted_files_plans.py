"""The collector's statements on a large table: which index, and how much is read.

Nothing here is timed. Most deleted files of the table are still retained, as where every file has
to be kept for years, and many were deleted a moment ago: neither may cost anything.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.deleted_files import statements
from filejobs_dagster.jobs.deleted_files.collection import FileTable
from filejobs_dagster.jobs.deleted_files.statements import BEGINNING, LAST_ID
from tests.jobs.test_upload_reservations_plans import explain, forget_statistics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.thorough

BATCH = 500
PAGES_OF_THE_WAY = 40
DUE, RETAINED, PRIMARY_KEY = "file_deleted_due", "file_deleted_retained_due", "file_pkey"
WINDOW = timedelta(days=30)

_LOAD = """
INSERT INTO file (id, state, storage_key, deleted_at, retain_until)
SELECT id, CASE WHEN kind = 'ready' THEN 'ready' ELSE 'deleted' END, 'files/' || id,
       CASE kind WHEN 'undated' THEN NULL WHEN 'ready' THEN NULL
                 WHEN 'young' THEN now() - n * interval '1 second'
                 WHEN 'released young' THEN now() - n * interval '1 second'
                 ELSE now() - interval '31 days' - n * interval '1 second' END,
       CASE kind WHEN 'retained' THEN now() + n * interval '1 minute'
                 WHEN 'released' THEN now() - n * interval '1 second'
                 WHEN 'released young' THEN now() - interval '2 days' - n * interval '1 second' END
  FROM (SELECT kind, n, md5(kind || n)::uuid AS id
          FROM (VALUES ('ready', 100000), ('young', 40000), ('due', 30000), ('retained', 120000),
                       ('released', 20000), ('released young', 5000), ('undated', 20000))
                    AS kinds (kind, most),
               generate_series(1, most) AS n) AS made
"""


@pytest.fixture(scope="module")
def large(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[str]:
    name = f"deleted_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template_database)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER TABLE file SET (autovacuum_enabled = false)")
        connection.execute("ALTER TABLE file DISABLE TRIGGER ALL")
        connection.execute(_LOAD)
        connection.execute("ALTER TABLE file ENABLE TRIGGER ALL")
        connection.execute("VACUUM ANALYZE file")
    yield url
    postgres_server.drop_database(name)


@pytest.fixture(params=[True, False], ids=["analyzed", "never analyzed"])
def look(large: str, request: pytest.FixtureRequest) -> Iterator[psycopg.Connection]:
    """A connection in a transaction that is rolled back; with and without statistics."""
    with psycopg.connect(large, prepare_threshold=None) as connection:
        if not request.param:
            forget_statistics(connection)
        yield connection
        connection.rollback()


def values(**more: Any) -> dict[str, Any]:
    moments = FileTable(WINDOW)._moments(BEGINNING, datetime.now(timezone.utc))
    first = {"after": BEGINNING - timedelta(microseconds=1), "after_id": LAST_ID, "size": BATCH}
    return moments | first | {"restore_window": WINDOW} | more


@pytest.mark.parametrize(
    ("statement", "index", "entries_in_vain"),
    [(statements.PLAIN_CANDIDATES, DUE, 0), (statements.RETAINED_CANDIDATES, RETAINED, 5000)],
    ids=["plain", "retained"],
)
def test_a_page_of_candidates_reads_its_partial_index_and_no_row_too_many(
    look: psycopg.Connection, statement: str, index: str, entries_in_vain: int
) -> None:
    look.execute(statements.IN_INDEX_ORDER)
    plan = explain(look, statement, values())
    assert plan.root["Actual Rows"] == BATCH
    assert plan.indexes() == {index}, str(plan)
    assert plan.kinds() == {"Limit", "Index Scan"}, str(plan)
    assert plan.rows_read() == BATCH, str(plan)
    # Released files that are still young are passed by inside the index.
    assert plan.pages() <= 2 * BATCH + PAGES_OF_THE_WAY + entries_in_vain / 50, str(plan)


def test_the_page_after_the_last_one_reads_nothing(look: psycopg.Connection) -> None:
    look.execute(statements.IN_INDEX_ORDER)
    end = values(after=datetime.now(timezone.utc) - timedelta(seconds=1))
    for statement in (statements.PLAIN_CANDIDATES, statements.RETAINED_CANDIDATES):
        plan = explain(look, statement, end)
        assert plan.rows_read() == 0, str(plan)
        assert plan.pages() <= PAGES_OF_THE_WAY, str(plan)


def test_lock_and_claim_find_their_rows_by_the_primary_key(look: psycopg.Connection) -> None:
    found = look.execute(statements.PLAIN_CANDIDATES.encode(), values()).fetchall()
    chosen = values(ids=[row[0] for row in found])
    look.execute(statements.IN_INDEX_ORDER)
    for statement in (statements.LOCK, statements.CLAIM):
        plan = explain(look, statement, chosen)
        assert plan.root["Actual Rows"] == BATCH
        assert "Seq Scan" not in plan.kinds(), str(plan)
        assert plan.indexes() == {PRIMARY_KEY}, str(plan)
        assert plan.rows_read() <= 4 * BATCH, str(plan)


def test_what_is_left_is_asked_of_the_two_indexes(look: psycopg.Connection) -> None:
    look.execute(statements.BY_INDEX_ALONE)
    plan = explain(look, statements.OLDEST_LEFT, values())
    assert plan.indexes() == {DUE, RETAINED}, str(plan)
    assert "Seq Scan" not in plan.kinds(), str(plan)
    assert plan.rows_read() <= 10_001, str(plan)


def test_counting_the_undated_stops_at_the_limit(look: psycopg.Connection) -> None:
    plan = explain(look, statements.WITHOUT_DATE, {"most": 10_001})
    assert "Seq Scan" not in plan.kinds(), str(plan)
    assert plan.indexes() == {"file_deleted_without_date"}, str(plan)
    assert plan.rows_read() <= 2 * 20_000, str(plan)


def test_control_one_order_for_both_reads_the_whole_backlog_for_every_page(large: str) -> None:
    careless = statements.PLAIN_CANDIDATES.replace(
        "retain_until IS NULL\n", "(retain_until IS NULL OR retain_until < %(before)s)\n"
    )
    assert careless != statements.PLAIN_CANDIDATES
    with psycopg.connect(large, prepare_threshold=None) as connection:
        plan = explain(connection, careless, values())
        connection.rollback()
    assert plan.rows_read() >= 50_000, str(plan)
