"""A declared step does what it says, no more, and its inverse finds every value it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.references.transforms import (
    DropQuery,
    PercentDecode,
    Prepend,
    Step,
    StripBase,
    StripSuffix,
    Transforms,
    invertible,
)
from tests.references.declared import TransformForTests, transforms

if TYPE_CHECKING:
    from filejobs_dagster.settings.rules import TransformSettings

VALUES = st.lists(
    st.sampled_from([b"a", b"/", b"a/", b"s3://b/", b".jpg", b"%41", b"?", b"\xff", b"\x00"]),
    max_size=6,
).map(b"".join)
TEXTS = st.sampled_from([b"", b"a", b"a/", b"/", b"aa", b"s3://b/", b".jpg", b".jpg.jpg"])
FINITE = st.one_of(
    st.builds(Prepend, TEXTS), st.builds(StripBase, st.lists(TEXTS)), st.builds(StripSuffix, TEXTS)
)


def from_settings(declared: list[TransformSettings]) -> Transforms:
    """Type-checked: the settings are what the transforms ask for."""
    return Transforms.of(declared)


@pytest.mark.parametrize(
    ("steps", "value", "key"),
    [
        ([TransformForTests(prepend="files/")], b"a", b"files/a"),
        ([TransformForTests(strip_base=["s3://b/"])], b"s3://b/files/a", b"files/a"),
        ([TransformForTests(strip_base=["s3://b/"])], b"files/a", b"files/a"),
        ([TransformForTests(strip_base=["/"])], b"//files/a", b"/files/a"),
        ([TransformForTests(strip_base=["s3://b/", "s3://b/x/"])], b"s3://b/x/a", b"a"),
        ([TransformForTests(strip_base=["https://cdn/", "/"])], b"/files/a", b"files/a"),
        ([TransformForTests(drop_query=True)], b"files/a?b=?c#d", b"files/a"),
        ([TransformForTests(drop_query=True)], b"files/a#1", b"files/a#1"),
        ([TransformForTests(percent_decode=True)], b"a%20b+c%2520%zz%4", b"a b+c%20%zz%4"),
        ([TransformForTests(percent_decode=True)], b"%ff%00", b"\xff\x00"),
        ([TransformForTests(strip_suffix=".gz")], b"a.gz.gz", b"a.gz"),
        ([TransformForTests(strip_suffix=".gz")], b"a.GZ", b"a.GZ"),
        ([], b"files/a%20?x", b"files/a%20?x"),
    ],
)  # fmt: skip
def test_a_step_does_what_it_says(steps: list[TransformForTests], value: bytes, key: bytes) -> None:
    assert transforms(*steps).apply(value) == key


def test_the_declared_order_is_the_order() -> None:
    drop, decode = TransformForTests(drop_query=True), TransformForTests(percent_decode=True)
    assert transforms(drop, decode).apply(b"a%3Fb?c") == b"a?b"
    assert transforms(decode, drop).apply(b"a%3Fb?c") == b"a"


def test_an_address_becomes_a_key_by_several_steps() -> None:
    steps = transforms(
        TransformForTests(drop_query=True),
        TransformForTests(strip_base=["https://cdn.example.com/", "s3://bucket/"]),
        TransformForTests(percent_decode=True),
        TransformForTests(prepend="files/"),
    )
    assert steps.apply(b"https://cdn.example.com/a%20b.png?v=3") == b"files/a b.png"


@pytest.mark.parametrize(
    ("steps", "key", "values"),
    [
        ([TransformForTests(prepend="files/")], b"files/a", {b"a"}),
        ([TransformForTests(prepend="files/")], b"other/a", set()),
        ([TransformForTests(prepend="files/")], b"files/", set()),
        ([TransformForTests(strip_base=["s3://b/", "/"])], b"a", {b"a", b"/a", b"s3://b/a"}),
        # A key that begins with a base comes from no value as it is.
        ([TransformForTests(strip_base=["/"])], b"/a", {b"//a"}),
        # The longer base would be taken, so the shorter one leads elsewhere.
        ([TransformForTests(strip_base=["s/", "s/x/"])], b"x/a", {b"x/a", b"s/x/x/a"}),
        ([TransformForTests(strip_suffix=".gz")], b"a", {b"a", b"a.gz"}),
        ([TransformForTests(strip_suffix=".gz")], b"a.gz", {b"a.gz.gz"}),
        ([], b"a", {b"a"}),
    ],
)
def test_the_inverse_lists_the_values_that_become_the_key(
    steps: list[TransformForTests], key: bytes, values: set[bytes]
) -> None:
    assert set(transforms(*steps).inverse(key) or ()) == values


@given(st.lists(FINITE, max_size=4), VALUES)
def test_every_value_is_among_the_inverses_of_its_key(steps: list[Step], value: bytes) -> None:
    declared = Transforms(steps)
    key = declared.apply(value)
    inverted = declared.inverse(key)
    assert inverted is not None
    assert not value or value in inverted
    assert all(declared.apply(other) == key for other in inverted)
    assert len(set(inverted)) == len(inverted)


@given(st.lists(FINITE, max_size=3), st.sampled_from([DropQuery(), PercentDecode()]), VALUES)
def test_one_step_without_an_inverse_leaves_the_whole_without(
    steps: list[Step], endless: Step, key: bytes
) -> None:
    # A later step may have no value that leads to the key, and then nothing is endless.
    inverted = Transforms([*steps, endless]).inverse(key)
    assert inverted is None


@pytest.mark.parametrize(
    ("steps", "can"),
    [
        ([], True),
        ([TransformForTests(prepend="a"), TransformForTests(strip_base=["b"])], True),
        ([TransformForTests(strip_suffix="a")], True),
        ([TransformForTests(drop_query=True), TransformForTests(prepend="z")], False),
        ([TransformForTests(percent_decode=True), TransformForTests(prepend="files/")], False),
    ],
)
def test_whether_a_recheck_is_needed_does_not_depend_on_a_key(
    steps: list[TransformForTests], can: bool
) -> None:
    assert invertible(steps) is can
    assert transforms(*steps).invertible is can
