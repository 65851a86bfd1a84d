"""The parts of one multipart upload, all of them or an error; and what became of the upload."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, ParamValidationError

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.objects.errors import (
    StorageError,
    concerns_every_request,
    described,
    status_of,
)
from filejobs_dagster.objects.multipart.listing import known_date, leave_out_echoes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListPartsOutputTypeDef
    from typing_extensions import Self

NO_SUCH_UPLOAD = frozenset({"NoSuchUpload", "NoSuchKey"})
"""Codes that say that there is no such upload: it was aborted or completed, or never was.

Ceph 16 answers ListParts with the second. A bare 404 is not enough: proxies send it, too."""


@dataclass(frozen=True)
class Part:
    """One part.

    Attributes:
        number: 1 to 10,000.
        etag: As the server wrote it.
        size: In bytes.
        modified: When it came; None when the server did not say.
    """

    number: int
    etag: str
    size: int
    modified: datetime | None


@dataclass(frozen=True)
class Parts:
    """All parts of one upload, summed up.

    Attributes:
        count: How many there are.
        size: Their bytes.
        newest: When the last of them came; None when there is none, or when the server did not
            say it of one of them.
    """

    count: int
    size: int
    newest: datetime | None

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Self:
        """Sum them up."""
        times = [part.modified for part in parts if part.modified is not None]
        newest = max(times) if times and len(times) == len(parts) else None
        return cls(len(parts), sum(part.size for part in parts), newest)


class PartsUnknown(Exception):
    """The server did not list the parts of an upload.

    Attributes:
        error: What it said.
    """

    def __init__(self, error: StorageError) -> None:
        """Say what was found."""
        super().__init__(f"Its parts were not listed: {error}")
        self.error = error


def list_parts(client: S3Client, bucket: str, key: str, upload_id: str) -> Parts | None:
    """Ask for all parts of an upload.

    Returns:
        None when there is no such upload: aborted, completed, or never begun. That never says
        that there are no bytes: HEAD the key.

    Raises:
        PartsUnknown: The server refused for this upload, or its answer is not complete.
        StorageRejected: No request can succeed: credentials, connection, throttling, no bucket.
    """
    parts = read_parts(client, bucket, key, upload_id)
    return None if parts is None else Parts.of(parts)


def read_parts(client: S3Client, bucket: str, key: str, upload_id: str) -> tuple[Part, ...] | None:
    """As `list_parts`, one by one: at most 10,000."""
    try:
        return tuple(_each(client, bucket, key, upload_id))
    except ClientError as error:
        found = described(error)
        if found.code in NO_SUCH_UPLOAD and status_of(error) == HTTPStatus.NOT_FOUND:
            return None
        if concerns_every_request(error):
            raise _rejected(bucket, error) from error
        raise PartsUnknown(found) from error
    except PartsUnknown:
        raise
    except (ParamValidationError, UnicodeError) as error:
        # An empty key or upload id, or a key that is no UTF-8: nothing was sent.
        raise PartsUnknown(described(error)) from error
    except Exception as error:
        raise _rejected(bucket, error) from error


def _each(client: S3Client, bucket: str, key: str, upload_id: str) -> Iterator[Part]:
    leave_out_echoes(client)
    marker = 0
    while True:
        more: dict[str, Any] = {"PartNumberMarker": marker} if marker else {}
        answer = client.list_parts(Bucket=bucket, Key=key, UploadId=upload_id, **more)
        for entry in answer.get("Parts", []):
            yield Part(
                entry["PartNumber"],
                entry.get("ETag", ""),
                entry.get("Size", 0),
                known_date(entry.get("LastModified")),
            )
        following = _following(answer, marker)
        if following is None:
            return
        marker = following


def _following(answer: ListPartsOutputTypeDef, marker: int) -> int | None:
    """Where the next page begins; None behind the last one."""
    # A body that holds nothing is read as an answer in which everything is missing.
    truncated = answer.get("IsTruncated")
    if truncated is None:
        raise PartsUnknown(
            StorageError("incomplete", "the answer does not say whether there are more parts")
        )
    if not truncated:
        return None
    numbers = [entry["PartNumber"] for entry in answer.get("Parts", [])]
    following = answer.get("NextPartNumberMarker") or max(numbers, default=0)
    if following <= marker:
        raise PartsUnknown(
            StorageError("incomplete", "the server says that there are more parts, and not where")
        )
    return following


def _rejected(bucket: str, error: BaseException) -> StorageRejected:
    return StorageRejected(
        f"Storage did not list the parts of a multipart upload in bucket {bucket!r}: "
        f"{described(error)}. See what `filejobs doctor` says of the bucket."
    )


# What became of a multipart upload that was to be aborted.


class AbortFate(Enum):
    """What became of an upload."""

    ABORTED = "aborted"
    """It was there, and no part of it is listed any more."""

    ALREADY_GONE = "already gone"
    """There was no such upload any more, and its key has no object."""

    OBJECT_THERE = "gone, and its key has an object"
    """There was no such upload any more, and its key has an object: as a rule, it was completed."""

    PARTS_LEFT = "parts left"
    """It was aborted, and parts are still listed: some were on their way."""

    ACTIVE = "still active"
    """A part has come since it was judged; nothing was sent."""

    KEPT = "kept"
    """The gate did not let it go; nothing more was sent."""

    FAILED = "failed"
    """Storage refused, or did not say. Parts may be left."""

    @property
    def gone(self) -> bool:
        """True when the upload is known not to be there any more, whoever ended it."""
        return self in (AbortFate.ABORTED, AbortFate.ALREADY_GONE, AbortFate.OBJECT_THERE)


@dataclass(frozen=True)
class Aborted:
    """The fate of one upload.

    Attributes:
        fate: What became of it.
        reason: Without secrets; empty where the fate says it all.
        parts: Parts that were listed before an abort and are not any more.
        bytes_freed: Their bytes.
        requests: How often the abort was sent, the client's own tries included.
        parts_left: Parts that are still listed.
        bytes_left: Their bytes.
        object_size: Bytes of the key's object, where one was found.
        object_etag: Its ETag without quotes, where one was found.
    """

    fate: AbortFate
    reason: str = ""
    parts: int = 0
    bytes_freed: int = 0
    requests: int = 0
    parts_left: int = 0
    bytes_left: int = 0
    object_size: int | None = None
    object_etag: str | None = None

    @property
    def gone(self) -> bool:
        """True when the upload is known not to be there any more."""
        return self.fate.gone
