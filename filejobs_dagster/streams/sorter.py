"""Sorts more than memory holds: sorted runs on disk, then one merge over them."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Generic

from filejobs_dagster.streams.blocks import Item, cut, key_of, weight
from filejobs_dagster.streams.merging import merge, without_repeats

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.streams.scratch import Scratch
    from filejobs_dagster.streams.spool import Spool

MEMORY = 32 * 1024 * 1024
MOST_RUNS = 64
"""Merged at once; more of them are merged in rounds, so that memory does not grow with the sort."""

AT_ONCE = 10_000


class Sorter(Generic[Item]):
    """An external sort of keys, or of tuples by their first element; single use, one thread.

    Attributes:
        count: Items added so far.
    """

    def __init__(self, scratch: Scratch, name: str, *, memory: int = MEMORY) -> None:
        """Begin empty.

        Args:
            scratch: Where the runs go.
            name: What is sorted, for the names of the files.
            memory: About how many bytes are held before a run is written. The merge at the end
                takes about as much again.
        """
        self._scratch = scratch
        self._name = name
        self._memory = memory
        self._items: list[Item] = []
        self._held = 0
        self._runs: list[Spool] = []
        self.count = 0

    def add(self, items: Iterable[Item]) -> None:
        """Add items in any order.

        Raises:
            NotEnoughRoom: The disk is full.
        """
        left = iter(items)
        while chunk := list(islice(left, AT_ONCE)):
            self._items += chunk
            self._held += weight(chunk)
            self.count += len(chunk)
            if self._held >= self._memory:
                self._write_run()

    def sorted_blocks(self, unique: bool = False) -> Iterator[list[Item]]:  # noqa: FBT001, FBT002
        """Everything that was added, in order; call it once, after the last `add`.

        Args:
            unique: Whether to keep only one item of each key.

        Raises:
            NotEnoughRoom: The disk is full.
            SpoolDamaged: A run is not what was written.
        """
        merged = self._merged()
        return without_repeats(merged) if unique else merged

    def _merged(self) -> Iterator[list[Item]]:
        if not self._runs:
            self._sort_held()
            yield from cut(self._items)
            return
        if self._items:
            self._write_run()
        while len(self._runs) > MOST_RUNS:
            self._merge_some()
        yield from merge([run.blocks() for run in self._runs])
        for run in self._runs:
            run.remove()

    def _write_run(self) -> None:
        self._sort_held()
        run = self._scratch.spool(f"{self._name}-run")
        for block in cut(self._items):
            run.append(block)
        run.finish()
        self._runs.append(run)
        self._items = []
        self._held = 0

    def _sort_held(self) -> None:
        if self._items:
            key: Any = key_of(self._items[0])
            self._items.sort(key=key)

    def _merge_some(self) -> None:
        """Make one run of the oldest ones."""
        oldest, self._runs = self._runs[:MOST_RUNS], self._runs[MOST_RUNS:]
        run = self._scratch.spool(f"{self._name}-merged")
        for merged in merge([it.blocks() for it in oldest]):
            for block in cut(merged):
                run.append(block)
        run.finish()
        for it in oldest:
            it.remove()
        self._runs.append(run)
