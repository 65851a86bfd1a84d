"""The SQL of the pages runs, and says what the pages say that it says."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from filejobs_dagster.audit.append import append
from filejobs_dagster.cli.init import Answers, Journey, document
from filejobs_dagster.doctor.database import check_database
from filejobs_dagster.doctor.rights import own_rights, statements
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.references.operator import Column, OperatorQuery
from filejobs_dagster.settings import SourceSettings, load_settings
from filejobs_dagster.uploads import Uploads
from tests.docs.pages import EXAMPLES, Block, blocks, page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Any

ROLES = ("filejobs_owner", "filejobs_collector", "application")

MAKING_ROLES = "CREATE ROLE filejobs_owner"

_BODY = """'{"kind":"file.shared"}'"""

EVERYTHING_BUT_APPENDING = (
    *(
        f"{verb} {table}"
        for table in (
            "audit_event", "audit_chain", "audit_seal", "audit_checkpoint", "audit_restore",
            "audit_hold", "audit_pin",
        )
        for verb in ("SELECT FROM", "TRUNCATE", "DELETE FROM")
    ),
    "INSERT INTO audit_event SELECT 'collectors', 2, now(), '{}', ''::bytea, ''::bytea, '', 1",
    "INSERT INTO audit_event SELECT 'application', 2, now(), '{}', ''::bytea, ''::bytea, '', 1",
    "INSERT INTO audit_chain SELECT 'other', '', 0, '', now()",
    "UPDATE audit_chain SET head_seq = 2",
    "UPDATE audit_chain SET writer = 'application' WHERE chain_id = 'collectors'",
    f"SELECT audit_append_many('application', ARRAY[{_BODY}])",
    f"SELECT audit_append_many('collectors', ARRAY[{_BODY}])",
    f"SELECT audit_record('collectors', ARRAY[{_BODY}])",
    f"SELECT audit_record(NULL, ARRAY[{_BODY}])",
    *(
        f"SELECT audit_record('application', ARRAY['{{\"kind\":\"{kind}\"}}'])"
        for kind in (
            "audit.trim", "audit.hold.set", "audit.clock", "objects.delete.result", "run.ended",
            "upload.cleaned", "deleted_file.collected", "bucket.adopted", "\\u0061udit.trim",
        )
    ),
    "ALTER TABLE audit_event DISABLE TRIGGER ALL",
    "ALTER FUNCTION audit_record(text, text[]) SECURITY INVOKER",
    "CREATE FUNCTION convert_to(text, name) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'",
    "SET session_replication_role = replica",
)  # fmt: skip


def _run(connection: psycopg.Connection[Any], text: str) -> list[tuple[Any, ...]]:
    cursor = connection.execute(text.encode())
    while cursor.nextset():
        pass
    return cursor.fetchall() if cursor.description else []


def _of_examples(name: str, containing: str) -> str:
    """The one statement of a file of examples that has this in it."""
    statements = (EXAMPLES / name).read_text(encoding="utf-8").split(";\n")
    (found,) = [each for each in statements if containing in each]
    return found


def _sql(name: str, containing: str) -> str:
    found = [
        block.text
        for block in page(name).blocks
        if block.language == "sql" and containing in block.text
    ]
    assert len(found) == 1, f"{name} has {len(found)} SQL blocks with {containing!r}"
    return found[0]


@pytest.mark.parametrize(
    "block",
    [block for block in blocks("sql") if MAKING_ROLES not in block.text],
    ids=lambda block: block.name,
)
def test_every_statement_of_a_page_runs_on_the_migrated_tables(
    block: Block, connection: psycopg.Connection[Any]
) -> None:
    _run(connection, block.text)
    assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.sql")), ids=lambda path: path.name)
def test_every_statement_of_the_examples_runs_on_the_migrated_tables(
    path: Path, connection: psycopg.Connection[Any]
) -> None:
    _run(connection, path.read_text(encoding="utf-8"))
    assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


# First hour -----------------------------------------------------------------------------------


@pytest.fixture
def fresh_roles(empty_database_url: str) -> Iterator[str]:
    """A database of the test's own, in a server that forgets the page's roles afterwards."""
    yield empty_database_url
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for role in ROLES:
            connection.execute(f"DROP OWNED BY {role} CASCADE".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def test_the_grants_give_each_role_what_it_needs_and_no_more(
    fresh_roles: str, tmp_path: Path
) -> None:
    journey = document(Answers(Journey.FILES, "acme-production", "acme-uploads", owns=["files/"]))
    path = tmp_path / "filejobs.yaml"
    more = "  upload_cleanup: {by_hand: true}\n"
    path.write_text(journey + more, encoding="utf-8")
    first = _sql("security.md", MAKING_ROLES)
    rest = [block.text for block in page("first-hour.md").blocks if block.language == "sql"]
    assert len(rest) == 2
    with psycopg.connect(fresh_roles, autocommit=True) as superuser:
        _run(superuser, first)
    owner, collector, application = (make_conninfo(fresh_roles, user=role) for role in ROLES)
    migrate(owner, "filejobs")
    # What `filejobs grants` prints for the settings of the same journey.
    settings = load_settings(path, {"FILEJOBS_DATABASE_URL": collector})
    with psycopg.connect(owner, autocommit=True) as connection:
        for rights, role in (
            (own_rights(settings, "jobs"), ROLES[1]),
            (own_rights(settings, "application"), ROLES[2]),
        ):
            for statement in statements(rights, role):
                connection.execute(statement)
        connection.execute("SET search_path = filejobs")
        for text in rest:
            _run(connection, text)

    database = Database(collector, "filejobs")
    with database.connect("test") as connection:
        findings = {
            each.check: each.verdict for each in check_database(database, connection, settings)
        }
        assert (findings["migrations"], findings["privileges"]) == ("ok", "ok")
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute("SET search_path = filejobs")
            assert append(cursor, [{"kind": "test"}]) == (1, 1)
        for refused in (
            "INSERT INTO filejobs.file (storage_key) VALUES ('files/1')",
            "SELECT FROM filejobs.audit_event",
            "INSERT INTO filejobs.audit_event SELECT",
            "UPDATE filejobs.audit_chain SET head_seq = 9",
            "TRUNCATE filejobs.file",
            "CREATE TABLE filejobs.other (id integer)",
            "DROP TABLE filejobs.file",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())
    with psycopg.connect(application, autocommit=True) as connection:
        connection.execute("SET search_path = filejobs")
        reserved = _run(connection, _sql("integrating.md", "INSERT INTO file"))
        assert connection.execute("SELECT complete_upload(%s)", (reserved[0][0],)).fetchone() == (
            True,
        )
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM file")
        uploads = Uploads(connection, "filejobs")
        begun = uploads.begin("files/")
        assert uploads.record_upload_id(begun.id, "multipart 1")
        assert uploads.mark_stored(begun.id) == "stored"
        attachment = uploads.publish(begun.id, "message 1")
        assert attachment is not None
        assert uploads.remove_attachment(attachment)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("DELETE FROM upload")
        appended = _run(connection, _sql("audit.md", "audit_record("))
        assert appended == [(1, 1)]
        for refused in EVERYTHING_BUT_APPENDING:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(refused.encode())
    with psycopg.connect(collector, autocommit=True) as connection:
        connection.execute("SET search_path = filejobs")
        heads = _run(connection, "SELECT chain_id, writer, head_seq FROM audit_chain ORDER BY 1")
        assert heads == [("application", "application", 1), ("collectors", None, 1)]


# Settings -------------------------------------------------------------------------------------


def test_the_statement_to_explain_is_the_one_that_is_sent_and_an_index_serves_it(
    connection: psycopg.Connection[Any],
) -> None:
    text = _sql("settings.md", "EXPLAIN")
    source = SourceSettings(
        name="avatars", sql="select avatar_key from account where avatar_key is not null"
    )
    sent = OperatorQuery(source).matches(Column(is_bytes=False))
    sent = sent.replace("$2", "ARRAY['files/1']").replace("$1", "ARRAY['files/1'::bytea]")
    sent = sent.replace("]::bytea[]", "]")
    assert sent.split() == text.partition("EXPLAIN")[2].rstrip(";\n").split()

    connection.execute("SET enable_seqscan = off")
    plan = "\n".join(line for (line,) in _run(connection, text))
    assert "account_avatar_key" in plan
    assert "Index Cond" in plan


# Integrating ----------------------------------------------------------------------------------


def test_the_reservation_of_the_page_holds_its_own_id_in_its_key(
    connection: psycopg.Connection[Any],
) -> None:
    ((identity, key, expires_at),) = _run(connection, _sql("integrating.md", "INSERT INTO file"))
    assert key == f"files/{identity}"
    state = connection.execute("SELECT state FROM file").fetchone()
    assert state == ("pending",)
    assert expires_at is not None


@pytest.mark.parametrize(
    ("state", "late", "refuse_late", "result", "after"),
    [
        ("pending", False, False, True, "ready"),
        ("pending", True, False, True, "ready"),
        ("pending", True, True, False, "pending"),
        ("ready", True, False, True, "ready"),
        ("deleted", False, False, False, "deleted"),
    ],
)
def test_completing_answers_as_the_table_of_the_page_says(
    connection: psycopg.Connection[Any],
    *,
    state: str,
    late: bool,
    refuse_late: bool,
    result: bool,
    after: str,
) -> None:
    identity = uuid.uuid4()
    connection.execute(
        "INSERT INTO file (id, state, storage_key, upload_expires_at)"
        " VALUES (%s, %s, %s, clock_timestamp() + %s * interval '1 hour')",
        (identity, state, f"files/{identity}", -1 if late else 1),
    )
    found = connection.execute(
        "SELECT complete_upload(%s, refuse_late => %s)", (identity, refuse_late)
    ).fetchone()
    assert found == (result,)
    assert connection.execute("SELECT state FROM file").fetchone() == (after,)


def test_completing_what_is_not_there_is_false(connection: psycopg.Connection[Any]) -> None:
    assert _run(connection, "SELECT complete_upload(gen_random_uuid())") == [(False,)]


# Did it run -----------------------------------------------------------------------------------


def test_the_wrong_query_hides_the_job_that_never_ran_and_the_right_one_names_it(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode,"
        " detail) SELECT 'a', 'acme-production', 'upload_reservations', now(),"
        " now() - interval '3 hours', 'ok', 'live', '{\"window\": {\"covers\": \"everything\"}}'"
    )
    wrong = _run(connection, _of_examples("did_it_run.sql", "-- WRONG: a job without any row"))
    right = _run(connection, _of_examples("did_it_run.sql", "-- Right: begin with the jobs"))
    assert [row[0] for row in wrong] == ["upload_reservations"]
    assert sorted(row[0] for row in right) == ["audit_seal", "upload_reservations"]


def test_the_wrong_sum_reads_zero_where_nothing_was_decided(
    connection: psycopg.Connection[Any],
) -> None:
    connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, error)"
        " VALUES ('a', 'acme-production', 'upload_reservations', now(), 'failed', 'live', 'why')"
    )
    assert _run(connection, _of_examples("did_it_run.sql", "-- WRONG: runs that decided")) == [(0,)]
    assert _run(connection, _of_examples("did_it_run.sql", "-- Right: say how many")) == [
        (1, 1, 1, None)
    ]


def test_no_row_of_job_run_is_updated_or_deleted(connection: psycopg.Connection[Any]) -> None:
    connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
        " VALUES ('a', 'acme-production', 'upload_reservations', now(), 'ok', 'live')"
    )
    assert connection.execute("UPDATE job_run SET acted = 1").rowcount == 0
    assert connection.execute("DELETE FROM job_run").rowcount == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("TRUNCATE job_run")


# Audit ----------------------------------------------------------------------------------------


def _append(connection: psycopg.Connection[Any], *events: dict[str, Any]) -> None:
    with connection.transaction(), connection.cursor() as cursor:
        append(cursor, events)


def _change(connection: psycopg.Connection[Any], statement: str) -> None:
    """What an owner could do: the triggers are off meanwhile."""
    with connection.transaction():
        connection.execute("ALTER TABLE audit_event DISABLE TRIGGER USER")
        connection.execute(statement.encode())
        connection.execute("ALTER TABLE audit_event ENABLE TRIGGER USER")


def test_the_check_of_the_chain_finds_what_was_changed_and_nothing_else(
    connection: psycopg.Connection[Any],
) -> None:
    check = _of_examples("audit.sql", "WITH linked AS")
    _append(connection, {"kind": "one"}, {"kind": "two"})
    _append(connection, {"kind": "three"})
    assert _run(connection, check) == []
    _change(connection, "UPDATE audit_event SET body = '{}' WHERE seq = 2")
    assert _run(connection, check) == [("collectors", 2)]


def test_the_check_of_the_head_finds_a_chain_that_was_cut_off(
    connection: psycopg.Connection[Any],
) -> None:
    check = _of_examples("audit.sql", "chain.head_seq <> coalesce")
    _append(connection, {"kind": "one"}, {"kind": "two"})
    assert _run(connection, check) == []
    _change(connection, "DELETE FROM audit_event WHERE seq = 2")
    assert _run(connection, check) == [("collectors", 2, 1)]


def test_the_keys_of_an_intent_without_a_result_are_found(
    connection: psycopg.Connection[Any],
) -> None:
    query = _of_examples("audit.sql", "jsonb_array_elements_text(intent")
    of_run = {"job": "upload_reservations", "run_id": "a", "bucket": "acme-uploads", "batch": 1}
    intent = {"kind": "objects.delete.intent", **of_run}
    result = {"kind": "objects.delete.result", **of_run, "failed": {}}
    # The halves of a batch share its number.
    _append(connection, intent | {"keys": ["files/1"]}, result, intent | {"keys": ["files/2"]})
    assert [row[-1] for row in _run(connection, query)] == ["files/2"]
    _append(connection, result)
    assert _run(connection, query) == []
