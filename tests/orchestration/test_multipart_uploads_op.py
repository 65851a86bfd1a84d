"""multipart_uploads as Dagster runs it: config, tables, metadata, the marker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    from tests.installation import Installation
    from tests.orchestration.conftest import Code

JOB = "multipart_uploads"


@pytest.fixture(autouse=True)
def configured(installation: Installation) -> None:
    installation.document["jobs"] = {JOB: {"by_hand": True, "idle_for": "48h"}}


def _begin(installation: Installation, key: str, *, part: bool) -> None:
    """An upload that this server dates to 2010; a part of it is dated to now."""
    client, bucket = installation.client, installation.bucket
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    if part:
        client.upload_part(Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=1, Body=b"12345")


def _there(installation: Installation) -> list[str]:
    listed = installation.client.list_multipart_uploads(Bucket=installation.bucket)
    return sorted(upload["Key"] for upload in listed.get("Uploads", []))


def test_a_dry_run_is_shown_with_its_classes_and_the_rule_that_is_missing(
    code: Code, installation: Installation
) -> None:
    _begin(installation, "files/idle", part=False)
    _begin(installation, "files/at-work", part=True)
    result = code.run(JOB)
    assert result.success, failure_of(result)
    shown = metadata_of(result)
    assert (shown["mode"], shown["scanned"], shown["would_collect"]) == ("dry", 2, 1)
    classes = {row.data["class"]: row.data["items"] for row in shown["classes"].records}
    assert classes == {"would abort": 1, "still active": 1}
    assert json.loads(shown["backstop_rule"])["Rules"]
    assert len(_there(installation)) == 2
    assert installation.value("SELECT count(*) FROM job_progress WHERE mode = 'dry'") == 1


def test_a_live_run_needs_the_marker_and_then_aborts(
    code: Code, installation: Installation
) -> None:
    _begin(installation, "files/idle", part=False)
    _begin(installation, "files/at-work", part=True)
    code.adopted = False
    refused = code.run(JOB, dry_run=False)
    assert not refused.success
    assert "filejobs bucket adopt" in failure_of(refused)

    installation.adopt()
    result = code.run(JOB, dry_run=False)
    assert result.success, failure_of(result)
    assert metadata_of(result)["acted"] == 1
    assert _there(installation) == ["files/at-work"]


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"idle_for": "23h"}, "idle_for is 23h; it can be 1d to"),
        ({"ask_again_for": "366d"}, "ask_again_for is 366d"),
        ({"limit": 0}, "limit is 0"),
        ({"batch_size": 1001}, "batch_size is 1,001"),
        ({"max_runtime": "0s"}, "max_runtime is 0s"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(
    code: Code, config: dict[str, Any], found: str
) -> None:
    result = code.run(JOB, **config)
    assert not result.success
    assert found in failure_of(result)


@pytest.mark.parametrize(
    ("config", "mode"),
    [({}, "dry"), ({"dry_run": True}, "dry"), ({"dry_run": False}, "dry")],
    ids=["nothing said", "dry_run", "allow_live: false"],
)
def test_no_dry_run_aborts_or_writes_whatever_made_it_dry(
    code: Code, installation: Installation, config: dict[str, Any], mode: str
) -> None:
    installation.adopt()
    marker = installation.client.get_object(
        Bucket=installation.bucket, Key="filejobs-adopted/test.json"
    )["ETag"]
    events = installation.value("SELECT count(*) FROM audit_event")
    installation.document["allow_live"] = config.get("dry_run") is not False
    _begin(installation, "files/idle", part=False)

    result = code.run(JOB, tags=None if config else {"filejobs/mode": "dry"}, **config)

    assert result.success, failure_of(result)
    assert metadata_of(result)["mode"] == mode
    assert _there(installation) == ["files/idle"]
    head = installation.client.head_object(
        Bucket=installation.bucket, Key="filejobs-adopted/test.json"
    )
    assert head["ETag"] == marker
    assert installation.value("SELECT count(*) FROM audit_event") == events
