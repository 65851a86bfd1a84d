"""An S3 server that costs next to nothing per key, so that only the client's side is measured.

moto takes milliseconds for each object, also inside one DeleteObjects request, and so hides what
a client saves. This server keeps sizes in one dictionary and answers what collectors ask: HEAD of
bucket and object, DeleteObject, DeleteObjects, the listing, the bucket's versioning, and what was
written by a PUT. Each answer may be held back for a while, as a network would.

`python -m benchmarks.canned_s3 MILLISECONDS` prints its address as one line, serves, and ends when
its standard input closes. Objects are loaded by POST to `/-/load/BUCKET`, a key a line; GET of
`/-/statistics` tells what is left and how many requests of each kind were answered.
"""

from __future__ import annotations

import asyncio
import bisect
import html
import json
import re
import sys
from collections import Counter
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

LOOPBACK = "127.0.0.1"
SIZE = 1024
"""Bytes of every object, as HEAD and the listing tell; none are kept."""

PAGE = 1000
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_KEY = re.compile(r"<Key>(.*?)</Key>", re.DOTALL)
_STATISTICS = "/-/statistics"
_LOAD = "/-/load/"


class Request(NamedTuple):
    """One request, taken apart.

    Attributes:
        method: In capitals.
        bucket: The first segment of the path.
        key: The rest of it, decoded; empty for the bucket itself.
        query: Parameters; those without a value are empty strings.
        body: What was sent.
    """

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What goes back; `length` stands in for the body's where HEAD has none."""

    status: HTTPStatus
    body: bytes = b""
    length: int | None = None


class Store:
    """Buckets of keys, and a count of what was asked."""

    def __init__(self) -> None:
        self.buckets: dict[str, dict[str, int]] = {}
        self.asked: Counter[str] = Counter()
        self._ordered: dict[str, list[str]] = {}
        self._written: dict[tuple[str, str], bytes] = {}

    def answer(self, request: Request) -> Answer:
        """Answer one S3 request of the few kinds that collectors send."""
        objects = self.buckets.get(request.bucket)
        if request.method == "PUT" and not request.key:
            self.buckets.setdefault(request.bucket, {})
            return Answer(HTTPStatus.OK)
        if objects is None:
            return _error(HTTPStatus.NOT_FOUND, "NoSuchBucket")
        if not request.key:
            return self._of_bucket(request, objects)
        return self._of_object(request, objects)

    def load(self, bucket: str, keys: list[str]) -> None:
        """Add objects, all of one size."""
        self.buckets.setdefault(bucket, {}).update(dict.fromkeys(keys, SIZE))
        self._ordered.pop(bucket, None)

    def statistics(self) -> bytes:
        """Objects by bucket and requests by kind, as JSON."""
        left = {bucket: len(objects) for bucket, objects in self.buckets.items()}
        return json.dumps({"objects": left, "requests": self.asked}).encode()

    def _of_bucket(self, request: Request, objects: dict[str, int]) -> Answer:
        if request.method == "HEAD":
            self.asked["HeadBucket"] += 1
            return Answer(HTTPStatus.OK)
        if request.method == "POST" and "delete" in request.query:
            return self._delete_many(request, objects)
        if request.method == "GET" and "versioning" in request.query:
            return Answer(HTTPStatus.OK, _xml("VersioningConfiguration", ""))
        if request.method == "GET" and request.query.get("list-type") == "2":
            return self._list(request, objects)
        return _error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")

    def _of_object(self, request: Request, objects: dict[str, int]) -> Answer:
        if request.method == "HEAD":
            self.asked["HeadObject"] += 1
            size = objects.get(request.key)
            return Answer(HTTPStatus.NOT_FOUND) if size is None else _head(size)
        if request.method == "DELETE":
            self.asked["DeleteObject"] += 1
            objects.pop(request.key, None)
            return Answer(HTTPStatus.NO_CONTENT)
        if request.method == "PUT":
            self.load(request.bucket, [request.key])
            self._written[request.bucket, request.key] = request.body
            return Answer(HTTPStatus.OK)
        if request.method == "GET" and not request.query.keys() - {"x-id"}:
            body = self._written.get((request.bucket, request.key))
            if body is not None:
                return Answer(HTTPStatus.OK, body)
            return _error(HTTPStatus.NOT_FOUND, "NoSuchKey")
        return _error(HTTPStatus.NOT_IMPLEMENTED, "NotImplemented")

    def _delete_many(self, request: Request, objects: dict[str, int]) -> Answer:
        self.asked["DeleteObjects"] += 1
        written = _KEY.findall(request.body.decode())
        for key in written:
            objects.pop(html.unescape(key) if "&" in key else key, None)
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in written)
        return Answer(HTTPStatus.OK, _xml("DeleteResult", deleted))

    def _list(self, request: Request, objects: dict[str, int]) -> Answer:
        """One page in the order of the keys; the token is the last key of the page before."""
        self.asked["ListObjectsV2"] += 1
        prefix = request.query.get("prefix", "")
        after = request.query.get("continuation-token") or request.query.get("start-after", "")
        # Deleted keys stay in the order and are passed over, so that a deletion costs nothing.
        ordered = self._ordered.setdefault(request.bucket, [])
        if not ordered:
            ordered.extend(sorted(objects))
        most = int(request.query.get("max-keys", PAGE))
        place = max(bisect.bisect_right(ordered, after), bisect.bisect_left(ordered, prefix))
        page: list[str] = []
        while place < len(ordered) and ordered[place].startswith(prefix) and len(page) < most:
            if ordered[place] in objects:
                page.append(ordered[place])
            place += 1
        entries = "".join(
            f"<Contents><Key>{html.escape(key)}</Key><LastModified>2026-01-01T00:00:00.000Z"
            f'</LastModified><ETag>"0"</ETag><Size>{objects[key]}</Size></Contents>'
            for key in page
        )
        inside = "<IsTruncated>false</IsTruncated>"
        if page and place < len(ordered) and ordered[place].startswith(prefix):
            token = html.escape(page[-1])
            inside = (
                "<IsTruncated>true</IsTruncated>"
                f"<NextContinuationToken>{token}</NextContinuationToken>"
            )
        inside += entries
        return Answer(HTTPStatus.OK, _xml("ListBucketResult", inside))


class Connection(asyncio.Protocol):
    """One connection of a client, kept open from request to request."""

    def __init__(self, store: Store, seconds: float) -> None:
        self._store = store
        self._seconds = seconds
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where answers go."""
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            head = self._received[:end].decode("latin-1").split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:])
            }
            length = int(headers.get("content-length", 0))
            if headers.get("expect") == "100-continue" and len(self._received) == end + 4:
                self._send(b"HTTP/1.1 100 Continue\r\n\r\n")
            if len(self._received) < end + 4 + length:
                return
            body = bytes(self._received[end + 4 : end + 4 + length])
            del self._received[: end + 4 + length]
            method, target, _ = head[0].split(" ")
            self._answer(method, target, body)

    def _answer(self, method: str, target: str, body: bytes) -> None:
        address = urlsplit(target)
        if address.path == _STATISTICS:
            self._send(_written(method, Answer(HTTPStatus.OK, self._store.statistics())))
        elif address.path.startswith(_LOAD):
            self._store.load(address.path.removeprefix(_LOAD), body.decode().split("\n"))
            self._send(_written(method, Answer(HTTPStatus.OK)))
        else:
            bucket, _, key = unquote(address.path[1:]).partition("/")
            given = parse_qs(address.query, keep_blank_values=True)
            query = {name: values[0] for name, values in given.items()}
            answer = self._store.answer(Request(method, bucket, key, query, body))
            self._send_later(_written(method, answer))

    def _send_later(self, written: bytes) -> None:
        if self._seconds:
            asyncio.get_running_loop().call_later(self._seconds, self._send, written)
        else:
            self._send(written)

    def _send(self, written: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(written)


def _head(size: int) -> Answer:
    return Answer(HTTPStatus.OK, length=size)


def _error(status: HTTPStatus, code: str) -> Answer:
    return Answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())


def _xml(root: str, inside: str) -> bytes:
    declaration = '<?xml version="1.0" encoding="UTF-8"?>'
    return f'{declaration}<{root} xmlns="{_NAMESPACE}">{inside}</{root}>'.encode()


def _written(method: str, answer: Answer) -> bytes:
    length = len(answer.body) if answer.length is None else answer.length
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f'Content-Length: {length}\r\nContent-Type: application/xml\r\nETag: "0"\r\n'
        "x-amz-request-id: canned\r\n\r\n"
    )
    if answer.status is HTTPStatus.NO_CONTENT:
        head = f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n\r\n"
    return head.encode("latin-1") + (b"" if method == "HEAD" else answer.body)


async def serve(seconds: float) -> None:
    """Serve on a free port of the loopback address until standard input closes.

    Args:
        seconds: How long each answer is held back.
    """
    loop = asyncio.get_running_loop()
    store = Store()
    server = await loop.create_server(lambda: Connection(store, seconds), LOOPBACK, 0)
    host, port = server.sockets[0].getsockname()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
