"""An application is killed at each step between its row and its object: the row is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.references.check import ReferenceCheck
from tests.uploads.rows import attachments

if TYPE_CHECKING:
    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

APPLICATION = Path(__file__).with_name("application.py")

# After each step: the row's state, whether it knows the multipart upload, what the bucket holds.
STEPS = {
    "begun, not committed": (None, False, "nothing"),
    "begun": ("writing", False, "nothing"),
    "multipart created": ("writing", False, "parts"),
    "multipart recorded": ("writing", True, "parts"),
    "part sent": ("writing", True, "parts"),
    "completed": ("writing", True, "object"),
    "marked, not committed": ("writing", True, "object"),
    "marked": ("stored", True, "object"),
    "published, not committed": ("stored", True, "object"),
    "published": ("ready", True, "object"),
}
# The others differ from their neighbours in what only the application knows.
BY_DEFAULT = {"begun", "multipart created", "completed", "published, not committed"}


def killed_after(step: str, order: str, url: str, bucket: str, server: EmbeddedS3) -> None:
    died = subprocess.run(
        [sys.executable, str(APPLICATION), step, order, url, bucket],
        env={**os.environ, **server.environment(), "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (died.returncode, died.stdout.strip()) == (-signal.SIGKILL, step), died.stderr


@pytest.mark.parametrize(
    "step",
    [
        step if step in BY_DEFAULT else pytest.param(step, marks=pytest.mark.thorough)
        for step in STEPS
    ],
)
def test_killed_after_any_step_what_is_in_the_bucket_has_a_row_that_names_it(
    connection: psycopg.Connection,
    database_url: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    bucket: str,
    step: str,
) -> None:
    killed_after(step, "record first", database_url, bucket, s3_server)

    state, knows, holds = STEPS[step]
    rows = connection.execute("SELECT id, state, storage_key, upload_id FROM upload").fetchall()
    assert [row[1] for row in rows] == ([] if state is None else [state])
    objects = [each["Key"] for each in s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])]
    found = s3_client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    parts = {each["UploadId"]: each["Key"] for each in found}
    assert (len(objects), len(parts)) == (int(holds == "object"), int(holds == "parts"))
    for upload, _, key, upload_id in rows:
        assert objects in ([], [key])
        assert list(parts.values()) in ([], [key])
        assert upload_id == (next(iter(parts), upload_id) if knows else None)
        assert ReferenceCheck(connection).named([key]) == {
            key: ("upload", "attachment") if state == "ready" else ("upload",)
        }
        # Seen only when it was published for good.
        assert attachments(connection) == ([upload] if state == "ready" else [])


def test_control_who_stores_before_the_record_leaves_an_object_that_nobody_knows(
    connection: psycopg.Connection,
    database_url: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    bucket: str,
) -> None:
    killed_after("put", "bytes first", database_url, bucket, s3_server)
    (left,) = s3_client.list_objects_v2(Bucket=bucket)["Contents"]
    assert connection.execute("SELECT FROM upload").fetchall() == []
    assert ReferenceCheck(connection).named([left["Key"]]) == {}
