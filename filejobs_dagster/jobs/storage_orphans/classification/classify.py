"""Puts every listed object into one class, in flat memory and whatever the share of orphans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.storage_orphans.classification.breakdown import Breakdown
from filejobs_dagster.jobs.storage_orphans.classification.joining import Joined, join
from filejobs_dagster.jobs.storage_orphans.classification.matching import Pair, named
from filejobs_dagster.jobs.storage_orphans.classification.nearness import References, ambiguous
from filejobs_dagster.jobs.storage_orphans.classification.records import (
    Columns,
    ListedObjects,
    Shelf,
    selected,
)
from filejobs_dagster.jobs.storage_orphans.classification.result import Classification
from filejobs_dagster.jobs.storage_orphans.classification.rules import TOO_MANY_OWNERS, Rules
from filejobs_dagster.jobs.storage_orphans.classification.words import (
    AMBIGUOUS,
    CLASSES,
    DERIVED,
    DIRECTORY_MARKER,
    NAMED_ELSEWHERE,
    ORPHAN,
    PROTECTED,
    REFERENCED,
    UNKNOWN_SHAPE,
    YOUNG,
)
from filejobs_dagster.references.rewrites import TooManyOwners
from filejobs_dagster.references.suggestion import NearMatch
from filejobs_dagster.streams import Cursor, Sorter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from filejobs_dagster.streams import Scratch, Spool

    Elsewhere = Callable[[Iterator[list[bytes]]], Mapping[bytes, bytes]]

MATCHING = "matching"
FOLLOWING_REWRITES = "following rewrites"
SORTING_OUT = "sorting out"
LOOKING_FOR_NEAR_MATCHES = "looking for near matches"


@dataclass(frozen=True)
class ClassificationProgress:
    """How far a classification is.

    Attributes:
        phase: What it is doing, in words.
        objects: Objects matched so far.
        bytes: Their bytes.
        referenced: Those of them that a source names.
        references: References met so far.
        missing: References in owned prefixes without an object that should have one, so far.
    """

    phase: str
    objects: int
    bytes: int
    referenced: int
    references: int
    missing: int


def classify(
    listed: ListedObjects,
    references: References,
    rules: Rules,
    cutoff: int,
    scratch: Scratch,
    on_progress: Callable[[ClassificationProgress], None] = lambda _progress: None,
    *,
    now: int | None = None,
    elsewhere: Elsewhere | None = None,
) -> Classification:
    """Put every listed object into the first class that fits it, in the order of `CLASSES`.

    Args:
        listed: A complete listing of all owned prefixes.
        references: Every key that is in use, read after the listing.
        rules: What the settings say.
        cutoff: Objects modified at this moment or later are young. Milliseconds since 1970.
        scratch: Where what does not fit into memory goes.
        on_progress: Told about every page; it may raise to stop.
        now: The moment from which ages are counted; the cutoff when not given.
        elsewhere: Told what would be orphans, it says which of them a column names that no source
            reads, and which column. Without it, none.

    Raises:
        ListingContradicts: The listing is out of order or has keys that are not owned.
        RewriteMistaken: A rewrite maps a key to itself.
        NotEnoughRoom: The scratch folder's disk is full.

    Whatever is raised, nothing may be concluded.
    """
    work = _Work(references, rules, cutoff, scratch, on_progress, cutoff if now is None else now)
    work.match(listed)
    work.sort_out(work.derived())
    work.separate_ambiguous()
    work.separate_named(elsewhere)
    return work.result()


class _Work:
    """One classification, from pass to pass."""

    def __init__(
        self,
        references: References,
        rules: Rules,
        cutoff: int,
        scratch: Scratch,
        on_progress: Callable[[ClassificationProgress], None],
        now: int,
    ) -> None:
        self._references = references
        self._rules = rules
        self._cutoff = cutoff
        self._now = now
        self._scratch = scratch
        self._on_progress = on_progress
        self._breakdowns = {name: Breakdown(now) for name in CLASSES}
        self._joined = Joined(
            self._breakdowns[REFERENCED],
            Shelf(scratch, "unreferenced"),
            may_lack=Cursor(references.awaited()),
        )
        self._suspects = Shelf(scratch, "suspects")
        self._unnamed = Shelf(scratch, "unnamed")
        self._orphans = Shelf(scratch, "orphans")
        self._kept: Spool = scratch.spool("kept")
        self._newer = 0

    def match(self, listed: ListedObjects) -> None:
        """Set apart what a source names exactly."""
        pages, blocks = listed.pages(), self._references.blocks()
        join(pages, blocks, self._rules, self._joined, self._telling(MATCHING))

    def derived(self) -> Iterator[list[Pair]]:
        """(object's key, owner's key) of the unreferenced whose owner is named, in order."""
        found: Sorter[Pair] = Sorter(self._scratch, "derived")
        if self._rules.rewrites.declared:
            sought: Sorter[Pair] = Sorter(self._scratch, "owners")
            tell = self._telling(FOLLOWING_REWRITES)
            for keys, _, _, _ in self._joined.unreferenced.rows():
                sought.add((owner, key) for key in keys for owner in self._owners(key))
                tell()
            if sought.count:
                for pairs in named(sought.sorted_blocks(), self._references.blocks()):
                    found.add((key, owner) for owner, key in pairs)
        return found.sorted_blocks(unique=True)

    def sort_out(self, derived: Iterator[list[Pair]]) -> None:
        """Find the class of every object that no source names, but for near matches."""
        cursor = Cursor(derived)
        tell = self._telling(SORTING_OUT)
        for columns in self._joined.unreferenced.rows():
            owners = dict(cursor.take_through(columns[0][-1]))
            verdicts = [
                self._verdict(key, modified, owners)
                for key, modified in zip(columns[0], columns[2], strict=True)
            ]
            suspected = [kind is None for kind, _ in verdicts]
            self._suspects.put(selected(columns, suspected))
            if not all(suspected):
                self._count(columns, verdicts)
            self._note_newer(selected(columns, [kind == YOUNG for kind, _ in verdicts]))
            tell()
        self._joined.unreferenced.remove()

    def separate_ambiguous(self) -> None:
        """Take the suspects that a row may mean out of the orphans."""
        tell = self._telling(LOOKING_FOR_NEAR_MATCHES)
        cursor = Cursor(
            ambiguous(self._suspects, self._references, self._rules, self._scratch, tell)
        )
        for columns in self._suspects.rows():
            rows = dict(cursor.take_through(columns[0][-1]))
            if not rows:
                self._unnamed.put(columns)
                continue
            is_unnamed = [key not in rows for key in columns[0]]
            self._unnamed.put(selected(columns, is_unnamed))
            near = selected(columns, [not it for it in is_unnamed])
            self._keep(AMBIGUOUS, near, [rows[key] for key in near[0]])
        self._suspects.remove()

    def separate_named(self, elsewhere: Elsewhere | None) -> None:
        """Take out of the orphans what a column names that no source reads."""
        named: Mapping[bytes, bytes] = {}
        if elsewhere is not None and self._unnamed.count:
            named = elsewhere(columns[0] for columns in self._unnamed.rows())
        for columns in self._unnamed.rows():
            is_named = [key in named for key in columns[0]]
            self._add_orphans(selected(columns, [not it for it in is_named]))
            if any(is_named):
                chosen = selected(columns, is_named)
                self._keep(NAMED_ELSEWHERE, chosen, [named[key] for key in chosen[0]])
        self._unnamed.remove()

    def result(self) -> Classification:
        """Everything that was found."""
        joined = self._joined
        self._kept.finish()
        return Classification(
            objects=joined.objects,
            bytes=joined.bytes,
            breakdowns=self._breakdowns,
            references=joined.references,
            missing=joined.missing,
            awaited=joined.awaited,
            newest_reference=joined.referenced.newest,
            newer=self._newer,
            missing_samples=tuple(joined.missing_samples),
            missing_keys=tuple(joined.missing_keys),
            unmatched=tuple(
                NearMatch(key, row)
                for key, row in joined.unmatched_objects.meet(joined.unmatched_rows)
            ),
            _orphans=self._orphans,
            _kept=self._kept,
        )

    # One object -------------------------------------------------------------------------------

    def _verdict(
        self, key: bytes, modified: int, owners: dict[bytes, bytes]
    ) -> tuple[str | None, bytes]:
        """The class of an unreferenced object and why; no class for a suspect."""
        rules = self._rules
        if key in owners:
            return DERIVED, owners[key]
        protecting = rules.protecting(key)
        if protecting is not None:
            return PROTECTED, protecting
        if key.endswith(b"/"):
            return DIRECTORY_MARKER, b""
        unknown = rules.unknown(key)
        if unknown is None and rules.rewrites.declared and self._has_too_many_owners(key):
            unknown = TOO_MANY_OWNERS
        if unknown is not None:
            return UNKNOWN_SHAPE, unknown
        # Zero is what servers send that know no time.
        if modified <= 0 or modified >= self._cutoff:
            return YOUNG, b""
        return None, b""

    def _owners(self, key: bytes) -> Sequence[bytes]:
        try:
            return self._rules.rewrites.owners(key)
        except TooManyOwners:
            return ()

    def _has_too_many_owners(self, key: bytes) -> bool:
        try:
            self._rules.rewrites.owners(key)
        except TooManyOwners:
            return True
        return False

    # Counting ---------------------------------------------------------------------------------

    def _add_orphans(self, columns: Columns) -> None:
        self._breakdowns[ORPHAN].add(columns)
        self._orphans.put(columns)
        self._note_newer(columns)

    def _note_newer(self, columns: Columns) -> None:
        """Count what lies far behind the newest object that a source names."""
        newest = self._joined.referenced.newest
        if newest:
            behind = newest + (self._now - self._cutoff)
            self._newer += sum(moment > behind for moment in columns[2])

    def _count(self, columns: Columns, verdicts: list[tuple[str | None, bytes]]) -> None:
        for name in {kind for kind, _ in verdicts if kind is not None}:
            chosen = selected(columns, [kind == name for kind, _ in verdicts])
            reasons = [reason for kind, reason in verdicts if kind == name]
            if name == UNKNOWN_SHAPE:
                self._keep(name, chosen, reasons)
            else:
                self._breakdowns[name].add(chosen, reasons)

    def _keep(self, kind: str, columns: Columns, because: list[bytes]) -> None:
        self._breakdowns[kind].add(columns, because)
        keys, sizes, modified, _ = columns
        self._kept.append(
            [
                (kind, key, size, moment, reason)
                for key, size, moment, reason in zip(keys, sizes, modified, because, strict=True)
            ]
        )

    def _telling(self, phase: str) -> Callable[[], None]:
        def tell() -> None:
            joined = self._joined
            self._on_progress(
                ClassificationProgress(
                    phase=phase,
                    objects=joined.objects,
                    bytes=joined.bytes,
                    referenced=joined.referenced.count,
                    references=joined.references,
                    missing=joined.missing,
                )
            )

        return tell
