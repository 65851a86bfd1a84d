"""What a person wants to know of a pass, in a few short tables of JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs.storage_orphans.classification.records import (
    AMBIGUOUS,
    CLASSES,
    DERIVED,
    NAMED_ELSEWHERE,
    ORPHAN,
    PROTECTED,
    REFERENCED,
    YOUNG,
)
from filejobs_dagster.jobs.storage_orphans.review import moment_as_text
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.jobs.storage_orphans.classification import Classification, Shown
    from filejobs_dagster.references.reference_set import ReferenceSet

ROWS = 20
"""Of each table."""

ROWS_OF_OTHER_CLASSES = 5
"""Of the table by prefix, for each other class: the record is written with every batch."""

OTHERS = "(others)"

_ORPHANS_FIRST = (ORPHAN, *(name for name in CLASSES if name != ORPHAN))

_UNSAMPLED = frozenset({REFERENCED, YOUNG})
"""Nobody has to look at these, and their keys are none of a record's business."""

_JOINED_BY = {
    AMBIGUOUS: "row",
    DERIVED: "owner",
    NAMED_ELSEWHERE: "column",
    PROTECTED: "protect",
}


def tables_of(found: Classification, references: ReferenceSet) -> dict[str, Any]:
    """Each class by prefix and age, the largest and oldest orphans, what each source returned."""
    orphans = found.breakdowns[ORPHAN]
    return {
        "by_prefix": [row for name in _ORPHANS_FIRST for row in _by_prefix(name, found)],
        "by_age": [
            {"class": name, "age": age, "objects": totals.count, "bytes": totals.bytes}
            for name in _ORPHANS_FIRST
            for age, totals in found.breakdowns[name].by_age.items()
            if totals.count
        ],
        "largest": _objects(orphans.largest),
        "oldest": _objects(orphans.oldest),
        "sources": [
            {
                "source": name,
                "rows": count.rows,
                "keys": count.keys,
                "in_owns": count.in_owns,
                "names": "owners" if count.owners else "keys",
                "null_or_empty": count.null_or_empty,
            }
            for name, count in references.per_source.items()
        ],
    }


def _by_prefix(name: str, found: Classification) -> list[dict[str, Any]]:
    """The prefixes of one class with the most bytes, and all others together."""
    breakdown = found.breakdowns[name]
    most = ROWS if name == ORPHAN else ROWS_OF_OTHER_CLASSES
    prefixes: list[dict[str, Any]] = [
        {
            "class": name,
            "prefix": shown(prefix) or OTHERS,
            "objects": totals.count,
            "bytes": totals.bytes,
        }
        for prefix, totals in list(breakdown.by_prefix.items())[:most]
    ]
    listed = sum(row["objects"] for row in prefixes)
    if listed < breakdown.count:
        rest = breakdown.bytes - sum(row["bytes"] for row in prefixes)
        prefixes.append(
            {
                "class": name,
                "prefix": OTHERS,
                "objects": breakdown.count - listed,
                "bytes": rest,
            }
        )
    return prefixes


def samples_of(found: Classification) -> dict[str, list[str]]:
    """A few keys of each class that somebody may want to look at, with what decided."""
    samples: dict[str, list[str]] = {}
    for name, breakdown in found.breakdowns.items():
        if name in _UNSAMPLED or not breakdown.count:
            continue
        samples[name] = [_with_reason(name, one) for one in breakdown.samples[:ROWS]]
    if found.missing_samples:
        samples["missing"] = [shown(key) for key in found.missing_samples[:ROWS]]
    return samples


def shown(key: bytes) -> str:
    """A key for people: printable, on one line, bounded."""
    return display_key(key.decode("utf-8", "backslashreplace"))


def _objects(objects: Sequence[Shown]) -> list[dict[str, Any]]:
    return [
        {
            "key": shown(one.key),
            "bytes": one.size,
            "last_modified": moment_as_text(one.modified),
        }
        for one in objects[:ROWS]
    ]


def _with_reason(name: str, one: Shown) -> str:
    if not one.because:
        return shown(one.key)
    because = shown(one.because)
    word = _JOINED_BY.get(name)
    return f"{shown(one.key)}: {because if word is None else f'{word} {because}'}"
