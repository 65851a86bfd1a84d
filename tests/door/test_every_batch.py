"""Registry by proof: what is found false between the door and the first batch stops every job."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.collector import Resources
from filejobs_dagster.door import belonging, clocks
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.jobs.run_history.settings import OldRun
from filejobs_dagster.jobs.storage_orphans.settings import (
    UNREHEARSED,
    BreakersSettings,
    Override,
)
from filejobs_dagster.ledger.outcome import Outcome, Trigger
from filejobs_dagster.ledger.progress import GivenUp, RunIdentity
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.postgres.locks import exclusive_lock, lock_number
from filejobs_dagster.registry import BY_NAME
from tests.door import test_every_job as at_the_door
from tests.door.test_restored import LIVE, AuditedInstallation, everything, made, prepare
from tests.orchestration.test_foreign_bucket import WORK

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.run_context import RunContext

pytestmark = pytest.mark.thorough

NOTHING_DUE = {"audit_trim": "events of this world are young; its own tests stop it in between"}


@dataclass
class OldHistory:
    """Dagster's storage with one old run."""

    removed: list[str] = field(default_factory=list)
    lasting: bool = True

    def over(self, before: datetime) -> Iterator[Sequence[OldRun]]:
        yield [OldRun("old", "upload_reservations", before - timedelta(days=1))]

    def leaned_on(self, run_ids: Sequence[str], since: datetime) -> set[str]:  # noqa: ARG002
        return set()

    def open_backfills(self, backfills: Any) -> set[str]:  # noqa: ARG002
        return set()

    def not_over(self, run_ids: Sequence[str]) -> set[str]:  # noqa: ARG002
        return set()

    def remove_all(self, run_ids: Sequence[str]) -> Mapping[str, str]:
        self.removed += run_ids
        return {}


def bytes_of(everything: dict[str, Any]) -> tuple[Any, Any]:
    return everything["objects"], everything["uploads"]


@dataclass
class World:
    """An adopted bucket and something due for every job, of whatever age."""

    installation: AuditedInstallation
    history: OldHistory = field(default_factory=OldHistory)

    def everything(self) -> dict[str, Any]:
        return everything(self.installation) | {"history": list(self.history.removed)}

    def run(self, job: str, fault: Callable[[RunContext], None] | None) -> Outcome | str:
        """One live run; the fault comes when the door has let it in."""
        installation, collector = self.installation, BY_NAME[job]
        settings = installation.settings()
        uploads = settings.buckets["uploads"]
        settings.buckets["uploads"] = uploads.model_copy(update={"min_age": timedelta(0)})
        now_due: dict[str, Any] = {"idle_for": timedelta(0), "confirm_after": timedelta(0)}
        now_due["breakers"] = BreakersSettings(max_orphan_fraction=1)
        now_due["override"] = Override(breakers=(UNREHEARSED,), reason="a test of something else")
        request = collector.request.model_construct(**dict(settings.jobs[job]) | now_due)
        has = Resources(settings, installation.client, self.history)

        def body(context: RunContext) -> Outcome:
            if fault is not None:
                fault(context)
            return collector.run(context, request, has)

        identity = RunIdentity(str(uuid.uuid4()), "test", job, "live", Trigger("cli"), "the test")
        door = Door(collector, settings, installation.client)
        log = logging.getLogger("batch")
        try:
            return run_job(RunSpec(identity), installation.database, body, log, door=door)
        except GivenUp as given_up:
            return str(given_up)


# Faults between the door and the first batch: one for each proof. ------------------------------


@contextmanager
def lock_of_another(
    installation: AuditedInstallation, run: RunContext, _: pytest.MonkeyPatch
) -> Iterator[None]:
    """The session that held the locks is gone, and another run has taken them."""
    lock = lock_number(exclusive_lock("public", run.identity.job))
    installation.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE application_name LIKE %s",
        (f"%lock {run.identity.run_id[:8]}%",),
    )
    with psycopg.connect(installation.database_url) as other:
        held = other.execute("SELECT pg_try_advisory_xact_lock(%s)", (lock,)).fetchone()
        assert held == (True,)
        yield


@contextmanager
def given_up(
    installation: AuditedInstallation, run: RunContext, _: pytest.MonkeyPatch
) -> Iterator[None]:
    """Somebody gave the run up for dead."""
    installation.execute(
        "UPDATE job_progress SET closed_at = now() WHERE run_id = %s", (run.identity.run_id,)
    )
    yield


@contextmanager
def ended_by_force(
    _: AuditedInstallation, run: RunContext, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Dagster calls it over, and nothing has mirrored that yet."""
    with monkeypatch.context() as patch:
        patch.setattr(run, "ended", lambda: "Dagster calls it CANCELED")
        yield


@contextmanager
def promoted(
    _: AuditedInstallation, __: RunContext, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The settings' address leads to another server by now."""
    with monkeypatch.context() as patch:
        seen = belonging.Watch._fresh

        def another(self: belonging.Watch, good_for: float) -> Any:
            return replace(seen(self, good_for), timeline=99)

        patch.setattr(belonging.Watch, "_fresh", another)
        yield


@contextmanager
def seen_on_a_later_timeline(
    installation: AuditedInstallation, _: RunContext, __: pytest.MonkeyPatch
) -> Iterator[None]:
    """Another live run has met a promoted standby of the operator's database."""
    installation.execute("UPDATE watched_database SET timeline = timeline + 1")
    try:
        yield
    finally:
        installation.execute("UPDATE watched_database SET timeline = timeline - 1")


@contextmanager
def clock_jumped(
    _: AuditedInstallation, __: RunContext, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The database's clock is a month ahead."""
    with monkeypatch.context() as patch:
        month = timedelta(days=31)
        patch.setattr(clocks, "database_now", lambda cursor: database_now(cursor) + month)
        yield


@contextmanager
def source_gone(
    installation: AuditedInstallation, _: RunContext, __: pytest.MonkeyPatch
) -> Iterator[None]:
    """A source that answered at the door does not any more."""
    installation.execute("ALTER TABLE extra RENAME TO gone")
    try:
        yield
    finally:
        installation.execute("ALTER TABLE gone RENAME TO extra")


@contextmanager
def migrated(
    installation: AuditedInstallation, _: RunContext, __: pytest.MonkeyPatch
) -> Iterator[None]:
    """A table of the application has got a column more."""
    installation.execute("ALTER TABLE watched ADD COLUMN preview text")
    try:
        yield
    finally:
        installation.execute("ALTER TABLE watched DROP COLUMN preview")


Fault = Callable[
    [AuditedInstallation, "RunContext", pytest.MonkeyPatch], AbstractContextManager[None]
]


def as_at_the_door(name: str) -> Fault:
    """The same fault by which the door refuses a run."""
    fault = at_the_door.FAULTS[name]
    return lambda installation, _, monkeypatch: fault(installation, monkeypatch)


PROOFS: dict[str, tuple[str | None, Fault]] = {
    "hold": ("hold", as_at_the_door("hold")),
    "lock": (None, lock_of_another),
    "open record": (None, given_up),
    "not ended by force": (None, ended_by_force),
    "marker": ("marker", as_at_the_door("marker")),
    "same primary": ("marker", promoted),
    "operator's primary": ("databases", seen_on_a_later_timeline),
    "tables": ("tables", as_at_the_door("tables")),
    "doubt": ("doubt", as_at_the_door("doubt")),
    "clocks": ("clocks", clock_jumped),
    "presets": ("presets", migrated),
    "sources": ("sources", source_gone),
}
"""What is proven before each batch: the guard that does, or None for the life cycle itself; and
what makes it false."""

NOT_AGAIN = {
    "commits": "every COMMIT is looked at when it comes back",
    "server": "finds out what the others need",
}


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: EmbeddedPostgres,
    template_database: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[World]:
    name = f"test_{uuid.uuid4().hex}"
    bucket = name.replace("_", "-")
    url = postgres_server.create_database(name, template_database)
    s3_client.create_bucket(Bucket=bucket)
    installation = made(tmp_path_factory.mktemp("batch"), url, bucket, s3_client, s3_server)
    installation.execute("CREATE TABLE extra AS SELECT 'files/in-use'::text AS key")
    uploads = installation.document["buckets"]["uploads"]
    address = {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}
    uploads["sources"] = [
        {"name": "extra", "sql": "select key from extra"},
        {"name": "app", "sql": "select 'files/in-use'", "database": address},
    ]
    installation.execute("CREATE TABLE watched (key text)")
    installation.document["presets"] = [at_the_door.preset_of(installation)]
    for key in ("files/in-use", "files/orphan"):
        s3_client.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    prepare(installation)
    installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode)"
        " VALUES ('old', 'test', 'upload_reservations', now() - interval '99 days',"
        " now() - interval '99 days', 'ok', 'dry')"
    )
    installation.adopt()
    there = World(installation)
    # Orphans go in the second run that sees them.
    first = there.run("storage_orphans", None)
    assert isinstance(first, Outcome)
    assert first.ok, first.error
    yield there
    postgres_server.drop_database(name)


def test_every_guard_is_proven_again_or_says_why_not() -> None:
    assert {guard for guard, _ in PROOFS.values() if guard} | set(NOT_AGAIN) == {
        guard.name for guard in GUARDS
    }


@pytest.mark.parametrize("job", sorted(LIVE))
def test_what_becomes_false_before_the_first_batch_lets_nothing_go(
    world: World, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    if job in NOTHING_DUE:
        pytest.skip(NOTHING_DUE[job])
    guards = {guard.name for guard in GUARDS if guard.protects & BY_NAME[job].touches}
    before = world.everything()
    for name, (guard, fault) in PROOFS.items():
        if guard is not None and guard not in guards:
            continue
        with ExitStack() as until_it_is_over:

            def now(run: RunContext, fault: Fault = fault) -> None:
                until_it_is_over.enter_context(fault(world.installation, run, monkeypatch))

            outcome = world.run(job, now)
        assert isinstance(outcome, str) or not outcome.ok, f"{name} did not stop {job}"
        after = world.everything()
        if guard == "sources":
            # Asked for each key right before its bytes go, when its due row has been claimed: the
            # object is left, an orphan, until the source answers again.
            assert bytes_of(after) == bytes_of(before), f"{job} deleted without {name}"
            if after != before:
                WORK[job](world.installation)
            before = after = world.everything()
        assert after == before, f"{job} went on without {name}"
    # CONTROL: with nothing false the same run takes something, so there was something to lose.
    # Whoever dismissed the doubt made the passes history, so that of orphans only marks at first.
    for _ in range(2):
        outcome = world.run(job, None)
        assert isinstance(outcome, Outcome)
        assert outcome.ok, outcome.error
    assert world.everything() != before
