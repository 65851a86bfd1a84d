"""Each journey of docs/first-hour.md from an empty database to a green standing, as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from psycopg.conninfo import make_conninfo

from tests.docs.pages import DOCS, page
from tests.installation import ACCESS_KEY, SECRET_KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(900)]

ROLES = ("filejobs_owner", "filejobs_collector", "application")
PAGE = (DOCS / "first-hour.md").read_text(encoding="utf-8")

APPLICATION = """
CREATE TABLE public.documents (id serial PRIMARY KEY, status text NOT NULL, storage_key text,
                               expires_at timestamptz);
CREATE INDEX ON public.documents (expires_at, id) WHERE status = 'reserved';
CREATE INDEX ON public.documents (storage_key);
CREATE TABLE public.account (id serial PRIMARY KEY, avatar_key text);
CREATE INDEX ON public.account (avatar_key);
INSERT INTO public.documents (status, storage_key, expires_at)
SELECT CASE WHEN n <= 3 THEN 'reserved' ELSE 'complete' END, 'files/' || n, now() - interval '3 d'
  FROM generate_series(1, 9) AS n;
INSERT INTO public.account (avatar_key) SELECT 'files/' || n FROM generate_series(4, 9) AS n;
"""

RESERVED = """
INSERT INTO filejobs.file (state, storage_key, upload_expires_at)
SELECT CASE WHEN n <= 3 THEN 'pending' ELSE 'ready' END, 'files/' || n, now() - interval '3 d'
  FROM generate_series(1, 9) AS n
"""


class Newcomer:
    """Somebody with a shell, a database and a bucket."""

    def __init__(self, folder: Path, url: str, bucket: str, endpoint_url: str) -> None:
        self.folder, self.url, self.bucket, self.endpoint_url = folder, url, bucket, endpoint_url
        owner, collector, application = (make_conninfo(url, user=role) for role in ROLES)
        self.environment = {
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "FILEJOBS_CONFIG": str(folder / "filejobs.yaml"),
            "FILEJOBS_DATABASE_URL": collector,
            "OWNER_URL": owner,
            "APP_OWNER_URL": application,
            "FILEJOBS_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "FILEJOBS_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }
        self.environment.pop("DAGSTER_HOME", None)

    def sql(self, *texts: str, role: str | None = None) -> list[tuple[Any, ...]]:
        url = self.url if role is None else make_conninfo(self.url, user=role)
        with psycopg.connect(url, autocommit=True) as connection:
            for text in texts:
                cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def type(self, block: str) -> str:
        """Type a block, on the bucket that is there; the first error ends it."""
        where = f"--endpoint-url {self.endpoint_url}"
        text = block.replace("--bucket acme-uploads", f"--bucket {self.bucket} {where}")
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def newcomer(
    tmp_path: Path, empty_database_url: str, bucket: str, s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[Newcomer]:  # fmt: skip
    newcomer = Newcomer(tmp_path, empty_database_url, bucket, s3_server.endpoint_url)
    first = next(block.text for block in page("security.md").blocks if block.language == "sql")
    newcomer.sql(first, "GRANT CREATE ON SCHEMA public TO application")
    yield newcomer
    newcomer.sql(*(f"DROP OWNED BY {role} CASCADE" for role in ROLES))
    newcomer.sql(*(f"DROP ROLE {role}" for role in ROLES))


def invent(newcomer: Newcomer, client: S3Client) -> None:
    """An application with two tables and ten objects."""
    newcomer.sql(APPLICATION, role="application")
    for number in range(1, 11):
        client.put_object(Bucket=newcomer.bucket, Key=f"files/{number}", Body=b"bytes")


def blocks(heading: str) -> list[str]:
    """The commands of one section of the page, in its order."""
    (section,) = [part for part in PAGE.split("\n## ") if part.startswith(heading)]
    return [part.partition("```")[0] for part in section.split("```sh\n")[1:]]


EXPORTS, BEFORE = blocks("Before all of them")


def keys(client: S3Client, bucket: str, prefix: str = "files/") -> set[str]:
    listed = client.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    return {entry["Key"] for entry in listed}


def test_the_page_exports_what_the_journeys_use() -> None:
    assert [line.split("=")[0] for line in EXPORTS.splitlines()] == [
        f"export {name}"
        for name in ("FILEJOBS_CONFIG", "FILEJOBS_DATABASE_URL", "OWNER_URL", "APP_OWNER_URL")
    ]


def test_my_own_tables(newcomer: Newcomer, s3_client: S3Client) -> None:
    invent(newcomer, s3_client)
    (begin,), (_, *rest) = blocks("Journey 1"), blocks("Journey 3")
    for block in (begin, BEFORE, *rest):
        newcomer.type(block)
    assert newcomer.sql("SELECT count(*) FROM documents") == [(6,)]
    assert keys(s3_client, newcomer.bucket) == {f"files/{number}" for number in range(4, 11)}


def test_orphans_only(newcomer: Newcomer, s3_client: S3Client) -> None:
    invent(newcomer, s3_client)
    begin, rest = blocks("Journey 2")
    newcomer.type(begin)
    settings = Path(newcomer.environment["FILEJOBS_CONFIG"]).read_text(encoding="utf-8")
    assert "# public.documents.storage_key: 9 names, 9 objects\n" in settings
    assert "owns:\n    - files/\n" in settings
    assert (
        "6 objects; other sources name all of it\n      # - name: account avatar_key\n" in settings
    )
    for block in (BEFORE, rest):
        newcomer.type(block)
    assert len(keys(s3_client, newcomer.bucket)) == 10


def test_a_new_application(newcomer: Newcomer, s3_client: S3Client) -> None:
    invent(newcomer, s3_client)
    begin, *rest = blocks("Journey 3")
    newcomer.type(begin)
    newcomer.type(BEFORE)
    newcomer.sql(RESERVED, role="application")
    for block in rest:
        newcomer.type(block)
    assert newcomer.sql("SELECT count(*) FROM filejobs.file") == [(6,)]
    assert keys(s3_client, newcomer.bucket) == {f"files/{number}" for number in range(4, 11)}


FILEJOBS_YAML = DOCS.parent / "filejobs.yaml"
SHOP = Path(__file__).parents[1] / "applications" / "django"
SCANNED = (
    "filejobs scan --bucket acme-uploads --json > s.json",
    "filejobs init --from-scan s.json --installation shop",
)


def test_a_shop_that_is_open_already(newcomer: Newcomer, s3_client: S3Client) -> None:
    """What a scan finds, `init` writes and prints is all that has to be typed."""
    there = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[newcomer.bucket].keys
    for it in json.loads((SHOP / "listing.json").read_text(encoding="utf-8")):
        s3_client.put_object(Bucket=newcomer.bucket, Key=it["key"], Body=b"x")
        there[it["key"]].last_modified -= timedelta(hours=it["age_hours"])
    newcomer.sql(
        (SHOP / "database.sql").read_text(encoding="utf-8").replace("django-app", newcomer.bucket)
    )
    # Its tables belong to somebody else than the project's.
    newcomer.environment["APP_OWNER_URL"] = newcomer.url
    live = set(json.loads((SHOP / "expected.json").read_text(encoding="utf-8"))["live"])
    before = keys(s3_client, newcomer.bucket, "")

    collector = newcomer.environment["FILEJOBS_DATABASE_URL"]
    newcomer.environment["FILEJOBS_DATABASE_URL"] = newcomer.url
    printed = newcomer.type("\n".join(SCANNED))
    newcomer.environment["FILEJOBS_DATABASE_URL"] = collector
    assert "thumbnail_kvstore value" in printed, "a cache is doubted, and kept"
    *commands, run = [line for line in printed.splitlines() if line.startswith("  filejobs ")]
    assert run == "  filejobs run storage_orphans"
    newcomer.type("\n".join(commands))

    said = newcomer.type(f"{run} || true")
    assert "orphan_fraction: 11 orphans of 98 owned objects" in said
    override = "filejobs run storage_orphans --override orphan_fraction --why '…'"
    assert override in said
    newcomer.type("filejobs bucket adopt uploads")
    newcomer.type(f"{override}")
    newcomer.type("filejobs status --check")
    marked = newcomer.sql("SELECT convert_from(key, 'UTF8') FROM filejobs.orphan_candidate")
    assert len(marked) == 11
    assert not {key for (key,) in marked} & live
    assert keys(s3_client, newcomer.bucket, "") - before == {"filejobs-adopted/shop.json"}


def test_dagsters_own_word_with_nothing_set_ends_in_a_sentence(tmp_path: Path) -> None:
    job = ("-m", "filejobs_dagster.definitions", "-j", "upload_reservations")
    said = subprocess.run(
        [Path(sys.executable).parent / "dagster", "job", "execute", *job],
        cwd=tmp_path, env={**os.environ, "FILEJOBS_CONFIG": str(FILEJOBS_YAML)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 1
    assert "Nothing was run: database.url" in said.stderr
    assert "type `filejobs demo`" in said.stderr
    assert "Traceback" not in said.stderr
