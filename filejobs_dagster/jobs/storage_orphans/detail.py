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
QUARANTINED = Fate.QUARANTINED.value
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

OF_COPIES = "copy in quarantine: "
"""So the classes begin of copies whose time is over, and which are still there."""

COPIES_DEFERRED = f"{OF_COPIES}deferred"
COPIES_EXPIRED = "copies expired"

DERIVED_FROM = "derived from "
"""So the gate's reason begins for an object whose owner is named; the owner's key follows."""

_MEANS = {
    Fate.DELETED: Meaning.DONE,
    Fate.MARKED: Meaning.DONE,
    Fate.QUARANTINED: Meaning.DONE,
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
    quarantined: int
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
    gone = totals.classes[DELETED] + totals.classes[PURGED]
    there = [
        f"{totals.classes[fate]:,} {fate} (nothing freed)"
        for fate in (MARKED, QUARANTINED)
        if totals.classes[fate]
    ]
    removed = f"{gone:,} removed, {totals.freed:,} bytes freed"
    return ", ".join(there if there and not gone else [removed, *there])


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
            "quarantined": fates[QUARANTINED],
            "already_gone": fates[ALREADY_GONE],
            "versions_purged": totals.more["versions"],
            "bytes_freed": totals.freed,
            "objects_left": totals.left + fates[UNDECIDED] + fates[UNSEEN] + totals.intended,
        }
    return detail


FIELDS: Mapping[str, str] = {
    "window": '`{"covers": "everything"}`, or the reviewed list',
    "bucket; cutoff; fingerprint": (
        "which bucket, the moment before which objects count as old, and the name of sources and "
        "rules"
    ),
    "first_pass": (
        "of every complete pass, true or false. True: the first complete pass by these sources "
        "and rules. It deletes nothing, whatever the mode"
    ),
    "classes; bytes_by_class; bytes": "objects and bytes by class, and all bytes",
    "orphans; orphan_bytes": "all orphans of this pass, confirmed or not",
    "past_retention": "orphans older than `personal_data_kept_for`, where the settings say that",
    "by_prefix; by_age": (
        "every class by the first two levels of the key (the 20 with the most bytes for orphans, "
        "5 for any other class) and by age, orphans first"
    ),
    "largest; oldest": "the orphans, in tables",
    "references; missing; awaited; sources": (
        "distinct keys in use; those in `owns` without an object; those whose upload may still "
        "come; rows, keys, keys `in_owns` and empty rows of each source. A source with keys, "
        "none of them in `owns`, needs another transform, or names objects of another prefix"
    ),
    "missing_taken": (
        "missing references whose object a run took: how many (behind delete markers only where "
        "the role may read `audit_event`), how many of them quarantine has, and how many a live "
        "run with `bring_back` brought back, which `missing` then does not count; the first keys"
    ),
    "references_read_at": (
        "when the references were counted, by the database's clock. Rows from before that jobs "
        "take later are expected to be gone in the next pass (`reference_shrink`)"
    ),
    "named_elsewhere": (
        "the columns that name objects without being a source: how many, one of them, the line "
        "that would declare the column"
    ),
    "only_ignored": (
        "the same of columns that `named_elsewhere.ignore` leaves out: orphans that nothing else "
        "names. They may go"
    ),
    "unsearched": "what could not be searched, why, and its bytes",
    "search": (
        "how many candidates were looked for, in how many tables, columns (`fingerprint`: which) "
        "and bytes, and in how many seconds"
    ),
    "breakers": "every breaker with its number, its limit and its verdict",
    "override": "which breakers were passed over, and why",
    "let_in": (
        "of the first live run that could delete by these sources and rules: by what it was let "
        "in, a rehearsal's hash, a reviewed list, or a word with its reason"
    ),
    "report": "where the list stands",
    "marks; marks_cleared": "who keeps the marks, when not this run; how many were forgotten",
    "waiting; waiting_bytes; waiting_until": (
        "orphans that an earlier run has not seen for long enough, and when the first of them is "
        "due"
    ),
    "would_collect; would_free_bytes; would_defer": (
        "dry: what a live run would have removed now, and left because of the limit"
    ),
    "would_be_refused": (
        "dry: what a live run would not be let in for, or would fail of; also what could not be "
        "searched while orphans are due"
    ),
    "deferred; deferred_bytes; deferred_oldest": (
        "live: what was due and is left, and the oldest object's time"
    ),
    "truncated; stopped_reason": (
        "whether it stopped, or a live run would have stopped, while more was due: `limit`, "
        "`max_runtime`, `older transactions`, `breakers: …`, or what refused"
    ),
    "late_landing": (
        "orphans that are uploads whose bytes came after their row had been collected without an "
        "object, within 30 days"
    ),
    "waited_for": "the transactions that a batch was left for",
    "swept": (
        "true: a live run, nothing that was due is left, and there is no `finding`. Waiting and "
        "locked orphans are not due; those that wait anew because rules changed are"
    ),
    "oldest_left": (
        "since when the oldest orphan that is left has been due; null when none is, and in a dry "
        "run"
    ),
    "deleted; marked; quarantined; already_gone; versions_purged": (
        "live: what became of them. *marked* is a delete marker in a versioned bucket, "
        "*quarantined* one with a verified copy below `filejobs-quarantine/`; both free nothing"
    ),
    "quarantine; would_quarantine": (
        "what keeping costs (objects, bytes, requests, days), and because of what they are kept; "
        "`would_` in a dry run. Absent: they go at once"
    ),
    "in_quarantine": (
        "live: what is kept (objects, bytes, since when the oldest), what was kept long enough and "
        "is gone, and what a source names by now and was brought back. What stays although its "
        "time is over stands in `fates`: failed, waiting after a failure, deferred by a limit, "
        "named elsewhere, unknown shape, referenced"
    ),
    "bytes_freed": "live: bytes that are free now",
    "objects_left": (
        "live: orphans and copies in quarantine that storage did not let go, or whose result is "
        "not written yet"
    ),
    "put_off": (
        "live: orphans that are not tried again yet, by the reason: `failed`, `undecided`, "
        "`cannot be looked at`, `ghost`"
    ),
    "finding": (
        "live: why the pass is no sweep, although nothing stopped it: every candidate dropped "
        "out, or rules alternate between two hosts whose `filejobs.yaml` differ. Null: nothing"
    ),
    "fates": (
        "live: all of it in words: also `changed meanwhile`, `undecided`, `cannot be looked at`, "
        "`quarantined`, `ghost`, `locked`, `failed`, `unanswered`, `asked for a moment ago`, "
        "`being referenced`, `kept: …` (derived objects under one: `kept: its owner is referenced`)"
    ),
    "recovered": (
        "what a run that ended early had left: gone, still there, `too_recent` to be sure that "
        "no deletion is under way, or `not_known` where storage does not say"
    ),
    "interrupted": (
        "dry: objects that a run that ended early was about to delete; nobody can refer to their "
        "keys until a live run has looked"
    ),
    "interrupted_elsewhere": (
        "the same, by the name of another entry of `buckets`. Where an entry was renamed, give "
        "it its old name for one live run"
    ),
    "reviewed": (
        "of a reviewed list: whose, how many it asks for, how many the fresh pass agrees to"
    ),
    "versioning; conditional_delete": (
        "what the bucket does with versions, and with a deletion that has a condition"
    ),
    "ordered_by_server; parts_listed": (
        "false: the server does not list in byte order, so it was sorted here; ranges listed"
    ),
    "progress": "while it works: phase, objects so far, objects a second, position",
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

CLASSES: Mapping[str, str] = {
    "referenced": "a source names the exact key",
    "derived": "a source names an owner that a rewrite leads to",
    "protected": "`protect` names it, or it is the bucket's marker",
    "directory marker": "the key ends in `/`; it is counted",
    "unknown shape": (
        "no pattern of `shape` matches; or the key is not UTF-8, has `.` or `..` between "
        "slashes, more owners than are looked for, or more than 1024 bytes; it stands in the "
        "list"
    ),
    "young": "modified less than `min_age` ago, or at a time that is not known",
    "ambiguous": (
        "a row would mean it after a change that nobody declared; it stands in "
        "the list with the row's form"
    ),
    "named elsewhere": (
        "a column that no source reads may mean it; it stands in the list with the column"
    ),
    "orphan": "none of these; stays until it is confirmed",
}
"""What can become of an item, in words."""

LIST_COLUMNS: Mapping[str, str] = {
    "decision": "`remove` or `keep`. Change it, or delete rows",
    "key": (
        "the key; what is not plain ASCII is percent-encoded byte by byte, so `%C3%A9` is an é "
        "and `%25` a percent sign. Decoding gives the exact bytes back"
    ),
    "size; last_modified; etag": "the object as it was listed",
    "class; reason": "why it is here",
    "first_seen": "since when runs have seen it as an orphan",
    "belonged_to": "whom, as far as its path, a row of its id or the audit log tells",
}
"""The columns of the list for review."""
