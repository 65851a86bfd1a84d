"""Lists for review: what a run writes is what it reads back, byte for byte, and nothing else."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.jobs.storage_orphans.review import (
    COLUMNS,
    Heading,
    Line,
    ListWriter,
    NotAKey,
    NotAList,
    escape_key,
    read_list,
    unescape_key,
)
from tests.jobs.storage_orphans.odd_keys import ODD_KEYS

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
HEADING = Heading("run-1", "test", "uploads", "AWS", "abc", NOW, "dry")


def written(*lines: Line) -> str:
    file = io.StringIO()
    ListWriter(file, HEADING).write(lines)
    return file.getvalue()


def line(key: bytes = b"files/a", decision: str = "remove") -> Line:
    return Line(decision, key, 5, 1_700_000_000_123, "d41d8", "orphan", "nothing refers to it")


@given(st.binary(min_size=1, max_size=60))
def test_every_key_comes_back_from_its_escaped_form(key: bytes) -> None:
    escaped = escape_key(key)
    assert escaped.isascii()
    assert escaped.isprintable()
    assert escaped == escaped.strip()
    assert escaped[0] not in "=+-@0123456789"
    assert unescape_key(escaped) == key


def test_plain_keys_stay_readable() -> None:
    assert escape_key(b"files/2024/a-b_c.jpg") == "files/2024/a-b_c.jpg"
    assert escape_key("files/é 100%".encode()) == "files/%C3%A9%20100%25"


@pytest.mark.parametrize("text", ["", "a b", "é", "100%", "%zz", "%c3%a9", "a\nb"])
def test_a_key_that_somebody_has_retyped_is_refused(text: str) -> None:
    with pytest.raises(NotAKey):
        unescape_key(text)


def test_a_list_reads_back_as_it_was_written_with_every_odd_key() -> None:
    lines = [line(odd.key) for odd in ODD_KEYS]
    heading, read = read_list(io.StringIO(written(*lines), newline=""))
    assert heading == HEADING
    found = list(read)
    assert [one.key for one in found] == [one.key for one in lines]
    assert {(one.size, one.modified, one.etag) for one in found} == {
        (5, 1_700_000_000_123, "d41d8")
    }


def test_a_spreadsheets_padding_capitals_and_line_ends_are_forgiven() -> None:
    width = len(COLUMNS)
    rows = [row + [""] * (width - len(row)) for row in csv.reader(io.StringIO(written(line())))]
    rows[-1][0] = "Remove "
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerows([*rows, [""] * width])
    _, read = read_list(io.StringIO(file.getvalue(), newline=""))
    assert [one.decision for one in read] == ["remove"]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("# list", "# liste", "not the list of a run"),
        ("# run_id,run-1\n", "", "lacks run_id"),
        ("decision,key", "decision,name", "lacks key"),
        ("remove,files", "delete,files", "Row 11 .* it can be remove or keep"),
        ("files/a,5", "files/a,5.0", "Row 11"),
        ("2023-11-14T22:13:20.123Z", "14.11.2023", "Row 11"),
        ("files/a", "files/a b", "Row 11"),
        ("2026-01-02T03:04:05+00:00", "yesterday", "no moment"),
    ],
)
def test_a_list_that_was_damaged_is_refused_and_says_where(old: str, new: str, found: str) -> None:
    text = written(line())
    assert old in text
    with pytest.raises(NotAList, match=found):
        list(read_list(io.StringIO(text.replace(old, new, 1)))[1])


def test_a_file_with_semicolons_is_no_list() -> None:
    with pytest.raises(NotAList, match="Save it as CSV with commas"):
        read_list(io.StringIO(written(line()).replace(",", ";")))


def test_the_time_of_an_object_keeps_its_milliseconds_and_may_be_unknown() -> None:
    dated = Line("remove", b"files/a", 1, 1, "", "orphan", first_seen=NOW - timedelta(days=1))
    unknown = Line("keep", b"files/b", 1, -1, "", "ambiguous")
    _, read = read_list(io.StringIO(written(dated, unknown)))
    assert [one.modified for one in read] == [1, -1]


def test_a_column_that_stands_there_twice_is_refused_because_either_may_be_meant() -> None:
    doubled = "".join(
        f"{row},keep\n" if not row.startswith(("#", "decision")) else
        (f"{row},decision\n" if row.startswith("decision") else f"{row}\n")
        for row in written(line()).splitlines()
    )  # fmt: skip
    with pytest.raises(NotAList, match="repeats decision"):
        read_list(io.StringIO(doubled))


def test_a_time_that_has_lost_its_zone_is_told_as_a_mistake_of_its_row() -> None:
    text = written(line()).replace(".123Z", ".123")
    _, lines = read_list(io.StringIO(text))
    with pytest.raises(NotAList, match=r"Row 11 .* has lost its time zone"):
        list(lines)
