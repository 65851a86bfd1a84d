"""What a HEAD says of an object, of a version and of a lock."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import Absent, look_at_targets
from filejobs_dagster.objects.targets import Target
from tests.objects.scripted import Answer, ScriptedS3

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MARKER = {"x-amz-delete-marker": "true"}


@pytest.mark.parametrize("status", [404, 405])
def test_a_key_behind_a_marker_is_absent_and_a_version_that_is_a_marker_is_there(
    scripted: ScriptedS3, scripted_client: S3Client, status: int
) -> None:
    scripted.script = lambda _request: Answer(status, headers=MARKER)
    key, version = Target("a"), Target("a", "v1")
    seen = look_at_targets(scripted_client, "acme", [key, version])
    assert seen[key] == Absent(delete_marker=True)
    assert isinstance(seen[version], StorageError)


def test_a_version_that_is_not_there_is_absent(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(404)
    target = Target("a", "v1")
    seen = look_at_targets(scripted_client, "acme", [target])
    assert seen == {target: Absent(delete_marker=False)}


def test_a_refusal_of_the_method_is_no_absence(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(405)
    target = Target("a")
    assert isinstance(look_at_targets(scripted_client, "acme", [target])[target], StorageError)


@pytest.mark.parametrize(
    ("days", "hold", "locked"),
    [(1, "OFF", True), (-1, "OFF", False), (-1, "ON", True), (None, "ON", True)],
)
def test_a_retention_that_has_ended_locks_nothing_any_more(
    scripted: ScriptedS3, scripted_client: S3Client, days: int | None, hold: str, locked: bool
) -> None:
    headers = {"ETag": '"e"', "x-amz-object-lock-legal-hold": hold}
    if days is not None:
        until = datetime.now(timezone.utc) + timedelta(days=days)
        headers["x-amz-object-lock-mode"] = "COMPLIANCE"
        headers["x-amz-object-lock-retain-until-date"] = until.isoformat()
    scripted.script = lambda _request: Answer(headers=headers)
    target = Target("a")
    sighting = look_at_targets(scripted_client, "acme", [target])[target]
    assert isinstance(sighting, Present)
    assert (sighting.lock is not None) is locked
    if sighting.lock is not None:
        assert sighting.lock.legal_hold is (hold == "ON")
        assert (sighting.lock.until is not None) is (days == 1)
