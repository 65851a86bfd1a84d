"""One run, one record, whoever mirrors it and however many do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.ledger.mirror import FinishedRun, mirror
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.progress import Progress
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.prove import collector
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy
from filejobs_dagster.prove.stage import those_that, together, watch

if TYPE_CHECKING:
    import threading

    from filejobs_dagster.prove.stage import Scene, Stage

MIRRORS = 4
RUNS = 25

_SCRATCH = "CREATE TABLE careless_record (run_id text NOT NULL, job text NOT NULL)"

CHECK_THEN_INSERT = tidy(
    """
    INSERT INTO careless_record (run_id, job)
    SELECT %(run_id)s, %(job)s
     WHERE NOT EXISTS (SELECT FROM careless_record WHERE run_id = %(run_id)s)
    """
)

_CONTENT = "SELECT md5(string_agg(job_run::text, ' ' ORDER BY id)), count(*) FROM job_run"


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as scene:
        runs = _finished_runs(scene)
        return Evidence(_careless(scene, runs), _guarded(scene, runs))


def _finished_runs(scene: Scene) -> list[FinishedRun]:
    """Runs that have said their final word and have no record yet."""
    runs = []
    with scene.connect("runs") as connection, scene.database.transaction(connection) as cursor:
        now = database_now(cursor)
        for _ in range(RUNS):
            identity = collector.new_run()
            progress = Progress(identity)
            progress.open(cursor, {"window": {"covers": "everything"}})
            progress.finish(cursor, Outcome(scanned=3, acted=3))
            runs.append(
                FinishedRun(
                    run_id=identity.run_id,
                    installation=identity.installation,
                    job=identity.job,
                    ended="success",
                    trigger=identity.trigger,
                    created_at=now,
                )
            )
    return runs


def _careless(scene: Scene, runs: list[FinishedRun]) -> Side:
    scene.rows(_SCRATCH)

    def work(_: int, barrier: threading.Barrier) -> None:
        with scene.connect("careless mirror") as connection:
            for run in runs:
                with scene.database.transaction(connection) as cursor:
                    cursor.execute(
                        CHECK_THEN_INSERT.encode(), {"run_id": run.run_id, "job": run.job}
                    )
                    # Nobody has committed, so nobody sees what the others have inserted.
                    barrier.wait()

    together(MIRRORS, work)
    most, least, total = _records_per_run(scene, "careless_record")
    return Side(
        "insert unless it is there, without a lock or a unique constraint",
        CHECK_THEN_INSERT,
        (
            ("runs", RUNS),
            ("mirrors at once", MIRRORS),
            ("records", total),
            ("records of one run", f"{least} to {most}"),
        ),
        lost=most > 1,
    )


def _guarded(scene: Scene, runs: list[FinishedRun]) -> Side:
    def work(_: int, barrier: threading.Barrier) -> tuple[int, list[str]]:
        with scene.connect("mirror") as connection:
            statements = watch(connection)
            written = 0
            for run in runs:
                barrier.wait()
                written += mirror(scene.database, connection, run)
            return written, statements

    results = together(MIRRORS, work)
    most, least, total = _records_per_run(scene, "job_run")
    kept, attempts = _try_to_change(scene)
    executed = [statement for _, statements in results for statement in statements]
    return Side(
        "the project's mirror: one lock, one transaction; and the record is append-only",
        _shown(executed),
        (
            ("runs", RUNS),
            ("mirrors at once", MIRRORS),
            ("records written by each", ", ".join(str(written) for written, _ in results)),
            ("records", total),
            ("records of one run", f"{least} to {most}"),
            *attempts,
        ),
        lost=(most, least, total) != (1, 1, RUNS) or not kept,
    )


def _shown(executed: list[str]) -> str:
    # The lock is the statement that ends so; the record is the one INSERT into job_run.
    locks = [text for text in executed if text.rstrip().endswith("FOR UPDATE")]
    return those_that(
        [tidy(text) for text in [*locks, *executed]],
        *(tidy(text) for text in locks[:1]),
        "INSERT INTO job_run",
    )


def _records_per_run(scene: Scene, table: str) -> tuple[int, int, int]:
    ((most, least, total),) = scene.rows(
        "SELECT max(records), min(records), sum(records)::integer"  # noqa: S608 (two names of ours)
        f" FROM (SELECT count(*) AS records FROM {table} GROUP BY run_id) AS run"
    )
    return most, least, total


def _try_to_change(scene: Scene) -> tuple[bool, tuple[tuple[str, FactValue], ...]]:
    """Try to update, delete and truncate; tell whether every record is as it was."""
    before = scene.rows(_CONTENT)
    attempts: tuple[tuple[str, FactValue], ...] = (
        ("UPDATE job_run SET acted = 999", _attempt(scene, "UPDATE job_run SET acted = 999")),
        ("DELETE FROM job_run", _attempt(scene, "DELETE FROM job_run")),
        ("TRUNCATE job_run", _attempt(scene, "TRUNCATE job_run")),
    )
    after = scene.rows(_CONTENT)
    same = before == after
    return same, (*attempts, ("every record is as it was", same))


def _attempt(scene: Scene, statement: str) -> str:
    with scene.connect("careless hands") as connection:
        try:
            with scene.database.transaction(connection) as cursor:
                cursor.execute(statement.encode())
                return f"{cursor.rowcount} rows changed"
        except psycopg.errors.InsufficientPrivilege as refused:
            return f"refused: {refused.diag.message_primary}"


CLAIM = Claim(
    "one-record",
    "Four mirrors at once write one record per run, which nobody updates, deletes or truncates.",
    _demonstrate,
)
