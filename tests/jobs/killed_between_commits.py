"""Runs upload_reservations on tables in another database, and kills itself at a chosen point.

usage: python killed_between_commits.py POINT, with the settings in FILEJOBS_CONFIG
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))

from filejobs_dagster.book.bookkeeping import Bookkeeping
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.settings import load_settings
from tests.installation import Installation
from tests.jobs.conftest import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


class FromEnvironment(Installation):
    """The installation that the parent has written down."""

    def settings(self, environment: Any = None) -> Any:
        del environment
        return load_settings(Path(os.environ["FILEJOBS_CONFIG"]), os.environ)


class Deadly:
    """The project's database, of which the first commit is the last."""

    def __init__(self, database: Any) -> None:
        self._database = database

    @contextmanager
    def transaction(self, connection: Any) -> Iterator[Any]:
        with self._database.transaction(connection) as cursor:
            yield cursor
        die()


PREPARE: Any = OperatorTable.__init__


def with_deadly_records(self: Any, *arguments: Any, **named: Any) -> None:
    PREPARE(self, *arguments, **named)
    database, connection = self._records
    self._records = (Deadly(database), connection)


POINTS: dict[str, Callable[[], None]] = {
    "between the commits": lambda: setattr(OperatorTable, "__init__", with_deadly_records),
    "after the claim": lambda: setattr(Bookkeeping, "commit_collected", die),
}

if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    settings = load_settings(Path(os.environ["FILEJOBS_CONFIG"]), os.environ)
    bucket = settings.buckets["uploads"]
    client = make_client(bucket)
    installation = FromEnvironment(
        Path(os.environ["FILEJOBS_CONFIG"]).parent,
        os.environ["FILEJOBS_DATABASE_URL"],
        bucket.bucket,
        client,
        bucket.endpoint_url or "",
        {"unused": True},
    )
    Collector(installation, client)(batch_size=2)
