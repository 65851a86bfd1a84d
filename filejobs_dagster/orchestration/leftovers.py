"""Everything that Dagster keeps of one run.

`DagsterInstance.delete_run` takes the run's row and then its events, so a process that is killed
in between leaves events that no run leads to. It leaves what the run printed, in the compute
logs, and the run's directory. With SQLite it empties the database file in which it keeps the
run's events, and leaves the file.
"""

import shutil
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage

_FILES_OF_A_DATABASE = ("", "-wal", "-shm", "-journal")
"""What SQLite appends to the names of the files in which it keeps one database."""


def remove_files(instance: dg.DagsterInstance, run_id: str) -> None:
    """Remove what the run printed, wherever it is kept, and its directory on this machine.

    Raises:
        OSError: A file could not be removed.
        Exception: Whatever the client of the compute logs' storage raises.
    """
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


def _remove_database(path: Path) -> None:
    for suffix in _FILES_OF_A_DATABASE:
        path.with_name(path.name + suffix).unlink(missing_ok=True)
