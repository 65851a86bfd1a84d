"""A run that matches too little says which transform seems to be missing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans.classification import suggest_transform
from filejobs_dagster.jobs.storage_orphans.classification.joining import KEPT, Sketch, stem
from filejobs_dagster.references.near import explain
from tests.jobs.storage_orphans.classification.worlds import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.streams import Scratch

NUMBERS = range(5000)
OBJECTS = [f"files/2024/{number:05}.jpg" for number in NUMBERS]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (lambda key: f"s3://bucket/{key}", '{strip_base: ["s3://bucket/"]}'),
        (lambda key: f"/{key}", '{strip_base: ["/"]}'),
        (lambda key: key.removeprefix("files/"), '{prepend: "files/"}'),
        (lambda key: f"{key}?v=1", "{drop_query: true}"),
        (lambda key: key.replace("/", "%2F"), "{percent_decode: true}"),
        (lambda key: f"{key}.original", '{strip_suffix: ".original"}'),
        (
            lambda key: f"https://cdn.example.com/{key}?v=1",
            '{drop_query: true}, {strip_base: ["https://cdn.example.com/"]}',
        ),
        (
            lambda key: key.replace("files/2024/", "media/"),
            '{strip_base: ["media/"]}, {prepend: "files/2024/"}',
        ),
    ],
    ids=["base", "slash", "prefix", "query", "encoding", "suffix", "address", "other base"],
)
def test_when_nothing_matches_the_missing_transform_is_named(
    row: Callable[[str], str], words: str, scratch: Scratch
) -> None:
    found = World.of(OBJECTS, map(row, OBJECTS)).classify(scratch)
    assert found.matched == 0
    suggestion = suggest_transform(found)
    assert suggestion is not None
    assert words in suggestion
    assert "for example the row" in suggestion


def test_forms_that_no_transform_can_mend_are_named_as_what_they_are(scratch: Scratch) -> None:
    for key, row, words in (
        ("files/e\u0301", "files/\xe9", "NFC and NFD"),
        ("files/A", "files/a", "upper and lower case"),
        ("files/a ", "files/a\n", "white space"),
        ("files/a+b", "files/a b", "space in place of its +"),
    ):
        suggestion = suggest_transform(World.of([key], [row]).classify(scratch))
        assert suggestion is not None
        assert words in suggestion


def test_without_a_clue_nothing_is_suggested(scratch: Scratch) -> None:
    assert suggest_transform(World.of(["files/a"], ["other/b"]).classify(scratch)) is None
    assert suggest_transform(World.of([], []).classify(scratch)) is None
    assert explain(b"files/a", b"files/a") is None


def test_two_sides_of_millions_keep_the_same_names() -> None:
    objects, rows = Sketch(), Sketch()
    objects.add(b"files/%07d.jpg" % number for number in range(50_000))
    rows.add(b"s3://bucket/files/%07d.JPG?v=1" % number for number in range(50_000))
    assert KEPT <= len(objects) < 2 * KEPT
    pairs = objects.meet(rows)
    assert len(pairs) >= KEPT
    assert all(stem(key) == stem(row) for key, row in pairs)
