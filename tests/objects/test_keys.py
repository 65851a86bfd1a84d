"""Which keys a batch can carry, and how a key is shown."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.objects.targets import needs_single_delete
from filejobs_dagster.text import display_key

ANY_TEXT = st.text(alphabet=st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    "key",
    [
        *("a\nb", "a\rb", "a\tb", "a\x00b", "a\x01b", "a\x7fb", "a\x85b", "a\u2028b", "a\u2029b"),
        *("a\ufffeb", "a\uffffb", "a\ud800b", "a\udc80b", " a", "a ", "a\u00a0", "\u3000a"),
    ],
)
def test_a_key_that_xml_would_change_goes_alone(key: str) -> None:
    assert needs_single_delete(key)


@pytest.mark.parametrize(
    "key",
    ["a", "a b", "a+b", "a%2Fb", "//a", "caf\u00e9", "cafe\u0301", "\U0001f642", "&<>\"'", ""],
)
def test_a_key_that_xml_carries_goes_with_the_others(key: str) -> None:
    assert not needs_single_delete(key)


@given(ANY_TEXT)
def test_what_goes_with_the_others_survives_an_xml_reader(key: str) -> None:
    if not needs_single_delete(key):
        read = ET.fromstring(f"<Key>{escape(key)}</Key>").text  # noqa: S314 (our own text)
        assert (read or "") == key


def test_a_carriage_return_would_come_to_name_another_object_control() -> None:
    read = ET.fromstring("<Key>a\rb</Key>").text  # noqa: S314 (our own text)
    assert read == "a\nb"


@given(ANY_TEXT, st.integers(min_value=1, max_value=50))
def test_a_shown_key_is_one_printable_bounded_line(key: str, limit: int) -> None:
    shown = display_key(key, limit)
    assert len(shown) <= limit
    assert shown.isprintable()
    assert shown.encode("utf-8").decode("utf-8") == shown


@given(ANY_TEXT, ANY_TEXT)
def test_different_keys_look_different_when_nothing_is_cut(one: str, other: str) -> None:
    assert (display_key(one, 10_000) == display_key(other, 10_000)) == (one == other)


def test_a_shown_key_names_what_cannot_be_seen() -> None:
    assert display_key("a\x00b\n\\n\u2028\U0001f642") == "a\\x00b\\x0a\\\\n\\u2028\U0001f642"
