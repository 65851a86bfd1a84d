"""From an older schema, with data in it and a job at work, to this one; and old code beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.cli import migrate as command
from filejobs_dagster.postgres import migrate as migrations
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.inventory import changes
from filejobs_dagster.postgres.migrate import (
    Migration,
    MigrationRefused,
    locked,
    migrate,
    outstanding,
    shipped,
)
from tests.postgres.backends import together

if TYPE_CHECKING:
    import threading

    from psycopg.rows import TupleRow

RELEASED = 20
"""The last migration that an installation may have had before those that are tried here."""

DATA = """
INSERT INTO file (state, storage_key) SELECT 'ready', 'files/' || n FROM generate_series(1, 50) n;
INSERT INTO file (state, storage_key, upload_expires_at) VALUES ('pending', 'files/due', now());
SELECT begin_upload('files/');
SELECT mark_stored(id, 'etag', 1) FROM upload;
SELECT cancel_upload(id) FROM upload;
UPDATE upload SET attempts = 3, forgiven = 1, next_attempt_at = now() + interval '1 hour',
       last_error = 'SlowDown';
INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, scanned, acted)
SELECT 'run-' || n, 'test', 'storage_orphans', now(), 'ok', 'live', n, n
  FROM generate_series(1, 200) AS n;
INSERT INTO orphan_candidate (bucket, key, etag, size_bytes, last_modified, first_seen_run,
                              last_seen_run, fingerprint)
VALUES ('uploads', 'files/orphan', 'e', 1, now(), 'run-1', 'run-1', 'f');
INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder)
VALUES ('at-work', 'test', 'upload_reservations', 'live', 'schedule', 'host');
"""

COUNTED = ("file", "upload", "job_run", "orphan_candidate", "job_progress", "audit_event")


def counts(connection: psycopg.Connection[TupleRow]) -> dict[str, int]:
    found = {}
    for table in COUNTED:
        row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row is not None
        found[table] = row[0]
    return found


def test_a_database_of_the_last_release_comes_to_this_one_while_a_job_is_at_work(
    empty_database_url: str,
) -> None:
    url = empty_database_url
    assert len(migrate(url, available=shipped()[:RELEASED])) == RELEASED
    with (
        psycopg.connect(url, autocommit=True) as watcher,
        psycopg.connect(url) as at_work,
    ):
        watcher.execute(DATA)
        before = counts(watcher)
        # The job is in the middle of a batch, and so is an upload: neither has committed.
        at_work.execute("DELETE FROM file WHERE storage_key = 'files/due'")
        at_work.execute("UPDATE job_progress SET scanned = 1, acted = 1 WHERE run_id = 'at-work'")

        def start(_: int, barrier: threading.Barrier) -> int:
            barrier.wait()
            return len(migrate(url))

        # Several containers come up at once.
        assert sorted(together(3, start)) == [0, 0, len(shipped()) - RELEASED]
        at_work.commit()
        at_work.execute(
            "UPDATE job_progress SET outcome = 'ok', finished_at = now() WHERE run_id = 'at-work'"
        )
        at_work.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
            " VALUES ('at-work', 'test', 'upload_reservations', now(), 'ok', 'live')"
        )
        at_work.commit()
        after = counts(watcher)
        assert after == before | {"file": before["file"] - 1, "job_run": before["job_run"] + 1}
        pause = watcher.execute(
            "SELECT attempts, reason, not_before > now() FROM setback WHERE job = 'upload_cleanup'"
        ).fetchall()
        assert pause == [(2, "SlowDown", True)], "its pause moved to where every job's items are"
        with watcher.transaction(), watcher.cursor() as cursor:
            assert changes(cursor, "public") == []
        # What was append-only still is.
        watcher.execute("DELETE FROM job_run")
        assert counts(watcher) == after


def test_what_holds_a_table_makes_the_migration_give_up_with_nothing_changed(
    empty_database_url: str,
) -> None:
    url = empty_database_url
    migrate(url, available=shipped()[:RELEASED])
    with psycopg.connect(url) as holder:
        holder.execute("LOCK TABLE job_run IN ACCESS SHARE MODE")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            migrate(url)
    assert len(outstanding(Database(url))) == len(shipped()) - RELEASED
    assert len(migrate(url)) == len(shipped()) - RELEASED


def test_migrations_that_lock_a_large_table_say_so_before(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = empty_database_url
    migrate(url, available=shipped()[:RELEASED])
    database = Database(url)
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        lacking = migrations.outstanding_in(cursor)
        assert locked(cursor, lacking) == [], "nothing is large"
        (said,) = [line for line in locked(cursor, lacking, large=1) if "job_run" in line]
        assert said.startswith("0021_own_jobs.sql locks job_run (")
        index = Migration(99, "0099_probe.sql", "CREATE UNIQUE INDEX probe ON file (created_at);")
        assert "0099_probe.sql locks file (" in locked(cursor, [index], large=1)[0]
    monkeypatch.setattr(migrations.locked, "__defaults__", (1,))
    command._tell_locks(database)
    assert "locks job_run (" in capsys.readouterr().err


def test_code_of_the_version_before_reads_and_records_beside_a_newer_schema(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a migration and before the redeploy; a newer constraint ends its live runs."""
    url = empty_database_url
    ahead = replace(
        shipped()[0],
        number=len(shipped()) + 1,
        name="9999_next.sql",
        text="ALTER TABLE file ADD COLUMN next_versions text; CREATE TABLE next_versions (id int);",
    )
    migrate(url, available=(*shipped(), ahead))
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        assert changes(cursor, "public") == [], "what is only added stops nobody"
        cursor.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
            " VALUES ('old', 'test', 'storage_orphans', now(), 'ok', 'dry')"
        )
        assert cursor.rowcount == 1
        with pytest.raises(MigrationRefused, match="install that version"):
            migrations.outstanding_in(cursor)
    with pytest.raises(MigrationRefused, match="install that version"):
        migrate(url)
