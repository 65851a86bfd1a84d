"""Connections: limits that reach one transaction only, names, errors without secrets."""

from __future__ import annotations

import os
import signal
import socket
import threading
import traceback
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.postgres.connect import (
    APPLICATION_NAME_BYTES,
    CommitUnconfirmed,
    Database,
    DatabaseUnavailable,
    application_name,
    close_after_interrupt,
    trying_again,
)
from tests.postgres.backends import is_connected, set_for_database, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = (
    "statement_timeout",
    "lock_timeout",
    "search_path",
    "TimeZone",
    "idle_in_transaction_session_timeout",
)


class Stopped(BaseException):
    """What a signal handler raises in these tests."""


def settings_of(connection: psycopg.Connection) -> dict[str, str]:
    query = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"
    return dict(connection.execute(query, (list(SETTINGS),)).fetchall())


def test_the_statement_timeout_ends_a_long_statement(database_url: str) -> None:
    database = Database(database_url, statement_timeout=timedelta(milliseconds=50))
    with database.connect("test") as connection:
        with (
            pytest.raises(psycopg.errors.QueryCanceled),
            database.transaction(connection) as cursor,
        ):
            cursor.execute("SELECT pg_sleep(30)")
        with database.transaction(connection, unlimited=True) as cursor:
            cursor.execute("SELECT pg_sleep(0.2)")
            assert cursor.rowcount == 1


def test_the_lock_timeout_ends_waiting_for_a_row(
    database_url: str, connection: psycopg.Connection
) -> None:
    connection.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
    database = Database(database_url, lock_timeout=timedelta(milliseconds=50))
    with psycopg.connect(database_url) as holder:
        holder.execute("SELECT FROM file FOR UPDATE")
        with (
            database.connect("test") as waiter,
            pytest.raises(psycopg.errors.LockNotAvailable),
            database.transaction(waiter) as cursor,
        ):
            cursor.execute("SELECT FROM file FOR UPDATE")


@pytest.mark.parametrize("ends_well", [True, False])
def test_no_setting_outlives_its_transaction(database_url: str, ends_well: bool) -> None:
    database = Database(database_url, schema="elsewhere")
    with database.connect("test") as connection:
        before = settings_of(connection)
        try:
            with database.transaction(connection, read_only=True) as cursor:
                inside = settings_of(connection)
                cursor.execute("SELECT 1" if ends_well else "SELECT 1 / 0")
        except psycopg.errors.DivisionByZero:
            assert not ends_well
        assert settings_of(connection) == before
        assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)
    assert inside == {
        "statement_timeout": "30000",
        "lock_timeout": "5000",
        "search_path": '"elsewhere", pg_temp',
        "TimeZone": "UTC",
        "idle_in_transaction_session_timeout": "300000",
    }


@pytest.mark.parametrize(
    ("usual", "effective"),
    [
        ("off", "on"),
        ("local", "on"),
        ("remote_write", "on"),
        ("on", "on"),
        ("remote_apply", "remote_apply"),
    ],
)
def test_every_transaction_commits_durably_whatever_the_session_has(
    database_url: str, usual: str, effective: str
) -> None:
    database = Database(database_url)
    with database.connect("test") as connection:
        connection.execute(f"SET synchronous_commit = {usual}")
        with database.transaction(connection) as cursor:
            cursor.execute("SHOW synchronous_commit")
            assert cursor.fetchone() == (effective,)
        assert connection.execute("SHOW synchronous_commit").fetchone() == (usual,)


def test_a_commit_that_comes_back_with_a_warning_is_none_and_is_not_tried_again(
    database_url: str, connection: psycopg.Connection
) -> None:
    database = Database(database_url)
    tries = []

    def ends_itself() -> None:
        tries.append("a try")
        with database.transaction(writer) as cursor:
            # The COMMIT that follows finds no transaction, and warns.
            cursor.execute("COMMIT")

    with database.connect("test") as writer:
        # CONTROL: the client library alone takes it for a success.
        with writer.transaction():
            writer.execute("COMMIT")
        with pytest.raises(CommitUnconfirmed, match="there is no transaction in progress"):
            trying_again(ends_itself)
        assert tries == ["a try"]
        # What was said of one transaction is not held against the next.
        with database.transaction(writer) as cursor:
            cursor.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
    assert connection.execute("SELECT storage_key FROM file").fetchall() == [("files/a",)]


def test_what_statements_and_triggers_warn_of_is_not_held_against_the_commit(
    database_url: str, connection: psycopg.Connection
) -> None:
    connection.execute(
        "CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE WARNING 'a file'; RETURN NULL; END $$"
    )
    connection.execute(
        "CREATE CONSTRAINT TRIGGER warn AFTER INSERT ON file DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION warn()"
    )
    database = Database(database_url)
    heard: list[str | None] = []
    with database.connect("test") as writer:
        writer.add_notice_handler(lambda said: heard.append(said.message_primary))
        with database.transaction(writer) as cursor:
            cursor.execute("SELECT pg_advisory_unlock(1)")
            cursor.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
    assert heard == ["you don't own a lock of type ExclusiveLock", "a file"]
    assert connection.execute("SELECT count(*) FROM file").fetchone() == (1,)


def test_a_transaction_whose_error_somebody_caught_does_not_look_committed(
    database_url: str, connection: psycopg.Connection
) -> None:
    database = Database(database_url)

    def careless(cursor: psycopg.Cursor) -> None:
        cursor.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
        with pytest.raises(psycopg.errors.DivisionByZero):
            cursor.execute("SELECT 1 / 0")

    with database.connect("test") as writer:
        # CONTROL: the client library says nothing, and nothing was committed.
        with writer.transaction(), writer.cursor() as cursor:
            careless(cursor)
        assert connection.execute("SELECT count(*) FROM file").fetchone() == (0,)
        with (
            pytest.raises(psycopg.errors.InFailedSqlTransaction, match="rolled back"),
            database.transaction(writer) as cursor,
        ):
            careless(cursor)


def test_a_transaction_commits_at_its_end_and_rolls_back_on_an_error(
    database_url: str, connection: psycopg.Connection
) -> None:
    database = Database(database_url)
    insert = "INSERT INTO file (storage_key) VALUES (%s)"
    with database.connect("test") as writer:
        with database.transaction(writer) as cursor:
            cursor.execute(insert, ("kept",))
        with (
            pytest.raises(psycopg.errors.UniqueViolation),
            database.transaction(writer) as cursor,
        ):
            cursor.executemany(insert, [("lost",), ("kept",)])
    assert connection.execute("SELECT storage_key FROM file").fetchall() == [("kept",)]


def test_a_read_only_transaction_refuses_every_write(database_url: str) -> None:
    database = Database(database_url)
    with (
        database.connect("test") as connection,
        pytest.raises(psycopg.errors.ReadOnlySqlTransaction),
        database.transaction(connection, read_only=True) as cursor,
    ):
        cursor.execute("INSERT INTO file (storage_key) VALUES ('files/a')")


def test_a_policy_that_hides_rows_raises_instead_of_looking_empty(
    database_url: str, connection: psycopg.Connection
) -> None:
    role = f"reader_{uuid.uuid4().hex}"
    connection.execute("INSERT INTO file (storage_key) VALUES ('files/a')")
    connection.execute("ALTER TABLE file ENABLE ROW LEVEL SECURITY")
    connection.execute(f"CREATE ROLE {role}")
    connection.execute(f"GRANT SELECT ON file TO {role}")
    database = Database(database_url)
    try:
        with database.connect("test") as reader:
            reader.execute(f"SET ROLE {role}")
            # CONTROL: outside of our transactions the table looks empty.
            assert reader.execute("SELECT count(*) FROM file").fetchone() == (0,)
            with (
                pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
                database.transaction(reader, read_only=True) as cursor,
            ):
                cursor.execute("SELECT count(*) FROM file")
    finally:
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


def test_a_temporary_table_of_the_session_does_not_shadow_ours(database_url: str) -> None:
    database = Database(database_url)
    with database.connect("test") as connection:
        connection.execute("CREATE TEMPORARY TABLE file (decoy integer)")
        with database.transaction(connection) as cursor:
            cursor.execute("SELECT storage_key FROM file")
            assert cursor.fetchall() == []


def test_the_isolation_is_ours_whatever_the_database_prefers(
    database_url: str, connection: psycopg.Connection
) -> None:
    set_for_database(connection, "default_transaction_isolation", "serializable")
    database = Database(database_url)
    with database.connect("test") as reader, database.transaction(reader) as cursor:
        cursor.execute("SELECT count(*) FROM file")
        connection.execute("INSERT INTO file (storage_key) VALUES ('came meanwhile')")
        cursor.execute("SELECT count(*) FROM file")
        assert cursor.fetchone() == (1,)


def test_times_are_read_whatever_form_the_database_prefers(
    database_url: str, connection: psycopg.Connection
) -> None:
    set_for_database(connection, "DateStyle", "SQL, DMY")
    set_for_database(connection, "IntervalStyle", "iso_8601")
    database = Database(database_url)
    with database.connect("test") as reader, database.transaction(reader) as cursor:
        cursor.execute("SELECT '01/02/2026'::timestamptz, interval '36 hours'")
        assert cursor.fetchone() == (
            datetime(2026, 2, 1, tzinfo=timezone.utc), timedelta(hours=36),
        )  # fmt: skip


@pytest.mark.parametrize("purpose", ["mirror", "ü" * 60, "📦" * 30, "x" * 200, ""])
def test_the_application_name_is_what_postgresql_keeps(database_url: str, purpose: str) -> None:
    with Database(database_url).connect(purpose) as connection:
        row = connection.execute(
            "SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()"
        ).fetchone()
    assert row is not None
    sent = application_name(purpose)
    assert len(sent.encode()) <= APPLICATION_NAME_BYTES
    assert sent == f"filejobs/{purpose}"[: len(sent)]
    # PostgreSQL writes what is not ASCII as escapes, and cuts those again.
    escaped = "".join(
        character if character.isascii() else "".join(f"\\x{b:02x}" for b in character.encode())
        for character in sent
    )
    assert escaped.startswith(row[0])


@pytest.mark.parametrize(
    ("url", "pieces"),
    [
        ("postgresql://app:h0rse%40battery@127.0.0.1:1/files", ["h0rse", "battery"]),
        ("host=127.0.0.1 port=1 user=app password='h0rse battery' dbname=files", ["h0rse"]),
        ("postgresql://app:h0rse@battery@127.0.0.1:1/files", ["h0rse", "battery"]),
        ("postgresql://app:h0rse/battery@127.0.0.1:1/files", ["h0rse", "battery"]),
        ("postgresql://app:4711/battery@127.0.0.1:1/files", ["4711", "battery"]),
        ("postgresql://app:h0rse%battery@127.0.0.1:1/files", ["h0rse", "battery"]),
        ("postgresql://app:h0rse battery@127.0.0.1:1/files", ["h0rse", "battery"]),
        ("postgresql+psycopg2://app:h0rse@127.0.0.1:1/files", ["h0rse"]),
        ("host=127.0.0.1 port=1 password=h0rse battery", ["h0rse", "battery"]),
        ("postgresql://127.0.0.1:1/files?passwort=h0rse", ["h0rse"]),
        # What a tool makes of an unescaped password when it writes the URL as options.
        ("user=app password=h0rse host=bat@127.0.0.1 port=1 dbname=files", ["h0rse", "bat@"]),
        ('host=127.0.0.1 password="h0rse "bat" tery" x', ["h0rse", "bat", "tery"]),
    ],
)
def test_an_error_never_shows_a_piece_of_the_password(url: str, pieces: list[str]) -> None:
    database = Database(url, connect_timeout=timedelta(seconds=2))
    with pytest.raises(DatabaseUnavailable) as refused:
        database.connect("test")
    shown = "".join(traceback.format_exception(refused.value)).partition("\n")[2]
    shown = "\n".join(line for line in shown.splitlines() if "Error" in line or "Unav" in line)
    for piece in pieces:
        assert piece not in str(refused.value)
        assert piece not in shown
        assert piece not in database.address()
        assert piece not in repr(database)


def test_an_error_says_where_and_what_to_check() -> None:
    database = Database("postgresql://app:h0rse@127.0.0.1:1/files")
    with pytest.raises(DatabaseUnavailable, match=r"at 127\.0\.0\.1:1/files for mirror") as refused:
        database.connect("mirror")
    assert "Check that the server runs" in str(refused.value)


def test_an_unescaped_password_is_told_how_to_be_written() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"@ as %40"):
        Database("postgresql://app:h0rse@battery@127.0.0.1:1/files").connect("test")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("postgresql://app:x@db.example:6432/files", "db.example:6432/files"),
        ("postgresql://app:x@db.example/files", "db.example:5432/files"),
        ("postgresql:///files?host=/run/pg&port=7", "/run/pg:7/files"),
        ("postgresql://h1:1,h2:2/files", "h1,h2:1,2/files"),
        ("host=db dbname=files password=x", "db:5432/files"),
        ("postgresql://app:x@db/a%40b", "db:5432/a@b"),
        ("", "the default socket:5432/"),
        ("nonsense", "an address that libpq cannot read"),
    ],
)
def test_an_address_is_what_an_operator_recognises(url: str, address: str) -> None:
    assert Database(url).address() == address


@pytest.fixture
def server_without_tls() -> Iterator[int]:
    """A listener that answers a request for TLS as PostgreSQL does when it has none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            try:
                while True:
                    client, _ = listener.accept()
                    with client:
                        client.recv(8)
                        client.sendall(b"N")
            except OSError:
                return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_the_tls_options_reach_libpq_and_win_over_the_url(server_without_tls: int) -> None:
    url = f"postgresql://app:x@127.0.0.1:{server_without_tls}/files?sslmode=disable"
    database = Database(url, tls={"sslmode": "verify-full", "sslrootcert": os.devnull})
    with pytest.raises(DatabaseUnavailable, match=r"(?i)does not support SSL.*was required"):
        database.connect("test")


def test_options_of_the_settings_become_a_database() -> None:
    class Secret:
        def reveal(self) -> str:
            return "postgresql://db/files"

    class Options:
        url = Secret()
        schema_name = "files"
        connect_timeout = timedelta(seconds=1)
        statement_timeout = timedelta(seconds=2)
        lock_timeout = timedelta(seconds=3)
        sslmode = "verify-full"
        sslrootcert = None
        sslcert = None
        sslkey = None

    assert Database.of(Options()) == Database(
        "postgresql://db/files",
        "files",
        timedelta(seconds=1),
        timedelta(seconds=2),
        timedelta(seconds=3),
        {"sslmode": "verify-full"},
    )


def sleeping(database: Database, backends: list[psycopg.Connection]) -> None:
    """Run a long statement, and remember its connection for the one who interrupts."""
    connection = database.connect("sleeper")
    backends.append(connection)
    with database.transaction(connection, unlimited=True) as cursor:
        cursor.execute("SELECT pg_sleep(120)")


def test_after_an_interrupt_the_server_runs_nothing_any_more(
    database_url: str, connection: psycopg.Connection
) -> None:
    """The signal's exception is not one that psycopg knows, as Dagster's is not either."""
    backends: list[psycopg.Connection] = []

    def stop(*_: object) -> None:
        raise Stopped

    def interrupt() -> None:
        wait_until(lambda: any(map(is_asleep, backends)), "the statement runs")
        os.kill(os.getpid(), signal.SIGUSR1)

    def is_asleep(sleeper: psycopg.Connection) -> bool:
        query = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"
        return connection.execute(query, (sleeper.info.backend_pid,)).fetchone() is not None

    before = signal.signal(signal.SIGUSR1, stop)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(Stopped):
            sleeping(Database(database_url), backends)
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)
    (sleeper,) = backends
    pid = sleeper.info.backend_pid
    close_after_interrupt(sleeper)
    wait_until(lambda: not is_connected(connection, pid), "the backend is gone", seconds=10)


def test_control_closing_alone_leaves_the_statement_running(
    database_url: str, connection: psycopg.Connection
) -> None:
    sleeper = psycopg.connect(database_url)
    pid = sleeper.info.backend_pid
    sleeper.pgconn.send_query(b"SELECT pg_sleep(120)")
    query = "SELECT FROM pg_stat_activity WHERE pid = %s AND wait_event = 'PgSleep'"

    def is_asleep() -> bool:
        return connection.execute(query, (pid,)).fetchone() is not None

    wait_until(is_asleep, "the statement runs")
    sleeper.close()
    try:
        threading.Event().wait(1)
        assert is_asleep()
    finally:
        connection.execute("SELECT pg_terminate_backend(%s)", (pid,))


def test_closing_after_an_interrupt_is_harmless_when_nothing_runs(
    database_url: str, connection: psycopg.Connection, capsys: pytest.CaptureFixture[str]
) -> None:
    idle = Database(database_url).connect("test")
    close_after_interrupt(idle)
    close_after_interrupt(idle)
    assert idle.closed
    broken = Database(database_url).connect("test")
    connection.execute("SELECT pg_terminate_backend(%s, 10000)", (broken.info.backend_pid,))
    close_after_interrupt(broken)
    assert broken.closed
    assert "password" not in capsys.readouterr().err
