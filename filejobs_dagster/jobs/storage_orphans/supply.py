"""Which orphans are next, oldest first: all that are due, or those that a reviewed list names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from filejobs_dagster.jobs.storage_orphans.marks import MOST_IN_A_STEP
from filejobs_dagster.references.elsewhere.search import MOST_AT_ONCE, unsearched_in_words
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from filejobs_dagster.jobs.storage_orphans.marks import Candidate, Marks
    from filejobs_dagster.jobs.storage_orphans.review import ReviewedList
    from filejobs_dagster.references.elsewhere.search import Elsewhere, Found


class Supply(Protocol):
    """Keys to delete, in portions."""

    def take(self, most: int) -> list[bytes]:
        """The next keys, at most so many; empty when there are no more."""
        ...


class AllThatIsDue:
    """Every confirmed orphan of this pass.

    Those that storage refused before come last, however old they are: a thousand objects that
    nobody may delete would otherwise fill the first batch of every run, and no other would ever go.
    """

    def __init__(self, marks: Marks, confirmed_before: datetime) -> None:
        """Begin with the oldest."""
        self._marks = marks
        self._confirmed_before = confirmed_before
        self._after: Candidate | None = None
        self._refused_ones = False
        self._over = False
        self._held: list[bytes] = []

    def take(self, most: int) -> list[bytes]:
        """The next keys; those that somebody refers to at the moment are not asked for again."""
        while len(self._held) < most and not self._over:
            self._read_on()
        taken, self._held = self._held[:most], self._held[most:]
        return taken

    def _read_on(self) -> None:
        page = self._marks.next_candidates(self._after, self._confirmed_before, MOST_IN_A_STEP)
        self._held += [it.key for it in page if it.is_due and it.was_refused is self._refused_ones]
        if page:
            self._after = page[-1]
        else:
            self._over = self._refused_ones
            self._refused_ones, self._after = True, None


class ReviewedOnly:
    """The confirmed orphans of this pass that a reviewed list agrees to."""

    def __init__(self, marks: Marks, confirmed_before: datetime, reviewed: ReviewedList) -> None:
        """Begin with the oldest."""
        self._marks = marks
        self._confirmed_before = confirmed_before
        self._blocks: Iterator[list[bytes]] = reviewed.keys_by_age()
        self._held: list[bytes] = []

    def take(self, most: int) -> list[bytes]:
        """The next keys."""
        while len(self._held) < most:
            block = next(self._blocks, None)
            if block is None:
                break
            for start in range(0, len(block), 1000):
                self._held += self._marks.due_among(
                    block[start : start + 1000], self._confirmed_before
                )
        taken, self._held = self._held[:most], self._held[most:]
        return taken


class NotNamedElsewhere:
    """Those of another supply that no column names.

    All that a run may delete was looked for by this very run: by its pass, which looks for a
    sample where there are too many, or here.
    """

    def __init__(self, supply: Supply, elsewhere: Elsewhere, *, live: bool) -> None:
        """Begin where the supply does.

        Args:
            supply: Gives the keys.
            elsewhere: Looks for them.
            live: True when what is taken will be deleted.
        """
        self._supply = supply
        self._elsewhere = elsewhere
        self._live = live
        self._held: list[bytes] = []

    def take(self, most: int) -> list[bytes]:
        """The next keys.

        Raises:
            JobFailed: Something could not be searched, and nobody has said that it need not be.
        """
        found = self._elsewhere.found
        while not self._held and (portion := self._supply.take(MOST_AT_ONCE)):
            self._elsewhere.search(portion)
            if self._live:
                require_searched(found)
            self._held = [key for key in portion if key not in found.named]
        taken, self._held = self._held[:most], self._held[most:]
        return taken


def require_searched(found: Found) -> None:
    """Let nothing go before all was searched.

    Raises:
        JobFailed: Something could not be searched, and nobody has said that it need not be.
    """
    if found.unsearched:
        raise JobFailed(
            f"{unsearched_in_words(found.unsearched)} What stands there may name objects that no "
            "source names, so none of them was deleted. Give the role the right to read it, or "
            "raise named_elsewhere.max_time. What need not be searched, say so in the bucket's "
            "settings, with the reason: `named_elsewhere: {ignore: "
            f"[{{column: '{found.unsearched[0].column}', reason: …}}]}}`."
        )
