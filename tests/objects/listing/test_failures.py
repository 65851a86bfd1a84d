"""Whatever is wrong with a page, the listing fails, and nothing comes out of it."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tenacity import wait_none

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.listing import ListingFailed, ListingStopped, list_objects
from filejobs_dagster.objects.listing.ask import MOST_TRIES
from filejobs_dagster.objects.listing.part import MOST_EMPTY_PAGES
from tests.objects.buckets import BucketForTests
from tests.objects.listing.bucket import Asked, BucketOfKeys, Change, document, entry, keys_of
from tests.objects.scripted import Answer, errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.objects.listing import ListingProgress
    from filejobs_dagster.streams import Scratch
    from tests.objects.listing.conftest import List

KEYS = [f"files/{number:03}" for number in range(30)]


def on_page(number: int, change: Change) -> Change:
    """Change one answer, counted from 1, and each that is asked for in its place."""
    tokens: list[str | None] = []

    def changed(asked: Asked, body: str) -> str | Answer:
        if asked.token not in tokens:
            tokens.append(asked.token)
        return change(asked, body) if tokens.index(asked.token) == number - 1 else body

    return changed


def replaced(old: str, new: str) -> Change:
    def change(_asked: Asked, body: str) -> str:
        assert old in body
        return body.replace(old, new)

    return change


BAD = {
    "more and no token": (
        replaced("<NextContinuationToken>tfiles/019</NextContinuationToken>", ""),
        "not where that begins",
    ),
    "an empty token": (replaced(">tfiles/019<", "><"), "not where that begins"),
    "the same token again": (replaced(">tfiles/019<", ">tfiles/009<"), "token twice"),
    "another prefix": (
        replaced("<Prefix>files/<", "<Prefix>pictures/<"),
        "those below 'pictures/'",
    ),
    "no prefix at all": (replaced("<Prefix>files/<", "<Prefix><"), "those below ''"),
    "a key of another prefix": (replaced(">files/015<", ">pictures/015<"), "lists 'pictures/015'"),
    "a wrong count": (replaced("<KeyCount>10<", "<KeyCount>11<"), "11 objects, and it has 10"),
    "an object lost on the way": (replaced(entry("files/015"), ""), "10 objects, and it has 9"),
    "the end cut off": (lambda _asked, body: body[:-400], "ended early"),
    "only half of it": (lambda _asked, body: body[: len(body) // 2], "ended early"),
    "nothing at all": (lambda _asked, _body: "", "ended early: 0 bytes"),
    "an error that says it is a success": (
        lambda _asked, _body: Answer(200, errors("InternalError")),
        "InternalError",
    ),
    "a refusal": (lambda _asked, _body: Answer(403, errors("AccessDenied")), "AccessDenied"),
    "expired credentials": (
        lambda _asked, _body: Answer(400, errors("ExpiredToken")),
        "ExpiredToken",
    ),
    "throttling without end": (lambda _asked, _body: Answer(503, errors("SlowDown")), "SlowDown"),
    "a failure of the server": (
        lambda _asked, _body: Answer(500, errors("InternalError")),
        "Internal",
    ),
    "no bucket any more": (
        lambda _asked, _body: Answer(404, errors("NoSuchBucket")),
        "NoSuchBucket",
    ),
    "a page for people": (
        lambda _asked, _body: Answer(200, "<html>Log in</html>"),
        "ended early",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("parts", [1, 4])
def test_a_second_page_fails_the_listing_when_it_has(
    list_scripted: List, change: Change, message: str, parts: int
) -> None:
    bucket = BucketOfKeys(KEYS, page=10, change=on_page(2, change))
    with pytest.raises(ListingFailed, match=message):
        list_scripted(bucket, parts=parts)


def test_an_error_in_one_prefix_fails_all_of_them(list_scripted: List) -> None:
    def refuse(asked: Asked, body: str) -> str | Answer:
        return Answer(403, errors("AccessDenied")) if asked.prefix == "c/" else body

    bucket = BucketOfKeys(["a/1", "b/1", "c/1", "d/1"], change=refuse)
    with pytest.raises(ListingFailed, match=r"below 'c/'.*AccessDenied"):
        list_scripted(bucket, ["a/", "b/", "c/", "d/"], parts=2)


def test_a_page_that_is_asked_for_forever_ends(list_scripted: List) -> None:
    turn = 0

    def empty(_asked: Asked, _body: str) -> str:
        nonlocal turn
        turn += 1
        return document([], prefix="files/", token=f"t{turn}")

    with pytest.raises(ListingFailed, match=f"{MOST_EMPTY_PAGES} pages in a row"):
        list_scripted(BucketOfKeys([], change=empty))
    assert turn == MOST_EMPTY_PAGES


def test_a_few_pages_without_keys_are_no_failure(list_scripted: List) -> None:
    bucket = BucketOfKeys(KEYS, page=10)
    turn = 0

    def some_empty(asked: Asked, body: str) -> str:
        nonlocal turn
        turn += 1
        if turn % 3:
            return document([], prefix="files/", token=asked.token or "t")
        return body

    def distinct(asked: Asked, body: str) -> str:
        changed = some_empty(asked, body)
        # A token of its own for each, as servers have it; the bucket takes both for one place.
        return changed.replace(
            "</NextContinuationToken>", "\x20" * turn + "</NextContinuationToken>"
        )

    bucket.change = distinct
    assert keys_of(list_scripted(bucket)) == [key.encode() for key in KEYS]
    assert turn == 9


@pytest.mark.parametrize(
    "failure",
    [
        Answer(503, errors("SlowDown")),
        Answer(500, errors("InternalError")),
        Answer(200, errors("InternalError")),
        Answer(200, ""),
        Answer(200, document([entry("files/000")], prefix="files/")[:-30]),
    ],
    ids=["throttled", "failed", "failed with success", "nothing", "cut"],
)
def test_what_passes_is_asked_again(list_scripted: List, failure: Answer) -> None:
    tries = 0

    def fail_at_first(asked: Asked, body: str) -> str | Answer:
        nonlocal tries
        tries += asked.token == "tfiles/009"
        return failure if asked.token == "tfiles/009" and tries < MOST_TRIES else body

    listed = list_scripted(BucketOfKeys(KEYS, page=10, change=fail_at_first))
    assert keys_of(listed) == [key.encode() for key in KEYS]
    assert tries == MOST_TRIES


def test_a_refusal_is_not_asked_again(list_scripted: List) -> None:
    bucket = BucketOfKeys(KEYS, change=lambda _asked, _body: Answer(403, errors("AccessDenied")))
    with pytest.raises(ListingFailed, match="filejobs doctor"):
        list_scripted(bucket)
    assert len(bucket.asked) == 1


BODY = document([entry(key) for key in KEYS], prefix="files/").encode()


@contextmanager
def breaking_server(answers: list[bytes]) -> Iterator[str]:
    """Sends these bytes, one for each connection, and hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for answer in answers:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(10)
        listener.close()


def http(body: bytes, length: int | None) -> bytes:
    said = b"" if length is None else b"Content-Length: %d\r\n" % length
    return b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + said + b"\r\n" + body


BROKEN = {
    "a connection that is closed without an answer": b"",
    "a body that is shorter than was said": http(BODY[:3000], len(BODY)),
    "a body that is cut and whose length nobody said": http(BODY[:3000], None),
    "a body without its last tag": http(BODY[: -len("</ListBucketResult>")], None),
    "a chunked body that ends early": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\n" + BODY[:256] + b"\r\n"
    ),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_connection_is_tried_again_and_fails_in_the_end(
    scratch: Scratch, broken: bytes
) -> None:
    whole = http(BODY, len(BODY))
    with breaking_server([broken, whole, *[broken] * MOST_TRIES]) as address:
        client = make_client(BucketForTests(endpoint_url=address))
        listed = list_objects(
            client, "bucket", ["files/"], parts=1, scratch=scratch, back_off=wait_none()
        )
        assert keys_of(listed) == [key.encode() for key in KEYS]
        with pytest.raises(ListingFailed, match="could not be had"):
            list_objects(
                client, "bucket", ["files/"], parts=1, scratch=scratch, back_off=wait_none()
            )


def test_a_cut_page_that_is_believed_makes_objects_missing_control() -> None:
    """What a parser that stops at the end of its input makes of half an answer."""
    import re  # noqa: PLC0415 (only the careless need it)

    assert len(re.findall(rb"<Key>([^<]*)</Key>", BODY[:3000])) < len(KEYS)


def test_nothing_owned_is_nothing_to_list(list_scripted: List) -> None:
    with pytest.raises(ListingFailed, match="Set `owns`"):
        list_scripted(BucketOfKeys(KEYS), [])
    with pytest.raises(ValueError, match="parts"):
        list_scripted(BucketOfKeys(KEYS), parts=0)


def test_a_run_whose_time_is_over_gets_no_partial_listing(list_scripted: List) -> None:
    asked = 0

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > 1

    def endless(_asked: Asked, _body: str) -> str:
        last = len(bucket.asked)
        return document([entry(f"files/{last:06}")], prefix="files/", token=f"t{last}")

    bucket = BucketOfKeys([], change=endless)
    with pytest.raises(ListingStopped, match="before it was complete"):
        list_scripted(bucket, parts=3, should_stop=over)
    pages = len(bucket.asked)
    threading.Event().wait(0.1)
    assert len(bucket.asked) == pages, "nobody goes on"


def test_waiting_between_tries_ends_when_the_time_is_over(list_scripted: List) -> None:
    from tenacity import wait_fixed  # noqa: PLC0415 (only here)

    bucket = BucketOfKeys(KEYS, change=lambda _asked, _body: Answer(503, errors("SlowDown")))
    begun = time.monotonic()
    with pytest.raises(ListingStopped):
        list_scripted(bucket, should_stop=lambda: True, back_off=wait_fixed(60))
    assert time.monotonic() - begun < 30


def test_a_caller_that_fails_stops_the_listing(list_scripted: List) -> None:
    def fail() -> bool:
        raise ZeroDivisionError

    def endless(_asked: Asked, _body: str) -> str:
        last = len(bucket.asked)
        return document([entry(f"files/{last:06}")], prefix="files/", token=f"t{last}")

    bucket = BucketOfKeys([], change=endless)
    with pytest.raises(ZeroDivisionError):
        list_scripted(bucket, should_stop=fail)


def test_progress_is_told_in_the_callers_thread(
    list_scripted: List, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filejobs_dagster.objects.listing import listing  # noqa: PLC0415 (only here)

    monkeypatch.setattr(listing, "SECONDS_BETWEEN_REPORTS", 0.0)
    monkeypatch.setattr(listing, "SECONDS_BETWEEN_LOOKS", 0.01)
    told: list[ListingProgress] = []
    threads: set[int] = set()

    def tell(progress: ListingProgress) -> None:
        told.append(progress)
        threads.add(threading.get_ident())

    def slow(_asked: Asked, body: str) -> str:
        threading.Event().wait(0.03)
        return body

    list_scripted(BucketOfKeys(KEYS, page=10, change=slow), on_progress=tell)
    assert threads == {threading.get_ident()}
    assert [it.objects for it in told] == sorted(it.objects for it in told)
    assert told[0].objects < 30
    last = told[-1]
    assert (last.objects, last.bytes, last.pages, last.parts, last.parts_done) == (30, 210, 3, 1, 1)
    assert last.position == b"files/029"
