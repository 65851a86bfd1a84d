"""Every job with every reason for leaving an item that is due: what is counted, and what is said.

One table for all jobs. Each scene has one item that is left, alone or beside one that goes: the run
succeeds either way, counts the item under its class, and has not swept, so that its day stays
unpainted; the standing says one and the same word, whatever else was due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from filejobs_dagster.jobs.setbacks import WAITS
from filejobs_dagster.ledger.standing import Expectation, Standing, standings
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.connect import Database
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import Files
from tests.jobs.table_retention.conftest import SESSIONS, Keeper
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from filejobs_dagster.ledger.outcome import Outcome
    from tests.installation import Installation

HELD = "held by another session"
LONG_AGO = timedelta(days=60)


class Scene(ABC):
    """One job, with items that are due.

    Attributes:
        job: Its name.
        table: Where its rows are.
    """

    job: str
    table: str

    def __init__(self, installation: Installation) -> None:
        self.installation = installation

    @abstractmethod
    def due(self, name: str) -> Any:
        """Make an item that is due, and return its row's id."""

    @abstractmethod
    def run(self, **limits: Any) -> Outcome:
        """One live run."""

    @contextmanager
    def held(self, row: Any) -> Iterator[None]:
        """Another session that has locked a row, and does not end."""
        with psycopg.connect(self.installation.database_url) as other:
            other.execute(f"SELECT FROM {self.table} WHERE id = %s FOR UPDATE".encode(), (row,))
            yield

    @contextmanager
    def named(self, row: Any) -> Iterator[None]:
        """A row of another table that names a row, by a foreign key."""
        self.installation.execute(f"CREATE TABLE share (id bigserial, row_id {self.id_type()})")
        self.installation.execute(
            f"ALTER TABLE share ADD FOREIGN KEY (row_id) REFERENCES {self.table}"
        )
        self.installation.execute("INSERT INTO share (row_id) VALUES (%s)", (row,))
        yield
        self.installation.execute("DROP TABLE share")

    @contextmanager
    def child(self, row: Any) -> Iterator[None]:
        """A child that another session has inserted, and not committed."""
        self.installation.execute(
            f"CREATE TABLE child (row_id {self.id_type()} REFERENCES {self.table})"
        )
        with psycopg.connect(self.installation.database_url) as other:
            other.execute("INSERT INTO child VALUES (%s)", (row,))
            yield
        self.installation.execute("DROP TABLE child")

    def id_type(self) -> str:
        found: str = self.installation.value(
            "SELECT format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attname = 'id'",
            (self.table,),
        )
        return found

    def there(self) -> int:
        """How many rows are left."""
        return int(self.installation.value(f"SELECT count(*) FROM {self.table}"))

    def standing(self, outcome: Outcome) -> Standing:
        """What the watchdog says once the run is recorded."""
        self.installation.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, scanned,"
            " acted, detail, error) VALUES (gen_random_uuid(), 'test', %s, now(), %s, 'live', %s,"
            " %s, %s, %s)",
            (
                self.job,
                "ok" if outcome.ok else "failed",
                outcome.scanned,
                outcome.acted,
                Jsonb(outcome.detail),
                outcome.error,
            ),
        )
        expected = Expectation(self.job, True, "live", timedelta(hours=2))
        with psycopg.connect(self.installation.database_url) as connection:
            found = standings(connection.cursor(), "test", [expected])
        return next(each for each in found if each.job == self.job)


class Reservations(Scene):
    job, table = "upload_reservations", "file"

    def due(self, name: str) -> Any:
        return self.installation.reserve(f"files/{name}", due_ago=LONG_AGO)

    def run(self, **limits: Any) -> Outcome:
        settings = self.installation.settings()
        return Collector(self.installation, make_client(settings.buckets["uploads"]))(**limits)


class DeletedFiles(Scene):
    job, table = "deleted_files", "file"

    def _files(self) -> Files:
        settings = self.installation.settings()
        return Files(self.installation, make_client(settings.buckets["uploads"]))

    def due(self, name: str) -> Any:
        return self._files().delete(f"files/{name}", ago=LONG_AGO)

    def run(self, **limits: Any) -> Outcome:
        return self._files()(**limits)


class Cleanup(Scene):
    job, table = "upload_cleanup", "upload"

    def due(self, name: str) -> Any:
        uploads = Uploads(self.installation)
        upload = uploads.cancelled(suffix=name)
        uploads.change(upload, "next_attempt_at = clock_timestamp() - interval '1 second'")
        return upload.id

    def run(self, **limits: Any) -> Outcome:
        settings = self.installation.settings()
        return Cleaner(self.installation, make_client(settings.buckets["uploads"]))(**limits)

    def there(self) -> int:
        return int(self.installation.value("SELECT count(*) FROM upload WHERE state = 'cleanup'"))


class Retention(Scene):
    job, table = "table_retention", "session"

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation)
        self._keeper = Keeper(installation.database_url, Database(installation.database_url))
        self._keeper.execute(SESSIONS)

    def due(self, name: str) -> Any:
        return self._keeper.value(
            "INSERT INTO session (expires_at, note) VALUES (now() - %s, %s) RETURNING id",
            (LONG_AGO, name),
        )

    def run(self, **limits: Any) -> Outcome:
        return self._keeper.run(**limits)


JOBS = (Reservations, DeletedFiles, Cleanup, Retention)
WITH_KEYS = (Reservations, DeletedFiles, Retention)


@pytest.fixture
def scene(installation: Installation, request: pytest.FixtureRequest) -> Scene:
    made: Scene = request.param(installation)
    return made


def each(jobs: tuple[type[Scene], ...]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scene", jobs, indirect=True, ids=lambda made: made.job)


def steady(scene: Scene, keeps: AbstractContextManager[None], fate: str, **also: int) -> None:
    """Alone, beside one that goes, and alone again: one word."""
    words = set()
    with keeps:
        for goes in (0, 1, 0):
            if goes:
                scene.due("goes")
            outcome = scene.run()
            assert outcome.ok, outcome.error
            assert outcome.acted == goes
            classes = outcome.detail["classes"]
            assert classes.get(fate, 0) + classes.get(WAITS, 0) == 1, classes
            assert outcome.detail["untouched"] == 1
            assert outcome.detail["swept"] is False
            standing = scene.standing(outcome)
            words.add((standing.word, standing.severity))
    assert len(words) == 1, words


@each(JOBS)
def test_a_row_that_another_session_holds_is_due_and_passed_over(scene: Scene) -> None:
    steady(scene, scene.held(scene.due("left")), HELD)
    outcome = scene.run()
    assert (outcome.acted, outcome.detail["swept"]) == (1, True)
    assert scene.there() == 0


@each(WITH_KEYS)
def test_a_row_whose_child_is_not_committed_yet_is_due_and_passed_over(scene: Scene) -> None:
    with scene.child(scene.due("left")):
        scene.due("goes")
        outcome = scene.run()

    assert outcome.acted == 1
    assert outcome.detail["classes"][HELD] == 1
    assert outcome.detail["swept"] is False


@each(WITH_KEYS)
def test_a_row_that_a_foreign_key_keeps_gives_one_word_whatever_else_is_due(scene: Scene) -> None:
    refused = "refused by PostgreSQL" if scene.job == "table_retention" else "claim refused"
    steady(scene, scene.named(scene.due("left")), refused)
    scene.installation.execute("UPDATE setback SET not_before = now()")
    assert scene.standing(scene.run()).word == "ok"


@each((Reservations, DeletedFiles))
def test_a_protected_row_gives_one_word_whatever_else_is_due(scene: Scene) -> None:
    scene.due("brand/logo")
    steady(scene, nullcontext(), "kept: protected")
