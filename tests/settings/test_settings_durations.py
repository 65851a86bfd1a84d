from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from filejobs_dagster.settings import Duration, format_duration, parse_duration
from filejobs_dagster.settings.durations import PATTERN

ADAPTER: TypeAdapter[timedelta] = TypeAdapter(Duration)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", timedelta(seconds=30)),
        ("45m", timedelta(minutes=45)),
        ("24h", timedelta(hours=24)),
        ("90d", timedelta(days=90)),
        ("2w", timedelta(weeks=2)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("1w1d1h1m1s", timedelta(weeks=1, days=1, hours=1, minutes=1, seconds=1)),
        ("0s", timedelta(0)),
        ("-5m", timedelta(minutes=-5)),
    ],
)
def test_a_duration_is_whole_numbers_with_units(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7200", "7200 has no unit; write 7200s or 2h"),
        ("90", "90 has no unit; write 90s or 1m30s"),
        ("48", "48 has no unit; write 48s, 48m or 48h"),
        ("0", "0 has no unit; write 0s"),
    ],
)
def test_a_bare_number_is_refused_and_the_unit_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_duration(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "h",
        "24H",
        "24 h",
        "1.5h",
        "30m1h",
        "1h1h",
        "5min",
        "1mo",
        "500ms",
        "1y",
        "٣s",
        "1h ",
    ],
)
def test_anything_else_is_refused_with_an_example_of_what_is_right(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration; write whole numbers with the units"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["999999999999w", "9" * 18])
def test_a_duration_beyond_any_calendar_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"longer than any calendar|has no unit"):
        parse_duration(text)


@given(st.integers(min_value=-(10**10), max_value=10**10))
def test_what_is_written_is_read_again(seconds: int) -> None:
    duration = timedelta(seconds=seconds)
    assert parse_duration(format_duration(duration)) == duration


@given(st.integers(min_value=0, max_value=10**10))
def test_an_editor_accepts_what_is_written(seconds: int) -> None:
    assert re.search(PATTERN, format_duration(timedelta(seconds=seconds)))


@given(st.from_regex(PATTERN, fullmatch=True))
def test_what_an_editor_accepts_is_read_unless_it_is_too_long(text: str) -> None:
    # In Python, unlike in an editor, `$` also matches before a last line break.
    written = text.removesuffix("\n")
    too_long = any(len(count) > 6 for count in re.findall("[0-9]+", written))
    assert too_long or parse_duration(written) >= timedelta(0)


@given(st.text())
def test_no_text_raises_anything_but_a_value_error(text: str) -> None:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        said = str(error)
    else:
        said = f"{format_duration(duration)}; write "
    assert "; write " in said


def test_a_fraction_of_a_second_is_not_written() -> None:
    with pytest.raises(ValueError, match="fraction of a second"):
        format_duration(timedelta(milliseconds=1500))
    with pytest.raises(ValidationError, match="fraction of a second"):
        ADAPTER.validate_python(timedelta(milliseconds=1500))


@pytest.mark.parametrize("value", [True, None, [], {}, 5, 1.5])
def test_a_field_takes_neither_numbers_nor_other_kinds(value: object) -> None:
    with pytest.raises(ValidationError, match=r"has no unit|where a duration belongs"):
        ADAPTER.validate_python(value)


def test_a_field_is_dumped_as_the_file_writes_it() -> None:
    assert ADAPTER.dump_json(ADAPTER.validate_python("90m")) == b'"1h30m"'
