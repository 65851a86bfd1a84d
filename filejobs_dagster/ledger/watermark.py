"""How far the mirror has read in the scheduler's run storage."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

OVERLAP = timedelta(minutes=10)
"""Read again, because run records carry the clocks of the machines that wrote them."""

WIDE_SCAN_EVERY = timedelta(days=1)

_MOVE = """
INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)
VALUES (%(installation)s, %(read_until)s, %(read_until)s)
ON CONFLICT (installation) DO UPDATE
   SET read_until   = greatest(mirror_watermark.read_until, excluded.read_until),
       wide_scan_at = CASE WHEN %(wide)s THEN excluded.wide_scan_at
                           ELSE mirror_watermark.wide_scan_at END
"""


@dataclass(frozen=True)
class Scan:
    """What to read next.

    Attributes:
        updated_after: Runs updated later than this, or None for all that the scheduler has.
        begun_at: The database's clock now; where the watermark goes when all was recorded.
    """

    updated_after: datetime | None
    begun_at: datetime

    @property
    def wide(self) -> bool:
        """True when everything is read."""
        return self.updated_after is None


def next_scan(cursor: psycopg.Cursor[TupleRow], installation: str) -> Scan:
    """Decide what to read: everything on the first call and once a day, else the newest."""
    now = database_now(cursor)
    cursor.execute(
        "SELECT read_until, wide_scan_at FROM mirror_watermark WHERE installation = %s",
        (installation,),
    )
    row = cursor.fetchone()
    if row is None or row[1] < now - WIDE_SCAN_EVERY:
        return Scan(None, now)
    return Scan(row[0] - OVERLAP, now)


def move_watermark(cursor: psycopg.Cursor[TupleRow], installation: str, scan: Scan) -> None:
    """Remember that every run up to the beginning of this scan has its record."""
    cursor.execute(
        _MOVE,
        {"installation": installation, "read_until": scan.begun_at, "wide": scan.wide},
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
