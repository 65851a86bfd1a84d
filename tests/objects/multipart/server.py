"""An S3 server on the loopback address that knows multipart uploads, as strict as a test wants it.

It can do what no server that starts here can be brought to do: keep parts after an abort, let one
arrive later, forget an upload and keep its parts, list two uploads of one key on two pages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Literal
from urllib.parse import parse_qs, quote, quote_plus, unquote, urlsplit
from xml.sax.saxutils import escape

from tests.objects.scripted import XML, Answer, Request, errors

Hook = Callable[[Request], "Answer | None"]

NOW = datetime.now(timezone.utc)


@dataclass
class Part:
    size: int
    modified: datetime | None
    etag: str = '"etag"'


@dataclass
class Upload:
    """One upload.

    Attributes:
        key: Of the object.
        initiated: None leaves it out of the listing.
        parts: By number.
        stubborn: So many aborts leave its parts as they are.
        late: Parts that arrive right after an abort that took the others, one an abort.
        listed: False when the server has forgotten it.
    """

    key: str
    initiated: datetime | None
    parts: dict[int, Part] = field(default_factory=dict)
    stubborn: int = 0
    late: list[Part] = field(default_factory=list)
    listed: bool = True


class MultipartServer:
    """The script of a `ScriptedS3`: its state, and its answers.

    Attributes:
        uploads: By id.
        objects: Bodies by key.
        written: When those came that came by a PUT.
        spelling: `aws` spells a space as a plus and says so, `ceph` spells for URLs and does not
            say so, `plain` spells nothing.
        most: Uploads or parts of a page.
        hooks: Asked in order before anything else; an answer of theirs is the answer.
        lifecycle: The body of the answer to a question for the lifecycle; None for no lifecycle.
        ignores_markers: True to answer every question with the first page.
    """

    def __init__(self) -> None:
        self.uploads: dict[str, Upload] = {}
        self.objects: dict[str, bytes] = {}
        self.written: dict[str, datetime] = {}
        self.spelling: Literal["aws", "ceph", "plain"] = "aws"
        self.most = 1000
        self.hooks: list[Hook] = []
        self.lifecycle: str | None = None
        self.ignores_markers = False

    def begin(
        self,
        key: str,
        *sizes: int,
        idle: timedelta = timedelta(days=30),
        age: timedelta | None = None,
        upload_id: str | None = None,
    ) -> str:
        """An upload with parts of these sizes; returns its id."""
        upload_id = upload_id or f"id-{len(self.uploads):07}"
        self.uploads[upload_id] = Upload(
            key,
            NOW - (idle if age is None else age),
            {
                number: Part(size, NOW - idle, f'"{upload_id}-{number}"')
                for number, size in enumerate(sizes, start=1)
            },
        )
        return upload_id

    def __call__(self, request: Request) -> Answer:
        for hook in self.hooks:
            answer = hook(request)
            if answer is not None:
                return answer
        url = urlsplit(request.path)
        _, _, rest = url.path.lstrip("/").partition("/")
        key = unquote(rest, errors="surrogateescape")
        query = {
            name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()
        }
        if not key:
            return self._of_bucket(request, query)
        if "uploadId" in query:
            return self._of_upload(request.method, key, query)
        return self._of_object(request, key)

    # Bucket and objects -------------------------------------------------------------------------

    def _of_bucket(self, request: Request, query: dict[str, str]) -> Answer:
        if "uploads" in query:
            return self._list_uploads(query)
        if "lifecycle" in query:
            if self.lifecycle is None:
                return Answer(404, errors("NoSuchLifecycleConfiguration"))
            return Answer(body=self.lifecycle)
        if request.method == "HEAD":
            return Answer(200)
        if query.get("list-type") == "2":
            return self._list_objects(query.get("prefix", ""))
        return Answer(501, errors("NotImplemented"))

    def _list_objects(self, prefix: str) -> Answer:
        """Those that were put, all on one page: in these tests no more than the marker."""
        found = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(body)}</Size>"
            f"<LastModified>{self._when(key)}</LastModified>"
            f"<ETag>{escape(etag_of(body))}</ETag></Contents>"
            for key, body in sorted(self.objects.items())
            if key.startswith(prefix)
        )
        return Answer(
            200,
            f"{XML}<ListBucketResult><IsTruncated>false</IsTruncated>"
            f"<EncodingType>url</EncodingType>{found}</ListBucketResult>",
        )

    def _when(self, key: str) -> str:
        return f"{self.written.get(key, NOW):%Y-%m-%dT%H:%M:%S.000Z}"

    def _of_object(self, request: Request, key: str) -> Answer:
        known = self.objects.get(key)
        if request.method == "PUT":
            if "if-none-match" in request.headers and known is not None:
                return Answer(412, errors("PreconditionFailed"))
            wanted = request.headers.get("if-match")
            if wanted is not None and (known is None or wanted != etag_of(known)):
                return Answer(412, errors("PreconditionFailed"))
            body = request.body
            if "aws-chunked" in request.headers.get("content-encoding", ""):
                body = body.split("\r\n", 2)[1]
            self.objects[key] = body.encode()
            self.written[key] = datetime.now(timezone.utc)
            return Answer(200, headers={"ETag": etag_of(self.objects[key])})
        if known is None:
            return Answer(404, errors("NoSuchKey"))
        headers = {"ETag": etag_of(known)}
        if key in self.written:
            headers["Last-Modified"] = format_datetime(self.written[key], usegmt=True)
        return Answer(200, known.decode(), headers)

    # Uploads ------------------------------------------------------------------------------------

    def _list_uploads(self, query: dict[str, str]) -> Answer:
        most = min(int(query.get("max-uploads", self.most)), self.most)
        after = (query.get("key-marker", ""), query.get("upload-id-marker", ""))
        if self.ignores_markers:
            after = ("", "")
        listed = sorted(
            (upload.key, upload_id)
            for upload_id, upload in self.uploads.items()
            if upload.listed and upload.key.startswith(query.get("prefix", ""))
        )
        behind = [entry for entry in listed if after == ("", "") or entry > after]
        page = behind[:most]
        said = query.get("encoding-type") == "url" and self.spelling == "aws"
        parts = [f"<IsTruncated>{str(len(behind) > most).lower()}</IsTruncated>"]
        if said:
            parts.append("<EncodingType>url</EncodingType>")
        if page:
            # As Ceph 16 has it, which no XML parser reads where the key holds a control character.
            marker = page[-1][0] if self.spelling == "ceph" else self._spelled(page[-1][0])
            parts.append(f"<NextKeyMarker>{escape(marker)}</NextKeyMarker>")
            parts.append(f"<NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>")
        for key, upload_id in page:
            initiated = self.uploads[upload_id].initiated
            since = "" if initiated is None else f"<Initiated>{initiated.isoformat()}</Initiated>"
            parts.append(
                f"<Upload><Key>{escape(self._spelled(key))}</Key>"
                f"<UploadId>{upload_id}</UploadId>{since}</Upload>"
            )
        root = "ListMultipartUploadsResult"
        return Answer(body=f"{XML}<{root}>{''.join(parts)}</{root}>")

    def _spelled(self, key: str) -> str:
        if self.spelling == "plain":
            return key
        return quote_plus(key, safe="/") if self.spelling == "aws" else quote(key, safe="/")

    def _of_upload(self, method: str, key: str, query: dict[str, str]) -> Answer:
        upload = self.uploads.get(query["uploadId"])
        if upload is None or upload.key != key:
            return Answer(404, errors("NoSuchUpload"))
        if method == "DELETE":
            return self._abort(query["uploadId"], upload)
        return self._list_parts(upload, query)

    def _abort(self, upload_id: str, upload: Upload) -> Answer:
        if upload.stubborn:
            upload.stubborn -= 1
        else:
            upload.parts.clear()
            if upload.late:
                upload.parts[9] = upload.late.pop(0)
            else:
                del self.uploads[upload_id]
        return Answer(204)

    def _list_parts(self, upload: Upload, query: dict[str, str]) -> Answer:
        after = int(query.get("part-number-marker", 0))
        behind = [number for number in sorted(upload.parts) if number > after]
        page = behind[: self.most]
        said = [
            f"<Key>{escape(upload.key)}</Key>",
            f"<IsTruncated>{str(len(behind) > len(page)).lower()}</IsTruncated>",
        ]
        if page:
            said.append(f"<NextPartNumberMarker>{page[-1]}</NextPartNumberMarker>")
        for number in page:
            part = upload.parts[number]
            modified = (
                ""
                if part.modified is None
                else f"<LastModified>{part.modified.isoformat()}</LastModified>"
            )
            said.append(
                f"<Part><PartNumber>{number}</PartNumber><ETag>{escape(part.etag)}</ETag>"
                f"<Size>{part.size}</Size>{modified}</Part>"
            )
        return Answer(body=f"{XML}<ListPartsResult>{''.join(said)}</ListPartsResult>")


def etag_of(body: bytes) -> str:
    return f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


def is_abort(request: Request) -> bool:
    return request.method == "DELETE" and "uploadId=" in request.path


def is_listing_of_parts(request: Request) -> bool:
    return request.method == "GET" and "uploadId=" in request.path


def is_listing(request: Request) -> bool:
    return request.method == "GET" and "uploadId=" not in request.path and "uploads" in request.path
