"""No row comes back without its bytes: a server that crashes, and a COMMIT that is not confirmed.

Each job with claims works on a server that commits asynchronously by default, and that is killed
right after storage answered the deletion; and on one whose synchronous standby is away.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.embedded.postgres import EmbeddedPostgres
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.connect import Connection, Database
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.prove.stage import watch
from tests.installation import Installation, make_installation
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import files_of
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads
from tests.postgres.backends import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Outcome

pytestmark = pytest.mark.thorough

DAY = timedelta(days=1)
KEY = "files/report"
DELETIONS = ("after-call.s3.DeleteObjects", "after-call.s3.DeleteObject")


@dataclass(frozen=True)
class Scene:
    """One job, right before it deletes.

    Attributes:
        key: Of the one object that is to go.
        ends: What the application does last, before the job runs.
        run: The run that deletes.
        broken: Whether a row is there that needs the object, and the object is not.
        client: Of the job.
    """

    key: str
    ends: Callable[[], object]
    run: Callable[[], Outcome]
    broken: Callable[[], bool]
    client: S3Client


def named_and_gone(installation: Installation) -> bool:
    return installation.has_row(KEY) and not installation.has_object(KEY)


def of_upload_reservations(installation: Installation, client: S3Client) -> Scene:
    return Scene(
        KEY,
        ends=lambda: installation.reserve(KEY),
        run=Collector(installation, client),
        broken=lambda: named_and_gone(installation),
        client=client,
    )


def of_deleted_files(installation: Installation, client: S3Client) -> Scene:
    files = files_of(installation)
    files.client = client
    return Scene(
        KEY,
        ends=lambda: files.delete(KEY, retained=-DAY),
        run=files,
        broken=lambda: named_and_gone(installation),
        client=client,
    )


def of_upload_cleanup(installation: Installation, client: S3Client) -> Scene:
    """An upload that is cancelled at the last moment: back in `stored`, it could be published."""
    uploads = Uploads(installation)
    stored = uploads.stored()

    def back_without_bytes() -> bool:
        return uploads.state(stored) == "stored" and not installation.has_object(stored.key)

    return Scene(
        stored.key,
        ends=lambda: uploads.call("cancel_upload", stored.id),
        run=Cleaner(installation, client),
        broken=lambda: (
            uploads.state(stored) == "stored" and not installation.has_object(stored.key)
        ),
        client=client,
    )


def of_storage_orphans(installation: Installation, client: S3Client) -> Scene:
    """A row that is deleted at the last moment, before two runs see its object as an orphan."""
    sweep = Sweeper(installation, client)
    sweep.put(KEY)
    sweep.refer(KEY)

    def forget_and_look() -> None:
        installation.execute("DELETE FROM file")
        sweep.seen_before_there(KEY)

    return Scene(
        KEY,
        ends=forget_and_look,
        run=sweep,
        broken=lambda: named_and_gone(installation),
        client=client,
    )


JOBS = [of_upload_reservations, of_deleted_files, of_upload_cleanup, of_storage_orphans]


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedPostgres]:
    """A server whose synchronous_commit is off; its processes are killed, never the machine."""
    with EmbeddedPostgres.start(durable=False) as server:
        migrate(server.create_database("template"))
        yield server


@pytest.fixture
def installation(
    server: EmbeddedPostgres,
    tmp_path: Path,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[Installation]:
    name = f"commits_{bucket.replace('-', '_')}"
    url = server.create_database(name, "template")
    yield make_installation(tmp_path, url, bucket, s3_client, s3_server)
    administrate(server, "ALTER ROLE postgres RESET ALL", "ALTER SYSTEM RESET ALL")
    server.drop_database(name)


@pytest.fixture
def client(installation: Installation) -> S3Client:
    """Of the job alone: what a test hangs on it is gone with it."""
    return make_client(installation.settings().buckets["uploads"])


def administrate(server: EmbeddedPostgres, *statements: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        for statement in (*statements, "SELECT pg_reload_conf()"):
            connection.execute(statement.encode())


# --- the server crashes --------------------------------------------------------------------------

ASYNCHRONOUS = {
    "database": "ALTER DATABASE {database} SET synchronous_commit = off",
    "role": "ALTER ROLE postgres SET synchronous_commit = off",
    "server": "SELECT 'it is off in the command that starts the server'",
}


def commit_asynchronously(
    server: EmbeddedPostgres, installation: Installation, level: str = "database"
) -> None:
    database = installation.database_url.split("@/")[1].split("?")[0]
    administrate(server, ASYNCHRONOUS[level].format(database=database))
    wait_until(
        lambda: installation.value("SHOW synchronous_commit") == "off", "the setting has arrived"
    )


def crash_once_it_is_gone(
    server: EmbeddedPostgres, installation: Installation, scene: Scene
) -> list[str]:
    """Kill the server, and start it again, when storage has answered the object's deletion."""
    crashes: list[str] = []

    def crash(**_: Any) -> None:
        if not crashes and not installation.has_object(scene.key):
            crashes.append("crashed")
            server.crash()
            server.restart()

    for event in DELETIONS:
        scene.client.meta.events.register(event, crash)
    return crashes


def run_into_a_crash(server: EmbeddedPostgres, installation: Installation, scene: Scene) -> None:
    """Let application and job work while nothing but a commit writes the log."""
    server.keep_log_in_memory()
    crashes = crash_once_it_is_gone(server, installation, scene)
    try:
        scene.ends()
        assert not scene.run().ok
    except GivenUp:
        # The careless version loses its own record too.
        assert not installation.progress()
    finally:
        if not crashes:
            server.crash()
            server.restart()
    assert crashes == ["crashed"]
    assert not installation.has_object(scene.key)


@pytest.mark.parametrize(
    ("make", "level"),
    [
        *((make, "database") for make in JOBS),
        (of_upload_reservations, "role"),
        (of_upload_reservations, "server"),
    ],
)
def test_no_row_comes_back_without_its_bytes(
    server: EmbeddedPostgres,
    installation: Installation,
    client: S3Client,
    make: Any,
    level: str,
) -> None:
    commit_asynchronously(server, installation, level)
    scene = make(installation, client)

    run_into_a_crash(server, installation, scene)

    assert not scene.broken()


# CONTROL: `filejobs prove --only asynchronous-commits` really executes the careless version, and
# the tests of prove look that it lost. Here what else a job writes brings its log to the disk.


# --- the synchronous standby is away -------------------------------------------------------------


@contextmanager
def cancelled_claim(
    server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch, end: str
) -> Iterator[list[int]]:
    """Let the COMMIT of the run's claim wait for a standby that is not there, and end the wait.

    Args:
        server: Which.
        monkeypatch: Every connection is watched for the statement before that COMMIT.
        end: The function by which an administrator ends it.

    Yields:
        The sessions whose waiting was ended.
    """
    ended: list[int] = []
    connects = Database.connect
    administrator = threading.Thread(target=lambda: ended.append(end_the_wait(server, end)))

    def before(statement: str) -> None:
        # The intent is the first event of a run without a door, and its claim's last statement.
        if "audit_append" in statement and not administrator.ident:
            require_a_standby(server)
            administrator.start()

    def watched(self: Database, purpose: str) -> Connection:
        connection = connects(self, purpose)
        watch(connection, before)
        return connection

    monkeypatch.setattr(Database, "connect", watched)
    yield ended
    administrator.join()


def require_a_standby(server: EmbeddedPostgres) -> None:
    """Come back once a commit really waits."""
    administrate(server, "ALTER SYSTEM SET synchronous_standby_names = '*'")
    with (
        psycopg.connect(server.url(), autocommit=True) as probe,
        psycopg.connect(server.url(), autocommit=True) as connection,
    ):
        pid = probe.info.backend_pid
        probe.execute("SET synchronous_commit = on")
        over = threading.Event()

        def write() -> None:
            while not over.is_set():
                probe.execute("SELECT pg_logical_emit_message(true, 'probe', '')")

        thread = threading.Thread(target=write)
        thread.start()
        wait_until(lambda: pid in waiting(connection), "a commit waits for the standby")
        over.set()
        connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
        thread.join()


def end_the_wait(server: EmbeddedPostgres, end: str) -> int:
    """End the wait of the run's own session, and then require no standby any more."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        own = "application_name NOT LIKE '%%heartbeat'"
        try:
            wait_until(lambda: bool(waiting(connection, own)), "the claim's COMMIT waits")
            [(pid, since)] = waiting(connection, own).items()
            assert connection.execute(f"SELECT {end}(%s)", (pid,)).fetchone() == (True,)
            # Who does not hear the warning goes on, and its next COMMIT may wait already.
            wait_until(lambda: waiting(connection).get(pid) != since, "its wait has ended")
        finally:
            administrate(server, "ALTER SYSTEM RESET synchronous_standby_names")
    return pid


def waiting(connection: psycopg.Connection, condition: str = "true") -> dict[int, datetime]:
    """Return the sessions whose COMMIT waits for a standby, with the time when it began."""
    found = connection.execute(
        "SELECT pid, query_start FROM pg_stat_activity "
        f"WHERE wait_event = 'SyncRep' AND {condition}".encode(),
        (),
    ).fetchall()
    return dict(found)


@pytest.mark.parametrize("make", JOBS)
def test_a_claim_whose_wait_for_the_standby_was_cancelled_takes_no_bytes(
    server: EmbeddedPostgres,
    installation: Installation,
    client: S3Client,
    monkeypatch: pytest.MonkeyPatch,
    make: Any,
) -> None:
    scene = make(installation, client)
    scene.ends()

    with cancelled_claim(server, monkeypatch, "pg_cancel_backend") as ended:
        outcome = scene.run()

    assert len(ended) == 1
    assert outcome.error is not None
    assert "came back from COMMIT with a warning: canceling wait for synch" in outcome.error
    assert installation.has_object(scene.key)
    [*_, progress] = installation.progress()
    assert progress["outcome"] == "failed"


def test_a_claim_whose_session_was_ended_meanwhile_takes_no_bytes_either(
    server: EmbeddedPostgres,
    installation: Installation,
    client: S3Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = of_upload_reservations(installation, client)
    scene.ends()

    with cancelled_claim(server, monkeypatch, "pg_terminate_backend"):
        outcome = scene.run()

    assert not outcome.ok
    assert installation.has_object(KEY)


@pytest.mark.parametrize("make", JOBS)
def test_control_who_does_not_hear_the_warning_deletes_what_the_standby_never_knew_of(
    server: EmbeddedPostgres,
    installation: Installation,
    client: S3Client,
    monkeypatch: pytest.MonkeyPatch,
    make: Any,
) -> None:
    scene = make(installation, client)
    scene.ends()
    monkeypatch.setattr(psycopg.Connection, "add_notice_handler", lambda *_: None)
    monkeypatch.setattr(psycopg.Connection, "remove_notice_handler", lambda *_: None)

    with cancelled_claim(server, monkeypatch, "pg_cancel_backend"):
        outcome = scene.run()

    assert outcome.ok, outcome.error
    assert not installation.has_object(scene.key)
