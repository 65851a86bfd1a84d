"""Four times the objects take the same memory, whatever the share of orphans."""

from __future__ import annotations

import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans.classification import Rules, classify
from tests.jobs.storage_orphans.classification.worlds import CUTOFF, OLD, PageForTests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.streams import Scratch

MEBIBYTE = 1024 * 1024
PER_PAGE = 1000


@dataclass(frozen=True)
class Made:
    """Objects and references that are made when they are asked for."""

    objects: int
    named_of_ten: int

    def pages(self) -> Iterator[PageForTests]:
        for start in range(0, self.objects, PER_PAGE):
            keys = [b"files/%08d.jpg" % number for number in range(start, start + PER_PAGE)]
            yield PageForTests(
                keys, [1] * PER_PAGE, [OLD] * PER_PAGE, [b"%032d" % len(keys)] * PER_PAGE
            )

    def blocks(self) -> Iterator[list[bytes]]:
        for page in self.pages():
            yield [key for number, key in enumerate(page.keys) if number % 10 < self.named_of_ten]

    def written(self) -> Iterator[list[bytes]]:
        return iter(())

    def awaited(self) -> Iterator[list[bytes]]:
        # Every key is, those with an object too: they pile up in front of the first one without.
        return (page.keys for page in self.pages())


def peak_of(made: Made, scratch: Scratch) -> int:
    """The most bytes that Python held while it classified and read the orphans."""
    tracemalloc.start()
    try:
        found = classify(made, made, Rules(owned=(b"files/",)), CUTOFF, scratch)
        orphans = sum(len(block) for block in found.orphans())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert orphans == made.objects * (10 - made.named_of_ten) // 10
    return peak


@pytest.mark.parametrize("named_of_ten", [9, 0])
def test_memory_does_not_grow_with_the_bucket(named_of_ten: int, scratch: Scratch) -> None:
    small = peak_of(Made(3_000, named_of_ten), scratch)
    large = peak_of(Made(12_000, named_of_ten), scratch)
    assert large < small + MEBIBYTE
    assert large < 16 * MEBIBYTE
