"""The words of the ledger: modes, triggers, windows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from datetime import datetime

Mode = Literal["dry", "live"]

TriggerKind = Literal["schedule", "sensor", "ui", "cli", "backfill", "http", "retry"]


@dataclass(frozen=True)
class Trigger:
    """Through which door a run came.

    Attributes:
        kind: The door.
        name: Which one: the schedule, the sensor, the backfill, the run that is retried.
    """

    kind: TriggerKind
    name: str | None = None


@dataclass(frozen=True)
class Window:
    """What a run set out to cover.

    Attributes:
        begins: Inclusive; None means from the beginning of time.
        ends: Exclusive; None means up to the cutoff.
        label: The day of a backfill as `YYYY-MM-DD`, or None for everything that is due.
    """

    begins: datetime | None = None
    ends: datetime | None = None
    label: str | None = None

    @property
    def everything(self) -> bool:
        """True when the run covers all that is due."""
        return self.begins is None and self.ends is None

    def as_detail(self) -> dict[str, Any]:
        """The window as `job_run.detail` holds it."""
        if self.everything:
            return {"covers": "everything"}
        return {
            "covers": self.label or "part",
            "from": None if self.begins is None else self.begins.isoformat(),
            "to": None if self.ends is None else self.ends.isoformat(),
        }


EVERYTHING = Window()
