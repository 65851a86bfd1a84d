"""A real PgBouncer in transaction mode with pools of 1, 2 and 3: nobody waits for ever."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.doctor.database import _pooler
from filejobs_dagster.embedded.environment import ServerAccount
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.postgres import connect
from filejobs_dagster.postgres.connect import WHAT_A_RUN_NEEDS, Database, NoConnectionFree
from filejobs_dagster.postgres.locks import Lease
from filejobs_dagster.registry import BY_NAME, JOB_NAMES
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.test_lifecycle import QUICK, run, run_spec
from tests.ledger.records import progress_of
from tests.orchestration.conftest import Code, failure_of
from tests.orchestration.test_foreign_bucket import cancelled, reserved, soft_deleted
from tests.postgres.backends import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import dagster as dg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.run_context import RunContext

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(200)]

PROMISE = "FILEJOBS_PROMISED_PGBOUNCER"

# Read here, because the environment is cleaned before the first test starts.
PROMISED = os.environ.get(PROMISE) == "1"

PORT = 6432
"""Names the socket's file. No TCP port is opened."""

SOON = timedelta(seconds=3)
"""Less than the house's patience, so that these tests need not have it. PgBouncer has none."""

AUDIT_KEY = "FILEJOBS_AUDIT_KEY"
SIGNER = generate("test/audit")

SETTINGS: dict[str, dict[str, Any]] = {
    "deleted_files": {"restore_window": "1d"},
    "storage_orphans": {"breakers": {"max_orphan_fraction": 1}},
    "multipart_uploads": {"idle_for": "48h"},
    "table_retention": {
        "rules": [{"name": "s", "table": "session", "time": "at", "delete_after": "30d"}]
    },
    "run_history": {"keep": "30d"},
}


@dataclass
class Pooler:
    """PgBouncer before a server, with so many connections for each database."""

    folder: Path
    process: subprocess.Popen[bytes]

    def url(self, direct: str) -> str:
        """The same database as this address, through the pool."""
        name = str(conninfo_to_dict(direct)["dbname"])
        return make_conninfo(host=str(self.folder), port=PORT, user="postgres", dbname=name)

    def waiting(self) -> int:
        """How many clients wait for a connection."""
        with psycopg.connect(self.url("dbname=pgbouncer"), autocommit=True) as console:
            # The console speaks the simple protocol only.
            pools = psycopg.ClientCursor(console).execute("SHOW POOLS")
            names = [column.name for column in pools.description or ()]
            return sum(row[names.index("cl_waiting")] for row in pools)


@contextmanager
def pooler(server: EmbeddedPostgres, size: int, patience: int = 0) -> Iterator[Pooler]:
    """Start PgBouncer.

    Args:
        server: Where it leads.
        size: Of each database's pool.
        patience: Seconds after which it ends a client that waits; 0 for never.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    reason = "PgBouncer is not installed. As root: apt-get install pgbouncer"
    if program is None and PROMISED:
        pytest.fail(f"{PROMISE}=1 promises PgBouncer. {reason}", pytrace=False)
    if program is None:
        pytest.skip(reason)
    # It refuses to run as root, and the server's socket is its account's.
    account = ServerAccount.choose()
    folder = Path(tempfile.mkdtemp(prefix="filejobs-pooler-"))
    settings = folder / "pgbouncer.ini"
    behind = conninfo_to_dict(server.url())
    settings.write_text(
        f"""
        [databases]
        * = host={behind["host"]} port={behind["port"]} user={behind["user"]}
        [pgbouncer]
        listen_addr =
        listen_port = {PORT}
        unix_socket_dir = {folder}
        auth_type = any
        admin_users = postgres
        pool_mode = transaction
        default_pool_size = {size}
        query_wait_timeout = {patience}
        """.replace("\n        ", "\n")
    )
    account.take(folder)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [program, str(settings)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
        )
    try:
        wait_until((folder / f".s.PGSQL.{PORT}").exists, "PgBouncer listens")
        yield Pooler(folder, process)
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@dataclass
class Pooled(Installation):
    """An installation that reaches its database through a pool; the test looks directly."""

    pooled_url: str = ""

    @property
    def environment(self) -> dict[str, str]:
        return {
            **super().environment,
            "FILEJOBS_DATABASE_URL": self.pooled_url,
            AUDIT_KEY: private_text(SIGNER),
        }

    @property
    def database(self) -> Database:
        return Database(self.pooled_url)


@pytest.fixture
def pool(request: pytest.FixtureRequest, postgres_server: EmbeddedPostgres) -> Iterator[Pooler]:
    with pooler(postgres_server, request.param) as running:
        yield running


def of_size(*sizes: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("pool", sizes, indirect=True, ids=lambda size: f"pool of {size}")


@pytest.fixture
def through(pool: Pooler, database_url: str) -> Database:
    return Database(pool.url(database_url))


@pytest.fixture
def world(
    pool: Pooler, tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client,
    s3_server: EmbeddedS3, monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Code]:  # fmt: skip
    """Every job of the registry, with something due."""
    plain = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation = Pooled(**vars(plain), pooled_url=pool.url(database_url))
    installation.document["jobs"] = {
        job: {"by_hand": True, **SETTINGS.get(job, {})} for job in JOB_NAMES
    }
    installation.document["audit"] = {
        "signing_key": {"env": AUDIT_KEY},
        "public_keys": [{"key": str(SIGNER.verifier)}],
        "pins": {"folder": str(tmp_path / "pins")},
        "retention": "150d",
        "rolling": 1,
    }
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    installation.execute("CREATE TABLE session (id int PRIMARY KEY, at timestamptz)")
    installation.execute("INSERT INTO session VALUES (1, now() - interval '40 days')")
    with (
        installation.database.connect("test") as connection,
        installation.database.transaction(connection) as cursor,
    ):
        append(cursor, [{"kind": "test", "n": n} for n in range(5)], chain="a")
    with dagster_instance() as instance:
        yield Code(installation, instance)


def make_due(installation: Installation) -> Callable[[], list[str]]:
    """Something for each job that can have it at once; the result says what of it is left."""
    keys = {find(installation) for find in (reserved, soft_deleted, cancelled)}

    def left() -> list[str]:
        sessions = installation.value("SELECT count(*) FROM session")
        return [*sorted(keys & installation.keys()), *["session"] * sessions]

    assert len(left()) == 4
    return left


def run_all(world: Code) -> dict[str, dg.ExecuteInProcessResult]:
    """A run of every job, live where it has live runs."""
    return {
        job: world.run(job) if BY_NAME[job].read_only else world.run(job, dry_run=False)
        for job in JOB_NAMES
    }


def recorded(world: Code) -> dict[str, dict[str, Any]]:
    """The record of each job's one run, once the mirror has looked."""
    world.sensor("job_run_reconciler")
    records = world.installation.records()
    assert len(records) == len(JOB_NAMES)
    return {each["job"]: each for each in records}


@of_size(3)
def test_every_job_works_through_a_pool_of_three_and_is_recorded(world: Code) -> None:
    left = make_due(world.installation)
    for job, result in run_all(world).items():
        assert result.success, (job, failure_of(result))
    assert left() == []
    records = recorded(world)
    assert {job: each["outcome"] for job, each in records.items()} == dict.fromkeys(JOB_NAMES, "ok")
    assert {job for job, each in records.items() if each["acted"]} >= {
        "upload_reservations", "deleted_files", "upload_cleanup", "table_retention", "audit_seal"
    }  # fmt: skip


@of_size(2)
def test_a_pool_of_two_is_enough_for_one_run_of_any_job(
    world: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third connection waits for a moment."""
    monkeypatch.setattr(connect, "FREE_WITHIN", SOON)
    left = make_due(world.installation)
    for job, result in run_all(world).items():
        assert result.success, (job, failure_of(result))
    assert left() == []
    assert world.installation.value("SELECT count(*) FROM audit_seal") > 0
    said = {job: each["outcome"] for job, each in recorded(world).items()}
    assert said == dict.fromkeys(JOB_NAMES, "ok")


@of_size(3, 2)
def test_an_orphan_is_swept_through_a_pool(world: Code, s3_client: S3Client) -> None:
    sweeper = Sweeper(world.installation, s3_client)
    sweeper.seen_before("files/orphan")
    outcome = sweeper()
    assert outcome.ok, outcome.error
    assert (outcome.acted, world.installation.keys()) == (1, {"files/used"})


@of_size(1)
def test_a_pool_of_one_is_told_at_once_by_every_job_and_nothing_is_touched(
    world: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FREE_WITHIN", SOON)
    left = make_due(world.installation)
    due = left()
    for job, result in run_all(world).items():
        assert not result.success, job
        assert WHAT_A_RUN_NEEDS in failure_of(result)
    assert left() == due
    # The runs have given their connection back, and so have had their word.
    assert {each["outcome"] for each in world.installation.progress()} == {"failed"}
    records = recorded(world)
    assert set(records) == set(JOB_NAMES)
    for job, record in records.items():
        assert record["outcome"] == "failed", job
        assert WHAT_A_RUN_NEEDS in record["error"]
        assert "window" in record["detail"]


@contextmanager
def holding_both(size: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no run go on before so many of them hold their first lock."""
    barrier = threading.Barrier(size)
    take = Lease.take

    def taken(lease: Lease, name: str) -> None:
        take(lease, name)
        if "/run/" in name:
            barrier.wait(30)

    with monkeypatch.context() as patched:
        patched.setattr(Lease, "take", taken)
        yield


def nothing(_: RunContext) -> Outcome:
    return Outcome(scanned=0, acted=0)


@of_size(2)
def test_two_jobs_on_a_pool_of_two_do_not_wait_for_each_other(
    through: Database, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FREE_WITHIN", SOON)
    first, second = run_spec(), run_spec()
    second = replace(second, identity=replace(second.identity, job="deleted_files"))
    with holding_both(2, monkeypatch), ThreadPoolExecutor(2) as threads:
        outcomes = list(threads.map(lambda given: run(through, nothing, given), (first, second)))
    told = [each.error for each in outcomes if each.error is not None]
    assert told, "both held one connection, so that the first to give up has failed"
    assert all(WHAT_A_RUN_NEEDS in each for each in told)
    for given, outcome in zip((first, second), outcomes, strict=True):
        said = "ok" if outcome.ok else "failed"
        assert progress_of(connection, given.identity.run_id)["outcome"] == said
    assert run(through, nothing).ok, "nothing of them is left"


@of_size(2)
def test_control_without_the_limit_two_jobs_wait_for_each_other(
    pool: Pooler, through: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FREE_WITHIN", timedelta(seconds=0.5))
    monkeypatch.setattr(connect._Connection, "wait", psycopg.Connection.wait)
    tickets = [run_spec("dry", pace=replace(QUICK, final_word=timedelta(seconds=0))) for _ in "ab"]
    with holding_both(2, monkeypatch), ThreadPoolExecutor(2) as threads:
        futures = [threads.submit(run, through, nothing, given) for given in tickets]
        wait_until(lambda: pool.waiting() == 2, "both wait")
        for future in futures:
            with pytest.raises(StillWaiting):
                future.result(3)
        assert pool.waiting() == 2
        # Only somebody from outside ends that.
        pool.process.kill()
        for future in futures:
            with pytest.raises(psycopg.OperationalError):
                future.result(60)


@of_size(2)
def test_a_sign_of_life_that_gets_no_connection_is_left_out(
    through: Database, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FREE_WITHIN", timedelta(seconds=0.5))
    caplog.set_level("DEBUG", "lifecycle")

    def body(context: RunContext) -> Outcome:
        with context.database.transaction(context.connection):
            wait_until(lambda: "No sign of life could be written" in caplog.text, "one is left out")
        monkeypatch.setattr(connect, "FREE_WITHIN", SOON)
        context.prove_alive()
        return Outcome(scanned=1, acted=1)

    outcome = run(through, body)
    assert outcome.ok, outcome.error


@of_size(2)
def test_the_final_word_has_the_connection_of_the_locks_when_there_is_no_other(
    through: Database, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FREE_WITHIN", SOON)
    given = run_spec(pace=replace(QUICK, heartbeat=timedelta(hours=1), final_word=4 * SOON))
    with psycopg.connect(through.url) as stranger:

        def body(context: RunContext) -> Outcome:
            stranger.execute("SELECT 1")
            return Outcome(scanned=3, acted=2)

        outcome = run(through, body, given)
    assert outcome.ok, outcome.error
    row = progress_of(connection, given.identity.run_id)
    assert (row["outcome"], row["scanned"], row["acted"]) == ("ok", 3, 2)


def test_poolers_own_patience_says_the_same(
    postgres_server: EmbeddedPostgres, database_url: str
) -> None:
    """Where `query_wait_timeout` is shorter, PgBouncer ends the connection with a word of its."""
    with pooler(postgres_server, 1, patience=1) as short:
        database = Database(short.url(database_url))
        with psycopg.connect(database.url) as stranger:
            stranger.execute("SELECT 1")
            with database.connect("test") as waiting:
                with (
                    pytest.raises(NoConnectionFree, match="a third one now and then"),
                    database.transaction(waiting),
                ):
                    pass
                assert waiting.closed


@pytest.mark.parametrize(
    ("pool", "verdict", "found"),
    [
        (1, "failed", "only 1 at once"),
        (2, "warning", "only 2 at once"),
        (3, "warning", "at least 3"),
    ],
    indirect=["pool"],
)
def test_doctor_tries_how_many_connections_there_are(
    through: Database, verdict: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connect, "FREE_WITHIN", SOON)
    with through.connect("doctor") as own, through.transaction(own, read_only=True) as cursor:
        finding = _pooler(through, cursor, own.info.backend_pid, 4)
    assert finding.verdict == verdict
    assert found in finding.found
    assert "3 x 4 live runs = 12 server connections" in finding.advice
