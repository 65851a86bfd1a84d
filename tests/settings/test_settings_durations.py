from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from filejobs_dagster.registry import JOBS
from filejobs_dagster.settings import Duration, Settings, parse_duration
from filejobs_dagster.settings.section import Section
from filejobs_dagster.settings.values import PATTERN
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

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
def test_a_bare_number_of_a_wait_is_refused_and_the_unit_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_duration(text, waits=True)


@given(st.integers(min_value=0, max_value=10**17))
def test_no_advice_for_an_age_names_a_unit_that_deletes_earlier_than_days(number: int) -> None:
    with pytest.raises(ValueError, match=f"^{number} has no unit; write {number}d if it is days$"):
        parse_duration(str(number))


def _fields(model: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    """Those of a section and of all sections in it."""
    for name, field in model.model_fields.items():
        yield name, field
        for inner in _sections(field.annotation):
            yield from _fields(inner)


def _sections(annotation: object) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


def _advice_for_a_bare_number(field: FieldInfo) -> str:
    if "timedelta" not in str(field.annotation):
        return ""
    kind: Any = field.annotation
    if field.metadata:
        kind = Annotated[(kind, *field.metadata)]
    with pytest.raises(ValidationError) as refused:
        TypeAdapter(kind).validate_python(5)
    return str(refused.value)


def test_only_what_waits_is_advised_of_shorter_units_than_days() -> None:
    models: list[type[Section]] = [Settings, *(job.settings for job in JOBS)]
    advice = {
        name: _advice_for_a_bare_number(field) for model in models for name, field in _fields(model)
    }
    assert {name for name, said in advice.items() if "write 5s, 5m or 5h" in said} == {
        *("connect_timeout", "statement_timeout", "lock_timeout", "max_runtime", "stale_after"),
        *("wait_for_transactions", "pin_grace", "max_pin_age"),
        *("repeat_after", "recovered_after", "stuck_after", "queued_longer_than", "max_time"),
    }
    assert {name for name, said in advice.items() if "write 5d" in said} == {
        *("min_age", "restore_window", "delete_after", "scrub_after", "keep", "grace", "idle_for"),
        *("ask_again_for", "confirm_after", "writing_limit", "settle_after", "keep_for"),
        *("retention", "minimum_retention", "after", "personal_data_kept_for"),
    }


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


def test_a_fraction_of_a_second_is_shown_and_is_no_setting() -> None:
    assert format_duration(timedelta(milliseconds=1500)) == "1.5s"
    with pytest.raises(ValidationError, match="fraction of a second"):
        ADAPTER.validate_python(timedelta(milliseconds=1500))


@pytest.mark.parametrize("value", [True, None, [], {}, 5, 1.5])
def test_a_field_takes_neither_numbers_nor_other_kinds(value: object) -> None:
    with pytest.raises(ValidationError, match=r"has no unit|where a duration belongs"):
        ADAPTER.validate_python(value)


def test_a_field_is_dumped_as_the_file_writes_it() -> None:
    assert ADAPTER.dump_json(ADAPTER.validate_python("90m")) == b'"1h30m"'
