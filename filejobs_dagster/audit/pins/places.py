"""The places for pins: a folder, which is for trying out and protects nothing, and an S3 bucket.

In a bucket pins are written once, locked where it has Object Lock, and never deleted.
"""

from __future__ import annotations

import base64
import hashlib
import os
import tempfile
import time
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.audit.pins.store import (
    Equivocation,
    PinContent,
    PinEntry,
    PinReceipt,
    PinStoreUnusable,
)
from filejobs_dagster.objects.client import timestamp
from filejobs_dagster.objects.errors import described, status_of

if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

_UNFINISHED = ".unfinished-"


class FolderPins:
    """Files in a folder.

    Whoever may write the folder can change or remove every pin without a trace, so nothing is
    proven against that person.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    @property
    def description(self) -> str:
        """Where it is, and that it protects nothing."""
        return f"folder {self._folder}: NO PROTECTION, whoever may write it can change every pin"

    @property
    def protects(self) -> bool:
        """Never."""
        return False

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        """Write a file that does not exist yet; `retain_until` has no effect.

        Raises:
            Equivocation: The file exists with other bytes.
            PinStoreUnusable: The folder cannot be written.
        """
        del retain_until
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            was_there = not _create(path, content)
            if was_there and path.read_bytes() != content:
                raise Equivocation(key, str(self._folder))
        except OSError as error:
            raise self._unusable(error) from error
        return PinReceipt(key, None, None, was_there)

    def list(self, prefix: str) -> list[PinEntry]:
        """List the files whose name begins with the prefix, in order.

        Raises:
            PinStoreUnusable: The folder cannot be read.
        """
        found = []
        try:
            for folder, _, names in os.walk(self._folder, onerror=_raise):
                for name in names:
                    key = (Path(folder) / name).relative_to(self._folder).as_posix()
                    if key.startswith(prefix) and not name.startswith(_UNFINISHED):
                        found.append(PinEntry(key, None, None))
        except FileNotFoundError:
            if self._folder.exists():
                raise PinStoreUnusable(f"{self._folder} changed while it was listed") from None
            return []
        except OSError as error:
            raise self._unusable(error) from error
        return sorted(found, key=lambda entry: entry.key)

    def list_after(self, prefix: str, key: str) -> Sequence[PinEntry]:
        """As `list`, without what does not stand behind the key."""
        return [entry for entry in self.list(prefix) if entry.key > key]

    def words(self, prefix: str) -> set[str]:
        """The folders below a prefix."""
        rests = (entry.key.removeprefix(prefix).partition("/") for entry in self.list(prefix))
        return {word for word, slash, _ in rests if slash}

    def get(self, entry: PinEntry) -> PinContent:
        """Read one file.

        Raises:
            PinStoreUnusable: It cannot be read.
        """
        try:
            return PinContent(self._path(entry.key).read_bytes())
        except OSError as error:
            raise self._unusable(error) from error

    def now(self) -> datetime | None:
        """Nothing: a folder's clock is the writer's own."""
        return None

    def _path(self, key: str) -> Path:
        path = (self._folder / key).resolve()
        if self._folder not in path.parents:
            raise PinStoreUnusable(f"The pin's name {key!r} leads out of {self._folder}")
        return path

    def _unusable(self, error: OSError) -> PinStoreUnusable:
        return PinStoreUnusable(
            f"The folder of pins {self._folder} cannot be used: {error.strerror}. Check that it "
            "exists and that this process may read and write it."
        )


def _create(path: Path, content: bytes) -> bool:
    """Write a whole file or none; False when there is one already."""
    handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link, unlike a rename, fails where a file exists.
            os.link(unfinished, path)
        except FileExistsError:
            return False
    finally:
        unfinished.unlink()
    return True


def _raise(error: OSError) -> None:
    raise error


# Pins in an S3 bucket: written once, locked where the bucket has Object Lock, never deleted.

_TRIES = 4
_PAUSE = 0.2
"""Seconds between two tries after the server said that another request is at work on the key."""


class S3Pins:
    """Pins under a prefix of a bucket.

    Keep the bucket in an account that the database's administrators cannot enter, made with
    Object Lock; give the writer PutObject, PutObjectRetention, GetObject, GetObjectVersion,
    ListBucketVersions and GetBucketObjectLockConfiguration, and no right to delete.
    """

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        *,
        prefix: str = "",
        object_lock: bool | None = None,
    ) -> None:
        """Use a bucket; nothing is sent yet.

        Args:
            client: One of `objects.client.make_client`.
            bucket: Its name.
            prefix: What every key begins with, such as `pins/`.
            object_lock: Whether the bucket has Object Lock; None asks it.
        """
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._object_lock = object_lock

    @property
    def description(self) -> str:
        """Where it is, and whether it locks."""
        how = (
            "Object Lock in COMPLIANCE mode"
            if self.protects
            else "no Object Lock: whoever may delete in it can remove pins"
        )
        return f"bucket {self._bucket}/{self._prefix}: {how}"

    @property
    def protects(self) -> bool:
        """Whether the bucket has Object Lock.

        Raises:
            PinStoreUnusable: It does not say.
        """
        if self._object_lock is None:
            self._object_lock = self._ask_for_object_lock()
        return self._object_lock

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        """Store a text where no version stands yet; the same bytes again are a success.

        A request whose answer was lost is answered by the next one: the bytes are there.

        Raises:
            Equivocation: A version with other bytes stands there, also below a delete marker.
            PinStoreUnusable: The server refused, or did not answer.
        """
        there = self._already(key, content)
        if there is not None:
            return there
        lock: dict[str, Any] = {}
        if self.protects and retain_until is not None:
            lock = {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": retain_until}
        for tries_left in range(_TRIES - 1, -1, -1):
            try:
                answer = self._client.put_object(
                    Bucket=self._bucket,
                    Key=self._prefix + key,
                    Body=content,
                    ContentType="text/plain; charset=utf-8",
                    IfNoneMatch="*",
                    **checksums(content),
                    **lock,
                )
            except ClientError as error:
                if status_of(error) not in {HTTPStatus.PRECONDITION_FAILED, HTTPStatus.CONFLICT}:
                    raise self._unusable(
                        "store a pin", "s3:PutObject and s3:PutObjectRetention", error
                    ) from error
                there = self._already(key, content)
                if there is not None:
                    return there
                if not tries_left:
                    raise self._unusable(
                        "store a pin", "s3:PutObject and s3:PutObjectRetention", error
                    ) from error
                time.sleep(_PAUSE)
            except BotoCoreError as error:
                raise self._unusable(
                    "store a pin", "s3:PutObject and s3:PutObjectRetention", error
                ) from error
            else:
                return PinReceipt(
                    key, answer.get("VersionId"), retain_until if lock else None, was_there=False
                )
        raise AssertionError("unreachable")  # pragma: no cover

    def list(self, prefix: str) -> list[PinEntry]:
        """List every version and every delete marker, oldest first for each key.

        Raises:
            PinStoreUnusable: The listing did not come to its end.
        """
        return self._entries(Prefix=self._prefix + prefix)

    def list_after(self, prefix: str, key: str) -> Sequence[PinEntry]:
        """List what stands behind a key only: as many requests as that needs.

        Raises:
            PinStoreUnusable: The listing did not come to its end.
        """
        listed = self._entries(Prefix=self._prefix + prefix, KeyMarker=self._prefix + key)
        return [entry for entry in listed if entry.key > key]

    def words(self, prefix: str) -> set[str]:
        """Ask the server for the words below a prefix; it passes over the keys itself.

        Raises:
            PinStoreUnusable: The listing did not come to its end.
        """
        found: set[str] = set()
        whole = self._prefix + prefix
        try:
            for page in self._client.get_paginator("list_object_versions").paginate(
                Bucket=self._bucket, Prefix=whole, Delimiter="/"
            ):
                found |= {
                    one["Prefix"].removeprefix(whole).rstrip("/")
                    for one in page.get("CommonPrefixes", [])
                }
        except (ClientError, BotoCoreError) as error:
            raise self._unusable(
                "list the chains of the pins", "s3:ListBucketVersions", error
            ) from error
        return found

    def _entries(self, **which: Any) -> builtins.list[PinEntry]:
        found: builtins.list[PinEntry] = []
        try:
            pages = self._client.get_paginator("list_object_versions").paginate(
                Bucket=self._bucket, **which
            )
            for page in pages:
                for kind, marker in (("Versions", False), ("DeleteMarkers", True)):
                    entries: list[dict[str, Any]] = page.get(kind, [])  # type: ignore[assignment]
                    found.extend(self._entry(entry, marker=marker) for entry in entries)
        except (ClientError, BotoCoreError) as error:
            raise self._unusable(
                "list the versions of pins", "s3:ListBucketVersions", error
            ) from error
        # The newest comes first within a key; the sort keeps that order where times are equal.
        found.reverse()
        return sorted(found, key=lambda entry: (entry.key, entry.stored_at))

    def get(self, entry: PinEntry) -> PinContent:
        """Read one version.

        Raises:
            PinStoreUnusable: It could not be read.
        """
        which: dict[str, Any] = {}
        if _version(entry) is not None:
            which["VersionId"] = entry.version
        try:
            answer = self._client.get_object(
                Bucket=self._bucket, Key=self._prefix + entry.key, **which
            )
            content = answer["Body"].read()
        except (ClientError, BotoCoreError) as error:
            raise self._unusable(
                f"read the pin {entry.key}", "s3:GetObjectVersion", error
            ) from error
        locked = answer.get("ObjectLockMode") == "COMPLIANCE"
        return PinContent(content, answer.get("ObjectLockRetainUntilDate") if locked else None)

    def now(self) -> datetime | None:
        """The time of the server's answer.

        Raises:
            PinStoreUnusable: It did not answer.
        """
        try:
            answer = self._client.list_objects_v2(
                Bucket=self._bucket, Prefix=self._prefix, MaxKeys=1
            )
        except (ClientError, BotoCoreError) as error:
            raise self._unusable("ask for the time", "s3:ListBucket", error) from error
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        return None if date is None else timestamp(date)

    def _already(self, key: str, content: bytes) -> PinReceipt | None:
        receipt = None
        for entry in self.list(key):
            if entry.key == key and not entry.marker:
                stored = self.get(entry)
                if stored.content != content:
                    raise Equivocation(key, f"bucket {self._bucket}")
                receipt = PinReceipt(key, _version(entry), stored.locked_until, was_there=True)
        return receipt

    def _entry(self, entry: dict[str, Any], *, marker: bool) -> PinEntry:
        return PinEntry(
            key=entry["Key"].removeprefix(self._prefix),
            version=entry.get("VersionId"),
            stored_at=entry["LastModified"],
            marker=marker,
            etag=entry.get("ETag", "").strip('"') or None,
        )

    def _ask_for_object_lock(self) -> bool:
        try:
            answer = self._client.get_object_lock_configuration(Bucket=self._bucket)
        except ClientError as error:
            if described(error).code == "ObjectLockConfigurationNotFoundError":
                return False
            raise self._unusable(
                "ask whether it has Object Lock", "s3:GetBucketObjectLockConfiguration", error
            ) from error
        except BotoCoreError as error:
            raise self._unusable(
                "ask whether it has Object Lock", "s3:GetBucketObjectLockConfiguration", error
            ) from error
        return answer["ObjectLockConfiguration"].get("ObjectLockEnabled") == "Enabled"

    def _unusable(self, attempt: str, takes: str, error: Exception) -> PinStoreUnusable:
        return PinStoreUnusable(
            f"Could not {attempt} in bucket {self._bucket!r} under {self._prefix!r}: "
            f"{described(error)}. Check the address and the credentials; it takes {takes}."
        )


def checksums(content: bytes) -> dict[str, Any]:
    """Arguments of a put with Object Lock, which S3 refuses without a checksum.

    The values, not the algorithm: that would be sent as a trailer, which not every server reads.
    MD5 is what the oldest of them ask for.
    """
    sha256 = hashlib.sha256(content).digest()
    md5 = hashlib.md5(content, usedforsecurity=False).digest()
    return {
        "ChecksumSHA256": base64.b64encode(sha256).decode(),
        "ContentMD5": base64.b64encode(md5).decode(),
    }


def _version(entry: PinEntry) -> str | None:
    """A bucket that keeps no versions lists the only one as `null`."""
    return None if entry.version == "null" else entry.version
