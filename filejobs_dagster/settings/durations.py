"""Durations with a unit: `30s`, `24h`, `1h30m`, `90d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from filejobs_dagster.settings.problems import kind, mistake, shown

UNITS: dict[str, int] = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
"""Seconds in each unit, largest first."""

PATTERN = r"^(?=[0-9])([0-9]+w)?([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
"""What an editor may check; negative durations are for fields that would refuse them anyway."""

_DURATION = re.compile(r"-?" + "".join(f"(?:([0-9]{{1,12}}){unit})?" for unit in UNITS))
_BARE_NUMBER = re.compile(r"[+-]?[0-9][0-9_]{0,18}(?:\.[0-9]{1,18})?")
_HOW = "write whole numbers with the units w, d, h, m, s, the largest first: 30s, 1h30m, 90d"


def parse_duration(text: str, *, waits: bool = False) -> timedelta:
    """Read a duration such as `24h` or `1h30m`.

    Args:
        text: Whole numbers, each with a unit (`w`, `d`, `h`, `m`, `s`), the largest unit first and
            each unit once; a leading `-` makes the whole negative.
        waits: What is advised for a bare number. False for an age or a window: days, because
            whoever follows advice of a shorter unit would delete earlier. True for what only
            waits, such as a timeout.

    Raises:
        ValueError: It is not such a text. The message says what was found and what would be right.
    """
    try:
        return _parsed(text, waits=waits)
    except _UnreadableError as error:
        raise ValueError(f"{error.found}; {error.expected}") from None


def duration_in(said: Any) -> timedelta | None:
    """What the file says, when it is a duration at all; whether it is one, its field reports."""
    if isinstance(said, timedelta):
        return said
    try:
        return parse_duration(said) if isinstance(said, str) else None
    except ValueError:
        return None


def format_duration(duration: timedelta) -> str:
    """Write a duration so that `parse_duration` reads the same one: `1h30m`; weeks become days.

    Raises:
        ValueError: It has a fraction of a second, which no setting has.
    """
    if duration.microseconds:
        raise ValueError(f"{duration!r} has a fraction of a second; durations are whole seconds")
    rest = abs(duration.days * UNITS["d"] + duration.seconds)
    text = "-" if duration < timedelta() else ""
    if rest == 0:
        return "0s"
    for unit in ("d", "h", "m", "s"):
        count, rest = divmod(rest, UNITS[unit])
        text += f"{count}{unit}" if count else ""
    return text


class _UnreadableError(Exception):
    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found, expected)
        self.found = found
        self.expected = expected


def _parsed(text: str, *, waits: bool) -> timedelta:
    if _BARE_NUMBER.fullmatch(text):
        raise _without_unit(text, waits=waits)
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise _UnreadableError(f"{shown(text)} is not a duration", _HOW)
    seconds = sum(
        int(count or 0) * size for count, size in zip(match.groups(), UNITS.values(), strict=True)
    )
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError:
        raise _UnreadableError(f"{shown(text)} is longer than any calendar", _HOW) from None


def _without_unit(text: str, *, waits: bool) -> _UnreadableError:
    if "." in text:
        return _UnreadableError(f"{text} has no unit and is not a whole number", _HOW)
    number = int(text)
    if not waits:
        return _UnreadableError(f"{text} has no unit", f"write {number}d if it is days")
    choices = [f"{number}s", f"{number}m", f"{number}h"]
    try:
        longer = format_duration(timedelta(seconds=number))
    except OverflowError:
        longer = choices[0]
    if longer != choices[0]:
        choices = [choices[0], longer]
    elif number == 0:
        choices = choices[:1]
    *most, last = choices
    return _UnreadableError(
        f"{text} has no unit", f"write {', '.join(most)} or {last}" if most else f"write {last}"
    )


def _age(value: Any) -> timedelta:
    return _from_file(value, waits=False)


def _wait(value: Any) -> timedelta:
    return _from_file(value, waits=True)


def _from_file(value: Any, *, waits: bool) -> timedelta:
    if isinstance(value, timedelta):
        if value.microseconds:
            raise mistake(f"{value} has a fraction of a second", "write whole seconds")
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise mistake(f"found {kind(value)} where a duration belongs", _HOW)
    try:
        return _parsed(value, waits=waits)
    except _UnreadableError as error:
        raise mistake(error.found, error.expected) from None


_WRITTEN = PlainSerializer(format_duration, return_type=str)
_SCHEMA = WithJsonSchema(
    {"type": "string", "pattern": PATTERN, "examples": ["30s", "1h30m", "90d"]}
)

Duration = Annotated[timedelta, BeforeValidator(_age), _WRITTEN, _SCHEMA]
"""A `timedelta` that the file writes as text with a unit: an age, or a window."""

Wait = Annotated[timedelta, BeforeValidator(_wait), _WRITTEN, _SCHEMA]
"""The same for what only waits, so that no bytes go earlier when it is short."""


def in_words(duration: timedelta) -> str:
    """A duration as the settings write it; one with a fraction, which no setting has, in seconds.

    Those who call the job from Python may pass one.
    """
    if duration.microseconds:
        return f"{duration.total_seconds():g}s"
    return format_duration(duration)
