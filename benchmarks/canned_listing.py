"""A bucket of millions of objects that costs next to nothing to list, to measure its client.

Every object is a line of arithmetic, and the folders are alike: the pages of one are rendered once,
and serve for all when each holds a multiple of a thousand objects. The answers are exact for any
prefix, any `start-after`, `marker` and any token, so that a client may split its work as it likes.
Whatever else it is asked it refuses, so that no client measures a listing that lacks something.

`python -m benchmarks.canned_listing OBJECTS FOLDERS [MILLISECONDS]` prints its address as one line,
serves the bucket `canned`, holding each answer back for so long, and ends when its standard input
closes. The keys are `files/FF/NNNNNNNNNNNN-<32 hexadecimal digits>.bin`, the same at each start.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import overload
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

LOOPBACK = "127.0.0.1"
BUCKET = "canned"
PAGE = 1000
SIZE = 12_345
PAGES_KEPT = 2_000

_ENTRY = (
    "<Contents><Key>{key}</Key><LastModified>2021-0{month}-1{day}T12:{minute:02}:56.123Z"
    "</LastModified><ETag>&quot;{etag}&quot;</ETag><Size>{size}</Size>"
    "<StorageClass>STANDARD</StorageClass></Contents>"
)
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_HEAD = (
    _DECLARATION + "<ListBucketResult " + _NAMESPACE + "><Name>{bucket}</Name>"
    "<Prefix>{prefix}</Prefix>{encoding}<MaxKeys>{limit}</MaxKeys>"
    "{count}<IsTruncated>{truncated}</IsTruncated>{token}"
)
_EMPTY = {
    "location": "LocationConstraint",
    "versioning": "VersioningConfiguration",
}
"""What a bucket answers that lies in the first region and keeps no versions."""

_UNDERSTOOD = frozenset(
    {
        "continuation-token",
        "encoding-type",
        "fetch-owner",
        "list-type",
        "marker",
        "max-keys",
        "prefix",
        "start-after",
        "x-id",
    }
)


class Keys(Sequence[bytes]):
    """All keys in the order of their bytes, none of them in memory."""

    def __init__(self, objects: int, folders: int) -> None:
        """Spread the objects evenly over the folders."""
        self.each = -(-objects // folders)
        self._objects = objects

    def __len__(self) -> int:
        """How many there are."""
        return self._objects

    @overload
    def __getitem__(self, place: int) -> bytes: ...
    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...
    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        """The key at a place."""
        if isinstance(place, slice):
            return [self[number] for number in range(*place.indices(len(self)))]
        if not 0 <= place < self._objects:
            raise IndexError(place)
        folder, number = divmod(place, self.each)
        digest = hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest()
        return f"files/{folder:02x}/{number:012d}-{digest}.bin".encode()


class Bucket:
    """Answers ListObjectsV2, the ListObjects that came before it, and what clients ask first."""

    def __init__(self, keys: Keys) -> None:
        """Serve these keys, which need no escaping in a URL or in XML."""
        self._keys = keys
        self._of_first_folder = lru_cache(PAGES_KEPT)(self._rendered)

    def respond(self, method: str, path: str, query: dict[str, str]) -> tuple[HTTPStatus, bytes]:
        """Answer one request: status and body.

        Args:
            method: In capitals.
            path: Decoded, with its slash in front.
            query: Parameters; those without a value are empty strings.
        """
        bucket, _, key = path[1:].partition("/")
        if bucket != BUCKET or (method == "HEAD" and key):
            return HTTPStatus.NOT_FOUND, _error("NoSuchKey" if key else "NoSuchBucket")
        if method == "HEAD":
            return HTTPStatus.OK, b""
        for name, root in _EMPTY.items():
            if name in query:
                return HTTPStatus.OK, f"{_DECLARATION}<{root} {_NAMESPACE}/>".encode()
        asked_for_folders = query.pop("delimiter", "")
        if method != "GET" or key or asked_for_folders or not _UNDERSTOOD.issuperset(query):
            return HTTPStatus.NOT_IMPLEMENTED, _error("NotImplemented")
        return HTTPStatus.OK, self.answer(query)

    def answer(self, query: dict[str, str]) -> bytes:
        """The body of a page."""
        prefix = query.get("prefix", "").encode()
        second = query.get("list-type") == "2"
        limit = min(int(query.get("max-keys", PAGE)), PAGE)
        begin = bisect_left(self._keys, prefix)
        end = bisect_left(self._keys, prefix + b"\xff") if prefix else len(self._keys)
        place = (
            query.get("continuation-token") or query.get("start-after")
            if second
            else query.get("marker")
        )
        if place:
            begin = max(begin, bisect_right(self._keys, place.encode()))
        last = min(begin + limit, end)
        token = ""
        if last < end:
            name = self._keys[last - 1].decode()
            tag = "NextContinuationToken" if second else "NextMarker"
            token = f"<{tag}>{name}</{tag}>"
        head = _HEAD.format(
            bucket=BUCKET,
            prefix=escape(prefix.decode()),
            encoding="<EncodingType>url</EncodingType>" if query.get("encoding-type") else "",
            limit=limit,
            count=f"<KeyCount>{max(last - begin, 0)}</KeyCount>" if second else "",
            truncated=str(last < end).lower(),
            token=token,
        )
        return head.encode() + self._entries(begin, last) + b"</ListBucketResult>"

    def _entries(self, begin: int, end: int) -> bytes:
        """The objects of a stretch that may reach over several folders."""
        pieces = []
        while begin < end:
            folder, number = divmod(begin, self._keys.each)
            stop = min(end - folder * self._keys.each, self._keys.each)
            piece = self._of_first_folder(number, stop)
            pieces.append(piece.replace(b"files/00/", b"files/%02x/" % folder))
            begin = folder * self._keys.each + stop
        return b"".join(pieces)

    def _rendered(self, begin: int, end: int) -> bytes:
        entries = [
            _ENTRY.format(
                key=key.decode(),
                month=number % 9 + 1,
                day=number % 10,
                minute=number % 60,
                etag=key[-36:-4].decode(),
                size=SIZE,
            )
            for number, key in enumerate(self._keys[begin:end], begin)
        ]
        return "".join(entries).encode()


class Connection(asyncio.Protocol):
    """One client's requests, answered in turn."""

    def __init__(self, bucket: Bucket, delay: float) -> None:
        """Answer from the bucket, each after so many seconds."""
        self._bucket = bucket
        self._delay = delay
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete; none of them has a body."""
        self._held += data
        while b"\r\n\r\n" in self._held:
            asked, self._held = self._held.split(b"\r\n\r\n", 1)
            method, target, _ = asked.split(b"\r\n", 1)[0].decode().split(" ", 2)
            address = urlsplit(target)
            query = dict(parse_qsl(address.query, keep_blank_values=True))
            status, body = self._bucket.respond(method, unquote(address.path), query)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/xml\r\n"
                f"Date: {formatdate(usegmt=True)}\r\nx-amz-request-id: canned\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            ).encode()
            answer = head if method == "HEAD" else head + body
            if self._delay:
                asyncio.get_running_loop().call_later(self._delay, self._send, answer)
            else:
                self._send(answer)

    def _send(self, answer: bytes) -> None:
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(answer)


def _error(code: str) -> bytes:
    return f"{_DECLARATION}<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()


async def serve(objects: int, folders: int, delay: float) -> None:
    """Serve until standard input closes."""
    bucket = Bucket(Keys(objects, folders))
    query = {"prefix": "files/00/", "list-type": "2"}
    for _page in range(PAGES_KEPT):
        token = bucket.answer(query).partition(b"<NextContinuationToken>")[2].partition(b"<")[0]
        if not token:
            break
        query["continuation-token"] = token.decode()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(bucket, delay), LOOPBACK, 0)
    port = server.sockets[0].getsockname()[1]
    print(f"http://{LOOPBACK}:{port}", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    objects, folders, *milliseconds = map(int, sys.argv[1:])
    asyncio.run(serve(objects, folders, sum(milliseconds) / 1000))
