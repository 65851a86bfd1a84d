"""The one list of jobs.

Everything that names jobs reads this module: the settings, the CHECK on `job_run.job` (a test
keeps both equal), the Dagster definitions, `filejobs status`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RegisteredJob:
    """What everybody may know about a job without importing its code.

    Attributes:
        name: The job's name in Dagster, in `filejobs.yaml` and in `job_run.job`.
        summary: One sentence that says what it takes away or states.
        partitioned: True when its items become collectable at a moment, so that a backfill can
            take one day of them.
        deletes_bytes: True when it deletes bytes and therefore needs a bucket.
        read_only: True when it changes nothing in any mode: it has no live runs, and a dry one
            has done all of it.
    """

    name: str
    summary: str
    partitioned: bool = False
    deletes_bytes: bool = False
    read_only: bool = False


JOBS: tuple[RegisteredJob, ...] = (
    RegisteredJob(
        "upload_reservations",
        "Removes reservations whose upload never finished, and the bytes that did arrive.",
        partitioned=True,
        deletes_bytes=True,
    ),
    RegisteredJob(
        "storage_orphans",
        "Removes objects in an owned prefix that no source references.",
        deletes_bytes=True,
    ),
    RegisteredJob(
        "upload_cleanup",
        "Removes the objects of cancelled uploads.",
        partitioned=True,
        deletes_bytes=True,
    ),
    RegisteredJob(
        "multipart_uploads",
        "Aborts multipart uploads that have been idle for too long.",
        deletes_bytes=True,
    ),
    RegisteredJob(
        "deleted_files",
        "Removes soft-deleted files whose restore window is over.",
        partitioned=True,
        deletes_bytes=True,
    ),
    RegisteredJob("table_retention", "Removes rows of declared tables by declared rules."),
    RegisteredJob("audit_trim", "Cuts a sealed and pinned prefix of the audit log."),
    RegisteredJob(
        "audit_seal",
        "States where each audit chain has reached, and pins it outside.",
    ),
    RegisteredJob(
        "audit_verify",
        "Verifies the audit chains against seals and pins.",
        read_only=True,
    ),
    RegisteredJob("run_history", "Removes old run records from Dagster's own storage."),
)

BY_NAME: dict[str, RegisteredJob] = {job.name: job for job in JOBS}
JOB_NAMES: tuple[str, ...] = tuple(BY_NAME)
