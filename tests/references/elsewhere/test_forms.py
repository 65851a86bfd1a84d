"""In which forms a key is recognised, and what only looks like one."""

from __future__ import annotations

import html
import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import quote, quote_plus

import pytest
from ahocorasick_rs import BytesAhoCorasick
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.references.elsewhere import forms
from filejobs_dagster.references.elsewhere.forms import Needles, folders_of_many

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

UUID = "0b0f7c1a-53f3-4a7e-9d38-6d1f7a6c0d11"
DIGEST = "5f2b" * 16


def named(
    keys: Sequence[str],
    *values: str | bytes,
    owned: bytes = b"files/",
    beside: Sequence[str] = (),
) -> set[str]:
    """Those of the keys that one of the values names; sources name those beside them."""
    candidates = [key.encode() for key in keys]
    references = [[key.encode()] for key in sorted(beside)]
    of_many = folders_of_many(candidates, 1, iter(references), [owned])
    needles = Needles(candidates, [owned], of_many)
    matcher = BytesAhoCorasick(needles.patterns)
    found: set[str] = set()
    for value in values:
        lowered = (value if isinstance(value, bytes) else value.encode()).lower()
        hits = matcher.find_matches_as_indexes(lowered, overlapping=True)
        for pattern, start, end in hits:
            for needle in needles.needles[pattern]:
                found.update(keys[place] for place in needle.take(lowered, start, end))
    return found


ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "percent-encoded": quote,
    "with its slashes": lambda key: quote(key, safe=""),
    "percent-encoded twice": lambda key: quote(quote(key)),
    "as a form sends it": quote_plus,
    "JSON": json.dumps,
    "JSON with slashes escaped": lambda key: json.dumps(key).replace("/", "\\/"),
    "JSON in JSON": lambda key: json.dumps({"a": json.dumps({"b": key})}),
    "HTML": html.escape,
    "HTML in ASCII": lambda key: html.escape(key).encode("ascii", "xmlcharrefreplace").decode(),
    "composed": lambda key: unicodedata.normalize("NFC", key),
    "decomposed": lambda key: unicodedata.normalize("NFD", key),
    "lower case": str.lower,
    "upper case": str.upper,
    "backslashes": lambda key: key.replace("/", "\\"),
}

AROUND: dict[str, Callable[[str], str]] = {
    "alone": str,
    "in an address": lambda key: f"https://cdn.example.com/{key}?width=200",
    "in a link": lambda key: f'<a href="/{key}">x</a>',
    "in a list": lambda key: f"{{a.png,{key},b.png}}",
    "in a line": lambda key: f"x\n{key}\r\ny",
    "with a mark in front": lambda key: f"\ufeff{key}\u00a0",
    "as an ARN": lambda key: f"arn:aws:s3:::bucket/{key}",
}

SEGMENT = st.text("abcXYZ019 %&'\"+-_.äøÅ日\\", min_size=1, max_size=12).filter(
    lambda text: text not in (".", "..")
)
KEYS = st.builds(
    lambda folders, name: "files/" + "/".join([*folders, name]),
    st.lists(SEGMENT, max_size=3),
    SEGMENT.map(lambda text: f"name{text}.jpg"),
)


@given(KEYS, st.sampled_from(sorted(ENCODINGS)), st.sampled_from(sorted(AROUND)))
def test_a_key_is_found_however_it_is_written_and_whatever_stands_around_it(
    key: str, encoding: str, around: str
) -> None:
    assert named([key], AROUND[around](ENCODINGS[encoding](key))) == {key}


@given(KEYS, KEYS)
def test_what_a_key_is_found_by_does_not_depend_on_the_other_candidates_but_for_a_longer_tail(
    key: str, other: str
) -> None:
    keys = list(dict.fromkeys([key, other]))
    assert key in named(keys, f'"{key}"')


def test_a_part_of_a_key_that_says_enough_finds_it() -> None:
    cut = f"files/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST[4:]}"
    for key, value in (
        (f"files/{UUID}_large.png", UUID),
        (f"files/{UUID}_large.png", UUID.replace("-", "").upper()),
        (f"files/{UUID.replace('-', '')}/x.png", UUID),
        (f"files/{DIGEST}", bytes.fromhex(DIGEST)),
        (cut, DIGEST),
        ("files/t/0123456789abcdefX.png", "0123456789ABCDEFx"),
        ("files/2024/annual-report-2024.pdf", "annual-report-2024"),
        ("files/a-name.png", "other/first/a-name.png"),
        ("files/a-name.png", "a-name.png.webp"),
        # folders
        ("files/album7/1.png", "files/album7/"),
        ("files/album7/1.png", '{"folder": "files/album7"}'),
        ("files/u/album7/1.png", "u/album7"),
        (f"files/{UUID}/1.png", UUID),
        (f"files/{UUID}/1.png", f"mlflow-artifacts:/1/{UUID}"),
    ):
        assert named([key], value) == {key}, (key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("files/cat.jpg", "bobcat.jpg"),
        ("files/cat.jpg", "files/photo_cat.jpg"),
        ("files/cat.jpg", "files/cat.jpg2"),
        ("files/report-1", "files/report-10"),
        ("files/report-1", "files/report-1-final"),
        ("files/old/index.html", "files/new/index.html"),
        ("files/old/index.html", "files%2Fnew%2Findex.html"),
        (f"files/{UUID}/1.png", f"files/{UUID}/2.png"),
        ("files/album7/1.png", "files/album7/2.png"),
        ("files/album7/1.png", "files/album77/"),
        ("files/a", "a"),
        ("files/12345.png", "12345"),
    ],
)
def test_what_only_looks_like_a_key_does_not_keep_it(key: str, value: str) -> None:
    assert named([key], value) == set()


WAYS_TO_A_FOLDER = (
    # spellings that have no form of their own
    ("files/albums/Schäfer/1.jpg", "files/albums/Sch%E4fer/"),
    ("files/albums/Schäfer/1.jpg", "files/albums/Sch%u00e4fer"),
    ("files/albums/Schäfer/1.jpg", "files/albums/Sch&auml;fer/"),
    ("files/albums/Schäfer/1.jpg", r"files/albums/Sch\xc3\xa4fer/"),
    ("files/albums/Schäfer/1.jpg", r"files\/albums\/Sch%C3%A4fer\/"),
    ("files/albums/Schäfer/1.jpg", "files&#47;albums&#47;Schäfer&#47;"),
    ("files/albums/Schäfer/1.jpg", "files/albums/SchÃ¤fer/"),
    ("files/albums/Schäfer & Co/1.jpg", "files/albums/Schäfer%20&%20Co/"),
    ("files/albums/Schäfer & Co/1.jpg", "files/albums/Schäfer &amp;amp; Co/"),
    ("files/albums/a+b (1)/1.jpg", r"^files/albums/a\+b \(1\)/"),
    # with slashes of two kinds
    ("files/t/albums/2026/11/1.jpg", r"files/t/albums\2026\11"),
    ("files/t/albums/2026/11/1.jpg", "files/t/albums/2026%2F11%2F"),
    ("files/t/albums/2026/11/1.jpg", "files/t%2Falbums/2026/11/"),
    ("files/t/albums/2026/11/1.jpg", "files/t/albums/./x/..//2026/11/"),
    ("files/t/albums/2026/11/1.jpg", "files/t/albums/2026/."),
    # with a part that is left open
    ("files/t/albums/2026/11/1.jpg", "arn:aws:s3:::bucket/files/t/albums/2026/11/*"),
    ("files/t/albums/2026/11/1.jpg", "files/t/albums/2026/11/%"),
    ("files/t/albums/2026/11/1.jpg", "files/t/albums/%Y/%m/"),
    ("files/t/albums/2026/11/thumb_1.jpg", "files/t/albums/2026/11/thumb_{size}.jpg"),
    ("files/t/albums/2026/11/thumb_1.jpg", "files/t/albums/2026/11/thumb_${size}.jpg"),
    ("files/t/albums/2026/11/thumb_1.jpg", "files/t/albums/2026/:month/:style.jpg"),
    ("files/videos/7/720p/seg_001.ts", "files/videos/7/720p/seg_%03d.ts"),
    ("files/videos/7/720p/seg_001.ts", "files/videos/7/720p/seg_$Number$.ts"),
    # a playlist, which names what lies beside and below it
    ("files/videos/7/720p/seg_001.ts", "files/videos/7/master.m3u8?token=1"),
    # the end of a line in JSON
    ("files/t/albums/2026/11/1.jpg", r'"files/t/albums/2026\nfiles/t/albums/2025"'),
    # longer than what is looked at behind
    (f"files/t/{'ä' * 140}/1.jpg", f"files/t/{'%E4' * 140}/"),
)


def by_exact_folders_only(rest: list[str]) -> set[bytes]:
    """A folder counts where a value ends with it, or goes on to the object itself."""
    return {b"", b"/" + forms._beginning(rest[0])} if len(rest) == 1 else {b""}


def next_segment_as_it_is(value: bytes, start: int, end: int) -> list[bytes]:
    del start
    behind = value[end:]
    slash = next(filter(behind.startswith, forms._SEPARATORS), None)
    if slash is None:
        return []
    segment = re.split(rb'[\s"?{]', forms._apart(behind[len(slash) :])[0])[0]
    return [segment] if segment else []


def test_a_folder_is_named_however_the_way_from_one_above_it_is_spelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missed = [(key, value) for key, value in WAYS_TO_A_FOLDER if not named([key], value)]
    assert missed == []
    # CONTROL: by the forms of each folder alone, they are taken for dead.
    monkeypatch.setattr(forms, "_ways", by_exact_folders_only)
    monkeypatch.setattr(forms, "_PLAIN_WAY", re.compile(b"(?!)"))
    monkeypatch.setattr(forms, "_way_behind", next_segment_as_it_is)
    kept = [(key, value) for key, value in WAYS_TO_A_FOLDER if named([key], value)]
    assert kept == []


@given(
    st.lists(SEGMENT, min_size=1, max_size=3),
    st.sampled_from(sorted(ENCODINGS)),
    st.sampled_from(sorted(AROUND)),
    st.integers(0, 3),
)
def test_a_folder_above_a_key_names_it_however_it_is_written(
    folders: list[str], encoding: str, around: str, depth: int
) -> None:
    folder = "files/" + "/".join(["folder", *folders[:depth]])
    key = "files/" + "/".join(["folder", *folders, "name.jpg"])
    assert named([key], AROUND[around](ENCODINGS[encoding](folder))) == {key}


OTHERS = (
    ("files/products/2026/01/crash.png", "files/products/2026/11/photo.png"),
    ("files/products/2026/01/crash.png", r"files\/products\/2026\/11\/photo.png"),
    ("files/products/2026/01/crash.png", "files/products/2026/01/photo.png"),
    ("files/products/2026/01/crash.png", r'{"a": "files/products/2026/11\n"}'),
    ("files/products/2026/01/crash.png", "files/products/2026/11/*"),
    ("files/products/2026/01/crash.png", "files/products/2026/01/../11/"),
    ("files/albums/Schäfer/2026/1.jpg", "files/albums/Sch%E4fer/2025/"),
    ("files/albums/Schäfer/2026/1.jpg", "files/albums/Schäfer/2026/2.jpg"),
    ("files/videos/8/720p/seg_001.ts", "files/videos/7/master.m3u8"),
)


def test_a_value_that_goes_on_to_another_object_names_none_of_its_folders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in OTHERS:
        assert named([key], value) == set(), (key, value)

    # CONTROL: by the next segment alone, the folder of a year keeps the dead of all its months.
    def next_only(*said: Any) -> list[bytes]:
        return way_behind(*said)[:1]

    way_behind = forms._way_behind
    monkeypatch.setattr(forms, "_PLAIN_WAY", re.compile(b"(?!)"))
    monkeypatch.setattr(forms, "_way_behind", next_only)
    assert sum(bool(named([key], value)) for key, value in OTHERS) >= len(OTHERS) - 1


PLAIN_WAYS = st.lists(
    st.sampled_from(["folder", "a", "b.c", ".", "..", "...", "x_1-y", "play.m3u8"]), max_size=4
).map("/".join)


@given(PLAIN_WAYS, PLAIN_WAYS, st.sampled_from(["", "/", "//", '"', " a", "?a", "*", "{n}"]))
def test_a_plain_way_is_looked_up_at_once_with_the_same_result(
    way: str, other: str, behind: str
) -> None:
    key, value = f"files/folder/{way}/name.jpg", f"files/folder/{other}{behind}"
    found = named([key], value)
    with patch.object(forms, "_PLAIN_WAY", re.compile(b"(?!)")):
        assert named([key], value) == found


def test_a_name_that_several_candidates_have_is_looked_for_with_its_folder() -> None:
    keys = [f"files/user/{number}/thumb.png" for number in range(5)]
    assert named(keys, "thumb.png") == set()
    assert named(keys, "/media/user/3/thumb.png") == {keys[3]}
    assert named(keys, "files/user/") == set(keys)
    assert Needles([b"files/a", b"files/bb.png"], [b"files/"]).whole_only == 1


TENANT = f"files/tenants/{UUID}"
OF_THE_TENANT = [f"{TENANT}/2026/0{month}/{n}.pdf" for month in range(1, 4) for n in range(9)]


@pytest.mark.parametrize("owned", [b"files/", b""])
def test_the_number_of_a_folder_names_nothing_where_files_are_named_one_by_one(
    owned: bytes,
) -> None:
    dead = [f"{TENANT}/2026/12/a.pdf", f"{TENANT}/2026/11/invoice-7.pdf"]

    def found(*values: str) -> set[str]:
        return named(dead, *values, owned=owned, beside=OF_THE_TENANT)

    assert (
        found(UUID, UUID.replace("-", ""), f'{{"tenant": "{UUID}"}}', f"{UUID}/logo.png") == set()
    )
    # What says more than the number means what lies below, or the file itself.
    for value in (TENANT, f"{TENANT}/", f"{UUID}/", f"{UUID}/%d.pdf", f"/{UUID}/2026/"):
        assert found(value) == set(dead), value
    assert found(f"{TENANT}/2026/12/") == {dead[0]}
    assert found(f"https://x/{UUID.upper()}/2026%2F12%2Fa.pdf") == {dead[0]}
    assert found("invoice-7.pdf") == {dead[1]}
    # CONTROL: who does not look at what lies beside keeps both for ever.
    assert named(dead, UUID, owned=owned) == set(dead)


@pytest.mark.parametrize(
    "beside",
    [
        pytest.param([], id="nothing"),
        pytest.param([f"{TENANT}/original.jpg"], id="the original alone"),
        pytest.param([f"{TENANT}/{n}.jpg" for n in range(9)], id="too few"),
        pytest.param([f"{TENANT}/originals/{n}.jpg" for n in range(99)], id="in another folder"),
        pytest.param([f"files/tenants/{DIGEST}/{n}.jpg" for n in range(99)], id="of another"),
        pytest.param([f"{TENANT}0/{n}.jpg" for n in range(99)], id="of one with a longer name"),
    ],
)
def test_the_number_of_a_folder_names_what_is_not_named_one_by_one(beside: list[str]) -> None:
    key = f"{TENANT}/large.webp"
    assert named([key], UUID, beside=beside) == {key}


def test_as_many_derived_as_originals_are_named_by_the_number_of_their_folder() -> None:
    originals = [f"{TENANT}/{n}.jpg" for n in range(50)]
    derived = [f"{TENANT}/{n}_large.webp" for n in range(6)]
    assert named(derived, UUID, beside=originals) == set(derived)
    # CONTROL: of so many fewer than there are originals, they are taken for leftovers.
    assert named(derived[:5], UUID, beside=originals) == set()


def test_a_word_in_a_file_s_own_name_names_it_whatever_lies_beside() -> None:
    key = f"{TENANT}/2026/01/{DIGEST}.pdf"
    assert named([key], DIGEST, beside=OF_THE_TENANT) == {key}
    assert named([key], UUID, beside=OF_THE_TENANT) == set()
