from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filejobs_dagster.streams import (
    Cursor,
    OutOfOrder,
    Scratch,
    Sorter,
    first,
    in_order,
    merge,
    without_repeats,
)
from filejobs_dagster.streams import sorter as sorter_module
from filejobs_dagster.streams.scratch import BYTES_PER_BLOCK, MOST_ITEMS, cut, weight

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = st.lists(st.binary(max_size=3), max_size=60)
ASTRAL, HIGHEST = "\U0001f642".encode(), "\uffff".encode()


def blocks(items: list[Any], size: int) -> Iterator[list[Any]]:
    yield []
    for start in range(0, len(items), size):
        yield items[start : start + size]
        yield []


def flat(stream: Iterator[list[Any]]) -> list[Any]:
    return [item for block in stream for item in block]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as opened:
        yield opened


@given(st.lists(KEYS, max_size=6), st.integers(1, 7))
def test_merging_is_the_same_as_sorting_everything(streams: list[list[bytes]], size: int) -> None:
    merged = list(merge([blocks(sorted(keys), size) for keys in streams]))
    assert flat(iter(merged)) == sorted(key for keys in streams for key in keys)
    assert all(merged), "no block is empty"


@given(st.lists(KEYS, max_size=4), st.integers(1, 7))
def test_tuples_are_merged_by_their_key_alone(streams: list[list[bytes]], size: int) -> None:
    # None and a number cannot be compared: only keys are.
    items = [
        [(key, None if number % 2 else number) for number, key in enumerate(sorted(keys))]
        for keys in streams
    ]
    merged = flat(merge([blocks(each, size) for each in items]))
    assert [key for key, _ in merged] == sorted(key for each in items for key, _ in each)
    assert sorted(merged, key=repr) == sorted((it for each in items for it in each), key=repr)


@given(KEYS, st.integers(1, 7))
def test_repeats_go_also_across_blocks(keys: list[bytes], size: int) -> None:
    assert flat(without_repeats(blocks(sorted(keys), size))) == sorted(set(keys))
    tuples = [(key, number) for number, key in enumerate(sorted(keys))]
    assert [key for key, _ in flat(without_repeats(blocks(tuples, size)))] == sorted(set(keys))


@given(KEYS, st.lists(st.binary(max_size=3), max_size=20), st.integers(1, 7))
def test_a_cursor_hands_out_everything_once(
    keys: list[bytes], places: list[bytes], size: int
) -> None:
    keys.sort()
    cursor = Cursor(blocks(keys, size))
    taken: list[bytes] = []
    for place in sorted(places):
        part = cursor.take_through(place)
        assert all(key <= place for key in part)
        taken += part
        assert taken == [key for key in keys if key <= place]
    assert taken + flat(cursor.rest()) == keys


def test_a_cursor_gives_a_long_stretch_in_pieces_and_keeps_what_is_not_taken() -> None:
    cursor = Cursor(blocks([b"%03d" % number for number in range(100)], 10))
    pieces = cursor.blocks_through(b"055")
    assert len(next(pieces)) == 10
    assert len(next(pieces)) == 10
    assert cursor.take_through(b"029") == [b"%03d" % number for number in range(20, 30)]
    assert flat(cursor.blocks_through(b"055"))[-1] == b"055"
    assert cursor.take_through(b"055") == []
    assert next(cursor.rest())[0] == b"056"


def test_a_cursor_over_tuples_goes_by_their_key() -> None:
    cursor = Cursor(blocks([(b"a", None), (b"b", 2), (b"c", "x")], 2))
    assert cursor.take_through(b"b") == [(b"a", None), (b"b", 2)]
    assert cursor.take_through(b"b") == []
    assert cursor.take_through(b"z") == [(b"c", "x")]


@settings(max_examples=25)
@given(st.lists(st.binary(max_size=4), max_size=300), st.booleans(), st.integers(1, 4000))
def test_sorting_on_disk_is_the_same_as_sorting_in_memory(
    keys: list[bytes], unique: bool, memory: int
) -> None:
    with Scratch(None) as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorter_module, "AT_ONCE", 16)
        patch.setattr(sorter_module, "MOST_RUNS", 3)
        sorter: Sorter[bytes] = Sorter(scratch, "keys", memory=memory)
        sorter.add(iter(keys[:100]))
        sorter.add(keys[100:])
        assert sorter.count == len(keys)
        expected = sorted(set(keys)) if unique else sorted(keys)
        assert flat(sorter.sorted_blocks(unique=unique)) == expected
        left = [it.name for it in scratch.folder.iterdir() if it.name != "lock"]
        assert left == [], "the runs give their room back"


def test_tuples_are_sorted_by_their_key_alone(scratch: Scratch) -> None:
    rows: list[tuple[Any, ...]] = [
        (b"%05d" % number, None if number % 2 else number, b"etag") for number in range(3000)
    ]
    shuffled = random.Random(1).sample(rows, len(rows))  # noqa: S311 (the same at each run)
    sorter: Sorter[tuple[Any, ...]] = Sorter(scratch, "rows", memory=50_000)
    sorter.add(shuffled)
    assert flat(sorter.sorted_blocks()) == rows


def test_the_order_is_that_of_bytes_and_not_of_utf_16() -> None:
    assert HIGHEST < ASTRAL
    assert "\uffff".encode("utf-16-be") > "\U0001f642".encode("utf-16-be")
    assert flat(merge([iter([[ASTRAL]]), iter([[HIGHEST]])])) == [HIGHEST, ASTRAL]
    with pytest.raises(OutOfOrder, match="ufff"):
        flat(in_order([[ASTRAL, HIGHEST]]))


@pytest.mark.parametrize("stream", [[[b"b", b"a"]], [[b"a", b"c"], [b"b"]], [[b"b"], [], [b"a"]]])
def test_a_stream_out_of_order_is_never_passed_on(stream: list[list[bytes]]) -> None:
    with pytest.raises(OutOfOrder, match="after"):
        list(in_order(stream))
    with pytest.raises(OutOfOrder, match="after"):
        list(in_order([[(key, None) for key in block] for block in stream]))


@pytest.mark.parametrize("stream", [[[b"a", b"a"]], [[b"a"], [b"a", b"b"]]])
def test_a_repeat_is_in_order_unless_it_must_not_be(stream: list[list[bytes]]) -> None:
    assert list(in_order(stream)) == stream
    with pytest.raises(OutOfOrder, match="'a' after 'a'"):
        list(in_order(stream, strictly=True))


def test_the_order_of_an_unsorted_side_loses_matches_in_a_merge_join_control() -> None:
    """What `in_order` is for: a careless join over an unsorted side calls a referenced key free."""
    references = Cursor(iter([[b"b"], [b"a"]]))
    unreferenced = [key for key in (b"a", b"b") if key not in references.take_through(key)]
    assert unreferenced == [b"a"], "the careless join would have deleted it"

    with pytest.raises(OutOfOrder):
        Cursor(in_order([[b"b"], [b"a"]])).take_through(b"b")


def test_blocks_are_bounded_by_items_and_by_bytes() -> None:
    short = [b"%06d" % number for number in range(2 * MOST_ITEMS)]
    assert max(map(len, cut(short))) <= MOST_ITEMS
    long = [bytes(1024)] * 1000
    assert all(weight(block) <= BYTES_PER_BLOCK for block in cut(long))
    assert flat(cut(long)) == long
    assert list(cut([])) == []


def test_the_weight_of_tuples_counts_what_they_hold() -> None:
    assert weight([]) == 0
    assert weight([(b"k", bytes(1000))] * 10) > 10_000
    assert first((b"k", 1)) == b"k"
