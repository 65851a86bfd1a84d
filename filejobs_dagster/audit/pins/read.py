"""What stands outside of the database about one chain."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from filejobs_dagster.audit.note import text_of
from filejobs_dagster.audit.statement import SealStatement, UnreadableStatement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from filejobs_dagster.audit.origin import Origin, PinName
    from filejobs_dagster.audit.pins.store import PinContent, PinEntry, PinStore

READERS = 8
"""Pins that are read at once: a chain with hourly seals has thousands."""


@dataclass(frozen=True)
class Pinned:
    """One pin.

    Attributes:
        name: What its key says.
        key: Its key.
        stored_at: When the place took the oldest version.
        note: The text of the oldest version; None when it was not read, or is no UTF-8.
        versions: How many different contents stand there.
        locked_until: Until when nobody can remove it.
        was_read: Whether its content was looked at.
        listed: Its versions, as the place lists them.
    """

    name: PinName
    key: str
    stored_at: datetime | None
    note: str | None = None
    versions: int = 1
    locked_until: datetime | None = None
    was_read: bool = False
    listed: tuple[PinEntry, ...] = ()

    def is_listed_as(self, note: str | None) -> bool:
        """Tell whether the listing alone shows that it is this note."""
        return note is not None and all(one.has_bytes(note.encode()) for one in self.listed)

    @property
    def statement(self) -> SealStatement | None:
        """What a pinned seal states; None when it is no seal's text."""
        if self.note is None:
            return None
        try:
            return SealStatement.parse(text_of(self.note))
        except UnreadableStatement:
            return None


@dataclass
class PinnedChain:
    """Everything that is pinned of one chain.

    Attributes:
        seals: By incarnation and number.
        trims: By incarnation, number, and the hash of the note.
        restores: By incarnation and the hash of the note.
        manifests: By incarnation, number of the seal, and the hash of the note.
        markers: Keys that have a delete marker.
        versions: Which versions of each key are there; None where the place keeps none.
    """

    seals: dict[tuple[int, int], Pinned] = field(default_factory=dict)
    trims: dict[tuple[int, int, str], Pinned] = field(default_factory=dict)
    restores: dict[tuple[int, str], Pinned] = field(default_factory=dict)
    manifests: dict[tuple[int, int, str], Pinned] = field(default_factory=dict)
    markers: list[str] = field(default_factory=list)
    versions: dict[str, set[str | None]] = field(default_factory=dict)

    @property
    def all(self) -> list[Pinned]:
        """Every pin."""
        return [
            *self.seals.values(),
            *self.trims.values(),
            *self.restores.values(),
            *self.manifests.values(),
        ]

    @property
    def incarnation(self) -> int:
        """The newest incarnation with a pinned seal or trim; 0 when nothing is pinned."""
        # A restore that was pinned and not committed begins nothing.
        return max(
            max((key[0] for key in self.seals), default=0),
            max((key[0] for key in self.trims), default=0),
        )

    @property
    def newest_incarnation(self) -> int:
        """The newest that anything was pinned under, a restore that went no further included."""
        restores = (key[0] for key in self.restores)
        return max(self.incarnation, max(restores, default=0))

    def newest_seal_before(self, incarnation: int) -> Pinned | None:
        """The pinned seal with the highest number of the newest incarnation below one."""
        keys = [key for key in self.seals if key[0] < incarnation]
        return self.seals[max(keys)] if keys else None

    def newest_seal(self, incarnation: int) -> Pinned | None:
        """The pinned seal with the highest number of an incarnation."""
        numbers = [number for own, number in self.seals if own == incarnation]
        return self.seals[incarnation, max(numbers)] if numbers else None

    def take(self, other: PinnedChain) -> None:
        """Take in what a later look has found."""
        for pinned in other.all:
            self.put(pinned)
        self.versions.update(other.versions)

    def put(self, pinned: Pinned) -> None:
        """Take one pin in."""
        name = pinned.name
        if name.kind == "seal":
            self.seals[name.incarnation, name.number] = pinned
        elif name.kind == "trim":
            self.trims[name.incarnation, name.number, name.sha256 or ""] = pinned
        elif name.kind == "manifest":
            self.manifests[name.incarnation, name.number, name.sha256 or ""] = pinned
        else:
            self.restores[name.incarnation, name.sha256 or ""] = pinned


def read_pins(
    store: PinStore,
    origin: Origin,
    wanted: Callable[[str], bool] = lambda _: True,
    *,
    under: str | None = None,
    after: str | None = None,
) -> PinnedChain:
    """List a chain's pins, and read those that are wanted.

    Args:
        store: Where they are.
        origin: Which chain.
        wanted: Whether the content at a key matters; the others are only listed.
        under: List below this key only.
        after: List what stands behind this key only.

    Raises:
        PinStoreUnusable: The listing, or a pin, could not be read.
    """
    found = PinnedChain()
    versions: dict[str, list[PinEntry]] = {}
    below = under or origin.prefix
    for entry in store.list(below) if after is None else store.list_after(below, after):
        if origin.read_key(entry.key) is None:
            continue
        if entry.marker:
            found.markers.append(entry.key)
        else:
            versions.setdefault(entry.key, []).append(entry)
            found.versions.setdefault(entry.key, set()).add(entry.version)
    for pinned in _read_all(store, origin, versions, wanted):
        found.put(pinned)
    return found


def _read_all(
    store: PinStore,
    origin: Origin,
    versions: dict[str, list[PinEntry]],
    wanted: Callable[[str], bool],
) -> Iterable[Pinned]:
    def read(item: tuple[str, list[PinEntry]]) -> Pinned | None:
        key, entries = item
        name = origin.read_key(key)
        if name is None:
            return None
        if not wanted(key) and len(entries) == 1:
            return Pinned(name, key, entries[0].stored_at, listed=tuple(entries))
        return _pinned(name, key, entries, [store.get(entry) for entry in entries])

    with ThreadPoolExecutor(READERS) as pool:
        return [pinned for pinned in pool.map(read, versions.items()) if pinned is not None]


def _pinned(name: PinName, key: str, entries: list[PinEntry], contents: list[PinContent]) -> Pinned:
    oldest = contents[0]
    try:
        note = oldest.content.decode()
    except UnicodeDecodeError:
        note = None
    return Pinned(
        name=name,
        key=key,
        stored_at=entries[0].stored_at,
        note=note,
        versions=len({hashlib.sha256(one.content).digest() for one in contents}),
        locked_until=oldest.locked_until,
        was_read=True,
        listed=tuple(entries),
    )
