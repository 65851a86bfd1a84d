"""Near matches share a fold; every byte string has one, and folding again changes nothing."""

from __future__ import annotations

import time
import unicodedata
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.references.near import (
    ReferenceForms,
    fold,
    folds_to_itself,
    unfolded,
)

NASTY = st.lists(
    st.sampled_from(
        [
            b"%", b"4", b"e", b"E", b"2", b"5", b"f", b"/", b".", b"..", b" ", b"+", b"\n", b"\x00",
            b"?", b"#", b":", b"\xc3", b"\xa9", b"\xff", b"a", b"A", b"%C3", b"%a9", b"\\", b"~",
            "é".encode(), "e\u0301".encode(), "ß".encode(), "İ".encode(), "\u0301".encode(),
            "Å".encode(), "\u1e9e".encode(), b"s3://b/files/",
        ]
    ),
    max_size=10,
).map(b"".join)  # fmt: skip
WORDS = st.text(
    st.characters(exclude_characters="/%+?#\x00", exclude_categories=["Cs", "Z", "Cc"]), min_size=1
).filter(lambda word: word.strip(".") == word)


@given(st.one_of(NASTY, st.binary()))
def test_folding_is_total_and_folding_again_changes_nothing(key: bytes) -> None:
    assert fold(fold(key)) == fold(key)


@given(st.one_of(NASTY, st.binary()))
def test_a_key_that_is_said_to_fold_to_itself_does(key: bytes) -> None:
    assert not folds_to_itself(key) or fold(key) == key


@given(st.lists(st.one_of(NASTY, st.sampled_from([b"a/b", b"A/B", b"c-1_2.jpg"])), max_size=6))
def test_many_keys_at_once_are_folded_as_one_by_one(keys: list[bytes]) -> None:
    assert unfolded(keys) == [(fold(key), key) for key in keys if fold(key) != key]


@given(
    st.lists(st.one_of(NASTY, st.sampled_from([b"files/a", b"files/B", b"b/files/a"])), max_size=6)
)
def test_many_references_at_once_have_the_forms_that_each_has(keys: list[bytes]) -> None:
    forms = ReferenceForms([b"files/"], b"b")
    expected = [(form, key) for key in keys for form in forms.of(key) if form != key]
    assert sorted(forms.other_forms(keys)) == sorted(expected)


@given(WORDS, WORDS)
def test_what_is_often_written_wrongly_folds_to_the_same(one: str, other: str) -> None:
    key = f"files/{one}/{other}"
    folded = fold(key.encode())
    for variant in (
        unicodedata.normalize("NFC", key),
        unicodedata.normalize("NFD", key),
        key.casefold(),
        quote(key),
        quote(key, safe=""),
        quote(quote(key)),
        quote_plus(key),
        f"/{key}",
        f"//{key}",
        key.replace("/", "//"),
        f"{key} ",
        f"{key}\n",
        f"\t{key}\r\n",
        f"files/./{one}/{other}",
        f"files/x/../{one}/{other}",
    ):
        assert fold(variant.encode()) == folded, variant


@given(WORDS, WORDS)
def test_a_plus_and_a_space_fold_to_the_same(one: str, other: str) -> None:
    assert fold(f"{one} {other}".encode()) == fold(f"{one}+{other}".encode())


@pytest.mark.parametrize(
    ("key", "folded"),
    [
        (b"files/a", b"files/a"),
        (b"", b""),
        (b"/", b""),
        (b"..", b""),
        (b"a/../../b", b"b"),
        (b"%2525252541", b"a"),
        (b"%4\xc3\xa9", "n\u0301".encode()),
        (b"\xc3%A9", "e\u0301".encode()),
        (b"\xff%FF", b"\xff\xff"),
        (b"files/c++", b"files/c++"),
        (b"files/.hidden", b"files/.hidden"),
        (b"%zz%", b"%zz%"),
    ],
)
def test_a_fold_is_what_it_is(key: bytes, folded: bytes) -> None:
    assert fold(key) == folded


@pytest.mark.parametrize(
    "pair",
    [
        (b"files/c", b"files/c++"),
        (b"files/a", b"files/b"),
        (b"files/a", b"other/files/a"),
        (b"files/a.b", b"files/a/b"),
        (b"files/%zz", b"files/zz"),
    ],
)
def test_different_names_stay_different(pair: tuple[bytes, bytes]) -> None:
    assert fold(pair[0]) != fold(pair[1])


def test_every_single_character_folds_to_a_fold() -> None:
    for code in range(0, 0x110000, 7):
        if not 0xD800 <= code < 0xE000:
            folded = fold(chr(code).encode())
            assert fold(folded) == folded, hex(code)


def test_a_value_of_megabytes_takes_no_longer_than_its_length() -> None:
    started = time.process_time()
    assert fold(b"%" + b"25" * 200_000 + b"41") == b"a"
    assert time.process_time() - started < 5


def test_forms_of_an_address_begin_at_an_owned_prefix() -> None:
    forms = ReferenceForms([b"files/", b"Media/"], b"bucket")
    assert b"files/a" in forms.of(b"https://cdn/x/files/A?v=/y")
    assert b"media/a" in forms.of(b"s3://bucket/Media/a#top")
    assert b"files/a" in forms.of(b"bucket/files/a")
    assert b"files/a" not in forms.of(b"archive/files/a")
    assert forms.of(b"files/archive/files/a") == (b"files/archive/files/a",)


def test_plain_references_have_no_other_form() -> None:
    forms = ReferenceForms([b"files/"], b"bucket")
    assert forms.other_forms([b"files/%04d/a-b_c.jpg" % number for number in range(1000)]) == []
    assert forms.other_forms([]) == []


def test_upper_case_is_folded_many_keys_at_once() -> None:
    keys = [b"files/IMG_%04d.JPG" % number for number in range(1000)]
    assert unfolded([*keys, b"files/plain"]) == [(key.lower(), key) for key in keys]
