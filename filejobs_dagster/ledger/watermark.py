"""How far the mirror has read in the scheduler's run storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.ledger.words import AHEAD
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

OVERLAP = timedelta(minutes=10)
"""Read again, because run records carry the clocks of the machines that wrote them."""

WIDE_SCAN_EVERY = timedelta(days=1)

WIDE_SCAN = timedelta(days=35)
"""How far back the daily scan looks for a run that was missed, whatever the reason."""

_MOVE = """
INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)
VALUES (%(installation)s, %(read_until)s, %(read_until)s)
ON CONFLICT (installation) DO UPDATE
   SET read_until   = CASE WHEN mirror_watermark.read_until > clock_timestamp() + %(ahead)s
                           THEN excluded.read_until
                           ELSE greatest(mirror_watermark.read_until, excluded.read_until) END,
       wide_scan_at = CASE WHEN %(wide)s THEN excluded.wide_scan_at
                           ELSE mirror_watermark.wide_scan_at END
"""


@dataclass(frozen=True)
class Scan:
    """What to read next.

    Attributes:
        updated_after: Runs updated later than this, or None for all that the scheduler has.
        begun_at: The database's clock now; where the watermark goes when all was recorded.
        wide: True when more is read than the newest.
    """

    updated_after: datetime | None
    begun_at: datetime
    wide: bool


def next_scan(cursor: psycopg.Cursor[TupleRow], installation: str) -> Scan:
    """Decide what to read: everything on the first call, five weeks once a day, else the newest."""
    now = database_now(cursor)
    row = _watermark(cursor, installation)
    if row is None:
        return Scan(None, now, wide=True)
    read_until, wide_scan_at = row
    if wide_scan_at < now - WIDE_SCAN_EVERY:
        return Scan(min(read_until - OVERLAP, now - WIDE_SCAN), now, wide=True)
    return Scan(read_until - OVERLAP, now, wide=False)


def newest_only(cursor: psycopg.Cursor[TupleRow], installation: str) -> Scan:
    """Decide what to read when woken up by one run: never more than the newest."""
    now = database_now(cursor)
    row = _watermark(cursor, installation)
    since = now - OVERLAP if row is None else row[0] - OVERLAP
    return Scan(since, now, wide=False)


def _watermark(
    cursor: psycopg.Cursor[TupleRow], installation: str
) -> tuple[datetime, datetime] | None:
    cursor.execute(
        "SELECT read_until, wide_scan_at FROM mirror_watermark WHERE installation = %s",
        (installation,),
    )
    row = cursor.fetchone()
    if row is None or max(row) > database_now(cursor) + AHEAD:
        # Written by a clock that was ahead: how far was really read, nobody knows.
        return None
    return row[0], row[1]


def move_watermark(cursor: psycopg.Cursor[TupleRow], installation: str, scan: Scan) -> None:
    """Remember that every run up to the beginning of this scan has its record."""
    cursor.execute(
        _MOVE,
        {
            "installation": installation,
            "read_until": scan.begun_at,
            "wide": scan.wide,
            "ahead": AHEAD,
        },
    )


def without_record(cursor: psycopg.Cursor[TupleRow], run_ids: list[str]) -> set[str]:
    """Return those of the runs that have no row in `job_run`."""
    cursor.execute(
        """
        SELECT candidate.run_id
          FROM unnest(%s::text[]) AS candidate (run_id)
         WHERE NOT EXISTS (SELECT FROM job_run WHERE job_run.run_id = candidate.run_id)
        """,
        (run_ids,),
    )
    return {row[0] for row in cursor.fetchall()}


def without_progress(cursor: psycopg.Cursor[TupleRow], run_ids: list[str]) -> set[str]:
    """Return those of the runs that have no row in `job_progress`."""
    cursor.execute(
        """
        SELECT candidate.run_id
          FROM unnest(%s::text[]) AS candidate (run_id)
         WHERE NOT EXISTS (
               SELECT FROM job_progress WHERE job_progress.run_id = candidate.run_id)
        """,
        (run_ids,),
    )
    return {row[0] for row in cursor.fetchall()}
