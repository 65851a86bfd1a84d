"""Puts every listed object into one class, in flat memory and whatever the share of orphans.

It is done by merge joins over sorted streams: sets decide a block at a time, so that C compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from filejobs_dagster.jobs.storage_orphans.classification.breakdown import Breakdown
from filejobs_dagster.jobs.storage_orphans.classification.joining import (
    Classification,
    Joined,
    join,
)
from filejobs_dagster.jobs.storage_orphans.classification.records import (
    AMBIGUOUS,
    CLASSES,
    DERIVED,
    DIRECTORY_MARKER,
    NAMED_ELSEWHERE,
    ORPHAN,
    PROTECTED,
    REFERENCED,
    TOO_MANY_OWNERS,
    UNKNOWN_SHAPE,
    YOUNG,
    Columns,
    ListedObjects,
    Rules,
    Shelf,
    selected,
)
from filejobs_dagster.references.near import NearMatch, ReferenceForms, fold, unfolded
from filejobs_dagster.references.transforms import TooManyOwners
from filejobs_dagster.streams import Block, Cursor, Sorter, first

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from filejobs_dagster.streams import Scratch, Spool

    Elsewhere = Callable[[Iterator[list[bytes]], Iterator[Block]], Mapping[bytes, bytes]]

# Merge joins over sorted streams: sets decide a block at a time, so that C does the comparing.

Pair: TypeAlias = tuple[bytes, bytes]
"""What is looked up, and what it is looked up for."""


def named(pairs: Iterable[list[Pair]], keys: Iterator[Block]) -> Iterator[list[Pair]]:
    """Yield those pairs whose first element is among the keys, both in order."""
    cursor: Cursor[bytes] = Cursor(keys)
    found_last: bytes | None = None
    for block in pairs:
        if not block:
            continue
        wanted = set(map(first, block))
        through = block[-1][0]
        # The key at the end of the block before was taken from the stream with that block.
        found = {found_last} if found_last in wanted else set()
        for piece in cursor.blocks_through(through):
            found.update(wanted.intersection(piece))
        found_last = through if through in found else None
        if found:
            yield [pair for pair in block if pair[0] in found]


def partners(pairs: Iterable[list[Pair]], rows: Iterator[list[Pair]]) -> Iterator[list[Pair]]:
    """Yield (what it was looked up for, the row) for pairs and rows of the same first element.

    Both come in order of it. Where several rows share a first element, one of them is named.
    """
    cursor: Cursor[Pair] = Cursor(rows)
    last: Pair | None = None
    for block in pairs:
        if not block:
            continue
        wanted = set(map(first, block))
        through = block[-1][0]
        found: dict[bytes, bytes] = {last[0]: last[1]} if last and last[0] in wanted else {}
        for piece in cursor.blocks_through(through):
            if not wanted.isdisjoint(map(first, piece)):
                found.update(pair for pair in piece if pair[0] in wanted)
        last = (through, found[through]) if through in found else None
        if found:
            yield [(sought, found[form]) for form, sought in block if form in found]


# The extra pass: which suspects a source would name after a change that nobody declared.
#
# Folds of suspects and folds of references meet in merge joins on disk. A key in plain lower-case
# ASCII is its own fold and stands in order already, so only the others are folded and sorted.


class References(Protocol):
    """Every key that a source names."""

    def blocks(self) -> Iterator[Block]:
        """The keys, sorted, each once."""
        ...

    def written(self) -> Iterator[Block]:
        """The values that a transform has changed, as the rows have them."""
        ...

    def awaited(self) -> Iterator[Block]:
        """Those of the keys whose object need not be there yet, sorted, each once."""
        ...


FILTER_SLOTS = 1 << 22


class FormFilter:
    """Says of most forms that no suspect has them, so that they need not be sorted."""

    def __init__(self) -> None:
        """Begin without suspects."""
        self._slots = bytearray(FILTER_SLOTS)

    def add(self, forms: Iterable[bytes]) -> None:
        """Remember forms of suspects."""
        slots, mask = self._slots, FILTER_SLOTS - 1
        for form in forms:
            slots[hash(form) & mask] = 1

    def passing(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return the pairs whose form a suspect may have; none that one has is left out."""
        slots, mask = self._slots, FILTER_SLOTS - 1
        return [pair for pair in pairs if slots[hash(pair[0]) & mask]]

    def passing_keys(self, keys: Iterable[bytes]) -> list[bytes]:
        """Return the keys that a suspect may have, as it is or as a form of it."""
        slots, mask = self._slots, FILTER_SLOTS - 1
        return [key for key in keys if slots[hash(key) & mask]]


def ambiguous(
    suspects: Shelf,
    references: References,
    rules: Rules,
    scratch: Scratch,
    on_block: Callable[[], None],
) -> Iterator[list[Pair]]:
    """Yield (object's key, row's form) of each suspect with a near match, in order of the keys."""
    found: Sorter[Pair] = Sorter(scratch, "ambiguous")
    if suspects.count:
        forms = ReferenceForms(rules.owned, rules.bucket)
        sought_forms = FormFilter()
        folders: Sorter[bytes] = Sorter(scratch, "folders")
        sought = _folded_suspects(suspects, forms, rules, scratch, sought_forms, on_block)
        rows = _folded_rows(references, forms, folders, scratch, sought_forms, on_block)
        if folders.count:
            _add_those_below(folders, suspects, forms, scratch, found)
        if sought.count:
            # A reference that is its own fold; the others are among the folded rows.
            for pairs in named(sought.blocks(), references.blocks()):
                found.add((key, form) for form, key in pairs)
            for pairs in partners(sought.blocks(), rows.blocks()):
                found.add(pairs)
        written = _rows_as_written(references, scratch, sought_forms, on_block)
        if written.count:
            for pairs in named(_as_pairs(suspects), written.sorted_blocks(unique=True)):
                found.add(pairs)
        if rows.count:
            for pairs in partners(_that_fold_to_themselves(suspects), rows.blocks()):
                found.add(pairs)
        sought.remove()
        rows.remove()
    return found.sorted_blocks(unique=True)


def _add_those_below(
    folders: Sorter[bytes],
    suspects: Shelf,
    near: ReferenceForms,
    scratch: Scratch,
    found: Sorter[Pair],
) -> None:
    """Add (object's key, folder) of the suspects that lie below a folder that a row names."""
    below: Sorter[Pair] = Sorter(scratch, "below-folders")
    for keys, _, _, _ in suspects.rows():
        below.add((folder, key) for key in keys for folder in near.folders(key))
    for pairs in named(below.sorted_blocks(), folders.sorted_blocks(unique=True)):
        found.add((key, folder) for folder, key in pairs)


def _folded_suspects(
    suspects: Shelf,
    near: ReferenceForms,
    rules: Rules,
    scratch: Scratch,
    forms: FormFilter,
    on_block: Callable[[], None],
) -> Spool:
    """(fold, key), in order, of suspects that are not their own fold, and of what they are part of.

    That is the owners that a declared rewrite leads to, and the parts of a key that ends in a
    digest.
    """
    sought: Sorter[Pair] = Sorter(scratch, "folded-suspects")
    for keys, _, _, _ in suspects.rows():
        pairs = unfolded(keys)
        if rules.rewrites.declared:
            pairs += [(fold(owner), key) for key in keys for owner in rules.rewrites.owners(key)]
        pairs += [(fold(part), key) for key in keys for part in near.parts(key)]
        forms.add(keys)
        forms.add(form for form, _ in pairs)
        sought.add(pairs)
        on_block()
    return _sorted(sought, scratch, "folded-suspects")


def _folded_rows(
    references: References,
    near: ReferenceForms,
    folders: Sorter[bytes],
    scratch: Scratch,
    wanted: FormFilter,
    on_block: Callable[[], None],
) -> Spool:
    """(form, row), in order, of every reference that has a form other than itself.

    Those that name a folder go to `folders` besides.
    """
    rows: Sorter[Pair] = Sorter(scratch, "folded-references")
    for block in references.blocks():
        pairs = near.other_forms(block)
        folders.add({row for _, row in pairs if row.endswith(b"/")})
        rows.add(wanted.passing(pairs))
        on_block()
    return _sorted(rows, scratch, "folded-references")


def _rows_as_written(
    references: References, scratch: Scratch, wanted: FormFilter, on_block: Callable[[], None]
) -> Sorter[bytes]:
    """The values that a transform has changed, of those that may be a suspect's key as they are.

    A transform may lead away from the key that a row has right: a prefix put before what has it
    already, a suffix or a query taken off that is part of the name.
    """
    rows: Sorter[bytes] = Sorter(scratch, "references-as-written")
    for block in references.written():
        rows.add(wanted.passing_keys(block))
        on_block()
    return rows


def _sorted(pairs: Sorter[Pair], scratch: Scratch, name: str) -> Spool:
    spool = scratch.spool(name)
    for block in pairs.sorted_blocks():
        spool.append(block)
    spool.finish()
    return spool


def _as_pairs(suspects: Shelf) -> Iterator[list[Pair]]:
    for keys, _, _, _ in suspects.rows():
        yield [(key, key) for key in keys]


def _that_fold_to_themselves(suspects: Shelf) -> Iterator[list[Pair]]:
    for keys, _, _, _ in suspects.rows():
        others = {key for _, key in unfolded(keys)}
        yield [(key, key) for key in keys if key not in others]


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
        elsewhere: Told what would be orphans, and all references, it says which of the former a
            column names that no source reads, and which column. Without it, none.

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
            keys = (columns[0] for columns in self._unnamed.rows())
            named = elsewhere(keys, self._references.blocks())
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
