"""A Dagster instance of a test's own, with a folder and real storage, in an eighth of the time."""

from __future__ import annotations

import functools
import shutil
import tempfile
from contextlib import contextmanager
from sqlite3 import Connection
from typing import TYPE_CHECKING

import dagster as dg
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alembic.config import Config


@contextmanager
def dagster_instance() -> Iterator[dg.DagsterInstance]:
    """Like `dagster.instance_for_test`; the tables are copied where that creates them each time."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        shutil.copytree(_template().name, home, dirs_exist_ok=True)
        with dg.instance_for_test(temp_dir=home) as instance:
            yield instance


@functools.cache
def _template() -> tempfile.TemporaryDirectory[str]:
    home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
    with dg.instance_for_test(temp_dir=home.name) as instance:
        assert instance.get_runs_count() == 0
    return home


@event.listens_for(Engine, "connect")
def _do_not_wait_for_the_disk(connection: object, _record: object) -> None:
    """What a test's SQLite holds need not survive a loss of power."""
    if isinstance(connection, Connection):
        connection.execute("PRAGMA synchronous = OFF")


_read = ScriptDirectory.from_config
_known: dict[tuple[str | None, ...], ScriptDirectory] = {}


def _scripts(config: Config) -> ScriptDirectory:
    """Dagster's migrations, which it reads again for every storage and every run, read once."""
    place = (config.config_file_name, config.get_main_option("script_location"))
    if place not in _known:
        _known[place] = _read(config)
    return _known[place]


ScriptDirectory.from_config = _scripts  # type: ignore[method-assign]
