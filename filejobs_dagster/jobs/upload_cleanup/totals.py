"""What became of each upload, counted."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filejobs_dagster.ledger.outcome import none_went
from filejobs_dagster.objects.keys import display_key

if TYPE_CHECKING:
    from typing_extensions import Self

SAMPLE = 20
"""How many keys a record shows of each class."""

WOULD_COLLECT = "would collect"

DELETED = "deleted"
MARKED = "marked"
ALREADY_GONE = "already gone"
SUPERSEDED = "superseded"
NEVER_ARRIVED = "never arrived"
CLEANED = (DELETED, MARKED, ALREADY_GONE, SUPERSEDED, NEVER_ARRIVED)
"""The outcomes of a row that is done, as the table has them."""

RETAINED = "retained"
LEFT = "left for later"
UNSEEN = "cannot be looked at"
DEAD = "dead letter"
CLAIM_LOST = "claim lost"
KEPT = "kept: "

NOW_UNCERTAIN = "silent writer, now uncertain"
RESOLVED_STORED = "uncertain, resolved: stored"
RESOLVED_CLEANUP = "uncertain, resolved: cleanup"
STILL_UNCERTAIN = "still uncertain"
LOCK_OVER = "lock over"
STILL_RETAINED = "still retained"
AMBIGUOUS = "an object under the decoded key"

_PROGRESS = (*CLEANED, RETAINED, NOW_UNCERTAIN, RESOLVED_STORED, RESOLVED_CLEANUP, LOCK_OVER)


@dataclass
class Totals:
    """What a run has reached; every number is written with the batch that it belongs to.

    Attributes:
        live: False for a run that only reports.
        scanned: Rows looked at.
        claimed: Rows claimed.
        settled: Claimed rows whose result is written.
        freed: Bytes of objects and parts that are gone.
        refused_in_a_row: Objects that storage refused since the last one that it let go.
        taken_over: Rows that an abandoned run had claimed.
        classes: Every row's fate, by class.
        bytes_by_class: The bytes of those classes, where storage said them.
        samples: A few keys of each class that somebody may want to look at.
    """

    live: bool
    scanned: int = 0
    claimed: int = 0
    settled: int = 0
    freed: int = 0
    refused_in_a_row: int = 0
    taken_over: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    bytes_by_class: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def copy(self) -> Self:
        """The same numbers, to go on from in a transaction that may roll back."""
        return copy.deepcopy(self)

    def note(self, fate: str, key: str, size: int | None = None, why: str | None = None) -> None:
        """Count one row under its fate."""
        self.classes[fate] += 1
        if size is not None:
            self.bytes_by_class[fate] += size
        self.show(fate, key, why)

    def show(self, fate: str, key: str, why: str | None = None) -> None:
        """Show a key in the samples, without counting it."""
        shown = self.samples.setdefault(fate, [])
        if len(shown) < SAMPLE:
            shown.append(display_key(key) if why is None else f"{display_key(key)}: {why}")

    @property
    def cleaned(self) -> int:
        """Rows that are done."""
        return sum(self.classes[fate] for fate in CLEANED)

    @property
    def progress(self) -> int:
        """Rows that are anything but where they were."""
        return sum(self.classes[fate] for fate in _PROGRESS)

    @property
    def failures(self) -> int:
        """Rows that were tried in vain."""
        kept = sum(count for fate, count in self.classes.items() if fate.startswith(KEPT))
        return self.classes[LEFT] + self.classes[DEAD] + kept

    @property
    def finding(self) -> str | None:
        """Why a pass in which every row dropped out is no sweep; None where any did not."""
        went = sum(self.classes[fate] for fate in (*CLEANED, RETAINED) if fate != SUPERSEDED)
        superseded = self.classes[SUPERSEDED]
        # One alone is what the word says; of many, the comparison is more likely to be at fault.
        dropped = {UNSEEN: self.classes[UNSEEN], SUPERSEDED: superseded if superseded > 1 else 0}
        return none_went(went, dropped)

    def as_detail(self) -> dict[str, Any]:
        """The totals as `job_run.detail` holds them; a dry run has no number of things done."""
        detail: dict[str, Any] = {
            "classes": {fate: count for fate, count in self.classes.items() if count},
            "bytes_by_class": dict(self.bytes_by_class),
            "samples": self.samples,
        }
        if not self.live:
            return detail | {
                "would_collect": self.classes[WOULD_COLLECT],
                "would_free_bytes": self.bytes_by_class[WOULD_COLLECT],
            }
        return detail | {
            "claimed": self.claimed,
            "claimed_without_result": self.claimed - self.settled,
            "taken_over": self.taken_over,
            "bytes_freed": self.freed,
            "untouched": self.failures + self.classes[UNSEEN],
        }
