"""What table_retention counts, and how `job_run.detail` says it."""

from __future__ import annotations

from typing import TypedDict

DELETED, SCRUBBED, DROPPED = "deleted", "scrubbed", "partitions dropped"
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
