"""A restore that races, with real backends; each guard with a control that loses data."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.book.bookkeeping import Bookkeeping
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.deleted_files import statements
from filejobs_dagster.jobs.deleted_files.collection import Collection
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.deleted_files.collecting import Files

CARELESS_CLAIM = """
DELETE FROM file
 WHERE id = ANY(%(ids)s) AND (%(begins)s, %(before)s, %(deleted_from)s, %(deleted_before)s)
       IS NOT NULL
RETURNING id, storage_key, now(), retain_until, created_at
"""


def between_look_and_claim(monkeypatch: pytest.MonkeyPatch, what: Callable[[], object]) -> None:
    """Let something happen once, after candidates were read and before they are claimed."""
    read = Collection._read
    done: list[object] = []

    def read_then(self: Any, *arguments: Any) -> Any:
        page = read(self, *arguments)
        if page and not done:
            done.append(what())
        return page

    monkeypatch.setattr(Collection, "_read", read_then)


@contextmanager
def in_the_claim(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, Any]]:
    """Let the collector stop once, right before its claim commits; two events: there, and go on."""
    there, go_on = threading.Event(), threading.Event()
    commit_claim = Bookkeeping.commit_claim

    def stop(self: Any, *arguments: Any, **named: Any) -> None:
        commit_claim(self, *arguments, **named)
        there.set()
        assert go_on.wait(20)

    monkeypatch.setattr(Bookkeeping, "commit_claim", stop)
    yield there, go_on
    go_on.set()


def test_a_file_that_is_restored_between_look_and_claim_keeps_row_and_bytes(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    regretted = files.delete("files/regretted")
    files.delete("files/forgotten")
    between_look_and_claim(monkeypatch, lambda: files.restore(regretted))

    outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 1)
    assert outcome.detail["classes"]["won by others"] == 1
    assert files.rows() == files.keys() == {"files/regretted"}
    assert files.installation.value("SELECT state FROM file") == "ready"


def test_control_a_claim_that_trusts_the_look_loses_the_restored_file(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    regretted = files.delete("files/regretted")
    told: list[bool] = []
    between_look_and_claim(monkeypatch, lambda: told.append(files.restore(regretted)))
    monkeypatch.setattr(statements, "CLAIM", CARELESS_CLAIM)

    files()

    assert told == [True], "its owner was told that the file is back"
    assert files.rows() == files.keys() == set()


CHANGES = {
    "files/retained": "retain_until = now() + interval '1 day'",
    "files/deleted again": "deleted_at = now()",
    "files/undated": "deleted_at = NULL",
    "files/pending": "state = 'pending'",
}


def test_whatever_changes_between_look_and_claim_is_seen_by_the_claim(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in CHANGES:
        files.delete(key)

    def change() -> None:
        for key, what in CHANGES.items():
            files.installation.execute(f"UPDATE file SET {what} WHERE storage_key = %s", (key,))

    between_look_and_claim(monkeypatch, change)

    outcome = files()

    assert (outcome.scanned, outcome.acted) == (4, 0)
    assert files.rows() == files.keys() == set(CHANGES)


def test_what_a_dry_run_had_reported_and_was_restored_since_is_not_taken(files: Files) -> None:
    regretted = files.delete("files/regretted")
    assert files(mode="dry").detail["would_collect"] == 1
    assert files.restore(regretted)

    assert files().acted == 0
    assert files.keys() == {"files/regretted"}


def test_a_restore_that_is_not_committed_yet_is_not_waited_for_and_wins(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    regretted = files.delete("files/regretted")
    with psycopg.connect(files.installation.database_url) as owner:
        between_look_and_claim(
            monkeypatch, lambda: owner.execute("SELECT restore_file(%s)", (regretted,))
        )

        outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 0)
    assert files.rows() == files.keys() == {"files/regretted"}


def test_a_restore_that_comes_while_the_claim_commits_waits_and_is_told_that_it_lost(
    files: Files, monkeypatch: pytest.MonkeyPatch, connection: psycopg.Connection
) -> None:
    late = files.delete("files/late")
    with (
        in_the_claim(monkeypatch) as (there, go_on),
        ThreadPoolExecutor(2) as pool,
        psycopg.connect(files.installation.database_url, autocommit=True) as owner,
    ):
        run = pool.submit(files)
        assert there.wait(20)
        restoring = pool.submit(
            lambda: owner.execute("SELECT restore_file(%s)", (late,)).fetchone()
        )
        wait_until(lambda: is_waiting(connection, owner.info.backend_pid), "the restore waits")
        go_on.set()

        assert restoring.result(20) == (False,)
        assert run.result(20).acted == 1
    assert files.rows() == files.keys() == set()


def test_a_restore_that_comes_while_the_claim_rolls_back_waits_and_wins(
    files: Files, monkeypatch: pytest.MonkeyPatch, connection: psycopg.Connection
) -> None:
    late = files.delete("files/late")
    with (
        in_the_claim(monkeypatch) as (there, go_on),
        ThreadPoolExecutor(2) as pool,
        psycopg.connect(files.installation.database_url, autocommit=True) as owner,
    ):
        run = pool.submit(files)
        assert there.wait(20)
        restoring = pool.submit(
            lambda: owner.execute("SELECT restore_file(%s)", (late,)).fetchone()
        )
        wait_until(lambda: is_waiting(connection, owner.info.backend_pid), "the restore waits")
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE query LIKE '%audit_append_many%' AND pid <> pg_backend_pid()"
            "   AND state = 'idle in transaction'"
        )
        go_on.set()

        assert restoring.result(20) == (True,)
        assert not run.result(20).ok
    assert files.rows() == files.keys() == {"files/late"}


def test_a_key_that_is_referenced_again_before_the_bytes_go_stays(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.delete("files/again")
    sizes = Removal.sizes

    def refer_to_it(self: Any, keys: Any) -> Any:
        files.installation.execute(
            "INSERT INTO file (state, storage_key) VALUES ('ready', 'files/again')"
        )
        return sizes(self, keys)

    monkeypatch.setattr(Removal, "sizes", refer_to_it)

    assert files().ok
    assert files.keys() == {"files/again"}


@pytest.mark.thorough
def test_ten_thousand_and_fifty_go_while_the_application_deletes_and_restores(
    files: Files,
) -> None:
    files.delete_many([f"files/{n}" for n in range(10_050)])
    stop = threading.Event()
    restored: list[Any] = []
    problems: list[Exception] = []

    def application() -> None:
        try:
            with psycopg.connect(files.installation.database_url, autocommit=True) as connection:
                while not stop.wait(0.01):
                    row = connection.execute(
                        "INSERT INTO file (storage_key, state, deleted_at) VALUES ("
                        " 'files/new-' || gen_random_uuid(), 'deleted', now() - interval '40 days')"
                        " RETURNING id"
                    ).fetchone()
                    assert row is not None
                    if connection.execute("SELECT restore_file(%s)", row).fetchone() == (True,):
                        restored.append(row[0])
        except Exception as error:  # noqa: BLE001 (shown by the assertion below)
            problems.append(error)

    thread = threading.Thread(target=application)
    thread.start()
    outcome = files(limit=20_000, batch_size=500, count_bytes=False)
    stop.set()
    thread.join()

    assert not problems
    assert outcome.ok, outcome.error
    assert outcome.acted is not None
    assert outcome.acted >= 10_050
    assert len(restored) > 10
    ready = files.installation.value(
        "SELECT count(*) FROM file WHERE id = ANY(%s) AND state = 'ready'", (restored,)
    )
    assert ready == len(restored)
