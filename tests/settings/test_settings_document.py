from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.settings.load import UnreadableDocumentError, read_document

if TYPE_CHECKING:
    from tests.settings.conftest import Files


def test_a_key_that_stands_twice_is_refused_with_both_lines(files: Files) -> None:
    problem = files.only_problem("min_age: 48h", "min_age: 48h\n    min_age: 24h")
    assert problem.path == "buckets.uploads.min_age"
    assert problem.found == "this key stands twice, on lines 7 and 8"
    assert problem.expected == "keep one of them"


def test_keys_are_texts_whatever_yaml_would_make_of_them() -> None:
    assert read_document("on: 1\n2: 3\nno: 4\n~: 5").value == {"on": 1, "2": 3, "no": 4, "~": 5}


def test_every_value_has_its_line() -> None:
    document = read_document("a:\n  - b\n  - c: d\n")
    assert document.lines[("a",)] == 1
    assert document.lines[("a", 0)] == 2
    assert document.lines[("a", 1, "c")] == 3


@pytest.mark.parametrize(
    ("text", "path", "found", "expected"),
    [
        ("a: [", "line 1, column 5", "this is not YAML: expected the node content", "check"),
        ("a: b\nc: d: e", "line 2, column 5", "mapping values are not allowed here", "colon"),
        ("a:\n\t- b", "line 2, column 1", "a tab stands where", "indent with spaces"),
        ("s: */15 * * * *", "line 1, column 5", "begins with * stands without quotes", '"*/15'),
        ("s: * * * * *", "line 1, column 5", "begins with * stands without quotes", '"*/15'),
        ("s: @daily", "line 1, column 4", "begins with @", '"@daily"'),
        ("a: &x 1\nb: *x", "line 2, column 4", "an alias (*name) is not read", "write the value"),
        ("---\na: 1\n---\nb: 2", "line 3, column 1", "a second document", "in one document"),
        ("a: b\nc: \x01", "line 2, column 4", "a control character", "escape"),
        ('a: "\\UFFFFFFFF"', "line 1, column 1", "a number that nothing stands for", "write"),
        ("[" * 5000, "the file", "it is nested too deeply", "a few levels deep"),
    ],
)
def test_what_is_not_yaml_is_named_with_line_and_column(
    text: str, path: str, found: str, expected: str
) -> None:
    with pytest.raises(UnreadableDocumentError) as caught:
        read_document(text)
    problem = caught.value.problem
    assert problem.path == path
    assert found in problem.found
    assert expected in problem.expected


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("!!python/object/apply:os.system [id]", "it has a tag or a type that is not read"),
        ("!custom x", "it has a tag or a type that is not read"),
        ("!!int x", "it has a tag or a type that is not read"),
        ("!!int ''", "it has a tag or a type that is not read"),
        ("!!timestamp x", "it has a tag or a type that is not read"),
        ("!!binary aGk=", "it has a tag or a type that is not read"),
        ("{? [a] : b}", "it has a key that is not a text"),
        ('"\\ud800"', "it holds half a character"),
        ('{"\\ud800": 1}', "a key holds half a character"),
        ("[" * 30 + "]" * 30, "it is nested too deeply"),
    ],
)
def test_what_settings_cannot_hold_is_refused_and_the_rest_is_read(value: str, found: str) -> None:
    document = read_document(f"a: {value}\nb: 1")
    assert [found in problem.found for problem in document.problems] == [True]
    assert document.value["b"] == 1


def test_a_value_is_what_it_looks_like() -> None:
    text = "{a: =, b: <<, c: '5', d: 1_000, e: 1.5, f: yes, g: ~, h: 2025-01-01, i: !!str 5}"
    assert read_document(text).value == {
        "a": "=",
        "b": "<<",
        "c": "5",
        "d": 1000,
        "e": 1.5,
        "f": True,
        "g": None,
        "h": date(2025, 1, 1),
        "i": "5",
    }


def test_what_looks_like_a_date_and_is_none_stays_a_text() -> None:
    assert read_document("a: 2025-02-30").value == {"a": "2025-02-30"}
