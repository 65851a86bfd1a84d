"""Registry by guard: every live run of every job is refused by every guard that protects it."""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.door import clocks, door, guards
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.doubt import forget_doubts, remember_doubt
from filejobs_dagster.door.guard import Guard, Look, Refusal
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.outcome import Mode, Outcome, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.presets.preset import load, probe
from filejobs_dagster.registry import BY_NAME, JOBS
from tests.installation import Installation
from tests.orchestration.conftest import failure_of
from tests.own_tables import OwnTables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.run_context import RunContext

LIVE_JOBS = [job.name for job in JOBS if not job.read_only]

Fault = Callable[[Installation, pytest.MonkeyPatch], AbstractContextManager[None]]


# Faults: one for each guard that refuses. A guard without one fails the test below. -------------


@contextmanager
def restored(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """The database is behind its marker."""
    installation.execute("UPDATE bucket_adoption SET counter = counter - 1")
    try:
        yield
    finally:
        installation.execute("UPDATE bucket_adoption SET counter = counter + 1")


@contextmanager
def clocks_apart(_: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The bucket's server is six minutes ahead."""
    with monkeypatch.context() as patch:
        date = datetime.now(timezone.utc) + timedelta(minutes=6)
        patch.setattr(clocks, "read_server_date", lambda *_: date)
        yield


@contextmanager
def without_a_constraint(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """A constraint of `file` has another name, so nobody can tell that it is still there."""
    rename = "ALTER TABLE file RENAME CONSTRAINT {} TO {}"
    installation.execute(rename.format("file_size_not_negative", "another"))
    try:
        yield
    finally:
        installation.execute(rename.format("another", "file_size_not_negative"))


@contextmanager
def doubted(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """A pass has found the database older than the bucket."""
    bucket = installation.settings().buckets["uploads"]
    with installation.database.connect("doubt") as connection:
        with installation.database.transaction(connection) as cursor:
            remember_doubt(cursor, bucket, "uploads", "a pass", "9 objects are newer")
        try:
            yield
        finally:
            with installation.database.transaction(connection) as cursor:
                place = {"endpoint": installation.endpoint_url, "bucket": installation.bucket}
                assert forget_doubts(cursor, place) == ["a pass"]


@contextmanager
def asynchronous(_: Installation, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The server commits asynchronously, whatever it is asked for."""
    with monkeypatch.context() as patch:
        patch.setattr(guards, "_SETTINGS", "SELECT 'off', 'off', 'on', 'on', ''")
        yield


@contextmanager
def source_without_a_table(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """A source of references cannot be asked."""
    bucket = installation.document["buckets"]["uploads"]
    bucket["sources"] = [{"name": "gone", "sql": "select storage_key from gone"}]
    try:
        yield
    finally:
        del bucket["sources"]


@contextmanager
def left_behind(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """A live run has seen a database of the operator's on a later timeline."""
    bucket = installation.document["buckets"]["uploads"]
    address = {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}
    bucket["sources"] = [
        {"name": "app", "sql": "select 'x' where false", "min_rows": 0, "database": address}
    ]
    assert run(installation, "deleted_files", "live")[0].ok
    installation.execute("UPDATE watched_database SET timeline = timeline + 1")
    try:
        yield
    finally:
        del bucket["sources"]
        installation.execute("DELETE FROM watched_database")


@contextmanager
def held(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """Somebody holds every job."""
    installation.execute(
        "INSERT INTO hold (installation, held_by, why) VALUES ('test', 'ada@desk', 'files gone')"
    )
    try:
        yield
    finally:
        installation.execute("UPDATE hold SET released_at = now(), released_by = 'ada@desk'")


OWN_PRESET = """
name: own
title: An application of the test's own
version: 1
advice: live
reason: Its keys stand in one table.
proven: [{on: the tests, how: run}]
watches: [public.watched]
"""


def preset_of(installation: Installation) -> dict[str, Any]:
    """What settings say of the preset that watches the table `watched`."""
    place = installation.folder / "own.yaml"
    place.write_text(OWN_PRESET)
    own = load(str(place))
    with installation.database.connect("test") as connection:
        found = probe(own, installation.database, connection)
    return {"name": str(place), "version": 1, "hash": own.digest, "bucket": "uploads",
            "probed": found.recorded}  # fmt: skip


@contextmanager
def upgraded(installation: Installation, _: pytest.MonkeyPatch) -> Iterator[None]:
    """An application has got a table more since its settings were written."""
    installation.document["presets"] = [preset_of(installation)]
    installation.execute("CREATE TABLE watched (key text)")
    try:
        yield
    finally:
        installation.execute("DROP TABLE watched")
        del installation.document["presets"]


FAULTS: dict[str, Fault] = {
    "presets": upgraded,
    "hold": held,
    "marker": restored,
    "databases": left_behind,
    "tables": without_a_constraint,
    "doubt": doubted,
    "commits": asynchronous,
    "clocks": clocks_apart,
    "sources": source_without_a_table,
}

LEAVES_THE_COUNTS = {"hold"}
"""Guards that say nothing of what a dry run counts."""

FINDS_OUT_ONLY = {"server"}
"""Guards that find out what the others need, and refuse nothing by themselves."""


# The world: one installation for all. -----------------------------------------------------------


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: EmbeddedPostgres,
    template_database: str,
    s3_server: EmbeddedS3,
) -> Iterator[Installation]:
    name, bucket = f"test_{uuid.uuid4().hex}", f"test-{uuid.uuid4().hex}"
    client = s3_server.client()
    client.create_bucket(Bucket=bucket)
    url = postgres_server.create_database(name, template_database)
    folder: Path = tmp_path_factory.mktemp("door")
    installation = OwnTables(folder, url, bucket, client, s3_server.endpoint_url, app_url=url)
    installation.adopt()
    yield installation
    postgres_server.drop_database(name)


def run(world: Installation, job: str, mode: Mode, *, guards: tuple[Guard, ...] = GUARDS) -> Any:
    """One run of a job whose work only says that it was reached, and would take one item."""
    began: list[str] = []

    def body(context: RunContext) -> Outcome:
        began.append(context.identity.job)
        detail = {"would_collect": 1, "classes": {"would collect": 1}}
        return Outcome(scanned=1, acted=0, detail={} if context.live else detail)

    identity = RunIdentity(str(uuid.uuid4()), "test", job, mode, Trigger("cli"), "the test")
    passed = Door(BY_NAME[job], world.settings(), world.client, entry="uploads", guards=guards)
    log = logging.getLogger("door")
    outcome = run_job(RunSpec(identity), world.database, body, log, door=passed)
    return outcome, bool(began)


def guards_of(job: str) -> set[str]:
    return {guard.name for guard in GUARDS if guard.protects & BY_NAME[job].touches}


def test_every_guard_has_a_fault_that_shows_it_refusing() -> None:
    assert set(FAULTS) | FINDS_OUT_ONLY == {guard.name for guard in GUARDS}


def test_every_job_that_changes_something_is_protected_by_marker_and_clocks() -> None:
    for job in JOBS:
        names = {guard.name for guard in GUARDS if guard.protects & job.touches}
        assert job.read_only or "marker" in names, job.name


@pytest.mark.parametrize("job", LIVE_JOBS)
def test_without_a_fault_every_live_run_is_let_in_and_counted(
    world: Installation, job: str
) -> None:
    before = world.value("SELECT counter FROM bucket_adoption")
    outcome, began = run(world, job, "live")
    assert outcome.ok, outcome.error
    assert began
    counted = world.value("SELECT counter FROM bucket_adoption") - before
    assert counted == (1 if BY_NAME[job].deletes_bytes else 0)
    assert set(outcome.detail["door"]) == guards_of(job)


@pytest.mark.parametrize("guard", sorted(FAULTS))
@pytest.mark.parametrize("job", LIVE_JOBS)
def test_a_fault_refuses_every_live_run_before_it_begins_and_dry_ones_say_so(
    world: Installation, monkeypatch: pytest.MonkeyPatch, job: str, guard: str
) -> None:
    protects = {each.name: each.protects for each in GUARDS}[guard]
    if not protects & BY_NAME[job].touches:
        pytest.skip(f"{guard} protects nothing that {job} touches")
    with FAULTS[guard](world, monkeypatch):
        outcome, began = run(world, job, "live")
        assert not outcome.ok
        assert not began, "the run had begun its work"
        assert "othing was" in outcome.error, "the message says that nothing was touched"
        assert outcome.detail["door"][guard].startswith("refused: ")
        assert set(outcome.detail["door"]) == guards_of(job), "what else was found is recorded too"
        dry, began = run(world, job, "dry")
        assert dry.ok, dry.error
        assert began
        assert any(line.startswith(f"{guard}: ") for line in dry.detail["would_be_refused"])
        if guard in LEAVES_THE_COUNTS:
            assert dry.detail["classes"] == {"would collect": 1}
        else:
            assert dry.detail["would_collect"] is None
            assert dry.detail["classes"] == {"would be refused": 1}
        # CONTROL: without its guard the run begins.
        others = tuple(each for each in GUARDS if each.name not in (guard, "server"))
        _, began = run(world, job, "live", guards=others)
        assert began


NEEDS: dict[str, dict[str, Any]] = {
    "deleted_files": {"restore_window": "30d"},
    "run_history": {"keep": "90d"},
    "table_retention": {
        "rules": [{"name": "sessions", "table": "session", "time": "at", "delete_after": "90d"}]
    },
}
"""What the settings of a job cannot go without."""


class Never(Guard):
    """Refuses whatever is looked at."""

    name = "never"
    protects = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:  # noqa: ARG002
        raise Refusal("It is Sunday.", "Wait for Monday. Nothing was touched.")


@pytest.mark.parametrize("job", LIVE_JOBS)
def test_what_dagster_runs_goes_through_the_door(
    world: Installation, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    from filejobs_dagster.orchestration.build import build_definitions  # noqa: PLC0415

    world.document["jobs"] = {job: {"by_hand": True, **NEEDS.get(job, {})}}
    signer = generate("test/audit")
    world.document["audit"] = {
        "signing_key": {"env": "FILEJOBS_AUDIT_KEY"},
        "public_keys": [{"key": str(signer.verifier)}],
        "pins": {"folder": str(world.folder / "pins")},
        "retention": "150d",
    }
    monkeypatch.setenv("FILEJOBS_AUDIT_KEY", private_text(signer))
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(door, "GUARDS", (Never(),))
    definition = build_definitions(world.loaded(dict(os.environ))).resolve_job_def(job)
    with dg.DagsterInstance.ephemeral() as instance:
        result = definition.execute_in_process(
            run_config={"ops": {job: {"config": {"dry_run": False}}}},
            instance=instance,
            raise_on_error=False,
        )
    assert not result.success
    assert "It is Sunday." in failure_of(result)
