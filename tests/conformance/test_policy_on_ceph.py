"""`filejobs bucket policy`: jobs run with what it prints, and not with one right less."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import botocore.client
import psycopg
import pytest
from botocore.exceptions import ClientError

from filejobs_dagster.objects.targets import MARKERS, QUARANTINE
from filejobs_dagster.registry import BY_NAME, JOB_NAMES
from tests.conformance.ceph import GUEST, OWNER, Ceph
from tests.conformance.gateway import client_of, listed, put
from tests.every_job import SHOP, EveryJob, call, live
from tests.installation import Installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

pytestmark = [pytest.mark.conformance, pytest.mark.thorough, pytest.mark.timeout(280)]

ME = f"arn:aws:iam:::user/{GUEST.name}"
JOBS = ("upload_reservations", "storage_orphans", "multipart_uploads")
BYTES = tuple(job for job in JOB_NAMES if BY_NAME[job].deletes_bytes)
CHAIN = tuple(job for job in JOB_NAMES if job.startswith("audit_"))

ADOPT = ("bucket", "adopt")
WAYS = (
    ADOPT,
    *map(live, BYTES),
    # What the first pass has seen goes with the second, and what that kept with the third.
    *[live("storage_orphans")] * 2,
    ("doctor",),
    ("doctor", "--probe"),
    ("restore", "--since", "2020-01-01"),
    *map(live, ("audit_seal", "audit_trim", "audit_verify")),
)

BUCKETS: dict[str, tuple[str | None, dict[str, Any]]] = {
    "no versions": (None, {"quarantine": {"keep": "1s"}}),
    "no versions, at once": (None, {"delete": "at_once"}),
    "versions": ("Enabled", {"quarantine": {"keep": "1s"}}),
    "versions, purged": ("Enabled", {"delete": "at_once", "purge_versions": True}),
    "suspended": ("Suspended", {"quarantine": {"keep": "1s"}}),
    "suspended, at once": ("Suspended", {"delete": "at_once"}),
}
"""What the server says of versions, and the settings of what goes."""


@dataclass
class Given:
    """All jobs, on a bucket in which a guest has what was printed and nothing else.

    Attributes:
        world: The installation.
        owner: To whom the buckets belong.
        policy: What was printed for the bucket.
        calls: What the commands asked of the server about the bucket.
    """

    world: EveryJob
    owner: S3Client
    policy: dict[str, Any]
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def give(self, policy: dict[str, Any]) -> None:
        self.owner.put_bucket_policy(Bucket=self.world.bucket, Policy=json.dumps(policy))


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


@pytest.fixture(params=BUCKETS)
def given(
    request: pytest.FixtureRequest, tmp_path: Path, database_url: str, owner: S3Client, ceph: Ceph,
    bucket: str, locking_bucket: str, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Given]:  # fmt: skip
    versions, kept = BUCKETS[request.param]
    if versions is not None:
        owner.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    world = EveryJob(tmp_path, database_url, bucket, owner, ceph.endpoint_url)
    world.prepare(monkeypatch, keep=None)
    uploads = world.document["buckets"]["uploads"]
    del uploads["delete"]
    server = ("endpoint_url", "region", "access_key_id", "secret_access_key", "addressing")
    place = {key: json.loads(json.dumps(uploads[key])) for key in server}
    world.document["buckets"]["pins"] = {**place, "bucket": locking_bucket, "owns_nothing": True}
    world.document["audit"]["pins"] = {"bucket": "pins", "prefix": "pins/", "keep_for": "8d"}
    uploads |= kept
    world.document["jobs"] = {job: world.document["jobs"][job] for job in (*BYTES, *CHAIN)}
    world.write()
    monkeypatch.setenv("FILEJOBS_S3_ACCESS_KEY_ID", GUEST.access_key_id)
    monkeypatch.setenv("FILEJOBS_S3_SECRET_ACCESS_KEY", GUEST.secret_access_key)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(SHOP.encode())
    found = Given(world, owner, printed("uploads"))
    found.give(found.policy)
    owner.put_bucket_policy(Bucket=locking_bucket, Policy=json.dumps(printed("pins")))
    with dagster_instance() as world.instance:
        world.fill()
        if versions == "Suspended":
            owner.put_bucket_versioning(
                Bucket=bucket, VersioningConfiguration={"Status": "Suspended"}
            )
            world.fill()
        yield found


def everything_works(given: Given, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command, with what was printed."""
    ask = vars(botocore.client.BaseClient)["_make_api_call"]

    def overheard(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        if arguments.get("Bucket") == given.world.bucket:
            given.calls.append((operation, arguments))
        return ask(client, operation, arguments)

    with monkeypatch.context() as patch:
        patch.setattr(botocore.client.BaseClient, "_make_api_call", overheard)
        for way in WAYS:
            done = call(*way)
            assert done.exit_code == 0, (way, done.output)
            assert "AccessDenied" not in done.output, (way, done.output)


def test_every_job_runs_with_exactly_what_is_printed(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything_works(given, monkeypatch)
    left = [key for key in listed(given.owner, given.world.bucket) if not key.startswith(MARKERS)]
    brand = [key for key in left if key.startswith("files/brand/")]
    assert sorted(left) == sorted(["files/avatar", *brand])


TAKEN_ON_AWS = {
    ("Owned", "s3:GetObjectTagging"): "a copy takes the tags of what it copies",
    ("Owned", "s3:GetObjectRetention"): "asked of a version that is locked",
    ("Owned", "s3:GetObjectLegalHold"): "asked of a version that is locked",
    ("Quarantine", "s3:GetObjectTagging"): "of what comes back",
    ("Owned", "s3:GetObjectVersion"): "the version that was asked for is gone here",
    ("Remove", "s3:DeleteObjectVersion"): "of a row that names a version, and the same",
    ("Quarantine", "s3:DeleteObjectVersion"): "only where versions are suspended",
    ("Probe", "s3:DeleteObjectVersion"): "only where versions are kept",
    ("Quarantine", "s3:AbortMultipartUpload"): "a copy of more than 5 GB that fails half-way",
}
"""What no call can be shown to need here, and why it is printed all the same."""


@pytest.mark.parametrize("given", ["no versions", "versions, purged"], indirect=True)
def test_nothing_that_is_printed_can_be_left_out(
    given: Given, ceph: Ceph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked of the server is asked again, by a user who lacks one right."""
    everything_works(given, monkeypatch)
    guest = client_of(ceph.endpoint_url, GUEST)
    calls = list({_kind(*one): one for one in given.calls}.values())
    named = {key for _, asked in calls for key in _keys(asked)}

    def refused() -> set[int]:
        # What is not there is not found, whoever asks.
        put(given.owner, given.world.bucket, named)
        return {n for n, one in enumerate(calls) if _is_refused(guest, *one)}

    before = refused()
    needless = set()
    for statement in given.policy["Statement"]:
        for action in statement["Action"] if statement["Effect"] == "Allow" else ():
            given.give(less(given.policy, statement["Sid"], action))
            if not refused() - before:
                needless.add((statement["Sid"], action))
    assert needless <= set(TAKEN_ON_AWS), needless - set(TAKEN_ON_AWS)


def _keys(arguments: dict[str, Any]) -> list[str]:
    """The keys that a call names."""
    several = [one["Key"] for one in arguments.get("Delete", {}).get("Objects", [])]
    source = arguments.get("CopySource", {}).get("Key")
    return [*several, *filter(None, (arguments.get("Key"), source))]


def _kind(operation: str, arguments: dict[str, Any]) -> tuple[Any, ...]:
    """Calls of a kind take the same rights."""
    key = next(iter(_keys(arguments)), "")
    return operation, key.split("/")[0], ".probe-" in key, "VersionId" in str(arguments)


def _is_refused(client: S3Client, operation: str, arguments: dict[str, Any]) -> bool:
    try:
        answer = client._make_api_call(operation, arguments)  # type: ignore[attr-defined]
    except ClientError as error:
        return error.response["Error"]["Code"] in ("AccessDenied", "403")
    return any(one["Code"] == "AccessDenied" for one in answer.get("Errors", []))


@pytest.mark.parametrize("given", ["no versions"], indirect=True)
def test_an_action_that_somebody_denies_is_named(given: Given) -> None:
    """A Deny wins over what is printed, as one of an account or an organisation does."""
    assert call(*ADOPT).exit_code == 0
    whole = f"arn:aws:s3:::{given.world.bucket}"
    for action, way in (
        ("s3:ListBucket", live("storage_orphans")),
        ("s3:ListBucketMultipartUploads", live("multipart_uploads")),
        ("s3:AbortMultipartUpload", live("multipart_uploads")),
        ("s3:PutObject", live("upload_reservations")),
        ("s3:DeleteObject", live("deleted_files")),
        ("s3:GetBucketVersioning", ("doctor",)),
    ):
        given.world.fill()
        deny = {"Sid": "Theirs", "Effect": "Deny", "Principal": {"AWS": [ME]},
                "Action": [action], "Resource": [whole, f"{whole}/*"]}  # fmt: skip
        given.give({**given.policy, "Statement": [*given.policy["Statement"], deny]})
        done = call(*way)
        assert done.exit_code == 1, (action, done.output)
        assert action in done.output, (action, done.output)
        given.give(given.policy)
    # CONTROL: without the Deny each of them works.
    assert call(*live("deleted_files")).exit_code == 0


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
