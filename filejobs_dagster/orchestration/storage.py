"""Where Dagster's instance keeps its runs: PostgreSQL, or a folder of a checkout that only tries.

`storage.postgres` of Dagster's own ends in a traceback where the variable with the address is not
set. A server must not start without it: its runs would stand where nobody looks. A person who types
`dagster dev` in a fresh checkout has no server yet, and no DAGSTER_HOME either.
"""

import os
import signal
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
