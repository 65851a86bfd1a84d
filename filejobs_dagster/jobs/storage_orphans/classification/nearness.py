"""The extra pass: which suspects a source would name after a change that nobody declared.

Folds of suspects and folds of references meet in merge joins on disk. A key in plain lower-case
ASCII is its own fold and stands in order already, so only the others are folded and sorted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from filejobs_dagster.jobs.storage_orphans.classification.matching import Pair, named, partners
from filejobs_dagster.references.near import ReferenceForms, fold, unfolded
from filejobs_dagster.streams import Block, Sorter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from filejobs_dagster.jobs.storage_orphans.classification.records import Shelf
    from filejobs_dagster.jobs.storage_orphans.classification.rules import Rules
    from filejobs_dagster.streams import Scratch, Spool


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
