"""An HTTP server that is told things, and can refuse to be."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TOKEN = "T0KEN-of-the-on-call-channel"


@dataclass
class Receiver:
    """What arrived, and how the server answers.

    Attributes:
        port: Where it listens.
        status: The answer to everything.
        messages: The JSON of each POST that was answered with success, in order.
        requests: The path of every request.
        before: Called before each answer, for tests that hold it back.
    """

    port: int = 0
    status: int = 200
    messages: list[dict[str, Any]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        """The URL for apprise of this server, with a token in it."""
        return f"json://user:{TOKEN}@127.0.0.1:{self.port}/{TOKEN}"

    @property
    def heartbeat_url(self) -> str:
        """A URL to ask for."""
        return f"http://127.0.0.1:{self.port}/ping/{TOKEN}"

    @property
    def texts(self) -> list[str]:
        """Title and body of each message."""
        return [f"{message['title']}\n{message['message']}" for message in self.messages]


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver that listens, on a port of its own."""
    receiver = Receiver()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver))
    receiver.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if receiver.status == 200:
                receiver.messages.append(json.loads(body))
            self._answer()

        def _answer(self) -> None:
            receiver.requests.append(self.path)
            receiver.before()
            self.send_response(receiver.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            del arguments

    return Handler
