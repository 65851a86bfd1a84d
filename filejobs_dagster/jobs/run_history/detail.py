"""What run_history counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from filejobs_dagster.book.totals import Meaning

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.book.totals import Totals

PRUNED = "pruned"
NOT_RECORDED = "not recorded"
RECORD_TOO_YOUNG = "record too young"
BACKFILL_OPEN = "backfill in progress"
LEANED_ON = "parent of a run that is kept"
AWAITS_RETRY = "about to be retried"
NOT_REMOVED = "not removed"
ITSELF = "this run"
WOULD_BE_PRUNED = "would be pruned"

PROGRESS_ROWS = "progress_rows"


class RunHistoryDetail(TypedDict, total=False):
    """What a record says; `untouched` counts the runs that are over and old, and stay."""

    classes: dict[str, int]
    samples: dict[str, list[str]]
    untouched: int
    cutoff: str
    keep_seconds: int
    explained: str
    # A dry run has no number of things done.
    would_collect: int
    would_remove_progress_rows: int
    # A live run.
    progress_rows: int


def detail_of(totals: Totals) -> RunHistoryDetail:
    """The totals as the record holds them; no run has bytes."""
    items, rows = totals.as_detail(), totals.more[PROGRESS_ROWS]
    detail: RunHistoryDetail = {
        "classes": items["classes"],
        "samples": items["samples"],
        "untouched": totals.means[Meaning.STAYS] + totals.left,
    }
    if totals.live:
        detail["progress_rows"] = rows
    else:
        detail |= {
            "would_collect": totals.classes[WOULD_BE_PRUNED],
            "would_remove_progress_rows": rows,
        }
    if unrecorded := totals.classes[NOT_RECORDED]:
        detail["explained"] = (
            f"{unrecorded:,} old runs have no record in job_run and are kept: see "
            "whether the sensor job_run_reconciler works, or run `filejobs mirror`."
        )
    return detail


FIELDS: Mapping[str, str] = {
    "progress_rows": "rows of `job_progress` that went",
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

CLASSES: Mapping[str, str] = {
    "pruned": "it went; in a dry run `would be pruned`",
    "not recorded": (
        "it is over and old, and `job_run` has no record. It is the only witness left, so it is "
        "kept and reported"
    ),
    "record too young": "the record says that it ended later than Dagster does",
    "backfill in progress": "its backfill is not over",
    "parent of a run that is kept": (
        "a re-execution or a retry of it is at work, waits, or is young"
    ),
    "about to be retried": "the daemon is to start it again, and did not yet",
    "not removed": (
        "the storage refused, or the run's id (whoever launches a run may choose it) would lead "
        "to files of others; the reason stands beside its id. The next run finds it again"
    ),
}
"""What can become of an item, in words."""
