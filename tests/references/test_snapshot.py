"""What stands in a table that was exchanged while a question waited for it."""

from __future__ import annotations

import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references import bulk, check
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.elsewhere import search
from filejobs_dagster.references.elsewhere.search import Elsewhere
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.streams import Scratch
from tests.installation import make_installation
from tests.references.elsewhere.test_search import bucket_settings
from tests.references.sources import SourceForTests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

KEY = "files/contract-of-2024-signed.pdf"

EXCHANGES = {
    "truncated": f"TRUNCATE poster; INSERT INTO poster VALUES ('{KEY}')",
    "rewritten": "ALTER TABLE poster ALTER path TYPE varchar(99) USING path || ''",
    "made anew": f"CREATE TABLE new AS SELECT '{KEY}' AS path; ALTER TABLE poster RENAME TO old;"
    " ALTER TABLE new RENAME TO poster",
    "renamed": f"INSERT INTO spare VALUES ('{KEY}'); ALTER TABLE poster RENAME TO old;"
    " ALTER TABLE spare RENAME TO poster",
    "with other parts": f"INSERT INTO spare_part VALUES ('{KEY}');"
    " ALTER TABLE parted DETACH PARTITION part;"
    " ALTER TABLE parted ATTACH PARTITION spare_part DEFAULT",
}

TABLES = """
    CREATE TABLE poster (path text); CREATE TABLE spare (path text);
    CREATE TABLE banner (path text); INSERT INTO banner VALUES ('files/banner.jpg');
    CREATE TABLE parted (path text) PARTITION BY LIST (path);
    CREATE TABLE part PARTITION OF parted DEFAULT; CREATE TABLE spare_part (path text)
"""

SOURCES: dict[str, dict[str, Any]] = {
    "may be empty": {"sql": "select path from poster", "min_rows": 0},
    "of two tables": {"sql": "select path from poster union all select path from banner"},
}
PARTED: dict[str, Any] = {"sql": "select path from parted", "min_rows": 0}

CASES = [
    *((exchange, source) for source in SOURCES.values() for exchange in list(EXCHANGES)[:4]),
    ("with other parts", PARTED),
]


@contextmanager
def exchanged(url: str, exchange: str) -> Iterator[None]:
    """The exchange is under way, and it ends as soon as somebody waits for it."""
    over = threading.Event()
    with psycopg.connect(url) as nightly, psycopg.connect(url, autocommit=True) as other:
        nightly.execute(EXCHANGES[exchange])

        def ends() -> None:
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'"
            while not other.execute(waiting).fetchone() and not over.wait(0.01):
                pass
            nightly.commit()

        thread = threading.Thread(target=ends)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as scratch:
        yield scratch


def careless(module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "require_nothing_exchanged", lambda _cursor, _whom: None)


@pytest.fixture
def tables(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute(TABLES)
    for table in ("poster", "parted"):
        connection.execute(f"INSERT INTO {table} VALUES ('{KEY}')")
    return connection


@pytest.mark.parametrize(("exchange", "source"), CASES)
def test_the_gate_does_not_believe_a_source_whose_table_was_exchanged(
    tables: psycopg.Connection,
    database_url: str,
    exchange: str,
    source: dict[str, Any],
) -> None:
    sources = [SourceForTests("posters", **source)]
    with (
        closing(Database(database_url).connect("test")) as connection,
        ReferenceCheck(connection, sources) as references,
    ):
        references.examine()
        with (
            exchanged(database_url, exchange),
            pytest.raises(ReferencesUnknown, match=r"public\.\w+ was truncated, rewritten"),
        ):
            references.named([KEY])
        # What is asked afterwards is answered again, from the table that is there then.
        assert references.named([KEY]).keys() == {KEY}


def test_control_an_object_in_use_is_deleted_by_who_believes_it(
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    careless(check, monkeypatch)
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.execute(TABLES + f"; INSERT INTO poster VALUES ('{KEY}')")
    document = installation.document["buckets"]["uploads"]
    document["sources"] = [{"name": "posters", **SOURCES["of two tables"]}]
    settings = installation.settings().buckets["uploads"]
    installation.client.put_object(Bucket=installation.bucket, Key=KEY, Body=b"in use")
    with (
        closing(installation.database.connect("test")) as connection,
        ReferenceCheck(connection, settings.sources) as references,
    ):
        gate = Gate(make_client(settings), settings, references)
        with exchanged(database_url, "truncated"):
            gate.delete([KEY], lambda: None)
        assert references.named([KEY]).keys() == {KEY}
    assert not installation.has_object(KEY)


@pytest.mark.parametrize(("exchange", "source"), CASES)
def test_all_references_are_not_read_from_a_table_that_was_exchanged(
    tables: psycopg.Connection,
    database_url: str,
    scratch: Scratch,
    exchange: str,
    source: dict[str, Any],
) -> None:
    sources = [SourceForTests("posters", **source)]
    references = BulkReferences(Database(database_url), sources, scratch=scratch)
    with (
        exchanged(database_url, exchange),
        pytest.raises(ReferencesUnknown, match=r"public\.\w+ was truncated, rewritten"),
    ):
        references.read()
    assert references.read().keys


def test_control_who_reads_it_all_the_same_sees_no_key(
    tables: psycopg.Connection,
    database_url: str,
    scratch: Scratch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    careless(bulk, monkeypatch)
    sources = [SourceForTests("posters", **SOURCES["may be empty"])]
    references = BulkReferences(Database(database_url), sources, scratch=scratch)
    with exchanged(database_url, "truncated"):
        assert references.read().keys == 0


def found_while(url: str, happens: Callable[[], object]) -> search.Found:
    """What a search finds when something happens before it reads the first table."""
    once = [happens]

    def on_progress(*_: object) -> None:
        if once:
            once.pop()()

    one = Elsewhere(Database(url), bucket_settings(), on_progress=on_progress)
    one.search([KEY.encode()])
    return one.found


def exchange_now(url: str, exchange: str) -> None:
    with psycopg.connect(url) as other:
        other.execute(EXCHANGES[exchange])


@pytest.mark.parametrize("exchange", ["truncated", "rewritten", "made anew", "renamed"])
def test_a_table_that_is_exchanged_while_names_are_searched_is_named_as_not_searched(
    tables: psycopg.Connection, database_url: str, exchange: str
) -> None:
    tables.execute("DROP TABLE parted")
    found = found_while(database_url, lambda: exchange_now(database_url, exchange))
    (unsearched,) = found.unsearched
    assert unsearched.column in {"public.poster.*", "public.banner.*"}
    assert "was truncated, rewritten" in unsearched.why


def test_control_who_trusts_it_finds_no_name_in_it(
    tables: psycopg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.execute("DROP TABLE parted")
    careless(search, monkeypatch)
    found = found_while(database_url, lambda: exchange_now(database_url, "truncated"))
    assert (found.named, found.unsearched) == ({}, ())
