"""Lists the multipart uploads of a bucket that nobody finished: page by page, with both markers.

`MultipartUpload` is one of them, as the server lists it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.listing.page import ListingFailed, Spelling, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ListMultipartUploadsOutputTypeDef, MultipartUploadTypeDef

# How a server spells the keys of multipart uploads, learnt from the server itself.
#
# `EncodingType=url` is asked for, because XML cannot carry every key. AWS then writes a space as
# `+`; Ceph 16 writes `%20`, and does not say that it spelled the keys at all; others ignore the
# request. An upload that is read wrongly would be looked for under another key and taken for
# gone, so where the readings differ, the server is asked which uploads it has below each of them.

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

MOST_QUESTIONS = 5
"""Uploads asked for in vain before giving up: one may have ended since it was listed."""


class SpellingOfUploads:
    """Reads the keys of one listing, and narrows down what they can mean."""

    def __init__(self, has: Callable[[bytes, str], bool]) -> None:
        """Know nothing yet.

        Args:
            has: Whether the server lists the upload of this id below that prefix.
        """
        self._has = has
        self._possible = list(Spelling)
        self._in_vain = 0

    def read(self, text: bytes, upload_id: str, *, url_encoded: bool) -> bytes | None:
        """The key that is meant, or None when the upload has ended meanwhile.

        Args:
            text: As spelled.
            upload_id: Of the upload.
            url_encoded: Whether the server said that it spelled the keys for URLs.

        Raises:
            ListingFailed: It is not spelled as the server says, or its meaning stays unclear.
        """
        if b"%" not in text and b"+" not in text:
            return text
        possible = self._possible_of(text, url_encoded=url_encoded)
        readings = {spelling.read(text) for spelling in possible}
        if len(readings) == 1:
            return readings.pop()
        # Where one reading begins with another, an upload below the longer one is of no other.
        meant = max((it for it in readings if self._has(it, upload_id)), key=len, default=None)
        if meant is None:
            self._in_vain += 1
            if self._in_vain >= MOST_QUESTIONS:
                raise ListingFailed(
                    f"The server lists a multipart upload of {shown(text)}, and which key that is "
                    "cannot be learnt: asked for what it can mean, the server has no such upload. "
                    "It must support `encoding-type=url`."
                )
            return None
        self._in_vain = 0
        self._possible = [it for it in self._possible if it.read(text) == meant]
        return meant

    def _possible_of(self, text: bytes, *, url_encoded: bool) -> list[Spelling]:
        bad = _BAD_ESCAPE.search(text) is not None
        if url_encoded and bad:
            raise ListingFailed(
                f"The server says that it spells keys for URLs, and lists {shown(text)}, which is "
                "not."
            )
        excluded = {Spelling.AS_IT_IS} if url_encoded else set()
        if bad:
            excluded |= {Spelling.PERCENT, Spelling.FORM}
        possible = [it for it in self._possible if it not in excluded]
        if not possible:
            raise ListingFailed(
                f"The server spells {shown(text)} in another way than the keys before it."
            )
        return possible


# Answers about multipart uploads, before botocore parses them.
#
# Servers repeat in them what they were asked for, and Ceph 16 writes a key there as it is, also
# with characters that no XML can carry: the answer then cannot be parsed at all. None of it is
# needed.

# Without a key there is nothing to go on from; the last upload of a page serves as well.
_OF_UPLOADS = re.compile(
    rb"<(NextKeyMarker|KeyMarker|Prefix)>.*?</\1>|<(?:NextKeyMarker|KeyMarker|Prefix)\s*/>",
    re.DOTALL,
)
_OF_PARTS = re.compile(rb"<Key>.*?</Key>", re.DOTALL)


def leave_out_echoes(client: S3Client) -> None:
    """Let this client's answers be parsed without what they repeat; a second call does nothing."""
    # botocore asks handlers of these names before those of `s3.*`, one of which parses every body.
    for operation, handler in (
        ("ListMultipartUploads", _without_markers),
        ("ListParts", _without_key),
    ):
        client.meta.events.register_first(
            f"before-parse.*.{operation}", handler, unique_id=f"filejobs-{operation}"
        )


def _without_markers(response_dict: dict[str, Any], **_event: object) -> None:
    _leave_out(_OF_UPLOADS, response_dict)


def _without_key(response_dict: dict[str, Any], **_event: object) -> None:
    _leave_out(_OF_PARTS, response_dict)


def _leave_out(echoes: re.Pattern[bytes], response_dict: dict[str, Any]) -> None:
    # An answer that is an error may carry a key that says which; it is read as it is.
    if response_dict["status_code"] == HTTPStatus.OK:
        response_dict["body"] = echoes.sub(b"", response_dict["body"])


# A multipart upload as the server lists it.

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class MultipartUpload:
    """An upload that was neither completed nor aborted.

    Attributes:
        key: The key that the object would have; what is no UTF-8 stands as surrogates.
        upload_id: The server's name for it.
        initiated: When it began; None when the server did not say.
    """

    key: str
    upload_id: str
    initiated: datetime | None


def known_date(said: datetime | None) -> datetime | None:
    """What a server said of a time, or None where it means that it does not know: none, or zero."""
    return None if said is None or said <= _EPOCH else said


PAGE = 1000
"""Uploads in a page: the most that S3 gives."""


def list_uploads(
    client: S3Client, bucket: str, prefix: str, *, page: int = PAGE
) -> Iterator[MultipartUpload]:
    """Every multipart upload below a prefix that was neither completed nor aborted.

    One page at a time is held. What begins while it is read may be missing; so may what ends.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        prefix: What the keys begin with; "" for the whole bucket.
        page: Uploads asked for at a time.

    Yields:
        In the server's order. A server may have forgotten an upload that still has parts.

    Raises:
        ListingFailed: A page is missing, or the pages do not add up. What was yielded before is
            there all the same.
    """
    return _Uploads(client, bucket, prefix, page).each()


class _Uploads:
    def __init__(self, client: S3Client, bucket: str, prefix: str, page: int) -> None:
        self._client = client
        self._bucket = bucket
        self._prefix = prefix
        self._page = page
        self._spelling = SpellingOfUploads(self._has)
        # An upload seen on an earlier page: seen once more, the listing goes round in circles.
        self._landmark: str | None = None
        self._pages = 0
        leave_out_echoes(client)

    def each(self) -> Iterator[MultipartUpload]:
        markers: dict[str, Any] = {}
        while True:
            answer = self._ask(self._prefix, self._page, markers)
            entries = answer.get("Uploads", [])
            self._refuse_circles(entries)
            last: tuple[bytes, str] | None = None
            for entry in entries:
                key = self._read(entry, answer)
                if key is None:
                    continue
                last = key, entry["UploadId"]
                if not key.startswith(self._prefix.encode()):
                    raise ListingFailed(
                        f"Asked for multipart uploads below {self._prefix!r}, the server lists one "
                        f"of {shown(key)}."
                    )
                yield MultipartUpload(
                    key.decode("utf-8", "surrogateescape"),
                    entry["UploadId"],
                    known_date(entry.get("Initiated")),
                )
            if not answer["IsTruncated"]:
                return
            markers = self._behind(last)

    def _read(
        self, entry: MultipartUploadTypeDef, answer: ListMultipartUploadsOutputTypeDef
    ) -> bytes | None:
        return self._spelling.read(
            entry["Key"].encode(),
            entry["UploadId"],
            url_encoded=str(answer.get("EncodingType", "")).lower() == "url",
        )

    def _behind(self, last: tuple[bytes, str] | None) -> dict[str, Any]:
        """Where the next page begins: behind the last upload of this one.

        Not behind NextKeyMarker: servers spell that in a way of their own, and Ceph 16 writes it
        as it is, which XML cannot always carry.
        """
        if last is None:
            raise ListingFailed(
                f"Below {self._prefix!r} the server says that there are more multipart uploads, "
                "and gives none from where to go on."
            )
        key, upload_id = last
        try:
            return {"KeyMarker": key.decode("utf-8"), "UploadIdMarker": upload_id}
        except UnicodeDecodeError as error:
            raise ListingFailed(
                f"The server lists a multipart upload of {shown(key)}, which is no UTF-8, and so "
                "cannot be asked what follows it."
            ) from error

    def _refuse_circles(self, entries: list[MultipartUploadTypeDef]) -> None:
        self._pages += 1
        if any(entry["UploadId"] == self._landmark for entry in entries):
            raise ListingFailed(
                f"The server lists the multipart uploads below {self._prefix!r} in circles: it "
                "does not understand key-marker and upload-id-marker."
            )
        if entries and self._pages & (self._pages - 1) == 0:
            self._landmark = entries[-1]["UploadId"]

    def _has(self, prefix: bytes, upload_id: str) -> bool:
        try:
            text = prefix.decode("utf-8")
        except UnicodeDecodeError:
            return False
        answer = self._ask(text, PAGE, {})
        return any(entry["UploadId"] == upload_id for entry in answer.get("Uploads", []))

    def _ask(
        self, prefix: str, page: int, markers: dict[str, Any]
    ) -> ListMultipartUploadsOutputTypeDef:
        try:
            answer = self._client.list_multipart_uploads(
                Bucket=self._bucket,
                Prefix=prefix,
                EncodingType="url",
                MaxUploads=page,
                **markers,
            )
        except Exception as error:
            raise ListingFailed(
                f"The multipart uploads of bucket {self._bucket!r} below {prefix!r} were not "
                f"listed: {described(error)}. It takes s3:ListBucketMultipartUploads on the "
                "bucket; see what `filejobs doctor` says of it."
            ) from error
        # A body that holds nothing is read as an answer in which everything is missing.
        if answer.get("IsTruncated") is None:
            raise ListingFailed(
                f"The listing of the multipart uploads of bucket {self._bucket!r} does not say "
                "whether there is more: it was cut off, or something else answered."
            )
        return answer
