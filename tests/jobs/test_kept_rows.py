"""Rows that jobs take can be read in the audit log in full, and brought back with their bytes."""

from __future__ import annotations

import json
import logging
import subprocess
import uuid
from typing import TYPE_CHECKING, Any, cast

import pytest
from psycopg.types.json import Jsonb
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.collector import Resources
from filejobs_dagster.door.door import Door
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from filejobs_dagster.ledger.outcome import Outcome
    from tests.installation import Installation

DOCUMENTS = """
CREATE TABLE documents (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    status text NOT NULL,
    storage_key text UNIQUE,
    price numeric,
    owner text,
    "odd name" text,
    said jsonb,
    bytes bytea,
    tags text[],
    nothing text[],
    day daterange,
    near double precision,
    twice numeric GENERATED ALWAYS AS (price * 2) STORED,
    expires_at timestamptz,
    deleted_at timestamptz
)"""
ODD = 'it\'s "x" \\ :id $1 {a,b} %s\n-- é📎'
"""What a program that writes SQL by hand gets wrong."""

TABLE = {"name": "documents", "table": "public.documents", "key": "storage_key"}
JOBS: dict[str, dict[str, Any]] = {
    "upload_reservations": {
        "tables": [TABLE | {"due": "expires_at", "where": "status = 'reserved'", "after": "1d"}]
    },
    "deleted_files": {
        "restore_window": "1d",
        "tables": [TABLE | {"due": "deleted_at", "where": "status = 'deleted'"}],
    },
}


@pytest.fixture(autouse=True)
def _environment(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)


def live(installation: Installation, job: str, **more: Any) -> Outcome:
    installation.document["jobs"] = {job: {"by_hand": True, **more}}
    installation.write()
    installation.adopt()
    settings, collector = installation.settings(), BY_NAME[job]
    client = make_client(settings.buckets["uploads"])
    has = Resources(settings, client, cast("Any", None))
    request = collector.request.model_construct(**dict(settings.jobs[job]))
    identity = RunIdentity(str(uuid.uuid4()), "test", job, "live", Trigger("cli"), "the test")
    outcome = run_job(
        RunSpec(identity),
        installation.database,
        lambda run: collector.run(run, request, has),
        logging.getLogger("kept rows"),
        door=Door(collector, settings, client),
    )
    assert outcome.ok, outcome.error
    return outcome


def events(installation: Installation, kind: str) -> list[dict[str, Any]]:
    rows = installation.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")
    return [body for (body,) in rows if body["kind"] == kind]


def restored(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["restore", *arguments, "--format", "json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("job", JOBS)
def test_a_row_and_its_bytes_can_be_brought_back(installation: Installation, job: str) -> None:
    more: dict[str, Any] = {} if job == "upload_reservations" else {"restore_window": "1d"}
    installation.client.put_object(Bucket=installation.bucket, Key="files/a", Body=b"bytes")
    installation.execute(
        "INSERT INTO file (state, storage_key, size_bytes, upload_expires_at, deleted_at)"
        " SELECT CASE WHEN due THEN 'pending' ELSE 'deleted' END, 'files/a', 7,"
        "        CASE WHEN due THEN now() - interval '2 d' END,"
        "        CASE WHEN NOT due THEN now() - interval '2 d' END"
        "   FROM (VALUES (%s)) AS given (due)",
        (job == "upload_reservations",),
    )
    before = installation.execute("SELECT * FROM file")

    outcome = live(installation, job, quarantine=True, **more)

    assert outcome.detail["classes"] == {"quarantined": 1}
    assert outcome.detail["bytes_freed"] == 0
    assert installation.execute("SELECT * FROM file") == []
    (key,) = installation.keys()
    assert key.startswith(f"{QUARANTINE}files/a~")
    told = restored("files/a", "--live")
    assert told["restored"] == 1
    (statement,) = told["rows"]
    installation.execute(statement)
    assert installation.execute("SELECT * FROM file") == before
    assert installation.has_object("files/a")


@pytest.mark.parametrize("job", JOBS)
def test_a_declared_table_s_row_too_without_what_is_personal(
    installation: Installation, job: str
) -> None:
    installation.client.put_object(Bucket=installation.bucket, Key="files/a", Body=b"bytes")
    installation.execute(DOCUMENTS)
    # Bytes may hold a name that nobody can see: live runs want a word about them.
    installation.document["buckets"]["uploads"]["named_elsewhere"] = {
        "ignore": [{"column": "public.documents.bytes", "reason": "no names"}]
    }
    status = "reserved" if job == "upload_reservations" else "deleted"
    installation.execute(
        'INSERT INTO documents (id, status, storage_key, price, owner, "odd name", said, bytes,'
        " tags, day, near, expires_at, deleted_at) OVERRIDING SYSTEM VALUE"
        " VALUES (9007199254740993, %s, 'files/a', 1.10, 'Ada', %s, %s, %s, %s,"
        " '[2024-01-01,2024-02-01)', 0.1::float8 + 0.2, now() - interval '2 d',"
        " now() - interval '2 d')",
        (status, ODD, Jsonb({"a": [1, None, ODD], "n": 1.50}), bytes(range(256)), [ODD, None, ""]),
    )
    installation.client.put_object(Bucket=installation.bucket, Key="files/b", Body=b"bytes")
    installation.execute("INSERT INTO documents (status, storage_key) VALUES ('ready', 'files/b')")
    columns = (
        'id, status, storage_key, price, "odd name", said::text, bytes, tags, nothing, day, near,'
        " twice, expires_at, deleted_at"
    )
    before = installation.execute(f"SELECT {columns} FROM documents ORDER BY id")

    live(installation, job, quarantine=True, leave_out=["owner"], **JOBS[job])

    words = {"upload_reservations": "upload_reservation", "deleted_files": "deleted_file"}
    (event,) = events(installation, f"{words[job]}.collected")
    assert "Ada" not in json.dumps(event)
    assert event["left_out"] == ["owner"]
    told = restored("files/a", "--live")
    typed = ["psql", "-X", "-v", "ON_ERROR_STOP=1", installation.database_url]
    subprocess.run(typed, input=told["rows"][0], text=True, check=True)
    assert installation.execute(f"SELECT {columns} FROM documents ORDER BY id") == before
    assert installation.execute("SELECT owner FROM documents") == [(None,), (None,)]


def test_without_quarantine_no_row_enters_the_log(installation: Installation) -> None:
    installation.reserve("files/a")
    live(installation, "upload_reservations")
    (event,) = events(installation, "upload_reservation.collected")
    assert "row" not in event
    assert installation.keys() == set()
