"""What a time means: zones, the hour that comes twice, dates, the exact boundary."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.jobs.table_retention.conftest import due, rule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.table_retention.conftest import Keeper

NOON = datetime(2026, 6, 15, 12, 0, tzinfo=timezone.utc)


ZONES = ("Asia/Seoul", "America/Los_Angeles", "UTC")


@pytest.fixture
def zone_of_everybody(
    monkeypatch: pytest.MonkeyPatch, keeper: Keeper
) -> Iterator[Callable[[str], None]]:
    """Sets the zone of this process, and of the database's sessions by default."""
    (name,) = keeper.execute("SELECT current_database()")[0]

    def set_zone(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        keeper.execute(f"ALTER DATABASE \"{name}\" SET TimeZone = '{zone}'")

    yield set_zone
    monkeypatch.undo()
    time.tzset()


def table(keeper: Keeper, kind: str, *times: str) -> None:
    keeper.execute(
        f"CREATE TABLE thing (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at {kind});"
        "CREATE INDEX ON thing (at, id)"
    )
    for moment in times:
        keeper.execute(f"SET TimeZone = 'UTC'; INSERT INTO thing (at) VALUES ('{moment}')")


def test_a_row_of_23_hours_stays_whatever_the_zone_of_the_process(
    keeper: Keeper, zone_of_everybody: Callable[[str], None]
) -> None:
    insert = "INSERT INTO {} (at) SELECT {} FROM unnest(ARRAY[23, 25]) AS n"
    ago = "(now() - n * interval '1 hour')"
    keeper.execute(
        "CREATE TABLE zoned (id serial PRIMARY KEY, at timestamptz);"
        "CREATE TABLE naive (id serial PRIMARY KEY, at timestamp(3))"
    )
    zoned = rule(name="zoned", table="zoned", time="at")
    naive = rule(name="naive", table="naive", time="at", time_zone="UTC")
    for zone in ZONES:
        zone_of_everybody(zone)
        keeper.execute("TRUNCATE zoned, naive RESTART IDENTITY")
        keeper.execute(insert.format("zoned", ago))
        keeper.execute(insert.format("naive", f"{ago} AT TIME ZONE 'UTC'"))
        outcome = keeper.run(zoned, naive)
        assert outcome.ok, outcome.error
        assert (keeper.ids("zoned"), keeper.ids("naive")) == ([1], [1]), zone


def test_a_naive_clock_shifts_the_cutoff_by_the_offset(keeper: Keeper) -> None:
    """CONTROL: local time of the process against a column in UTC takes 23 hours for 32."""
    table(keeper, "timestamp")
    keeper.execute(
        "INSERT INTO thing (at) VALUES ((now() - interval '23 hours') AT TIME ZONE 'UTC')"
    )
    seoul = timezone(timedelta(hours=9))
    naive = datetime.now(seoul).replace(tzinfo=None) - timedelta(days=1)
    keeper.execute("DELETE FROM thing WHERE at < %s", (naive,))
    assert keeper.ids("thing") == []


@pytest.mark.parametrize("kind", ["timestamptz", "timestamp"])
def test_exactly_at_the_cutoff_a_row_stays(keeper: Keeper, kind: str) -> None:
    table(keeper, kind, "2026-06-14 12:00:00", "2026-06-14 11:59:59.999999", "2027-01-01 00:00:00")
    declared = {} if kind == "timestamptz" else {"time_zone": "UTC"}
    assert due(keeper, rule(table="thing", time="at", **declared), NOON) == ["2"]


def test_the_hour_that_comes_twice_is_read_as_the_later_one(keeper: Keeper) -> None:
    # Berlin, 25 October 2026: at 03:00 summer time (01:00 UTC) the clock goes back to 02:00.
    table(keeper, "timestamp", "2026-10-25 01:59:00", "2026-10-25 02:30:00", "2026-10-25 03:00:00")
    one = rule(table="thing", time="at", time_zone="Europe/Berlin", delete_after="0s")

    def at(hour: int, minute: int) -> list[str]:
        return due(keeper, one, datetime(2026, 10, 25, hour, minute, tzinfo=timezone.utc))

    assert at(0, 45) == ["1"]  # 02:45 summer time: 02:30 may still be to come
    assert at(1, 20) == ["1"]  # 02:20 winter time
    assert at(1, 30) == ["1"]  # exactly then
    assert at(1, 31) == ["1", "2"]
    assert at(2, 0) == ["1", "2"]
    assert at(2, 1) == ["1", "2", "3"]


def test_the_careless_comparison_takes_a_row_an_hour_early(keeper: Keeper) -> None:
    """CONTROL: 02:30 was written at 01:30 UTC, and is taken at 00:45 UTC."""
    table(keeper, "timestamp", "2026-10-25 02:30:00")
    taken = keeper.execute(
        "SELECT id FROM thing"
        " WHERE at < timestamptz '2026-10-25 00:45Z' AT TIME ZONE 'Europe/Berlin'"
    )
    assert taken == [(1,)]


DAYS: list[tuple[str | None, str, list[str]]] = [
    ("UTC", "2026-06-16 00:00", ["1"]),
    ("UTC", "2026-06-15 23:59", []),
    ("Asia/Seoul", "2026-06-15 15:00", ["1"]),
    ("Asia/Seoul", "2026-06-15 14:59", []),
    ("America/Los_Angeles", "2026-06-16 07:00", ["1"]),
    ("America/Los_Angeles", "2026-06-16 06:59", []),
    (None, "2026-06-16 12:00", ["1"]),
    (None, "2026-06-16 11:59", []),
]


def test_a_day_is_past_when_it_is_over(keeper: Keeper) -> None:
    table(keeper, "date", "2026-06-15", "2026-06-16")
    for zone, moment, expected in DAYS:
        declared = {} if zone is None else {"time_zone": zone}
        one = rule(table="thing", time="at", delete_after="0s", **declared)
        now = datetime.fromisoformat(f"{moment}+00:00")
        assert due(keeper, one, now) == expected, (zone, moment)


def test_a_day_of_23_hours_counts_24(keeper: Keeper) -> None:
    # The clock of Berlin goes forward on 29 March 2026; a duration is no calendar.
    table(keeper, "timestamptz", "2026-03-28 12:00:00")
    one = rule(table="thing", time="at")
    assert due(keeper, one, datetime(2026, 3, 29, 12, 0, tzinfo=timezone.utc)) == []
    assert due(keeper, one, datetime(2026, 3, 29, 12, 1, tzinfo=timezone.utc)) == ["1"]


def test_a_year_that_no_calendar_of_python_holds_is_taken_and_reported(sessions: Keeper) -> None:
    sessions.execute("INSERT INTO session (expires_at) VALUES ('0044-03-15 12:00Z BC')")
    with psycopg.connect(sessions.url) as application:
        application.execute("SELECT FROM session FOR UPDATE")
        held = sessions.run()
    assert held.detail["oldest_left"].startswith("0001-01-04")
    assert sessions.run().acted == 1
