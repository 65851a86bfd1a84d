"""How far the mirror has read: everything first, then an overlap, and everything once a day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.ledger.mirror import (
    OVERLAP,
    WIDE_SCAN,
    Scan,
    move_watermark,
    newest_only,
    next_scan,
    without_record,
)
from tests.ledger.records import insert_record, now

if TYPE_CHECKING:
    import psycopg

HERE, THERE = "test", "another"


def scan_of(connection: psycopg.Connection, installation: str = HERE) -> Scan:
    with connection.cursor() as cursor:
        return next_scan(cursor, installation)


def move(connection: psycopg.Connection, scan: Scan, installation: str = HERE) -> None:
    with connection.cursor() as cursor:
        move_watermark(cursor, installation, scan)


def stored(connection: psycopg.Connection) -> tuple[datetime, datetime]:
    row = connection.execute("SELECT read_until, wide_scan_at FROM mirror_watermark").fetchone()
    assert row is not None
    return row[0], row[1]


def test_the_first_call_reads_everything(connection: psycopg.Connection) -> None:
    scan = scan_of(connection)
    assert scan.wide
    assert scan.updated_after is None
    assert abs(scan.begun_at - now()) < timedelta(minutes=1)
    # Until something was recorded, the next one does, too.
    assert scan_of(connection).wide


def test_later_calls_read_again_what_overlaps(connection: psycopg.Connection) -> None:
    first = scan_of(connection)
    move(connection, first)
    second = scan_of(connection)
    assert not second.wide
    assert second.updated_after == first.begun_at - OVERLAP
    move(connection, second)
    assert scan_of(connection).updated_after == second.begun_at - timedelta(minutes=10)


def test_five_weeks_are_read_once_a_day(connection: psycopg.Connection) -> None:
    move(connection, scan_of(connection))
    for _ in range(2):
        connection.execute(
            "UPDATE mirror_watermark SET wide_scan_at = wide_scan_at - interval '25 hours'"
        )
        wide = scan_of(connection)
        assert wide.wide
        assert wide.updated_after == wide.begun_at - WIDE_SCAN
        # A narrow one that began before does not count as the wide one.
        move(connection, Scan(wide.begun_at - timedelta(hours=1), wide.begun_at, wide=False))
        assert scan_of(connection).wide
        move(connection, wide)
        assert not scan_of(connection).wide
        assert stored(connection)[1] == wide.begun_at


@pytest.mark.parametrize("wide", [True, False])
def test_it_never_moves_backwards(connection: psycopg.Connection, wide: bool) -> None:
    first = scan_of(connection)
    move(connection, first)
    earlier = first.begun_at - timedelta(hours=2)
    move(connection, Scan(None if wide else earlier, earlier, wide=wide))
    assert stored(connection)[0] == first.begun_at


def test_after_a_long_absence_the_wide_scan_begins_where_the_last_one_ended(
    connection: psycopg.Connection,
) -> None:
    move(connection, scan_of(connection))
    connection.execute(
        "UPDATE mirror_watermark SET wide_scan_at = wide_scan_at - interval '90 days',"
        " read_until = read_until - interval '90 days'"
    )
    scan = scan_of(connection)
    assert scan.wide
    assert scan.updated_after == stored(connection)[0] - OVERLAP


def test_a_wake_up_call_reads_no_more_than_the_newest(connection: psycopg.Connection) -> None:
    def newest() -> Scan:
        with connection.cursor() as cursor:
            return newest_only(cursor, HERE)

    first = newest()
    assert (first.wide, first.updated_after) == (False, first.begun_at - OVERLAP)
    move(connection, scan_of(connection))
    connection.execute(
        "UPDATE mirror_watermark SET wide_scan_at = wide_scan_at - interval '25 hours'"
    )
    later = newest()
    assert (later.wide, later.updated_after) == (False, stored(connection)[0] - OVERLAP)
    assert scan_of(connection).wide


def test_each_installation_has_its_own(connection: psycopg.Connection) -> None:
    move(connection, scan_of(connection))
    assert scan_of(connection, THERE).wide
    assert not scan_of(connection, HERE).wide


def test_looking_moves_nothing(connection: psycopg.Connection) -> None:
    connection.execute("BEGIN READ ONLY")
    assert scan_of(connection).wide
    connection.execute("COMMIT")
    assert connection.execute("SELECT count(*) FROM mirror_watermark").fetchone() == (0,)


def test_runs_without_a_record_are_named(connection: psycopg.Connection) -> None:
    recorded = insert_record(connection)
    with connection.cursor() as cursor:
        assert without_record(cursor, [recorded, "new"]) == {"new"}
        assert without_record(cursor, []) == set()


def test_a_watermark_of_the_future_is_not_believed_and_is_set_back(
    connection: psycopg.Connection,
) -> None:
    ahead = now() + timedelta(days=30)
    move(connection, Scan(None, ahead, wide=True))
    with connection.cursor() as cursor:
        newest = newest_only(cursor, HERE).updated_after
    assert newest is not None
    assert newest < now()
    scan = scan_of(connection)
    assert (scan.updated_after, scan.wide) == (None, True)
    move(connection, scan)
    assert stored(connection) == (scan.begun_at, scan.begun_at)
