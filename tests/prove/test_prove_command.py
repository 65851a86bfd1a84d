"""`filejobs prove` as a person calls it: output, exit codes, and what it leaves behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.embedded.postgres import EmbeddedPostgres
from filejobs_dagster.jobs.upload_reservations import collection
from filejobs_dagster.prove import claims as all_claims
from filejobs_dagster.prove.evidence import Claim, Evidence, Side
from filejobs_dagster.prove.stage import SCHEMA_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from typer.testing import Result

    from filejobs_dagster.prove.stage import Scene, Stage

URL = "SCEPTIC_URL"


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["prove", *arguments])


@pytest.fixture
def own_server(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with something in it that is nobody else's business."""
    monkeypatch.setenv(URL, empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE file (id integer PRIMARY KEY, note text)")
        connection.execute("INSERT INTO file VALUES (1, 'mine')")
    return empty_database_url


def schemas(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute("SELECT nspname FROM pg_namespace")}


def content(url: str) -> list[tuple[Any, ...]]:
    """Everything in `public`, by name and by row."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "SELECT relname, relkind FROM pg_class WHERE relnamespace = 'public'::regnamespace"
            " ORDER BY 1"
        ).fetchall()
        return [*names, *connection.execute("SELECT * FROM file ORDER BY id").fetchall()]


def only_claim(
    monkeypatch: pytest.MonkeyPatch, demonstrate: Callable[[Stage], Evidence], name: str = "mine"
) -> None:
    monkeypatch.setattr(all_claims, "CLAIMS", [Claim(name, "A sentence.", demonstrate)])


@pytest.mark.thorough
def test_every_claim_holds_on_a_server_of_ones_own_which_is_left_as_it_was(
    own_server: str,
) -> None:
    schemas_before, content_before = schemas(own_server), content(own_server)

    result = call("--database-url-env", URL)

    assert result.exit_code == 0, result.output
    count = len(all_claims.CLAIMS)
    last_line = result.output.splitlines()[-1]
    assert last_line.startswith(f"{count} of {count} claims held on PostgreSQL 18")
    assert "a server of your own" in last_line
    fates = re.findall(r"what the claim protects +(\w+)", result.output)
    assert fates == ["LOST", "kept"] * count
    assert schemas(own_server) == schemas_before
    assert content(own_server) == content_before


def test_the_text_has_the_claim_both_statements_and_what_they_did(own_server: str) -> None:
    result = call("--database-url-env", URL, "--only", "never-run")

    assert result.exit_code == 0
    assert "1. A job that has never run is named at once" in result.output
    assert "HAVING max(job_run.finished_at) < now() - interval '26 hours'" in result.output
    assert "silently dropped" in result.output
    assert "jobs that it names       audit_seal, storage_orphans" in result.output
    assert "held: the careless version lost, the guarded one did not" in result.output
    assert all(line == line.rstrip() for line in result.output.splitlines())


def test_the_json_has_everything_that_the_text_has(own_server: str) -> None:
    result = call("--database-url-env", URL, "--only", "null-counts", "--format", "json")

    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert document["held"] is True
    (claim,) = document["claims"]
    assert claim["name"] == "null-counts"
    assert claim["careless"]["lost"] is True
    assert claim["guarded"]["lost"] is False
    assert "job_run_error_iff_failed" in claim["guarded"]["statement"]
    assert {"label": "they can be told apart", "value": False} in claim["careless"]["facts"]


def test_a_temporary_server_is_removed_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[EmbeddedPostgres] = []
    start = EmbeddedPostgres.start

    def remember(*arguments: Any, **options: Any) -> EmbeddedPostgres:
        started.append(start(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(EmbeddedPostgres, "start", remember)

    result = call("--only", "never-run")

    assert result.exit_code == 0, result.output
    (server,) = started
    assert not server.running
    assert not server.directory.exists()


def test_a_sabotaged_claim_ends_with_1_and_is_named_in_the_last_line(
    own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = "DELETE FROM file WHERE id = ANY(%(ids)s) RETURNING id, storage_key,"
    monkeypatch.setattr(collection, "CLAIM", trusting + " upload_expires_at, size_bytes")

    result = call("--database-url-env", URL, "--only", "completed-upload", "--only", "never-run")

    assert result.exit_code == 1
    last_line = result.output.splitlines()[-1]
    assert last_line.startswith("1 of 2 claims held")
    assert last_line.endswith("Not proven: completed-upload")


def test_a_careless_version_that_does_not_lose_proves_nothing(
    own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    harmless = Side("harmless", "SELECT 1", (), lost=False)
    only_claim(monkeypatch, lambda _: Evidence(harmless, harmless))

    result = call("--database-url-env", URL)

    assert result.exit_code == 1
    assert "the careless version did not lose, so nothing was shown" in result.output


def test_a_claim_that_breaks_leaves_no_schema_and_does_not_stop_the_others(
    own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(stage: Stage) -> Evidence:
        with stage.scene() as scene:
            raise RuntimeError(f"broken in {_filled(scene)}")

    monkeypatch.setattr(
        all_claims, "CLAIMS", [Claim("broken", "A sentence.", breaks), *all_claims.CLAIMS[3:4]]
    )
    before = schemas(own_server)

    result = call("--database-url-env", URL)

    assert result.exit_code == 1
    assert "not proven: RuntimeError: broken in filejobs_prove_" in result.output
    assert "1 of 2 claims held" in result.output
    assert schemas(own_server) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_schema(
    number: signal.Signals, own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def interrupted(stage: Stage) -> Evidence:
        with stage.scene() as scene:
            seen.append(_filled(scene))
            signal.raise_signal(number)
            raise AssertionError("the signal was ignored")

    only_claim(monkeypatch, interrupted)
    before = schemas(own_server)

    result = call("--database-url-env", URL)

    assert result.exit_code == 128 + number
    assert len(seen) == 1
    assert schemas(own_server) == before


def test_the_signal_handler_of_the_caller_is_given_back(own_server: str) -> None:
    before = signal.getsignal(signal.SIGTERM)

    call("--database-url-env", URL, "--only", "never-run")

    assert signal.getsignal(signal.SIGTERM) is before


def test_a_schema_that_cannot_be_dropped_is_named(
    own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def foreign_lock(stage: Stage) -> Evidence:
        with stage.scene() as scene:
            monkeypatch.setattr("filejobs_dagster.prove.stage.PATIENCE", _short())
            holder = psycopg.connect(own_server)
            holders.append(holder)
            table = sql.Identifier(scene.database.schema, "job_run")
            holder.execute(sql.SQL("LOCK TABLE {}").format(table))
        raise AssertionError("the schema was dropped")

    holders: list[psycopg.Connection[Any]] = []
    only_claim(monkeypatch, foreign_lock)

    result = call("--database-url-env", URL)

    holders[0].close()
    assert result.exit_code == 1
    assert "Do it by hand: DROP SCHEMA IF EXISTS filejobs_prove_" in result.output


def test_a_role_that_may_not_create_a_schema_is_told_what_it_needs(
    own_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(own_server, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS prove_guest")
        connection.execute("CREATE ROLE prove_guest LOGIN")
    monkeypatch.setenv(
        URL, own_server.replace("postgresql://postgres@", "postgresql://prove_guest@")
    )

    result = call("--database-url-env", URL, "--only", "never-run")

    assert result.exit_code == 1
    assert "The role needs CREATE on the database" in result.output
    assert not [name for name in schemas(own_server) if name.startswith(SCHEMA_PREFIX)]


def test_a_server_that_cannot_be_reached_is_an_error_without_the_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(URL, "postgresql://sceptic:hunter2-secret@127.0.0.1:1/none")

    result = call("--database-url-env", URL)

    assert result.exit_code == 1
    assert "Could not connect to PostgreSQL at 127.0.0.1:1/none" in result.output
    assert "hunter2-secret" not in result.output


def test_a_variable_that_is_not_set_is_named() -> None:
    result = call("--database-url-env", "NOT_SET_ANYWHERE")

    assert result.exit_code == 64
    assert "NOT_SET_ANYWHERE" in result.output


def test_an_unknown_claim_is_refused_before_a_server_is_started() -> None:
    result = call("--only", "no-such-claim")

    assert result.exit_code == 64
    assert "no claim is called 'no-such-claim'" in result.output


def test_the_list_names_every_claim_and_tries_none() -> None:
    text, document = call("--list"), call("--list", "--format", "json")

    assert text.exit_code == document.exit_code == 0
    names = [claim.name for claim in all_claims.CLAIMS]
    assert [line.split()[0] for line in text.output.splitlines()] == names
    assert [entry["name"] for entry in json.loads(document.stdout)] == names


def test_the_help_needs_neither_servers_nor_storage_nor_dagster() -> None:
    script = (
        "import sys; from filejobs_dagster.cli import prove;"
        "print(sorted({'psycopg', 'boto3', 'moto', 'dagster', 'pydantic'} & set(sys.modules)))"
    )

    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )

    assert result.stdout.strip() == "[]"


def _filled(scene: Scene) -> str:
    """Put a row into the scene, so that there is something to drop."""
    scene.rows("INSERT INTO file (storage_key) VALUES ('files/left')")
    return scene.database.schema


def _short() -> Any:
    return timedelta(milliseconds=200)
