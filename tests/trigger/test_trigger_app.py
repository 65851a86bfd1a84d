from __future__ import annotations

import logging
import socket
import threading
import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.trigger.app import AT_ONCE, LONGEST_BODY
from filejobs_dagster.trigger.reporting import Report
from filejobs_dagster.trigger.serving import HEAD_WITHIN, MOST_CONNECTIONS
from filejobs_dagster.trigger.starting import Answer
from tests.e2e.deployment import wait_until
from tests.trigger.conftest import CRON, OPERATOR

if TYPE_CHECKING:
    from tests.trigger.conftest import Door

SECRET = "a-password-in-an-error"


def test_a_known_token_queues_a_run_in_the_mode_of_the_settings(door: Door) -> None:
    said = door.call()
    assert (said.code, said.document) == (
        202,
        {"status": "queued", "run_id": "a-run", "mode": "dry"},
    )
    assert door.asked == [("cron", "upload_reservations", None)]
    assert said.headers["cache-control"] == "no-store"
    assert "server" not in said.headers


def test_the_name_of_the_token_and_the_asked_mode_reach_the_start(door: Door) -> None:
    assert door.call(token=OPERATOR, body=b'{"mode": "live"}').code == 202
    assert door.call(body=b"{}").code == 202
    assert door.asked == [
        ("operator", "upload_reservations", "live"),
        ("cron", "upload_reservations", None),
    ]


@pytest.mark.parametrize(
    "header",
    [
        None,
        "Bearer",
        "Bearer ",
        f"Basic {CRON}",
        f"Bearer {CRON[:-1]}",
        f"Bearer {CRON}x",
        f"Bearer {CRON.upper()}",
        CRON,
        "Bearer " + "a" * 5000,
    ],
)
def test_without_a_known_token_everything_is_401_and_nothing_is_asked(
    door: Door, header: str | None
) -> None:
    headers = {} if header is None else {"Authorization": header}
    for method, path in (
        ("POST", "/jobs/upload_reservations/runs"),
        ("POST", "/jobs/no_such_job/runs"),
        ("GET", "/jobs/upload_reservations/runs"),
        ("DELETE", "/"),
        ("POST", "/healthz"),
        ("GET", "/docs"),
    ):
        said = door.call(method, path, token=None, headers=headers)
        assert (said.code, said.document) == (401, {"status": "unauthorized"})
        assert said.headers["www-authenticate"] == "Bearer"
    assert door.asked == []


def test_a_token_in_the_query_string_or_in_two_headers_is_none(door: Door) -> None:
    path = f"/jobs/upload_reservations/runs?token={CRON}&access_token={CRON}"
    assert door.call(path=path, token=None).code == 401
    with socket.create_connection(("127.0.0.1", door.port), 5) as raw:
        raw.sendall(
            b"POST /jobs/upload_reservations/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n"
            + f"Authorization: Bearer {CRON}\r\n".encode() * 2
            + b"\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 401")
    assert door.asked == []


def test_who_is_unknown_is_answered_before_a_byte_of_the_body_is_sent(door: Door) -> None:
    with socket.create_connection(("127.0.0.1", door.port), 5) as raw:
        raw.sendall(
            b"POST /jobs/upload_reservations/runs HTTP/1.1\r\nHost: x\r\n"
            b"Content-Length: 1000000000\r\n\r\n"
        )
        assert raw.recv(100).startswith(b"HTTP/1.1 401")


def test_a_get_is_refused_and_starts_nothing(door: Door) -> None:
    said = door.call("GET")
    assert (said.code, said.headers["allow"]) == (405, "POST")
    assert door.call("PUT").code == 405
    assert door.call("POST", "/jobs/a/b/runs").code == 404
    assert door.call("POST", "/graphql").code == 404
    assert door.asked == []


def test_health_needs_no_token_and_tells_nothing_else(door: Door) -> None:
    said = door.call("GET", "/healthz", token=None)
    assert (said.code, said.document) == (200, {"status": "ok"})
    assert door.call("HEAD", "/healthz", token=None).code == 200


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"x" * (LONGEST_BODY + 1), 413),
        (b"not json", 400),
        (b"[]", 400),
        (b'{"mode": "wild"}', 400),
        (b'{"mode": true}', 400),
        (b'{"mode": "dry", "mode": "live"}', 400),
        (b'{"dry_run": false}', 400),
        (b'{"mode": "live", "limit": 1}', 400),
        (b"[" * 4000, 400),
    ],
)
def test_a_body_that_is_not_a_mode_is_refused_and_starts_nothing(
    door: Door, body: bytes, code: int
) -> None:
    said = door.call(body=body)
    assert (said.code, said.document) == (code, {"status": "not understood"})
    assert door.asked == []


def test_each_refusal_has_its_code_and_its_time(door: Door) -> None:
    since = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    door.start = lambda: Answer("at work", run_id="other", since=since)
    said = door.call()
    assert (said.code, said.document["since"]) == (409, "2026-03-01T12:00:00+00:00")
    door.start = lambda: Answer("too often", retry_after=77)
    said = door.call()
    assert (said.code, said.headers["retry-after"]) == (429, "77")
    door.start = lambda: Answer("unknown job")
    assert door.call().code == 404
    door.start = lambda: Answer("not allowed")
    assert door.call().code == 403


def test_an_errors_text_stays_in_the_log(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> Answer:
        raise RuntimeError(SECRET)

    door.start = fail
    with caplog.at_level(logging.INFO, "filejobs.trigger"):
        said = door.call()
    assert (said.code, said.document) == (503, {"status": "unavailable"})
    assert int(said.headers["retry-after"]) > 0
    assert SECRET not in said.body + str(said.headers)
    assert "RuntimeError" in caplog.text


def test_the_access_log_names_the_holder_and_no_token(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        door.call()
        door.call(path=f"/jobs/x/runs?token={OPERATOR}", token="wrong-token-of-the-tests-012345")
        door.call("GET", "/a%0d%0ab" + "c" * 900, token=None)
    assert '127.0.0.1 cron POST "/jobs/upload_reservations/runs" 202' in caplog.text
    assert '127.0.0.1 - POST "/jobs/x/runs" 401' in caplog.text
    for token in (CRON, OPERATOR, "wrong-token"):
        assert token not in caplog.text
    assert all(len(record.getMessage()) < 400 for record in caplog.records)
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_who_comes_when_too_many_wait_is_told_to_come_back(door: Door) -> None:
    release = threading.Event()

    def wait() -> Answer:
        release.wait(20)
        return Answer("queued", run_id="a-run")

    door.start = wait
    codes: list[int] = []
    waiting = [
        threading.Thread(target=lambda: codes.append(door.call().code)) for _ in range(AT_ONCE)
    ]
    for thread in waiting:
        thread.start()
    try:
        wait_until(lambda: len(door.asked) == AT_ONCE, "all of them wait", 20)
        assert door.call().code == 503
        assert door.call("GET", "/healthz", token=None).code == 200
    finally:
        release.set()
        for thread in waiting:
            thread.join(20)
    assert codes == [202] * AT_ONCE


@pytest.mark.thorough
def test_connections_that_never_ask_for_anything_shut_nobody_out(door: Door) -> None:
    idle = [socket.create_connection(("127.0.0.1", door.port), 5) for _ in range(MOST_CONNECTIONS)]
    idle[-1].sendall(b"POST /jobs/x/runs HTTP/1.1\r\nX-Head: never ends")
    # Answered with 401, and its body goes on and on.
    idle[-2].sendall(b"POST /jobs/x/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
    try:
        assert door.call().code == 202, "the oldest have given way"
        began = time.monotonic()
        dripping = set(idle[-2:])
        while dripping and time.monotonic() < began + 4 * HEAD_WITHIN:
            time.sleep(0.5)
            for connection in list(dripping):
                try:
                    connection.sendall(b"x")
                except OSError:
                    dripping.remove(connection)
        assert not dripping
        assert door.call().code == 202
    finally:
        for connection in idle:
            connection.close()


@pytest.mark.thorough
def test_a_request_may_take_longer_than_a_head(door: Door) -> None:
    def slowly() -> Answer:
        time.sleep(HEAD_WITHIN + 1)
        return Answer("queued", run_id="a-run", mode="dry")

    door.start = slowly

    assert door.call().code == 202


def test_a_path_that_is_nearly_right_is_unknown_and_leads_nowhere(door: Door) -> None:
    said = door.call(path="/jobs/upload_reservations/runs/", headers={"Host": "elsewhere.example"})

    assert said.code == 404
    assert "location" not in said.headers
    assert door.asked == []


def test_a_body_that_breaks_off_starts_nothing_and_is_no_fault(
    door: Door, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        with socket.create_connection(("127.0.0.1", door.port), 5) as raw:
            raw.sendall(
                b"POST /jobs/upload_reservations/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"
                + f"Authorization: Bearer {CRON}\r\n\r\n{{".encode()
            )
            time.sleep(0.3)
        door.call("GET", "/healthz")  # whose line comes after that of the other, if it has one

    assert "Traceback" not in caplog.text
    assert door.asked == []


REPORTS = "/jobs/own_backup/reports"


def test_a_report_reaches_whoever_records_it(door: Door) -> None:
    said = door.call(
        path=REPORTS, body=b'{"said": "failure", "run": "monday", "error": "disk full", "acted": 3}'
    )

    assert (said.code, said.document["status"]) == (200, "recorded")
    assert door.reported == [
        ("cron", "own_backup", Report("failure", "monday", "disk full", None, 3))
    ]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"said": "maybe"}',
        b'{"said": ["start"]}',
        b'{"said": "start", "said": "success"}',
        b'{"said": "success", "error": "which is it?"}',
        b'{"said": "success", "acted": -1}',
        b'{"said": "success", "acted": true}',
        b'{"said": "success", "scanned": 1.5}',
        b'{"said": "start", "run": "../../x y"}',
        b'{"said": "start", "mode": "live"}',
    ],
)
def test_what_is_no_report_is_not_understood(door: Door, body: bytes) -> None:
    assert door.call(path=REPORTS, body=body).code == 400
    assert door.reported == []


def test_nobody_reports_without_a_token(door: Door) -> None:
    assert door.call(path=REPORTS, token=None, body=b'{"said": "start"}').code == 401
    assert door.call("GET", path=REPORTS).code == 405
    assert door.reported == []
