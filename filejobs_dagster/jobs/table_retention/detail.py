"""What table_retention counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TypedDict

DELETED, SCRUBBED, DROPPED = "deleted", "scrubbed", "partitions dropped"
CHILDREN, REFUSED, NOT_WON = "children deleted", "refused by PostgreSQL", "left by a trigger"
WOULD_DELETE, WOULD_SCRUB = "would delete", "would scrub"


class RetentionDetail(TypedDict, total=False):
    """What a record says; the end adds whether it swept, and what is left."""

    cutoff: str
    classes: dict[str, int]
    rules: list[dict[str, str | int]]
    warnings: list[dict[str, str]]
    window: dict[str, str]
    # A live run.
    dropped: list[dict[str, object]]
    # A dry run has no number of things done.
    would_collect: int
    would_collect_is_floor: bool
