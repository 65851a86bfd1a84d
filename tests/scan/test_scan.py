"""What a scan finds in databases and buckets that real applications have left, and what it leaves.

No settings are read: the careful ones of `tests/applications` say what had to be found.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner, Result

from filejobs_dagster.cli.main import app
from filejobs_dagster.references.elsewhere.search import OVER_BUDGET
from filejobs_dagster.references.transforms import Rewrites, Transforms
from filejobs_dagster.scan import findings, page, scanning
from filejobs_dagster.scan.result import Scan, Source
from filejobs_dagster.settings.rules import RewriteSettings, TransformSettings
from tests.jobs.storage_orphans.recording import recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

APPLICATIONS = Path(__file__).parents[1] / "applications"
ALL = ("django", "directus", "mlflow", "rails", "helpdesk")
"""The last one was made when the search was done, and nothing was tuned by it but one doubt: that
a folder below which rows name files one by one is no reason to keep the others."""

SOURCES = {
    "django": {
        "public.shop_product.photo",
        "public.shop_product.banner",
        "public.shop_product.manual",
        "public.shop_invoice.pdf",
        "public.shop_gallery.files",
        "public.shop_gallery.body",
        "public.easy_thumbnails_thumbnail.name",
        "public.thumbnail_kvstore.value",
        "public.wagtailimages_image.file",
        "public.wagtailimages_rendition.file",
        "public.wagtaildocs_document.file",
    },
    "directus": {"public.directus_files.filename_disk"},
    "mlflow": {
        "public.runs.artifact_uri",
        "public.logged_models.artifact_location",
        "public.trace_tags.value",
    },
    "rails": {"public.active_storage_blobs.key"},
    "helpdesk": {
        "public.helpdesk_followupattachment.file",
        "public.helpdesk_kbiattachment.file",
        "public.filer_file.file",
        "public.easy_thumbnails_thumbnail.name",
        "public.forum_forum.image",
        "public.forum_attachments_attachment.file",
        "public.forum_member_forumprofile.avatar",
        "public.forum_conversation_post.content",
    },
}
"""The columns that careful settings read; of Django's avatars there is no row."""

DERIVED = {"django": 0, "directus": 36, "mlflow": 0, "rails": 8, "helpdesk": 0}

UNREFERENCED = {"django": 9, "directus": 2, "mlflow": 4, "rails": 6, "helpdesk": 4}
"""Of the dead, those of which not even a history or a cache says a word."""


@dataclass
class World:
    """A database and a bucket.

    Attributes:
        url: Of the database.
        bucket: Its name.
        client: Of the bucket's server.
        s3: The server.
    """

    url: str
    bucket: str
    client: S3Client
    s3: EmbeddedS3

    def put(self, *keys: str) -> None:
        for key in keys:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=b"x" * 10)

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def options(self, **said: Any) -> scanning.Options:
        return scanning.Options(
            **{
                "database_url": self.url,
                "bucket": self.bucket,
                "endpoint_url": self.s3.endpoint_url,
                **said,
            }
        )

    def scan(self, **said: Any) -> Scan:
        return scanning.scan(self.options(**said))

    def call(self, *arguments: str, **said: Any) -> Result:
        command = ["scan", "--bucket", self.bucket, "--endpoint-url", self.s3.endpoint_url]
        return CliRunner().invoke(
            app, [*command, *arguments], env={"FILEJOBS_DATABASE_URL": self.url}, **said
        )


@contextmanager
def world(postgres: EmbeddedPostgres, client: S3Client, s3: EmbeddedS3) -> Iterator[World]:
    name = f"scan-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name)
    url = postgres.create_database(name)
    yield World(url, name, client, s3)
    postgres.drop_database(name)


@pytest.fixture(autouse=True)
def _all_of_the_sample(monkeypatch: pytest.MonkeyPatch, s3_server: EmbeddedS3) -> None:
    monkeypatch.setattr(findings, "MOST_SHOWN", 1000)
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def empty(
    postgres_server: EmbeddedPostgres, s3_client: S3Client, s3_server: EmbeddedS3
) -> Iterator[World]:
    with world(postgres_server, s3_client, s3_server) as made:
        yield made


@pytest.fixture(scope="module")
def worlds(
    postgres_server: EmbeddedPostgres, s3_client: S3Client, s3_server: EmbeddedS3
) -> Iterator[Callable[[str], World]]:
    """The applications, each made once: a scan changes none."""
    made: dict[str, World] = {}
    entered = []

    def of(name: str) -> World:
        if name not in made:
            context = world(postgres_server, s3_client, s3_server)
            entered.append(context)
            made[name] = context.__enter__()
            text = (APPLICATIONS / name / "database.sql").read_text()
            made[name].run(text.replace(f"{name}-app", made[name].bucket))
            made[name].put(*(it["key"] for it in read(name, "listing")))
        return made[name]

    yield of
    for context in entered:
        context.__exit__(None, None, None)


def read(name: str, what: str) -> Any:
    return json.loads((APPLICATIONS / name / f"{what}.json").read_text())


def dead(name: str) -> set[str]:
    said = read(name, "expected")
    return {
        key
        for by, classes in said.items()
        if by != "live"
        for keys in classes.values()
        for key in keys
    }


@pytest.mark.parametrize("name", ALL)
def test_every_source_of_an_application_is_found_and_nothing_that_lives_is_called_unreferenced(
    worlds: Callable[[str], World], name: str
) -> None:
    found = worlds(name).scan()
    assert {it.column for it in found.sources if not it.redundant} >= SOURCES[name]
    assert found.total.derived.objects == DERIVED[name]
    assert set(found.unreferenced_sample) <= dead(name)
    assert found.total.unreferenced.objects == UNREFERENCED[name]
    assert found.total.all.objects == len(read(name, "listing"))
    assert found.stopped is None


def test_control_without_reasons_to_be_unsure_what_lives_is_called_unreferenced(
    worlds: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning._Scanner, "_set_apart", lambda _self: None)
    found = worlds("django").scan()
    assert {"backups/db.dump", "static/app.css"} <= set(found.unreferenced_sample)
    assert {"backups/db.dump", "static/app.css"} <= set(read("django", "expected")["live"])


@pytest.mark.parametrize("name", ALL)
def test_the_lines_for_the_settings_name_what_the_scan_says_they_name(
    worlds: Callable[[str], World], name: str
) -> None:
    made = worlds(name)
    listed = [it["key"].encode() for it in read(name, "listing")]
    checked: set[str] = set()
    for source in made.scan().sources:
        if source.sql is None:
            continue
        keys = returned(made, source)
        if source.names == "keys":
            named = keys & set(listed)
        else:
            rules = Rewrites([RewriteSettings.model_validate(it) for it in source.rewrites])
            named = {key for key in listed if keys.intersection(rules.owners(key))}
        assert len(named) >= source.objects.objects, source
        checked.add(source.column)
    assert checked >= SOURCES[name]


def returned(made: World, source: Source) -> set[bytes]:
    """The keys, or the owners, that the query and the transforms give."""
    steps = Transforms.of([TransformSettings.model_validate(it) for it in source.transforms])
    with psycopg.connect(made.url) as connection:
        rows = connection.execute(str(source.sql).encode()).fetchall()
    return {steps.apply(value.encode()) for (value,) in rows if value}


TRAPS = """
CREATE TABLE avatar (id uuid, label text);
CREATE TABLE upload (digest bytea, tags text[], meta jsonb, address text, note text);
CREATE DOMAIN place AS varchar(200);
CREATE TABLE part (place place, n int) PARTITION BY RANGE (n);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (5);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (5) TO (50);
CREATE TABLE decoy (n text, word text);
"""


def test_names_are_found_in_all_that_a_database_may_make_of_them(empty: World) -> None:
    empty.run(TRAPS)
    ids = [uuid.UUID(int=(7919 * n) << 64 | n) for n in range(1, 9)]
    digests = [hashlib.sha256(bytes([n])).hexdigest() for n in range(8)]
    keys = {
        "public.avatar.id": [f"avatars/u-{it}-large.png" for it in ids],
        "public.upload.digest": [f"blobs/{it}" for it in digests],
        "public.upload.tags": [f"tags/list {n}.txt" for n in range(8)],
        "public.upload.meta": [f"json/docs/{n}-ærø.pdf" for n in range(8)],
        "public.upload.address": [f"web/photo no {n}.jpg" for n in range(8)],
        "public.part.place": [f"parts/{n}/scan.tiff" for n in range(8)],
    }
    for listed in keys.values():
        empty.put(*listed)
    gone = [f"parts/{n}/scan.tiff" for n in range(100, 104)]
    empty.put(*gone)
    with psycopg.connect(empty.url, autocommit=True) as connection:
        for n in range(8):
            connection.execute("INSERT INTO avatar VALUES (%s, 'a picture')", (ids[n],))
            connection.execute(
                "INSERT INTO upload VALUES (%s, %s, %s, %s, %s)",
                (
                    bytes.fromhex(digests[n]),
                    [f"list {n}.txt", "holiday"],
                    json.dumps({"files": [{"src": f"docs/{n}-ærø.pdf", "size": n}]}),
                    f"https://cdn.example.com/web/photo%20no%20{n}.jpg?v={n}",
                    "a word, and another word",
                ),
            )
            connection.execute("INSERT INTO part VALUES (%s, %s)", (f"parts/{n}/scan.tiff", n))
            connection.execute("INSERT INTO decoy VALUES (%s, 'scan')", (f"{n}",))
    found = empty.scan()
    by_column = {it.column: it for it in found.sources}
    assert set(keys) <= set(by_column)
    assert {column: by_column[column].objects.objects for column in keys} == dict.fromkeys(keys, 8)
    assert set(found.unreferenced_sample) == set(gone)
    assert "public.decoy.word" not in by_column
    assert by_column["public.upload.meta"].path == "$.files[*].src"


def test_a_scan_writes_nothing_to_either_side_and_needs_select_alone(
    worlds: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = worlds("rails")
    made.client.create_multipart_upload(Bucket=made.bucket, Key="half.bin")
    role = f"reader_{uuid.uuid4().hex}"
    made.run(
        f"CREATE ROLE {role} LOGIN",
        f"ALTER ROLE {role} SET default_transaction_read_only = on",
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}",
    )
    before = contents(made)
    with recording(made.s3.endpoint_url) as server:
        found = made.scan(database_url=make_conninfo(made.url, user=role), endpoint_url=server.url)
        assert server.writes == []
        assert {method for method, _ in server.asked} == {"GET", "HEAD"}
        # CONTROL: a write would have been seen.
        monkeypatch.setattr(made.s3, "endpoint_url", server.url, raising=False)
        made.s3.client().put_object(Bucket=made.bucket, Key="half.txt", Body=b"")
        assert len(server.writes) == 1
    made.client.delete_object(Bucket=made.bucket, Key="half.txt")
    assert contents(made) == before
    assert found.uploads is not None
    assert found.uploads.uploads == 1
    assert found.total.unreferenced.objects == UNREFERENCED["rails"]
    assert not [it for it in found.unseen if it.what.startswith("public.")]
    with (
        psycopg.connect(make_conninfo(made.url, user=role)) as connection,
        # CONTROL: the role cannot write.
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
    ):
        connection.execute("CREATE TEMPORARY TABLE t ()")
    made.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def contents(made: World) -> Any:
    with psycopg.connect(made.url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return {
            name: connection.execute(
                sql.SQL("SELECT count(*), max(xmin::text) FROM {}").format(sql.Identifier(name))
            ).fetchone()
            for (name,) in tables.fetchall()
        }


def test_what_the_role_may_not_read_is_named_and_keeps_nobody_from_the_rest(empty: World) -> None:
    role = f"reader_{uuid.uuid4().hex}"
    empty.run(
        "CREATE TABLE asset (key text, secret text)",
        "INSERT INTO asset SELECT format('files/a photo %s.jpg', n) FROM generate_series(1, 9) n",
        "CREATE TABLE hidden (key text)",
        "INSERT INTO hidden SELECT format('files/a video %s.mp4', n) FROM generate_series(1, 9) n",
        "CREATE TABLE by_row (key text)",
        "INSERT INTO by_row SELECT format('files/a song %s.mp3', n) FROM generate_series(1, 9) n",
        "ALTER TABLE by_row ENABLE ROW LEVEL SECURITY",
        f"CREATE ROLE {role} LOGIN",
        f"GRANT SELECT (key) ON asset TO {role}",
        f"GRANT SELECT ON by_row TO {role}",
    )
    empty.put(*(f"files/a photo {n}.jpg" for n in range(1, 12)))
    found = empty.scan(database_url=make_conninfo(empty.url, user=role))
    said = {it.what: it.why for it in found.unseen}
    assert "no right" in said["public.hidden.key"]
    assert "no right" in said["public.asset.secret"]
    assert "row security" in said["public.by_row.key"]
    assert found.total.referenced.objects == 9
    assert found.total.unreferenced.objects == 2
    empty.run(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


PHASES = ("listing the bucket", "sampling table", "reading", "comparing", "looking for")


@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupted_scan_reports_what_it_knows_and_calls_nothing_unreferenced(
    worlds: Callable[[str], World], phase: str
) -> None:
    def interrupt(line: str) -> None:
        if line.startswith(phase):
            raise KeyboardInterrupt

    made = worlds("rails")
    found = scanning.scan(made.options(), interrupt)
    assert found.stopped is not None
    assert phase in found.stopped
    assert found.total.unreferenced.objects == 0
    assert page.headline(found).endswith(f"NOT TO THE END: {found.stopped}")
    if phase == "looking for":
        assert found.total.referenced.objects == made.scan().total.referenced.objects


def test_control_an_interrupted_scan_would_call_what_lives_unreferenced(
    worlds: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = scanning._Scanner._class_of
    monkeypatch.setattr(
        scanning._Scanner, "_class_of", lambda self, **_said: honest(self, is_partial=False)
    )

    def interrupt(line: str) -> None:
        if line.startswith("sampling table"):
            raise KeyboardInterrupt

    found = scanning.scan(worlds("rails").options(), interrupt)
    assert set(found.unreferenced_sample) & set(read("rails", "expected")["live"])


def test_a_source_that_was_not_read_to_its_end_makes_what_it_may_name_unsure(
    worlds: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanning, "read_in_parts", lambda *_said, **_options: OVER_BUDGET)
    found = worlds("rails").scan()
    assert found.total.unreferenced.objects == 0
    assert {it.what: it.why for it in found.unseen}["public.active_storage_blobs.*"] == (
        OVER_BUDGET
    )


def test_the_command_prints_a_document_that_can_be_read_back_and_a_table_for_people(
    worlds: Callable[[str], World], tmp_path: Path
) -> None:
    made = worlds("rails")
    document = made.call("--json")
    assert document.exit_code == 0, document.output
    found = Scan.model_validate_json(document.stdout)
    assert {it.column for it in found.sources} == {"public.active_storage_blobs.key"}
    table = made.call("--html", str(tmp_path / "report.html"))
    assert "public.active_storage_blobs.key" in table.stdout
    assert "Not looked at" in table.stdout
    written = (tmp_path / "report.html").read_text()
    assert f"What is in {made.bucket}" in written
    for loaded in ("<script", "<link", "<img", "src=", "@import", "url(http"):
        assert loaded not in written


def test_the_page_shows_names_as_they_are_and_runs_nothing_of_them(empty: World) -> None:
    wild = "<script>alert(1)</script>/$x$_{a}.bin"
    empty.put(wild, "plain/é &amp; ü.txt")
    drawn = page.page(empty.scan())
    assert "<script" not in drawn
    assert "&lt;script&gt;alert(1)&lt;/script&gt;/$x$_{a}.bin" in drawn


def test_without_matplotlib_only_the_page_is_refused(
    empty: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(page, "find_spec", lambda _name: None)
    refused = empty.call("--html", str(tmp_path / "report.html"))
    assert refused.exit_code == 1
    assert "pip install 'filejobs_dagster[scan]'" in refused.stderr
    assert empty.call().exit_code == 0


def test_an_interrupted_command_prints_its_report_and_ends_with_130(
    worlds: Callable[[str], World], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_self: object, _connection: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scanning._Scanner, "_learn", interrupted)
    stopped = worlds("rails").call()
    assert stopped.exit_code == 130
    assert "NOT TO THE END" in stopped.stdout
    assert "interrupted" in stopped.stderr


def test_a_sample_finds_the_columns_without_listing_all(
    empty: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty.run(
        "CREATE TABLE asset (key text)",
        "INSERT INTO asset SELECT format('files/a photo %s.jpg', n) FROM generate_series(1, 60) n",
    )
    empty.put(*(f"files/a photo {n}.jpg" for n in range(1, 61)))
    found = empty.scan(sample=1000)
    assert found.sampled
    assert [it.column for it in found.sources] == ["public.asset.key"]
    # Of rows whose object lies outside of the sample nobody knows.
    assert found.sources[0].missing is None


def test_a_bucket_that_cannot_be_reached_is_said_without_a_secret(empty: World) -> None:
    secret = make_conninfo(empty.url, password="open-sesame")
    refused = CliRunner().invoke(
        app,
        ["scan", "--bucket", "no-such-bucket", "--endpoint-url", empty.s3.endpoint_url],
        env={"FILEJOBS_DATABASE_URL": secret},
    )
    assert refused.exit_code == 1
    assert "no-such-bucket" in refused.stderr
    assert "open-sesame" not in refused.output


def test_a_scan_does_without_dagster_and_without_plots() -> None:
    script = (
        "import sys, filejobs_dagster.cli.scan, filejobs_dagster.scan.scanning\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('dagster', 'matplotlib')])"
    )
    said = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert said.stdout == "[]\n"
