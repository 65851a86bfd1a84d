"""What a place for pins must do: take a text once, list every version, give each one back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime


class PinStoreUnusable(Exception):
    """The place cannot be used; the message says what was found and what to do."""


class Equivocation(Exception):
    """Another text already stands where this one belongs: two histories of one chain."""

    def __init__(self, key: str, where: str) -> None:
        super().__init__(
            f"EQUIVOCATION: {where} already holds another text at {key}. Two databases write under "
            "one origin, or one history was replaced by another. Nothing was overwritten: keep "
            "both, and find out which database is the right one before anything seals again."
        )
        self.key = key


@dataclass(frozen=True)
class PinEntry:
    """One version of one pin, as the place lists it.

    Attributes:
        key: Its name.
        version: Which version, None where the place keeps none.
        stored_at: When the place took it, by the place's own clock; None when that means nothing.
        marker: True for a delete marker, which hides the versions below it.
        etag: What the listing says of the bytes, see `has_bytes`; None where it says nothing.
    """

    key: str
    version: str | None
    stored_at: datetime | None
    marker: bool = False
    etag: str | None = None

    def has_bytes(self, content: bytes) -> bool:
        """Tell whether the listing alone shows that these bytes stand there: their MD5 is named.

        False where it does not say: a server that encrypts with keys of its own names another hash.
        """
        return self.etag == hashlib.md5(content, usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class PinContent:
    """What one version holds.

    Attributes:
        content: The bytes.
        locked_until: Until when nobody can remove it, or None.
    """

    content: bytes
    locked_until: datetime | None = None


@dataclass(frozen=True)
class PinReceipt:
    """That a text stands at its place.

    Attributes:
        key: Its name.
        version: Which version.
        locked_until: Until when nobody can remove it, or None.
        was_there: True when an earlier attempt had put it.
    """

    key: str
    version: str | None
    locked_until: datetime | None
    was_there: bool


class PinStore(Protocol):
    """A place for pins. Keys have slashes; contents are small."""

    @property
    def description(self) -> str:
        """Where it is and what it protects against, in words for a report."""
        ...

    @property
    def protects(self) -> bool:
        """Whether what it holds cannot be changed before its time."""
        ...

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        """Store a text where nothing stands yet; the same bytes again are a success.

        Args:
            key: Its name.
            content: The bytes.
            retain_until: Until when it must stay, where the place can promise that.

        Raises:
            Equivocation: Other bytes stand there.
            PinStoreUnusable: The place did not answer, or did not take it.
        """
        ...

    def list(self, prefix: str) -> list[PinEntry]:
        """List every version and every delete marker whose key begins with the prefix.

        Raises:
            PinStoreUnusable: The listing is not complete.
        """
        ...

    def list_after(self, prefix: str, key: str) -> Sequence[PinEntry]:
        """List only what stands behind a key, in the order of keys.

        Raises:
            PinStoreUnusable: The listing is not complete.
        """
        ...

    def words(self, prefix: str) -> set[str]:
        """The words that follow a prefix, up to the next slash: the chains of an origin.

        Raises:
            PinStoreUnusable: The listing is not complete.
        """
        ...

    def get(self, entry: PinEntry) -> PinContent:
        """Read one version.

        Raises:
            PinStoreUnusable: It could not be read.
        """
        ...

    def now(self) -> datetime | None:
        """The time by the place's own clock; None when it has none of its own.

        Raises:
            PinStoreUnusable: The place did not answer.
        """
        ...
