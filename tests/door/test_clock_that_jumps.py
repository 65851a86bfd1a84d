"""A real PostgreSQL whose clock jumps by a month: no job takes anything, and all say both times."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.door import door
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs.deleted_files import collection
from filejobs_dagster.jobs.storage_orphans.settings import UNREHEARSED
from filejobs_dagster.postgres.migrate import migrate
from tests.door.faketime import ServerWithClock, server_with_clock
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance
from tests.orchestration.conftest import Code, failure_of
from tests.orchestration.test_foreign_bucket import cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

AHEAD = 31
WITHOUT_CLOCKS = tuple(guard for guard in GUARDS if guard.name != "clocks")


@pytest.fixture(scope="module")
def clock() -> Iterator[ServerWithClock]:
    with server_with_clock() as server:
        migrate(server.server.create_database("migrated"))
        yield server


@pytest.fixture
def world(
    clock: ServerWithClock, tmp_path: Path, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Iterator[Code]:
    clock.jump(0)
    name = f"test_{uuid.uuid4().hex}"
    url = clock.server.create_database(name, "migrated")
    installation = make_installation(tmp_path, url, bucket, s3_client, s3_server)
    with dagster_instance() as instance:
        yield Code(installation, instance)
    clock.jump(0)
    clock.server.drop_database(name)


# What each job would lose: made at the right time, and not due for a day at least. --------------


def put(installation: Installation, key: str) -> None:
    installation.client.put_object(Bucket=installation.bucket, Key=key, Body=b"bytes")


def deleted_two_seconds_ago(installation: Installation) -> Callable[[], bool]:
    put(installation, "files/deleted")
    installation.execute(
        "INSERT INTO file (state, storage_key, deleted_at)"
        " VALUES ('deleted', 'files/deleted', now() - interval '2 seconds')"
    )
    return lambda: installation.has_object("files/deleted")


def reserved_for_a_day(installation: Installation) -> Callable[[], bool]:
    installation.reserve("files/reserved", due_ago=timedelta(days=-1))
    return lambda: installation.has_object("files/reserved")


def written_just_now(installation: Installation) -> Callable[[], bool]:
    put(installation, "files/new")
    put(installation, "files/used")
    installation.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/used')")
    return lambda: installation.has_object("files/new")


def retained_for_a_day(installation: Installation) -> Callable[[], bool]:
    key = cancelled(installation)
    installation.execute("UPDATE upload SET retained_until = now() + interval '1 day'")
    return lambda: installation.has_object(key)


def sent_a_part_just_now(installation: Installation) -> Callable[[], bool]:
    client, bucket = installation.client, installation.bucket
    begun = client.create_multipart_upload(Bucket=bucket, Key="files/sent")["UploadId"]
    client.upload_part(Bucket=bucket, Key="files/sent", UploadId=begun, PartNumber=1, Body=b"12345")
    return lambda: bool(client.list_multipart_uploads(Bucket=bucket).get("Uploads"))


def a_session_of_now(installation: Installation) -> Callable[[], bool]:
    installation.execute("CREATE TABLE session AS SELECT 1 AS id, now() AS at")
    installation.execute("ALTER TABLE session ADD PRIMARY KEY (id)")
    return lambda: bool(installation.execute("SELECT id FROM session"))


@dataclass(frozen=True)
class Case:
    settings: dict[str, Any]
    make: Callable[[Installation], Callable[[], bool]]
    runs: tuple[int, ...] = (AHEAD,)
    """Days ahead of the runs without the guard that it takes to lose it."""
    config: dict[str, Any] = field(default_factory=dict)
    """What those runs say beside."""


CASES = {
    "deleted_files": Case({"restore_window": "30d"}, deleted_two_seconds_ago),
    "upload_reservations": Case({}, reserved_for_a_day),
    "storage_orphans": Case(
        {"breakers": {"max_orphan_fraction": 1}},
        written_just_now,
        (AHEAD, AHEAD + 1),
        {"override": {"breakers": [UNREHEARSED], "reason": "a test of something else"}},
    ),
    "upload_cleanup": Case({}, retained_for_a_day),
    "multipart_uploads": Case({"idle_for": "48h"}, sent_a_part_just_now),
    "table_retention": Case(
        {"rules": [{"name": "s", "table": "session", "time": "at", "delete_after": "30d"}]},
        a_session_of_now,
    ),
}


def made(world: Code, job: str) -> Callable[[], bool]:
    case = CASES[job]
    world.installation.document["jobs"] = {job: {"by_hand": True, **case.settings}}
    world.installation.adopt()
    return case.make(world.installation)


@pytest.mark.parametrize("job", CASES)
def test_a_clock_a_month_ahead_takes_nothing_and_all_times_are_printed(
    world: Code, clock: ServerWithClock, job: str
) -> None:
    is_there = made(world, job)
    clock.jump(AHEAD)
    result = world.run(job, dry_run=False)
    now = datetime.now(timezone.utc)
    assert not result.success
    said = failure_of(result)
    assert f"by the database it is {now + timedelta(days=AHEAD):%Y-%m-%d}" in said
    assert f"by this machine it is {now:%Y-%m-%d}" in said
    assert f"bucket {world.installation.bucket!r} it is {now:%Y-%m-%d}" in said
    assert "most likely the clock of the database that is wrong" in said
    assert is_there()
    # It was wrong for a minute. What the refused run recorded meanwhile hinders nobody.
    clock.jump(0)
    again = world.run(job, dry_run=False)
    assert again.success, failure_of(again)
    assert is_there()


@pytest.mark.parametrize("job", CASES)
def test_control_without_the_guard_it_is_lost(
    world: Code, clock: ServerWithClock, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_there = made(world, job)
    monkeypatch.setattr(door, "GUARDS", WITHOUT_CLOCKS)
    for days in CASES[job].runs:
        assert is_there()
        clock.jump(days)
        result = world.run(job, dry_run=False, **CASES[job].config)
        assert result.success, failure_of(result)
    assert not is_there()


@pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "control"])
def test_a_clock_that_jumps_behind_the_door_makes_nothing_old(
    world: Code, clock: ServerWithClock, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """Nothing was due at the door, and nothing becomes due by the jump."""
    is_there = made(world, "deleted_files")
    if not guarded:
        monkeypatch.setattr(door, "GUARDS", WITHOUT_CLOCKS)
    run = collection.Collection.run

    def jumped(self: collection.Collection) -> Any:
        clock.jump(AHEAD)
        return run(self)

    monkeypatch.setattr(collection.Collection, "run", jumped)
    result = world.run("deleted_files", dry_run=False)
    assert result.success, failure_of(result)
    assert is_there() is guarded


def test_a_clock_that_jumps_behind_the_door_stops_the_run_before_its_next_batch(
    world: Code, clock: ServerWithClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = world.installation
    is_there = made(world, "deleted_files")
    put(installation, "files/old")
    installation.execute(
        "INSERT INTO file (state, storage_key, deleted_at)"
        " VALUES ('deleted', 'files/old', now() - interval '40 days')"
    )
    run = collection.Collection.run

    def jumped(self: collection.Collection) -> Any:
        clock.jump(AHEAD)
        return run(self)

    monkeypatch.setattr(collection.Collection, "run", jumped)
    result = world.run("deleted_files", dry_run=False)
    assert not result.success
    assert "A clock jumped while this run worked" in failure_of(result)
    assert is_there()
    assert installation.has_object("files/old"), "due, and left to the next run"


def test_a_clock_that_went_back_is_refused_too(world: Code, clock: ServerWithClock) -> None:
    made(world, "deleted_files")
    clock.jump(-2)
    result = world.run("deleted_files", dry_run=False)
    assert not result.success
    assert "most likely the clock of the database that is wrong" in failure_of(result)
    assert "our newest record (the newest event of the audit chain" in failure_of(result)
