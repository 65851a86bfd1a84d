"""What goes into quarantine is copied, verified, and only then deleted; and it comes back whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.book.outcomes import DeletionStopped
from filejobs_dagster.objects import quarantine
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.quarantine import Copying, copies_below, original_of
from filejobs_dagster.objects.targets import QUARANTINE
from tests.objects.orphans import gate_on, keys_of, markers_in, no_proof_needed, put, seen

if TYPE_CHECKING:
    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.objects.quarantine import Copy

KEPT = DeletionMode("off", quarantine=True)
MEBIBYTE = 2**20
ODD = ("files/📎", "files/a+b", "files/a b%20c", "files/né", "files/e\u0301", "files/?x=1&y#z")


@pytest.fixture
def gate(client: S3Client, connection: psycopg.Connection, bucket: str) -> Gate:
    return gate_on(client, connection, bucket)


def copies(client: S3Client, bucket: str, prefix: str = "files/") -> dict[str, Copy]:
    return {it.original: it for page in copies_below(client, bucket, prefix) for it in page}


def put_whole(client: S3Client, bucket: str, key: str, body: bytes = b"bytes") -> None:
    """An object with everything that it can say of itself."""
    client.put_object(
        Bucket=bucket,
        Key=key,
        Body=body,
        ContentType="image/png",
        CacheControl="max-age=5",
        ContentDisposition='attachment; filename="a.png"',
        ContentLanguage="de",
        Metadata={"owner": "ada", "note": "two words"},
        Tagging="team=red&of=files",
    )


def test_what_goes_lies_in_quarantine_and_comes_back_as_it_was(
    client: S3Client, bucket: str, gate: Gate
) -> None:
    put_whole(client, bucket, "files/a")
    before: dict[str, Any] = dict(client.head_object(Bucket=bucket, Key="files/a"))

    done = gate.remove([seen(client, bucket, "files/a")], no_proof_needed, KEPT)

    assert done.quarantined == (b"files/a",)
    assert done.removed() == (b"files/a",)
    assert done.freed == 0
    (copy,) = copies(client, bucket).values()
    assert keys_of(client, bucket) == {copy.key}
    assert [it.word for it in gate.bring_back([copy])] == ["restored"]
    after: dict[str, Any] = dict(client.head_object(Bucket=bucket, Key="files/a"))
    for name in ("ETag", "ContentLength", "ContentType", "CacheControl", "Metadata"):
        assert before[name] == after[name]
    tags = client.get_object_tagging(Bucket=bucket, Key="files/a")["TagSet"]
    assert {(tag["Key"], tag["Value"]) for tag in tags} == {("team", "red"), ("of", "files")}
    assert copy.key in keys_of(client, bucket), "until it expires"


@pytest.mark.parametrize("key", ODD)
def test_a_key_of_any_form_goes_and_comes_back(
    client: S3Client, bucket: str, gate: Gate, key: str
) -> None:
    (orphan,) = put(client, bucket, key)
    assert gate.remove([orphan], no_proof_needed, KEPT).quarantined == (key.encode(),)
    found = copies(client, bucket)
    assert list(found) == [key]
    assert gate.bring_back([found[key]])[0].word == "restored"
    assert key in keys_of(client, bucket)


def test_a_key_without_room_for_the_prefix_is_kept_and_said(
    client: S3Client, bucket: str, gate: Gate
) -> None:
    longest = 1024 - len(QUARANTINE) - 17
    fits, long = ("files/" + "x" * (size - len("files/")) for size in (longest, longest + 1))
    orphans = put(client, bucket, fits, long)
    done = gate.remove(orphans, no_proof_needed, KEPT)
    assert done.quarantined == (fits.encode(),)
    assert done.kept == {long.encode(): quarantine.TOO_LONG}
    assert long in keys_of(client, bucket)


def test_rows_that_are_gone_leave_their_bytes_in_quarantine(
    client: S3Client, bucket: str, gate: Gate
) -> None:
    put(client, bucket, "files/a")
    done = gate.delete(["files/a", "files/never"], no_proof_needed, KEPT)
    assert (done.quarantined, done.already_gone) == (("files/a",), ("files/never",))
    assert list(copies(client, bucket)) == ["files/a"]


def test_what_is_larger_than_one_copy_goes_in_parts(
    client: S3Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_whole(client, bucket, "files/large", b"x" * (11 * MEBIBYTE))
    sent: list[str] = []
    client.meta.events.register("before-call.s3.UploadPartCopy", lambda **_: sent.append("part"))
    small = Copying(client, bucket, largest=MEBIBYTE, part=5 * MEBIBYTE)
    assert small.set_aside([("files/large", seen(client, bucket, "files/large"))]) == {}
    assert len(sent) == 3
    (copy,) = copies(client, bucket).values()
    assert copy.size == 11 * MEBIBYTE
    answer = client.head_object(Bucket=bucket, Key=copy.key)
    assert answer["Metadata"] == {"owner": "ada", "note": "two words"}
    assert answer["ContentDisposition"] == 'attachment; filename="a.png"'
    assert len(client.get_object_tagging(Bucket=bucket, Key=copy.key)["TagSet"]) == 2
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def test_a_copy_that_is_not_the_same_deletes_nothing(
    client: S3Client, bucket: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_whole(client, bucket, "files/a")
    copy_object = client.copy_object

    def worse(**arguments: Any) -> Any:
        return copy_object(**arguments, MetadataDirective="REPLACE", Metadata={"owner": "eve"})

    monkeypatch.setattr(client, "copy_object", worse)
    done = gate.remove([seen(client, bucket, "files/a")], no_proof_needed, KEPT)
    assert "not the same" in done.failed[b"files/a"]
    assert "files/a" in keys_of(client, bucket)


def test_control_without_the_look_at_the_copy_a_bad_one_loses_the_bytes(
    client: S3Client, bucket: str, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orphan,) = put(client, bucket, "files/a")

    def nothing(**arguments: Any) -> None:
        client.put_object(Bucket=bucket, Key=arguments["Key"], Body=b"")

    monkeypatch.setattr(client, "copy_object", nothing)
    kept = gate.remove([orphan], no_proof_needed, KEPT)
    assert "its size is 0" in kept.failed[b"files/a"]
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"bytes"

    monkeypatch.setattr(Copying, "_differing", lambda *_: {})
    assert gate.remove([orphan], no_proof_needed, KEPT).quarantined
    (copy,) = copies(client, bucket).values()
    assert client.get_object(Bucket=bucket, Key=copy.key)["Body"].read() == b""
    assert keys_of(client, bucket) == {copy.key}


def test_control_whoever_deletes_before_the_copy_loses_the_bytes_when_killed(
    client: S3Client, bucket: str
) -> None:
    def killed_before(operation: str, order: list[str]) -> set[str]:
        """Remove in an order of steps, and be killed before the second of them."""
        (orphan,) = put(client, bucket, "files/a")

        def delete() -> None:
            client.delete_object(Bucket=bucket, Key="files/a")

        def copy() -> None:
            assert Copying(client, bucket).set_aside([("files/a", orphan)]) == {}

        steps = {"copy": copy, "delete": delete}
        for step in order[: order.index(operation)]:
            steps[step]()
        return keys_of(client, bucket)

    assert killed_before("copy", ["delete", "copy"]) == set(), "nothing is left of it"
    assert "files/a" in killed_before("delete", ["copy", "delete"])


def test_killed_between_copy_and_deletion_there_is_one_copy_in_the_end(
    client: S3Client, bucket: str, gate: Gate
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    proofs = iter([None])

    def dies_before_the_deletion() -> None:
        next(proofs)

    with pytest.raises(DeletionStopped) as stopped:
        gate.remove([orphan], dies_before_the_deletion, KEPT)
    assert stopped.value.unanswered == (b"files/a",)
    assert len(keys_of(client, bucket)) == 2, "the original and its copy"
    assert gate.remove([orphan], no_proof_needed, KEPT).quarantined
    assert len(keys_of(client, bucket)) == 1


def test_what_is_written_between_copy_and_deletion_stays(
    client: S3Client, bucket: str, gate: Gate
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    proofs = 0

    def somebody_writes() -> None:
        nonlocal proofs
        proofs += 1
        if proofs == 1:
            put(client, bucket, "files/a", body=b"newer")

    done = gate.remove([orphan], somebody_writes, KEPT)
    assert b"files/a" in done.changed
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"newer"


def test_it_never_comes_back_over_what_is_there(client: S3Client, bucket: str, gate: Gate) -> None:
    (orphan,) = put(client, bucket, "files/a")
    gate.remove([orphan], no_proof_needed, KEPT)
    put(client, bucket, "files/a", body=b"newer")
    (copy,) = copies(client, bucket).values()
    assert gate.bring_back([copy])[0].word == "is there"
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"newer"


def test_a_delete_marker_is_the_quarantine_of_a_bucket_with_versions(
    client: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    gate = gate_on(client, connection, versioned_bucket)
    (orphan,) = put(client, versioned_bucket, "files/a")
    deletion_mode = DeletionMode("enabled", purge_versions=True, quarantine=True)
    assert gate.remove([orphan], no_proof_needed, deletion_mode).marked == (b"files/a",)
    client.delete_object(Bucket=versioned_bucket, Key="files/a")
    assert markers_in(client, versioned_bucket) == ["files/a", "files/a"]
    assert not copies(client, versioned_bucket)

    assert gate.uncover("files/a", no_proof_needed).word == "restored"
    assert keys_of(client, versioned_bucket) == {"files/a"}
    assert gate.uncover("files/a", no_proof_needed).word == "is there"
    assert gate.uncover("files/never", no_proof_needed).word == "gone"


def test_an_expired_copy_goes_unless_a_source_names_its_original(
    client: S3Client, bucket: str, gate: Gate, connection: psycopg.Connection
) -> None:
    orphans = put(client, bucket, "files/a", "files/b", "files/thumbnails/b.png")
    gate.remove(orphans, no_proof_needed, KEPT)
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/b')")
    found = copies(client, bucket)
    owners = {"files/thumbnails/b.png": ("files/b",)}
    asked = {it.key: (it, owners.get(it.original, ())) for it in found.values()}
    done = gate.expire(asked, no_proof_needed, DeletionMode("off"))
    assert done.deleted == (found["files/a"].key,)
    assert set(done.kept) == {found["files/b"].key, found["files/thumbnails/b.png"].key}


def test_no_sweep_takes_what_lies_in_quarantine(
    client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    gate = gate_on(client, connection, bucket, owns=(), owns_whole_bucket=True)
    (orphan,) = put(client, bucket, "files/a")
    gate.remove([orphan], no_proof_needed, KEPT)
    (copy,) = copies(client, bucket).values()
    assert gate.owned(copy.key) == "protected"
    assert original_of(copy.key) == "files/a"
    assert original_of(f"{QUARANTINE}files/of-somebody-else") is None


@pytest.mark.parametrize("parts", [False, True])
def test_where_the_condition_is_ignored_it_looks_once_more_right_before_it_comes_back(
    client: S3Client,
    bucket: str,
    gate: Gate,
    monkeypatch: pytest.MonkeyPatch,
    *,
    parts: bool,
) -> None:
    put(client, bucket, "files/a")
    assert gate.remove([seen(client, bucket, "files/a")], no_proof_needed, KEPT).quarantined
    monkeypatch.setattr(Copying, "_obeys_condition", lambda *_: False)
    part_of = Copying._part_of

    def and_somebody_writes(self: Copying, source: str, it: Any) -> int | None:
        put(client, bucket, "files/a", body=b"newer")
        return 5 * MEBIBYTE if parts else part_of(self, source, it)

    monkeypatch.setattr(Copying, "_part_of", and_somebody_writes)
    (end,) = gate.bring_back(list(copies(client, bucket).values()))
    assert end.word == "is there"
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"newer"
    assert not client.list_multipart_uploads(Bucket=bucket).get("Uploads")

    monkeypatch.setattr(Copying, "_require_nothing", lambda *_: None)
    client.delete_object(Bucket=bucket, Key="files/a")
    gate.bring_back(list(copies(client, bucket).values()))
    body = client.get_object(Bucket=bucket, Key="files/a")["Body"].read()
    assert body == b"bytes", "CONTROL: without the second look the newer one is lost"


@pytest.mark.parametrize("largest", [quarantine.LARGEST_COPY, 1])
def test_what_a_key_of_the_key_service_encrypts_stays_so(
    client: S3Client, bucket: str, largest: int
) -> None:
    kms: Any = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "arn:aws:kms:a:1:key/theirs"}
    asked: list[Any] = []
    events: Any = client.meta.events
    # The embedded server says AES256 of everything.
    events.register("after-call.s3.HeadObject", lambda parsed, **_: parsed.update(kms))
    for it in ("CopyObject", "CreateMultipartUpload"):
        events.register(f"provide-client-params.s3.{it}", lambda params, **_: asked.append(params))
    put(client, bucket, "files/a")
    copying = Copying(client, bucket, largest=largest)
    assert copying.set_aside([("files/a", seen(client, bucket, "files/a"))]) == {}
    (copy,) = copies(client, bucket).values()
    client.delete_object(Bucket=bucket, Key="files/a")
    (end,) = copying.bring_back([copy])
    assert end.word == "restored", end.why
    assert [it["Key"] for it in asked if it.items() >= kms.items()] == [copy.key, "files/a"]
