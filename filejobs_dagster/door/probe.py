"""Finds out what a server can do, by trying it on an object of our own beside the marker.

Several servers ignore the condition of a deletion, some refuse to delete many objects at once, and
for some two keys are one object. None of them says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.book.outcomes import Fate, StorageRejected
from filejobs_dagster.objects.errors import StorageError, described
from filejobs_dagster.objects.etags import agreement, strong
from filejobs_dagster.objects.heads import Absent, Present, look_at_targets
from filejobs_dagster.objects.manner import Abilities
from filejobs_dagster.objects.sending import Deleting, refuses_many
from filejobs_dagster.objects.targets import Target, Verdict
from filejobs_dagster.objects.versions import versions_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.etags import Agreement
    from filejobs_dagster.objects.heads import CloseSighting
    from filejobs_dagster.objects.manner import ConditionalDelete

BODY = b"filejobs tries what this server can do\n"
ANOTHER_ETAG = "00000000000000000000000000000000"

PREFIX = ".probe-"
"""What follows the marker's key in every key of a probe: the gate protects them, and rights name
them by it."""


class ProbeFailed(Exception):
    """The probe could not be made; what the server can do is not known."""


@dataclass(frozen=True)
class Probe:
    """What was found.

    Attributes:
        abilities: Of the server.
        server: How it calls itself; empty when it does not.
        leftover: The probe's own key, when it could not be removed again.
    """

    abilities: Abilities
    server: str
    leftover: str | None = None


def probe(client: S3Client, bucket: str, beside: str) -> Probe:
    """Write a tiny object, look at it in several ways, and delete it in several ways.

    Its key is always the same, and what an earlier probe has left is removed before: so there is
    never more than one. Only one probe of a bucket may be at work at a time.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        beside: The marker's key, outside the owned prefixes; the probe's key begins with it.

    Raises:
        ProbeFailed: The object could not be written, what an earlier probe left could not be
            removed, or storage does not answer.
    """
    key = f"{beside}{PREFIX}object/x"
    try:
        server = name_of_server(client, bucket)
        _remove_leftovers(client, bucket, beside)
        try:
            abilities = _abilities(client, bucket, key)
        finally:
            left = _clean_up(client, bucket, key)
    except (ClientError, BotoCoreError) as error:
        raise ProbeFailed(
            f"What the server of bucket {bucket!r} can do could not be tried with the object "
            f"{key!r}: {described(error)}. The probe needs s3:PutObject, s3:GetObject and "
            "s3:DeleteObject on keys that begin with the marker's."
        ) from error
    except StorageRejected as error:
        raise ProbeFailed(
            f"What the server of bucket {bucket!r} can do could not be tried: {error.reason}"
        ) from error
    return Probe(abilities, server, key if left else None)


def name_of_server(client: S3Client, bucket: str) -> str:
    """The Server header of its answer to a HEAD of the bucket; empty without one.

    Raises:
        BotoCoreError: It does not answer.
    """
    try:
        answer = client.head_bucket(Bucket=bucket)["ResponseMetadata"]
    except ClientError as error:
        answer = error.response.get("ResponseMetadata", {})  # type: ignore[assignment]
    return str(answer.get("HTTPHeaders", {}).get("server", ""))


def _abilities(client: S3Client, bucket: str, key: str) -> Abilities:
    client.put_object(Bucket=bucket, Key=key, Body=BODY)
    folds = _folds_slashes(client, bucket, key)
    apart, etags = _as_listed(client, bucket, key)
    bulk = _knows_many(client, bucket, key)
    batch: bool | StorageError = StorageError("NotImplemented", "it deletes one by one only")
    if bulk:
        batch = _obeys(client, bucket, key, one_by_one=False)
    single = _obeys(client, bucket, key, one_by_one=True)
    return Abilities(
        _word(single=single, batch=batch),
        bulk,
        folds,
        apart,
        etags,
        _lists_uploads(client, bucket, key),
    )


def _folds_slashes(client: S3Client, bucket: str, key: str) -> bool:
    """Whether the same object answers to another key, or nobody can tell that it does not."""
    folder, _, name = key.rpartition("/")
    return not isinstance(_seen(client, bucket, f"{folder}//{name}"), Absent)


def _as_listed(client: S3Client, bucket: str, key: str) -> tuple[int | None, Agreement]:
    """By how many seconds listing and HEAD differ, and how their ETags agree."""
    sighting = _seen(client, bucket, key)
    try:
        entries = client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1).get("Contents", [])
    except ClientError:
        entries = []
    listed = next((entry for entry in entries if entry["Key"] == key), None)
    if listed is None or not isinstance(sighting, Present) or sighting.modified is None:
        return None, "unknown"
    apart = abs(int(listed["LastModified"].timestamp()) - int(sighting.modified.timestamp()))
    return apart, agreement(listed.get("ETag"), sighting.etag)


def _lists_uploads(client: S3Client, bucket: str, key: str) -> bool | None:
    """Whether a multipart upload that was just begun is listed; None where it may not be begun.

    Some servers show an upload only to whoever asks for its exact key. It never gets a part, so
    that nothing is paid for one that could not be aborted; a later probe aborts what is listed.
    """
    prefix = key.rpartition("/")[0]
    try:
        begun = client.create_multipart_upload(Bucket=bucket, Key=key).get("UploadId")
        if not begun:
            return None
        answer = client.list_multipart_uploads(Bucket=bucket, Prefix=prefix)
        listed = [it["UploadId"] for it in answer.get("Uploads", []) if it["Key"] == key]
        for upload_id in {begun, *listed}:
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    except ClientError:
        return None
    return begun in listed


def _knows_many(client: S3Client, bucket: str, key: str) -> bool:
    """Whether the server accepts a request that could name many objects."""
    work = Deleting(
        client,
        bucket,
        [Target(key)],
        before_request=lambda: None,
        alone_when_refused=False,
    )
    try:
        work.run()
    except StorageRejected as rejected:
        cause = rejected.__cause__
        if isinstance(cause, ClientError) and refuses_many(cause):
            return False
        raise
    return True


def _obeys(client: S3Client, bucket: str, key: str, *, one_by_one: bool) -> bool | StorageError:
    """True when it obeys, false when it ignores, or the refusal of a server that does neither."""
    answer = client.put_object(Bucket=bucket, Key=key, Body=BODY)
    etag = strong(answer["ETag"])
    wrong = _delete(client, bucket, Target(key, etag=ANOTHER_ETAG), one_by_one=one_by_one)
    if not _is_there(client, bucket, key):
        return False
    if wrong.fate is not Fate.CHANGED:
        return StorageError(wrong.code or wrong.fate.value, wrong.reason)
    right = _delete(client, bucket, Target(key, etag=etag), one_by_one=one_by_one)
    if right.fate in (Fate.DELETED, Fate.MARKED) and not _is_there(client, bucket, key):
        return True
    return StorageError(right.code or right.fate.value, right.reason)


def _delete(client: S3Client, bucket: str, target: Target, *, one_by_one: bool) -> Verdict:
    work = Deleting(client, bucket, [target], before_request=lambda: None, alone_when_refused=False)
    try:
        return work.run(one_by_one=one_by_one)[target]
    except StorageRejected as rejected:
        error = described(rejected.__cause__ or rejected)
        if error.code in _REFUSES_CONDITION:
            return Verdict(Fate.FAILED, str(error), error.code)
        raise


_REFUSES_CONDITION = frozenset(
    {"400", "501", "InvalidArgument", "InvalidRequest", "NotImplemented"}
)


def _seen(client: S3Client, bucket: str, key: str) -> CloseSighting:
    target = Target(key)
    return look_at_targets(client, bucket, [target])[target]


def _is_there(client: S3Client, bucket: str, key: str) -> bool:
    return isinstance(_seen(client, bucket, key), Present)


def _word(*, single: bool | StorageError, batch: bool | StorageError) -> ConditionalDelete:
    if single is True and batch is True:
        return "honoured"
    if single is True:
        return "single only"
    if batch is True:
        return "batch only"
    return "ignored" if False in (single, batch) else "unsupported"


# What is left ---------------------------------------------------------------------------------


def _remove_leftovers(client: S3Client, bucket: str, beside: str) -> None:
    """Remove what a probe left that was killed, or that could not remove it.

    Raises:
        ProbeFailed: It is still there. Another one beside it would make two.
    """
    left = [key for key in _leftovers(client, bucket, beside) if _clean_up(client, bucket, key)]
    if left:
        raise ProbeFailed(
            f"The object {left[0]!r} of an earlier probe lies in bucket {bucket!r} and could not "
            "be removed, so no other one was written. Remove it by hand; in a bucket that keeps "
            "versions that takes s3:ListBucketVersions and s3:DeleteObjectVersion, and of a locked "
            "one the lock must end first."
        )


def _leftovers(client: S3Client, bucket: str, beside: str) -> list[str]:
    """Keys of earlier probes, of a bucket with versions also those behind a delete marker."""
    prefix = f"{beside}{PREFIX}"
    try:
        versions = client.list_object_versions(Bucket=bucket, Prefix=prefix)
    except ClientError:
        pass
    else:
        entries = [*versions.get("Versions", []), *versions.get("DeleteMarkers", [])]
        if entries:
            return list(dict.fromkeys(entry["Key"] for entry in entries))
    try:
        listed = client.list_objects_v2(Bucket=bucket, Prefix=prefix)
    except ClientError:
        # Without the right to list: the key is always the same, and is written over.
        return []
    return [entry["Key"] for entry in listed.get("Contents", [])]


def _clean_up(client: S3Client, bucket: str, key: str) -> bool:
    """Remove the object, its versions and its markers; true when something is left."""
    try:
        found = versions_of(client, bucket, key)
        targets = (
            [Target(key)]
            if isinstance(found, StorageError)
            else [Target(key, version.identifier) for version in found.versions]
        )
        verdicts = _removed(client, bucket, targets)
        if not targets and _is_there(client, bucket, key):
            # Some servers list no versions of what was written while they kept none.
            verdicts = _removed(client, bucket, [Target(key)])
    except StorageRejected:
        return True
    return any(verdict.fate in (Fate.FAILED, Fate.MARKED) for verdict in verdicts.values())


def _removed(client: S3Client, bucket: str, targets: list[Target]) -> dict[Target, Verdict]:
    return Deleting(client, bucket, targets, before_request=lambda: None).run()
