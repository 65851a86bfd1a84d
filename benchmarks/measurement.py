"""What a benchmark returns: rows of the one table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


class NotMeasured(Exception):
    """A benchmark cannot be run here; the message says what it lacks and how to get it."""


@dataclass(frozen=True)
class Value:
    """A measured number with its unit, and what it is of."""

    number: float
    unit: str
    of: str

    def __str__(self) -> str:
        """The number as a person reads it: three significant digits, thousands separated."""
        return f"{readable(self.number)} {self.unit}"


@dataclass(frozen=True)
class Measurement:
    """One row: two values from one run on the same data, and their ratio.

    Attributes:
        benchmark: The name under which it was chosen.
        what: What was compared, in one line.
        measured: The project's value, or that of the larger or busier side.
        compared: What it is compared with.
        ratio: How many times; see `reading`.
        reading: What the ratio says, for instance `times as fast`.
        note: What limits it, or what else the reader must know; may be empty.
    """

    benchmark: str
    what: str
    measured: Value
    compared: Value
    ratio: float
    reading: str
    note: str = ""

    def as_document(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        return asdict(self)


def more(measured: Value, compared: Value) -> float:
    """How many times the first is the second.

    Raises:
        ValueError: The second is no positive number, so that nothing was measured.
    """
    if compared.number <= 0:
        raise ValueError(f"{compared.of} gave {compared}: nothing to compare with")
    return measured.number / compared.number


def readable(number: float) -> str:
    """Three significant digits."""
    if number >= 100:  # noqa: PLR2004 (three digits)
        return f"{number:,.0f}"
    return f"{number:.3g}"
