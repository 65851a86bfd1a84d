"""What multipart_uploads counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from filejobs_dagster.book.totals import KEPT, ItemsDetail, Meaning
from filejobs_dagster.jobs.setbacks import GHOST
from filejobs_dagster.objects.multipart import AbortFate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.jobs.setbacks import Setback
    from filejobs_dagster.objects.multipart import Aborted, MultipartUpload

YOUNG = "young"
ACTIVE = AbortFate.ACTIVE.value
UNDATED = "age unknown"
REFERENCED = "referenced"
ENDED = "ended meanwhile"
UNREADABLE = "parts not readable"
UNANSWERED = "unanswered"
WOULD_ABORT = "would abort"
DEFERRED = "deferred"

WENT = "storage said that it was aborted; listed after that again and again, it is a ghost"
"""What is remembered of an aborted upload until a pass that does not list it."""

PARTS_CAME = "storage said that it was aborted, and listed parts of it"

GHOSTS_DUE = "ghosts with parts"
"""How many ghosts were passed over: their parts are listed, and they are due."""

AGAIN = "storage says that it was aborted, and lists it again"

_MEANS = {
    AbortFate.ABORTED: Meaning.DONE,
    AbortFate.FAILED: Meaning.LEFT,
    AbortFate.PARTS_LEFT: Meaning.LEFT,
}


class MultipartDetail(ItemsDetail, total=False):
    """What the totals say in a record; `Sweep` adds the bucket, the backstop and the end."""

    untouched: int
    asked_by_id: int
    # A dry run has no number of things done.
    would_collect: int
    would_free_bytes: int
    # A live run.
    bytes_freed: int
    parts_freed: int
    uploads_left: int
    deferred: int


def as_item(upload: MultipartUpload) -> bytes:
    """An upload as setbacks name it."""
    return f"{upload.key}\x00{upload.upload_id}".encode("utf-8", "surrogateescape")


def comes_back(setback: Setback) -> bool:
    """True when it was aborted more than once: no part that was on its way does that."""
    return setback.reason == WENT and setback.attempts > 1


def came_late(setback: Setback) -> bool:
    """True when a part may have been on its way: what it brought back is aborted at once."""
    return setback.reason in (WENT, PARTS_CAME) and setback.attempts == 1


def note_kept(totals: Totals, key: str, reason: str) -> None:
    """Count an upload that the gate does not let go; the reason may name sources."""
    if reason.startswith(REFERENCED):
        totals.note(REFERENCED, key, Meaning.STAYS, why=reason)
    else:
        totals.note(KEPT + reason, key, Meaning.STAYS)


def note_aborted(
    totals: Totals, key: str, aborted: Aborted, active: datetime | None, *, ghost: bool = False
) -> None:
    """Count what became of an upload that was to go, whose newest part came at `active`.

    A ghost had ended when an earlier run was about to abort it, or was aborted more than once, and
    was listed all the same.
    """
    fate = aborted.fate
    totals.claimed += 1
    if ghost and fate is AbortFate.ABORTED:
        totals.more[GHOSTS_DUE] += 1
        totals.note(GHOST, key, Meaning.PASSED_OVER, why=AGAIN, since=active)
        return
    totals.freed += aborted.bytes_freed
    totals.more["parts"] += aborted.parts
    if fate is AbortFate.KEPT:
        note_kept(totals, key, aborted.reason)
        return
    means = _MEANS.get(fate, Meaning.STAYS)
    sizes = {Meaning.DONE: aborted.bytes_freed, Meaning.LEFT: aborted.bytes_left}
    since = active if means is Meaning.LEFT else None
    totals.note(
        GHOST if ghost else fate.value,
        key,
        means,
        size=sizes.get(means),
        why=aborted.reason,
        since=since,
    )
    if aborted.gone:
        totals.refused_in_a_row = 0
    elif fate is AbortFate.FAILED:
        totals.refused_in_a_row += 1


def gone(totals: Totals) -> int:
    """Uploads that were due and are not there any more, whoever ended them."""
    return sum(totals.classes[fate.value] for fate in AbortFate if fate.gone)


def detail_of(totals: Totals) -> MultipartDetail:
    """The totals as the record holds them."""
    detail = cast("MultipartDetail", totals.as_detail())
    detail |= {"untouched": totals.matching(KEPT), "asked_by_id": totals.more["asked_by_id"]}
    if totals.live:
        detail |= {
            "bytes_freed": totals.freed,
            "parts_freed": totals.more["parts"],
            "uploads_left": totals.left + totals.passed_over + totals.intended,
            "deferred": totals.classes[DEFERRED],
        }
    else:
        detail |= {
            "would_collect": totals.classes[WOULD_ABORT],
            "would_free_bytes": totals.bytes_by_class[WOULD_ABORT],
        }
    return detail


FIELDS: Mapping[str, str] = {
    "bytes_freed; parts_freed": "parts that were listed before an abort and are not any more",
    "would_collect; would_free_bytes": "dry: what is due, and the bytes of its parts",
    "classes; bytes_by_class": (
        "how many met which fate, with the bytes of the parts where they were listed"
    ),
    "bucket; cutoff; window": "where, and until when somebody's last part must have come",
    "untouched": "uploads in owned prefixes that are none of ours: `kept: …`",
    "deferred": "as the class",
    "progress": "where a run at work is",
    "asked_by_id": "rows whose multipart upload was asked for by its id",
    "uploads_left": "failed, with parts left, not readable, unanswered, waiting after a failure",
    "oldest_left": "since when the oldest upload that is left has been due",
    "swept": "live, everything looked at, nothing left, no `finding`",
    "finding": (
        "live: why an empty listing says nothing: the server does not list uploads below a "
        "prefix (known by the id of a row, or by `doctor --probe`), or gives none of them a "
        "date. Null: nothing"
    ),
    "backstop; backstop_state": "the lifecycle rule: `there`, `missing`, `unknown`",
    "backstop_rule": "the rule that is missing",
    "stopped_reason": "`limit`, `max_runtime`, what refused, or null",
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

CLASSES: Mapping[str, str] = {
    "would abort": "dry: it is due",
    "aborted": "none of its parts is listed any more",
    "young; still active": "it began, or its newest part came, after the cutoff",
    "age unknown": "the server tells no date, so nobody knows whether it is due: `swept` is false",
    "referenced": "a source names its key; the sample says which",
    "kept: …": (
        "`ambiguous: near …` (a source comes near to its key), `protected`, `not owned`, "
        "`ambiguous path`, `directory marker`, `not UTF-8`"
    ),
    "ended meanwhile": "it was listed, and is not there any more",
    "already gone": "it ended between the look and the abort, and its key has no object",
    "gone, and its key has an object": (
        "the same, and there is an object: as a rule, its client completed it"
    ),
    "parts left": "aborted, and parts are still listed. It is tried again as what failed",
    "failed": "storage refused this one, with its reason; the others went on",
    "ghost": (
        "it was not there when an earlier run asked for it, or was aborted twice with success, and "
        "is listed all the same. With parts it is tried again later and later, and `swept` is "
        "false. Where nothing else goes, the pass is no sweep and has a `finding`"
    ),
    "parts not readable": "storage did not list its parts, so nothing was decided",
    "unanswered": "no answer came to the abort: it may be gone",
    "deferred": "due, and left because of `limit` or `max_runtime`",
    "waits after a failure": (
        "due, and could not be aborted before: it is tried again after a pause that doubles, "
        "from 5 minutes to a day, behind all others. It uses up no `limit`. The table `setback` "
        "has the reason; delete the row there to have it tried at once"
    ),
}
"""What can become of an item, in words."""
