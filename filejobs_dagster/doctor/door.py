"""What every live run must prove, looked at by the very code that a run meets."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from filejobs_dagster.doctor.finding import Finding, failed, ok, skipped, warning
from filejobs_dagster.door.adoption import check
from filejobs_dagster.door.belonging import adoption_target_of
from filejobs_dagster.door.door import asked
from filejobs_dagster.door.guard import AdoptionRefused, BucketAt, Look, Refusal
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.door.server import ProbeFailed, tried
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.collector import Collector
    from filejobs_dagster.door.guard import Guard
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import Settings


def check_door(
    settings: Settings, database: Database, connection: Connection, *, probe: bool
) -> Iterator[Finding]:
    """Let each guard look that protects a job of the settings.

    Args:
        settings: All of them.
        database: Where the project's tables are.
        connection: An open connection to it.
        probe: Try before what the server of each bucket can do from which a job deletes.
    """
    jobs = [BY_NAME[name] for name in settings.jobs]
    live = [job for job in jobs if settings.jobs[job.name].mode == "live"]
    remarks = _Remarks()
    at = _look(settings, jobs, database, connection, remarks.log)
    if probe:
        yield from _probed(at)
    for guard in GUARDS:
        if not guard.protects & at.touches:
            continue
        name = f"door {guard.name}"
        try:
            found = asked(guard, at)
        except Refusal as refusal:
            # What only a job in mode dry would meet stops nobody yet.
            alone = _look(settings, live, database, connection, remarks.log)
            finding = failed if _refuses(guard, alone) else warning
            advice = refusal.advice or "until then no live run begins"
            said = finding(name, f"a live run would be refused: {refusal.found}", advice)
            yield replace(said, page=refusal.see)
        else:
            yield ok(name, found)
        for remark in remarks.taken():
            yield warning(name, remark, "no live run is refused for it; the message says more")


def _look(
    settings: Settings,
    jobs: Sequence[Collector[Any, Any]],
    database: Database,
    connection: Connection,
    log: logging.Logger,
) -> Look:
    """What guards look at for some of the jobs."""
    deletes = {settings.bucket_of(job.name)[0] for job in jobs if job.deletes_bytes}
    return Look(
        settings=settings,
        touches=frozenset().union(*(job.touches for job in jobs)),
        database=database,
        connection=connection,
        buckets=tuple(
            BucketAt(entry, bucket, make_client(bucket), deletes=entry in deletes)
            for entry, bucket in settings.buckets.items()
        ),
        log=log,
    )


def _refuses(guard: Guard, at: Look) -> bool:
    if not guard.protects & at.touches:
        return False
    try:
        asked(guard, at)
    except Refusal:
        return True
    return False


def _probed(at: Look) -> Iterator[Finding]:
    """Try each server; what was found the guard says, and what was not is said here."""
    for bucket in (each for each in at.buckets if each.deletes):
        name, place = f"probe {bucket.entry}", adoption_target_of(at, bucket)
        try:
            check(place)
            found = tried(place)
        except AdoptionRefused:
            yield skipped(name, "only a bucket that belongs to this database is tried")
        except ProbeFailed as error:
            yield failed(name, str(error), "do what the message says, and probe again")
        else:
            if found.leftover is not None:
                yield warning(
                    name,
                    f"the probe's object {found.leftover!r} could not be removed",
                    "remove it by hand; in a bucket that keeps versions that takes "
                    "s3:ListBucketVersions and s3:DeleteObjectVersion",
                )


class _Remarks(logging.Handler):
    """What guards say besides: findings of the doctor, where a run has its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.log = logging.Logger("filejobs_dagster.doctor.door", logging.WARNING)  # noqa: LOG001
        self.log.addHandler(self)
        self._lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line."""
        self._lines.append(record.getMessage())

    def taken(self) -> list[str]:
        """What was said since the last time."""
        lines, self._lines = self._lines, []
        return lines
