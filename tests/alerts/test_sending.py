"""What goes wrong while sending is said in words that hold no part of the URL."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.alerts import sending
from filejobs_dagster.alerts import sending as heartbeat
from filejobs_dagster.alerts.digest import Digest
from filejobs_dagster.alerts.sending import NotSent, send
from tests.alerts.receiver import TOKEN

if TYPE_CHECKING:
    from tests.alerts.receiver import Receiver

DIGEST = Digest("a subject", "a text", "**a text**", "critical")


def failure(url: str, timeout: float = 10) -> str:
    with pytest.raises(NotSent) as caught:
        send(url, DIGEST, timeout)
    return str(caught.value)


def test_what_is_sent_arrives_with_subject_text_and_severity(receiver: Receiver) -> None:
    send(receiver.url, DIGEST, 10)
    (message,) = receiver.messages
    assert (message["title"], message["message"]) == ("a subject", "a text")
    assert message["type"] == "failure"


@pytest.mark.parametrize("status", [302, 401, 404, 500])
def test_an_answer_that_is_no_success_is_told_by_its_number(
    receiver: Receiver, status: int
) -> None:
    receiver.status = status
    assert failure(receiver.url) == f"it answered {status}"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        (f"json://{TOKEN}@127.0.0.1:1/{TOKEN}", sending.UNREACHED),
        (f"nonsense://{TOKEN}", sending.NOT_A_URL),
        (TOKEN, sending.NOT_A_URL),
        (f"json://127.0.0.1/{TOKEN},json://127.0.0.1/2", sending.SEVERAL),
        (f"slack://{TOKEN}", sending.NOT_A_URL),
    ],
)
def test_no_reason_shows_any_part_of_the_url(
    url: str, reason: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    said = failure(url)
    assert said == reason
    assert "127.0.0.1" not in said
    written = capfd.readouterr()
    assert TOKEN not in said + written.out + written.err


def test_a_destination_that_does_not_answer_costs_no_more_than_its_time(
    receiver: Receiver,
) -> None:
    hold = threading.Event()
    receiver.before = lambda: _hold(hold)
    begun = time.monotonic()
    try:
        assert failure(receiver.url, timeout=1) == sending.NO_ANSWER
        assert time.monotonic() - begun < 4
    finally:
        hold.set()


def _hold(event: threading.Event) -> None:
    event.wait(20)


def test_the_heartbeat_asks_once_and_says_why_it_could_not(receiver: Receiver) -> None:
    assert heartbeat.beat(receiver.heartbeat_url) is None
    assert receiver.requests == [f"/ping/{TOKEN}"]
    receiver.status = 500
    assert heartbeat.beat(receiver.heartbeat_url) == "the heartbeat's URL answered 500"


@pytest.mark.parametrize(
    "url", [f"http://127.0.0.1:1/{TOKEN}", f"file:///{TOKEN}", TOKEN, "http://["]
)
def test_a_heartbeat_that_cannot_be_sent_shows_no_part_of_its_url(url: str) -> None:
    said = heartbeat.beat(url)
    assert said is not None
    assert TOKEN not in said
