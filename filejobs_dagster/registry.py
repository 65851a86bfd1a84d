"""The one list of jobs.

Everything that names jobs reads this module: the settings, the CHECK on `job_run.job` (a test
keeps both equal), the Dagster definitions, `filejobs status`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Touch = Literal["rows", "objects", "multipart uploads", "chain"]
"""What a live run changes: rows of tables, objects or half-sent uploads of a bucket, the audit
chain."""

BYTES: frozenset[Touch] = frozenset({"objects", "multipart uploads"})


@dataclass(frozen=True)
class RegisteredJob:
    """What everybody may know about a job without importing its code.

    Attributes:
        name: The job's name in Dagster, in `filejobs.yaml` and in `job_run.job`.
        summary: One sentence that says what it takes away or states.
        touches: What its live runs change. The guards of the door are chosen by this alone; empty
            for a job that changes nothing in any mode: it has no live runs, and a dry one has done
            all of it.
        partitioned: True when its items become collectable at a moment, so that a backfill can
            take one day of them.
    """

    name: str
    summary: str
    touches: frozenset[Touch]
    partitioned: bool = False

    @property
    def deletes_bytes(self) -> bool:
        """True when it deletes bytes and therefore needs a bucket."""
        return bool(self.touches & BYTES)

    @property
    def read_only(self) -> bool:
        """True when it changes nothing in any mode."""
        return not self.touches


JOBS: tuple[RegisteredJob, ...] = (
    RegisteredJob(
        "upload_reservations",
        "Removes reservations whose upload never finished, and the bytes that did arrive.",
        frozenset({"rows", "objects"}),
        partitioned=True,
    ),
    RegisteredJob(
        "storage_orphans",
        "Removes objects in an owned prefix that no source references.",
        frozenset({"objects"}),
    ),
    RegisteredJob(
        "upload_cleanup",
        "Removes the objects of cancelled uploads.",
        frozenset({"rows", "objects", "multipart uploads"}),
        partitioned=True,
    ),
    RegisteredJob(
        "multipart_uploads",
        "Aborts multipart uploads that have been idle for too long.",
        frozenset({"multipart uploads"}),
    ),
    RegisteredJob(
        "deleted_files",
        "Removes soft-deleted files whose restore window is over.",
        frozenset({"rows", "objects"}),
        partitioned=True,
    ),
    RegisteredJob(
        "table_retention",
        "Removes rows of declared tables by declared rules.",
        frozenset({"rows"}),
    ),
    RegisteredJob(
        "audit_trim",
        "Cuts a sealed and pinned prefix of the audit log.",
        frozenset({"chain"}),
    ),
    RegisteredJob(
        "audit_seal",
        "States where each audit chain has reached, and pins it outside.",
        frozenset({"chain"}),
    ),
    RegisteredJob(
        "audit_verify",
        "Verifies the audit chains against seals and pins.",
        frozenset(),
    ),
    RegisteredJob(
        "run_history",
        "Removes old run records from Dagster's own storage.",
        frozenset({"rows"}),
    ),
)

BY_NAME: dict[str, RegisteredJob] = {job.name: job for job in JOBS}
JOB_NAMES: tuple[str, ...] = tuple(BY_NAME)
