"""What is said about bytes is true in every bucket: each job, each state, each setting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.jobs.bucket_states import State, World, table_lines
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from tests.installation import Installation


@pytest.mark.parametrize(
    ("state", "purge", "keeps"),
    [
        # The embedded server forgets older versions when a bucket with suspended ones is written.
        ("enabled", True, False),
        pytest.param("enabled", False, False, marks=pytest.mark.thorough),
        pytest.param("unversioned", False, False, marks=pytest.mark.thorough),
        pytest.param("enabled", False, True, marks=pytest.mark.thorough),
        pytest.param("unversioned", False, True, marks=pytest.mark.thorough),
    ],
)
def test_every_job_says_what_it_did_to_the_bytes(
    installation: Installation, state: State, purge: bool, keeps: bool
) -> None:
    client = make_client(installation.settings().buckets["uploads"])
    World(installation, client, state, purge, keeps=keeps).check()


def test_the_page_has_the_table_that_the_servers_are_tried_with() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "versions.md").read_text()
    assert "\n".join(table_lines()) in page


@pytest.mark.parametrize("purge", [False, True])
def test_the_version_of_a_row_goes_and_no_older_one_comes_back_to_life(
    installation: Installation, purge: bool
) -> None:
    world = World(
        installation, make_client(installation.settings().buckets["uploads"]), "enabled", purge
    )
    uploads = Uploads(installation)
    upload = uploads.begin()
    for body in (b"the first", b"the second"):
        answer = installation.client.put_object(
            Bucket=installation.bucket, Key=upload.key, Body=body
        )
    uploads.call(
        "mark_stored", upload.id, answer["ETag"].strip('"'), len(body), answer["VersionId"]
    )
    uploads.call("cancel_upload", upload.id)
    outcome = Cleaner(installation, world.client)()
    assert outcome.ok, outcome.error
    assert not installation.has_object(upload.key)
    assert uploads.state(upload) == "cleaned"
    assert world.left_of(upload.key) == ((0, 0) if purge else (1, 1))
    assert outcome.detail["bytes_freed"] == len(body) + (len(b"the first") if purge else 0)


def test_control_deleting_that_version_alone_brings_the_older_one_back(
    installation: Installation,
) -> None:
    client, bucket = installation.client, installation.bucket
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    for body in (b"the first", b"the second"):
        version = client.put_object(Bucket=bucket, Key="files/a", Body=body)["VersionId"]
    client.delete_object(Bucket=bucket, Key="files/a", VersionId=version)
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"the first"
