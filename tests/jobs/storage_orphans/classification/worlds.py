"""Small buckets and their rows, as the classification meets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs.storage_orphans.classification import (
    Classification,
    Rules,
    classify,
)
from filejobs_dagster.references.transforms import Rewrites

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from filejobs_dagster.streams import Scratch

OLD, CUTOFF, NEW = 1_600_000_000_000, 1_700_000_000_000, 1_700_000_000_001
OWNED = (b"files/",)


@dataclass
class PageForTests:
    keys: list[bytes]
    sizes: list[int]
    modified: list[int]
    etags: list[bytes]


@dataclass
class ListingForTests:
    """Objects by their keys: size and time."""

    objects: Mapping[bytes, tuple[int, int]]
    per_page: int = 3

    def pages(self) -> Iterator[PageForTests]:
        keys = sorted(self.objects)
        for start in range(0, len(keys), self.per_page):
            page = keys[start : start + self.per_page]
            yield PageForTests(
                page,
                [self.objects[key][0] for key in page],
                [self.objects[key][1] for key in page],
                [b"etag-of-" + key for key in page],
            )


@dataclass
class ReferencesForTests:
    keys: Iterable[bytes]
    as_written: Sequence[bytes] = ()
    per_block: int = 4
    may_lack: Iterable[bytes] = ()

    def blocks(self) -> Iterator[list[bytes]]:
        keys = sorted(set(self.keys))
        for start in range(0, len(keys), self.per_block):
            yield keys[start : start + self.per_block]

    def written(self) -> Iterator[list[bytes]]:
        if self.as_written:
            yield list(self.as_written)

    def awaited(self) -> Iterator[list[bytes]]:
        keys = sorted(set(self.may_lack))
        for start in range(0, len(keys), self.per_block):
            yield keys[start : start + self.per_block]


@dataclass(frozen=True)
class RewriteForTests:
    name: str
    match: str
    owner: str


def rewrites(*declared: tuple[str, str, str]) -> Rewrites:
    return Rewrites([RewriteForTests(*one) for one in declared])


@dataclass
class World:
    """A bucket and its rows; every object is old and has one byte unless said otherwise."""

    objects: dict[bytes, tuple[int, int]] = field(default_factory=dict)
    rows: list[bytes] = field(default_factory=list)
    as_written: list[bytes] = field(default_factory=list)
    rules: Rules = field(default_factory=lambda: Rules(owned=OWNED))
    may_lack: list[bytes] = field(default_factory=list)

    @classmethod
    def of(cls, objects: Iterable[str | bytes], rows: Iterable[str | bytes], **rules: Any) -> World:
        return cls(
            {as_bytes(key): (1, OLD) for key in objects},
            [as_bytes(row) for row in rows],
            rules=Rules(**{"owned": OWNED, **rules}),
        )

    def classify(self, scratch: Scratch, **kwargs: Any) -> Classification:
        return classify(
            ListingForTests(self.objects),
            ReferencesForTests(self.rows, self.as_written, may_lack=self.may_lack),
            self.rules,
            CUTOFF,
            scratch,
            **kwargs,
        )

    def kinds(self, scratch: Scratch) -> dict[bytes, str]:
        """The class of each object; few enough that every one of them is a sample."""
        return kinds_of(self.classify(scratch))


def kinds_of(classification: Classification) -> dict[bytes, str]:
    """The class of each object, from everything that the classification says of it."""
    found: dict[bytes, str] = {}
    for kind, breakdown in classification.breakdowns.items():
        for sample in breakdown.samples:
            assert sample.key not in found
            found[sample.key] = kind
    orphans = [orphan.key for block in classification.orphans() for orphan in block]
    assert orphans == sorted(set(orphans))
    assert len(orphans) == classification.classes["orphan"].count
    kept = [(kept.key, kept.kind) for block in classification.kept() for kept in block]
    for key, kind in [*((key, "orphan") for key in orphans), *kept]:
        assert found.setdefault(key, kind) == kind
    return found


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()
