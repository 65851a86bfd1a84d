"""Every key that is in use, on disk: what a bulk read of all sources returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from filejobs_dagster.references.replica import ReplicaState
    from filejobs_dagster.streams import Block, Spool

SAMPLES = 20


@dataclass
class SourceCount:
    """What one source returned.

    Attributes:
        rows: All rows.
        keys: Those that name a key, equal ones counted each time.
        null_or_empty: Those that name nothing, as they are or after the transforms.
        in_owns: Those of the keys that lie in the owned prefixes that the read was told.
        owners: True when they are owners of objects, by rewrites, and need not be objects.
        samples: A few of the keys, in the order in which they came: a re-check that knows none
            of them does not ask what the source says.
        tables: What it reads of the project's database, by schema and name; of an own table its
            name here.
        older: How many of the keys stand in rows that were made before the moment that the read
            was told; None where that is not known.
    """

    rows: int = 0
    keys: int = 0
    null_or_empty: int = 0
    in_owns: int = 0
    owners: bool = False
    samples: tuple[bytes, ...] = ()
    tables: frozenset[str] = frozenset()
    older: int | None = None


@dataclass(frozen=True)
class ReferenceSet:
    """The keys in use, sorted by their bytes, each once; any state, any owner, any prefix.

    Attributes:
        keys: How many they are.
        per_source: What each source returned, by its name.
        read_at: When each database's snapshot was taken, by its clock; the key says which
            sources were read there.
        replicas: How far a replica was, by the names of the sources that were read there.
    """

    keys: int
    per_source: Mapping[str, SourceCount]
    read_at: Mapping[str, datetime]
    _sorted: Spool
    _written: Spool
    _awaited: Spool
    replicas: Mapping[str, ReplicaState] = field(default_factory=dict)

    def blocks(self) -> Iterator[Block]:
        """The keys, in order; from the beginning at each call."""
        return self._sorted.blocks()

    def written(self) -> Iterator[Block]:
        """In no order, the values that a transform has changed, as the rows have them."""
        return self._written.blocks()

    def awaited(self) -> Iterator[Block]:
        """Keys that need no object: of uploads that may never have come, and owners; in order."""
        return self._awaited.blocks()
