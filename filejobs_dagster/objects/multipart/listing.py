"""Lists the multipart uploads of a bucket that nobody finished: page by page, with both markers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.listing.failure import ListingFailed, shown
from filejobs_dagster.objects.multipart.bodies import leave_out_echoes
from filejobs_dagster.objects.multipart.spelling import SpellingOfUploads
from filejobs_dagster.objects.multipart.upload import MultipartUpload, known_date

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import (
        ListMultipartUploadsOutputTypeDef,
        MultipartUploadTypeDef,
    )

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
