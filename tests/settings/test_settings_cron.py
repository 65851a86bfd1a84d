from __future__ import annotations

from datetime import datetime, timedelta, timezone
from itertools import takewhile

import pytest
from dagster._utils.schedules import is_valid_cron_string, schedule_execution_time_iterator
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from filejobs_dagster.settings.cron import MACROS, checked_cron, longest_pause, odd_days

RIGHT = [
    "*/15 * * * *",
    "0 3 * * *",
    "0 3 * * MON",
    "0 3 * * mon-fri",
    "0 3 * * 0",
    "0 3 * * 7",
    "0 3 * JAN,JUL *",
    "0 3 L * *",
    "0 3 * * MON#1",
    "0 3 29 2 *",
    "0,30 8-18/2 1-7 */3 1-5",
    "5/10 * * * *",
    " 0  3 * * * ",
    *MACROS,
]
WRONG = [
    "",
    " ",
    "daily",
    "@reboot",
    "@DAILY",
    "@every 5m",
    "* * * *",
    "* * * * * *",
    "60 * * * *",
    "0 24 * * *",
    "0 25 * * *",
    "0 3 0 * *",
    "0 3 32 * *",
    "0 3 * 13 *",
    "0 3 * * 8",
    "0 3 31 2 *",
    "0 3 30 2 *",
    "0 3 31 2 1",
    "0 3 30,31 2 *",
    "0 3 31 4 *",
    "0 3 ? * *",
    "0 3 LW * *",
    "0 3 * * 5L",
    "0 3 * * MON#6",
    "0 3 * * MON#1,TUE",
    "0 R * * *",
    "H 3 * * *",
    "MON 3 * * *",
    "0 9-5 * * *",
    "*/0 * * * *",
    "1,,2 * * * *",
    "٣ * * * *",
    "-5 * * * *",
    "0 3 * * *; 0 4 * * *",
]


def accepted(text: str) -> str | None:
    try:
        return checked_cron(text)
    except PydanticCustomError:
        return None


@pytest.mark.parametrize("text", RIGHT)
def test_an_expression_that_both_know_is_accepted(text: str) -> None:
    checked = accepted(text)
    assert checked == " ".join(text.split())
    assert is_valid_cron_string(checked)


@pytest.mark.parametrize("text", WRONG)
def test_an_expression_that_one_of_them_refuses_or_that_never_comes_is_refused(text: str) -> None:
    assert accepted(text) is None


_NUMBER = st.integers(min_value=0, max_value=61).map(str)
_NAME = st.sampled_from(
    ["JAN", "feb", "MON", "sun", "L", "LW", "5L", "MON#1", "7#5", "?", "R", "H"]
)
_SPAN = st.builds("{}-{}".format, _NUMBER, _NUMBER)
_STEP = st.builds(
    "{}/{}".format,
    st.one_of(st.just("*"), _NUMBER, _SPAN),
    st.sampled_from(["0", "1", "5", "70", "x"]),
)
_ITEM = st.one_of(st.just("*"), _NUMBER, _SPAN, _STEP, _NAME)
_FIELD = st.one_of(st.just("*"), _ITEM, st.lists(_ITEM, min_size=2, max_size=3).map(",".join))


@settings(max_examples=1000)
@given(st.lists(_FIELD, min_size=4, max_size=6).map(" ".join))
@example("* * * * MON#1,3")
@example("0 0 31 2 MON#1")
def test_nothing_is_accepted_that_dagster_refuses(text: str) -> None:
    checked = accepted(text)
    assert checked is None or is_valid_cron_string(checked)


@given(st.text(alphabet="0123456789*/,-# @LWMONsunJANHR?", max_size=25))
def test_no_text_is_accepted_that_dagster_refuses(text: str) -> None:
    checked = accepted(text)
    assert checked is None or is_valid_cron_string(checked)


@pytest.mark.parametrize("text", ["*/75 * * * *", "0 */24 * * *", "0 0 1 */12 *"])
def test_a_step_that_never_comes_a_second_time_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="does not mean what it says"):
        checked_cron(text)


def test_the_wrong_field_is_named() -> None:
    with pytest.raises(PydanticCustomError, match="its hour '25' is wrong"):
        checked_cron("0 25 * * *")
    with pytest.raises(PydanticCustomError, match=r"6 fields \(there is no field for seconds\)"):
        checked_cron("0 * * * * *")
    with pytest.raises(PydanticCustomError, match="a day that no calendar has"):
        checked_cron("0 3 31 2 *")


BERLIN = "Europe/Berlin"
SPRING = datetime(2027, 3, 27, 12, tzinfo=timezone.utc)
AUTUMN = datetime(2027, 10, 30, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("expression", "begins", "said"),
    [
        ("30 2 * * *", SPRING, "2027-03-28: 02:00 to 03:00 does not exist; instead of 02:30"),
        ("*/20 * * * *", SPRING, "instead of 02:00, 02:20, 02:40 it runs once at 03:00"),
        ("30 2 * * *", AUTUMN, "2027-10-31: 02:00 to 03:00 comes twice; 02:30 runs once"),
        ("*/20 * * * *", AUTUMN, "02:00, 02:20, 02:40 runs twice"),
        ("0 4 * * *", SPRING, None),
        ("30 2 1 1 *", AUTUMN, None),
    ],
)
def test_the_days_on_which_a_clock_is_moved_are_told_as_dagster_ticks(
    expression: str, begins: datetime, said: str | None
) -> None:
    told = list(odd_days(expression, BERLIN, begins, days=2))
    assert len(told) == (1 if said else 0)
    assert all(said in each for each in told if said)
    ends = (begins + timedelta(days=1)).timestamp()
    real = takewhile(
        lambda tick: tick.timestamp() < ends,
        schedule_execution_time_iterator(begins.timestamp(), expression, BERLIN),
    )
    ticks = [f"{tick:%H:%M}" for tick in real if f"{tick:%H}" in ("02", "03")]
    if said is None:
        return
    assert ("runs twice" in said) == (len(ticks) > len(set(ticks)))
    if begins == SPRING:
        assert ticks[0] == "03:00"
        assert "02:30" not in ticks


def test_a_clock_that_is_never_moved_has_no_odd_day() -> None:
    assert list(odd_days("30 2 * * *", "UTC", SPRING)) == []
    assert len(list(odd_days("30 2 * * *", BERLIN, SPRING, days=300))) == 2


@pytest.mark.parametrize(
    ("schedule", "pause"),
    [
        ("*/15 * * * *", timedelta(minutes=15)),
        ("*/15 8-17 * * *", timedelta(hours=14, minutes=15)),
        ("0 3 * * MON-FRI", timedelta(days=3)),
        ("@monthly", timedelta(days=31)),
        ("every day", None),
    ],
)
def test_the_longest_pause_knows_nights_and_weekends(
    schedule: str, pause: timedelta | None
) -> None:
    assert longest_pause(schedule) == pause
