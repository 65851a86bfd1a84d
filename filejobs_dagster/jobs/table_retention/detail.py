"""What table_retention counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping


DELETED, SCRUBBED, DROPPED = "deleted", "scrubbed", "partitions dropped"
DETACHED = "partitions detached"
PENDING = "partitions pending detach"
CHILDREN, REFUSED, NOT_WON = "children deleted", "refused by PostgreSQL", "left by a trigger"
IN_USE = "in use"
"""Those of the refused that rows of other tables name."""
WOULD_DELETE, WOULD_SCRUB = "would delete", "would scrub"


class RetentionDetail(TypedDict, total=False):
    """What a record says; the end adds whether it swept, and what is left."""

    cutoff: str
    classes: dict[str, int]
    rules: list[dict[str, str | int]]
    warnings: list[dict[str, str]]
    rows_that_passes_had_counted: dict[str, dict[str, int]]
    window: dict[str, str]
    # A live run.
    untouched: int
    dropped: list[dict[str, object]]
    # A dry run has no number of things done.
    would_collect: int
    would_collect_is_floor: bool


FIELDS: Mapping[str, str] = {
    "window": '`{"covers": "everything"}`, or the rules of a run of some',
    "cutoff": "the moment from which every rule's age is counted back",
    "rules": "a row for each rule, with what the second table says",
    "classes": (
        "`deleted`, `scrubbed`, `partitions dropped`, `partitions detached`, `children deleted`, "
        "`refused by PostgreSQL`, `left by a trigger`, `held by another session`, `no usable time` "
        "(`-infinity`), `partitions pending detach`; dry: `would delete`, `would scrub`"
    ),
    "untouched": (
        "live: due rows that were passed over, each for a reason of its own; then `swept` is false"
    ),
    "warnings": (
        "what somebody should know of a rule: cascades, rows without a time, a table over its "
        "size, a partition that could not be dropped"
    ),
    "dropped": (
        "live: each partition that was dropped or detached, with its bounds and PostgreSQL's "
        "estimate of its rows"
    ),
    "would_collect": "dry: due rows of all rules",
    "would_collect_is_floor": "dry: some rule has more due than were counted",
    "truncated": "true: the run stopped while more was due",
    "stopped_reason": "`limit`, `max_runtime` or null",
    "swept": (
        "true: a live run of all rules that left nothing, refused no row and in which no rule "
        "failed"
    ),
    "oldest_left": (
        "since when the oldest row that is still there is due, for deletion or for scrubbing; "
        "null: none"
    ),
}
"""Fields of `job_run.detail` beside those of every run, in words: the reference is made of them."""

OF_A_RULE: Mapping[str, str] = {
    "rule; table; keeps; cutoff": "the rule, its table, its age and the moment that this makes",
    "state": "`done`, `unfinished` (the run ended first), `failed`, `not begun`",
    "due; due to scrub": "at the beginning, counted up to 10,000; `10,000 or more` behind that",
    "deleted; scrubbed; partitions": "live: what was done",
    "refused": "rows that PostgreSQL refused to change",
    "held": "live: due rows that another session holds",
    "left": "live: what is still due at the end",
    "without time": "rows that the rule means and never takes; `-` where no index leads to them",
    "reason": "why the rule failed, or why the first row was refused. Never what a row holds",
}
"""Each row of `rules`."""
