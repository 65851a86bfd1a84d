"""Every job with every reason for leaving an item that is due: what is counted, and what is said.

One table for all jobs. Each scene has one item that is left, alone or beside one that goes: the run
succeeds either way, counts the item under its class, and has not swept, so that its day stays
unpainted; the standing says one and the same word, whatever else was due.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args
from xml.etree import ElementTree as ET

import psycopg
import pytest
from psycopg.types.json import Jsonb

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.jobs.setbacks import WAITS
from filejobs_dagster.jobs.storage_orphans import expiring
from filejobs_dagster.ledger.standing import Expectation, Standing, standings
from filejobs_dagster.ledger.swept_days import swept_days
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.quarantine import copies_below
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.registry import BY_NAME
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import Files
from tests.jobs.multipart_uploads.conftest import Sweeper as Aborter
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.storage_orphans.killed import all_are_due
from tests.jobs.table_retention.conftest import SESSIONS, Keeper
from tests.jobs.test_upload_reservations_storage import answer, denied, error
from tests.jobs.upload_cleanup.uploads import Begun, Cleaner, Uploads
from tests.objects.multipart.server import MultipartServer, is_abort, is_listing_of_parts
from tests.objects.scripted import Answer, errors, scripted_s3
from tests.own_tables import OwnTables, example, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from tests.installation import Installation
    from tests.objects.scripted import Request, ScriptedS3

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

    @cached_property
    def client(self) -> S3Client:
        """Of the job; a test prepares it with faults."""
        return make_client(self.installation.settings().buckets["uploads"])

    @classmethod
    def among(cls, reason: str, installation: Installation, /) -> Scene:
        """The job where a reason for leaving an item can occur."""
        if reason == "locked":
            installation.client.create_bucket(
                Bucket=f"{installation.bucket}-locked", ObjectLockEnabledForBucket=True
            )
            installation.bucket += "-locked"
            own = {"bucket": installation.bucket, "purge_versions": True}
            installation.document["buckets"]["uploads"] |= own
        if reason == "ambiguous":
            installation.execute("CREATE TABLE mention (value text)")
            installation.execute(
                "INSERT INTO mention SELECT 'files/exact/' || n FROM generate_series(1, 60) AS n"
            )
            installation.document["buckets"]["uploads"]["sources"] = [
                {"name": "it", "sql": "select value from mention", "keys_checked_by_hand": True}
            ]
        return cls(installation)

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

    # What keeps the item whose key or note says `left`, while it lasts.

    @contextmanager
    def hindered(self, reason: Reason) -> Iterator[dict[str, Any]]:
        """Make the item, and keep it for a reason; gives what the runs are told."""
        keeps: dict[Reason, Callable[[], AbstractContextManager[dict[str, Any] | None]]] = {
            "held": lambda: self.held(self.due("left")),
            "locked": self.locked,
            "denied": lambda: self.answered("DeleteObjects DeleteObject", self.refuse),
            "cannot be looked at": lambda: self.answered("HeadObject", lambda _: answer(403, "")),
            "no key": self.without_key,
            "no usable time": self.without_time,
            "ambiguous": self.ambiguous,
            "protected": self.protected,
            "deferred": self.deferred,
            "limit": self.limited,
            "ghost": lambda: self.answered("HeadObject", lambda _: answer(404, "")),
            "not copied": self.not_copied,
            "copy denied": self.copy_denied,
        }
        with keeps[reason]() as told:
            yield told or {}

    def key(self) -> str:
        """The key of the item."""
        return "files/left"

    @contextmanager
    def locked(self) -> Iterator[None]:
        self.due("left")
        self._hold("ON")
        yield
        self._hold("OFF")

    def _hold(self, status: Literal["ON", "OFF"]) -> None:
        self.installation.client.put_object_legal_hold(
            Bucket=self.installation.bucket, Key=self.key(), LegalHold={"Status": status}
        )

    @contextmanager
    def answered(self, operations: str, reply: Callable[[Any], Any]) -> Iterator[None]:
        """Requests of some operations that name the item are answered so."""
        self.due("left")
        with self.always_answered(operations, reply):
            yield

    @contextmanager
    def always_answered(self, operations: str, reply: Callable[[Any], Any]) -> Iterator[None]:
        """The same for an item that is there."""
        lasts = [True]

        def before_send(request: Any, **_: Any) -> Any:
            named = lasts and "left" in f"{request.url} {request.body!r}"
            return reply(request) if named else None

        events: Any = self.client.meta.events
        for operation in operations.split():
            events.register(f"before-send.s3.{operation}", before_send)
        yield
        lasts.clear()

    def refuse(self, request: Any) -> Any:
        """Storage that lets everything go but the item."""
        if request.method == "DELETE":
            return answer(403, error("AccessDenied"))
        body = ET.fromstring(request.body)  # noqa: S314 (our own request)
        names = [each.text or "" for each in body.iter() if each.tag.endswith("Key")]
        for name in names:
            if "left" not in name:
                self.installation.client.delete_object(Bucket=self.installation.bucket, Key=name)
        return denied(names, lambda name: "left" in name)

    def without_key(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    def without_time(self) -> AbstractContextManager[None]:
        raise NotImplementedError

    @contextmanager
    def ambiguous(self) -> Iterator[None]:
        self.due("left")
        self.installation.execute("INSERT INTO mention VALUES (%s)", (f"/{self.key()}",))
        yield
        self.installation.execute("DELETE FROM mention WHERE value LIKE '/%'")

    @contextmanager
    def protected(self) -> Iterator[None]:
        self.due("brand/left")
        yield
        self.installation.document["buckets"]["uploads"]["protect"] = []

    def deferred(self) -> AbstractContextManager[dict[str, Any]]:
        raise NotImplementedError

    @contextmanager
    def limited(self) -> Iterator[dict[str, Any]]:
        self.due("left")
        yield {"limit": 1, "batch_size": 1}

    @contextmanager
    def not_copied(self) -> Iterator[dict[str, Any]]:
        """Quarantine into which the item cannot be copied."""
        with self.answered("CopyObject", lambda _: answer(403, error("AccessDenied"))):
            yield {"quarantine": True}

    def copy_denied(self) -> AbstractContextManager[dict[str, Any]]:
        raise NotImplementedError

    def is_there(self) -> bool:
        """Whether the item, or its object, is still there."""
        there = self.installation.keys()
        return any("left" in key for key in there if not key.startswith(QUARANTINE))

    def pauses_are_over(self) -> None:
        self.installation.execute("UPDATE setback SET not_before = now()")

    def nights_pass(self) -> None:
        """Let what is remembered of the item be ten days old; of most, the rows alone tell."""
        self.installation.execute("SELECT")

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

    def is_painted(self) -> bool:
        """Whether the day on which the item became due counts as swept, by what is recorded."""
        day = (datetime.now(timezone.utc) - LONG_AGO).date()
        with psycopg.connect(self.installation.database_url) as connection:
            return swept_days(connection.cursor(), "test", self.job, [day]).swept(day)

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
        return Collector(self.installation, self.client)(**limits)


class OwnReservations(Scene):
    """upload_reservations on a table of the operator's, which holds what ours does not."""

    job, table = "upload_reservations", "documents"
    installation: OwnTables

    @classmethod
    def among(cls, _reason: str, installation: Installation, /) -> Scene:
        own = OwnTables(
            installation.folder, installation.database_url, installation.bucket,
            installation.client, installation.endpoint_url,
        )  # fmt: skip
        own.use(example("public.documents"))
        own.in_the_projects_database()
        own.create(schema("CREATE TABLE documents"))
        own.document_row("files/kept", status="complete")
        own.create("ALTER TABLE documents ALTER storage_key DROP NOT NULL")
        return cls(own)

    def due(self, name: str) -> Any:
        return self.installation.document_row(f"files/{name}", due_ago=LONG_AGO)

    def run(self, **limits: Any) -> Outcome:
        return Collector(self.installation, self.client)(**limits)

    def without_key(self) -> AbstractContextManager[None]:
        return self._without("storage_key", "NULL")

    def without_time(self) -> AbstractContextManager[None]:
        return self._without("expires_at", "'-infinity'")

    @contextmanager
    def _without(self, column: str, value: str) -> Iterator[None]:
        row = self.due("left")
        told = f"UPDATE documents SET {column} = {value} WHERE id = %s"
        [(before,)] = self.installation.app(f"SELECT {column} FROM documents WHERE id = %s", (row,))
        self.installation.app(told, (row,))
        yield
        self.installation.app(f"UPDATE documents SET {column} = %s WHERE id = %s", (before, row))


class DeletedFiles(Scene):
    job, table = "deleted_files", "file"

    def _files(self) -> Files:
        return Files(self.installation, self.client)

    def due(self, name: str) -> Any:
        return self._files().delete(f"files/{name}", ago=LONG_AGO)

    @contextmanager
    def without_time(self) -> Iterator[None]:
        row = self.due("left")
        told = "UPDATE file SET deleted_at = %s WHERE id = %s"
        self.installation.execute("ALTER TABLE file DROP CONSTRAINT file_deleted_at_is_a_date")
        self.installation.execute(told, ("-infinity", row))
        yield
        self.installation.execute(told, ("2020-01-01Z", row))

    def run(self, **limits: Any) -> Outcome:
        return self._files()(**limits)


class Cleanup(Scene):
    job, table = "upload_cleanup", "upload"

    def due(self, name: str) -> Any:
        return self._due(Uploads(self.installation).begin(name))

    def _due(self, upload: Begun) -> Any:
        uploads = Uploads(self.installation)
        uploads.call("mark_stored", upload.id, uploads.put(upload), 5)
        uploads.call("cancel_upload", upload.id)
        uploads.change(upload, "next_attempt_at = clock_timestamp() - interval '1 second'")
        # No application can do that.
        self.installation.execute("ALTER TABLE upload DISABLE TRIGGER USER")
        uploads.change(upload, "collectable_at = collectable_at - %s", LONG_AGO)
        self.installation.execute("ALTER TABLE upload ENABLE TRIGGER USER")
        return upload.id

    def run(self, **limits: Any) -> Outcome:
        return Cleaner(self.installation, self.client)(**limits)

    def there(self) -> int:
        return int(self.installation.value("SELECT count(*) FROM upload WHERE state = 'cleanup'"))

    def key(self) -> str:
        found: str = self.installation.value(
            "SELECT storage_key FROM upload WHERE storage_key LIKE '%left'"
        )
        return found

    @contextmanager
    def protected(self) -> Iterator[None]:
        begun = "SELECT id, key FROM begin_upload('files/brand/', 'left')"
        self._due(Begun(*self.installation.execute(begun)[0]))
        yield
        self.installation.document["buckets"]["uploads"]["protect"] = []

    @contextmanager
    def locked(self) -> Iterator[None]:
        uploads, client, bucket = Uploads(self.installation), self.client, self.installation.bucket
        upload = uploads.begin("left")
        said = client.put_object(Bucket=bucket, Key=upload.key, Body=b"bytes")
        uploads.call("mark_stored", upload.id, said["ETag"], 5, said["VersionId"])
        self._hold("ON")
        uploads.call("cancel_upload", upload.id)
        yield
        self._hold("OFF")

    def pauses_are_over(self) -> None:
        Uploads(self.installation).due_now()


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

    def is_there(self) -> bool:
        found = self._keeper.value("SELECT count(*) FROM session WHERE note = 'left'")
        return bool(found)

    @contextmanager
    def without_time(self) -> Iterator[None]:
        self.due("left")
        told = "UPDATE session SET expires_at = %s WHERE note = 'left'"
        self._keeper.execute(told, ("-infinity",))
        yield
        self._keeper.execute(told, ("2020-01-01Z",))


class Orphans(Scene):
    job, table = "storage_orphans", "file"
    of_copies = False

    def __init__(self, installation: Installation) -> None:
        super().__init__(installation)
        self._sweep = Sweeper(installation, self.client)
        self._sweep.put("files/used")
        self._sweep.refer("files/used")
        assert self._sweep().ok

    def due(self, name: str) -> Any:
        self._sweep.put(f"files/{name}")
        assert self._sweep("dry").ok, "this marks it"

    def run(self, **limits: Any) -> Outcome:
        return self._sweep(**limits)

    @contextmanager
    def deferred(self) -> Iterator[dict[str, Any]]:
        self.due("left")
        with psycopg.connect(self.installation.database_url) as other:
            other.execute("CREATE TABLE unfinished (n int)")
            yield {"wait_for_transactions": timedelta(seconds=0.1)}

    @contextmanager
    def not_copied(self) -> Iterator[dict[str, Any]]:
        self.installation.keeps()
        with super().not_copied():
            yield {}

    @contextmanager
    def copy_denied(self) -> Iterator[dict[str, Any]]:
        """The item is a copy in quarantine whose time is over."""
        self.installation.keeps()
        self.due("left")
        assert self.run().acted, "it is in quarantine by now"
        self.of_copies = True
        all_are_due()
        self.due("goes")
        with self.always_answered("DeleteObjects DeleteObject", self.refuse):
            yield {}

    def is_there(self) -> bool:
        there = self.installation.keys()
        return any("left" in key for key in there) if self.of_copies else super().is_there()

    def pauses_are_over(self) -> None:
        super().pauses_are_over()
        self.installation.execute("UPDATE orphan_candidate SET not_before = now()")

    def nights_pass(self) -> None:
        self.installation.execute(
            "UPDATE orphan_candidate SET first_seen_at = first_seen_at - interval '10 days'"
        )


class Multipart(Scene):
    job, table = "multipart_uploads", "upload"

    def serve(self, scripted: ScriptedS3, clients: dict[str, S3Client]) -> None:
        """Let a server answer that does what the test wants; making a client takes long."""
        self._server = scripted.script = MultipartServer()
        own = self.installation.document["buckets"]["uploads"]
        own |= {"endpoint_url": scripted.address, "max_attempts": 1}
        self.client = clients.get("client") or self.client
        self.installation.client = clients["client"] = self.client
        self._abort = Aborter(self.installation, self.client, self._server)

    def due(self, name: str) -> Any:
        return self._server.begin(f"files/{name}", 5)

    def run(self, **limits: Any) -> Outcome:
        return self._abort(**limits)

    def is_there(self) -> bool:
        return any("left" in upload.key for upload in self._server.uploads.values())

    @contextmanager
    def answering(self, asked: Callable[[Request], bool], said: Answer) -> Iterator[None]:
        self.due("left")
        self._server.hooks = [lambda it: said if asked(it) and "left" in it.path else None]
        yield
        self._server.hooks = []

    @contextmanager
    def hindered(self, reason: Reason) -> Iterator[dict[str, Any]]:
        keeps = {
            "denied": (is_abort, Answer(403, errors("AccessDenied"))),
            "cannot be looked at": (is_listing_of_parts, Answer(403, errors("AccessDenied"))),
            "ghost": (is_listing_of_parts, Answer(404, errors("NoSuchUpload"))),
        }
        with (
            self.answering(*keeps[reason]) if reason in keeps else super().hindered(reason)
        ) as told:
            yield told or {}

    @contextmanager
    def without_time(self) -> Iterator[None]:
        upload = self._server.uploads[self.due("left")]
        dated, upload.initiated = upload.initiated, None
        parts = list(upload.parts.values())
        before, parts[0].modified = parts[0].modified, None
        yield
        upload.initiated, parts[0].modified = dated, before


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


@contextmanager
def trigger(scene: Scene, row: Any, does: str) -> Iterator[None]:
    """A trigger that keeps a row for ever."""
    scene.installation.execute(
        f"CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {does} END $$;"
        f"CREATE TRIGGER keeps BEFORE DELETE OR UPDATE ON {scene.table} FOR EACH ROW"
        f" WHEN (OLD.id::text = '{row}') EXECUTE FUNCTION keeps()"
    )
    yield
    scene.installation.execute("DROP FUNCTION keeps CASCADE")


@each(WITH_KEYS)
def test_a_row_that_a_trigger_refuses_for_ever_is_news_once_and_then_one_word(
    scene: Scene,
) -> None:
    words = set()
    with trigger(scene, scene.due("left"), "RAISE 'it stays';"):
        assert not scene.run().ok, "nothing worked, and that is new"
        for goes in (0, 1, 0):
            # As if its pause were over, so that it is refused each time.
            scene.installation.execute("UPDATE setback SET not_before = now()")
            if goes:
                scene.due("goes")
            outcome = scene.run()
            assert outcome.ok, outcome.error
            assert (outcome.acted, outcome.detail["untouched"]) == (goes, 1)
            standing = scene.standing(outcome)
            words.add((standing.word, standing.severity))
    assert len(words) == 1, words


@each((Retention,))
def test_a_row_that_a_trigger_leaves_alone_is_news_once_and_then_one_word(scene: Scene) -> None:
    with trigger(scene, scene.due("left"), "RETURN NULL;"):
        assert "a trigger left them alone" in str(scene.run().error)
        steady(scene, nullcontext(), "left by a trigger")


@each((Reservations, DeletedFiles))
def test_a_protected_row_gives_one_word_whatever_else_is_due(scene: Scene) -> None:
    scene.due("brand/logo")
    steady(scene, nullcontext(), "kept: protected")


# --- every job with every reason -------------------------------------------------------------

Reason = Literal[
    "held", "locked", "denied", "cannot be looked at", "no key", "no usable time", "ambiguous",
    "protected", "deferred", "limit", "ghost", "not copied", "copy denied",
]  # fmt: skip

Again = Literal["the next run", "the run after it", "after its pause", "storage_orphans"]
"""When what is left is tried again, once nothing hinders it: by the next run; by the one after it,
since two must have seen it; only when its pause is over; or by another job, since its row is gone.
"""

UNCOUNTED = "-"
"""Nobody looked at it: the record says `truncated`, and since when the oldest is due."""

OF_OTHER_THINGS = {"run_history"}
"""Jobs that take rows of ours away and none of the file feature."""

REASON_OF: dict[Fate, Reason | None] = {
    Fate.DELETED: None,
    Fate.MARKED: None,
    Fate.QUARANTINED: None,
    Fate.PURGED: None,
    Fate.QUARANTINED: None,
    Fate.ALREADY_GONE: "ghost",
    Fate.CHANGED: None,
    Fate.UNDECIDED: "cannot be looked at",
    Fate.UNSEEN: "cannot be looked at",
    Fate.LOCKED: "locked",
    Fate.KEPT: "protected",
    Fate.FAILED: "denied",
    Fate.UNANSWERED: None,
}
"""What can become of an object, and which of the reasons that is; None where nothing was left, or
where the whole run ended."""


@dataclass(frozen=True)
class Left:
    """What is said of one item that is left, beside one that goes.

    Attributes:
        fate: How the class begins under which it is counted.
        swept: Whether the first run swept; only then its day is painted.
        once: The word of the standing after the first run.
        tenth: The word after nine more, with nothing else due.
        again: When it is tried again.
        scene: The scene, where it is not the job's usual one.
    """

    fate: str
    swept: bool
    once: str
    tenth: str
    again: Again
    scene: type[Scene] | None = None


SCENES: dict[str, type[Scene]] = {
    made.job: made for made in (Reservations, DeletedFiles, Cleanup, Retention, Orphans, Multipart)
}
UNSEEN_ROWS = "its row decides, and its object goes unseen"
WAITS_FOR_NOTHING = "its claims wait for nothing: what is held is passed over"
ALWAYS_A_KEY = "the table's constraints do not let such a row in"
NO_BYTES = "it deletes rows and no objects"
LISTED = "what is listed has one"
KEEPS_NOTHING = "it keeps nothing in quarantine"
NOT_ITS_COPIES = "storage_orphans ends what it keeps"

TABLE: dict[tuple[str, Reason], Left | str] = {
    ("upload_reservations", "held"): Left(HELD, False, "behind", "behind", "the next run"),
    ("upload_reservations", "locked"): Left("kept: locked", True, "ok", "ok", "storage_orphans"),
    ("upload_reservations", "denied"): Left("bytes left", False, "ok", "ok", "storage_orphans"),
    ("upload_reservations", "cannot be looked at"): UNSEEN_ROWS,
    ("upload_reservations", "no key"): Left(
        "no key", False, "behind", "behind", "the next run", OwnReservations
    ),
    ("upload_reservations", "no usable time"): Left(
        "no usable time", False, "behind", "behind", "the next run", OwnReservations
    ),
    ("upload_reservations", "ambiguous"): Left(
        "kept: ambiguous", True, "ok", "ok", "storage_orphans"
    ),
    ("upload_reservations", "protected"): Left(
        "kept: protected", False, "behind", "behind", "the next run"
    ),
    ("upload_reservations", "deferred"): WAITS_FOR_NOTHING,
    ("upload_reservations", "limit"): Left(UNCOUNTED, False, "behind", "ok", "the next run"),
    ("upload_reservations", "ghost"): "it lists nothing",
    ("deleted_files", "held"): Left(HELD, False, "behind", "behind", "the next run"),
    ("deleted_files", "locked"): Left("kept: locked", True, "ok", "ok", "storage_orphans"),
    ("deleted_files", "denied"): Left("bytes left", False, "ok", "ok", "storage_orphans"),
    ("deleted_files", "cannot be looked at"): UNSEEN_ROWS,
    ("deleted_files", "no key"): ALWAYS_A_KEY,
    ("deleted_files", "no usable time"): Left(
        "no usable time", False, "behind", "behind", "the next run"
    ),
    ("deleted_files", "ambiguous"): Left("kept: ambiguous", True, "ok", "ok", "storage_orphans"),
    ("deleted_files", "protected"): Left(
        "kept: protected", False, "behind", "behind", "the next run"
    ),
    ("deleted_files", "deferred"): WAITS_FOR_NOTHING,
    ("deleted_files", "limit"): Left(UNCOUNTED, False, "behind", "ok", "the next run"),
    ("deleted_files", "ghost"): "it lists nothing",
    ("upload_cleanup", "held"): Left(HELD, False, "behind", "behind", "the next run"),
    ("upload_cleanup", "locked"): Left("retained", True, "ok", "ok", "after its pause"),
    ("upload_cleanup", "denied"): Left(
        "left for later", False, "behind", "behind", "after its pause"
    ),
    ("upload_cleanup", "cannot be looked at"): Left(
        "cannot be looked at", False, "behind", "behind", "after its pause"
    ),
    ("upload_cleanup", "no key"): ALWAYS_A_KEY,
    ("upload_cleanup", "no usable time"): "its time of the next attempt is written by the job",
    ("upload_cleanup", "ambiguous"): Left(
        "kept: ambiguous", False, "behind", "behind", "after its pause"
    ),
    ("upload_cleanup", "protected"): Left("kept: ", False, "behind", "behind", "after its pause"),
    ("upload_cleanup", "deferred"): WAITS_FOR_NOTHING,
    ("upload_cleanup", "limit"): Left(UNCOUNTED, False, "behind", "ok", "the next run"),
    ("upload_cleanup", "ghost"): "it lists nothing, and a row whose object is not there is cleaned",
    ("table_retention", "held"): Left(HELD, False, "behind", "behind", "the next run"),
    ("table_retention", "locked"): NO_BYTES,
    ("table_retention", "denied"): NO_BYTES,
    ("table_retention", "cannot be looked at"): NO_BYTES,
    ("table_retention", "no key"): "a table without a key is refused before anything is deleted",
    ("table_retention", "no usable time"): Left(
        "no usable time", False, "behind", "behind", "the next run"
    ),
    ("table_retention", "ambiguous"): NO_BYTES,
    ("table_retention", "protected"): NO_BYTES,
    ("table_retention", "deferred"): WAITS_FOR_NOTHING,
    ("table_retention", "limit"): Left(UNCOUNTED, False, "behind", "ok", "the next run"),
    ("table_retention", "ghost"): NO_BYTES,
    ("storage_orphans", "held"): "it claims no row; an open transaction defers it",
    ("storage_orphans", "locked"): Left("locked", True, "ok", "ok", "after its pause"),
    ("storage_orphans", "denied"): Left("failed", False, "ok", "behind", "after its pause"),
    ("storage_orphans", "cannot be looked at"): Left(
        "cannot be looked at", False, "ok", "behind", "after its pause"
    ),
    ("storage_orphans", "no key"): LISTED,
    ("storage_orphans", "no usable time"): LISTED,
    ("storage_orphans", "ambiguous"): Left("ambiguous", True, "ok", "ok", "the run after it"),
    ("storage_orphans", "protected"): Left("protected", True, "ok", "ok", "the run after it"),
    ("storage_orphans", "deferred"): Left(UNCOUNTED, False, "ok", "behind", "the next run"),
    ("storage_orphans", "limit"): Left(UNCOUNTED, False, "ok", "ok", "the next run"),
    ("storage_orphans", "ghost"): Left("already gone", True, "ok", "behind", "after its pause"),
    ("multipart_uploads", "held"): "it claims no row",
    ("multipart_uploads", "locked"): "a lock keeps objects, and no parts",
    ("multipart_uploads", "denied"): Left("failed", False, "behind", "behind", "after its pause"),
    ("multipart_uploads", "cannot be looked at"): Left(
        "parts not readable", False, "behind", "behind", "after its pause"
    ),
    ("multipart_uploads", "no key"): LISTED,
    ("multipart_uploads", "no usable time"): Left(
        "age unknown", False, "ok", "behind", "the next run"
    ),
    ("multipart_uploads", "ambiguous"): Left("kept: ", True, "ok", "ok", "the next run"),
    ("multipart_uploads", "protected"): Left("kept: ", True, "ok", "ok", "the next run"),
    ("multipart_uploads", "deferred"): WAITS_FOR_NOTHING,
    ("multipart_uploads", "limit"): Left("deferred", False, "behind", "ok", "the next run"),
    ("multipart_uploads", "ghost"): Left(
        "ended meanwhile", True, "ok", "behind", "after its pause"
    ),
}
TABLE |= {
    ("upload_reservations", "not copied"): Left("bytes left", False, "ok", "ok", "storage_orphans"),
    ("deleted_files", "not copied"): Left("bytes left", False, "ok", "ok", "storage_orphans"),
    ("storage_orphans", "not copied"): Left("failed", False, "ok", "behind", "after its pause"),
    ("storage_orphans", "copy denied"): Left(
        "copy in quarantine: failed", False, "behind", "behind", "after its pause"
    ),
    ("upload_reservations", "copy denied"): NOT_ITS_COPIES,
    ("deleted_files", "copy denied"): NOT_ITS_COPIES,
    **{
        (job, reason): KEEPS_NOTHING
        for job in ("upload_cleanup", "table_retention", "multipart_uploads")
        for reason in ("not copied", "copy denied")
    },
}
THROUGH_A_DOOR = {"storage_orphans", "multipart_uploads"}
"""Each run of theirs proves the server and reads the bucket anew: seconds for each row."""

ROWS = [
    pytest.param(
        job,
        reason,
        row,
        id=f"{job}, {reason}",
        marks=[pytest.mark.thorough] if job in THROUGH_A_DOOR else [],
    )
    for (job, reason), row in TABLE.items()
    if isinstance(row, Left)
]


def test_every_job_has_an_entry_for_every_reason_and_every_fate_is_one() -> None:
    jobs = {
        it.name for it in BY_NAME.values() if it.touches & {"rows", "objects", "multipart uploads"}
    }
    assert set(SCENES) == jobs - OF_OTHER_THINGS
    assert set(TABLE) == {(job, reason) for job in SCENES for reason in get_args(Reason)}
    assert set(REASON_OF) == set(Fate)


@pytest.fixture(scope="module")
def clients() -> dict[str, S3Client]:
    return {}


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedS3]:
    with scripted_s3() as server:
        yield server


@pytest.mark.parametrize(("job", "reason", "row"), ROWS)
def test_an_item_that_is_left_is_counted_said_and_tried_again(
    job: str,
    reason: Reason,
    row: Left,
    installation: Installation,
    scripted: ScriptedS3,
    clients: dict[str, S3Client],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A scene may let copies be old, until the end.
    monkeypatch.setattr(expiring, "copies_below", copies_below)
    scene = (row.scene or SCENES[job]).among(reason, installation)
    if isinstance(scene, Multipart):
        scene.serve(scripted, clients)
    scene.due("goes")
    with scene.hindered(reason) as told:
        outcome = scene.run(**told)
        assert outcome.ok, outcome.error
        classes = outcome.detail["classes"] | outcome.detail.get("fates", {})
        counted = [many for fate, many in classes.items() if fate.startswith(row.fate)]
        assert counted == [1] or row.fate == UNCOUNTED, classes
        once, swept = scene.standing(outcome), outcome.detail["swept"]
        painted = [scene.is_painted()]
        scene.nights_pass()
        outcome = scene.run(**told)
        tenth = [scene.standing(outcome) for _ in range(9)][-1]
        painted.append(scene.is_painted())

    tries: dict[Again, Callable[[], object]] = {
        "the next run": lambda: None,
        "the run after it": lambda: None,
        "after its pause": scene.pauses_are_over,
    }
    again: Again = "storage_orphans"
    for moment, comes in tries.items():
        comes()
        if scene.is_there():
            scene.run()
            again = again if scene.is_there() else moment
        elif moment == "the next run":
            again = moment
    assert (swept, once.word, tenth.word, again) == (row.swept, row.once, row.tenth, row.again), (
        outcome.error,
        outcome.detail,
        tenth.reason,
    )
    if BY_NAME[job].partitioned:
        assert painted == [row.swept, row.tenth == "ok"], "a day is painted when nothing is left"
