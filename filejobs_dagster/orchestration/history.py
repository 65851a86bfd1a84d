"""Dagster's storage as run_history sees it."""

import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

import dagster as dg
from dagster._cli.utils import TMP_DAGSTER_HOME_PREFIX
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.storage.event_log.schema import ConcurrencySlotsTable, PendingStepsTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.runs.schema import RunsTable
from dagster._core.storage.tags import AUTO_RETRY_RUN_ID_TAG, ROOT_RUN_ID_TAG
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage
from sqlalchemy import select, union

from filejobs_dagster.jobs.run_history import OldRun
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.runs import OVER, is_ours
from filejobs_dagster.text import sanitize_exception

# Everything that Dagster keeps of one run.
#
# `DagsterInstance.delete_run` takes the run's row and then its events, so a process that is
# killed in between leaves events that no run leads to. It leaves what the run printed, in the
# compute logs, and the run's directory. With SQLite it empties the database file in which it
# keeps the run's events, and leaves the file.

_FILES_OF_A_DATABASE = ("", "-wal", "-shm", "-journal")
"""What SQLite appends to the names of the files in which it keeps one database."""


def remove_files(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove what the run printed, wherever it is kept, and its directory on this machine.

    Raises:
        ValueError: The id leads out of the run's own directory.
        OSError: A file could not be removed.
        Exception: Whatever the client of the compute logs' storage raises.
    """
    # Whoever launches a run may choose its id, and it becomes a path here and in the log manager.
    if run_id in {"", ".", ".."} or not {"/", "\\", "\0"}.isdisjoint(run_id):
        raise ValueError(
            f"The id {run_id!r} is no name of a directory, so that removing what the run printed "
            "could remove what others have. Look at it, and remove it with `dagster run delete`."
        )
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    directory = Path(instance.storage_directory()) / run_id
    if directory.is_dir() and not directory.is_symlink():
        shutil.rmtree(directory)


def remove_rows(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove the run's events, and its own row last.

    Raises:
        Exception: Whatever the driver of Dagster's storage raises.
    """
    events = instance.event_log_storage
    events.delete_events(run_id)
    if isinstance(events, SqliteEventLogStorage):
        _remove_database(Path(events.path_for_shard(run_id)))
    instance.run_storage.delete_run(run_id)


def remove_rows_together(instance: dg.DagsterInstance, run_ids: Sequence[str]) -> bool:
    """Remove the events of several runs, and then their own rows, over one connection each.

    Dagster's storage in PostgreSQL opens a connection, and commits, for almost every statement of
    a deletion. Here the statements are the same ones; all events go in one transaction, and only
    when that has committed do the rows, in another.

    Returns:
        False when the storage is another one; nothing was removed then.

    Raises:
        Exception: Whatever the driver raises. No row of a run is gone whose events are not.
    """
    events, runs = instance.event_log_storage, instance.run_storage
    if not isinstance(events, PostgresEventLogStorage) or not isinstance(runs, PostgresRunStorage):
        return False
    if not run_ids:
        return True
    with events.index_connection() as connection:
        together = connection.execution_options(isolation_level="READ COMMITTED")
        with together.begin():
            for run_id in run_ids:
                events.delete_events_for_run(together, run_id)
    for run_id in _with_slots(events, run_ids):
        events.free_concurrency_slots_for_run(run_id)
    with runs.connect() as connection:
        connection.execute(RunsTable.delete().where(RunsTable.c.run_id.in_(run_ids)))
    return True


def _with_slots(events: PostgresEventLogStorage, run_ids: Sequence[str]) -> list[str]:
    """Those of the runs that hold a place in a pool of Dagster's, or wait for one."""
    if not events.supports_global_concurrency_limits:
        return []
    tables = (ConcurrencySlotsTable, PendingStepsTable)
    holding = union(
        *(select(table.c.run_id).where(table.c.run_id.in_(run_ids)) for table in tables)
    )
    with events.index_connection() as connection:
        return [row[0] for row in connection.execute(holding)]


def _remove_database(path: Path) -> None:
    for suffix in _FILES_OF_A_DATABASE:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


log = logging.getLogger("filejobs.run_history")

PAGE = 1000

NOT_OVER = [status for status in dg.DagsterRunStatus if status not in OVER]

_OPEN_BACKFILLS = (
    BulkActionStatus.REQUESTED,
    BulkActionStatus.CANCELING,
    BulkActionStatus.FAILING,
)


class DagsterHistory:
    """The runs of one installation in one Dagster instance."""

    def __init__(
        self, instance: dg.DagsterInstance, installation: str, secrets: tuple[str, ...] = ()
    ) -> None:
        self._instance = instance
        self._installation = installation
        self._secrets = secrets

    @property
    def lasting(self) -> bool:
        """False for an instance in memory, and for the directory that a command makes and drops."""
        if self._instance.is_ephemeral:
            return False
        root = Path(self._instance.root_directory)
        return not any(part.startswith(TMP_DAGSTER_HOME_PREFIX) for part in root.parts)

    def over(self, before: datetime) -> Iterator[Sequence[OldRun]]:
        """Pages of the installation's runs that are over and did not change since `before`."""
        page = self._page(before, None)
        while page:
            # The cursor is a run, and must still be there when it is used.
            following = self._page(before, page[-1]) if len(page) == PAGE else []
            ours = [r for r in page if is_ours(r.dagster_run, self._installation)]
            if ours:
                yield [_old_run(record) for record in ours]
            page = following

    def leaned_on(self, run_ids: Sequence[str], since: datetime) -> set[str]:
        """Those of the runs that another repeats which is not over or changed after `since`."""
        found: set[str] = set()
        for tag in (tags.PARENT_RUN, ROOT_RUN_ID_TAG):
            repeats = {tag: list(run_ids)}
            for wanted in (
                dg.RunsFilter(tags=repeats, statuses=NOT_OVER),
                dg.RunsFilter(tags=repeats, updated_after=since),
            ):
                records = self._instance.get_run_records(wanted)
                found.update(record.dagster_run.tags[tag] for record in records)
        return found

    def open_backfills(self, backfills: Iterable[str]) -> set[str]:
        """Those of the backfills that are not over."""
        found = set()
        for backfill in backfills:
            stored = self._instance.get_backfill(backfill)
            if stored is not None and stored.status in _OPEN_BACKFILLS:
                found.add(backfill)
        return found

    def not_over(self, run_ids: Sequence[str]) -> set[str]:
        """Those of the runs that the storage knows and does not call over."""
        wanted = dg.RunsFilter(run_ids=list(run_ids), statuses=NOT_OVER)
        return set(self._instance.get_run_ids(wanted))

    def remove_all(self, run_ids: Sequence[str]) -> Mapping[str, str]:
        """Remove runs with all that is kept of them, each one's own row last.

        Returns:
            Why a run could not be removed, wholly, for each such run.
        """
        failed = self._tried_on_each(run_ids, remove_files)
        without_files = [run_id for run_id in run_ids if run_id not in failed]
        if not self._rows_went_together(without_files):
            failed.update(self._tried_on_each(without_files, remove_rows))
        return failed

    def _rows_went_together(self, run_ids: Sequence[str]) -> bool:
        """Remove the rows of all in one go; False when it cannot be, or one run is in the way.

        Whatever stopped it is met again, and told, with each run by itself.
        """
        try:
            return remove_rows_together(self._instance, run_ids)
        except Exception as error:  # noqa: BLE001 (the driver of Dagster's storage, of any kind)
            log.warning(
                "%s runs could not be removed together, so each is tried by itself: %s",
                len(run_ids),
                sanitize_exception(error, known=self._secrets),
            )
            return False

    def _tried_on_each(
        self, run_ids: Sequence[str], remove: Callable[[dg.DagsterInstance, str], None]
    ) -> dict[str, str]:
        failed: dict[str, str] = {}
        for run_id in run_ids:
            try:
                remove(self._instance, run_id)
            except Exception as error:  # noqa: BLE001 (whatever keeps one run keeps no other)
                failed[run_id] = sanitize_exception(error, known=self._secrets)
        return failed

    def _page(self, before: datetime, after: dg.RunRecord | None) -> Sequence[dg.RunRecord]:
        return self._instance.get_run_records(
            dg.RunsFilter(
                statuses=list(OVER),
                tags={tags.INSTALLATION: self._installation},
                updated_before=before,
            ),
            limit=PAGE,
            ascending=True,
            cursor=None if after is None else after.dagster_run.run_id,
        )


def _old_run(record: dg.RunRecord) -> OldRun:
    run = record.dagster_run
    return OldRun(
        run_id=run.run_id,
        job=run.job_name,
        ended_at=_ended(record),
        backfill=run.tags.get(tags.BACKFILL),
        awaits_retry=run.tags.get(tags.WILL_RETRY) == "true"
        and AUTO_RETRY_RUN_ID_TAG not in run.tags,
    )


def _ended(record: dg.RunRecord) -> datetime:
    if record.end_time is not None:
        return datetime.fromtimestamp(record.end_time, timezone.utc)
    updated = record.update_timestamp
    return updated if updated.tzinfo else updated.replace(tzinfo=timezone.utc)
