"""Which class an object is in, which class comes first, and what else a classification counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans.classification import (
    ClassificationProgress,
    ListingContradicts,
    Rules,
    classify,
)
from filejobs_dagster.jobs.storage_orphans.classification.records import CLASSES, Shape
from filejobs_dagster.references.transforms import RewriteMistaken
from tests.jobs.storage_orphans.classification.worlds import (
    CUTOFF,
    NEW,
    OLD,
    ListingForTests,
    PageForTests,
    ReferencesForTests,
    World,
    rewrites,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.settings.storage import BucketSettings
    from filejobs_dagster.streams import Scratch

THUMBNAILS = rewrites(("thumbnails", r"(?P<file>files/[^/]+)/thumb\.webp", "{file}"))


def from_settings(bucket: BucketSettings) -> Rules:
    """Type-checked: the settings are what the rules ask for."""
    return Rules.of(bucket)


# Precedence


def test_each_class_gives_way_to_all_before_it(scratch: Scratch) -> None:
    """One key that everything fits; what came first is taken away step by step."""
    key = "files/f1/thumb.webp"
    young = {key.encode(): (1, NEW)}
    everything = {
        "rewrites": THUMBNAILS,
        "protect": (b"files/f1/",),
        "shape": Shape(["nothing"]),
    }
    seen: list[str] = []
    for rows, without, objects in (
        ([key, "files/f1"], (), young),
        (["files/f1", "files/f1/THUMB.webp"], (), young),
        (["files/f1/THUMB.webp"], (), young),
        (["files/f1/THUMB.webp"], ("protect",), young),
        (["files/f1/THUMB.webp"], ("protect", "shape"), young),
        (["files/f1/THUMB.webp"], ("protect", "shape"), None),
        ([], ("protect", "shape"), None),
    ):
        rules = {name: rule for name, rule in everything.items() if name not in without}
        world = World.of([key], rows, **rules)
        world.objects = objects or world.objects
        seen += world.kinds(scratch).values()
    assert seen == [name for name in CLASSES if name not in ("directory marker", "named elsewhere")]


def test_a_directory_marker_comes_after_protection_and_before_shape_and_age(
    scratch: Scratch,
) -> None:
    world = World.of(
        ["files/", "files/2024/", "files/brand/", "files/named/"],
        ["files/named/"],
        protect=(b"files/brand/",),
        shape=Shape(["nothing"]),
    )
    world.objects[b"files/2024/"] = (0, NEW)
    assert world.kinds(scratch) == {
        b"files/": "directory marker",
        b"files/2024/": "directory marker",
        b"files/brand/": "protected",
        b"files/named/": "referenced",
    }


@pytest.mark.parametrize(
    ("modified", "kind"),
    [
        (CUTOFF - 1, "orphan"),
        (CUTOFF, "young"),
        (CUTOFF + 1, "young"),
        (CUTOFF * 2, "young"),
        (-1, "young"),
        (0, "young"),
        (1, "orphan"),
    ],
)
def test_an_object_is_young_from_the_cutoff_on_and_when_its_age_is_unknown(
    modified: int, kind: str, scratch: Scratch
) -> None:
    world = World.of(["files/a"], [])
    world.objects[b"files/a"] = (1, modified)
    assert world.kinds(scratch) == {b"files/a": kind}


def test_protection_is_read_as_the_gate_reads_it(scratch: Scratch) -> None:
    world = World.of(
        ["files/brand", "files/brand/x", "files/brand-new", "files/dir/x", "files/dir"],
        [],
        protect=(b"files/brand", b"files/dir/"),
    )
    assert world.kinds(scratch) == {
        b"files/brand": "protected",
        b"files/brand/x": "protected",
        b"files/brand-new": "orphan",
        b"files/dir/x": "protected",
        b"files/dir": "orphan",
    }


# Cases that others met


def test_an_upload_of_a_moment_ago_without_a_row_is_kept(scratch: Scratch) -> None:
    world = World.of(["files/n1"], [])
    world.objects[b"files/n1"] = (1, NEW)
    assert world.kinds(scratch) == {b"files/n1": "young"}


def test_rows_as_addresses_paths_and_with_the_bucket_never_make_their_object_an_orphan(
    scratch: Scratch,
) -> None:
    for row in (
        "s3://b/files/a", "hdfs://host/files/a", "hdfs:/files/a", "/files/a", "b/files/a",
        "https://cdn.example.com/files/a", "https://s3.example.com/b/files/a?X-Amz-Date=1",
        "/mnt/store/files/a", "https%3A%2F%2Fcdn.example.com%2Ffiles%2Fa",
    ):  # fmt: skip
        assert World.of(["files/a"], [row], bucket=b"b").kinds(scratch) == {
            b"files/a": "ambiguous"
        }, row


def test_addresses_are_recognised_in_a_bucket_that_is_owned_as_a_whole(scratch: Scratch) -> None:
    for row in ("s3://b/x/a", "https://cdn.example.com/x/a", "/x/a", "b/x/a", "/mnt/x/a"):
        world = World.of(["x/a"], [row], owned=(b"",), bucket=b"b")
        assert world.kinds(scratch) == {b"x/a": "ambiguous"}, row


def test_a_path_that_ends_in_an_owned_key_is_a_key_of_its_own(scratch: Scratch) -> None:
    """`archive/files/a` names the archive's object, and not the one in `files/`."""
    assert World.of(["files/a"], ["archive/files/a"]).kinds(scratch) == {b"files/a": "orphan"}


def test_derived_objects_stay_with_their_owner_and_go_when_it_is_gone(scratch: Scratch) -> None:
    declared = rewrites(
        ("variants", r"(?P<file>files/[^/]+)/(thumb\.webp|hls/[^/]+)", "{file}"),
    )
    objects = ["files/f1", "files/f1/thumb.webp", "files/f1/hls/0.ts"]
    with_row = World.of(objects, ["files/f1"], rewrites=declared).kinds(scratch)
    assert sorted(with_row.values()) == ["derived", "derived", "referenced"]
    without = World.of(objects, [], rewrites=declared).kinds(scratch)
    assert set(without.values()) == {"orphan"}


def test_the_owner_of_a_derived_object_may_be_meant_in_another_form(scratch: Scratch) -> None:
    world = World.of(["files/F1/thumb.webp"], ["files/f1"], rewrites=THUMBNAILS)
    assert world.kinds(scratch) == {b"files/F1/thumb.webp": "ambiguous"}
    (block,) = world.classify(scratch).kept()
    assert (block[0].key, block[0].because) == (b"files/F1/thumb.webp", b"files/f1")


def test_a_derived_object_of_a_new_kind_is_reported_and_not_deleted(scratch: Scratch) -> None:
    world = World.of(["files/1", "files/1/stats.json"], ["files/1"], shape=Shape([r"files/[0-9]+"]))
    assert world.kinds(scratch)[b"files/1/stats.json"] == "unknown shape"


def test_a_key_with_endless_owners_is_kept(scratch: Scratch) -> None:
    many = rewrites(*((f"r{n}", r"(?P<x>files/.*)", "{x}" + str(n)) for n in range(9)))
    world = World.of(["files/a"], [], rewrites=many)
    assert world.kinds(scratch) == {b"files/a": "unknown shape"}


def test_a_rewrite_that_maps_a_key_to_itself_fails_the_classification(scratch: Scratch) -> None:
    itself = rewrites(("broken", r"(?P<x>.*a)", "{x}"))
    with pytest.raises(RewriteMistaken, match="'broken' maps 'files/a' to itself"):
        World.of(["files/a"], [], rewrites=itself).classify(scratch)


def test_the_value_that_a_row_had_before_the_transforms_keeps_an_object(scratch: Scratch) -> None:
    """`prepend` for rows of which some have the prefix already."""
    world = World.of(["files/a"], ["files/files/a"])
    assert world.kinds(scratch) == {b"files/a": "orphan"}
    world.as_written = [b"files/a"]
    assert world.kinds(scratch) == {b"files/a": "ambiguous"}


def test_keys_that_begin_alike_are_not_taken_for_each_other(scratch: Scratch) -> None:
    world = World.of(["files/_tmp/x", "files/.y", "files/a", "files/a.b", "files/ab"], ["files/a"])
    assert world.kinds(scratch) == {
        b"files/a": "referenced",
        b"files/_tmp/x": "orphan",
        b"files/.y": "orphan",
        b"files/a.b": "orphan",
        b"files/ab": "orphan",
    }


# What is counted


def test_references_without_an_object_are_counted_inside_owned_prefixes_only(
    scratch: Scratch,
) -> None:
    missing = [f"files/missing-{number:03}" for number in range(100)]
    world = World.of(["files/a", "files/zz"], ["files/a", "aaa/x", "zzz/x", *missing])
    found = world.classify(scratch)
    assert (found.references, found.matched, found.missing) == (103, 1, 100)
    assert found.owned_references == 101
    assert {sample.decode() for sample in found.missing_samples} <= set(missing)
    assert 5 <= len(found.missing_samples) <= 21


def test_keys_whose_upload_may_still_come_protect_and_are_not_missing(scratch: Scratch) -> None:
    absent = [f"files/absent-{number:03}" for number in range(60)]
    open_ones = [key for number, key in enumerate(absent) if number % 3]
    world = World.of(["files/a", "files/came", "files/zz"], ["files/a", "files/came", *absent])
    world.may_lack = [key.encode() for key in ("files/came", "other/x", *open_ones)]
    found = world.classify(scratch)
    assert (found.missing, found.awaited) == (20, 40)
    assert found.owned_references == 22
    assert not {sample.decode() for sample in found.missing_samples} & set(open_ones)
    assert found.matched == 2
    # CONTROL: without it, every open reservation looks like a listing that ended early.
    world.may_lack = []
    assert world.classify(scratch).missing == 60


def test_an_empty_reference_set_makes_everything_old_an_orphan_and_says_so(
    scratch: Scratch,
) -> None:
    """Sources that are empty by mistake fail before; what is left is for the breakers."""
    found = World.of(["files/a", "files/b"], []).classify(scratch)
    assert found.classes["orphan"].count == found.objects == 2
    assert found.references == found.matched == 0


def test_an_empty_bucket_without_references_is_all_zeros(scratch: Scratch) -> None:
    found = World.of([], []).classify(scratch)
    assert (found.objects, found.bytes, found.references, found.missing) == (0, 0, 0, 0)
    assert all(totals.count == 0 for totals in found.classes.values())
    assert list(found.classes) == list(CLASSES)
    assert list(found.orphans()) == []


def test_orphans_come_as_listed_in_order_and_as_often_as_asked(scratch: Scratch) -> None:
    keys = [f"files/{number:04}" for number in range(5000)]
    world = World.of(keys, keys[::2])
    found = world.classify(scratch)
    once = [orphan for block in found.orphans() for orphan in block]
    assert [orphan.key.decode() for orphan in once] == keys[1::2]
    assert once[0].etag == b"etag-of-files/0001"
    assert (once[0].size, once[0].modified) == (1, OLD)
    assert [orphan for block in found.orphans() for orphan in block] == once


def test_the_shares_of_one_class_count_bytes_too(scratch: Scratch) -> None:
    world = World.of(["files/A", "files/b"], ["files/a"])
    world.objects = {b"files/A": (7, OLD), b"files/b": (5, OLD)}
    found = world.classify(scratch)
    assert found.classes["ambiguous"].count == 1
    assert found.classes["ambiguous"].bytes == 7
    assert found.bytes == 12
    assert [(near.key, near.row) for near in found.ambiguous_samples] == [(b"files/A", b"files/a")]


def test_progress_is_told_for_every_page_and_may_stop_the_work(scratch: Scratch) -> None:
    told: list[ClassificationProgress] = []
    world = World.of([f"files/{number}" for number in range(9)], ["files/1"])
    world.classify(scratch, on_progress=told.append)
    matching = [progress.objects for progress in told if progress.phase == "matching"]
    assert matching == [3, 6, 9]
    assert told[-1].phase == "looking for near matches"

    class Stopped(Exception):
        pass

    def stop(_: ClassificationProgress) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        world.classify(scratch, on_progress=stop)


# Listings from which nothing may be concluded


@dataclass
class GivenPages:
    given: list[list[bytes]]

    def pages(self) -> Iterator[PageForTests]:
        for keys in self.given:
            count = len(keys)
            yield PageForTests(keys, [1] * count, [OLD] * count, [b""] * count)


@pytest.mark.parametrize(
    "pages",
    [
        [[b"files/b", b"files/a"]],
        [[b"files/b"], [b"files/a"]],
        [[b"files/a", b"files/a"]],
        [[b"files/a"], [b"files/a"]],
    ],
)
def test_a_listing_out_of_order_is_refused(pages: list[list[bytes]], scratch: Scratch) -> None:
    with pytest.raises(ListingContradicts, match="not in byte order"):
        classify(
            GivenPages(pages),
            ReferencesForTests([b"files/a", b"files/b"]),
            Rules(owned=(b"files/",)),
            CUTOFF,
            scratch,
        )


def test_control_a_join_that_believes_in_the_order_calls_a_referenced_object_an_orphan() -> None:
    rows = iter(sorted([b"files/a", b"files/b"]))
    row = next(rows, None)
    orphans = []
    for key in (b"files/b", b"files/a"):
        while row is not None and row < key:
            row = next(rows, None)
        if row != key:
            orphans.append(key)
    assert orphans == [b"files/a"]


def test_a_key_outside_of_what_is_owned_is_refused(scratch: Scratch) -> None:
    with pytest.raises(ListingContradicts, match="no owned prefix"):
        classify(
            ListingForTests({b"files/a": (1, OLD), b"other/b": (1, OLD)}),
            ReferencesForTests([]),
            Rules(owned=(b"files/",)),
            CUTOFF,
            scratch,
        )
