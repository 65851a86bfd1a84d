"""Alive and ready: yes from what works, no with a reason from everything else, and fast."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import grpc
import psycopg
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from filejobs_dagster.cli.health import (
    EXPECTED_DAEMONS,
    DagsterStorage,
    code_server,
    daemon,
    dagster_storage,
    webserver,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
NOBODY = 1
"""A port on which nobody listens."""


@contextmanager
def answering(status: int, body: bytes, path: str = "/server_info") -> Iterator[int]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == path else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(status: int) -> Iterator[int]:
    """A gRPC server with the health service that Dagster's code server uses."""
    server = grpc.server(ThreadPoolExecutor(1))
    servicer = health.HealthServicer()
    servicer.set("DagsterApi", status)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


def test_a_webserver_is_alive_when_it_says_its_version() -> None:
    version = json.dumps({"dagster_webserver_version": "1.13.27"}).encode()
    with answering(200, version) as port:
        assert webserver("127.0.0.1", port, SECOND).well
        assert not webserver("127.0.0.1", port, SECOND, "/ops").well
    with answering(200, version, "/ops/server_info") as port:
        assert webserver("127.0.0.1", port, SECOND, "/ops").well


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (500, b"{}", "answers with status 500"),
        (200, b"<html>", "is something else"),
        (200, b"[1]", "is something else"),
    ],
)
def test_what_answers_otherwise_is_no_webserver(status: int, body: bytes, said: str) -> None:
    with answering(status, body) as port:
        answer = webserver("127.0.0.1", port, SECOND)
    assert not answer.well
    assert said in answer.said


def test_nobody_there_is_a_no_and_not_an_error() -> None:
    assert "does not answer" in webserver("127.0.0.1", NOBODY, SECOND).said
    assert "does not answer: UNAVAILABLE" in code_server("127.0.0.1", NOBODY, SECOND).said


def test_a_code_server_is_alive_when_it_serves_and_only_then() -> None:
    with serving(health_pb2.HealthCheckResponse.SERVING) as port:
        assert code_server("127.0.0.1", port, SECOND).well
    with serving(health_pb2.HealthCheckResponse.NOT_SERVING) as port:
        answer = code_server("127.0.0.1", port, SECOND)
    assert not answer.well
    assert "does not serve" in answer.said


# The daemon ---------------------------------------------------------------------------------


@pytest.fixture
def storage(empty_database_url: str) -> DagsterStorage:
    return DagsterStorage(empty_database_url, SECOND)


@pytest.fixture
def heartbeats(empty_database_url: str) -> psycopg.Connection:
    connection = psycopg.connect(empty_database_url, autocommit=True)
    connection.execute("SET timezone = 'Pacific/Auckland'")
    connection.execute("CREATE TABLE runs (); CREATE TABLE daemon_heartbeats"
                       " (daemon_type text UNIQUE, timestamp timestamp, body text)")  # fmt: skip
    return connection


def beat(connection: psycopg.Connection, part: str, age: float) -> None:
    body = {"__class__": "DaemonHeartbeat", "timestamp": time.time() - age, "errors": []}
    connection.execute(
        "INSERT INTO daemon_heartbeats VALUES (%s, now() - make_interval(secs => %s), %s)"
        " ON CONFLICT (daemon_type) DO UPDATE SET body = excluded.body",
        (part, age, json.dumps(body)),
    )


def test_the_daemon_is_alive_while_every_part_shows_itself_whatever_the_time_zone(
    storage: DagsterStorage, heartbeats: psycopg.Connection
) -> None:
    for part in EXPECTED_DAEMONS:
        beat(heartbeats, part, 20)
    beat(heartbeats, "ASSET", 1e6)  # of a part that this project does not need
    assert daemon(storage, MINUTE).well

    beat(heartbeats, "SENSOR", 90)
    answer = daemon(storage, MINUTE)
    assert not answer.well
    assert "SENSOR for 90 s; tolerated are 60 s" in answer.said
    assert daemon(storage, MINUTE, ["SCHEDULER"]).well
    assert "ASSETS never" in daemon(storage, MINUTE, ["ASSETS"]).said
    assert dagster_storage(storage).well


def test_a_storage_that_cannot_be_read_is_a_no_without_its_password(
    storage: DagsterStorage,
) -> None:
    assert "no daemon ever ran" in daemon(storage, MINUTE).said
    assert "no table `runs` yet" in dagster_storage(storage).said
    away = DagsterStorage("postgresql+psycopg2://dagster:hunter22@127.0.0.1:1/dagster", SECOND)
    for answer in (daemon(away, MINUTE), dagster_storage(away)):
        assert not answer.well
        assert "hunter22" not in answer.said
        assert "onnection refused" in answer.said
