"""What goes wrong with one chain: recorded by its code, while the other chains go on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.keys import UnusableKey
from filejobs_dagster.audit.pins.store import Equivocation, PinStoreUnusable
from filejobs_dagster.audit.refused import Refused
from filejobs_dagster.audit.seal import NotPinned
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.objects.errors import BucketUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.verify import VerifyPolicy

SHOWN = 200
"""How many rows of each list a run's record holds."""

TOLD = 10
"""How many troubles a run's error names."""

KEY_UNUSABLE = "KEY_UNUSABLE"
NOT_PINNED = "NOT_PINNED"
PINS_UNUSABLE = "PINS_UNUSABLE"
NOT_FINISHED = "NOT_FINISHED"
NOT_READ = "NOT_READ"
OWN_CODES = (KEY_UNUSABLE, NOT_PINNED, PINS_UNUSABLE, NOT_FINISHED, NOT_READ)
"""Codes of the jobs, besides those of the library's findings and refusals."""

_OF_ONE_CHAIN = (Refused, Equivocation, NotPinned, PinStoreUnusable)


@dataclass(frozen=True)
class Trouble:
    """One thing that was refused or found.

    Attributes:
        chain: Of which chain.
        code: Which kind.
        message: In words.
        seq: The first event that it concerns, or None.
        count: How often.
    """

    chain: str
    code: str
    message: str
    seq: int | None = None
    count: int = 1

    def __str__(self) -> str:
        where = "" if self.seq is None else f" at event {self.seq}"
        return f"{self.chain}: {self.code}{where}: {self.message}"

    def as_row(self) -> dict[str, str | int]:
        """One row of a table."""
        return {
            "chain": self.chain,
            "code": self.code,
            "first event": "-" if self.seq is None else str(self.seq),
            "count": self.count,
            "message": self.message,
        }


@dataclass
class Troubles:
    """Everything that went wrong in a run, chain by chain."""

    found: list[Trouble] = field(default_factory=list)

    def add(self, trouble: Trouble) -> None:
        """Take one in."""
        self.found.append(trouble)

    @contextmanager
    def of(self, chain: str) -> Iterator[None]:
        """Take in what the library refuses for one chain; anything else ends the run."""
        try:
            yield
        except _OF_ONE_CHAIN as error:
            code = code_of(error)
            self.add(Trouble(chain, code, str(error).removeprefix(f"{code}: ")))

    def as_rows(self) -> list[dict[str, str | int]]:
        """Rows of a table, the first ones."""
        return [trouble.as_row() for trouble in self.found[:SHOWN]]

    def error(self, summary: str) -> str | None:
        """Why the run failed, or None when nothing went wrong."""
        if not self.found:
            return None
        lines = [str(trouble) for trouble in self.found[:TOLD]]
        more = len(self.found) - TOLD
        if more > 0:
            lines.append(f"and {more:,} more, see `findings` in the record")
        return f"{summary} {lines[0]}" + "".join(f"\n{line}" for line in lines[1:])


def code_of(error: Exception) -> str:
    """The code under which a refusal is recorded."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, Equivocation):
        return "EQUIVOCATION"
    if isinstance(error, NotPinned):
        return NOT_PINNED
    return PINS_UNUSABLE


@contextmanager
def teaching() -> Iterator[None]:
    """Turn what keeps a whole run from beginning into a failure with its code.

    Raises:
        JobFailed: The key or the place of the pins cannot be used.
    """
    try:
        yield
    except UnusableKey as error:
        raise JobFailed(f"{KEY_UNUSABLE}: {error}") from None
    except (PinStoreUnusable, BucketUnavailable) as error:
        raise JobFailed(f"{PINS_UNUSABLE}: {error}") from error


def where_pins_are(policy: VerifyPolicy) -> dict[str, Any]:
    """What a run's record says of its witnesses."""
    return {
        "signatures": "checked" if policy.trusted.configured else "not checked: no public key",
        "pins": "none: nothing outside of the database knows better"
        if policy.pins is None
        else policy.pins.description,
    }


def recorded_after(cursor: psycopg.Cursor[TupleRow], chain: str, seq: int) -> Any:
    """When the first event behind a number was recorded; None when there is none."""
    cursor.execute(
        "SELECT recorded_at FROM audit_event WHERE chain_id = %s AND seq > %s ORDER BY seq LIMIT 1",
        (chain, seq),
    )
    row = cursor.fetchone()
    return None if row is None else row[0]
