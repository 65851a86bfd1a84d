"""Blocks, pages, joins on disk and fast paths give what judging each key by hand gives."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from filejobs_dagster.jobs.storage_orphans.classification import Rules, classify
from filejobs_dagster.jobs.storage_orphans.classification.records import Shape
from filejobs_dagster.streams import Scratch
from tests.jobs.storage_orphans.classification.naive import naive_kinds, naive_missing
from tests.jobs.storage_orphans.classification.worlds import (
    CUTOFF,
    NEW,
    OLD,
    ListingForTests,
    ReferencesForTests,
    World,
    kinds_of,
    rewrites,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.jobs.storage_orphans.classification import Kept

PIECES = [
    b"a", b"b", b"A", b"1", b"/", b"//", b".", b"..", b" ", b"+", b"%20", b"%2B", b"%41", b"%",
    b"25", b"\n", b"\t", b"\x00", b"?", b"#", "é".encode(), "e\u0301".encode(), "\u0301".encode(),
    b"\xff", "ß".encode(), b"SS", b"thumb", b".info", b"s3://bucket/", b"files/", b"bucket/",
    "😀".encode(), "\ue000".encode(),
]  # fmt: skip
TAILS = st.lists(st.sampled_from(PIECES), min_size=0, max_size=4).map(b"".join)
KEYS = st.builds(lambda prefix, tail: prefix + tail, st.sampled_from([b"files/", b"more/"]), TAILS)
ROWS = st.one_of(
    KEYS, st.builds(lambda base, key: base + key, st.sampled_from(PIECES), KEYS), TAILS
)
TIMES = st.sampled_from([OLD, OLD, OLD, OLD, CUTOFF - 1, CUTOFF, NEW, -1, 0])
RULES = st.builds(
    Rules,
    owned=st.just((b"files/", b"more/")),
    protect=st.sampled_from([(), (b"files/a", b"more/b/")]),
    shape=st.sampled_from([Shape(), Shape([r"files/.*", r"more/[^/]*"])]),
    rewrites=st.sampled_from(
        [
            rewrites(),
            rewrites(
                ("info", r"(?P<file>.+)\.info", "{file}"),
                ("thumb", r"(?P<file>files/.*)thumb", "{file}"),
            ),
        ]
    ),
    bucket=st.sampled_from([b"", b"bucket"]),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    keys = draw(st.lists(KEYS, max_size=20, unique=True))
    objects = {key: (draw(st.integers(0, 9)), draw(TIMES)) for key in keys}
    rows = draw(st.lists(ROWS.filter(bool), max_size=12))
    # Half of the rows name an object, so that every class comes about.
    some = st.lists(st.sampled_from(keys), max_size=10) if keys else st.just([])
    rows += draw(some)
    written = [*draw(st.lists(ROWS.filter(bool), max_size=2)), *draw(some)[:2]]
    may_lack = [row for row in rows if draw(st.booleans())]
    return World(objects, rows, written, draw(RULES), may_lack)


@settings(max_examples=1000 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 80)
@given(worlds(), st.integers(1, 7), st.integers(1, 7))
def test_the_classification_is_the_one_of_judging_each_key_by_hand(
    world: World, per_page: int, per_block: int
) -> None:
    with TemporaryDirectory() as folder, Scratch(Path(folder)) as scratch:
        classification = classify(
            ListingForTests(world.objects, per_page),
            ReferencesForTests(world.rows, world.as_written, per_block, world.may_lack),
            world.rules,
            CUTOFF,
            scratch,
        )
        expected = naive_kinds(world)
        assert kinds_of(classification) == expected
        for kind, totals in classification.classes.items():
            of_kind = [key for key, found in expected.items() if found == kind]
            assert totals.count == len(of_kind)
            assert totals.bytes == sum(world.objects[key][0] for key in of_kind)
        missing = naive_missing(world)
        assert classification.missing == len(missing)
        assert set(classification.missing_samples) <= missing
        assert classification.references == len(set(world.rows))
        assert classification.matched == len(set(world.rows) & set(world.objects))
        near = {kept.key: kept.because for kept in _kept(classification.kept(), "ambiguous")}
        assert set(near.values()) <= {*world.rows, *world.as_written}


def _kept(blocks: Iterator[list[Kept]], kind: str) -> Iterator[Kept]:
    for block in blocks:
        yield from (kept for kept in block if kept.kind == kind)
