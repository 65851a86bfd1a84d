"""upload_reservations on the operator's own tables: the contract stays what it is."""

from __future__ import annotations

import threading
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.collecting.detail import SourceRefused
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.jobs.upload_reservations.statements import BEGINNING
from filejobs_dagster.ledger.outcome import Window
from filejobs_dagster.objects.client import make_client
from tests.installation import NOW
from tests.jobs.conftest import Collector
from tests.own_tables import HOUR, OwnTables, example, keys_of, reservation_source, schema
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

TAKE = """
    update public.documents set status = 'expired'
     where id = any($1) and status = 'reserved' and expires_at < $2 returning """
AUDIT = """
    insert into public.audit_log (what, document_id, storage_key, run_id)
    select 'expired', id, key, $3 from unnest($1, $2) as e (id, key)"""
CARELESS = "delete from public.documents where id = any($1) returning storage_key"


def between_select_and_claim(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    """Let something happen once, after candidates were read and before they are claimed."""
    read = Collection._read
    done: list[bool] = []

    def read_then(self: Collection, *arguments: Any) -> Any:
        page = read(self, *arguments)
        if page and not done:
            done.append(True)
            happens()
        return page

    monkeypatch.setattr(Collection, "_read", read_then)


BOTH = pytest.mark.parametrize("documents", ["one database", "two databases"], indirect=True)


@pytest.fixture
def documents(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> OwnTables:
    """The `documents` of the page: in the project's database, unless a test asks for BOTH."""
    installation = OwnTables(tmp_path, database_url, bucket, s3_client, s3_server.endpoint_url)
    installation.use(example("public.documents"))
    if getattr(request, "param", "one database") == "one database":
        installation.in_the_projects_database()
    else:
        installation.app_url = request.getfixturevalue("empty_database_url")
    installation.create(schema("CREATE TABLE documents"))
    installation.document_row("files/kept", status="complete")
    return installation


@pytest.fixture
def collect(documents: OwnTables) -> Collector:
    return Collector(documents, make_client(documents.settings().buckets["uploads"]))


# --- what is taken -------------------------------------------------------------------------------


@BOTH
def test_rows_are_claimed_by_the_operators_statement_and_their_bytes_follow(
    documents: OwnTables, collect: Collector
) -> None:
    row = documents.document_row("files/gone")
    documents.document_row("files/young", due_ago=-HOUR)
    documents.document_row("files/never", due_ago=None)

    outcome = collect(run_id="run-1")

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (1, 1)
    assert outcome.detail["without_expiry"] == 1
    assert outcome.detail["swept"] is True
    assert documents.statuses() == {
        "files/gone": "expired",
        "files/kept": "complete",
        "files/young": "reserved",
        "files/never": "reserved",
    }
    assert documents.keys() == {"files/kept", "files/young", "files/never"}
    assert documents.app("SELECT what, document_id, storage_key, run_id FROM audit_log") == [
        ("reservation expired", row, "files/gone", "run-1")
    ]
    (collected,) = documents.events("upload_reservation.collected")
    assert (collected["source"], collected["row_id"]) == ("documents", str(row))
    assert [event["keys"] for event in documents.events("objects.delete.intent")] == [
        ["files/gone"]
    ]
    assert [event["deleted"] for event in documents.events("objects.delete.result")] == [1]


def test_the_oldest_go_first_over_many_pages_and_the_rest_is_reported(
    documents: OwnTables, collect: Collector
) -> None:
    documents.app(
        "INSERT INTO documents (status, storage_key, expires_at)"
        # Four of each moment: the order goes on by id within one.
        " SELECT 'reserved', 'files/' || n, now() - interval '1 day' + (n / 4) * interval '1 s'"
        "   FROM generate_series(0, 29) AS n"
    )

    first = collect(limit=17, batch_size=5)

    assert (first.acted, first.detail["stopped_reason"]) == (17, "limit")
    left = documents.app("SELECT min(expires_at) FROM documents WHERE status = 'reserved'")
    assert datetime.fromisoformat(first.detail["oldest_left"]) == left[0][0]
    second = collect(batch_size=5)
    assert (second.acted, second.detail["oldest_left"]) == (13, None)
    assert len(keys_of(documents.events("upload_reservation.collected"))) == 30


@BOTH
def test_a_day_takes_what_became_due_on_it(documents: OwnTables, collect: Collector) -> None:
    for day in (1, 2, 3):
        documents.app(
            "INSERT INTO documents (status, storage_key, expires_at) VALUES ('reserved', %s, %s)",
            (f"files/{day}", datetime(2026, 3, day, tzinfo=timezone.utc)),
        )
    begins = datetime(2026, 3, 2, tzinfo=timezone.utc)

    outcome = collect(window=Window(begins, begins + timedelta(days=1), "2026-03-02"))

    assert outcome.acted == 1
    assert documents.statuses()["files/2"] == "expired"
    assert {documents.statuses()[f"files/{day}"] for day in (1, 3)} == {"reserved"}


def test_a_dry_run_counts_and_changes_nothing(documents: OwnTables, collect: Collector) -> None:
    for number in range(7):
        documents.document_row(f"files/{number}", body=b"1234")
    before = documents.app("SELECT * FROM documents ORDER BY id")

    outcome = collect(mode="dry", batch_size=3)

    assert (outcome.detail["would_collect"], outcome.detail["would_free_bytes"]) == (7, 28)
    assert documents.app("SELECT * FROM documents ORDER BY id") == before
    assert documents.app("SELECT 1 FROM audit_log") == []
    assert documents.events() == []


def test_rows_that_no_claim_can_mean_are_counted_and_shown_and_nothing_is_swept(
    documents: OwnTables, collect: Collector
) -> None:
    documents.create("ALTER TABLE documents ALTER storage_key DROP NOT NULL")
    documents.document_row("files/good")
    rows = {
        name: documents.document_row(f"files/{name}")
        for name in ("without key", "minus infinity", "year one", "year 12000", "never")
    }
    documents.app("UPDATE documents SET storage_key = NULL WHERE id = %s", (rows["without key"],))
    for name, at in (
        ("minus infinity", "-infinity"),
        ("year one", "0001-01-01 12:00Z"),
        ("year 12000", "12000-01-01Z"),
        ("never", "infinity"),
    ):
        documents.app("UPDATE documents SET expires_at = %s WHERE id = %s", (at, rows[name]))

    for mode, good in (("dry", {"would collect": 1}), ("live", {"deleted": 1})):
        outcome = collect(mode=mode)  # type: ignore[arg-type]
        assert outcome.ok, outcome.error
        assert outcome.detail["classes"] == {**good, "no key": 1, "no usable time": 3}
        assert outcome.detail["samples"]["no key"] == [str(rows["without key"])]
        assert str(rows["never"]) not in outcome.detail["samples"]["no usable time"]
        assert outcome.detail["untouched"] == 3, "in the year 12000 the last one is due"
        assert outcome.detail["swept"] is False


# --- races, with real backends -------------------------------------------------------------------


@BOTH
def test_an_upload_that_completes_between_select_and_claim_is_kept(
    documents: OwnTables, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = documents.document_row("files/slow client")
    between_select_and_claim(monkeypatch, lambda: complete(documents, slow))

    outcome = collect()

    assert outcome.detail["classes"] == {"won by others": 1}
    assert documents.statuses()["files/slow client"] == "complete"
    assert documents.has_object("files/slow client")


@BOTH
def test_control_a_claim_that_repeats_nothing_loses_the_completed_upload(
    documents: OwnTables, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.source(claim=CARELESS, claim_checked_by_hand=True)
    slow = documents.document_row("files/slow client")
    told: list[bool] = []
    between_select_and_claim(monkeypatch, lambda: told.append(complete(documents, slow)))

    collect()

    assert told == [True], "the client was told that its upload is complete"
    assert "files/slow client" not in documents.statuses()
    assert not documents.has_object("files/slow client")


@BOTH
def test_a_row_that_a_client_holds_is_passed_by(documents: OwnTables, collect: Collector) -> None:
    slow = documents.document_row("files/held")
    documents.document_row("files/other")
    with psycopg.connect(documents.app_url) as client:
        client.execute("UPDATE documents SET status = 'complete' WHERE id = %s", (slow,))
        outcome = collect()

    assert outcome.detail["classes"] == {"deleted": 1, "held by another session": 1}
    assert documents.statuses()["files/held"] == "complete"
    assert documents.keys() == {"files/kept", "files/held"}


def test_a_claim_that_waits_for_a_held_row_leaves_it_after_the_lock_timeout_and_takes_the_others(
    documents: OwnTables, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.source(claim=TAKE + "storage_key")
    held = documents.document_row("files/held")
    for number in range(3):
        documents.document_row(f"files/{number}")
    monkeypatch.setattr(OwnTables, "database", property(lambda self: impatient(self.database_url)))
    with psycopg.connect(documents.app_url) as client:
        client.execute("SELECT FROM documents WHERE id = %s FOR UPDATE", (held,))
        outcome = collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 3, "held by another session": 1}
    assert documents.statuses()["files/held"] == "reserved"


def test_a_claim_that_waited_for_a_completion_does_not_take_the_row(
    documents: OwnTables, collect: Collector
) -> None:
    documents.source(claim=TAKE + "storage_key")
    slow = documents.document_row("files/slow client")
    outcomes: list[Any] = []
    with (
        psycopg.connect(documents.app_url) as client,
        psycopg.connect(documents.app_url, autocommit=True) as watcher,
    ):
        client.execute("UPDATE documents SET status = 'complete' WHERE id = %s", (slow,))
        run = threading.Thread(target=lambda: outcomes.append(collect()))
        run.start()
        wait_until(lambda: bool(claims_waiting(watcher)), "the claim waits for the client")
        client.commit()
        run.join(timeout=30)

    assert outcomes[0].detail["classes"] == {"won by others": 1}
    assert documents.has_object("files/slow client")


# --- claims that go wrong ------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("claim", "said"),
    [
        (TAKE.replace("id = any($1)", "$1 is not null") + "storage_key", "rows for"),
        (TAKE + "nullif(storage_key, storage_key)", "NULL as a key"),
        (TAKE + "storage_key || '.jpg'", "no candidate"),
        (TAKE + "no_such_column", "refuses claim"),
    ],
)
def test_a_claim_that_returns_what_nobody_asked_for_is_rolled_back_and_fails_the_run(
    documents: OwnTables, collect: Collector, claim: str, said: str
) -> None:
    documents.source(claim=claim)
    for number in range(4):
        documents.document_row(f"files/{number}")

    outcome = collect(batch_size=2)

    assert not outcome.ok
    assert said in str(outcome.error)
    assert set(documents.statuses().values()) == {"reserved", "complete"}
    assert len(documents.keys()) == 5
    assert documents.events() == []
    assert documents.app("SELECT 1 FROM audit_log") == []


@BOTH
@pytest.mark.parametrize(
    "audit",
    [
        AUDIT.replace("'expired'", "null"),
        "select 1 / (cardinality($1) - 1), $2, $3",
    ],
    ids=["a constraint", "an error"],
)
def test_an_audit_statement_that_fails_rolls_back_the_claim(
    documents: OwnTables, collect: Collector, audit: str
) -> None:
    documents.source(audit=audit)
    documents.document_row("files/1")

    outcome = collect()

    assert not outcome.ok
    assert documents.statuses()["files/1"] == "reserved"
    assert documents.has_object("files/1")
    assert documents.events() == []


@BOTH
@pytest.mark.parametrize(
    ("length", "collected", "refused"),
    # One event that does not fit; and a statement that fits no event.
    [(12, 2, 1), (1, 0, 3)],
)
def test_a_value_that_the_audit_table_cannot_hold_refuses_its_row_and_no_other(
    documents: OwnTables, collect: Collector, length: int, collected: int, refused: int
) -> None:
    documents.create(f"ALTER TABLE audit_log ALTER COLUMN storage_key TYPE varchar({length})")
    keys = ["files/0", "files/a-long-name", "files/2"]
    for key in keys:
        documents.document_row(key)

    outcome = collect()

    assert (outcome.acted, outcome.detail["classes"]["claim refused"]) == (collected, refused)
    assert outcome.ok is bool(collected)
    assert outcome.ok or "constraints" in str(outcome.error)
    assert documents.statuses()["files/a-long-name"] == "reserved"
    assert {"files/kept", "files/a-long-name"} <= documents.keys()
    assert "too long" in outcome.detail["samples"]["claim refused"][0]


@BOTH
def test_a_statement_that_the_server_refuses_in_the_middle_is_named_and_rolled_back(
    documents: OwnTables, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.document_row("files/1")
    between_select_and_claim(
        monkeypatch, lambda: documents.app("ALTER TABLE audit_log DROP COLUMN run_id")
    )

    outcome = collect()

    assert not outcome.ok
    assert "PostgreSQL refuses audit of source 'documents'" in str(outcome.error)
    assert "rolled back" in str(outcome.error)
    assert documents.statuses()["files/1"] == "reserved"
    assert documents.keys() == {"files/kept", "files/1"}


def test_a_candidate_query_that_takes_too_long_is_named(documents: OwnTables) -> None:
    candidates = documents.document["jobs"]["upload_reservations"]["source"]["candidates"]
    documents.source(candidates=f"{candidates} and pg_sleep(5) is not null")
    documents.document_row("files/1")
    database = replace(documents.database, statement_timeout=timedelta(milliseconds=200))
    settings = reservation_source(documents.settings())
    assert settings is not None

    with (
        database.connect("test") as connection,
        pytest.raises(SourceRefused, match=r"candidates of source 'documents'.*statement_timeout"),
    ):
        OperatorTable(settings, database, connection).read(None, BEGINNING, NOW, 10)


LEAVES_THE_STATE = TAKE.replace("'expired'", "status") + "storage_key"


@BOTH
def test_a_claim_that_leaves_its_rows_candidates_is_rolled_back(
    documents: OwnTables, collect: Collector
) -> None:
    documents.source(claim=LEAVES_THE_STATE)
    documents.document["buckets"]["uploads"]["sources"][0]["sql"] = (
        "select storage_key from public.documents where status = 'complete'"
    )
    documents.document_row("files/1")

    outcome = collect()

    assert not outcome.ok
    assert "leaves 1 of 1 rows candidates" in str(outcome.error)
    assert documents.statuses()["files/1"] == "reserved"
    assert documents.keys() == {"files/kept", "files/1"}
    assert documents.app("SELECT 1 FROM audit_log") == []
    assert documents.events("objects.delete.intent") == []


def test_control_without_that_look_the_client_completes_an_upload_without_bytes(
    documents: OwnTables, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OperatorTable, "_require_none_left", lambda *_: None)
    documents.source(claim=LEAVES_THE_STATE)
    documents.document["buckets"]["uploads"]["sources"][0]["sql"] = (
        "select storage_key from public.documents where status = 'complete'"
    )
    documents.document_row("files/1")

    collect()
    documents.app(
        "UPDATE documents SET status = 'complete', expires_at = NULL WHERE status = 'reserved'"
    )

    assert documents.statuses()["files/1"] == "complete"
    assert documents.keys() == {"files/kept"}


def test_rows_that_share_a_key_are_told_apart_and_the_bytes_stay_while_one_is_left(
    documents: OwnTables, collect: Collector
) -> None:
    documents.create("ALTER TABLE documents DROP CONSTRAINT documents_storage_key_key")
    first = documents.document_row("files/shared", due_ago=HOUR * 2)
    second = documents.document_row("files/shared")
    documents.app("UPDATE documents SET status = 'complete' WHERE id = %s", (second,))
    outcome = collect()

    assert "kept: referenced by documents" in outcome.detail["classes"]
    assert documents.has_object("files/shared")
    assert [event["row_id"] for event in documents.events("upload_reservation.collected")] == [
        str(first)
    ]

    third = documents.document_row("files/twice", due_ago=HOUR * 2)
    fourth = documents.document_row("files/twice")
    again = collect(run_id="again")

    assert (again.detail["claimed"], documents.has_object("files/twice")) == (2, False)
    rows = {event["row_id"] for event in documents.events("upload_reservation.collected")}
    assert rows == {str(first), str(third), str(fourth)}


@BOTH
def test_two_rows_of_one_key_in_a_batch_are_two_rows_and_one_object(
    documents: OwnTables, collect: Collector
) -> None:
    documents.create("ALTER TABLE documents DROP CONSTRAINT documents_storage_key_key")
    for key in ("files/twice", "files/twice", "files/once", "files/gone", "files/gone"):
        documents.document_row(key, body=None if key == "files/gone" else b"12345")

    dry = collect(mode="dry")
    short = collect(mode="dry", limit=2)
    outcome = collect(run_id="live")

    assert dry.detail["classes"] == {"would collect": 3}
    assert (dry.scanned, dry.detail["would_free_bytes"]) == (5, 10)
    assert (short.scanned, short.detail["stopped_reason"]) == (2, "limit")
    assert outcome.detail["classes"] == {"deleted": 2, "never arrived": 1}
    assert (outcome.scanned, outcome.acted, outcome.detail["claimed"]) == (5, 3, 5)
    assert (outcome.detail["bytes_freed"], outcome.detail["objects_left"]) == (10, 0)
    assert len(documents.events("upload_reservation.collected")) == 5
    (intent,) = documents.events("objects.delete.intent")
    assert sorted(intent["keys"]) == ["files/gone", "files/once", "files/twice"]
    (result,) = documents.events("objects.delete.result")
    assert (result["deleted"], result["never_arrived"]) == (2, ["files/gone"])


@BOTH
def test_a_source_that_names_the_key_in_that_database_keeps_the_bytes(
    documents: OwnTables, collect: Collector
) -> None:
    documents.create(
        "CREATE TABLE export (storage_key text); INSERT INTO export VALUES ('files/1')"
    )
    sources = documents.document["buckets"]["uploads"]["sources"]
    sources.append(
        deepcopy(sources[0]) | {"name": "exports", "sql": "select storage_key from public.export"}
    )
    documents.document_row("files/1")
    documents.document_row("files/2")

    outcome = collect()

    assert documents.keys() == {"files/kept", "files/1"}
    assert outcome.detail["classes"] == {"kept: referenced by exports": 1, "deleted": 1}


@BOTH
def test_a_deferred_foreign_key_refuses_its_row_and_the_others_go(
    documents: OwnTables, collect: Collector
) -> None:
    documents.create(
        "CREATE TABLE quotation (document uuid REFERENCES documents DEFERRABLE INITIALLY DEFERRED)"
    )
    documents.source(
        claim="delete from public.documents where id = any($1) and status = 'reserved'"
        " and expires_at < $2 returning storage_key"
    )
    quoted = documents.document_row("files/quoted")
    documents.app("INSERT INTO quotation VALUES (%s)", (quoted,))
    for number in range(4):
        documents.document_row(f"files/{number}")

    outcome = collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 4, "claim refused": 1}
    assert documents.statuses()["files/quoted"] == "reserved"
    assert documents.keys() == {"files/kept", "files/quoted"}
    assert len(documents.events("objects.delete.intent")) == len(
        documents.events("objects.delete.result")
    )


# --- SQL of odd shapes ---------------------------------------------------------------------------


def test_comments_at_the_end_percent_signs_and_quotes_are_taken_as_they_stand(
    documents: OwnTables, collect: Collector
) -> None:
    documents.source(
        candidates="select id, storage_key, expires_at from public.documents"
        " where status = 'reserved' and storage_key like '%s%%' escape '!' -- candidates ) x",
        claim="update public.documents set status = 'expired' where id = any($1) and status ="
        " 'reserved' and storage_key like '%s%%' escape '!' and expires_at < $2"
        " returning storage_key -- and not more",
        audit="insert into public.audit_log (what, document_id, storage_key, run_id) select"
        " '100 % -- ''expired''', id, key, $3 from unnest($1, $2) as e (id, key) -- done",
    )
    documents.document_row("files/a'b\"c\\d")
    documents.document_row("files/0")
    documents.document_row("files/s")

    outcome = collect()

    assert outcome.ok, outcome.error
    statuses = documents.statuses()
    assert {key for key, status in statuses.items() if status == "expired"} == {
        key for key in statuses if "s" in key and key != "files/kept"
    }
    assert set(documents.app("SELECT what FROM audit_log")) == {("100 % -- 'expired'",)}


@pytest.mark.parametrize(
    ("id_type", "values"),
    [
        ("bigint", ["9223372036854775807", "-1", "0"]),
        ("text", ["a,b", '{"c"}', "back\\slash", "NULL", "", "quo\"te'", "é e\u0301"]),
        ("numeric", ["1.50", "100000000000000000000000"]),
        ("smallint", ["-32768", "7"]),
        ("varchar(9)", ["A b", "a b"]),
    ],
)
def test_ids_of_other_types_survive_the_way_to_the_claim(
    documents: OwnTables, collect: Collector, id_type: str, values: list[str]
) -> None:
    documents.create(f"CREATE TABLE arrival (id {id_type} PRIMARY KEY, key text, due timestamptz)")
    for number, value in enumerate(values):
        documents.app(
            f"INSERT INTO arrival VALUES (%s::text::{id_type}, %s, '2026-01-01Z')",
            (value, f"files/{number}"),
        )
    documents.source(
        candidates="select id, key, due from public.arrival",
        claim="delete from public.arrival where id = any($1) and due < $2 returning key",
        audit=f"insert into public.audit_log (what, document_id, storage_key, run_id) select"
        f" (id::{id_type})::text, gen_random_uuid(), key, $3 from unnest($1, $2) as e (id, key)",
    )

    outcome = collect(batch_size=2)

    assert outcome.ok, outcome.error
    assert outcome.acted == len(values)
    assert documents.app("SELECT 1 FROM arrival") == []
    noted = {what for (what,) in documents.app("SELECT what FROM audit_log")}
    assert noted == set(values)


@pytest.mark.parametrize(
    ("candidates", "said"),
    [
        ("select id, storage_key, expires_at::timestamp from public.documents", "AT TIME ZONE"),
        ("select id, storage_key::bytea, expires_at from public.documents", "keys are text"),
        ("select expires_at, storage_key, expires_at from public.documents", "its id as"),
        ("select id, storage_key, expires_at, status from public.documents", "number of bytes"),
        ("select id, storage_key, expires_at from public.no_such_table", "refuses candidates"),
        (
            "select id, storage_key, expires_at from public.documents, generate_series(1, 2)",
            "more than once",
        ),
    ],
)
def test_a_candidate_query_of_the_wrong_shape_fails_before_anything_is_claimed(
    documents: OwnTables, collect: Collector, candidates: str, said: str
) -> None:
    # One of them joins a function, with which nothing can be compared.
    documents.source(candidates=candidates, claim_checked_by_hand=True)
    documents.document_row("files/1")

    outcome = collect()

    assert not outcome.ok
    assert said in str(outcome.error)
    assert documents.statuses()["files/1"] == "reserved"


def test_infinite_due_times_are_never_due(documents: OwnTables, collect: Collector) -> None:
    for moment in ("infinity", "-infinity", "0044-03-15 BC"):
        documents.app(
            "INSERT INTO documents (status, storage_key, expires_at) VALUES ('reserved', %s, %s)",
            (f"files/{moment}", moment),
        )
    documents.document_row("files/1")

    outcome = collect()

    assert (outcome.acted, outcome.detail["oldest_left"]) == (1, None)


@BOTH
def test_a_table_in_the_roles_own_search_path_is_found_without_its_schema(
    documents: OwnTables, collect: Collector
) -> None:
    documents.create(
        "CREATE SCHEMA app;"
        "CREATE TABLE app.upload (id int PRIMARY KEY, key text, due timestamptz);"
        "INSERT INTO app.upload VALUES (1, 'files/1', '2026-01-01Z')"
    )
    name = psycopg.conninfo.conninfo_to_dict(documents.app_url)["dbname"]
    documents.create(f'ALTER DATABASE "{name}" SET search_path = app, public')
    documents.source(
        candidates="select id, key, due from upload",
        claim="delete from upload where id = any($1) and due < $2 returning key",
        audit="select $1, $2, $3",
    )

    outcome = collect()

    assert outcome.ok, outcome.error
    assert documents.app("SELECT 1 FROM app.upload") == []


def complete(installation: OwnTables, row: Any) -> bool:
    """What a client does, and whether it was told that it succeeded."""
    return bool(
        installation.app(
            "UPDATE documents SET status = 'complete', expires_at = NULL"
            " WHERE id = %s AND status = 'reserved' RETURNING id",
            (row,),
        )
    )


def claims_waiting(watcher: psycopg.Connection) -> list[Any]:
    waiting = watcher.execute(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE 'WITH claim%'"
        " AND datname = current_database() AND state = 'active'"
    ).fetchall()
    return [pid for (pid,) in waiting if is_waiting(watcher, pid)]


def impatient(url: str) -> Any:
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    return Database(url, lock_timeout=timedelta(seconds=0.2))
