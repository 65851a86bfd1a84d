"""Objects on their way through the classes: in columns on disk, one by one where people look."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.streams import Scratch, Spool

Key: TypeAlias = bytes
"""An exact key, or what is shown beside one, where a class has an attribute `bytes`."""

Columns: TypeAlias = tuple[list[bytes], list[int], list[int], list[bytes]]
"""Keys, sizes in bytes, times in milliseconds since 1970 (-1: unknown), etags."""

ROWS_PER_BLOCK = 2000


class ListedPage(Protocol):
    """What a listing says about some objects, in four lists of one length."""

    @property
    def keys(self) -> list[bytes]:
        """In byte order."""
        ...

    @property
    def sizes(self) -> list[int]:
        """In bytes."""
        ...

    @property
    def modified(self) -> list[int]:
        """Milliseconds since 1970; -1 where the server told none."""
        ...

    @property
    def etags(self) -> list[bytes]:
        """Without quotes."""
        ...


class ListedObjects(Protocol):
    """A complete listing of all owned prefixes."""

    def pages(self) -> Iterator[ListedPage]:
        """The objects in byte order of their keys, each once."""
        ...


@dataclass(frozen=True)
class Orphan:
    """An object that nothing keeps, as the listing had it.

    Attributes:
        key: Its exact key.
        size: In bytes.
        modified: Milliseconds since 1970.
        etag: Without quotes.
    """

    key: bytes
    size: int
    modified: int
    etag: bytes


class Kept(NamedTuple):
    """An object that a person should look at, and why it stays.

    Attributes:
        kind: `ambiguous`, `named elsewhere` or `unknown shape`.
        key: Its exact key.
        size: In bytes.
        modified: Milliseconds since 1970; -1 when unknown.
        because: Of an ambiguous object the row's form, of a named one the column; else the reason
            in words.
    """

    kind: str
    key: bytes
    size: int
    modified: int
    because: bytes


def selected(columns: Columns, wanted: Sequence[bool]) -> Columns:
    """Return the rows for which `wanted` is true."""
    keys, sizes, modified, etags = columns
    return (
        list(compress(keys, wanted)),
        list(compress(sizes, wanted)),
        list(compress(modified, wanted)),
        list(compress(etags, wanted)),
    )


class Shelf:
    """Columns on disk, in the order in which they were put there."""

    def __init__(self, scratch: Scratch, name: str) -> None:
        """Begin empty."""
        self._spool: Spool = scratch.spool(name)
        self._held: Columns = ([], [], [], [])

    def put(self, columns: Columns) -> None:
        """Add rows; small lots are written together."""
        keys, sizes, modified, etags = self._held
        keys += columns[0]
        sizes += columns[1]
        modified += columns[2]
        etags += columns[3]
        if len(keys) >= ROWS_PER_BLOCK:
            self._write()

    @property
    def count(self) -> int:
        """How many rows there are."""
        return self._spool.count + len(self._held[0])

    def rows(self) -> Iterator[Columns]:
        """Everything that was put there, from the beginning."""
        self._write()
        return self._spool.blocks()

    def remove(self) -> None:
        """Give the room on disk back."""
        self._spool.remove()

    def _write(self) -> None:
        if self._held[0]:
            self._spool.append(self._held, items=len(self._held[0]))
            self._held = ([], [], [], [])
