"""Opening the sources of reservations that the settings name."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.lifecycle import closing_for_sure
from filejobs_dagster.jobs.upload_reservations.file_table import FileTable
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from filejobs_dagster.jobs.upload_reservations.file_table import ReservationSource
    from filejobs_dagster.jobs.upload_reservations.settings import (
        ReservationSourceSettings,
        UploadReservationsSettings,
    )
    from filejobs_dagster.postgres.connect import Database, Reachable
    from filejobs_dagster.settings.tables import RowRuleSettings, TableSettings


@contextmanager
def opened_sources(
    settings: UploadReservationsSettings, database: Database, connection: Reachable
) -> Iterator[list[ReservationSource]]:
    """The reservations of the settings, with connections of their own where they need one.

    Args:
        settings: Of the job. Where it names no table of the operator's, it is the table `file`.
        database: The project's own.
        connection: An open connection to it, or what gives the one that is open by now.

    Raises:
        DatabaseUnavailable: A source's own database cannot be reached.
    """
    wanted: list[tuple[TableSettings | ReservationSourceSettings, timedelta]] = [
        (table, table.after) for table in settings.tables
    ]
    if settings.source is not None:
        wanted.append((settings.source, timedelta(0)))
    if not wanted:
        yield [FileTable(database, connection, leave_out=settings.rows_left_out)]
        return
    with opened_tables(wanted, database, connection, leave_out=settings.rows_left_out) as tables:
        yield [*tables]


@contextmanager
def opened_tables(
    wanted: Iterable[tuple[TableSettings | RowRuleSettings | ReservationSourceSettings, timedelta]],
    database: Database,
    connection: Reachable,
    *,
    leave_out: Sequence[str] | None = None,
) -> Iterator[list[OperatorTable]]:
    """Tables of the operator's, each with how long after its time a row is due.

    Args:
        wanted: The tables.
        database: The project's own.
        connection: An open connection to it, or what gives the one that is open by now.
        leave_out: Columns that the event of a row leaves out; None where it holds no row.

    Raises:
        DatabaseUnavailable: A database of theirs cannot be reached.
    """
    with ExitStack() as open_until_the_end:
        tables: list[OperatorTable] = []
        for settings, after in wanted:
            if settings.database is None:
                tables.append(
                    OperatorTable(settings, database, connection, after=after, leave_out=leave_out)
                )
                continue
            other = database.elsewhere(settings.database.url.reveal())
            there = open_until_the_end.enter_context(
                closing_for_sure(other.connect(f"rows of {settings.name}"))
            )
            records = (database, connection)
            tables.append(
                OperatorTable(
                    settings, other, there, after=after, records=records, leave_out=leave_out
                )
            )
        yield tables
