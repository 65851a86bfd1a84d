"""Objects on their way through the classes; the classes, and the rules that put them there.

Objects are in columns on disk, and one by one where people look. The rules are what the settings
say about the keys of one bucket, known shapes among them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from filejobs_dagster.objects.targets import OF_THE_HOUSE
from filejobs_dagster.references.transforms import RewriteOptions, Rewrites

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


# The classes, in order of precedence: an object is what the first of them says that fits it.

REFERENCED = "referenced"
"""A source names the exact key."""

DERIVED = "derived"
"""A source names the exact key of an owner that a declared rewrite leads to."""

PROTECTED = "protected"
"""The settings protect the key."""

DIRECTORY_MARKER = "directory marker"
"""The key ends in a slash."""

UNKNOWN_SHAPE = "unknown shape"
"""No declared pattern matches the key, or it is one that nothing may delete: not UTF-8, with `.`
or `..` between its slashes, or with more owners than are looked for."""

YOUNG = "young"
"""Modified at the cutoff or later, in the future, or at a time that is not known."""

AMBIGUOUS = "ambiguous"
"""A source would name the key after a change that nobody declared."""

NAMED_ELSEWHERE = "named elsewhere"
"""A column that no source reads may mean the key."""

ORPHAN = "orphan"
"""None of the above: nothing keeps it."""

CLASSES = (
    REFERENCED,
    DERIVED,
    PROTECTED,
    DIRECTORY_MARKER,
    UNKNOWN_SHAPE,
    YOUNG,
    AMBIGUOUS,
    NAMED_ELSEWHERE,
    ORPHAN,
)


# The known shapes of keys: an owned key of any other shape is kept and reported.


class Shape:
    """Regular expressions of which one must match a whole key."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Compile the patterns; none at all means that every key is known.

        Raises:
            re.error: A pattern is no regular expression; the settings have refused it before.
        """
        # `$` and a lazy `.` must not leave a newline out: keys may hold one.
        self._patterns = tuple(re.compile(pattern, re.DOTALL) for pattern in patterns)

    @property
    def declared(self) -> bool:
        """Whether there is any pattern."""
        return bool(self._patterns)

    def known(self, key: bytes) -> bool:
        """True when one of the patterns matches the whole key, or none is declared.

        Bytes that are no UTF-8 are matched as lone surrogates, which no sane pattern names.
        """
        if not self._patterns:
            return True
        text = key.decode("utf-8", "surrogateescape")
        return any(pattern.fullmatch(text) is not None for pattern in self._patterns)


# What the settings say about the keys of one bucket.

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
