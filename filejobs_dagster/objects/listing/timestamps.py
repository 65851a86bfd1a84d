"""Reads a page's timestamps: most of a listing's time, when each is read on its own.

Days, minutes of the day and seconds repeat, so each text is three look-ups in small tables.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.page import UNKNOWN_TIME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)
MOST_ENTRIES = 100_000
"""Of a table: more than there are days in a bucket or milliseconds in a minute."""

_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:(Z)|([+-][0-9]{2}):?([0-9]{2}))?"
)
_DAY = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MINUTE = re.compile(rb"T([01][0-9]|2[0-3]):([0-5][0-9]):")
_SECOND = re.compile(rb"([0-5][0-9])(?:\.([0-9]{1,9}))?Z")


class _Table(dict[bytes, int]):
    """Milliseconds by text, of those texts that were met."""

    def __init__(self, read: Callable[[bytes], int]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: bytes) -> int:
        value = self._read(text)
        if len(self) >= MOST_ENTRIES:
            self.clear()
        self[text] = value
        return value


def milliseconds(texts: Sequence[bytes | None]) -> list[int]:
    """Read timestamps of a listing.

    Returns:
        Milliseconds since 1970, cut; -1 for each that is missing or cannot be read.
    """
    try:
        # A missing one cannot be sliced, and an unusual one is in no table.
        return [_days[it[:10]] + _minutes[it[10:17]] + _seconds[it[17:]] for it in texts]  # type: ignore[index]
    except (TypeError, ValueError):
        return [_one(text) for text in texts]


def _one(text: bytes | None) -> int:
    """As strict as above: a lenient reader finds some time in nearly every text."""
    if not text:
        return UNKNOWN_TIME
    try:
        plain = text.decode("ascii").strip()
        iso = _ISO.fullmatch(plain)
        read = parsedate_to_datetime(plain) if iso is None else _from_iso(iso)
        # botocore, too, takes a time without a zone for UTC.
        aware = read if read.tzinfo else read.replace(tzinfo=timezone.utc)
        return (aware - EPOCH) // MILLISECOND
    except (ValueError, OverflowError, TypeError):
        return UNKNOWN_TIME


def _from_iso(found: re.Match[str]) -> datetime:
    """Python 3.10 knows neither the letter Z nor fractions of another length than 3 or 6."""
    moment, fraction, utc, hours, minutes = found.groups()
    zone = "+00:00" if utc else f"{hours}:{minutes}" if hours else ""
    return datetime.fromisoformat(f"{moment}.{(fraction or '').ljust(6, '0')[:6]}{zone}")


def _matched(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _day(text: bytes) -> int:
    _matched(_DAY, text)
    return (date.fromisoformat(text.decode()) - EPOCH.date()) // MILLISECOND


def _minute(text: bytes) -> int:
    hour, minute = _matched(_MINUTE, text).groups()
    return (int(hour) * 60 + int(minute)) * 60_000


def _second(text: bytes) -> int:
    second, fraction = _matched(_SECOND, text).groups()
    return int(second) * 1000 + int((fraction or b"").ljust(3, b"0")[:3])


_days = _Table(_day)
_minutes = _Table(_minute)
_seconds = _Table(_second)
