"""A rehearsal on a real application's database: what it finds, and what it leaves alone."""

from __future__ import annotations

import copy
import csv
import gzip
import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tracemalloc
import uuid
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import psutil
import pytest
import yaml
from moto.moto_api import recorder
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guards import GUARDS, Sources
from filejobs_dagster.jobs.storage_orphans import sweep as sweeping
from filejobs_dagster.jobs.storage_orphans.classification import classify
from filejobs_dagster.jobs.storage_orphans.review import escape_key, of_a_dump
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.rehearse import taking, there
from filejobs_dagster.rehearse.page import page
from filejobs_dagster.rehearse.taking import CannotRehearse, Options, derived_settings, rehearse
from filejobs_dagster.settings import known_secrets
from tests.applications.test_applications import ALL, Application, application, exactly
from tests.installation import Installation, make_installation
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS
from tests.jobs.storage_orphans.test_sweep_named import Careless

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.settings import Settings

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
    # Where nothing is sent the recorder makes none.
    file.touch()
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


def rows_of(application: Application) -> list[tuple[str, str, str]]:
    """The listing of its bucket: keys as an inventory encodes them, sizes, times."""
    return [
        (quote_plus(it["Key"]), str(it["Size"]), it["LastModified"].isoformat())
        for it in application.client.list_objects_v2(Bucket=application.bucket)["Contents"]
    ]


def inventory(folder: Path, bucket: str, rows: list[tuple[str, str, str]]) -> Path:
    """An S3 Inventory with versions, in two files; its manifest."""
    (folder / "data").mkdir()
    place = folder / "2026-11-29T01-00Z"
    place.mkdir()
    files = []
    older = [(rows[0][0], "77", "2020-01-01T00:00:00.000Z")]
    for number, (some, latest) in enumerate([(rows, "true"), (older, "false")]):
        text = io.StringIO()
        csv.writer(text, quoting=csv.QUOTE_ALL).writerows(
            (bucket, key, "v1", latest, "false", size, at) for key, size, at in some
        )
        packed = gzip.compress(text.getvalue().encode())
        (folder / "data" / f"{number}.csv.gz").write_bytes(packed)
        digest = hashlib.md5(packed, usedforsecurity=False).hexdigest()
        files.append({"key": f"inv/data/{number}.csv.gz", "size": 1, "MD5checksum": digest})
    manifest = place / "manifest.json"
    said = {
        "sourceBucket": bucket,
        "fileFormat": "CSV",
        "fileSchema": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate",
        "files": files,
    }
    manifest.write_text(json.dumps(said))
    digest = hashlib.md5(manifest.read_bytes(), usedforsecurity=False).hexdigest()
    (place / "manifest.checksum").write_text(digest)
    return manifest


def offline(application: Application) -> Settings:
    """Settings by which nobody answers."""
    nowhere = "postgresql://nobody@127.0.0.1:9/nothing"
    return application.settings({**application.environment, "FILEJOBS_DATABASE_URL": nowhere})


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["rails"], indirect=True)
@pytest.mark.parametrize("form", ["custom", "plain"])
def test_a_dump_and_an_inventory_do_as_well_and_the_hash_lets_the_first_live_run_in(
    application: Application,
    postgres_server: EmbeddedPostgres,
    form: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    application.document["installation"] = "test"
    sweeper = application.sweeper()
    sweeper.asks = True
    sweeper.adopt()
    dump = tmp_path / "app.dump"
    command = [str(postgres_server.program("pg_dump")), f"--format={form}", f"--file={dump}"]
    subprocess.run([*command, application.database_url], check=True)
    listing = inventory(tmp_path, application.bucket, rows_of(application))
    with recorded(tmp_path / "requests", monkeypatch) as sent:
        found = rehearse(
            offline(application),
            Options(dump=dump, listing=listing, all_tables=True, mutations=False),
            lambda _: None,
        )
    assert not sent
    assert [it["ok"] for it in found["runs"]] == [True, True]
    assert found["not_rehearsed"] == []
    (other,) = found["others"]
    assert other["job"] == "upload_reservations"
    assert [it["ok"] for it in other["runs"]] == [True, True], other
    assert other["objects"] == len(application.dead("reservations"))
    assert other["rows"]["public.active_storage_blobs"] >= other["objects"]
    assert found["estimated_seconds"] is None
    assert found["gone"]["objects"] == 6
    # The real ones, by the same rules.
    assert application.sweep(sweeper, mode="dry").ok
    assert "--rehearsed HASH" in (application.sweep(sweeper).error or "")
    live = application.sweep(sweeper, rehearsed=found["hash"])
    assert live.ok, live.error
    assert live.acted == 6
    assert not application.live - application.keys()


def test_a_dump_is_known_by_its_adoption_and_one_of_another_installation_is_refused(
    installation: Installation,
) -> None:
    settings = installation.settings()
    bucket = settings.buckets["uploads"]

    def of_whom() -> taking.Taken:
        taken = taking.Taken()
        taking._of_whom(installation.database, settings, bucket, taken)
        return taken

    unknown = of_whom()
    assert "before test has adopted the bucket, or of another database" in unknown.doubt
    assert "nobody knows whose it is" in page(
        report(taken=report()["taken"] | {"doubt": unknown.doubt})
    )
    adopted = (
        "INSERT INTO bucket_adoption (endpoint, bucket, installation, counter, adopted_by) "
        "VALUES (%s, %s, %s, 1, 'test')"
    )
    installation.execute(adopted, (bucket.endpoint_url, bucket.bucket, "other"))
    with pytest.raises(CannotRehearse, match=r"of the installation other, and these .* of test"):
        of_whom()
    installation.execute("UPDATE bucket_adoption SET installation = 'test'")
    known = of_whom()
    assert not known.doubt
    [(at,)] = installation.execute("SELECT adopted_at FROM bucket_adoption")
    assert known.database == of_a_dump(at)
    installation.execute("DROP TABLE bucket_adoption")
    assert of_whom().doubt == "it holds no table of this project"


def damaged(manifest: Path) -> Path:
    (manifest.parent.parent / "data" / "1.csv.gz").write_bytes(gzip.compress(b""))
    return manifest


def lacking(manifest: Path) -> Path:
    (manifest.parent.parent / "data" / "1.csv.gz").unlink()
    return manifest


def of_another(manifest: Path) -> Path:
    said = {**json.loads(manifest.read_text()), "sourceBucket": "other"}
    manifest.write_text(json.dumps(said))
    digest = hashlib.md5(manifest.read_bytes(), usedforsecurity=False).hexdigest()
    manifest.with_name("manifest.checksum").write_text(digest)
    return manifest


def edited(manifest: Path) -> Path:
    manifest.write_text(manifest.read_text() + " ")
    return manifest


def as_csv(text: str) -> Callable[[Path], Path]:
    def write(manifest: Path) -> Path:
        path = manifest.with_name("listing.csv")
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize("application", ["mlflow"], indirect=True)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (damaged, "is not what the manifest says"),
        (lacking, "which the manifest names, is not there"),
        (of_another, "is of the bucket other"),
        (edited, "is not what manifest.checksum beside it says"),
        (as_csv("key,bytes\n"), "must name the columns key"),
        (as_csv("key,size,last_modified\na,1,2026-01-01\n"), "has no time zone"),
        (as_csv("key,size,last_modified\na,x,2026-01-01T00:00Z\n"), "Row 1 of"),
    ],
    ids=lambda it: getattr(it, "__name__", "")[:20],
)
def test_a_listing_that_is_not_whole_or_not_of_this_bucket_is_refused(
    application: Application, tmp_path: Path, change: Callable[[Path], Path], words: str
) -> None:
    listing = change(inventory(tmp_path, application.bucket, rows_of(application)))
    with pytest.raises(CannotRehearse, match=words):
        rehearse(offline(application), Options(listing=listing), lambda _: None)


ODD = ("files/a+b c", "files/two\nlines", "files/\U0001f600", f"files/{'x' * 1018}", "other/a")


@pytest.mark.parametrize("application", ["mlflow"], indirect=True)
@pytest.mark.parametrize("escaped", [True, False])
def test_odd_keys_of_a_csv_come_as_they_are(
    application: Application, tmp_path: Path, *, escaped: bool
) -> None:
    path = tmp_path / "listing.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["size", "key_percent_encoded" if escaped else "key", "last_modified"])
        for key in ODD:
            rows.writerow([5, escape_key(key.encode()) if escaped else key, "2026-01-01T00:00:00Z"])
    bucket = application.settings().buckets["uploads"].model_copy(update={"owns": ["files/"]})
    taken = taking.Taken()
    taking._read_listing(path, bucket, tmp_path, Options(), taken, lambda _: None)
    with (tmp_path / "listing.jsonl").open() as lines:
        found = there.Listed(map(json.loads, lines))
    assert list(found) == sorted(ODD[:-1])
    assert (taken.objects, taken.object_bytes) == (4, 20)


def here(
    folder: Path, endpoint: str, rules: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., dict[str, Any]]:
    """Play in this process, where guards can be taken out."""

    def play(_: Path, urls: dict[str, str], *__: Any) -> dict[str, Any]:
        for number, url in enumerate(urls.values()):
            monkeypatch.setenv(f"{taking.URL}_{number}", url)
        for name in (taking.ACCESS_KEY, taking.SECRET_KEY):
            monkeypatch.setenv(name, "rehearsal")
        with there.Rehearsal(_, endpoint) as played:
            return {**report(), "mutations": played.mutations(rules, lambda _: None)}

    return play


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["django"], indirect=True)
def test_without_the_guard_that_refuses_a_forgotten_prepend_nothing_would_have_stopped_it(
    application: Application,
    s3_server: EmbeddedS3,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = "prepend of manuals"
    play = here(tmp_path, s3_server.endpoint_url, (rule,), monkeypatch)
    monkeypatch.setattr(taking, "_run_there", play)
    (guarded,) = rehearse(application.settings(), Options(), lambda _: None)["mutations"]
    assert guarded["stopped_by"].startswith("Source 'manuals' names keys of which none lies in")
    assert (guarded["would_have_gone"], guarded["gone"]) == (9, 0)
    # CONTROL: no source is measured, no name is searched, no near match is kept, nothing trips.
    fewer = [guard for guard in GUARDS if not isinstance(guard, Sources)]
    monkeypatch.setattr(there, "Door", lambda *said: Door(*said, guards=fewer))
    monkeypatch.setattr(sweeping, "Elsewhere", Careless)
    monkeypatch.setattr(sys.modules[classify.__module__], "ambiguous", lambda *_: iter(()))
    monkeypatch.setattr(ReferenceCheck, "judged", exactly)
    application.document["jobs"]["storage_orphans"]["breakers"] = NEVER_TRIPS.model_dump(
        exclude_none=True
    )
    found = rehearse(application.settings(), Options(), lambda _: None)
    (unguarded,) = found["mutations"]
    assert (unguarded["gone"], unguarded["stopped_by"]) == (9, "")
    assert "NOTHING would have stopped it" in page({**found, **about()})


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("application", ALL, indirect=True)
def test_each_application_is_rehearsed_and_every_rule_that_it_would_lose_files_by_is_stopped(
    application: Application, tmp_path: Path
) -> None:
    found = rehearse(application.settings(), Options(all_tables=True), lambda _: None)
    # For whoever wants to look at one.
    (tmp_path / "report.html").write_text(page(found))
    (tmp_path / "report.json").write_text(json.dumps(found))
    assert [it["ok"] for it in found["runs"]] == [True, True], found["runs"]
    assert all(it["held"] for it in found["canaries"]), found["canaries"]
    assert found["hash"].startswith(found["fingerprint"])
    lost = [it for it in found["mutations"] if it["gone"] and it["kind"] != "protection"]
    assert not lost, lost
    assert any(it["would_have_gone"] for it in found["mutations"])


def about() -> dict[str, Any]:
    """What the beginning and the end of a report say."""
    return {
        "installation": "test",
        "bucket": "uploads",
        "endpoint": "AWS",
        "fingerprint": "0" * 16,
        "not_rehearsed": ["deleted_files"],
        "hash": None,
    }


def report(**changes: Any) -> dict[str, Any]:
    """A report as `rehearse` returns it."""
    return {
        **about(),
        "taken": {
            "tables": {}, "left": ["public.other"], "missing": ["extension vector"], "at": "today",
            "objects": 3, "object_bytes": 15, "table_bytes": 0, "doubt": "", "newest_run": "",
        },
        "by_age": [],
        "runs": [{"mode": "live", "ok": True, "error": None, "scanned": 3, "acted": 1}],
        "gone": {"objects": 1, "bytes": 5, "by_age": [], "sample": ["files/dead"]},
        "by_prefix": [],
        "requests": {"HeadObject": 2},
        "references": 2,
        "estimated_seconds": 1.5,
        "canaries": [],
        "others": [],
        "unplanted": ["below private/"],
        "mutations": [],
        **changes,
    }  # fmt: skip


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


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["mlflow"], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_rehearsal_that_is_ended_leaves_no_process_and_no_copy(
    application: Application, tmp_path: Path, how: signal.Signals
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = application.write()
    command = [sys.executable, "-m", "filejobs_dagster.cli", "--config", str(path), "rehearse"]
    with subprocess.Popen(
        [*command, "--scratch-dir", str(scratch)],
        env={**os.environ, **application.environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("the job as it is"):
                break
        children = psutil.Process(process.pid).children(recursive=True)
        copies = {it.cwd() for it in children if "postgres" in it.name()}
        # CONTROL: there is something to be left.
        assert len(copies) == 1
        assert all(Path(it).exists() for it in copies)
        assert any("filejobs_dagster.rehearse.there" in it.cmdline() for it in children)
        assert list(scratch.iterdir())
        process.send_signal(how)
        process.stderr.read()
        assert process.wait(60) != 0
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    assert not [it for it in copies if Path(it).exists()]
    if how == signal.SIGKILL:
        assert list(scratch.iterdir())
        # Whatever the next one does.
        options = Options(folder=scratch, listing=tmp_path / "not there")
        with pytest.raises(CannotRehearse, match="cannot be read"):
            rehearse(application.settings(), options, lambda _: None)
    assert not list(scratch.iterdir())


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
    html = installation.folder / "report.html"
    said = CliRunner(env=installation.environment).invoke(
        app, ["--config", str(path), "rehearse", "--html", str(html)]
    )
    assert said.exit_code == exit_code, said.output
    assert said.stdout.startswith("Nothing would have stopped it")
    assert "strip_base of photos: 9 of 9 objects gone" in said.stdout
    assert "prepend of manuals: 9 would go; Source 'manuals' names keys" in said.stdout
    assert ("DID NOT" in said.stdout) is not held
    assert "below private/: nothing could be planted" in said.stdout
    for words in ("the job deleted_files", "1 tables, of which nothing", "extension vector"):
        assert words in said.stdout
    text = html.read_text()
    assert text.index("Nothing would have stopped it") < text.index("Each rule left out in turn")
    assert ("Planted files that did not fare" in text) is not held
    assert "<script" not in text
    assert "src=" not in text


def test_the_store_of_a_rehearsal_lists_and_deletes_as_the_store_itself_does(
    s3_client: S3Client,
) -> None:
    at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    keys = [f"{part}/{n}" for part in ("a", "b", "\u00e9", "\U0001f600") for n in range(30)]
    name = f"bucketful-{uuid.uuid4().hex}"

    def pages() -> list[list[tuple[str, int, str]]]:
        return [
            [(it["Key"], it["Size"], it["ETag"]) for it in page.get("Contents", [])]
            for prefix in ("", "b/", "b/1", "c", "\u00e9/")
            for after in ("", "a/29", "b/15", "zz")
            for page in s3_client.get_paginator("list_objects_v2").paginate(
                Bucket=name, Prefix=prefix, StartAfter=after, PaginationConfig={"PageSize": 7}
            )
        ]

    def compare(filled: there.Bucketful) -> list[list[tuple[str, int, str]]]:
        quick = pages()
        store = there._store()
        store.list_objects_v2 = filled._lists
        assert quick == pages()
        store.list_objects_v2 = filled._list
        return quick

    with there.Bucketful(name, {key: there.Thing(5, at) for key in keys}) as filled:
        before = compare(filled)
        s3_client.put_object(Bucket=name, Key="b/new", Body=b"x")
        s3_client.delete_objects(
            Bucket=name, Delete={"Objects": [{"Key": key} for key in ("a/3", "b/1", "b/7")]}
        )
        s3_client.delete_object(Bucket=name, Key="a/4")
        assert s3_client.head_object(Bucket=name, Key="b/8")["ContentLength"] == 5
        # CONTROL: they are other pages by now.
        assert compare(filled) != before


def test_a_listing_of_many_objects_takes_little_more_memory_than_its_keys(
    s3_client: S3Client,
) -> None:
    count = 20_000
    rows = [(f"files/{n:032}", n, 1_767_225_600_000) for n in range(count)]
    name = f"small-{uuid.uuid4().hex}"
    tracemalloc.start()
    try:
        listed = there.Listed(reversed(rows))
        with there.Bucketful(name, listed):
            held, _ = tracemalloc.get_traced_memory()
            assert held / count < taking.BYTES_AN_OBJECT
            store = there._store()
            for _ in range(2):
                for after in range(0, count, 1000):
                    store.list_objects_v2(
                        store.buckets[name], None, None, None, rows[after][0], 1000
                    )
            listed_twice, _ = tracemalloc.get_traced_memory()
            assert (listed_twice - held) / count < taking.BYTES_AN_OBJECT / 10
            held = listed_twice
            # CONTROL: made as the store makes them, they take many times as much.
            like = store.put_object(name, "like", b"")
            made = [copy.copy(like) for _ in range(1000)]
            more, _ = tracemalloc.get_traced_memory()
            assert (more - held) / len(made) > taking.BYTES_AN_OBJECT
            answer = s3_client.head_object(Bucket=name, Key=rows[7][0])
            assert (answer["ContentLength"], answer["LastModified"].year) == (7, 2026)
    finally:
        tracemalloc.stop()
    assert list(listed) == [key for key, *_ in rows]
    assert "files/" not in listed


OF_THEIR_OWN = """
CREATE TYPE public.kind AS ENUM ('photo', 'other');
CREATE DOMAIN public.object_name AS text CHECK (value <> '');
CREATE TABLE public.media (
    id int PRIMARY KEY,
    kind public.kind NOT NULL,
    name public.object_name NOT NULL,
    key text GENERATED ALWAYS AS ('files/' || name::text) STORED
) PARTITION BY RANGE (id);
CREATE TABLE public.media_1 PARTITION OF public.media FOR VALUES FROM (0) TO (1000);
CREATE VIEW public.photos AS SELECT key, kind FROM public.media WHERE kind = 'photo';
CREATE TABLE public.letters (
    id int PRIMARY KEY, storage_key text UNIQUE, status text, expires_at timestamptz
);
CREATE TABLE public.documents (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    storage_key text NOT NULL UNIQUE,
    status text NOT NULL,
    expires_at timestamptz NOT NULL
);
INSERT INTO public.documents (storage_key, status, expires_at) VALUES
    ('files/doc-due', 'reserved', now() - interval '1 day'),
    ('files/doc-young', 'reserved', now() + interval '1 day'),
    ('files/doc-done', 'done', now() - interval '1 day');
INSERT INTO file (state, storage_key, deleted_at) VALUES
    ('deleted', 'files/deleted', now() - interval '40 days'),
    ('deleted', 'files/restorable', now() - interval '4 days'),
    ('ready', 'files/ready', NULL);
"""


@pytest.mark.thorough
def test_views_partitions_types_of_ones_own_and_odd_keys_come_and_so_do_the_other_jobs(
    installation: Installation, tmp_path: Path
) -> None:
    installation.execute(OF_THEIR_OWN)
    for number, key in enumerate(ODD[:-1]):
        installation.execute(
            "INSERT INTO public.media (id, kind, name) VALUES (%s, 'photo', %s)",
            (number, key.removeprefix("files/")),
        )
    installation.document["buckets"]["uploads"] |= {
        "sources": [{"name": "photos", "sql": "select key from public.photos"}],
        "min_age": "24h",
    }
    table = {"name": "documents", "table": "public.documents", "key": "storage_key",
             "due": "expires_at", "after": "0s", "where": "status = 'reserved'"}  # fmt: skip
    installation.document["jobs"] = {
        "storage_orphans": {"by_hand": True, "breakers": NEVER_TRIPS.model_dump(exclude_none=True)},
        "upload_reservations": {
            "by_hand": True,
            "tables": [table, table | {"name": "l", "table": "public.letters", "min_rows": 0}],
        },
        "deleted_files": {"by_hand": True, "restore_window": "30d"},
        "multipart_uploads": {"by_hand": True, "idle_for": "48h"},
    }
    named = ("doc-due", "doc-young", "doc-done", "deleted", "restorable", "ready", "orphan")
    listing = tmp_path / "listing.csv"
    with listing.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["key", "size", "last_modified"])
        for key in (*ODD[:-1], *(f"files/{it}" for it in named)):
            rows.writerow([key, 7, "2026-01-01T00:00:00Z"])
    lines: list[str] = []
    options = Options(listing=listing, mutations=False)
    found = rehearse(installation.settings(), options, lines.append)
    assert [it["ok"] for it in found["runs"]] == [True, True], found["runs"]
    assert found["gone"]["sample"] == ["files/orphan"]
    assert found["taken"]["tables"]["public.photos"] == ["key"]
    assert found["taken"]["missing"] == []
    assert any(line.startswith("public.documents: ") for line in lines)
    # Of the own tables, too, which were made with keys and rows.
    assert not any(line.startswith("public.file: 0.0 MB") for line in lines), lines
    documents, files = sorted(found["others"], key=lambda it: it["job"], reverse=True)
    assert [it["ok"] for it in documents["runs"]] == [True, True], documents
    assert documents["rows"] == {"public.documents": 1}
    assert documents["sample"] == ["files/doc-due"]
    assert [it["held"] for it in documents["canaries"]] == [True, True], documents
    assert documents["unplanted"] == [
        "l: no row that may go by its conditions is there to be copied"
    ]
    assert f"no row could be planted for {documents['unplanted'][0]}" in page(found)
    assert [it["ok"] for it in files["runs"]] == [True, True], files
    assert files["sample"] == ["files/deleted"]
    assert [it["held"] for it in files["canaries"]] == [True, True], files
    assert found["not_rehearsed"] == ["multipart_uploads"]
    assert all(it["held"] for it in found["canaries"]), found["canaries"]
    # CONTROL: here nothing of it went.
    assert installation.value("SELECT count(*) FROM public.documents") == 3
