"""What became of each row and of its bytes, counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.keys import display_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.objects.deletion import Deletion

SAMPLE = 20
"""How many keys a record shows of each class."""

WOULD_COLLECT = "would collect"
WON_BY_OTHERS = "won by others"
CLAIM_REFUSED = "claim refused"
NEVER_ARRIVED = "never arrived"
BYTES_LEFT = "bytes left"
KEPT = "kept: "
DERIVED = "derived: "
"""In front of the class of an object that was derived from a row's own."""


@dataclass
class Totals:
    """What a run has reached; every number is written with the batch that it belongs to.

    Attributes:
        live: False for a run that only reports.
        measured: False when nobody asked storage for sizes, so that bytes are unknown.
        scanned: Candidates looked at.
        claimed: Rows removed by this run.
        collected: Claimed rows whose bytes are accounted for: deleted, marked, never arrived, gone
            already, or kept because something else names the key.
        refused_in_a_row: Objects that storage refused since the last one that it let go.
        untouched: Rows left alone: not ours to delete, or refused by PostgreSQL.
        classes: Every candidate's fate, by class.
        bytes_by_class: The bytes of those classes, where they were measured.
        samples: A few keys of each class that somebody may want to look at.
        unmeasured: Objects whose size is not known, by class: their bytes are missing.
        derived: Keys of objects that were derived from those of the rows at work. They have
            classes of their own and are never counted as rows.
        absent: The fate of a claimed row whose object was not there when it was measured.
        claim_doubted: What speaks against the operator's claim, or None.
    """

    live: bool
    measured: bool
    scanned: int = 0
    claimed: int = 0
    collected: int = 0
    refused_in_a_row: int = 0
    untouched: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    bytes_by_class: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)
    unmeasured: Counter[str] = field(default_factory=Counter)
    derived: frozenset[str] = frozenset()
    absent: str = NEVER_ARRIVED
    claim_doubted: str | None = None

    def note(self, fate: str, key: str, size: int | None = None, why: str | None = None) -> None:
        """Count one key under its fate."""
        fate = self._class(fate, key)
        self.classes[fate] += 1
        if size is not None:
            self.bytes_by_class[fate] += size
        shown = self.samples.setdefault(fate, [])
        if len(shown) < SAMPLE:
            shown.append(display_key(key) if why is None else f"{display_key(key)}: {why}")

    def note_measured(self, fate: str, key: str, sizes: Mapping[str, int | None]) -> None:
        """Count one key with its size, which is 0 for no object and unknown without an entry."""
        self.note(fate, key, sizes.get(key))
        if key not in sizes:
            self.unmeasured[self._class(fate, key)] += 1

    def note_untouched(self, fate: str, key: str, why: str | None = None) -> None:
        """Count a row that stays, because it may not or cannot be claimed."""
        self.untouched += 1
        self.note(fate, key, why=why)

    def note_deletion(
        self,
        absent: Sequence[str],
        deletion: Deletion,
        kept: Mapping[str, str],
        sizes: Mapping[str, int | None],
    ) -> None:
        """Count what became of the bytes of claimed rows."""
        sizes = {**sizes, **deletion.freed}
        for key in absent:
            self.note(self.absent, key)
        for key in deletion.deleted:
            self.note_measured("deleted", key, sizes)
        for key in deletion.marked:
            self.note_measured("marked", key, sizes)
        for key in deletion.already_gone:
            self.note("already gone", key)
        for key, reason in kept.items():
            self.note(KEPT + reason, key)
        for key, reason in deletion.failed.items():
            self.note(BYTES_LEFT, key, why=reason)
        let_go = (*deletion.deleted, *deletion.marked, *deletion.already_gone)
        accounted = (*absent, *kept, *let_go)
        self.collected += len(accounted) - len(self.derived.intersection(accounted))
        self.refused_in_a_row = (0 if let_go else self.refused_in_a_row) + len(deletion.failed)

    @property
    def let_go(self) -> int:
        """Objects that storage let go; nothing else shows that deleting works at all."""
        return sum(self._count(fate) for fate in ("deleted", "marked", "already gone"))

    @property
    def objects_left(self) -> int:
        """Objects of claimed rows that may still be in storage."""
        return self._count(BYTES_LEFT)

    @property
    def absent_field(self) -> str:
        """What records and events call the rows whose object was not there."""
        return self.absent.replace(" ", "_")

    def as_detail(self) -> dict[str, Any]:
        """The totals as `job_run.detail` holds them.

        A dry run has no number of things done, and bytes that nobody measured are unknown.
        """
        detail: dict[str, Any] = {
            "classes": {fate: count for fate, count in self.classes.items() if count},
            "bytes_by_class": dict(self.bytes_by_class),
            "untouched": self.untouched,
            "samples": self.samples,
        }
        if self.claim_doubted is not None:
            detail["claim_doubted"] = self.claim_doubted
        if not self.live:
            return detail | {
                "would_collect": self.classes[WOULD_COLLECT],
                "would_free_bytes": self._bytes(WOULD_COLLECT),
            }
        return detail | {
            "claimed": self.claimed,
            "bytes_freed": self._bytes("deleted"),
            "objects_left": self.objects_left,
            self.absent_field: self._count(self.absent) if self.measured else None,
            "unmeasured": self.unmeasured.total(),
        }

    def _class(self, fate: str, key: str) -> str:
        return f"{DERIVED}{fate}" if key in self.derived else fate

    def _count(self, fate: str) -> int:
        return sum(self.classes[name] for name in _with_derived(fate))

    def _bytes(self, fate: str) -> int | None:
        """The bytes of a fate; a floor when some were not measured, None when none was."""
        count = self._count(fate)
        unmeasured = sum(self.unmeasured[name] for name in _with_derived(fate))
        if not self.measured or (count > 0 and unmeasured == count):
            return None
        return sum(self.bytes_by_class[name] for name in _with_derived(fate))


def _with_derived(fate: str) -> tuple[str, str]:
    return fate, f"{DERIVED}{fate}"
