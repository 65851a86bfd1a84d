"""What the settings say about the keys of one bucket."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from filejobs_dagster.objects.prefixes import OF_THE_HOUSE
from filejobs_dagster.references.rewrites import RewriteOptions, Rewrites
from filejobs_dagster.references.shape import Shape

if TYPE_CHECKING:
    from collections.abc import Sequence

_OF_THE_HOUSE = tuple(prefix.encode() for prefix in OF_THE_HOUSE)
_RESOLVABLE = re.compile(rb"(?:\A|/)\.\.?(?:/|\Z)")

MOST_KEY_BYTES = 1024

NOT_UTF8 = b"its key is not UTF-8, so no source could name it"
RESOLVABLE = b"its key has . or .. between slashes, which may lead to another object on the way"
NO_PATTERN = b"no pattern of `shape` matches its key"
TOO_LONG = b"its key is longer than S3 allows (1024 bytes)"
TOO_MANY_OWNERS = b"the rewrites lead to more owners than are looked for"


class BucketRules(Protocol):
    """Part of what `filejobs.yaml` says of a bucket."""

    @property
    def bucket(self) -> str:
        """Its name on the server."""
        ...

    @property
    def owned_prefixes(self) -> Sequence[str]:
        """Prefixes that end in a slash, or the empty one alone."""
        ...

    @property
    def protect(self) -> Sequence[str]:
        """Prefixes and keys that nothing may delete."""
        ...

    @property
    def marker(self) -> str | None:
        """Where an older version kept the marker."""
        ...

    @property
    def shape(self) -> Sequence[str]:
        """Patterns of known keys."""
        ...

    @property
    def rewrites(self) -> Sequence[RewriteOptions]:
        """From derived objects to their owners."""
        ...


@dataclass(frozen=True)
class Rules:
    """What the classification goes by.

    Attributes:
        owned: Owned prefixes; the empty one owns the whole bucket.
        protect: As the gate reads them: what ends in a slash protects all that begins with it,
            anything else the key of that name and all below it.
        shape: Known keys.
        rewrites: From derived objects to their owners.
        bucket: The bucket's name, which rows may have in front of a key.
        marker: Where an older version kept the marker; protected, as are the markers of today and
            what stands beside them. Empty where there is none.
    """

    owned: tuple[bytes, ...]
    protect: tuple[bytes, ...] = ()
    shape: Shape = field(default_factory=Shape)
    rewrites: Rewrites = field(default_factory=Rewrites)
    bucket: bytes = b""
    marker: bytes = b""

    @classmethod
    def of(cls, bucket: BucketRules) -> Rules:
        """Build from the settings.

        Raises:
            RewriteMistaken: A rewrite cannot be used.
        """
        return cls(
            owned=tuple(prefix.encode() for prefix in bucket.owned_prefixes),
            protect=tuple(entry.encode() for entry in bucket.protect),
            shape=Shape(bucket.shape),
            rewrites=Rewrites(bucket.rewrites),
            bucket=bucket.bucket.encode(),
            marker=(bucket.marker or "").encode(),
        )

    def owns(self, key: bytes) -> bool:
        """Whether the key lies in an owned prefix."""
        return key.startswith(self.owned)

    def protecting(self, key: bytes) -> bytes | None:
        """Return the entry that protects the key, or None."""
        for entry in self.protect:
            if key.startswith(entry) and (
                entry.endswith(b"/") or key == entry or key[len(entry) :].startswith(b"/")
            ):
                return entry
        for prefix in _OF_THE_HOUSE:
            if key.startswith(prefix):
                return prefix
        return self.marker if self.marker and key == self.marker else None

    def unknown(self, key: bytes) -> bytes | None:
        """Return why a key is none of the known ones, or None when it is."""
        if len(key) > MOST_KEY_BYTES:
            return TOO_LONG
        if not key.isascii():
            try:
                key.decode()
            except UnicodeDecodeError:
                return NOT_UTF8
        # Nearly every key has a dot, and a search from each of its bytes takes its time.
        if (b"/." in key or key.startswith(b".")) and _RESOLVABLE.search(key) is not None:
            return RESOLVABLE
        return None if self.shape.known(key) else NO_PATTERN
