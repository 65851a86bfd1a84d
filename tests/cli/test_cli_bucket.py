"""`filejobs bucket` as its user calls it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door import adoption
from filejobs_dagster.door.guard import MarkerNotWritten

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from tests.cli.conftest import Desk

KEY = "filejobs-adopted/desk.json"
SECRET = "secret-of-the-desk"


@pytest.fixture
def desk(desk: Desk, bucket: str, s3_server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """The desk, with a bucket on a real server."""
    monkeypatch.setenv("FILEJOBS_S3_ACCESS_KEY_ID", "key-of-the-desk")
    monkeypatch.setenv("FILEJOBS_S3_SECRET_ACCESS_KEY", SECRET)
    desk.document["environment"] = "staging"
    desk.document["buckets"]["uploads"] |= {
        "bucket": bucket,
        "endpoint_url": s3_server.endpoint_url,
        "access_key_id": {"env": "FILEJOBS_S3_ACCESS_KEY_ID"},
        "secret_access_key": {"env": "FILEJOBS_S3_SECRET_ACCESS_KEY"},
        "addressing": "path",
        "max_attempts": 1,
    }
    desk.write()
    return desk


def test_adopt_says_to_whom_the_bucket_belongs_and_a_second_time_the_same(
    desk: Desk, bucket: str, s3_client: S3Client
) -> None:
    first, second = desk.call("bucket", "adopt", "uploads"), desk.call("bucket", "adopt")
    assert (first.exit_code, second.exit_code) == (0, 0), first.output
    assert first.stdout.startswith(second.stdout)
    assert "One that lies elsewhere is not seen" in first.stdout
    assert f"The bucket {bucket} belongs to desk, environment staging, database " in first.stdout
    assert "begin with a dry one" in first.stdout
    assert "counter 1." in first.stdout
    assert json.loads(s3_client.get_object(Bucket=bucket, Key=KEY)["Body"].read())["counter"] == 1


def test_a_database_of_your_own_that_went_back_is_refused_until_again_says_why(
    desk: Desk, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEJOBS_APP_DATABASE_URL", empty_database_url)
    desk.document["buckets"]["uploads"]["sources"] = [
        {
            "name": "documents",
            "sql": "select 'x'",
            "database": {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}},
        }
    ]
    desk.write()
    assert "FILEJOBS_APP_DATABASE_URL leads to timeline 1." in desk.call("bucket", "adopt").stdout
    desk.connection.execute("UPDATE watched_database SET timeline = 2")
    refused = desk.call("bucket", "adopt")
    assert refused.exit_code == 1
    assert "this is the old primary" in refused.output
    again = desk.call("bucket", "adopt", "--again", "--reason", "the new one is gone")
    assert again.exit_code == 0
    assert "FILEJOBS_APP_DATABASE_URL leads to timeline 1, taken over." in again.stdout
    assert desk.call("bucket", "adopt").exit_code == 0


def test_an_adoption_that_failed_half_way_says_so_and_is_repeated(
    desk: Desk, bucket: str, s3_client: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise MarkerNotWritten("The marker could not be written: AccessDenied.")

    with monkeypatch.context() as patch:
        patch.setattr(adoption, "write_new_marker", refused)
        half = desk.call("bucket", "adopt")
    assert half.exit_code == 1
    assert "AccessDenied" in half.stderr
    assert "the database's half is written, the marker in the bucket is not" in half.stderr
    assert "call `filejobs bucket adopt` again" in half.stderr
    assert "Contents" not in s3_client.list_objects_v2(Bucket=bucket)
    whole = desk.call("bucket", "adopt")
    assert whole.exit_code == 0, whole.output
    assert json.loads(s3_client.get_object(Bucket=bucket, Key=KEY)["Body"].read())["counter"] == 2


def test_inspect_shows_both_sides_and_changes_nothing(
    desk: Desk, bucket: str, s3_client: S3Client
) -> None:
    said = desk.call("bucket", "inspect", "uploads")
    assert said.exit_code == 1
    assert "has no marker" in said.stdout
    assert "Contents" not in s3_client.list_objects_v2(Bucket=bucket)
    desk.call("bucket", "adopt")
    said = desk.call("bucket", "inspect")
    assert said.exit_code == 0
    assert "They belong together." in said.stdout
    lines = [line.split("│")[1:-1] for line in said.stdout.splitlines() if line.startswith("│")]
    rows = {cells[0].strip(): [cell.strip() for cell in cells[1:]] for cells in lines}
    assert rows["installation"] == ["desk", "desk", "desk"]
    assert rows["environment"] == ["staging", "staging", "staging"]
    assert rows["counter"] == ["1", "1", "-"]
    assert rows["conditional delete"] == ["-", "not tried yet", "-"]
    assert rows["server"][0] == rows["server"][1]


def test_inspect_prints_json_for_programs(desk: Desk, bucket: str) -> None:
    desk.call("bucket", "adopt")
    said = json.loads(desk.call("bucket", "inspect", "--format", "json").stdout)
    assert (said["bucket"], said["verdict"], said["reason"]) == (bucket, "adopted", None)
    assert said["sides"]["bucket"]["installation"] == "desk"
    assert said["sides"]["database"]["counter"] == 1
    assert said["sides"]["settings"]["environment"] == "staging"


def test_the_bucket_of_somebody_else_is_refused_with_the_name_of_its_owner(
    desk: Desk,
) -> None:
    desk.call("bucket", "adopt")
    desk.connection.execute("DELETE FROM bucket_adoption")
    desk.document["installation"] = "another"
    desk.write()
    for arguments in (["adopt"], ["adopt", "--again", "--reason", "mine now"]):
        said = desk.call("bucket", *arguments)
        assert said.exit_code == 1
        assert "belongs to the installation 'desk'" in said.stderr
        assert "adopted by" in said.stderr
    said = desk.call("bucket", "inspect", "--format", "json")
    assert (said.exit_code, json.loads(said.stdout)["verdict"]) == (1, "refused")


def test_a_restored_database_takes_its_bucket_over_with_a_reason_that_is_recorded(
    desk: Desk,
) -> None:
    desk.call("bucket", "adopt")
    desk.connection.execute("UPDATE bucket_adoption SET counter = 0")
    said = desk.call("bucket", "adopt")
    assert said.exit_code == 1
    assert "restored from a backup" in said.stderr
    said = desk.call("bucket", "adopt", "--again", "--reason", "restored after the fire")
    assert said.exit_code == 0, said.output
    assert "counter 2." in said.stdout
    (body,) = desk.connection.execute(
        "SELECT body FROM audit_event ORDER BY seq DESC LIMIT 1"
    ).fetchone() or ("",)
    assert json.loads(body)["reason"] == "restored after the fire"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["adopt", "--again"], "--reason"),
        (["adopt", "--again", "--reason", "  "], "--reason"),
        (["adopt", "--reason", "why"], "--again only"),
        (["adopt", "archive"], "there is no 'archive'"),
        (["inspect", "archive"], "the settings have: uploads"),
    ],
)
def test_a_call_that_makes_no_sense_exits_with_64(
    desk: Desk, arguments: list[str], complaint: str
) -> None:
    said = desk.call("bucket", *arguments)
    assert said.exit_code == 64
    assert complaint in said.stderr


def test_with_several_buckets_one_must_be_named(desk: Desk) -> None:
    archive = json.loads(json.dumps(desk.document["buckets"]["uploads"]))
    archive["bucket"] = "desk-archive"
    desk.document["buckets"]["archive"] = archive
    desk.document["jobs"]["upload_reservations"]["bucket"] = "uploads"
    desk.write()
    said = desk.call("bucket", "inspect")
    assert said.exit_code == 64, said.output
    assert "uploads, archive" in said.stderr


def test_a_server_that_does_not_answer_is_named_without_its_secret(desk: Desk) -> None:
    desk.document["buckets"]["uploads"]["endpoint_url"] = "http://127.0.0.1:9"
    desk.write()
    said = desk.call("bucket", "adopt")
    assert said.exit_code == 1
    assert "could not be listed" in said.stderr
    assert SECRET not in said.output


def test_a_policy_lets_a_job_remove_the_version_that_a_row_names_and_others_none(
    desk: Desk,
) -> None:
    def allowed(*options: str) -> dict[str, set[str]]:
        said = json.loads(desk.call("bucket", "policy", *options).stdout)
        return {
            one["Sid"]: {action.removeprefix("s3:") for action in one["Action"]}
            for one in said["Statement"]
            if one["Effect"] == "Allow"
        }

    desk.document["buckets"]["uploads"]["delete"] = "at_once"
    desk.configure()
    assert "GetObjectVersion" not in allowed()["Owned"]
    assert allowed()["Remove"] == {"DeleteObject"}

    desk.configure("upload_cleanup")
    assert {"GetObjectVersion", "GetObjectRetention", "GetObjectLegalHold"} <= allowed()["Owned"]
    assert allowed()["Remove"] == {"DeleteObject", "DeleteObjectVersion"}
    dry = allowed("--dry")
    assert "GetObjectVersion" in dry["Owned"]
    assert not {"Remove", "Quarantine"} & set(dry)


def test_a_policy_lets_quarantine_end_where_versions_are_suspended(desk: Desk) -> None:
    desk.document["buckets"]["uploads"]["quarantine"] = {"keep": "30d"}
    desk.configure("storage_orphans")
    said = json.loads(desk.call("bucket", "policy").stdout)
    by_name = {one["Sid"]: one["Action"] for one in said["Statement"]}
    assert {"s3:DeleteObject", "s3:DeleteObjectVersion"} <= set(by_name["Quarantine"])
    assert "s3:DeleteObjectVersion" not in by_name["Remove"]
    assert "s3:ListBucketMultipartUploads" in by_name["Look"]
    assert "s3:PutObject" not in by_name["Owned"], "nothing that is owned is written by itself"

    desk.document["buckets"]["uploads"]["quarantine"]["bring_back"] = True
    desk.configure("storage_orphans")
    (owned,) = [
        one["Action"]
        for one in json.loads(desk.call("bucket", "policy").stdout)["Statement"]
        if one["Sid"] == "Owned"
    ]
    assert {"s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload"} <= set(owned)
    dry = json.loads(desk.call("bucket", "policy", "--dry").stdout)
    assert "s3:PutObject" not in json.dumps(dry)
