"""What a report shows of a class is exact where it counts, and bounded however much there is."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.jobs.storage_orphans.classification.breakdown import (
    AGE_NAMES,
    DAY,
    MOST_PREFIXES,
    SHOWN,
    Breakdown,
    ClassTotals,
    prefix_of,
)

NOW = 1_700_000_000_000
SEGMENTS = st.lists(st.sampled_from([b"a", b"b", b"c.jpg", b""]), min_size=1, max_size=4)
KEYS = SEGMENTS.map(b"/".join).filter(bool)


def counted(objects: dict[bytes, tuple[int, int]], per_lot: int = 1000) -> Breakdown:
    breakdown = Breakdown(NOW)
    keys = sorted(objects)
    for start in range(0, len(keys), per_lot):
        lot = keys[start : start + per_lot]
        sizes, modified = zip(*(objects[key] for key in lot), strict=True)
        breakdown.add((lot, list(sizes), list(modified), [b""] * len(lot)))
    return breakdown


@pytest.mark.parametrize(
    ("key", "prefix"),
    [
        (b"files/2024/a/b.jpg", b"files/2024/"),
        (b"files/2024/b.jpg", b"files/2024/"),
        (b"files/b.jpg", b"files/"),
        (b"b.jpg", b""),
        (b"/b.jpg", b"/"),
        (b"//b.jpg", b"//"),
    ],
)
def test_a_prefix_is_the_first_two_levels(key: bytes, prefix: bytes) -> None:
    assert prefix_of(key) == prefix


@given(st.dictionaries(KEYS, st.tuples(st.integers(0, 99), st.just(NOW))), st.integers(1, 5))
def test_totals_by_prefix_are_those_of_counting_one_by_one(
    objects: dict[bytes, tuple[int, int]], per_lot: int
) -> None:
    breakdown = counted(objects, per_lot)
    counts = Counter(map(prefix_of, objects))
    sizes: Counter[bytes] = Counter()
    for key, (size, _) in objects.items():
        sizes[prefix_of(key)] += size
    assert breakdown.by_prefix == {
        prefix: ClassTotals(counts[prefix], sizes[prefix]) for prefix in counts
    }
    assert breakdown.other_prefixes == ClassTotals(0, 0)


def test_of_endless_prefixes_the_largest_are_named_and_the_others_counted_together() -> None:
    objects = {b"files/%05d/a" % number: (number, NOW) for number in range(3000)}
    objects |= {b"files/%05d-flat" % number: (10, NOW) for number in range(0, 3000, 3)}
    breakdown = counted(objects, 100)
    named = breakdown.by_prefix
    assert len(named) == MOST_PREFIXES
    assert named[b"files/"] == ClassTotals(1000, 10_000)
    assert list(named)[:2] == [b"files/", b"files/02999/"]
    other = breakdown.other_prefixes
    assert other.count + sum(totals.count for totals in named.values()) == len(objects)
    assert other.bytes + sum(totals.bytes for totals in named.values()) == breakdown.bytes
    assert len(breakdown._prefixes) <= 3 * MOST_PREFIXES


@pytest.mark.parametrize(
    ("modified", "name"),
    [
        (NOW, "under 1 day"),
        (NOW + 99 * DAY, "under 1 day"),
        (NOW - DAY + 1, "under 1 day"),
        (NOW - DAY, "1 to 7 days"),
        (NOW - 7 * DAY, "7 to 30 days"),
        (NOW - 30 * DAY, "30 to 90 days"),
        (NOW - 90 * DAY, "90 to 365 days"),
        (NOW - 365 * DAY, "a year and more"),
        (1, "a year and more"),
        (0, "unknown"),
        (-1, "unknown"),
    ],
)
def test_an_age_is_in_its_bucket(modified: int, name: str) -> None:
    breakdown = counted({b"files/a": (3, modified)})
    assert breakdown.by_age.pop(name) == ClassTotals(1, 3)
    # Beside another one, where they are counted one by one.
    together = counted({b"files/a": (3, modified), b"files/b": (4, NOW - 40 * DAY)})
    assert together.by_age[name].count == 1 + (name == "30 to 90 days")
    assert list(together.by_age) == list(AGE_NAMES)


def test_the_largest_and_the_oldest_are_found_wherever_they_are() -> None:
    objects = {
        b"files/%05d" % number: (number * 7919 % 10_007, NOW - number * 104_729 % 10_007 * DAY)
        for number in range(10_000)
    }
    objects[b"files/unknown"] = (0, -1)
    breakdown = counted(objects, 37)
    by_size = sorted(objects.values(), reverse=True)[:SHOWN]
    assert [shown.size for shown in breakdown.largest] == [size for size, _ in by_size]
    oldest = sorted(modified for _, modified in objects.values() if modified > 0)[:SHOWN]
    assert [shown.modified for shown in breakdown.oldest] == oldest


@pytest.mark.parametrize("per_lot", [1, 7, 1000])
def test_samples_are_few_and_spread_over_everything(per_lot: int) -> None:
    objects = {b"files/%05d" % number: (1, NOW) for number in range(10_000)}
    numbers = [int(sample.key[-5:]) for sample in counted(objects, per_lot).samples]
    assert SHOWN <= len(numbers) <= 2 * SHOWN
    gaps = {after - before for before, after in pairwise(numbers)}
    assert len(gaps) == 1
    assert numbers[-1] + max(gaps) >= 10_000


def test_few_objects_are_all_samples() -> None:
    objects = {b"files/%d" % number: (1, NOW) for number in range(SHOWN)}
    assert [sample.key for sample in counted(objects, 3).samples] == sorted(objects)
