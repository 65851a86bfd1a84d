"""What upload_cleanup counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.book.totals import KEPT, ItemsDetail, Meaning
from filejobs_dagster.jobs.setbacks import WAITS

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    WAITS: Meaning.PASSED_OVER,
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


FIELDS: Mapping[str, str] = {
    "cutoff": "the database's time at the start: what became due later waits",
    "truncated; stopped_reason": (
        "whether the run stopped while more was due, and why: `limit`, `max_runtime`, `storage "
        "rejected a batch`, `storage did not answer`, `storage reported as gone what is still "
        "there`, `a source of references could not be read`, `it could not be proven that the "
        "run may still delete`, or null"
    ),
    "swept": (
        "true: a live run that was not stopped, and no row of its window that was collectable "
        "before the cutoff is still in `cleanup`, and there is no `finding`"
    ),
    "finding": (
        "live: every row dropped out (*cannot be looked at*, or more than one *superseded*), so "
        "that the comparison is more likely to be at fault than the objects. Null: nothing"
    ),
    "oldest_left": (
        "since when the oldest row waits for its cleanup, dead letters included, whatever the "
        "window; null: none"
    ),
    "claimed": "live: rows claimed",
    "claimed_without_result": (
        "live: claimed rows whose result is not written. Above 0 after a kill: the next run asks "
        "about them"
    ),
    "taken_over": "live: rows that a run without a result had claimed",
    "untouched": (
        "live: rows that were tried in vain, those that wait after a failure, and those that "
        "another session holds"
    ),
    "bytes_freed": "live: bytes of objects and parts that are gone",
    "would_collect; would_free_bytes": (
        "dry: what a live run would have removed, as far as it can be seen"
    ),
    "dead_letters": "rows that nobody tries any more, counted up to 10,000, as are the next three",
    "waiting": "rows in `cleanup` that are not dead",
    "uncertain": "rows in `uncertain`",
    "retained": "rows in `retained`",
    "samples": (
        "also `an object under the decoded key`: a row's object is missing, and one stands under "
        "the key with `%20` and the like decoded. That object is kept"
    ),
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

CLASSES: Mapping[str, str] = {
    "deleted": (
        "Row cleaned, bytes gone. Storage said so, and a sample of each batch was looked for again"
    ),
    "marked": (
        "Row cleaned, bytes kept as an old version. The bucket keeps versions, and the row names "
        "none (the table)"
    ),
    "already gone": "Row cleaned, bytes none. It was stored once, and is not there",
    "never arrived": "Row cleaned, bytes none. Nobody ever saw it",
    "superseded": "Row cleaned, bytes kept. Another object stands under the key",
    "retained": "Row retained, bytes kept. A lock or a hold",
    "left for later": (
        "Row cleanup, bytes perhaps there. Storage refused, or gave no answer. The sample says why"
    ),
    "held by another session": (
        "Row cleanup, bytes kept. Due, and another session holds the row: `swept` is false, and "
        "the next run tries again"
    ),
    "cannot be looked at": (
        "Row cleanup, bytes there. A HEAD answers 400 or 403: a customer's key, a KMS key, or "
        "`s3:GetObject` is missing. Tried again later and later"
    ),
    WAITS: (
        "Row cleanup, bytes perhaps there. It was tried in vain before; again after a pause that "
        "doubles, from 5 minutes to a day, behind all others, and without using up `limit`. The "
        "table `setback` has the reason, and without its row there it is tried at once"
    ),
    "dead letter": "Row cleanup, dead, bytes perhaps there. The same, for the last time",
    "kept: …": (
        "Row cleanup, bytes kept. The key is not owned, is protected, `referenced by` another "
        "row, or `ambiguous`: a source comes near to it. It is tried again, and becomes a dead "
        "letter"
    ),
    "claim lost": "Row another worker's. It was claimed again, or changed, meanwhile",
    "silent writer, now uncertain": "Row uncertain. No sign of life for `writing_limit`",
    "uncertain, resolved: stored": "Row stored, bytes there.",
    "uncertain, resolved: cleanup": "Row cleanup. The same run goes on to clean it up",
    "still uncertain": "Row uncertain. Nothing can be concluded yet",
    "lock over": "Row cleanup, bytes there. The same run goes on to clean it up",
    "still retained": "Row retained, bytes kept.",
    "would collect; would be: …; would be retained; would be left for later": (
        "Row as it was, bytes kept. Dry only"
    ),
}
"""What can become of an item, in words."""
