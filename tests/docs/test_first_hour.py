"""Each journey of docs/first-hour.md from an empty database to a green standing, as it is typed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
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

SCAN = {
    "form": 1,
    "bucket": "",
    "prefixes": [
        {"label": "files/", "referenced": {"objects": 6, "bytes": 30}},
        {"label": "logs/", "unreferenced": {"objects": 1, "bytes": 5}},
    ],
    "sources": [
        {
            "name": "account", "column": "public.account.avatar_key", "names": "keys",
            "sql": "select avatar_key from public.account where avatar_key is not null",
            "values": 6, "missing": 0, "objects": {"objects": 6, "bytes": 30},
        },
        {
            "name": "documents", "column": "public.documents.storage_key",
            "sql": "select storage_key from public.documents where storage_key is not null",
            "values": 9, "missing": 0, "objects": {"objects": 9, "bytes": 45},
        },
        {
            "name": "history", "column": "public.history.body", "path": "$", "sql": None,
            "values": 2, "missing": None, "objects": {"objects": 2, "bytes": 10},
            "unsure": "a text in which names stand among others",
        },
    ],
}  # fmt: skip


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
        """Type a block as it stands, but for the bucket and its address; the first error ends it.

        `filejobs scan` is another command's test: what it prints lies there.
        """
        lines = [line for line in block.splitlines() if not line.startswith("filejobs scan ")]
        where = f"--endpoint-url {self.endpoint_url}"
        text = "\n".join(lines).replace("--bucket acme-uploads", f"--bucket {self.bucket} {where}")
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
    newcomer.sql(APPLICATION, role="application")
    for number in range(1, 11):
        s3_client.put_object(Bucket=bucket, Key=f"files/{number}", Body=b"bytes")
    scan = {**SCAN, "bucket": bucket, "endpoint_url": s3_server.endpoint_url}
    (tmp_path / "scan.json").write_text(json.dumps(scan), encoding="utf-8")
    yield newcomer
    newcomer.sql(*(f"DROP OWNED BY {role} CASCADE" for role in ROLES))
    newcomer.sql(*(f"DROP ROLE {role}" for role in ROLES))


def blocks(heading: str) -> list[str]:
    """The commands of one section of the page, in its order."""
    (section,) = [part for part in PAGE.split("\n## ") if part.startswith(heading)]
    return [part.partition("```")[0] for part in section.split("```sh\n")[1:]]


EXPORTS, BEFORE = blocks("Before all of them")


def keys(client: S3Client, bucket: str) -> set[str]:
    listed = client.list_objects_v2(Bucket=bucket, Prefix="files/").get("Contents", [])
    return {entry["Key"] for entry in listed}


def test_the_page_exports_what_the_journeys_use() -> None:
    assert [line.split("=")[0] for line in EXPORTS.splitlines()] == [
        f"export {name}"
        for name in ("FILEJOBS_CONFIG", "FILEJOBS_DATABASE_URL", "OWNER_URL", "APP_OWNER_URL")
    ]


def test_my_own_tables(newcomer: Newcomer, s3_client: S3Client) -> None:
    (begin,), (_, *rest) = blocks("Journey 1"), blocks("Journey 3")
    for block in (begin, BEFORE, *rest):
        newcomer.type(block)
    assert newcomer.sql("SELECT count(*) FROM documents") == [(6,)]
    assert keys(s3_client, newcomer.bucket) == {f"files/{number}" for number in range(4, 11)}


def test_orphans_only(newcomer: Newcomer, s3_client: S3Client) -> None:
    begin, rest = blocks("Journey 2")
    newcomer.type(begin)
    settings = Path(newcomer.environment["FILEJOBS_CONFIG"]).read_text(encoding="utf-8")
    assert "# public.account.avatar_key: 6 names, 6 objects\n" in settings
    assert "owns:\n    - files/\n" in settings
    assert "      # - name: history\n" in settings
    for block in (BEFORE, rest):
        newcomer.type(block)
    assert len(keys(s3_client, newcomer.bucket)) == 10


def test_a_new_application(newcomer: Newcomer, s3_client: S3Client) -> None:
    begin, *rest = blocks("Journey 3")
    newcomer.type(begin)
    newcomer.type(BEFORE)
    newcomer.sql(RESERVED, role="application")
    for block in rest:
        newcomer.type(block)
    assert newcomer.sql("SELECT count(*) FROM filejobs.file") == [(6,)]
    assert keys(s3_client, newcomer.bucket) == {f"files/{number}" for number in range(4, 11)}
