"""Everything that Dagster keeps of one run.

`DagsterInstance.delete_run` takes the run's row and then its events, so a process that is killed
in between leaves events that no run leads to. It leaves what the run printed, in the compute
logs, and the run's directory. With SQLite it empties the database file in which it keeps the
run's events, and leaves the file.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log.schema import ConcurrencySlotsTable, PendingStepsTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._core.storage.runs.schema import RunsTable
from dagster_postgres import PostgresEventLogStorage, PostgresRunStorage
from sqlalchemy import select, union

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
