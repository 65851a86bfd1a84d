"""An installation with clients, administrators and collectors, and what must be true of it."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import boto3
import psycopg
from botocore import UNSIGNED
from botocore.config import Config
from psycopg.rows import dict_row

from filejobs_dagster.ledger.mirror import FinishedRun, _look, mirror
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.locks import exclusive_lock, is_held, run_lock
from tests.installation import Installation
from tests.interleavings.seen import Event, Seen, known_of
from tests.interleavings.stepping import CAREFUL, Carelessness, SteppedRun
from tests.ledger.records import now
from tests.postgres.backends import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.settings import BucketSettings
    from tests.interleavings.storage import Storage

MOMENT = timedelta(milliseconds=60)
"""How long a client waits for a row before it does something else first."""


def bucket_settings(folder: Path, url: str, storage: Storage) -> BucketSettings:
    """The bucket, as settings have it; botocore tries nothing by itself a second time."""
    endpoint = storage.endpoint_url
    installation = Installation(folder, url, "bucket", unsigned_client(endpoint), endpoint)
    installation.document["buckets"]["uploads"]["max_attempts"] = 1
    return installation.settings().buckets["uploads"]


def unsigned_client(endpoint_url: str) -> S3Client:
    """A client that nobody here asks anything; an installation wants one."""
    client: S3Client = boto3.client(
        "s3",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        config=Config(signature_version=UNSIGNED),
    )
    return client


@dataclass
class File:
    """What the application knows of one file.

    Attributes:
        id: Of the row.
        key: Of the object.
        uploaded: Its PUT has arrived.
        completed: A call said that it is ready, and that is committed.
        removed: The application itself took the row away, and that is committed.
        late: Its PUT arrived when the row was gone.
    """

    id: uuid.UUID
    key: str
    uploaded: bool = False
    completed: bool = False
    removed: bool = False
    late: bool = False


class World:
    """Everything that a schedule can make happen; each session is a backend of its own."""

    def __init__(
        self,
        url: str,
        storage: Storage,
        bucket: BucketSettings,
        s3: S3Client,
        carelessness: Carelessness = CAREFUL,
    ) -> None:
        self.url = url
        self.storage = storage
        self.bucket = bucket
        self.s3 = s3
        self.carelessness = carelessness
        self.admin = psycopg.connect(url, autocommit=True)
        self._observer = psycopg.connect(url, autocommit=True)
        self.client = psycopg.connect(url, autocommit=True)
        self.client.execute(
            "SELECT set_config('lock_timeout', %s, false)", (f"{MOMENT.microseconds // 1000}ms",)
        )
        self.database = Database(url, lock_timeout=MOMENT)
        self.happened: Counter[str] = Counter()
        self.files: list[File] = []
        self.runs: list[SteppedRun] = []
        self._buried: list[SteppedRun] = []
        self.transactions: dict[uuid.UUID, tuple[psycopg.Connection[Any], str]] = {}
        self.admin.execute("DELETE FROM file")
        self.first_seq = self._value("SELECT coalesce(max(seq), 0) FROM audit_event")
        storage.objects.clear()
        storage.complaints.clear()
        storage.met.clear()
        storage.plan, storage.holding, storage.down = "works", False, False
        storage.held.clear()
        storage.before_deleting = self._no_row_names

    def close(self) -> None:
        """End every session."""
        for run in self.runs:
            if not run.over:
                run.kill(self.admin)
        for connection, _ in self.transactions.values():
            connection.close()
        for connection in (self.client, self._observer, self.admin):
            connection.close()

    def _value(self, statement: str, values: Any = None) -> Any:
        row = self.admin.execute(statement.encode(), values).fetchone()
        assert row is not None
        return row[0]

    # Clients and administrators ---------------------------------------------------------------

    def reserve(self, due_in: timedelta) -> File:
        """A new row with a new key; the client's clock decides what `due_in` comes to."""
        file = File(uuid.uuid4(), f"files/{uuid.uuid4().hex}")
        self.admin.execute(
            "INSERT INTO file (id, storage_key, upload_expires_at) VALUES (%s, %s, now() + %s)",
            (file.id, file.key, due_in),
        )
        self.files.append(file)
        return file

    def upload(self, file: File) -> None:
        """Its PUT arrives, in time or late."""
        file.late = not self.has_row(file)
        file.uploaded = True
        self.happened["a PUT arrives late" if file.late else "a PUT arrives"] += 1
        self.storage.put(file.key)

    def complete(self, file: File) -> bool | None:
        """One call of complete_upload; None when the row is held for longer than a moment."""
        answer = self._try("SELECT complete_upload(%s)", (file.id,))
        if answer is None:
            self.happened["complete_upload waits for a claim"] += 1
            return None
        said = bool(answer[0][0])
        self.happened[f"complete_upload says {said}"] += 1
        file.completed |= said
        return said

    def extend(self, file: File, by: timedelta) -> None:
        """Give a reservation more, or less, time."""
        self._try(
            "UPDATE file SET upload_expires_at = now() + %s WHERE id = %s AND state = 'pending'"
            " RETURNING id",
            (by, file.id),
        )

    def mark_deleted(self, file: File) -> None:
        """An administrator's soft delete."""
        self._try(
            "UPDATE file SET state = 'deleted', deleted_at = now()"
            " WHERE id = %s AND state = 'ready' RETURNING id",
            (file.id,),
        )

    def remove_row(self, file: File) -> bool:
        """An administrator, or a client that cancels, takes the row away."""
        rows = self._try("DELETE FROM file WHERE id = %s RETURNING id", (file.id,))
        file.removed |= bool(rows)
        return bool(rows)

    def _try(self, statement: str, values: Any) -> list[tuple[Any, ...]] | None:
        try:
            return self.client.execute(statement.encode(), values).fetchall()
        except psycopg.errors.LockNotAvailable:
            return None

    def begin(self, file: File, what: str) -> bool:
        """Open a transaction that completes or cancels, and leave it open.

        Returns:
            False when the row is held, or when there is nothing to complete or to cancel.
        """
        statement = {
            "complete": "SELECT complete_upload(%s)",
            "cancel": "DELETE FROM file WHERE id = %s AND state = 'pending' RETURNING true",
        }[what]
        connection = psycopg.connect(self.url)
        connection.execute(
            "SELECT set_config('lock_timeout', %s, false)", (f"{MOMENT.microseconds // 1000}ms",)
        )
        try:
            row = connection.execute(statement.encode(), (file.id,)).fetchone()
        except psycopg.errors.LockNotAvailable:
            row = None
        if row is None or not row[0]:
            connection.close()
            return False
        self.transactions[file.id] = (connection, what)
        return True

    def end(self, file: File, *, commit: bool) -> None:
        """End the file's open transaction."""
        connection, what = self.transactions.pop(file.id)
        self.happened[f"{what} {'commits' if commit else 'rolls back'}"] += 1
        if commit:
            connection.commit()
            file.completed |= what == "complete"
            file.removed |= what == "cancel"
        else:
            connection.rollback()
        connection.close()

    def has_row(self, file: File) -> bool:
        """Tell whether the row stands, as committed."""
        return bool(self._value("SELECT EXISTS (SELECT FROM file WHERE id = %s)", (file.id,)))

    def state_of(self, file: File) -> str | None:
        """The committed state of its row; None without a row."""
        row = self.admin.execute("SELECT state FROM file WHERE id = %s", (file.id,)).fetchone()
        return None if row is None else str(row[0])

    # Collectors -------------------------------------------------------------------------------

    def start_run(self, **limits: Any) -> SteppedRun:
        """Start a live run; it stops at its first point."""
        run = SteppedRun(self.url, self.bucket, self.s3, self.carelessness, **limits)
        self.runs.append(run)
        run.start()
        return run

    def at_work(self) -> list[SteppedRun]:
        """The runs that are not over."""
        return [run for run in self.runs if not run.over]

    def record(self, run: SteppedRun) -> bool:
        """Write the run's record if it has said its final word, or holds no lock any more.

        Returns:
            True when this call wrote it; False also when its progress row is held for a moment.
        """
        row = self.admin.execute(
            "SELECT outcome FROM job_progress WHERE run_id = %s AND closed_at IS NULL",
            (run.run_id,),
        ).fetchone()
        if row is None:
            return False
        try:
            # The look of open_runs, at this run alone: the row of another may be held.
            lost = row[0] is None and _look(
                self.database, self.admin, run.run_id, silence=timedelta(0)
            )
            if row[0] is None and not lost:
                return False
            return mirror(self.database, self.admin, self._said(run, lost=lost))
        except psycopg.errors.LockNotAvailable:
            return False

    def _said(self, run: SteppedRun, *, lost: bool) -> FinishedRun:
        return FinishedRun(
            run_id=run.run_id,
            installation="test",
            job="upload_reservations",
            ended="lost" if lost else "unseen",
            trigger=Trigger("cli"),
            created_at=now(),
        )

    # What is there ----------------------------------------------------------------------------

    def look(self) -> Seen:
        """What is committed at this moment, and what is in storage."""
        with self.admin.transaction():
            self.admin.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            rows = self.admin.execute("SELECT id, state FROM file").fetchall()
            events = self.admin.execute(
                "SELECT body::jsonb, recorded_at FROM audit_event WHERE seq > %s ORDER BY seq",
                (self.first_seq,),
            ).fetchall()
            progress = self._rows_of("job_progress")
        return Seen(
            states={row[0]: str(row[1]) for row in rows},
            events=[Event(recorded_at=at, **known_of(body)) for body, at in events],
            progress=progress,
            objects=frozenset(self.storage.objects),
        )

    def records(self) -> dict[str, list[dict[str, Any]]]:
        """The rows of job_run, by run."""
        return self._rows_of("job_run")

    def _rows_of(self, table: str) -> dict[str, list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {run.run_id: [] for run in self.runs}
        with self.admin.cursor(row_factory=dict_row) as cursor:
            cursor.execute(f"SELECT * FROM {table} WHERE run_id = ANY(%s)".encode(), (list(found),))
            for row in cursor:
                found[row["run_id"]].append(row)
        return found

    def lock_is_held(self, name: str) -> bool:
        """Tell whether any session holds that lock."""
        with self.admin.cursor() as cursor:
            return is_held(cursor, name)

    def wait_for_the_dead(self) -> None:
        """Wait until the server has freed the locks of every run that is over."""
        for run in self.runs:
            if run.over and run not in self._buried:
                name = run_lock("public", run.run_id)
                wait_until(self._is_free(name), f"{name} is free")
                self._buried.append(run)

    def _is_free(self, name: str) -> Callable[[], bool]:
        return lambda: not self.lock_is_held(name)

    def exclusive_lock_is_held(self) -> bool:
        """Tell whether a run that is at work holds the job's lock."""
        self.wait_for_the_dead()
        return self.lock_is_held(exclusive_lock("public", "upload_reservations"))

    def run_lock_is_held(self, run: SteppedRun) -> bool:
        """Tell whether the run's own lock is held."""
        return self.lock_is_held(run_lock("public", run.run_id))

    def _no_row_names(self, keys: Sequence[str]) -> None:
        """Contract: bytes go only after the transaction that removed their row has committed."""
        named = self._observer.execute(
            "SELECT storage_key, state FROM file WHERE storage_key = ANY(%s)", (list(keys),)
        ).fetchall()
        assert not named, f"bytes went although rows name them: {named}"
