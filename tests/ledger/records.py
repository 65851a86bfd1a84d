"""Runs and records as these tests need them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from filejobs_dagster.ledger.mirror import Ended, FinishedRun
from filejobs_dagster.ledger.outcome import EVERYTHING, Mode, Trigger
from filejobs_dagster.ledger.progress import Progress, RunIdentity

if TYPE_CHECKING:
    import psycopg

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Database

JOB = "upload_reservations"
INSTALLATION = "test"


def now() -> datetime:
    return datetime.now(timezone.utc)


def ago(**span: float) -> datetime:
    return now() - timedelta(**span)


class Run:
    """One run, step by step, each step in a transaction of its own."""

    def __init__(
        self, database: Database, *, mode: Mode = "live", job: str = JOB, run_id: str = ""
    ) -> None:
        self.database = database
        self.identity = RunIdentity(
            run_id=run_id or str(uuid.uuid4()),
            installation=INSTALLATION,
            job=job,
            mode=mode,
            trigger=Trigger("schedule", "every quarter"),
            holder="host 4711",
        )
        self.progress = Progress(self.identity)

    @property
    def run_id(self) -> str:
        return self.identity.run_id

    def open(self) -> Run:
        with (
            self.database.connect("run") as connection,
            self.database.transaction(connection) as cursor,
        ):
            self.progress.open(cursor, {"window": EVERYTHING.as_detail()})
        return self

    def advance(self, scanned: int, acted: int, **detail: Any) -> None:
        with (
            self.database.connect("run") as connection,
            self.database.transaction(connection) as cursor,
        ):
            self.progress.advance(cursor, scanned=scanned, acted=acted, detail=detail)

    def beat(self) -> None:
        with (
            self.database.connect("run") as connection,
            self.database.transaction(connection) as cursor,
        ):
            self.progress.beat(cursor)

    def finish(self, outcome: Outcome) -> None:
        with (
            self.database.connect("run") as connection,
            self.database.transaction(connection) as cursor,
        ):
            self.progress.finish(cursor, outcome)

    def over(self, ended: Ended, **facts: Any) -> FinishedRun:
        """What the scheduler says."""
        values: dict[str, Any] = {
            "run_id": self.run_id,
            "installation": INSTALLATION,
            "job": self.identity.job,
            "ended": ended,
            "trigger": Trigger("ui"),
            "created_at": ago(minutes=5),
            "finished_at": now(),
        }
        return FinishedRun(**(values | facts))


def records(connection: psycopg.Connection, run_id: str | None = None) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute(
            "SELECT * FROM job_run WHERE %(run_id)s::text IS NULL OR run_id = %(run_id)s"
            " ORDER BY id",
            {"run_id": run_id},
        )
        return cursor.fetchall()


def only_record(connection: psycopg.Connection, run_id: str) -> dict[str, Any]:
    (record,) = records(connection, run_id)
    return record


def progress_of(connection: psycopg.Connection, run_id: str) -> dict[str, Any]:
    with connection.cursor(row_factory=dict_row) as cursor:
        cursor.execute("SELECT * FROM job_progress WHERE run_id = %s", (run_id,))
        row = cursor.fetchone()
    assert row is not None
    return row


def insert_record(connection: psycopg.Connection, **columns: Any) -> str:
    """A row of job_run; without columns a live success just now over everything that was due."""
    finished = columns.pop("finished_at", None) or now()
    values: dict[str, Any] = {
        "run_id": str(uuid.uuid4()),
        "installation": INSTALLATION,
        "job": JOB,
        "started_at": now() if isinstance(finished, str) else finished - timedelta(seconds=1),
        "finished_at": finished,
        "outcome": "failed" if columns.get("error") is not None else "ok",
        "mode": "live",
        "scanned": 1,
        "acted": 1,
        "detail": {"window": EVERYTHING.as_detail(), "oldest_left": None},
        "error": None,
    } | columns
    values["detail"] = Jsonb(values["detail"])
    connection.execute(
        f"INSERT INTO job_run ({', '.join(values)})"
        f" VALUES ({', '.join(f'%({name})s' for name in values)})",
        values,
    )
    return str(values["run_id"])
