"""Finds out whether a server obeys a deletion that names the ETag, by trying it on its own object.

Several servers ignore the condition and delete all the same, and none of them says so.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.objects.deletion import StorageRejected
from filejobs_dagster.objects.errors import StorageError, described
from filejobs_dagster.objects.heads import Present, look_at_targets
from filejobs_dagster.objects.sending import Deleting
from filejobs_dagster.objects.targets import Fate, Target, Verdict
from filejobs_dagster.objects.versions import versions_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.manner import ConditionalDelete

BODY = b"filejobs tries whether this server obeys a deletion with a condition\n"
ANOTHER_ETAG = "00000000000000000000000000000000"


class ProbeFailed(Exception):
    """The probe could not be made; what the server does with a condition is not known."""


@dataclass(frozen=True)
class Probe:
    """What was found.

    Attributes:
        conditional: See `ConditionalDelete`.
        server: The Server header of its answers, empty without one.
        leftover: The probe's own key, when it could not be removed again.
    """

    conditional: ConditionalDelete
    server: str
    leftover: str | None = None


def probe(client: S3Client, bucket: str, beside: str) -> Probe:
    """Write a tiny object, and delete it with a condition that does not hold and one that does.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        beside: The marker's key, outside the owned prefixes; the probe's key begins with it.

    Raises:
        ProbeFailed: The object could not be written, or storage does not answer.
    """
    key = f"{beside}.probe-{uuid.uuid4()}"
    try:
        batch, server = _obeys(client, bucket, key, one_by_one=False)
        single, server = _obeys(client, bucket, key, one_by_one=True)
    except (ClientError, BotoCoreError) as error:
        raise ProbeFailed(
            f"Whether bucket {bucket!r} obeys a deletion with a condition could not be tried with "
            f"the object {key!r}: {described(error)}. The probe needs s3:PutObject, s3:GetObject "
            "and s3:DeleteObject on keys that begin with the marker's."
        ) from error
    except StorageRejected as error:
        raise ProbeFailed(
            f"Whether bucket {bucket!r} obeys a deletion with a condition could not be tried: "
            f"{error.reason}"
        ) from error
    finally:
        left = _clean_up(client, bucket, key)
    return Probe(_word(single=single, batch=batch), server, key if left else None)


def _obeys(
    client: S3Client, bucket: str, key: str, *, one_by_one: bool
) -> tuple[bool | StorageError, str]:
    """True when it obeys, false when it ignores, or the refusal of a server that does neither."""
    answer = client.put_object(Bucket=bucket, Key=key, Body=BODY)
    etag = answer["ETag"].strip('"')
    server = str(answer["ResponseMetadata"]["HTTPHeaders"].get("server", ""))
    wrong = _delete(client, bucket, Target(key, etag=ANOTHER_ETAG), one_by_one=one_by_one)
    if not _is_there(client, bucket, key):
        return False, server
    if wrong.fate is not Fate.CHANGED:
        return StorageError(wrong.code or wrong.fate.value, wrong.reason), server
    right = _delete(client, bucket, Target(key, etag=etag), one_by_one=one_by_one)
    if right.fate in (Fate.DELETED, Fate.MARKED) and not _is_there(client, bucket, key):
        return True, server
    return StorageError(right.code or right.fate.value, right.reason), server


def _delete(client: S3Client, bucket: str, target: Target, *, one_by_one: bool) -> Verdict:
    work = Deleting(client, bucket, [target], before_request=lambda: None)
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


def _is_there(client: S3Client, bucket: str, key: str) -> bool:
    target = Target(key)
    sighting = look_at_targets(client, bucket, [target])[target]
    return isinstance(sighting, Present)


def _word(*, single: bool | StorageError, batch: bool | StorageError) -> ConditionalDelete:
    if single is True and batch is True:
        return "honoured"
    if single is True:
        return "single only"
    if batch is True:
        return "batch only"
    return "ignored" if False in (single, batch) else "unsupported"


def _clean_up(client: S3Client, bucket: str, key: str) -> bool:
    """Remove the object, its versions and its markers; true when something is left."""
    try:
        found = versions_of(client, bucket, key)
        targets = (
            [Target(key)]
            if isinstance(found, StorageError)
            else [Target(key, version.identifier) for version in found.versions]
        )
        verdicts = Deleting(client, bucket, targets, before_request=lambda: None).run()
    except StorageRejected:
        return True
    return any(verdict.fate is Fate.FAILED for verdict in verdicts.values())
