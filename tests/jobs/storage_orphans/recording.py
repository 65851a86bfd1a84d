"""A server in front of the S3 server that writes down what it is asked for."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "date", "server"}


class Recorder(ThreadingHTTPServer):
    """Passes every request on.

    Attributes:
        asked: Method and path of each, in order.
    """

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.target = urlsplit(target).netloc
        self.asked: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def writes(self) -> list[tuple[str, str]]:
        return [(method, path) for method, path in self.asked if method not in {"GET", "HEAD"}]


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Recorder

    def _pass_on(self) -> None:
        self.server.asked.append((self.command, self.path))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        behind = HTTPConnection(self.server.target, timeout=30)
        behind.request(self.command, self.path, body, dict(self.headers))
        answer = behind.getresponse()
        content = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP or (name.lower() == "content-length" and not content):
                self.send_header(name, value)
        if content:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
        behind.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass_on  # noqa: N815 (http.server's names)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (http.server's name)
        """Say nothing."""


@contextmanager
def recording(target: str) -> Iterator[Recorder]:
    """Run one in front of the target."""
    with Recorder(target) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
