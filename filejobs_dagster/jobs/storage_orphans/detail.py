"""What storage_orphans does with its orphans, counted, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.book.totals import FAILED_AGAIN, KEPT, ItemsDetail, Meaning
from filejobs_dagster.jobs.setbacks import GHOST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.book.outcomes import ItemOutcome, Outcomes
    from filejobs_dagster.book.totals import Totals

DELETED = Fate.DELETED.value
MARKED = Fate.MARKED.value
PURGED = Fate.PURGED.value
ALREADY_GONE = Fate.ALREADY_GONE.value
CHANGED = "changed meanwhile"
UNDECIDED = Fate.UNDECIDED.value
UNSEEN = Fate.UNSEEN.value
LOCKED = Fate.LOCKED.value
FAILED = Fate.FAILED.value
WON_BY_OTHERS = "being referenced"
UNANSWERED = Fate.UNANSWERED.value
TOO_RECENT = "asked for a moment ago"
OWNER_REFERENCED = "its owner is referenced"

DERIVED_FROM = "derived from "
"""So the gate's reason begins for an object whose owner is named; the owner's key follows."""

_MEANS = {
    Fate.DELETED: Meaning.DONE,
    Fate.MARKED: Meaning.DONE,
    Fate.PURGED: Meaning.DONE,
    Fate.UNDECIDED: Meaning.PASSED_OVER,
    Fate.UNSEEN: Meaning.PASSED_OVER,
    Fate.FAILED: Meaning.LEFT,
}


class OrphansDetail(ItemsDetail, total=False):
    """What the totals say in a record; the phases add what they found, and the end what is left.

    Here the classes are those of all listed objects; what became of the orphans that a live run
    meant to delete stands in `fates`.
    """

    bytes: int
    fates: dict[str, int]
    deleted: int
    marked: int
    already_gone: int
    versions_purged: int
    bytes_freed: int
    objects_left: int


def note_outcomes(
    totals: Totals, outcomes: Outcomes[bytes], before: Mapping[bytes, str] | None = None
) -> None:
    """Count what became of a batch, as far as it is known.

    Args:
        totals: Where.
        outcomes: Of the batch.
        before: For keys that an earlier run could not remove, the kind of its reason.
    """
    before = before or {}
    for it in outcomes:
        totals.freed += it.freed
        if it.fate is not Fate.UNANSWERED:
            totals.more["versions"] += it.versions
            means = _MEANS.get(it.fate, Meaning.STAYS)
            fate = GHOST if _is_ghost(it, before) else _class_of(it)
            totals.note(fate, it.key, means, why=_why(it))
            if it.fate is Fate.FAILED and before.get(it.key) == FAILED:
                totals.more[FAILED_AGAIN] += 1
    # A batch of which storage let anything go begins the count anew, whatever else it refused.
    in_a_row = totals.refused_in_a_row + len(refused(outcomes, before))
    totals.refused_in_a_row = 0 if outcomes.let_go else in_a_row


def refused(outcomes: Outcomes[bytes], before: Mapping[bytes, str]) -> dict[bytes, str]:
    """What storage refused, with reasons; `before` as in `note_outcomes`.

    What an earlier run could not look at or delete either says nothing new of the server.
    """
    found = {FAILED: outcomes.failed, UNSEEN: outcomes.unseen}
    return {
        key: why
        for kind, reasons in found.items()
        for key, why in reasons.items()
        if before.get(key) != kind
    }


def _is_ghost(it: ItemOutcome[bytes], before: Mapping[bytes, str]) -> bool:
    return it.fate is Fate.ALREADY_GONE and before.get(it.key) == GHOST


def _class_of(it: ItemOutcome[bytes]) -> str:
    if it.fate is Fate.CHANGED:
        return CHANGED
    if it.fate is not Fate.KEPT:
        return str(it.fate.value)
    # One class for all owners: there may be as many as objects.
    return KEPT + (OWNER_REFERENCED if it.reason.startswith(DERIVED_FROM) else it.reason)


def _why(it: ItemOutcome[bytes]) -> str | None:
    if it.fate is Fate.ALREADY_GONE or _class_of(it) == KEPT + it.reason:
        return None
    return it.reason


def in_words(totals: Totals) -> str:
    """What went, in words; a delete marker is no removal, and frees nothing."""
    marked, gone = totals.classes[MARKED], totals.classes[DELETED] + totals.classes[PURGED]
    only_marked = f"{marked:,} marked (nothing freed)"
    if marked and not gone:
        return only_marked
    removed = f"{gone:,} removed, {totals.freed:,} bytes freed"
    return f"{removed}, {only_marked}" if marked else removed


def detail_of(totals: Totals) -> OrphansDetail:
    """The totals as the record holds them; a dry run has no number of things done."""
    items, fates = totals.as_detail(), totals.classes
    detail: OrphansDetail = {
        "classes": {},
        "bytes_by_class": {},
        "samples": items["samples"],
        "bytes": 0,
    }
    if totals.live:
        detail |= {
            "fates": items["classes"],
            "deleted": fates[DELETED] + fates[PURGED],
            "marked": fates[MARKED],
            "already_gone": fates[ALREADY_GONE],
            "versions_purged": totals.more["versions"],
            "bytes_freed": totals.freed,
            "objects_left": totals.left + fates[UNDECIDED] + fates[UNSEEN] + totals.intended,
        }
    return detail
