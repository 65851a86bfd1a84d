"""Merge joins lose nothing where blocks begin and end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.jobs.storage_orphans.classification.classify import named, partners

KEYS = st.sampled_from([bytes([letter]) for letter in b"abcdef"])
PAIRS = st.lists(st.tuples(KEYS, KEYS), max_size=12).map(sorted)


def blocks_of(items: list[tuple[bytes, bytes]], size: int) -> list[list[tuple[bytes, bytes]]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def test_an_owner_that_several_blocks_ask_for_is_found_for_each_of_them() -> None:
    pairs = [[(b"owner", b"first")], [(b"owner", b"second")], [(b"owner", b"third")]]
    found = [pair for block in named(pairs, iter([[b"owner"]])) for pair in block]
    assert found == [(b"owner", b"first"), (b"owner", b"second"), (b"owner", b"third")]


@given(PAIRS, st.sets(KEYS), st.integers(1, 4), st.integers(1, 4))
def test_named_is_membership(
    pairs: list[tuple[bytes, bytes]], keys: set[bytes], per_block: int, per_keys: int
) -> None:
    ordered = sorted(keys)
    streams = [ordered[start : start + per_keys] for start in range(0, len(ordered), per_keys)]
    found = [pair for block in named(blocks_of(pairs, per_block), iter(streams)) for pair in block]
    assert found == [pair for pair in pairs if pair[0] in keys]


@given(PAIRS, PAIRS, st.integers(1, 4), st.integers(1, 4))
def test_partners_share_their_first_element(
    pairs: list[tuple[bytes, bytes]],
    rows: list[tuple[bytes, bytes]],
    per_block: int,
    per_rows: int,
) -> None:
    streams = iter(blocks_of(rows, per_rows))
    found = [pair for block in partners(blocks_of(pairs, per_block), streams) for pair in block]
    forms = {form for form, _ in rows}
    assert [sought for sought, _ in found] == [sought for form, sought in pairs if form in forms]
    possible = {(sought, row) for form, sought in pairs for other, row in rows if form == other}
    assert set(found) <= possible
