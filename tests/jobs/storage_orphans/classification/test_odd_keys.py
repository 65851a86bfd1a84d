"""Of a hundred odd keys exactly the right ones are orphans; keys compared in any other way fail."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from tests.jobs.storage_orphans.classification.worlds import World, kinds_of, rewrites
from tests.jobs.storage_orphans.odd_keys import (
    AMBIGUOUS,
    MARKER,
    ODD_KEYS,
    ORPHAN,
    PROTECT,
    PROTECTED,
    REFERENCED,
    REWRITES,
    ROWS,
    UNKNOWN,
    Odd,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.streams import Scratch


def odd_world() -> World:
    return World.of(
        [odd.key for odd in ODD_KEYS],
        ROWS,
        protect=tuple(entry.encode() for entry in PROTECT),
        rewrites=rewrites(*REWRITES),
        bucket=b"bucket",
    )


def test_the_table_has_enough_keys_and_each_once() -> None:
    assert len(ODD_KEYS) >= 60
    assert len({odd.key for odd in ODD_KEYS}) == len(ODD_KEYS)
    assert {odd.kind for odd in ODD_KEYS} >= {
        REFERENCED, ORPHAN, AMBIGUOUS, PROTECTED, MARKER, UNKNOWN,
    }  # fmt: skip
    assert all(1 <= len(odd.key) <= 1024 for odd in ODD_KEYS)


def test_every_odd_key_is_in_its_class_and_exactly_the_right_ones_are_orphans(
    scratch: Scratch,
) -> None:
    classification = odd_world().classify(scratch)
    orphans = {orphan.key for block in classification.orphans() for orphan in block}
    assert orphans == {odd.key for odd in ODD_KEYS if odd.kind == ORPHAN}
    found = kinds_of(classification)
    assert {key: kind for key, kind in found.items() if kind != REFERENCED} == {
        odd.key: odd.kind for odd in ODD_KEYS if odd.kind != REFERENCED
    }
    counts = {kind: totals.count for kind, totals in classification.classes.items()}
    expected = [odd.kind for odd in ODD_KEYS]
    assert counts == {kind: expected.count(kind) for kind in counts}


@pytest.mark.parametrize("odd", ODD_KEYS, ids=lambda odd: ascii(odd.key[:40]))
def test_an_odd_key_alone_with_all_rows_is_in_the_same_class(odd: Odd, scratch: Scratch) -> None:
    """Neighbours in a page decide nothing."""
    world = odd_world()
    world.objects = {odd.key: world.objects[odd.key]}
    assert world.kinds(scratch) == {odd.key: odd.kind}


def careless_orphans(compared: Callable[[str], str], *, rows_only: bool = False) -> set[bytes]:
    """What a collector calls orphans that compares keys in another form than their bytes."""
    rows = {compared(row) for row in ROWS}
    plain = [odd for odd in ODD_KEYS if not odd.only_in_memory]
    return {
        odd.key
        for odd in plain
        if (odd.key.decode() if rows_only else compared(odd.key.decode())) not in rows
    }


@pytest.mark.parametrize(
    ("compared", "held"),
    [
        (lambda key: unicodedata.normalize("NFC", key), "files/twin-e\u0301"),
        (str.casefold, "files/twin"),
        (unquote, "files/Atoms for Peace.tif"),
        (str.strip, "files/row-newline"),
    ],
    ids=["normalised", "casefolded", "unquoted", "stripped"],
)
def test_control_comparing_another_form_of_both_sides_takes_the_wrong_object_for_named(
    compared: Callable[[str], str], held: str
) -> None:
    orphans = careless_orphans(compared)
    assert held.encode() not in orphans, "what only looks like a named key is silently held"
    named = {odd.key: odd.kind for odd in ODD_KEYS}
    assert named[held.encode()] == AMBIGUOUS
    # And it has no idea of what a row may mean in any other form: those are deleted.
    assert any(named[key] == AMBIGUOUS for key in orphans)


@pytest.mark.parametrize(
    ("compared", "lost"),
    [
        (unquote, "files/2024 00%3A00.bin"),
        (lambda key: unicodedata.normalize("NFC", key), "files/decomposed-e\u0301"),
        (str.casefold, "files/UPPER-CASE.JPG"),
        (str.strip, "files/trailing-space "),
    ],
    ids=["unquoted", "normalised", "casefolded", "stripped"],
)
def test_control_comparing_another_form_of_one_side_deletes_what_a_row_names(
    compared: Callable[[str], str], lost: str, scratch: Scratch
) -> None:
    assert lost in ROWS
    assert lost.encode() in careless_orphans(compared, rows_only=True)
    assert lost.encode() not in {
        orphan.key for block in odd_world().classify(scratch).orphans() for orphan in block
    }
