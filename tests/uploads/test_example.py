"""The example of an application is an application that works."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.uploads import Uploads
from tests.docs.pages import EXAMPLES, page
from tests.uploads.rows import attachments, column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from mypy_boto3_s3 import S3Client


@pytest.fixture
def attach() -> Callable[..., UUID | None]:
    function: Callable[..., UUID | None] = runpy.run_path(str(EXAMPLES / "attach.py"))["attach"]
    return function


@pytest.fixture
def client(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as client:
        yield client


def the_upload(connection: psycopg.Connection) -> Any:
    row = connection.execute("SELECT id FROM upload").fetchone()
    assert row is not None
    return row[0]


def test_the_example_stores_and_publishes(
    attach: Callable[..., UUID | None],
    connection: psycopg.Connection,
    client: psycopg.Connection,
    s3_client: S3Client,
    bucket: str,
) -> None:
    assert attach(client, s3_client, bucket, [b"a" * 5_242_880, b"b"], "message 1") is not None
    upload = the_upload(connection)
    assert attachments(connection) == [upload]
    key = column(connection, upload, "storage_key")
    assert s3_client.head_object(Bucket=bucket, Key=key)["ContentLength"] == 5_242_881
    assert column(connection, upload, "size_bytes") == 5_242_881
    assert column(connection, upload, "upload_id IS NOT NULL") is True


def test_the_example_stops_when_it_is_cancelled_and_leaves_what_the_collector_needs(
    attach: Callable[..., UUID | None],
    connection: psycopg.Connection,
    client: psycopg.Connection,
    s3_client: S3Client,
    bucket: str,
) -> None:
    class Parts(list[bytes]):
        def __iter__(self) -> Iterator[bytes]:
            yield b"a" * 5_242_880
            yield b"b"
            raise AssertionError("it went on")

    class Storage:
        def __getattr__(self, name: str) -> Any:
            if name == "upload_part":
                assert Uploads(connection).cancel(the_upload(connection)) == "writing"
            return getattr(s3_client, name)

    assert attach(client, Storage(), bucket, Parts(), "message 1") is None
    upload = the_upload(connection)
    assert column(connection, upload, "state") == "uncertain"
    assert column(connection, upload, "cancel_requested_at IS NOT NULL") is True
    (left,) = s3_client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert left["UploadId"] == column(connection, upload, "upload_id")
    assert attachments(connection) == []


def test_the_example_does_not_guess_when_the_storage_fails(
    attach: Callable[..., UUID | None],
    connection: psycopg.Connection,
    client: psycopg.Connection,
    s3_client: S3Client,
) -> None:
    assert attach(client, s3_client, "no-such-bucket", [b"a"], "message 1") is None
    upload = the_upload(connection)
    assert (
        column(connection, upload, "(state, uncertain_reason)::text") == "(uncertain,NoSuchBucket)"
    )


def test_the_sql_of_the_page_is_an_upload_from_its_beginning_to_its_cleanup(
    connection: psycopg.Connection,
) -> None:
    whole, seen, removed = [
        block.text
        for block in page("integrating.md").blocks
        if block.language == "sql" and "message 17" in block.text
    ]
    cursor = connection.execute(whole.encode())
    while cursor.nextset():
        pass
    assert cursor.fetchone() != (None,)
    upload = the_upload(connection)
    assert connection.execute(seen.encode()).fetchall() == [
        (column(connection, upload, "storage_key"),)
    ]
    assert column(connection, upload, "(state, etag)::text") == (
        "(ready,5d41402abc4b2a76b9719d911017c592)"
    )
    assert connection.execute(removed.encode()).fetchall() == [(True,)]
    assert column(connection, upload, "state") == "cleanup"
