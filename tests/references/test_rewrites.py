"""A derived object's owners are those that the declared rewrites lead to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.references.transforms import (
    DEPTH,
    MOST_OWNERS,
    RewriteMistaken,
    Rewrites,
    TooManyOwners,
)
from tests.references.declared import RewriteForTests

if TYPE_CHECKING:
    from filejobs_dagster.settings.rules import RewriteSettings


def from_settings(declared: list[RewriteSettings]) -> Rewrites:
    """Type-checked: the settings are what the rewrites ask for."""
    return Rewrites(declared)


def rewrites(*declared: tuple[str, str]) -> Rewrites:
    return Rewrites(
        [RewriteForTests(f"r{n}", match, owner) for n, (match, owner) in enumerate(declared)]
    )


THUMBNAIL = (r"files/thumbnails/(?P<id>[^/]+)_[0-9]+\.webp", "files/{id}")
INFO = (r"(?P<file>.+)\.info", "{file}")


@pytest.mark.parametrize(
    ("key", "owners"),
    [
        (b"files/thumbnails/f1_200.webp", (b"files/f1",)),
        (b"files/f1.info", (b"files/f1",)),
        (b"files/f1", ()),
        # The whole key must match, with a newline at its end too.
        (b"files/thumbnails/f1_200.webp.bak", ()),
        (b"files/thumbnails/f1_200.webp\n", ()),
        (b"x/files/thumbnails/f1_200.webp", ()),
        (b"files/two\nlines.info", (b"files/two\nlines",)),
        # A preview's description leads to the preview, and on to the file.
        (
            b"files/thumbnails/f1_200.webp.info",
            (b"files/thumbnails/f1_200.webp", b"files/f1"),
        ),
        ("files/thumbnails/é_1.webp".encode(), ("files/é".encode(),)),
        (b"files/\xff.info", (b"files/\xff",)),
        (b"", ()),
    ],
)
def test_owners_of_a_key(key: bytes, owners: tuple[bytes, ...]) -> None:
    assert rewrites(THUMBNAIL, INFO).owners(key) == owners


def test_braces_stand_for_themselves_when_doubled_and_absent_groups_for_nothing() -> None:
    found = rewrites((r"(?P<a>x)?(?P<b>y)", "{{{a}}}/{b}")).owners(b"y")
    assert found == (b"{}/y",)


def test_rewrites_are_followed_to_a_small_depth() -> None:
    parents = rewrites((r"(?P<parent>.+)/[^/]+", "{parent}"))
    assert parents.owners(b"a/b/c") == (b"a/b", b"a")
    deep = b"/".join([b"a"] * 20)
    assert len(parents.owners(deep)) == DEPTH


def test_rewrites_that_lead_back_end() -> None:
    circle = rewrites((r"(?P<x>.*)\.a", "{x}.b"), (r"(?P<x>.*)\.b", "{x}.a"))
    assert circle.owners(b"k.a") == (b"k.b",)


def test_endless_owners_are_not_followed() -> None:
    many = rewrites(*(((r"(?P<x>.*)", "{x}" + str(n))) for n in range(9)))
    with pytest.raises(TooManyOwners, match=str(MOST_OWNERS)):
        many.owners(b"k")


def test_a_rewrite_of_a_key_to_itself_is_a_mistake() -> None:
    with pytest.raises(RewriteMistaken, match="'r0' maps 'files/a' to itself"):
        rewrites((r"(?P<x>.*)", "{x}")).owners(b"files/a")


@pytest.mark.parametrize(
    ("match", "owner", "why"),
    [
        ("(", "a", "cannot be used"),
        ("(?P<x>a)", "{y}", "no group of its expression is called 'y'"),
        ("(a)", "{0}", "no group"),
        ("(?P<x>a)", "{x!r}", "conversion"),
        ("(?P<x>a)", "{x:>9}", "format"),
        ("(?P<x>a)", "{x", "cannot be used"),
    ],
)
def test_a_rewrite_that_cannot_be_used_is_refused_at_once(match: str, owner: str, why: str) -> None:
    with pytest.raises(RewriteMistaken, match=why):
        rewrites((match, owner))


def test_without_rewrites_nothing_is_derived() -> None:
    assert not rewrites().declared
    assert rewrites().owners(b"files/f1/thumb.webp") == ()
    assert rewrites(INFO).declared
