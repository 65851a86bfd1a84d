"""Judging what an operator's claim returned: exactly what it was asked for, or nothing counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.collecting.refused import SourceRefused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.jobs.upload_reservations.reservation import Reservation

UNIQUE_KEYS = "Return each reservation once, and give each object a key of its own."


def rounds(wanted: Sequence[Reservation]) -> Iterator[list[Reservation]]:
    """Split rows so that no key stands twice in one claim: its answer tells rows by their keys."""
    left = list(wanted)
    while left:
        distinct = {row.key: row for row in reversed(left)}
        yield list(distinct.values())
        left = [row for row in left if distinct[row.key] is not row]


def matched(
    source: str, wanted: Sequence[Reservation], returned: Sequence[str | None]
) -> list[Reservation]:
    """Find the row of each key that a claim returned.

    Args:
        source: What the source is called.
        wanted: The rows that the claim was asked for, no two of one key.
        returned: The keys.

    Raises:
        SourceRefused: The claim returned something else; its transaction must not commit.
    """
    by_key = {row.key: row for row in wanted}
    problem = None
    if len(returned) > len(wanted):
        problem = f"returned {len(returned)} rows for {len(wanted)} ids: compare id with $1"
    elif None in returned:
        problem = "returned NULL as a key: return the key as it was before the claim"
    elif not set(returned) <= set(by_key):
        problem = (
            "returned a key that was no candidate: compare id with $1, and return the same "
            "column as the candidate query; or the row was given another key meanwhile"
        )
    elif len(set(returned)) < len(returned):
        problem = "returned a key twice"
    if problem is not None:
        raise SourceRefused(
            f"The claim of source {source!r} {problem}. It was rolled back: no row was changed "
            f"and no bytes were deleted. {UNIQUE_KEYS}"
        )
    return [by_key[key] for key in returned if key is not None]
