"""Giving every finished run its record.

The run-status sensors only wake it: their cursors move on when a body raises, skip history on the
first tick and never see a run without a code location. What is recorded here is found by looking,
with a watermark in our own database, so nothing depends on having been told.
"""

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta

import dagster as dg
import psycopg

from filejobs_dagster.jobs.own.settings import WatchedDagsterSettings
from filejobs_dagster.ledger.mirror import (
    SILENCE,
    FinishedRun,
    OpenRun,
    closed_for_long,
    mirror,
    move_watermark,
    newest_only,
    next_scan,
    open_runs,
    without_progress,
    without_record,
)
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.progress import Progress, RunIdentity
from filejobs_dagster.ledger.reports import begin
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.runs import (
    OVER,
    finished_run,
    finished_run_ids,
    is_ours,
    last_change,
    moment,
    records_of,
    started_run_ids,
    watched_runs,
)
from filejobs_dagster.postgres.connect import Connection, Database, database_now
from filejobs_dagster.settings import Settings, known_secrets
from filejobs_dagster.text import sanitize_exception

BUDGET = timedelta(seconds=40)
"""A sensor's tick may take 60 seconds; the next one goes on where this one stopped."""

CHUNK = 100

PATIENCE = 5
"""How many times the silence a run may take from its start in Dagster to its first sign of life."""

HOLDS_NO_LOCK = (
    "filejobs: the run holds no lock any more, so its process is gone. How it ended stands in "
    "job_run."
)

NEVER_BEGAN = (
    "filejobs: Dagster calls the run started, and it gave no sign of life: its process is gone, or "
    "it will stop by itself without having touched anything."
)


@dataclass
class Reconciled:
    """What one call did.

    Attributes:
        recorded: Runs that got their record now, in order.
        failed: Why a run could not be recorded, by run.
        complete: True when nothing was left for the next call.
        ended: Runs that Dagster still called started and that were ended, because they are lost.
    """

    recorded: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    complete: bool = True
    ended: list[str] = field(default_factory=list)


class CouldNotRecord(Exception):
    """Some finished runs have no record yet; the rest was recorded."""


def reconcile(
    instance: dg.DagsterInstance,
    settings: Settings,
    *,
    budget: timedelta = BUDGET,
    silence: timedelta = SILENCE,
    woken: bool = False,
) -> Reconciled:
    """Record every finished run of the installation that `job_run` lacks, oldest first.

    One run that cannot be recorded does not stand in the way of the others; it is tried again by
    the next call, since the watermark stays.

    Args:
        instance: Where Dagster keeps its runs.
        settings: Whose runs.
        budget: Begin no further run after this.
        silence: How long a run must be silent before it is called lost.
        woken: True when one run's end is the reason of the call: only the newest are read, and
            the watermark stays for the call that looks by itself.

    Raises:
        DatabaseUnavailable: Our database is away; nothing is lost, call again.
    """
    return _Reconciliation(instance, settings, budget, silence, woken=woken).run()


class _Reconciliation:
    def __init__(
        self,
        instance: dg.DagsterInstance,
        settings: Settings,
        budget: timedelta,
        silence: timedelta,
        *,
        woken: bool,
    ) -> None:
        self._instance = instance
        self._woken = woken
        self._settings = settings
        self._installation = settings.installation
        self._database = Database.of(settings.database)
        self._secrets = known_secrets(settings)
        self._silence = silence
        self._ends_at = time.monotonic() + budget.total_seconds()
        self._done = Reconciled()

    def run(self) -> Reconciled:
        with self._database.connect("mirror") as connection:
            if not self._woken:
                self._record_watched(connection)
                self._record_open(connection)
                self._end_leftovers(connection)
            self._record_finished(connection)
        return self._done

    def _over_budget(self) -> bool:
        if time.monotonic() < self._ends_at:
            return False
        self._done.complete = False
        return True

    def _record_finished(self, connection: Connection) -> None:
        """Runs that Dagster calls over."""
        with self._database.transaction(connection, read_only=True) as cursor:
            choose = newest_only if self._woken else next_scan
            scan = choose(cursor, self._installation)
        lacking: list[str] = []
        for page in finished_run_ids(self._instance, self._installation, scan.updated_after):
            with self._database.transaction(connection, read_only=True) as cursor:
                missing = without_record(cursor, page)
            lacking.extend(run_id for run_id in page if run_id in missing)
            if self._over_budget():
                break
        lacking.reverse()
        for start in range(0, len(lacking), CHUNK):
            self._record_chunk(connection, lacking[start : start + CHUNK])
        if self._done.complete and not self._done.failed and not self._woken:
            with self._database.transaction(connection) as cursor:
                move_watermark(cursor, self._installation, scan)

    def _record_watched(self, connection: Connection) -> None:
        """Runs of other code locations that the settings only watch: what Dagster says of them."""
        watched = {
            name: job
            for name, job in self._settings.jobs.items()
            if isinstance(job, WatchedDagsterSettings)
        }
        if not watched:
            return
        with self._database.transaction(connection, read_only=True) as cursor:
            # Beside the runs of our own: one that begins long before it ends is found when it ends.
            since = next_scan(cursor, self._installation).updated_after
        for name, job in watched.items():
            for record in watched_runs(self._instance, job.dagster_job, job.code_location, since):
                try:
                    self._watch(connection, name, job, record)
                except psycopg.Error as error:
                    if connection.closed:
                        raise
                    said = sanitize_exception(error, known=self._secrets)
                    self._done.failed[record.dagster_run.run_id] = said
                if self._over_budget():
                    return

    def _watch(
        self, connection: Connection, name: str, job: WatchedDagsterSettings, record: dg.RunRecord
    ) -> None:
        run = record.dagster_run
        with self._database.transaction(connection, read_only=True) as cursor:
            if not without_record(cursor, [run.run_id]):
                return
        finished = finished_run(self._instance, record, self._installation, self._secrets)
        identity = RunIdentity(
            run_id=run.run_id,
            installation=self._installation,
            job=name,
            mode="live",
            trigger=tags.trigger_of(run.tags),
            holder=f"Dagster's job {job.dagster_job}",
        )
        begin(
            self._database, connection, identity, job.max_runtime,
            started_at=moment(record.start_time) or record.create_timestamp,
        )  # fmt: skip
        if finished is None:
            return
        if finished.ended != "success":
            why = finished.error or f"Dagster calls it {run.status.value}."
            outcome = Outcome(error=why, detail={"ended": finished.ended})
        else:
            outcome = Outcome(detail={"swept": True})
        with self._database.transaction(connection) as cursor:
            # Dagster's time: heard of a week late, a success is a week old.
            Progress(identity).finish(
                cursor, outcome.sanitized(self._secrets), finished.finished_at
            )
        self._mirror(connection, replace(finished, job=name))

    def _record_chunk(self, connection: Connection, run_ids: list[str]) -> None:
        for record in records_of(self._instance, run_ids):
            if is_ours(record.dagster_run, self._installation):
                self._record(connection, record)
            if self._over_budget():
                return

    def _record(self, connection: Connection, record: dg.RunRecord) -> None:
        run = finished_run(self._instance, record, self._installation, self._secrets)
        if run is not None:
            self._mirror(connection, run)

    def _record_open(self, connection: Connection) -> None:
        """Runs that said their final word or were lost, and that Dagster does not call over."""
        for run in open_runs(self._database, connection, self._installation, silence=self._silence):
            if run.final or run.lost:
                self._record_one_open(connection, run)
            if self._over_budget():
                return

    def _record_one_open(self, connection: Connection, run: OpenRun) -> None:
        record = self._instance.get_run_record_by_id(run.run_id)
        if record is not None and not is_ours(record.dagster_run, self._installation):
            # One of another code location is only watched: it is theirs to end.
            record = None
        if record is not None and record.dagster_run.status in OVER:
            self._record(connection, record)
        elif record is None:
            self._mirror(connection, self._by_itself(run, known=False))
        elif (run.lost or run.abandoned) and self._mirror(
            connection, self._by_itself(run, known=True)
        ):
            # Only then: a run that has shown itself meanwhile gets no record, and goes on.
            self._end_in_dagster(record.dagster_run)

    def _end_leftovers(self, connection: Connection) -> None:
        """End runs that Dagster believes at work and that are not: they block the queue.

        Their record stands, or they never came as far as a row of progress. The second kind was
        killed together with the code server while it started. Were one of them only slow, it would
        find its record written when it opens its row, and stop.
        """
        started = started_run_ids(self._instance, self._installation)
        over = closed_for_long(self._database, connection, started, silence=self._silence)
        for run_id in over:
            run = self._instance.get_run_by_id(run_id)
            if run is not None:
                self._end_in_dagster(run)
        for run in self._never_opened(connection, started):
            self._end_in_dagster(run, NEVER_BEGAN)

    def _never_opened(self, connection: Connection, started: list[str]) -> list[dg.DagsterRun]:
        """Those of the runs that have had no row of progress for `PATIENCE` times the silence."""
        with self._database.transaction(connection, read_only=True) as cursor:
            now = database_now(cursor)
            unopened = without_progress(cursor, started)
        before = now - PATIENCE * self._silence
        return [
            record.dagster_run
            for record in records_of(self._instance, sorted(unopened))
            if is_ours(record.dagster_run, self._installation) and last_change(record) < before
        ]

    def _by_itself(self, run: OpenRun, *, known: bool) -> FinishedRun:
        """What is to be said of a run when Dagster says nothing, or nothing true any more."""
        return FinishedRun(
            run_id=run.run_id,
            installation=self._installation,
            job=run.job,
            ended="lost" if run.lost else "unseen",
            trigger=run.trigger,
            created_at=run.started_at,
            error="Dagster still calls it started." if known and run.lost else None,
            known_secrets=self._secrets,
        )

    def _end_in_dagster(self, run: dg.DagsterRun, said: str = HOLDS_NO_LOCK) -> None:
        """Free the queue slot of a run that is gone, for which Dagster waits until max_runtime."""
        current = self._instance.get_run_by_id(run.run_id)
        if current is None or current.status in OVER:
            return
        if current.status == dg.DagsterRunStatus.CANCELING:
            # Not failed: Dagster would start once more what somebody has cancelled.
            self._instance.report_run_canceled(current, said)
        else:
            self._instance.report_run_failed(current, said)
        self._done.ended.append(run.run_id)

    def _mirror(self, connection: Connection, run: FinishedRun) -> bool:
        try:
            written = mirror(self._database, connection, run)
        except psycopg.Error as error:
            if connection.closed:
                raise
            self._done.failed[run.run_id] = sanitize_exception(error, known=self._secrets)
            return False
        if written:
            self._done.recorded.append(run.run_id)
        return written
