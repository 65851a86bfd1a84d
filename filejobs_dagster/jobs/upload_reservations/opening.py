"""Opening the source of reservations that the settings name."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.lifecycle import closing_for_sure
from filejobs_dagster.jobs.upload_reservations.file_table import FileTable
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.jobs.upload_reservations.settings import ReservationSourceSettings
    from filejobs_dagster.jobs.upload_reservations.source import ReservationSource
    from filejobs_dagster.postgres.connect import Database, Reachable


@contextmanager
def opened_source(
    settings: ReservationSourceSettings | None, database: Database, connection: Reachable
) -> Iterator[ReservationSource]:
    """The reservations of the settings, with a connection of their own where they need one.

    Args:
        settings: `jobs.upload_reservations.source`, or None for the table `file`.
        database: The project's own.
        connection: An open connection to it, or what gives the one that is open by now.

    Raises:
        DatabaseUnavailable: The source's own database cannot be reached.
    """
    if settings is None:
        yield FileTable(database, connection)
    elif settings.database is None:
        yield OperatorTable(settings, database, connection)
    else:
        other = database.elsewhere(settings.database.url.reveal())
        with closing_for_sure(other.connect(f"reservations {settings.name}")) as there:
            yield OperatorTable(settings, other, there, records=(database, connection))
