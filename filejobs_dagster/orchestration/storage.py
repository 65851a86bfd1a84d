"""Where Dagster's instance keeps its runs: PostgreSQL, or a folder of a checkout that only tries.

`storage.postgres` of Dagster's own ends in a traceback where the variable with the address is not
set. A server must not start without it: its runs would stand where nobody looks. A person who types
`dagster dev` in a fresh checkout has no server yet, and no DAGSTER_HOME either.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import dagster as dg
from dagster._core.storage.base_storage import DagsterStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClass, ConfigurableClassData
from dagster._utils import interrupts
from dagster_postgres import DagsterPostgresStorage

import filejobs_dagster
from filejobs_dagster.text import sanitize_exception
from filejobs_dagster.variables import VariableUnusable, variable

CHECKOUT = Path(filejobs_dagster.__file__).parents[1]
FOLDER = ".filejobs-dagster"


class InstanceStorage(DagsterStorage[dg.DagsterInstance], ConfigurableClass):
    """PostgreSQL at the address in a variable; without variable and DAGSTER_HOME, SQLite files."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """The name of the variable, as `postgres_url: {env: NAME}`: never the address itself."""
        return {"postgres_url": dg.Field({"env": str})}

    @classmethod
    def from_config_value(  # type: ignore[override]
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> DagsterStorage[dg.DagsterInstance]:
        """Open the storage.

        Raises:
            click.ClickException: There is no address, and this is not a checkout that only tries;
                Dagster's commands print its one sentence.
        """
        heed_sigterm()
        name = config_value["postgres_url"]["env"]
        try:
            url = (variable(name, os.environ) or "").strip()
        except VariableUnusable as error:
            raise click.ClickException(str(error)) from None
        if url:
            return DagsterPostgresStorage(postgres_url=url, inst_data=inst_data)
        home = os.environ.get("DAGSTER_HOME", "").strip()
        if home or not (CHECKOUT / "dagster.yaml").is_file():
            found = f" while DAGSTER_HOME is {home}" if home else ""
            raise click.ClickException(
                f"{name} is not set{found}: type `export {name}=postgresql://user:password"
                "@host:5432/dagster` with the address of the database that Dagster may use."
            )
        # Not Dagster's temporary folder: no process of another command would find the runs there,
        # and which folder that is no storage is told.
        return DagsterSqliteStorage(str(CHECKOUT / FOLDER))


def heed_sigterm() -> None:
    """Let SIGTERM end a server that a script has started with `&`.

    Such a process begins with SIGINT ignored, and Dagster handles SIGTERM as it finds SIGINT: at
    its start, and again after each piece of work that it shields, of which loading this is one.
    """
    interrupts.setup_interrupt_handlers = _as_dagster_does_and_never_ignored
    if threading.current_thread() is threading.main_thread():
        _never_ignored()


_as_dagster_does = interrupts.setup_interrupt_handlers


def _as_dagster_does_and_never_ignored() -> None:
    _as_dagster_does()
    _never_ignored()


def _never_ignored() -> None:
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


BETWEEN_LOOKS = 5.0
"""Seconds until a code server that could not write down how a run ended tries again."""

_LOOK = "_check_for_orphaned_runs"


def outlive_outages() -> None:
    """Let a code server go on when Dagster's storage was away while one of its runs ended.

    The thread that looks after ended runs dies of its first error. From then on no run that is
    killed is ever told to be over, and the server, told to end, refuses runs and waits for that
    thread for ever, while it answers every look at its health. Here the thread says what it met and
    looks again; a server that was told to end does so as soon as no run of it is at work.
    """
    # Only a code server has loaded this, and it is a third of a second to load.
    module = sys.modules.get("dagster._grpc.server")
    if module is None or getattr(module, "filejobs_outlives", False):
        return
    api = module.DagsterApiServer
    look = getattr(api, _LOOK)

    def look_and_go_on(server: Any) -> None:
        try:
            look(server)
        except Exception as error:  # noqa: BLE001 (whatever it is, the thread must not die of it)
            _go_on(server, error)

    setattr(api, _LOOK, look_and_go_on)
    module.filejobs_outlives = True  # type: ignore[attr-defined]


def _go_on(server: Any, error: Exception) -> None:
    told_to_end = server._shutdown_once_executions_finish_event  # noqa: SLF001 (Dagster's)
    if not told_to_end.is_set():
        said = sanitize_exception(error, limit=500)
        server._logger.error(  # noqa: SLF001 (one line, and no trace of libraries)
            "How a run ended could not be written down; tried again in %.0f seconds: %s",
            BETWEEN_LOOKS,
            said,
        )
        told_to_end.wait(BETWEEN_LOOKS)
    elif not multiprocessing.active_children():
        server._server_termination_event.set()  # noqa: SLF001 (Dagster's)
