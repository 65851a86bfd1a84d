"""A key is known when one of the patterns matches all of it."""

from __future__ import annotations

import pytest

from filejobs_dagster.jobs.storage_orphans.classification.records import Shape

PATTERNS = (r"files/[0-9a-f]{4}(/.*)?", r"logs/[^/]+\.txt")


@pytest.mark.parametrize(
    ("key", "known"),
    [
        (b"files/00ff", True),
        (b"files/00ff/a/b", True),
        (b"files/00ff/two\nlines", True),
        (b"files/00ff/\xff", True),
        (b"files/00ffa", False),
        (b"files/00FF", False),
        (b"files/00ff\n", False),
        (b"x/files/00ff", False),
        (b"logs/a.txt", True),
        (b"logs/a.txt\n", False),
        (b"", False),
    ],
)
def test_the_whole_key_must_match(key: bytes, known: bool) -> None:
    assert Shape(PATTERNS).known(key) is known


def test_without_patterns_every_key_is_known() -> None:
    assert Shape().known(b"anything\xff\n")
    assert not Shape().declared
    assert Shape(PATTERNS).declared
