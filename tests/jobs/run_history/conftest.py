"""A Dagster instance on PostgreSQL beside a migrated database, and runs of any age in it."""

from __future__ import annotations

import logging
import shutil
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from filejobs_dagster.jobs import run_history
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.history import DagsterHistory
from filejobs_dagster.orchestration.reconcile import reconcile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.jobs.run_history import History
    from filejobs_dagster.ledger.outcome import Mode, Outcome
    from tests.installation import Installation

CHECKOUT = Path(__file__).parents[3]
JOB = "upload_reservations"
MONTH = timedelta(days=30)
SUCCESS = dg.DagsterRunStatus.SUCCESS


@pytest.fixture(scope="session")
def dagster_template(
    postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A database in which Dagster has made its tables; making them takes longer than copying."""
    name = "dagster_template"
    home = tmp_path_factory.mktemp("dagster_template")
    shutil.copy(CHECKOUT / "dagster.yaml", home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FILEJOBS_DAGSTER_URL", postgres_server.create_database(name))
        with dg.DagsterInstance.from_config(str(home)) as instance:
            assert instance.get_runs_count() == 0
    return name


@dataclass
class World:
    """An installation, and the Dagster instance that runs it."""

    installation: Installation
    instance: dg.DagsterInstance
    dagster_url: str
    pruned_by: set[str] = field(default_factory=set)

    # --- runs in Dagster ----------------------------------------------------------------------

    def add(
        self,
        age: timedelta = 3 * MONTH,
        *,
        status: dg.DagsterRunStatus = SUCCESS,
        job: str = JOB,
        installation: str = "test",
        more: Mapping[str, str] | None = None,
    ) -> str:
        """A run that ended `age` ago, with an event and something that it printed."""
        run_id = str(uuid.uuid4())
        run = dg.DagsterRun(
            job_name=job,
            run_id=run_id,
            status=status,
            tags={tags.INSTALLATION: installation, **(more or {})},
        )
        self.instance.run_storage.add_run(run)
        self.instance.report_engine_event("an event", run)
        printed = Path(self.instance.storage_directory()) / run_id / "compute_logs" / "x.out"
        printed.parent.mkdir(parents=True)
        printed.write_text("printed")
        ended = datetime.now(timezone.utc) - age
        self.dagster(
            "UPDATE runs SET create_timestamp = %(at)s, update_timestamp = %(at)s,"
            " start_time = %(seconds)s, end_time = %(seconds)s WHERE run_id = %(run_id)s",
            {"at": ended.replace(tzinfo=None), "seconds": ended.timestamp(), "run_id": run_id},
        )
        return run_id

    def recorded(self, age: timedelta = 3 * MONTH, **more: Any) -> str:
        """A run that ended `age` ago and stands in job_run; the reconciler saw it at that time."""
        run_id = self.add(age, **more)
        self.reconcile()
        return run_id

    def backfill(self, backfill_id: str, status: BulkActionStatus) -> None:
        self.instance.add_backfill(
            PartitionBackfill(
                backfill_id=backfill_id,
                status=status,
                from_failure=False,
                tags={},
                backfill_timestamp=0.0,
            )
        )

    def reconcile(self) -> list[str]:
        """Let the reconciler look at everything; the runs that it recorded, but for our own."""
        done = reconcile(self.instance, self.installation.settings(), silence=timedelta(0))
        # What it has read once it does not read again soon; these tests want every run looked at.
        self.installation.execute("DELETE FROM mirror_watermark")
        return [run_id for run_id in done.recorded if run_id not in self.pruned_by]

    def known(self) -> set[str]:
        return {run.run_id for run in self.instance.get_runs()}

    def left_of(self, run_id: str) -> list[str]:
        """Every trace of a run in Dagster's database and on its disk."""
        found = [
            f"{table}: {count}"
            for table in ("runs", "run_tags", "event_logs")
            if (count := self._count(table, run_id))
        ]
        root = Path(self.instance.root_directory)
        return found + [str(path) for path in root.rglob("*") if run_id in str(path)]

    def _count(self, table: str, run_id: str) -> int:
        [(count,)] = self.dagster(f"SELECT count(*) FROM {table} WHERE run_id = %s", (run_id,))
        return int(count)

    def dagster(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.dagster_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    # --- our own tables -----------------------------------------------------------------------

    def records(self) -> set[str]:
        """The runs in job_run, but for our own."""
        return {row["run_id"] for row in self.installation.records()} - self.pruned_by

    def age_progress(self, age: timedelta = 3 * MONTH) -> None:
        self.installation.execute(
            "UPDATE job_progress SET closed_at = closed_at - %s WHERE closed_at IS NOT NULL", (age,)
        )

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The bodies of the audit events of one kind, in order."""
        rows = self.installation.execute(
            "SELECT body::jsonb FROM audit_event WHERE body::jsonb ->> 'kind' = %s ORDER BY seq",
            (kind,),
        )
        return [row[0] for row in rows]

    # --- the job ------------------------------------------------------------------------------

    @property
    def history(self) -> DagsterHistory:
        return DagsterHistory(self.instance, "test")

    def prune(
        self,
        *,
        mode: Mode = "live",
        keep: timedelta = MONTH,
        history: History | None = None,
        **limits: Any,
    ) -> Outcome:
        identity = RunIdentity(
            run_id=str(uuid.uuid4()),
            installation="test",
            job="run_history",
            mode=mode,
            trigger=Trigger("schedule"),
            holder="the test",
        )
        self.pruned_by.add(identity.run_id)
        request = run_history.RunHistoryRun.model_construct(keep=keep, **limits)
        return run_job(
            RunSpec(identity, pace=Intervals(final_word=timedelta(seconds=3))),
            self.installation.database,
            lambda context: run_history.run(context, request, history or self.history),
            logging.getLogger("run_history"),
            door=None,
        )


@pytest.fixture
def world(
    installation: Installation,
    postgres_server: EmbeddedPostgres,
    dagster_template: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[World]:
    name = f"dagster_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, dagster_template)
    monkeypatch.setenv("FILEJOBS_DAGSTER_URL", url)
    home = tmp_path / "dagster_home"
    home.mkdir()
    shutil.copy(CHECKOUT / "dagster.yaml", home)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        yield World(installation, instance, url)
    postgres_server.drop_database(name)
