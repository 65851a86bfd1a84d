"""Ranges read side by side: every key is in exactly one, wherever the bounds are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest

from filejobs_dagster.objects.listing import workers as workers_module
from filejobs_dagster.objects.listing.page import Disorder
from filejobs_dagster.objects.listing.part import Part, PartReader
from filejobs_dagster.objects.listing.workers import MOST_QUESTIONS, find_bound
from tests.objects.listing.bucket import Asked, BucketOfKeys, by_folders, by_utf16, keys_of
from tests.objects.listing.odd import BELOW

if TYPE_CHECKING:
    from filejobs_dagster.objects.listing.part import Reader
    from tests.objects.listing.conftest import List

ReaderOf = Callable[[BucketOfKeys], "Reader"]
ENCODED = [key.encode() for key in BELOW]
BOUNDS = [
    b"files/",
    b"files/7",
    b"files/7/",
    b"files/7.",
    b"files/70/",
    "files/7\U0010ffff".encode(),
    "files/\ud7ff".encode(),
    "files/\ue000".encode(),
    "files/\uffff".encode(),
    "files/\U00010000".encode(),
    "files/\U0001f642".encode(),
    "files/\U0010ffff".encode(),
    b"files/~",
    b"files/\r",
    b"files/a b",
    b"files/a+b",
    b"files/a%20b",
    ENCODED[-1],
    ENCODED[0],
]


def read(reader: PartReader) -> list[bytes]:
    return [key for page in reader.ordered_pages() for key in page.keys]


@pytest.mark.parametrize("bound", BOUNDS, ids=ascii)
def test_every_key_is_on_one_side_of_a_bound(reader_of: ReaderOf, bound: bytes) -> None:
    reader = reader_of(BucketOfKeys(BELOW, page=50))
    left = read(PartReader(Part("files/", through=bound), reader))
    right = read(PartReader(Part("files/", after=bound), reader))
    assert left + right == ENCODED
    assert left == [key for key in ENCODED if key <= bound]


@pytest.mark.parametrize("bound", BOUNDS, ids=ascii)
def test_the_rest_can_be_given_away_in_the_middle_of_the_work(
    reader_of: ReaderOf, bound: bytes
) -> None:
    reader = reader_of(BucketOfKeys(BELOW, page=20))
    first = PartReader(Part("files/"), reader)
    pages = first.ordered_pages()
    left = list(next(pages).keys)
    rest = first.give_away(bound)
    left += [key for page in pages for key in page.keys]
    assert (rest is None) == (bound <= ENCODED[19])
    right = [] if rest is None else read(PartReader(rest, reader))
    assert left + right == ENCODED
    assert first.give_away(b"files/zzz") is None, "it is over"


def test_a_rest_is_given_away_again_and_again(reader_of: ReaderOf) -> None:
    reader = reader_of(BucketOfKeys(BELOW, page=10))
    first = PartReader(Part("files/"), reader)
    pages = first.ordered_pages()
    keys = list(next(pages).keys)
    rests = [first.give_away(bound) for bound in (ENCODED[90], ENCODED[60], ENCODED[30])]
    assert first.give_away(ENCODED[60]) is None, "somebody has that already"
    keys += [key for page in pages for key in page.keys]
    for rest in reversed(rests):
        assert rest is not None
        keys += read(PartReader(rest, reader))
    assert keys == ENCODED


def test_a_key_that_is_written_at_the_bound_meanwhile_stops_nobody(reader_of: ReaderOf) -> None:
    bucket = BucketOfKeys(["files/a", "files/b", "files/x", "files/y"], page=2)
    reader = reader_of(bucket)
    part = PartReader(Part("files/", through=b"files/m"), reader)
    pages = part.ordered_pages()
    keys = list(next(pages).keys)

    def write_behind_the_page(_asked: Asked, body: str) -> str:
        bucket.keys = ["files/a", "files/b", "files/m", "files/n", "files/x", "files/y"]
        return body

    bucket.change = write_behind_the_page
    keys += [key for page in pages for key in page.keys]
    assert keys == [b"files/a", b"files/b"], "what is written during a listing may be in it or not"


@pytest.mark.parametrize(
    ("order", "keys", "bound"),
    [
        # By folders `a/…` comes before `a-b`; by bytes it is the other way round.
        (by_folders, ["files/a-b", "files/a/x", "files/a/y"], b"files/a-z"),
        (by_utf16, ["files/\ue000", "files/\U0001f642", "files/\uffff"], "files/\uf000".encode()),
    ],
)
def test_a_bound_that_means_another_place_to_the_server_is_noticed(
    reader_of: ReaderOf,
    order: Callable[[str], bytes],
    keys: list[str],
    bound: bytes,
) -> None:
    reader = reader_of(BucketOfKeys(keys, order=order))
    left, right = Part("files/", through=bound), Part("files/", after=bound)
    with pytest.raises(Disorder):
        [read(PartReader(part, reader)) for part in (left, right)]


def test_bounds_that_are_believed_lose_objects_that_the_server_has_elsewhere_control(
    reader_of: ReaderOf,
) -> None:
    """Each page is in order, no key is beyond its bound, and one of them is in neither part."""
    keys = ["files/a/x", "files/a/y", "files/a-b"]
    reader = reader_of(BucketOfKeys(keys, order=by_folders, page=1))
    bound = b"files/a-z"

    def careless(after: bytes | None) -> list[bytes]:
        page = reader.read(b"files/", after=after).page
        return [key for key in page.keys if after or key <= bound]

    assert b"files/a-b" not in careless(None) + careless(bound)
    with pytest.raises(Disorder):
        read(PartReader(Part("files/", through=bound), reader))


def test_a_server_that_ignores_start_after_is_noticed(reader_of: ReaderOf) -> None:
    reader = reader_of(BucketOfKeys(BELOW, knows_start_after=False))
    with pytest.raises(Disorder):
        read(PartReader(Part("files/", after=b"files/b"), reader))


def next_key_of(keys: list[bytes]) -> Callable[[bytes], bytes | None]:
    asked = 0

    def next_key(place: bytes) -> bytes | None:
        nonlocal asked
        asked += 1
        assert asked <= MOST_QUESTIONS
        place.decode()
        return next((key for key in keys if key > place), None)

    return next_key


@pytest.mark.parametrize("through", [None, b"files/70", b"files/a", "files/\uffff".encode()])
@pytest.mark.parametrize("position", range(1, len(ENCODED) - 1, 7))
def test_a_bound_lies_ahead_inside_the_range_and_has_keys_behind_it(
    position: int, through: bytes | None
) -> None:
    here = ENCODED[position]
    bound = find_bound(b"files/", here, through, next_key_of(ENCODED))
    if bound is None:
        assert through is not None or position > 100
        return
    assert here < bound
    assert through is None or bound < through
    assert any(key > bound and (through is None or key <= through) for key in ENCODED)


def test_deep_folders_and_identifiers_are_split_near_their_middle() -> None:
    dates = [f"files/2026/{month:02}/{n:04}".encode() for month in range(1, 13) for n in range(50)]
    bound = find_bound(b"files/", dates[0], None, next_key_of(dates))
    assert bound is not None
    assert 40 < sum(key > bound for key in dates) < len(dates)

    identifiers = sorted(b"files/%08x" % (number * 2654435761 % 2**32) for number in range(500))
    bounds = [identifiers[-1]]
    for _ in range(3):
        found = find_bound(b"files/", identifiers[0], bounds[-1], next_key_of(identifiers))
        assert found is not None
        bounds.append(found)
    assert 50 < sum(key > bounds[-1] for key in identifiers) < 450


def test_no_bound_is_found_where_there_is_nothing_behind() -> None:
    keys = [b"files/a"]
    assert find_bound(b"files/", keys[0], None, next_key_of(keys)) is None
    assert find_bound(b"files/", b"files/\xff", None, next_key_of(keys)) is None


def slow_pages(_asked: Asked, body: str) -> str:
    time.sleep(0.01)
    return body


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "SECONDS_BETWEEN_LOOKS", 0.001)
    monkeypatch.setattr(workers_module, "PAGES_BEFORE_SPLIT", 1)


@pytest.mark.usefixtures("eager")
def test_one_large_prefix_is_read_by_all_threads_and_whole(list_scripted: List) -> None:
    bucket = BucketOfKeys(BELOW, page=4, change=slow_pages)
    listed = list_scripted(bucket, parts=4)
    assert keys_of(listed) == ENCODED
    assert keys_of(listed) == ENCODED, "any number of times"
    assert listed.parts > 1
    assert listed.objects == len(ENCODED)
    assert listed.ordered_by_server


@pytest.mark.usefixtures("eager")
def test_a_whole_bucket_is_read_by_all_threads(list_scripted: List) -> None:
    keys = [*BELOW, "/", "//a", " ", "+", "a", "z/\U0010ffff", "\uffff", "\U0001f642"]
    listed = list_scripted(BucketOfKeys(keys, page=4, change=slow_pages), [""], parts=4)
    assert keys_of(listed) == sorted(key.encode() for key in keys)
    assert listed.parts > 1


def test_prefixes_are_read_side_by_side_and_come_out_in_order(list_scripted: List) -> None:
    keys = [
        f"{folder}/{number}" for folder in ("z", "a", "b-", "b", "\uffff") for number in range(9)
    ]
    bucket = BucketOfKeys([*keys, "other/x"], page=4)
    prefixes = ["z/", "b/", "a/", "b-/", "\uffff/", "empty/", "a/"]
    listed = list_scripted(bucket, prefixes, parts=3)
    assert keys_of(listed) == sorted(key.encode() for key in keys)
    assert listed.parts == 6


def test_a_prefix_inside_another_is_not_listed_twice(list_scripted: List) -> None:
    listed = list_scripted(BucketOfKeys(BELOW), ["files/7/", "files/", "files/7/"], parts=2)
    assert keys_of(listed) == ENCODED
    assert listed.parts == 1


@pytest.mark.usefixtures("eager")
def test_a_server_without_start_after_is_listed_without_ranges(list_scripted: List) -> None:
    bucket = BucketOfKeys(BELOW, page=5, knows_start_after=False, change=slow_pages)
    listed = list_scripted(bucket, parts=4)
    assert keys_of(listed) == ENCODED
    assert listed.parts == 1


@pytest.mark.usefixtures("eager")
def test_a_server_that_refuses_start_after_is_listed_without_ranges(list_scripted: List) -> None:
    from tests.objects.scripted import Answer, errors  # noqa: PLC0415 (only here)

    def refuse(asked: Asked, body: str) -> str | Answer:
        time.sleep(0.01)
        return body if asked.after is None else Answer(501, errors("NotImplemented"))

    listed = list_scripted(BucketOfKeys(BELOW, page=5, change=refuse), parts=4)
    assert keys_of(listed) == ENCODED


def test_an_empty_bucket_is_an_empty_listing(list_scripted: List) -> None:
    listed = list_scripted(BucketOfKeys([]), ["a/", "b/"], parts=4)
    assert (listed.objects, listed.bytes, listed.ordered_by_server) == (0, 0, True)
    assert keys_of(listed) == []


def test_pages_are_columns_of_one_length(list_scripted: List) -> None:
    [page] = list_scripted(BucketOfKeys(["files/a", "files/bb"])).pages()
    assert list(page.rows()) == [
        (b"files/a", 7, 1_795_955_696_789, b"%032x" % 7),
        (b"files/bb", 7, 1_795_955_696_789, b"%032x" % 8),
    ]
    assert page.unpacked(page.packed()) == page
    assert page.of_rows(list(page.rows())) == page
    assert len(page.first(1)) == 1
    assert cast("object", page.first(1).etags) == [b"%032x" % 7]
