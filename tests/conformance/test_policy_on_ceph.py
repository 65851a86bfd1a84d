"""`filejobs bucket policy`: jobs run with what it prints, and not with one right less."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from filejobs_dagster.objects.targets import QUARANTINE
from tests.conformance.ceph import GUEST, OWNER, Ceph
from tests.conformance.gateway import client_of, listed, put
from tests.every_job import call
from tests.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

pytestmark = [pytest.mark.conformance, pytest.mark.thorough, pytest.mark.timeout(280)]

ME = f"arn:aws:iam:::user/{GUEST.name}"
JOBS = ("upload_reservations", "storage_orphans", "multipart_uploads")


def printed(*options: str) -> dict[str, Any]:
    said = call("bucket", "policy", "--principal", ME, *options)
    assert said.exit_code == 0, said.output
    policy: dict[str, Any] = json.loads(said.stdout)
    return policy


def less(policy: dict[str, Any], sid: str, action: str) -> dict[str, Any]:
    """The policy without one action of one statement."""
    left = [
        {**one, "Action": [each for each in one["Action"] if one["Sid"] != sid or each != action]}
        for one in policy["Statement"]
    ]
    return {**policy, "Statement": [one for one in left if one["Action"]]}


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, owner: S3Client, ceph: Ceph,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    """Its jobs use the bucket as a user to whom nothing belongs."""
    installation = Installation(tmp_path, database_url, bucket, owner, ceph.endpoint_url)
    installation.document["jobs"] = {job: {"by_hand": True, "mode": "live"} for job in JOBS}
    installation.write()
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FILEJOBS_S3_ACCESS_KEY_ID", GUEST.access_key_id)
    monkeypatch.setenv("FILEJOBS_S3_SECRET_ACCESS_KEY", GUEST.secret_access_key)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return installation


@pytest.fixture
def give(installation: Installation) -> Callable[[dict[str, Any]], None]:
    def give(policy: dict[str, Any]) -> None:
        installation.client.put_bucket_policy(Bucket=installation.bucket, Policy=json.dumps(policy))

    return give


def test_jobs_run_with_what_is_printed_and_each_right_less_is_named(
    installation: Installation, give: Callable[[dict[str, Any]], None], owner: S3Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    policy = printed()
    give(policy)
    with monkeypatch.context() as as_owner:
        as_owner.setenv("FILEJOBS_S3_ACCESS_KEY_ID", OWNER.access_key_id)
        as_owner.setenv("FILEJOBS_S3_SECRET_ACCESS_KEY", OWNER.secret_access_key)
        assert call("bucket", "adopt").exit_code == 0
    # Before a live run of the guest: here whoever wrote the marker last may read it in any case.
    give(less(policy, "Markers", "s3:GetObject"))
    unread = call("run", "upload_reservations", "--live")
    assert unread.exit_code == 1
    assert "s3:GetObject" in unread.stderr

    give(policy)
    probed = call("doctor", "--probe")
    assert probed.exit_code == 0, probed.output
    assert "could not be removed" not in probed.output
    for n, (sid, action, *command) in enumerate(
        (
            ("Look", "s3:ListBucket", "run", "storage_orphans", "--live"),
            ("Look", "s3:GetBucketVersioning", "doctor"),
            ("Look", "s3:ListBucketMultipartUploads", "run", "multipart_uploads", "--live"),
            ("Look", "s3:GetLifecycleConfiguration", "doctor"),
            ("OwnMarker", "s3:PutObject", "run", "multipart_uploads", "--live"),
            ("Remove", "s3:DeleteObject", "run", "upload_reservations", "--live"),
        )
    ):
        key = f"files/{n}"
        installation.reserve(key)
        give(less(policy, sid, action))
        lacks = call(*command)
        assert action in lacks.output
        assert command == ["doctor"] or lacks.exit_code == 1, action
        assert key in listed(owner, installation.bucket)
        give(policy)
    installation.reserve("files/last")
    for job in JOBS:
        ran = call("run", job, "--live")
        assert ran.exit_code == 0, ran.output
    assert "files/last" not in listed(owner, installation.bucket)


def test_what_is_denied_stays_whatever_another_statement_allows(
    installation: Installation, give: Callable[[dict[str, Any]], None], owner: S3Client,
    ceph: Ceph,
) -> None:  # fmt: skip
    keys = ["files/brand/logo", "other/a", "files/orphan", "filejobs-adopted/test.json"]
    put(owner, installation.bucket, keys)
    policy = printed()
    careless = {
        "Effect": "Allow",
        "Principal": {"AWS": [ME]},
        "Action": ["s3:*"],
        "Resource": [f"arn:aws:s3:::{installation.bucket}{rest}" for rest in ("", "/*")],
    }
    guest = client_of(ceph.endpoint_url, GUEST)
    give({**policy, "Statement": [*policy["Statement"], careless]})
    for key in keys:
        if key == "files/orphan":
            continue
        with pytest.raises(ClientError, match="AccessDenied"):
            guest.delete_object(Bucket=installation.bucket, Key=key)
    guest.delete_object(Bucket=installation.bucket, Key="files/orphan")
    assert set(listed(owner, installation.bucket)) == set(keys) - {"files/orphan"}
    # CONTROL: without the two that deny, they go.
    allowing = [one for one in policy["Statement"] if one["Effect"] == "Allow"]
    give({**policy, "Statement": [*allowing, careless]})
    for key in keys:
        guest.delete_object(Bucket=installation.bucket, Key=key)
    assert listed(owner, installation.bucket) == []


def test_a_dry_policy_serves_dry_runs_and_no_live_one(
    installation: Installation, give: Callable[[dict[str, Any]], None], owner: S3Client
) -> None:
    installation.adopt()
    installation.reserve("files/1")
    give(printed("--dry"))
    for job in JOBS:
        ran = call("run", job)
        assert ran.exit_code == 0, ran.output
    assert call("run", "upload_reservations", "--live").exit_code == 1
    assert "files/1" in listed(owner, installation.bucket)


def test_copies_go_into_quarantine_and_come_back_from_it(
    installation: Installation, give: Callable[[dict[str, Any]], None], owner: S3Client,
    ceph: Ceph,
) -> None:  # fmt: skip
    installation.document["buckets"]["uploads"].pop("delete")
    installation.write()
    put(owner, installation.bucket, ["files/orphan"])
    guest = client_of(ceph.endpoint_url, GUEST)
    kept: Any = {"Bucket": installation.bucket, "Key": f"{QUARANTINE}run/files/orphan"}
    source: Any = {"Bucket": installation.bucket, "Key": "files/orphan"}
    policy = printed()
    without = [one for one in policy["Statement"] if one["Sid"] != "Quarantine"]
    assert len(without) == len(policy["Statement"]) - 1
    give({**policy, "Statement": without})
    with pytest.raises(ClientError, match="AccessDenied"):
        guest.copy_object(CopySource=source, **kept)
    give(policy)
    guest.copy_object(CopySource=source, **kept)
    guest.put_object_tagging(Tagging={"TagSet": [{"Key": "run", "Value": "1"}]}, **kept)
    assert guest.get_object(**kept)["Body"].read() == owner.get_object(**source)["Body"].read()
    guest.delete_object(**kept)
    assert listed(owner, installation.bucket) == ["files/orphan"]
