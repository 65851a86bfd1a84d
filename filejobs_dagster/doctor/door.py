"""What every live run must prove, looked at by the very code that a run meets."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.door.door import asked
from filejobs_dagster.door.guard import BucketAt, Look, Refusal
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import Settings


def check_door(settings: Settings, database: Database, connection: Connection) -> Iterator[Finding]:
    """Let each guard look that protects a job of the settings.

    Args:
        settings: All of them.
        database: Where the project's tables are.
        connection: An open connection to it.
    """
    jobs = [BY_NAME[name] for name in settings.jobs]
    live = [job for job in jobs if settings.jobs[job.name].mode == "live"]
    deletes = {settings.bucket_of(job.name)[0] for job in jobs if job.deletes_bytes}
    remarks = _Remarks()
    at = Look(
        settings=settings,
        touches=frozenset().union(*(job.touches for job in jobs)),
        database=database,
        connection=connection,
        buckets=tuple(
            BucketAt(entry, bucket, make_client(bucket), deletes=entry in deletes)
            for entry, bucket in settings.buckets.items()
        ),
        log=remarks.log,
    )
    for guard in GUARDS:
        if not guard.protects & at.touches:
            continue
        check = f"door {guard.name}"
        try:
            found = asked(guard, at)
        except Refusal as refusal:
            meets = any(guard.protects & job.touches for job in live)
            finding = failed if meets else warning
            advice = refusal.advice or "until then no live run begins"
            yield finding(check, f"a live run would be refused: {refusal.found}", advice)
        else:
            yield ok(check, found)
        for remark in remarks.taken():
            yield warning(check, remark, "no live run is refused for it; the message says more")


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
