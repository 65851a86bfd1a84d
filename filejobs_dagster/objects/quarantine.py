"""Quarantine: a verified copy of what is about to be deleted, and the way back.

PRIVATE to the gate, but for the names and what a listing finds.

A copy lies in the same bucket, below `prefixes.QUARANTINE`, under the key of its original and a
name made of what was copied. So whoever is killed after the copy and comes again writes the same
copy once more, never a second one; and another object that gets the key later has a copy of its
own. The copy's own time says since when it is kept.

Nothing is remembered elsewhere: what the bucket holds is what can be brought back.
"""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.objects.errors import (
    CONDITION_NOT_MET,
    StorageError,
    concerns_every_request,
    described,
    status_of,
    storage_error,
)
from filejobs_dagster.objects.heads import THREADS, Absent, ask_each, rejected, require_bucket
from filejobs_dagster.objects.identity import agreement, compare, found, strong, without_quotes
from filejobs_dagster.objects.identity import expected as as_expected
from filejobs_dagster.objects.targets import QUARANTINE, Target, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

    from filejobs_dagster.objects.targets import Expected

COPIED_TOGETHER = 100
"""So many objects are copied between two proofs that the run is alive."""

LARGEST_COPY = 5 * 2**30
"""Bytes. S3 copies nothing larger in one request."""

PART = 512 * 2**20
"""Bytes of a part, where the original does not say how it was cut."""

MOST_PARTS = 10_000
MOST_KEY_BYTES = 1024

REQUESTS_EACH = 4
"""An object costs: a look at it, the copy, a look at the copy, and later the copy's deletion. The
deletion of the original comes in any case."""

_DIGITS = 16
_NAMED = re.compile(rf"(?P<original>.+)~[0-9a-f]{{{_DIGITS}}}", re.DOTALL)

_HEADERS = (
    "CacheControl",
    "ContentDisposition",
    "ContentEncoding",
    "ContentLanguage",
    "ContentType",
    "Expires",
)
"""What an object says of itself beside its metadata."""

_ENCRYPTION = ("ServerSideEncryption", "SSEKMSKeyId", "BucketKeyEnabled")

_READ_AT_ONCE = 2**20

_NOT_KNOWN = frozenset({"501", "NotImplemented"})

TOO_LONG = "too long for quarantine"
"""Why an object is kept whose key leaves no room for the prefix."""


@dataclass(frozen=True)
class Copy:
    """A copy in quarantine, as a listing shows it.

    Attributes:
        key: Its own.
        original: The key that it was copied from.
        etag: Without quotes.
        size: In bytes.
        since: When it was copied.
    """

    key: str
    original: str
    etag: str
    size: int
    since: datetime


Word = Literal["restored", "is there", "gone", "failed"]


@dataclass(frozen=True)
class Return:
    """What became of a key that was to come back.

    Attributes:
        key: The original.
        word: `restored`; `is there`, so nothing was done; `gone`: nothing is left to restore.
        why: Of what failed; empty otherwise.
        size: Bytes, where they are known.
        only_looked: True where the server ignores the condition that nothing is there, so that
            only a look came before.
    """

    key: str
    word: Word
    why: str = ""
    size: int = 0
    only_looked: bool = False


@dataclass(frozen=True)
class Stored:
    """Everything that a copy must have in common with its original.

    Attributes:
        etag: Without quotes.
        size: In bytes.
        modified: None when the server did not say.
        version: None where the bucket keeps none.
        headers: What the object says of itself.
        metadata: The user's own.
        tags: How many; 0 also where the server does not say.
        storage_class: None for the usual one.
        encryption: By a key of the key service, as a request asks for it; else empty: then the
            bucket's own is what both have.
    """

    etag: str
    size: int
    modified: datetime | None
    version: str | None
    headers: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    tags: int = 0
    storage_class: str | None = None
    encryption: Mapping[str, Any] = field(default_factory=dict)


def key_of_copy(key: str, it: Stored) -> str:
    """Where the copy of an object goes: the same place for the same object."""
    modified = "" if it.modified is None else str(int(it.modified.timestamp()))
    what = "|".join((strong(it.etag), str(it.size), modified, it.version or ""))
    return f"{QUARANTINE}{key}~{hashlib.sha256(what.encode()).hexdigest()[:_DIGITS]}"


def original_of(copy: str) -> str | None:
    """The key that a copy was made of; None for what is no copy."""
    if not copy.startswith(QUARANTINE):
        return None
    match = _NAMED.fullmatch(copy.removeprefix(QUARANTINE))
    return None if match is None else match["original"]


def copies_below(client: S3Client, bucket: str, prefix: str) -> Iterator[list[Copy]]:
    """The copies of keys that begin so, a page at a time.

    Raises:
        ClientError, BotoCoreError: The listing failed; what came before is no complete answer.
    """
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix=QUARANTINE + prefix
    )
    for page in pages:
        yield [
            Copy(
                entry["Key"],
                original,
                without_quotes(entry.get("ETag", "")),
                entry.get("Size", 0),
                entry["LastModified"],
            )
            for entry in page.get("Contents", [])
            if (original := original_of(entry["Key"])) is not None
        ]


def copies_of(client: S3Client, bucket: str, key: str) -> list[Copy]:
    """The copies of a key, the newest first.

    Raises:
        ClientError, BotoCoreError: The listing failed.
    """
    copies = (it for page in copies_below(client, bucket, f"{key}~") for it in page)
    return sorted((it for it in copies if it.original == key), key=lambda it: it.since)[::-1]


class _IsThere(Exception):
    """Where something was to come back, something is."""


class Copying:
    """Copies objects of one bucket, and believes nothing before it has looked at the copy."""

    def __init__(
        self, client: S3Client, bucket: str, *, largest: int = LARGEST_COPY, part: int = PART
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: From `make_client`.
            bucket: The bucket's name.
            largest: Bytes that go in one request.
            part: Bytes of a part of what is larger.
        """
        self._client = client
        self._bucket = bucket
        self._largest = largest
        self._part = part
        self._conditional: bool | None = None

    # Into quarantine --------------------------------------------------------------------------

    def set_aside(self, ours: Sequence[tuple[str, Expected]]) -> dict[str, Verdict]:
        """Copy some objects, and verify each copy.

        Returns:
            The keys without a verified copy, and why: they may not be deleted.

        Raises:
            StorageRejected: No request can succeed.
        """
        orphans = dict(ours)
        verdicts: dict[str, Verdict] = {}
        wanted: dict[str, tuple[Stored, str]] = {}
        for key, it in self._look(list(orphans)).items():
            verdict = _why_not(orphans[key], it)
            if verdict is None and isinstance(it, Stored):
                copy = key_of_copy(key, it)
                if len(copy.encode()) > MOST_KEY_BYTES:
                    verdict = Verdict(Fate.KEPT, TOO_LONG)
                else:
                    wanted[key] = (it, copy)
            if verdict is not None:
                verdicts[key] = verdict
        failed = self._copy_all({key: (copy, it) for key, (it, copy) in wanted.items()})
        verdicts |= {
            key: Verdict(Fate.FAILED, f"it could not be copied into quarantine: {why}", why.code)
            for key, why in failed.items()
        }
        unverified = self._differing(
            {key: (copy, it) for key, (it, copy) in wanted.items() if key not in failed}
        )
        return verdicts | {
            key: Verdict(Fate.FAILED, f"its copy in quarantine is not the same: {why}")
            for key, why in unverified.items()
        }

    # And back ---------------------------------------------------------------------------------

    def bring_back(self, copies: Sequence[Copy]) -> list[Return]:
        """Copy some of them back to where nothing is now; the copies stay until they expire.

        Raises:
            StorageRejected: No request can succeed.
        """
        if not copies:
            return []
        by_key = {copy.original: copy for copy in copies}
        there = self._look(list(by_key))
        stored = self._look([copy.key for copy in by_key.values()])
        ends: dict[str, Return] = {}
        wanted: dict[str, tuple[str, Stored]] = {}
        for key, copy in by_key.items():
            kept = stored[copy.key]
            end = _end_before(key, there[key], kept)
            if end is not None:
                ends[key] = end
            elif isinstance(kept, Stored):
                wanted[copy.key] = (key, kept)
        if wanted and self._conditional is None:
            self._conditional = self._obeys_condition(next(iter(wanted)))
        failed = self._copy_all(wanted, only_new=True)
        unverified = self._differing(
            {name: pair for name, pair in wanted.items() if name not in failed}
        )
        for name, (key, it) in wanted.items():
            if name in unverified:
                ends[key] = Return(key, "failed", f"it is not the same: {unverified[name]}")
            elif name not in failed:
                looked = not self._conditional
                ends[key] = Return(key, "restored", size=it.size, only_looked=looked)
            elif failed[name].code in CONDITION_NOT_MET:
                ends[key] = Return(key, "is there")
            else:
                ends[key] = Return(key, "failed", str(failed[name]))
        return [ends[key] for key in by_key]

    def _obeys_condition(self, copy: str) -> bool:
        """Whether the server refuses to write where something is, tried on a copy and itself.

        Written upon itself with all it has, a copy is what it was, if the server does not obey.
        """
        try:
            self._client.copy_object(
                Bucket=self._bucket,
                Key=copy,
                CopySource={"Bucket": self._bucket, "Key": copy},
                IfNoneMatch="*",
            )
        except ClientError as error:
            return described(error).code in CONDITION_NOT_MET or status_of(error) == (
                HTTPStatus.PRECONDITION_FAILED
            )
        except Exception as error:
            raise rejected(self._bucket, error) from error
        return False

    # Looking ----------------------------------------------------------------------------------

    def _look(self, keys: Sequence[str]) -> dict[str, Stored | Absent | StorageError]:
        seen = ask_each(self._client, self._bucket, [Target(key) for key in keys], _stored)
        if any(isinstance(it, Absent) for it in seen.values()):
            require_bucket(self._client, self._bucket)
        return {target.key: it for target, it in seen.items()}

    # Copying ----------------------------------------------------------------------------------

    def _copy_all(
        self, wanted: Mapping[str, tuple[str, Stored]], *, only_new: bool = False
    ) -> dict[str, StorageError]:
        """Copy each source to its target; why not, for those that could not be copied."""
        if not wanted:
            return {}

        def one(source: str) -> StorageError | None:
            target, it = wanted[source]
            try:
                self._copy(source, target, it, only_new=only_new)
            except _IsThere:
                return storage_error("PreconditionFailed", "it is there by now")
            except ClientError as error:
                if concerns_every_request(error):
                    raise rejected(self._bucket, error) from error
                return described(error)
            except Exception as error:
                raise rejected(self._bucket, error) from error
            return None

        with ThreadPoolExecutor(min(THREADS, len(wanted))) as pool:
            try:
                ends = list(pool.map(one, wanted))
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return {key: why for key, why in zip(wanted, ends, strict=True) if why is not None}

    def _copy(self, source: str, target: str, it: Stored, *, only_new: bool) -> None:
        more: dict[str, Any] = {}
        if it.etag:
            more["CopySourceIfMatch"] = f'"{strong(it.etag)}"'
        only: dict[str, Any] = {"IfNoneMatch": "*"} if only_new and self._conditional else {}
        part = self._part_of(source, it)
        if part is not None:
            self._copy_parts(source, target, it, part, more, only, only_new=only_new)
            return
        if only_new:
            self._require_nothing(target)
        if it.storage_class is not None:
            only["StorageClass"] = it.storage_class
        self._client.copy_object(
            Bucket=self._bucket,
            Key=target,
            CopySource={"Bucket": self._bucket, "Key": source},
            **more,
            **only,
            **it.encryption,
        )

    def _require_nothing(self, target: str) -> None:
        """Look once more where the server ignores the condition: what was seen may be seconds old.

        Raises:
            _IsThere: Somebody has written it by now.
            ClientError: Whether it is there is not known.
        """
        if self._conditional:
            return
        try:
            self._client.head_object(Bucket=self._bucket, Key=target)
        except ClientError as error:
            if status_of(error) == HTTPStatus.NOT_FOUND:
                return
            raise
        raise _IsThere

    def _part_of(self, source: str, it: Stored) -> int | None:
        """Bytes of a part, or None for a copy in one request.

        What was written in parts keeps its ETag only when it is cut where it was.
        """
        if "-" in it.etag and it.size > 0:
            try:
                first = self._client.head_object(Bucket=self._bucket, Key=source, PartNumber=1)
            except ClientError as error:
                if concerns_every_request(error):
                    raise
                first = None
            size = 0 if first is None else first.get("ContentLength", 0)
            parts = 0 if first is None else first.get("PartsCount", 0)
            if parts and 0 < size <= LARGEST_COPY and -(-it.size // size) == parts:
                return size
        if it.size <= self._largest:
            return None
        return max(self._part, -(-it.size // MOST_PARTS))

    def _copy_parts(
        self,
        source: str,
        target: str,
        it: Stored,
        part: int,
        more: Mapping[str, Any],
        only: Mapping[str, Any],
        *,
        only_new: bool,
    ) -> None:
        """A copy in parts says itself what it holds: nothing of the original's comes by itself."""
        tags = self._tags(source) if it.tags else []
        whole: dict[str, Any] = {**it.headers, **it.encryption, "Metadata": dict(it.metadata)}
        if it.storage_class is not None:
            whole["StorageClass"] = it.storage_class
        begun = self._client.create_multipart_upload(Bucket=self._bucket, Key=target, **whole)
        upload: Any = {"Bucket": self._bucket, "Key": target, "UploadId": begun["UploadId"]}
        try:
            parts: list[Any] = []
            for number, start in enumerate(range(0, it.size, part), start=1):
                end = min(start + part, it.size) - 1
                answer = self._client.upload_part_copy(
                    **upload,
                    PartNumber=number,
                    CopySource={"Bucket": self._bucket, "Key": source},
                    CopySourceRange=f"bytes={start}-{end}",
                    **more,
                )
                etag = answer["CopyPartResult"]["ETag"]
                parts.append({"PartNumber": number, "ETag": etag})
            if only_new:
                self._require_nothing(target)
            self._client.complete_multipart_upload(
                **upload, MultipartUpload={"Parts": parts}, **only
            )
        except BaseException:
            self._abort(upload)
            raise
        if tags:
            # Ceph forgets those that an upload of parts begins with.
            tag_set: Any = [{"Key": name, "Value": value} for name, value in tags]
            self._client.put_object_tagging(
                Bucket=self._bucket, Key=target, Tagging={"TagSet": tag_set}
            )

    def _abort(self, upload: Any) -> None:
        """What is left of it otherwise, the next purge finds below the prefix."""
        try:
            self._client.abort_multipart_upload(**upload)
        except Exception:  # noqa: BLE001 (the first failure is the one to tell)
            return

    def drop_unfinished(self, prefix: str, before: datetime) -> int:
        """Abort copies in parts that began before a moment; how many there were.

        Raises:
            ClientError, BotoCoreError: Storage would not say, or not do it.
        """
        pages = self._client.get_paginator("list_multipart_uploads").paginate(
            Bucket=self._bucket, Prefix=QUARANTINE + prefix
        )
        old = [it for page in pages for it in page.get("Uploads", []) if it["Initiated"] < before]
        for it in old:
            self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=it["Key"], UploadId=it["UploadId"]
            )
        return len(old)

    # Verifying --------------------------------------------------------------------------------

    def _differing(self, pairs: Mapping[str, tuple[str, Stored]]) -> dict[str, str]:
        """Look at the targets, and say of each source what its target has not, if anything."""
        if not pairs:
            return {}
        seen = self._look([target for target, _ in pairs.values()])

        def one(source: str) -> str | None:
            target, it = pairs[source]
            there = seen[target]
            if not isinstance(there, Stored):
                return "it is not there" if isinstance(there, Absent) else str(there)
            try:
                return self._difference(source, it, target, there)
            except ClientError as error:
                if concerns_every_request(error):
                    raise rejected(self._bucket, error) from error
                return str(described(error))
            except Exception as error:
                raise rejected(self._bucket, error) from error

        with ThreadPoolExecutor(min(THREADS, len(pairs))) as pool:
            ends = list(pool.map(one, pairs))
        return {key: why for key, why in zip(pairs, ends, strict=True) if why is not None}

    def _difference(self, source: str, it: Stored, target: str, there: Stored) -> str | None:
        if there.size != it.size:
            return f"its size is {there.size:,}, of {it.size:,} bytes"
        for name in _HEADERS:
            if it.headers.get(name) != there.headers.get(name):
                return f"its {name} differs"
        if it.encryption != there.encryption or it.metadata != there.metadata:
            same_key = it.encryption == there.encryption
            return "its metadata differ" if same_key else "its encryption differs"
        if (it.tags or there.tags) and sorted(self._tags(source)) != sorted(self._tags(target)):
            return "its tags differ"
        if agreement(it.etag, there.etag) == "same":
            return None
        return None if self._same_bytes(source, target) else "its bytes differ"

    def _same_bytes(self, source: str, target: str) -> bool:
        """For ETags that say nothing of the bytes: by the checksums, or else by reading both."""
        one, other = self._checksums(source), self._checksums(target)
        if common := one.keys() & other.keys():
            return all(one[name] == other[name] for name in common)
        return self._digest(source) == self._digest(target)

    def _checksums(self, key: str) -> dict[str, str]:
        answer: Mapping[str, Any] = self._client.head_object(
            Bucket=self._bucket, Key=key, ChecksumMode="ENABLED"
        )
        # One that was made of those of parts says nothing of bytes that were cut otherwise.
        return {
            name: value
            for name, value in answer.items()
            if name.startswith("Checksum") and name != "ChecksumType" and "-" not in value
        }

    def _digest(self, key: str) -> bytes:
        body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"]
        digest = hashlib.sha256()
        for chunk in body.iter_chunks(_READ_AT_ONCE):
            digest.update(chunk)
        return digest.digest()

    def _tags(self, key: str) -> list[tuple[str, str]]:
        answer = self._client.get_object_tagging(Bucket=self._bucket, Key=key)
        # Of an object without any, Ceph leaves the set out.
        return [(tag["Key"], tag["Value"]) for tag in answer.get("TagSet") or ()]


def _why_not(orphan: Expected, it: Stored | Absent | StorageError) -> Verdict | None:
    """Why an object is not even copied; None when it is the one that was judged."""
    if isinstance(it, Absent):
        return Verdict(Fate.ALREADY_GONE)
    if isinstance(it, StorageError):
        return Verdict(Fate.UNSEEN, str(it), it.code)
    same = compare(as_expected(orphan), found(it, it.version))
    if same.same:
        return None
    fate = Fate.CHANGED if same.word == "another" else Fate.UNDECIDED
    return Verdict(fate, same.why, version=it.version if fate is Fate.UNDECIDED else None)


def _end_before(
    key: str, now: Stored | Absent | StorageError, kept: Stored | Absent | StorageError
) -> Return | None:
    """What becomes of a key without a copy back; None when there is to be one."""
    if isinstance(now, Stored):
        return Return(key, "is there")
    if isinstance(now, StorageError):
        return Return(key, "failed", f"whether it is there is not known: {now}")
    if isinstance(kept, StorageError):
        return Return(key, "failed", f"its copy cannot be read: {kept}")
    return Return(key, "gone") if isinstance(kept, Absent) else None


def _stored(answer: HeadObjectOutputTypeDef) -> Stored:
    said: Mapping[str, Any] = answer
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return Stored(
        etag=without_quotes(answer.get("ETag", "")),
        size=answer.get("ContentLength", 0),
        modified=answer.get("LastModified"),
        version=answer.get("VersionId"),
        headers={name: said[name] for name in _HEADERS if said.get(name) is not None},
        metadata=answer.get("Metadata", {}),
        tags=int(headers.get("x-amz-tagging-count") or 0),
        storage_class=said.get("StorageClass"),
        encryption={name: said[name] for name in _ENCRYPTION if said.get(name) is not None}
        if str(said.get("ServerSideEncryption")).startswith("aws:kms")
        else {},
    )
