"""An S3 server on the loopback address that answers what a test tells it to."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.sax.saxutils import escape, unescape

XML = '<?xml version="1.0" encoding="UTF-8"?>\n'


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: str

    def named_keys(self) -> list[str]:
        """The keys that a DeleteObjects request names."""
        return [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", self.body, re.DOTALL)]


@dataclass(frozen=True)
class Answer:
    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)


Script = Callable[[Request], Answer]


class ScriptedS3:
    """Answers with `script`, and keeps every request."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.requests: list[Request] = []
        self.script: Script = lambda _request: Answer(status=500)

    def of(self, method: str) -> list[Request]:
        return [request for request in self.requests if request.method == method]


def errors(code: str, message: str = "made up") -> str:
    return f"{XML}<Error><Code>{code}</Code><Message>{message}</Message></Error>"


def result(
    deleted: list[str] | None = None,
    refused: dict[str, str] | None = None,
    nameless: int = 0,
    nameless_error: str | None = None,
) -> str:
    """The body of an answer to DeleteObjects."""
    parts = [f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in deleted or []]
    parts += ["<Deleted></Deleted>"] * nameless
    parts += [
        f"<Error><Key>{escape(key)}</Key><Code>{code}</Code><Message>made up</Message></Error>"
        for key, code in (refused or {}).items()
    ]
    if nameless_error is not None:
        parts.append(f"<Error><Code>{nameless_error}</Code></Error>")
    return f"{XML}<DeleteResult>{''.join(parts)}</DeleteResult>"


@contextmanager
def scripted_s3() -> Iterator[ScriptedS3]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one piece: in two, the second waits for the first to be acknowledged.
        wbufsize = -1

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(
                method=self.command,
                path=self.path,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=self.rfile.read(length).decode(),
            )
            served.requests.append(request)
            answer = served.script(request)
            body = answer.body.encode()
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def handle_expect_100(self) -> bool:
            """Say at once that the body may come: botocore waits a second for that word."""
            goes_on = super().handle_expect_100()
            self.wfile.flush()
            return goes_on

        do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = answer  # noqa: N815 (the base class's names)

        def log_message(self, *_arguments: Any) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    served = ScriptedS3(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
