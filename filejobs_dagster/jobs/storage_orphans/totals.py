"""What a run has found, and what became of it, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.keys import display_key
from filejobs_dagster.settings.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from filejobs_dagster.objects.removal import Removal

SAMPLE = 20
"""How many keys a record shows of each class."""

DELETED = "deleted"
MARKED = "marked"
PURGED = "purged"
ALREADY_GONE = "already gone"
CHANGED = "changed meanwhile"
UNDECIDED = "undecided"
"""Nobody can tell whether it is the object that was seen."""
UNSEEN = "cannot be looked at"
GHOST = "ghost"
"""The listing shows it run after run, and a HEAD says that there is no such object."""
LOCKED = "locked"
FAILED = "failed"
WON_BY_OTHERS = "being referenced"
UNANSWERED = "unanswered"
TOO_RECENT = "asked for a moment ago"
KEPT = "kept: "
OWNER_REFERENCED = "its owner is referenced"

DERIVED_FROM = "derived from "
"""So the gate's reason begins for an object whose owner is named; the owner's key follows."""


@dataclass
class Totals:
    """What a run has reached; every number is written with the batch that it belongs to.

    Attributes:
        live: False for a run that only reports.
        objects: Owned objects listed.
        listed_bytes: Their bytes.
        classes: Objects by class.
        bytes_by_class: Bytes by class.
        fates: What became of the orphans that this run meant to delete.
        freed: Bytes that are free now.
        versions: Versions that were purged.
        intended: Orphans whose deletion is intended and whose result is not written yet.
        samples: A few keys of each class and fate, with reasons.
        refused_in_a_row: Objects that storage refused since the last batch of which it let any go.
    """

    live: bool
    objects: int = 0
    listed_bytes: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    bytes_by_class: Counter[str] = field(default_factory=Counter)
    fates: Counter[str] = field(default_factory=Counter)
    freed: int = 0
    versions: int = 0
    intended: int = 0
    samples: dict[str, list[str]] = field(default_factory=dict)
    refused_in_a_row: int = 0

    @property
    def acted(self) -> int:
        """Objects that a listing does not show any more because of this run."""
        return self.fates[DELETED] + self.fates[MARKED] + self.fates[PURGED]

    @property
    def left(self) -> int:
        """Orphans that were due and that storage did not let go."""
        return self.fates[FAILED] + self.fates[UNANSWERED]

    @property
    def done(self) -> str:
        """What went, in words; a delete marker is no removal, and frees nothing."""
        marked, gone = self.fates[MARKED], self.fates[DELETED] + self.fates[PURGED]
        only_marked = f"{marked:,} marked (nothing freed)"
        if marked and not gone:
            return only_marked
        removed = f"{gone:,} removed, {self.freed:,} bytes freed"
        return f"{removed}, {only_marked}" if marked else removed

    def note(self, fate: str, key: bytes, why: str | None = None) -> None:
        """Count one key under its fate."""
        self.fates[fate] += 1
        self.show(fate, key, why)

    def show(self, group: str, key: bytes, why: str | None = None) -> None:
        """Keep a key as a sample of its class or fate, while there is room."""
        shown = self.samples.setdefault(group, [])
        if len(shown) < SAMPLE:
            text = display_key(key.decode("utf-8", "backslashreplace"))
            shown.append(text if not why else f"{text}: {why}")

    def note_removal(self, removal: Removal, kinds: Mapping[bytes, str] | None = None) -> None:
        """Count what became of a batch.

        Args:
            removal: What became of it.
            kinds: For keys that an earlier run could not remove, the kind of its reason.
        """
        before = kinds or {}
        ghosts = [key for key in removal.already_gone if before.get(key) == GHOST]
        for fate, keys in (
            (DELETED, removal.deleted),
            (MARKED, removal.marked),
            (PURGED, tuple(removal.purged)),
            (ALREADY_GONE, tuple(set(removal.already_gone).difference(ghosts))),
            (GHOST, ghosts),
        ):
            for key in keys:
                self.note(fate, key)
        for fate, reasons in (
            (CHANGED, removal.changed),
            (UNDECIDED, removal.undecided),
            (UNSEEN, removal.unseen),
            (FAILED, removal.failed),
        ):
            for key, why in reasons.items():
                self.note(fate, key, why)
        for key, lock in removal.locked.items():
            self.note(LOCKED, key, str(lock))
        for key, why in removal.kept.items():
            # One fate for all owners: there may be as many as objects.
            if why.startswith(DERIVED_FROM):
                self.note(KEPT + OWNER_REFERENCED, key, why)
            else:
                self.note(KEPT + why, key)
        self.freed += removal.freed
        self.versions += sum(removal.purged.values())
        let_go = bool(removal.removed() or removal.already_gone)
        # What an earlier run could not look at says nothing new of the server.
        refused = [*removal.failed, *(it for it in removal.unseen if before.get(it) != UNSEEN)]
        self.refused_in_a_row = 0 if let_go else self.refused_in_a_row + len(refused)

    def as_detail(self) -> dict[str, Any]:
        """The totals as `job_run.detail` holds them; a dry run has no number of things done."""
        detail: dict[str, Any] = {
            "classes": {name: count for name, count in self.classes.items() if count},
            "bytes_by_class": {name: size for name, size in self.bytes_by_class.items() if size},
            "bytes": self.listed_bytes,
            "samples": self.samples,
        }
        if not self.live:
            return detail
        return detail | {
            "fates": {fate: count for fate, count in self.fates.items() if count},
            "deleted": self.fates[DELETED] + self.fates[PURGED],
            "marked": self.fates[MARKED],
            "already_gone": self.fates[ALREADY_GONE],
            "versions_purged": self.versions,
            "bytes_freed": self.freed,
            "objects_left": self.left + self.fates[UNDECIDED] + self.fates[UNSEEN] + self.intended,
        }


def as_text(at: datetime | None) -> str | None:
    """A moment as the record holds it."""
    return None if at is None else at.isoformat()


def minute_in_words(at: datetime) -> str:
    """A moment for people, in UTC; the next full minute, so that it is never too early."""
    up = at.astimezone(timezone.utc) + timedelta(minutes=1) - timedelta.resolution
    return f"{up:%Y-%m-%d %H:%M} UTC"


def in_words(duration: timedelta) -> str:
    """A duration as the settings write it; one with a fraction, which no setting has, in seconds.

    Those who call the job from Python may pass one.
    """
    if duration.microseconds:
        return f"{duration.total_seconds():g}s"
    return format_duration(duration)
