"""The objects that say to whom a bucket belongs: the half of an adoption that is in the bucket.

Each installation has one, at a fixed place: one listing finds them all, whatever is configured.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from tenacity import wait_random

from filejobs_dagster.door.guard import MarkerNotWritten, MarkerTaken, MarkerUnreadable
from filejobs_dagster.objects.errors import described, status_of
from filejobs_dagster.objects.identity import strong
from filejobs_dagster.objects.listing import ListingFailed
from filejobs_dagster.objects.listing.ask import Asker
from filejobs_dagster.objects.listing.part import Reader
from filejobs_dagster.objects.targets import MARKERS
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

FORMAT = 2
"""What is written. Of format 1, which older versions wrote, the prefixes and the timeline are not
known."""

FOLDER = f"{MARKERS}/"
OLDER_KEY = f"{MARKERS}.json"
"""Where older versions kept the marker, unless their settings said otherwise."""

SMALL = 4096
"""Bytes. No marker of an older version was nearly so large."""

MOST_LISTED = 50
MOST_READ = 200
"""Requests of a search for markers that may lie anywhere."""

LARGEST = 64 * 1024
"""Bytes. A larger object of that key is none of ours."""

_SHORTLY = wait_random(0, 0.2)
"""Seconds between tries; the client's own, which wait longer, come on top."""

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
        owns: The prefixes that the installation owns; the empty one is the whole bucket. None of
            one that an older version wrote: it may be anything.
        timeline: On which the database counted last; None where that is not known.
        key: Of the object, not part of its text; empty before it is written.
        etag: The same, without quotes.
    """

    installation: str
    environment: str | None
    database: DatabaseIdentity
    counter: int
    adopted_at: str
    adopted_by: str
    owns: tuple[str, ...] | None = None
    timeline: int | None = None
    key: str = ""
    etag: str = ""

    def text(self) -> str:
        """The object's bytes, in UTF-8 JSON that people can read."""
        document = {"filejobs": "this bucket is adopted; see docs/buckets.md", "format": FORMAT}
        document |= {
            name: value for name, value in asdict(self).items() if name not in ("key", "etag")
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def list_markers(client: S3Client, bucket: str) -> tuple[str, ...]:
    """The keys of all markers that there may be at the fixed place, the older one included.

    Raises:
        MarkerUnreadable: Storage would not list them, or does not end.
    """
    try:
        found = Reader(Asker(client, bucket, wait=_SHORTLY)).read(MARKERS.encode())
    except ListingFailed as error:
        raise MarkerUnreadable(
            f"The markers of bucket {bucket!r}, which say whose it is, could not be listed: "
            f"{error} It takes s3:ListBucket on the bucket, also for keys that begin with "
            f"{MARKERS!r}."
        ) from error
    if found.truncated:
        raise MarkerUnreadable(
            f"More than {len(found.page)} objects of bucket {bucket!r} begin with {MARKERS!r}. "
            "Markers are few; find out who writes there."
        )
    keys = [key.decode(errors="replace") for key in found.page.keys]
    return tuple(key for key in keys if key == OLDER_KEY or _is_marker(key))


def _is_marker(key: str) -> bool:
    return key.startswith(FOLDER) and key.endswith(".json")


@dataclass(frozen=True)
class Search:
    """What was found of markers that may lie anywhere, as older versions let them.

    Attributes:
        keys: Of objects that say of themselves that they are one.
        small: How many objects were small enough to be one.
        unread: How many of them could not be read.
        complete: False when the first two levels hold more than is looked at.
        hindered: Why the bucket could not be listed; empty when it was.
    """

    keys: tuple[str, ...]
    small: int
    unread: int
    complete: bool
    hindered: str = ""

    def __str__(self) -> str:
        """For people: how far it may be relied on."""
        said = (
            "Older versions kept their markers under any key (`marker:`), and nobody can list them "
            f"by it. They were looked for in the first two levels of the bucket, in {self.small:,} "
            f"objects of at most {SMALL:,} bytes"
        )
        if self.unread:
            said += f", of which {self.unread:,} could not be read"
        if self.hindered:
            said += f", and the bucket could not be listed ({self.hindered})"
        elif not self.complete:
            said += "; there are more than were looked at"
        return (
            f"{said}. One that lies elsewhere is not seen: if another installation of an older "
            "version works on this bucket, let that one adopt it again with this version first."
        )


def search_markers(client: S3Client, bucket: str) -> Search:
    """Look for markers outside of the fixed place, in a bounded number of requests.

    Rights may be given for some prefixes only, so what is refused is told, and refuses nothing.
    """
    try:
        small, complete = _small_objects(client, bucket)
    except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
        return Search((), 0, 0, complete=False, hindered=str(described(error)))
    found: list[str] = []
    unread = 0
    for key in small[:MOST_READ]:
        try:
            body = client.get_object(Bucket=bucket, Key=key)["Body"].read(SMALL)
            document = json.loads(body)
        except ValueError:
            continue
        except Exception:  # noqa: BLE001 (counted, and told)
            unread += 1
            continue
        if isinstance(document, dict) and {"filejobs", "format", "installation"} <= set(document):
            found.append(key)
    return Search(tuple(found), len(small), unread, complete and len(small) <= MOST_READ)


def _small_objects(client: S3Client, bucket: str) -> tuple[list[str], bool]:
    """Keys in the first two levels of a bucket, and whether they are all that there are."""
    small: list[str] = []
    requests = 0
    folders = [""]
    for _ in range(2):
        below: list[str] = []
        for folder in folders:
            after: dict[str, Any] = {}
            while True:
                if requests == MOST_LISTED:
                    return small, False
                requests += 1
                page = client.list_objects_v2(Bucket=bucket, Prefix=folder, Delimiter="/", **after)
                small += [
                    entry["Key"]
                    for entry in page.get("Contents", [])
                    if 0 < entry["Size"] <= SMALL and not entry["Key"].startswith(MARKERS)
                ]
                below += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
                if not page.get("NextContinuationToken"):
                    break
                after = {"ContinuationToken": page["NextContinuationToken"]}
        folders = [folder for folder in below if not folder.startswith(MARKERS)]
    return small, True


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
        return _parsed(body, key, strong(answer.get("ETag", "")))
    except (ValueError, TypeError, KeyError) as error:
        raise MarkerUnreadable(
            f"{where.capitalize()} is no marker that this version understands "
            f"({type(error).__name__}: {sanitize(str(error), limit=200)}). If a newer version "
            "wrote it, install that one; if it is damaged, find out who damaged it and whose it "
            "was. Its owner removes it by hand, and adopts the bucket again."
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


def _parsed(body: bytes, key: str, etag: str) -> Marker:
    if len(body) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST} bytes")
    document = json.loads(body)
    if not isinstance(document, dict) or "format" not in document:
        raise ValueError("it is JSON, and not that of a marker")
    if document["format"] not in (1, FORMAT):
        raise ValueError(f"its format is {document['format']!r}, and 1 to {FORMAT} are known")
    database = document["database"]
    environment = document["environment"]
    owns = timeline = None
    if document["format"] == FORMAT:
        owns = tuple(_text(prefix) for prefix in document["owns"])
        timeline = None if document["timeline"] is None else _number(document["timeline"])
    return Marker(
        installation=_text(document["installation"]),
        environment=None if environment is None else _text(environment),
        database=DatabaseIdentity(
            _text(database["system_identifier"]), _text(database["name"]), _text(database["schema"])
        ),
        counter=_number(document["counter"]),
        adopted_at=_text(document["adopted_at"]),
        adopted_by=_text(document["adopted_by"]),
        owns=owns,
        timeline=timeline,
        key=key,
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
