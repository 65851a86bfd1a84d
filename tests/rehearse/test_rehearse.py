"""A rehearsal on a real application's database: what it finds, and what it leaves alone."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from moto.moto_api import recorder
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.rehearse import taking
from filejobs_dagster.rehearse.taking import CannotRehearse, Options, derived_settings, rehearse
from filejobs_dagster.settings import known_secrets
from tests.applications.test_applications import Application, application
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

__all__ = ["application"]

LATER = "untracked variants of a blob whose purge was lost"
READER = "filejobs_rehearsal_reader"


@pytest.fixture
def reader(application: Application) -> Iterator[str]:
    """The URL of a role that may read, and nothing else."""
    application.execute(f"DROP ROLE IF EXISTS {READER}")
    application.execute(f"CREATE ROLE {READER} LOGIN")
    application.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {READER}")
    yield make_conninfo(application.database_url, user=READER)
    application.execute(f"DROP OWNED BY {READER}")
    application.execute(f"DROP ROLE {READER}")


def written(application: Application) -> list[tuple[Any, ...]]:
    """What changes with every row that is written."""
    return application.execute(
        "SELECT relname, n_tup_ins, n_tup_upd, n_tup_del FROM pg_stat_user_tables ORDER BY 1"
    )


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    return make_installation(tmp_path, database_url, bucket, s3_client, s3_server)


@contextmanager
def recorded(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The methods of all requests that reach the operator's store, whoever sends them."""
    monkeypatch.setattr(recorder, "_location", str(file))
    sent: list[str] = []
    recorder.start_recording()
    try:
        yield sent
    finally:
        recorder.stop_recording()
        sent += [json.loads(line)["method"] for line in file.read_text().splitlines()]


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["rails"], indirect=True)
def test_what_went_there_is_what_is_dead_and_here_everything_was_only_read(
    application: Application, reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A dead file that somebody protects, and nothing else keeps.
    protected = "qjyr5x7w08vqacr9ovcz9wu9adle"
    application.entry["protect"] = [protected]
    before, keys = written(application), application.keys()
    settings = application.settings({**application.environment, "FILEJOBS_DATABASE_URL": reader})
    with recorded(tmp_path / "requests", monkeypatch) as sent:
        found = rehearse(settings, Options(all_tables=True), lambda _: None)

    assert set(sent) == {"GET", "HEAD"}
    # CONTROL: a write would have been seen.
    with recorded(tmp_path / "control", monkeypatch) as sent:
        application.client.delete_object(Bucket=application.bucket, Key="nothing")
    assert sent == ["DELETE"]
    assert written(application) == before
    assert application.keys() == keys
    assert [it["ok"] for it in found["runs"]] == [True, True]
    # Only upload_reservations, which is not rehearsed, makes orphans of these.
    later = set(application.expected["orphans"][LATER])
    assert set(found["gone"]["sample"]) == application.dead() - later - {protected}
    assert found["gone"]["objects"] == 5
    assert {it["what"]: it["held"] for it in found["canaries"]} == {
        "orphan below the whole bucket": True,
        "orphan by the rewrite untracked variants": True,
        "live file of blobs": True,
    }
    # What nothing stopped stands first.
    first = found["mutations"][0]
    assert (first["kind"], first["name"], first["gone"]) == ("protection", protected, 1)
    assert not first["stopped_by"]
    by_name = {it["name"]: it for it in found["mutations"]}
    assert by_name["blobs"]["would_have_gone"] > 90
    assert by_name["blobs"]["gone"] == 0
    assert "blocked by named_elsewhere" in by_name["blobs"]["stopped_by"]
    assert by_name["untracked variants"]["stopped_by"] == "kept: 8 ambiguous"


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["django"], indirect=True)
def test_a_prepend_that_is_left_out_would_lose_files_and_the_guard_that_refuses_is_named(
    application: Application,
) -> None:
    rule = "prepend of manuals"
    found = rehearse(application.settings(), Options(without=(rule,)), lambda _: None)
    (mutation,) = found["mutations"]
    assert mutation["name"] == rule
    assert mutation["would_have_gone"] == 9
    assert mutation["gone"] == 0
    assert "Source 'manuals' names keys of which none lies in" in mutation["stopped_by"]
    # Only what the sources read was copied.
    assert found["taken"]["tables"]["public.shop_invoice"] == ["pdf"]
    assert "public.auth_user" in found["taken"]["left"]
    assert all(it["held"] for it in found["canaries"]), found["canaries"]
    # The names below it are too short for another that is surely nobody's.
    assert "below private/" in found["unplanted"]


@pytest.mark.parametrize("application", ["mlflow"], indirect=True)
def test_the_derived_settings_hold_no_address_no_credential_and_no_variable_of_the_real_ones(
    application: Application,
) -> None:
    settings = application.settings()
    entry, bucket = settings.bucket_of("storage_orphans")
    derived = derived_settings(settings, entry, bucket, {application.database_url: "there"})
    (said,) = derived["buckets"].values()
    # What a transform cuts off the rows' values names the bucket, and is compared with text alone.
    for source in said["sources"]:
        source.pop("transforms")
    text = yaml.safe_dump(derived)
    real = {application.bucket, application.endpoint_url, *known_secrets(settings)}
    assert not [it for it in (*real, *application.environment) if it in text]


@pytest.mark.parametrize("application", ["mlflow"], indirect=True)
def test_a_bucket_that_is_too_large_for_the_store_is_refused_and_never_taken_in_part(
    application: Application,
) -> None:
    with pytest.raises(CannotRehearse, match="--most-objects"):
        rehearse(application.settings(), Options(most_objects=3), lambda _: None)


def report(**changes: Any) -> dict[str, Any]:
    """A report as `rehearse` returns it."""
    return {
        "taken": {"tables": {}, "left": ["public.other"]},
        "runs": [{"mode": "live", "ok": True, "error": None, "scanned": 3, "acted": 1}],
        "gone": {"objects": 1, "bytes": 5, "by_age": [], "sample": ["files/dead"]},
        "by_prefix": [],
        "requests": {"HeadObject": 2},
        "estimated_seconds": 1.5,
        "canaries": [],
        "unplanted": ["below private/"],
        "mutations": [],
        **changes,
    }


def test_the_process_of_a_rehearsal_reaches_no_other_server_than_its_own_store(
    s3_server: EmbeddedS3,
) -> None:
    script = """
import socket, sys
from urllib.parse import urlsplit
from filejobs_dagster.rehearse.there import refuse_others
there = urlsplit(sys.argv[1])
own = socket.create_server(("127.0.0.1", 0))
# CONTROL: before, it is reached.
socket.create_connection((there.hostname, there.port)).close()
refuse_others("http://127.0.0.1:%d" % own.getsockname()[1])
socket.create_connection(own.getsockname()).close()
try:
    socket.create_connection((there.hostname, there.port))
except PermissionError as error:
    print(error)
"""
    said = subprocess.run(
        [sys.executable, "-c", script, s3_server.endpoint_url],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout == "A rehearsal reaches nothing but its own store.\n"


RULE = {"kind": "transform", "name": "prepend of manuals", "would_have_gone": 9, "gone": 0,
        "stopped_by": "Source 'manuals' names keys of which none", "sample": []}  # fmt: skip
UNSTOPPED = {**RULE, "name": "strip_base of photos", "gone": 9, "stopped_by": "", "sample": ["a"]}
CANARY = {"what": "live file of photos", "key": "a", "expected": "stays", "held": True, "why": ""}


@pytest.mark.parametrize(("held", "exit_code"), [(True, 0), (False, 1)])
def test_what_nothing_stopped_stands_first_and_only_a_planted_file_decides_the_exit_code(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, *, held: bool, exit_code: int
) -> None:
    found = report(mutations=[UNSTOPPED, RULE], canaries=[{**CANARY, "held": held}])
    monkeypatch.setattr(taking, "rehearse", lambda *_: found)
    path = installation.write()
    said = CliRunner(env=installation.environment).invoke(app, ["--config", str(path), "rehearse"])
    assert said.exit_code == exit_code, said.output
    assert said.stdout.startswith("Nothing would have stopped it")
    assert "strip_base of photos: 9 of 9 objects gone" in said.stdout
    assert "prepend of manuals: 9 would go; Source 'manuals' names keys" in said.stdout
    assert ("DID NOT" in said.stdout) is not held
    assert "below private/: nothing could be planted" in said.stdout
    assert "Not copied: 1 tables" in said.stdout
