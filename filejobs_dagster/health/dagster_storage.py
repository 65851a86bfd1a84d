"""Dagster's own storage in PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from filejobs_dagster.health.answer import no, yes
from filejobs_dagster.ledger.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from psycopg.rows import TupleRow

    from filejobs_dagster.health.answer import Answer

_DRIVERS = ("postgresql+psycopg2://", "postgresql+psycopg://")


@dataclass(frozen=True)
class DagsterStorage:
    """Where it is.

    Attributes:
        url: As dagster.yaml has it; a driver's name in it is left out.
        timeout: For connecting and for a statement.
    """

    url: str = field(repr=False)
    timeout: timedelta

    @contextmanager
    def cursor(self) -> Iterator[psycopg.Cursor[TupleRow]]:
        """A cursor in a read-only transaction.

        Raises:
            psycopg.Error: It cannot be reached, or does not answer in time.
        """
        url = self.url
        for driver in _DRIVERS:
            if url.startswith(driver):
                url = f"postgresql://{url[len(driver) :]}"
        seconds = self.timeout.total_seconds()
        address = make_conninfo(url, connect_timeout=max(2, round(seconds)))
        with psycopg.connect(address, application_name="filejobs health") as connection:
            connection.read_only = True
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('statement_timeout', %s, true)", (f"{round(seconds)}s",)
                )
                yield cursor

    def why(self, error: psycopg.Error) -> str:
        """One line about a failure, without the address and its password."""
        return sanitize(" ".join(str(error).split()), known=(self.url, *self._password()))

    def _password(self) -> list[str]:
        try:
            password = conninfo_to_dict(self.url).get("password")
        except psycopg.ProgrammingError:
            return []
        return [str(password)] if password else []


def dagster_storage(storage: DagsterStorage) -> Answer:
    """Ask whether Dagster's tables are there and can be read."""
    try:
        with storage.cursor() as cursor:
            cursor.execute("SELECT to_regclass('runs') IS NOT NULL")
            row = cursor.fetchone()
    except psycopg.Error as error:
        return no(f"Dagster's storage does not answer: {storage.why(error)}")
    if row is None or not row[0]:
        return no("Dagster's storage answers, and has no table `runs` yet")
    return yes("Dagster's storage answers")
