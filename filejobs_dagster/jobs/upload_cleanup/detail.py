"""What upload_cleanup counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.book.totals import KEPT, ItemsDetail, Meaning

if TYPE_CHECKING:
    from filejobs_dagster.book.totals import Totals

WOULD_COLLECT = "would collect"

DELETED = "deleted"
MARKED = "marked"
ALREADY_GONE = "already gone"
SUPERSEDED = "superseded"
NEVER_ARRIVED = "never arrived"
CLEANED = (DELETED, MARKED, ALREADY_GONE, SUPERSEDED, NEVER_ARRIVED)
"""The outcomes of a row that is done, as the table has them."""

RETAINED = "retained"
LEFT = "left for later"
UNSEEN = Fate.UNSEEN.value
DEAD = "dead letter"
CLAIM_LOST = "claim lost"

NOW_UNCERTAIN = "silent writer, now uncertain"
RESOLVED_STORED = "uncertain, resolved: stored"
RESOLVED_CLEANUP = "uncertain, resolved: cleanup"
STILL_UNCERTAIN = "still uncertain"
LOCK_OVER = "lock over"
STILL_RETAINED = "still retained"
AMBIGUOUS = "an object under the decoded key"

MEANS = {
    **dict.fromkeys(CLEANED, Meaning.DONE),
    **dict.fromkeys(
        (RETAINED, NOW_UNCERTAIN, RESOLVED_STORED, RESOLVED_CLEANUP, LOCK_OVER), Meaning.MOVED
    ),
    UNSEEN: Meaning.PASSED_OVER,
    **dict.fromkeys((CLAIM_LOST, STILL_UNCERTAIN, STILL_RETAINED), Meaning.STAYS),
}
"""What the classes mean; the others are left, and whatever the gate kept is passed over."""


class CleanupDetail(ItemsDetail, total=False):
    """What the totals say in a record; the end adds what waits, and what is uncertain or dead."""

    # A dry run has no number of things done.
    would_collect: int
    would_free_bytes: int
    # A live run.
    claimed: int
    claimed_without_result: int
    taken_over: int
    bytes_freed: int
    untouched: int


def dropped(totals: Totals) -> dict[str, int]:
    """Rows that drop out; of another object under one key alone, that is what the word says.

    Of many, the comparison is more likely to be at fault.
    """
    superseded = totals.classes[SUPERSEDED]
    kept = {fate: count for fate, count in totals.classes.items() if fate.startswith(KEPT)}
    return kept | {
        UNSEEN: totals.classes[UNSEEN],
        SUPERSEDED: superseded if superseded > 1 else 0,
    }


def detail_of(totals: Totals) -> CleanupDetail:
    """The totals as the record holds them."""
    detail = cast("CleanupDetail", totals.as_detail())
    if totals.live:
        detail |= {
            "claimed": totals.claimed,
            "claimed_without_result": totals.intended,
            "taken_over": totals.more["taken_over"],
            "bytes_freed": totals.freed,
            "untouched": totals.left + totals.passed_over,
        }
    else:
        detail |= {
            "would_collect": totals.classes[WOULD_COLLECT],
            "would_free_bytes": totals.bytes_by_class[WOULD_COLLECT],
        }
    return detail
