"""The kinds of single values that settings hold, each checked with words of its own.

Among them are durations with a unit: `30s`, `24h`, `1h30m`, `90d`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    StrictStr,
    ValidationInfo,
    WithJsonSchema,
)

from filejobs_dagster.settings.problems import kind, mistake, shown
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable

# Durations with a unit: `30s`, `24h`, `1h30m`, `90d`.

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


INSTALLATION = re.compile(r"[a-z0-9._-]{1,63}")
"""What an installation may be called; it becomes a tag of every run."""

CEILING = timedelta(days=3650)
"""No setting is longer: ten years back from any clock is still a date."""

_OWNER = re.compile(r"team:[A-Za-z0-9_.-]+|[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_GLOB = re.compile(r"\*\*|\*$|(?:^|(?<=/))\*(?:\.|/)")
"""What only a pattern has: `**`, a `*` at the end, a segment `*`, or one that begins with `*.`."""

_FIRST_DAY = date(2000, 1, 1)
_IDENTIFIER = r"[a-z_][a-z0-9_]{0,62}"


@dataclass(frozen=True)
class Bounds:
    """The shortest and the longest that a duration may be, both included."""

    least: timedelta
    most: timedelta

    def __call__(self, value: timedelta, info: ValidationInfo) -> timedelta:
        """Refuse what is outside; the message names the field and the bound."""
        if value < self.least:
            raise mistake(
                f"{info.field_name} is under the floor of {format_duration_in_hours(self.least)}: "
                f"{format_duration(value)}",
                f"write {format_duration_in_hours(self.least)} or more",
            )
        if value > self.most:
            raise mistake(
                f"{info.field_name} is over the ceiling of {format_duration_in_hours(self.most)}: "
                f"{format_duration(value)}",
                f"write {format_duration_in_hours(self.most)} or less",
            )
        return value


def between(floor: timedelta, ceiling: timedelta = CEILING) -> AfterValidator:
    """Bound a duration, both ends included."""
    return AfterValidator(Bounds(floor, ceiling))


def format_duration_in_hours(bound: timedelta) -> str:
    """Write a bound as people speak of it: one day is `24h`."""
    return "24h" if bound == timedelta(days=1) else format_duration(bound)


def _matching(pattern: str, found: Callable[[str], str], expected: str) -> Callable[[str], str]:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if not compiled.fullmatch(value):
            raise mistake(found(value), expected)
        return value

    return check


def _not_empty(value: str) -> str:
    if not value.strip():
        raise mistake("it is empty", "write something, or leave the key out if it is optional")
    return value


def _bucket_name(value: str) -> str:
    if not value.strip() or "/" in value:
        raise mistake(
            f"{shown(value)} is not the name of a bucket",
            "write the bucket's name alone, without s3:// and without a path",
        )
    return value


def _endpoint(value: str) -> str:
    expected = "write http:// or https:// and a host, such as https://s3.example.com:9000"
    try:
        parts = urlsplit(value)
        parts.port  # noqa: B018 - raises for a port that is no number
    except ValueError:
        raise mistake("it is not a URL", expected) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise mistake("it is not an http or https URL", expected)
    if "@" in parts.netloc:
        raise mistake(
            "it holds a user or a password",
            "write the address alone; access_key_id and secret_access_key take {env: NAME}",
        )
    if parts.query or parts.fragment:
        raise mistake("it has a query or a fragment", expected)
    return value


def as_keys_are(value: str) -> str:
    """Refuse what people write for places of other kinds, where the beginning of a key belongs.

    A real key may hold most of it, and is then still named by a prefix above it. What is refused
    would otherwise name nothing, and nobody would notice.
    """
    if value != value.strip():
        raise mistake(
            f"{shown(value)} begins or ends with a blank, which keys rarely do",
            f"write {shown(value.strip())}; for keys that do, write the prefix above them",
        )
    if "://" in value:
        _, _, path = value.partition("://")[2].partition("/")
        raise mistake(
            f"{shown(value)} is an address, and keys are compared without one",
            f"write {shown(path)}" if path else "write how the keys begin, such as 'files/'",
        )
    if _GLOB.search(value):
        above = _GLOB.split(value, maxsplit=1)[0]
        above = above[: above.rfind("/") + 1]
        raise mistake(
            f"{shown(value)} is written as a pattern, and a * stands for itself here",
            "a prefix covers everything below it: "
            + (f"write {shown(above)}" if above else "write one such as 'files/brand/'"),
        )
    if not {".", ".."}.isdisjoint(value.split("/")):
        raise mistake(
            f"{shown(value)} has a . or .. between its slashes, and nothing resolves it",
            "write the keys' own beginning, as the bucket lists it",
        )
    return value


def _prefix(value: str) -> str:
    if not value:
        raise mistake(
            "an empty prefix would be the whole bucket",
            "write a prefix that ends in /, or owns_whole_bucket: true instead of owns",
        )
    as_keys_are(value)
    if value.startswith("/"):
        without = value.lstrip("/")
        raise mistake(
            f"the prefix {shown(value)} begins with /, and keys do not",
            f"write {shown(without)}" if without else "write a prefix such as 'files/'",
        )
    if not value.endswith("/"):
        raise mistake(
            f"the prefix {shown(value)} does not end in /, so it would also own keys that only "
            "begin alike",
            f"write {shown(value + '/')}",
        )
    return value


def _fraction(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise mistake(f"found {shown(value)}", "write a share from 0 to 1, such as 0.1")
    return float(value)


def _folder(value: str) -> str:
    if not PurePosixPath(value).is_absolute() or "\x00" in value:
        raise mistake(
            f"{shown(value)} is not an absolute path",
            "write the whole path of a folder, such as /var/lib/filejobs; a run's own current "
            "directory is nobody's choice",
        )
    return value


def _one_query(value: str) -> str:
    # Nothing of the text is shown: a query may hold what its author wanted to hide.
    if not value.strip():
        raise mistake("the query is empty", "write one SELECT that returns one column of keys")
    if ";" in value:
        raise mistake(
            "the query has a ; in it",
            "write one SELECT without any ; (write chr(59) where a text needs one)",
        )
    return value


def _day(value: Any) -> date:
    expected = "write a day as year-month-day, such as 2025-01-01"
    if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise mistake(f"{shown(value)} is not a day of any calendar", expected) from None
    if isinstance(value, datetime) or not isinstance(value, date):
        raise mistake(f"found {shown(value)}, {_kind_of_day(value)}", expected)
    return value


def _kind_of_day(value: Any) -> str:
    return "a moment" if isinstance(value, datetime) else kind(value)


def _first_day(value: date) -> date:
    today = datetime.now(timezone.utc).date()
    if value < _FIRST_DAY:
        raise mistake(
            f"{value} is before {_FIRST_DAY}", "write the first day on which files could exist"
        )
    if value > today:
        raise mistake(
            f"{value} is after today in UTC, {today}, which would leave today's run no partition",
            "write a day that has begun",
        )
    return value


def _owner(value: str) -> str:
    if not _OWNER.fullmatch(value):
        raise mistake(
            f"{shown(value)} is neither a team nor an address",
            "write team:NAME, or an e-mail address",
        )
    return value


def _pattern(pattern: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern})


Text = Annotated[
    StrictStr, AfterValidator(_not_empty), WithJsonSchema({"type": "string", "minLength": 1})
]
"""Any text that says something."""

Owner = Annotated[StrictStr, AfterValidator(_owner), _pattern(f"^(?:{_OWNER.pattern})$")]
"""Who owns a job: what Dagster accepts as an owner."""

Installation = Annotated[
    StrictStr,
    AfterValidator(
        _matching(
            INSTALLATION.pattern,
            lambda value: f"{shown(value)} cannot tag a run",
            "write lowercase letters, digits, -, _ and . only, at most 63 of them",
        )
    ),
    _pattern(f"^{INSTALLATION.pattern}$"),
]
"""The name that tags every run of this installation."""

Identifier = Annotated[
    StrictStr,
    AfterValidator(
        _matching(
            _IDENTIFIER,
            lambda value: f"{shown(value)} is not a plain identifier",
            "write lowercase letters, digits and _, beginning with a letter or _, at most 63",
        )
    ),
    _pattern(f"^{_IDENTIFIER}$"),
]
"""A name that PostgreSQL reads without quotes."""

Day = Annotated[date, BeforeValidator(_day), AfterValidator(_first_day)]
"""A day that has begun."""

BucketName = Annotated[StrictStr, AfterValidator(_bucket_name), _pattern("^[^/]+$")]
"""The bucket's name on the server."""

Endpoint = Annotated[StrictStr, AfterValidator(_endpoint), _pattern("^https?://[^@?#]+$")]
"""The address of an S3 server, without credentials."""

Prefix = Annotated[StrictStr, AfterValidator(_prefix), _pattern("^[^/][\\s\\S]*/$")]
"""The beginning of keys, ending in a slash."""

KeyOrPrefix = Annotated[
    StrictStr,
    AfterValidator(_not_empty),
    AfterValidator(as_keys_are),
    WithJsonSchema({"type": "string", "minLength": 1}),
]
"""An exact key, or the beginning of keys; compared as it stands."""

Fraction = Annotated[
    float,
    BeforeValidator(_fraction),
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
"""A share from 0 to 1."""

Folder = Annotated[StrictStr, AfterValidator(_folder), _pattern("^/")]
"""An absolute path of a folder, which need not exist yet."""

Query = Annotated[StrictStr, AfterValidator(_one_query), _pattern("^[^;]*[^;\\s][^;]*$")]
"""One SQL query, without a semicolon anywhere."""
