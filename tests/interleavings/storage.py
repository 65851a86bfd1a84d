"""Object storage in this process, over real HTTP, that fails as it is told to.

It speaks the four requests that upload_reservations sends. A deletion is carried out by a plan, or
is held until somebody decides about each of its keys.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit
from xml.sax.saxutils import escape, unescape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Plan = Literal[
    "works",
    "refuses every second key",
    "refuses every key",
    "answers 503",
    "hangs up before",
    "hangs up after half",
    "hangs up after all",
]
PLANS: tuple[Plan, ...] = (
    "works",
    "refuses every second key",
    "refuses every key",
    "answers 503",
    "hangs up before",
    "hangs up after half",
    "hangs up after all",
)

SECONDS_HELD = 60.0


@dataclass
class Held:
    """A request to delete that waits for decisions.

    Attributes:
        keys: What it names.
        refused: Those that somebody decided to refuse.
        hang_up: The client gets no answer.
        decided: Set when the client gets its answer, or when the connection is cut.
    """

    keys: tuple[str, ...]
    refused: set[str] = field(default_factory=set)
    hang_up: bool = False
    decided: threading.Event = field(default_factory=threading.Event)

    def answer(self) -> None:
        """Let the client have its answer."""
        self.decided.set()

    def cut(self) -> None:
        """Close the connection; what was not decided may still be carried out later."""
        self.hang_up = True
        self.decided.set()


class Storage:
    """The objects, and how requests to delete them are met.

    Attributes:
        objects: Size by key.
        plan: How the next requests to delete are met.
        holding: Hold them instead.
        held: The requests that were held, each until it was decided.
        before_deleting: Called with the keys of each request right before objects go.
        complaints: What `before_deleting` raised; a server cannot fail a test by itself.
    """

    def __init__(self) -> None:
        self.objects: dict[str, int] = {}
        self.plan: Plan = "works"
        self.holding = False
        self.held: list[Held] = []
        self.before_deleting: Callable[[Sequence[str]], None] = lambda _keys: None
        self.complaints: list[AssertionError] = []
        self.down = False
        self.met: Counter[str] = Counter()
        self.endpoint_url = ""
        self._guard = threading.Lock()

    def put(self, key: str) -> None:
        """An upload that arrives."""
        with self._guard:
            self.objects[key] = 5

    def delete(self, keys: Sequence[str]) -> None:
        """Carry a deletion out."""
        with self._guard:
            try:
                self.before_deleting(keys)
            except AssertionError as complaint:
                self.complaints.append(complaint)
            for key in keys:
                self.objects.pop(key, None)

    def meet(self, keys: Sequence[str]) -> dict[str, str] | int | None:
        """Carry out what the plan says.

        Returns:
            Refused keys with their codes, a status, or None to hang up.
        """
        if self.holding:
            return self._hold(keys)
        self.met[f"storage {self.plan}"] += 1
        if self.plan == "answers 503":
            return 503
        going = {
            "works": keys,
            "refuses every second key": keys[::2],
            "hangs up after half": keys[: len(keys) // 2],
            "hangs up after all": keys,
        }.get(self.plan, ())
        self.delete(going)
        if self.plan.startswith("hangs up"):
            return None
        return {key: "AccessDenied" for key in keys if key not in going}

    def _hold(self, keys: Sequence[str]) -> dict[str, str] | None:
        held = Held(tuple(keys))
        self.held.append(held)
        assert held.decided.wait(SECONDS_HELD), "nobody decided about a held request"
        return None if held.hang_up else dict.fromkeys(held.refused, "AccessDenied")


@contextmanager
def storage_server() -> Iterator[Storage]:
    """Serve an empty storage on the loopback address."""
    storage = Storage()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _key(self) -> str:
            return unquote(urlsplit(self.path).path).lstrip("/").partition("/")[2]

        def _send(self, status: int, body: str = "", length: int | None = None) -> None:
            text = body.encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(text) if length is None else length))
            self.end_headers()
            self.wfile.write(text)

        def _hang_up(self) -> None:
            self.close_connection = True

        def do_HEAD(self) -> None:
            if storage.down:
                return self._hang_up()
            key = self._key()
            size = storage.objects.get(key)
            found = not key or size is not None
            return self._send(200 if found else 404, length=size or 0)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            keys = [unescape(key) for key in re.findall(r"<Key>(.*?)</Key>", body)]
            met = None if storage.down else storage.meet(keys)
            if met is None:
                return self._hang_up()
            if isinstance(met, int):
                return self._send(met, "<Error><Code>ServiceUnavailable</Code></Error>")
            parts = [
                f"<Error><Key>{escape(key)}</Key><Code>{met[key]}</Code></Error>"
                if key in met
                else f"<Deleted><Key>{escape(key)}</Key></Deleted>"
                for key in keys
            ]
            return self._send(200, f"<DeleteResult>{''.join(parts)}</DeleteResult>")

        def log_message(self, *_arguments: Any) -> None:
            """Stay quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    storage.endpoint_url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield storage
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
