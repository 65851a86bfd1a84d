"""The app behind a real uvicorn, with a start that only remembers what it was asked."""

from __future__ import annotations

import http.client
import json
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.settings import Secret, TokenSettings, TriggerSettings
from filejobs_dagster.trigger.app import build_app
from filejobs_dagster.trigger.serving import server_of
from filejobs_dagster.trigger.starting import Answer
from filejobs_dagster.trigger.tokens import KnownTokens, TokenHolder
from tests.e2e.deployment import free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.trigger.reporting import Report

CRON = "cron-token-of-the-tests-0123456789"
OPERATOR = "operator-token-of-the-tests-0123456789"

TRIGGER = TriggerSettings(
    tokens={
        "cron": TokenSettings(token=Secret("CRON", CRON)),
        "operator": TokenSettings(token=Secret("OPERATOR", OPERATOR), may_go_live=True),
    }
)


@dataclass
class Said:
    """An answer."""

    code: int
    headers: dict[str, str]
    body: str

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Door:
    """Where requests come in.

    Attributes:
        port: On loopback.
        asked: What reached the start.
        reported: What reached whoever takes reports.
        start: What the start does; by default it queues.
    """

    port: int
    asked: list[tuple[str, str, Mode | None]] = field(default_factory=list)
    reported: list[tuple[str, str, Report]] = field(default_factory=list)
    start: Callable[[], Answer] = lambda: Answer("queued", run_id="a-run", mode="dry")

    def begin(self, holder: TokenHolder, job: str, mode: Mode | None) -> Answer:
        self.asked.append((holder.name, job, mode))
        return self.start()

    def take(self, holder: TokenHolder, job: str, said: Report) -> Answer:
        self.reported.append((holder.name, job, said))
        return Answer("recorded", run_id="a-run")

    def call(
        self,
        method: str = "POST",
        path: str = "/jobs/upload_reservations/runs",
        *,
        token: str | None = CRON,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        said = dict(headers or {})
        if token is not None:
            said.setdefault("Authorization", f"Bearer {token}")
        try:
            connection.request(method, path, body, said)
            answer = connection.getresponse()
            return Said(answer.status, dict(answer.headers), answer.read().decode())
        finally:
            connection.close()


@pytest.fixture
def door() -> Iterator[Door]:
    door = Door(free_port())
    app = build_app(KnownTokens(TRIGGER), door.begin, lambda error: type(error).__name__, door.take)
    server = server_of(app, "127.0.0.1", door.port)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the app listens", 20)
    yield door
    server.should_exit = True
    thread.join(10)
    assert not thread.is_alive()
