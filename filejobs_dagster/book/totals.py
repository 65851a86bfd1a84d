"""What a run has reached, counted: one tally for all jobs.

Every item is counted under a class, in the words of its job, and with what that means for the run:
from that come what it acted on, what it left, and whether it swept.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypedDict

from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from typing_extensions import Self

    from filejobs_dagster.book.outcomes import Key, Outcomes

SAMPLE = 20
"""How many keys a record shows of each class."""

MOST_REFUSED_IN_A_ROW = 10
"""So many objects that storage refuses one after the other are no poison items any more."""

FAILED_AGAIN = "failed again"
"""Of the items that failed, or were passed over, those that did so in an earlier run, as the totals
have them."""

KEPT = "kept: "
"""In front of the reason for which the gate does not let an object go."""


class Meaning(Enum):
    """What a class of items means for the run that counts it."""

    DONE = "done"
    """The run is done with it, and acted: it is gone, or what is left is accounted for."""

    STAYS = "stays"
    """Nothing is expected of the run: it is not due, or none of ours, or over without us."""

    MOVED = "moved on"
    """It is not done, and not where it was: it waits for something else than a further try."""

    PASSED_OVER = "passed over"
    """It is due, and the run went around it: held, denied, without a key or a usable time, not to
    be looked at. A run that passed something over did not sweep."""

    LEFT = "left"
    """The run tried, and it is, or may be, still there. It did not sweep either."""

    DEFERRED = "deferred"
    """It is due, and the run's limit or its time came first."""

    WOULD_GO = "would go"
    """A dry run would act on it."""


class ItemsDetail(TypedDict):
    """What every record says of its items; the shape of a job's own record adds to it.

    The classes are the job's words, and its page in the docs explains each. The bytes are of those
    classes that were measured, and the samples a few keys of each, with reasons.
    """

    classes: dict[str, int]
    bytes_by_class: dict[str, int]
    samples: dict[str, list[str]]


@dataclass
class Totals:
    """What a run has reached; every number is written with the batch that it belongs to.

    Attributes:
        live: False for a run that only reports.
        measured: False when nobody asked storage for sizes, so that bytes are unknown.
        decided: False while nothing was looked at, so that no number is written.
        scanned: Items looked at.
        acted: Items that the run is done with. A cap counts `claimed`.
        claimed: Items that this run took, or tried to take: they use up its limit.
        intended: Items whose deletion is intended and whose result is not written yet.
        freed: Bytes that are gone.
        refused_in_a_row: Objects that storage refused since the last one that it let go.
        oldest_left: Since when the oldest item is due that was met and left.
        classes: What became of each item, by class.
        bytes_by_class: The bytes of those classes, where they were measured.
        unmeasured: Objects whose size is not known, by class: their bytes are missing.
        samples: A few keys of each class that somebody may want to look at.
        means: The items by what their class means.
        more: Numbers that one job alone has.
        counted: Rows that went and that passes over a bucket had counted: by the pass's run, and
            by table.
    """

    live: bool
    measured: bool = True
    decided: bool = True
    scanned: int = 0
    acted: int = 0
    claimed: int = 0
    intended: int = 0
    freed: int = 0
    refused_in_a_row: int = 0
    oldest_left: datetime | None = None
    classes: Counter[str] = field(default_factory=Counter)
    bytes_by_class: Counter[str] = field(default_factory=Counter)
    unmeasured: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)
    means: Counter[Meaning] = field(default_factory=Counter)
    more: Counter[str] = field(default_factory=Counter)
    counted: dict[str, Counter[str]] = field(default_factory=dict)

    def note(
        self,
        fate: str,
        key: str | bytes,
        means: Meaning,
        *,
        size: int | None = None,
        why: str | None = None,
        since: datetime | None = None,
        extra: bool = False,
    ) -> None:
        """Count one item.

        Args:
            fate: Its class.
            key: What a sample shows.
            means: What the class means for this run.
            size: Bytes; None when they are not known.
            why: The reason, for the sample.
            since: Since when it is due; for what is left.
            extra: An object beside the one of its row: no item of its own, so never acted on.
        """
        self.count(fate, means, size=size, extra=extra)
        self.show(fate, key, why)
        if since is not None:
            self.leave(since)

    def count(
        self,
        fate: str,
        means: Meaning,
        many: int = 1,
        *,
        size: int | None = None,
        extra: bool = False,
    ) -> None:
        """Count items without a sample."""
        self.classes[fate] += many
        self.means[means] += many
        if means is Meaning.DONE and not extra:
            self.acted += many
        if size is not None:
            self.bytes_by_class[fate] += size

    def show(self, fate: str, key: str | bytes, why: str | None = None) -> None:
        """Show a key in the samples, while there is room, without counting it."""
        shown = self.samples.setdefault(fate, [])
        if len(shown) < SAMPLE:
            text = key if isinstance(key, str) else key.decode("utf-8", "backslashreplace")
            shown.append(f"{display_key(text)}: {why}" if why else display_key(text))

    def leave(self, since: datetime) -> None:
        """Remember since when something is due that is left."""
        self.oldest_left = since if self.oldest_left is None else min(self.oldest_left, since)

    def note_refusals(self, outcomes: Outcomes[Key]) -> None:
        """Count what storage refused since the last object that it let go."""
        in_a_row = 0 if outcomes.let_go else self.refused_in_a_row
        self.refused_in_a_row = in_a_row + len(outcomes.failed)

    @property
    def passed_over(self) -> int:
        """Items that are due and that the run went around."""
        return self.means[Meaning.PASSED_OVER]

    @property
    def left(self) -> int:
        """Items that the run tried, and that are, or may be, still there."""
        return self.means[Meaning.LEFT]

    def matching(self, prefix: str) -> int:
        """Items of all classes that begin so."""
        return sum(count for fate, count in self.classes.items() if fate.startswith(prefix))

    def in_words(self) -> str:
        """Every class with its number."""
        found = sorted(self.classes.items())
        return ", ".join(f"{count:,} {fate}" for fate, count in found if count)

    def as_detail(self) -> ItemsDetail:
        """The items as a record holds them; a job adds what it alone counts."""
        return {
            "classes": {fate: count for fate, count in self.classes.items() if count},
            "bytes_by_class": {fate: size for fate, size in self.bytes_by_class.items() if size},
            "samples": self.samples,
        }

    @classmethod
    def together(cls, parts: Iterable[Totals]) -> Self:
        """The items of several tallies of a live run in one; samples stay with the parts."""
        whole = cls(live=True)
        for part in parts:
            whole.scanned += part.scanned
            whole.acted += part.acted
            whole.classes += part.classes
            whole.means += part.means
            for run_id, rows in part.counted.items():
                whole.counted[run_id] = whole.counted.get(run_id, Counter()) + rows
        return whole

    def copy(self) -> Self:
        """The same numbers, to go on from in a transaction that may roll back."""
        return copy.deepcopy(self)
