"""The object that says to whom a bucket belongs: the half of an adoption that is in the bucket."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from filejobs_dagster.door.refusals import MarkerNotWritten, MarkerTaken, MarkerUnreadable
from filejobs_dagster.ledger.sanitize import sanitize
from filejobs_dagster.objects.errors import described, status_of
from filejobs_dagster.objects.etags import strong

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FORMAT = 1
LARGEST = 64 * 1024
"""Bytes. A larger object of that key is none of ours."""

_NO_SUCH_CONDITION = frozenset({"NotImplemented", "501"})


@dataclass(frozen=True)
class DatabaseIdentity:
    """Which database it is.

    Attributes:
        system_identifier: Of the server's data directory, as text: JSON has no integers so large.
            A copy made by pg_dump has another one; a copy of the files or a replica the same.
        name: Of the database.
        schema: Of the project's tables.
    """

    system_identifier: str
    name: str
    schema: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.name}, schema {self.schema}, of the server {self.system_identifier}"


@dataclass(frozen=True)
class Marker:
    """What the object says.

    Attributes:
        installation: From the settings.
        environment: From the settings; None when they name none.
        database: The one that holds the other half.
        counter: No higher than the database's own, unless that was restored from a backup.
        adopted_at: RFC 3339.
        adopted_by: User and host.
        etag: Of the object, without quotes, not part of its text; empty before it is written.
    """

    installation: str
    environment: str | None
    database: DatabaseIdentity
    counter: int
    adopted_at: str
    adopted_by: str
    etag: str = ""

    def text(self) -> str:
        """The object's bytes, in UTF-8 JSON that people can read."""
        document = {"filejobs": "this bucket is adopted; see docs/buckets.md", "format": FORMAT}
        document |= {name: value for name, value in asdict(self).items() if name != "etag"}
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read_marker(client: S3Client, bucket: str, key: str) -> Marker | None:
    """Read the marker.

    Returns:
        None when there certainly is none: the bucket answered, and has no such object.

    Raises:
        MarkerUnreadable: The right to read is missing, storage does not answer, or what is there
            is no marker.
    """
    where = f"the marker {key!r} of bucket {bucket!r}"
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
        body = answer["Body"].read(LARGEST + 1)
    except ClientError as error:
        if described(error).code == "NoSuchKey":
            return None
        raise MarkerUnreadable(
            f"{where.capitalize()} could not be read: {described(error)}. It takes s3:GetObject on "
            "that key, and s3:ListBucket, without which a missing object looks like a forbidden "
            "one."
        ) from error
    except Exception as error:
        raise MarkerUnreadable(
            f"{where.capitalize()} could not be read: {described(error)}."
        ) from (error)
    try:
        return _parsed(body, strong(answer.get("ETag", "")))
    except (ValueError, TypeError, KeyError) as error:
        raise MarkerUnreadable(
            f"{where.capitalize()} is no marker that this version understands "
            f"({type(error).__name__}: {sanitize(str(error), limit=200)}). If it is somebody "
            "else's object, choose another key with `marker` in the settings; if it is a damaged "
            "marker, find out who damaged it, remove it by hand, and adopt the bucket again."
        ) from error


def write_new_marker(client: S3Client, bucket: str, key: str, marker: Marker) -> None:
    """Write the marker where there is none.

    Raises:
        MarkerTaken: There is one by now.
        MarkerNotWritten: Storage refused.
    """
    _put(client, bucket, key, marker, {"IfNoneMatch": "*"})


def replace_marker(client: S3Client, bucket: str, key: str, marker: Marker, before: Marker) -> None:
    """Write the marker over one that was read.

    A server that does not know the condition gets none, and some take it and do not obey. So the
    marker is read before, which may be hours after it was last, and read back afterwards.

    Raises:
        MarkerTaken: It is another one by now.
        MarkerNotWritten: Storage refused.
        MarkerUnreadable: It could not be read.
    """
    if read_marker(client, bucket, key) != before:
        raise MarkerTaken(f"Somebody replaced the marker {key!r} of bucket {bucket!r} meanwhile.")
    try:
        _put(client, bucket, key, marker, {"IfMatch": f'"{before.etag}"'})
    except MarkerTaken:
        if read_marker(client, bucket, key) != before:
            raise
        # Ceph 16 compares the header with its quotes, and so never finds it equal.
        _replace_without_quotes(client, bucket, key, marker, before)


def _replace_without_quotes(
    client: S3Client, bucket: str, key: str, marker: Marker, before: Marker
) -> None:
    try:
        _put(client, bucket, key, marker, {"IfMatch": before.etag})
    except MarkerTaken:
        if read_marker(client, bucket, key) != before:
            raise
        # Where Ceph 16 keeps versions it compares with the version that is about to be, which is
        # never there. The run's lock and the counter in the database are what is left, and the
        # marker is read back.
        _put(client, bucket, key, marker, {})


def _put(
    client: S3Client, bucket: str, key: str, marker: Marker, condition: dict[str, Any]
) -> None:
    body = marker.text().encode()
    sent: dict[str, Any] = {"Bucket": bucket, "Key": key, "Body": body}
    sent["ContentType"] = "application/json"
    try:
        try:
            client.put_object(**sent, **condition)
        except ClientError as error:
            code = described(error).code
            if code in _NO_SUCH_CONDITION:
                client.put_object(**sent)
            elif status_of(error) in (HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT):
                raise MarkerTaken(
                    f"Somebody wrote the marker {key!r} of bucket {bucket!r} at the same time."
                ) from error
            else:
                raise
    except MarkerTaken:
        raise
    except Exception as error:
        raise MarkerNotWritten(
            f"The marker {key!r} of bucket {bucket!r} could not be written: {described(error)}. "
            "It takes s3:PutObject on that key."
        ) from error
    # A server that ignores conditions has let both of two writers through.
    written = read_marker(client, bucket, key)
    if written is None or written.text() != marker.text():
        raise MarkerTaken(
            f"Somebody wrote the marker {key!r} of bucket {bucket!r} at the same time, or it was "
            "not kept as it was written."
        )


def _parsed(body: bytes, etag: str) -> Marker:
    if len(body) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    document = json.loads(body)
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("it is JSON, and not that of a marker")
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']!r}, and {FORMAT} is known")
    database = document["database"]
    environment = document["environment"]
    return Marker(
        installation=_text(document["installation"]),
        environment=None if environment is None else _text(environment),
        database=DatabaseIdentity(
            _text(database["system_identifier"]), _text(database["name"]), _text(database["schema"])
        ),
        counter=_number(document["counter"]),
        adopted_at=_text(document["adopted_at"]),
        adopted_by=_text(document["adopted_by"]),
        etag=etag,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"{value!r} is no counter")
    return value
