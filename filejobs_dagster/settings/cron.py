"""Cron expressions: five fields or a macro, and nothing that Dagster would refuse."""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta, timezone
from itertools import islice, pairwise, takewhile
from typing import TYPE_CHECKING, Annotated, Any
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from pydantic import BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from filejobs_dagster.settings.problems import kind, mistake, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MACROS: dict[str, str] = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
"""The macros that both cronsim and Dagster know, with the five fields they stand for."""

_FIELDS = ("minute", "hour", "day of month", "month", "day of week")
_LONGEST_STEP = {"minute": 59, "hour": 23, "day of month": 30, "month": 11, "day of week": 6}
"""A longer step never comes a second time in its field: `*/75` minutes would mean hourly."""

_STEP = re.compile(r"/([0-9]+)")
_HOW = (
    'write five fields in quotes, such as "*/15 * * * *" or "0 3 * * MON", or one of '
    + ", ".join(MACROS)
)
# Dagster knows neither LW nor 5L, and takes a # only where it stands alone.
_POINT = r"(?:\*|[0-9]+|[A-Za-z]{3})"
_ITEM = rf"{_POINT}(?:-{_POINT})?(?:/[0-9]+)?"
_LIST = re.compile(rf"{_ITEM}(,{_ITEM})*")
_LAST_DAY = re.compile(r"[Ll]")
_NTH_WEEKDAY = re.compile(r"[0-9A-Za-z]+#[1-5]")
_NAMES = re.compile(r"[A-Za-z]+")
_NAMED_FIELDS = frozenset({"month", "day of week"})
_LOOKED_AT = 50
"""Moments of a schedule. They only ever make a pause that was found shorter."""

_SHOWN = 3

_BEFORE_ALL = datetime(2024, 1, 1, tzinfo=timezone.utc)


# Each look at the settings, and each tick of a schedule, asks the same few.
@functools.lru_cache(maxsize=256)
def checked_cron(text: str) -> str:
    """Check a cron expression, and return it with single spaces.

    It may be stricter than Dagster (`?`, `9-5`, days that never come) but never accepts what
    Dagster refuses.

    Raises:
        PydanticCustomError: It is not one; says which field is wrong.
    """
    fields = text.split()
    if len(fields) == 1 and text.strip().startswith("@"):
        return _macro(text.strip())
    if len(fields) != len(_FIELDS):
        seconds = " (there is no field for seconds)" if len(fields) == len(_FIELDS) + 1 else ""
        raise mistake(
            f"{shown(text)} is not a cron expression: it has {len(fields)} fields{seconds}", _HOW
        )
    _check_fields(text, fields)
    _check_comes(text, fields)
    return " ".join(fields)


def shortest_pause(said: Any) -> timedelta | None:
    """The shortest time between two runs of a schedule; None for what is no schedule."""
    try:
        expression = checked_cron(said) if isinstance(said, str) else None
    except PydanticCustomError:
        return None
    return None if expression is None else _pause(expression)


@functools.lru_cache(maxsize=256)
def _pause(expression: str) -> timedelta | None:
    moments = list(islice(CronSim(MACROS.get(expression, expression), _BEFORE_ALL), _LOOKED_AT))
    return min((later - earlier for earlier, later in pairwise(moments)), default=None)


def longest_pause(said: Any) -> timedelta | None:
    """The longest time between two runs of a schedule, such as a weekend; None for no schedule."""
    try:
        expression = checked_cron(said) if isinstance(said, str) else None
    except PydanticCustomError:
        return None
    return None if expression is None else _longest(MACROS.get(expression, expression))


@functools.lru_cache(maxsize=256)
def _longest(expression: str) -> timedelta | None:
    # Nights and weekends show within eight days, what is rarer within as many moments.
    moments = list(islice(CronSim(expression, _BEFORE_ALL), _LOOKED_AT))
    if expression.split()[1:] != ["*"] * 4:
        over = _BEFORE_ALL + timedelta(days=8)
        moments += takewhile(lambda moment: moment < over, CronSim(expression, moments[-1]))
    return max((later - earlier for earlier, later in pairwise(moments)), default=None)


def busiest_minute(
    schedules: Mapping[str, tuple[str, str]], after: datetime
) -> tuple[datetime, list[str]] | None:
    """The first minute of a week on which more schedules begin than on any other.

    Args:
        schedules: By the job's name, its schedule and its zone of the IANA list.
        after: From when; in any zone.

    Returns:
        The minute in UTC and the names of the jobs; None without schedules.
    """
    starts: dict[datetime, list[str]] = {}
    for name, (expression, zone) in schedules.items():
        begins = after.astimezone(ZoneInfo(zone))
        for tick in CronSim(MACROS.get(expression, expression), begins):
            if tick >= begins + timedelta(days=7):
                break
            starts.setdefault(tick.astimezone(timezone.utc), []).append(name)
    return max(sorted(starts.items()), key=lambda start: len(start[1]), default=None)


def odd_days(expression: str, zone: str, after: datetime, days: int = 366) -> Iterator[str]:
    """Say on which days the clocks of a zone are moved, and what that does to a schedule.

    Args:
        expression: A schedule.
        zone: Of the IANA list.
        after: From when; in any zone.
        days: How far to look.

    Yields:
        One sentence for each day on which a tick comes late, together with others, or twice.
    """
    local, fields = ZoneInfo(zone), MACROS.get(expression, expression)
    for day in range(days):
        begins = (after + timedelta(days=day)).astimezone(timezone.utc)
        moved = _offset(begins + timedelta(days=1), local) - _offset(begins, local)
        if not moved:
            continue
        # The last minute before the clock is moved.
        early, late = begins, begins + timedelta(days=1)
        while late - early > timedelta(minutes=1):
            middle = early + (late - early) / 2
            early, late = (
                (middle, late)
                if _offset(middle, local) == _offset(begins, local)
                else (early, middle)
            )
        change = late.replace(second=0, microsecond=0)
        wall = change.replace(tzinfo=None) + _offset(begins, local)
        yield from _oddity(fields, wall, moved, change.astimezone(local))


def _oddity(fields: str, wall: datetime, moved: timedelta, change: datetime) -> Iterator[str]:
    """What a schedule does when the clock on the wall goes from `wall` by `moved`."""
    first, last = min(wall, wall + moved), max(wall, wall + moved)
    inside = takewhile(lambda tick: tick < last, CronSim(fields, first - timedelta(minutes=1)))
    ticks = [f"{tick:%H:%M}" for tick in inside if tick >= first]
    if not ticks:
        return
    which = ", ".join(ticks[:_SHOWN]) + (" …" if len(ticks) > _SHOWN else "")
    if moved > timedelta():
        yield (
            f"{wall:%Y-%m-%d}: {first:%H:%M} to {last:%H:%M} does not exist; instead of {which} it "
            f"runs once at {last:%H:%M}"
        )
        return
    over = change + abs(moved)
    before = change - abs(moved) - timedelta(minutes=1)
    real = sum(1 for _ in takewhile(lambda tick: tick < over, CronSim(fields, before)))
    how = "twice" if real > len(ticks) else "once, by the second of the two"
    yield f"{wall:%Y-%m-%d}: {first:%H:%M} to {last:%H:%M} comes twice; {which} runs {how}"


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _macro(text: str) -> str:
    if text not in MACROS:
        raise mistake(f"{_quoted_macro(text)} is not a moment in time that a schedule knows", _HOW)
    return text


def _quoted_macro(text: str) -> str:
    return repr(text) if re.fullmatch(r"@[A-Za-z]{1,12}", text) else shown(text)


def _check_fields(text: str, fields: list[str]) -> None:
    for position, (name, field) in enumerate(zip(_FIELDS, fields, strict=True)):
        alone = ["*"] * len(_FIELDS)
        alone[position] = field
        if not _spelled_for_dagster(name, field) or not _known(" ".join(alone)):
            raise mistake(
                f"{shown(text)} is not a cron expression: its {name} {shown(field)} is wrong", _HOW
            )
        longest = _LONGEST_STEP[name]
        if any(int(step) > longest for step in _STEP.findall(field)):
            raise mistake(
                f"{shown(text)} does not mean what it says: a step in the {name} starts anew with "
                f"each range, so it can be at most {longest}",
                'write the moments themselves, such as "0 * * * *" for every hour',
            )


def _spelled_for_dagster(name: str, field: str) -> bool:
    if name == "day of month" and _LAST_DAY.fullmatch(field):
        return True
    if name == "day of week" and _NTH_WEEKDAY.fullmatch(field):
        return True
    if _LIST.fullmatch(field) is None:
        return False
    return name in _NAMED_FIELDS or not _NAMES.search(field)


def _known(expression: str) -> bool:
    try:
        CronSim(expression, _BEFORE_ALL)
    except CronSimError:
        return False
    return True


def _check_comes(text: str, fields: list[str]) -> None:
    # The day of week is left out: with one, cronsim would take the days of February 31st from
    # it, where Dagster refuses the whole.
    try:
        next(CronSim(" ".join([*fields[:4], "*"]), _BEFORE_ALL))
    except (CronSimError, StopIteration):
        raise mistake(f"{shown(text)} names a day that no calendar has", _HOW) from None


def _from_file(value: Any) -> str:
    if not isinstance(value, str):
        raise mistake(f"found {kind(value)} where a cron expression belongs", _HOW)
    return checked_cron(value)


Cron = Annotated[
    str,
    BeforeValidator(_from_file),
    WithJsonSchema({"type": "string", "examples": ["*/15 * * * *", "0 3 * * MON", "@daily"]}),
]
"""A cron expression that Dagster accepts too."""
