"""What a run has found, and what became of it, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filejobs_dagster.ledger.sanitize import display_key
from filejobs_dagster.objects.multipart import AbortFate

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.objects.multipart import Aborted

SAMPLE = 20
"""How many keys a record shows of each class."""

YOUNG = "young"
ACTIVE = AbortFate.ACTIVE.value
UNDATED = "age unknown"
REFERENCED = "referenced"
KEPT = "kept: "
ENDED = "ended meanwhile"
UNREADABLE = "parts not readable"
UNANSWERED = "unanswered"
WOULD_ABORT = "would abort"
DEFERRED = "deferred"

_GONE = (AbortFate.ABORTED, AbortFate.ALREADY_GONE, AbortFate.OBJECT_THERE)


@dataclass
class Totals:
    """What a run has reached; every number is written with the batch that it belongs to.

    Attributes:
        live: False for a run that only reports.
        scanned: Uploads looked at.
        asked_by_id: Rows of `upload` whose multipart upload was asked for by its id.
        tried: Uploads that this run tried to abort, or would have.
        intended: Uploads whose abort is intended and whose result is not written yet.
        freed: Bytes of parts that are not listed any more.
        parts: Those parts.
        classes: What became of each upload, by class.
        bytes_by_class: Bytes of their parts, where they were listed.
        samples: A few keys of each class, with reasons.
        oldest: When the newest part of the oldest upload came that is due and left.
        refused_in_a_row: Uploads that storage refused since the last one that it let go.
    """

    live: bool
    scanned: int = 0
    asked_by_id: int = 0
    tried: int = 0
    intended: int = 0
    freed: int = 0
    parts: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    bytes_by_class: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)
    oldest: datetime | None = None
    refused_in_a_row: int = 0

    def note(self, fate: str, key: str, *, size: int | None = None, why: str = "") -> None:
        """Count one upload under its class."""
        self.classes[fate] += 1
        if size is not None:
            self.bytes_by_class[fate] += size
        shown = self.samples.setdefault(fate, [])
        if len(shown) < SAMPLE:
            shown.append(f"{display_key(key)}: {why}" if why else display_key(key))

    def note_kept(self, key: str, reason: str) -> None:
        """Count an upload that the gate does not let go; the reason may name sources."""
        if reason.startswith(REFERENCED):
            self.note(REFERENCED, key, why=reason)
        else:
            self.note(KEPT + reason, key)

    def note_left(
        self, fate: str, key: str, active: datetime | None, *, size: int | None, why: str = ""
    ) -> None:
        """Count an upload that is due and stays, with the time of its newest part."""
        self.note(fate, key, size=size, why=why)
        if active is not None:
            self.oldest = active if self.oldest is None else min(self.oldest, active)

    def note_aborted(self, key: str, aborted: Aborted, active: datetime | None) -> None:
        """Count what became of an upload that was to go."""
        fate = aborted.fate
        self.freed += aborted.bytes_freed
        self.parts += aborted.parts
        if fate is AbortFate.KEPT:
            self.note_kept(key, aborted.reason)
        elif fate in (AbortFate.FAILED, AbortFate.PARTS_LEFT):
            self.note_left(fate.value, key, active, size=aborted.bytes_left, why=aborted.reason)
        else:
            size = aborted.bytes_freed if fate is AbortFate.ABORTED else None
            self.note(fate.value, key, size=size, why=aborted.reason)
        if fate in _GONE:
            self.refused_in_a_row = 0
        elif fate is AbortFate.FAILED:
            self.refused_in_a_row += 1

    @property
    def aborted(self) -> int:
        """Uploads that are gone because of this run."""
        return self.classes[AbortFate.ABORTED.value]

    @property
    def gone(self) -> int:
        """Uploads that were due and are not there any more, whoever ended them."""
        return sum(self.classes[fate.value] for fate in _GONE)

    @property
    def left(self) -> int:
        """Uploads that were to go and that storage did not let go."""
        return sum(
            self.classes[fate]
            for fate in (AbortFate.FAILED.value, AbortFate.PARTS_LEFT.value, UNANSWERED)
        )

    @property
    def unreadable(self) -> int:
        """Uploads whose parts storage did not list, so that nothing could be decided."""
        return self.classes[UNREADABLE]

    @property
    def readable(self) -> int:
        """Uploads whose parts storage did list, and that are not due."""
        return self.classes[ACTIVE] + self.classes[UNDATED]

    @property
    def untouched(self) -> int:
        """Uploads in owned prefixes that are none of ours to abort."""
        return sum(count for fate, count in self.classes.items() if fate.startswith(KEPT))

    def as_detail(self) -> dict[str, Any]:
        """The totals as `job_run.detail` holds them; a dry run has no number of things done."""
        detail: dict[str, Any] = {
            "classes": {fate: count for fate, count in self.classes.items() if count},
            "bytes_by_class": {fate: size for fate, size in self.bytes_by_class.items() if size},
            "samples": self.samples,
            "untouched": self.untouched,
            "asked_by_id": self.asked_by_id,
        }
        if not self.live:
            return detail | {
                "would_collect": self.classes[WOULD_ABORT],
                "would_free_bytes": self.bytes_by_class[WOULD_ABORT],
            }
        return detail | {
            "bytes_freed": self.freed,
            "parts_freed": self.parts,
            "uploads_left": self.left + self.unreadable + self.intended,
            "deferred": self.classes[DEFERRED],
        }
