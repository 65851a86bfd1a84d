"""A believable file feature, the same every time but for the date: rows, objects, audit events."""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from uuid import UUID

import psycopg

from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Callable

SEED = 20
ARRIVED_OF_EXPIRED = 0.6
ARRIVED_OF_LIVE = 0.4

DAYS_OF_HISTORY = 90
DAYS_OF_EXPIRED = 20
RETENTION = timedelta(days=30)
LEAST_BYTES = 60
MOST_BYTES = 4_000
"""Small enough to be stored in seconds, different enough for sums to mean something."""

NAMES = (
    "invoice.pdf",
    "scan 2024.tiff",
    "a+b=c.csv",
    "Résumé.docx",
    "レポート.xlsx",
    "holiday 🏖.jpg",
    "100% sure.txt",
    "already%2Fescaped.bin",
    "quote's & ampersand.html",
    "photo.heic",
    "backup.tar.gz",
    "ticket #4711.eml",
)
"""Names as people give them; each is part of a key, exactly as it stands here."""

PEOPLE = ("ada", "grace", "edsger", "barbara", "donald", "radia")

State = Literal["pending", "ready", "deleted"]


@dataclass(frozen=True)
class Amounts:
    """How many of each are made up.

    Attributes:
        ready: Files that are complete.
        expired: Expired reservations.
        live: Reservations that have not expired.
        without_expiry: Pending uploads that never expire.
        soft_deleted: Files in their restore window.
        orphans: Objects without a row.
        audit_events: The application's audit events, at most one for each ready file.
        quick_clients: Clients that complete an expired upload at once.
        slow_clients: Clients that take their time over it.
    """

    ready: int
    expired: int
    live: int
    without_expiry: int
    soft_deleted: int
    orphans: int
    audit_events: int
    quick_clients: int
    slow_clients: int


USUAL = Amounts(
    ready=2_000,
    expired=1_500,
    live=300,
    without_expiry=60,
    soft_deleted=150,
    orphans=200,
    audit_events=400,
    quick_clients=48,
    slow_clients=12,
)
SMALL = Amounts(
    ready=240,
    expired=400,
    live=30,
    without_expiry=6,
    soft_deleted=15,
    orphans=20,
    audit_events=40,
    quick_clients=16,
    slow_clients=4,
)


@dataclass(frozen=True)
class FileRow:
    """One row of `file`, in the order of its columns."""

    id: UUID
    state: State
    storage_key: str
    size_bytes: int | None
    created_at: datetime
    upload_expires_at: datetime | None = None
    completed_at: datetime | None = None
    deleted_at: datetime | None = None
    retain_until: datetime | None = None


@dataclass
class Feature:
    """What the application left in its database and its bucket.

    Attributes:
        amounts: How many of each were asked for.
        rows: The table `file`.
        objects: Each object's key and size in bytes.
        orphans: Keys of objects that no row names.
        expired: Rows that upload_reservations may take, oldest expiry first.
        events: The application's audit events, in order.
    """

    amounts: Amounts
    rows: list[FileRow] = field(default_factory=list)
    objects: dict[str, int] = field(default_factory=dict)
    orphans: list[str] = field(default_factory=list)
    expired: list[FileRow] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def in_state(self, state: State) -> list[FileRow]:
        """The rows in one state."""
        return [row for row in self.rows if row.state == state]


def invent(now: datetime, amounts: Amounts = USUAL) -> Feature:
    """Make the feature up.

    Args:
        now: The database's time; everything is relative to it.
        amounts: How many of each.
    """
    return _Inventor(now, amounts).feature()


class _Inventor:
    def __init__(self, now: datetime, amounts: Amounts) -> None:
        self._now = now
        self._amounts = amounts
        self._random = random.Random(SEED)  # noqa: S311 (the same data every time, not secrets)
        self._made = Feature(amounts)

    def feature(self) -> Feature:
        for _ in range(self._amounts.ready):
            self._ready()
        for _ in range(self._amounts.expired):
            self._reserved(
                expires=self._ago(timedelta(minutes=5), timedelta(days=DAYS_OF_EXPIRED)),
                arrived=self._random.random() < ARRIVED_OF_EXPIRED,
            )
        self._made.expired = sorted(self._made.rows[self._amounts.ready :], key=_expiry)
        for _ in range(self._amounts.live):
            self._reserved(
                expires=self._now + self._span(timedelta(minutes=20), timedelta(hours=24)),
                arrived=self._random.random() < ARRIVED_OF_LIVE,
            )
        for _ in range(self._amounts.without_expiry):
            self._reserved(expires=None, arrived=False)
        for _ in range(self._amounts.soft_deleted):
            self._soft_deleted()
        for _ in range(self._amounts.orphans):
            self._orphan()
        self._tell()
        return self._made

    def _ready(self) -> None:
        created = self._ago(timedelta(hours=1), timedelta(days=DAYS_OF_HISTORY))
        completed = created + self._span(timedelta(seconds=1), timedelta(minutes=20))
        identifier, key, size = self._new()
        self._add(FileRow(identifier, "ready", key, size, created, completed_at=completed))
        self._made.objects[key] = size

    def _reserved(self, *, expires: datetime | None, arrived: bool) -> None:
        created = (expires or self._ago(timedelta(days=1), timedelta(days=40))) - timedelta(
            hours=24
        )
        identifier, key, size = self._new()
        self._add(FileRow(identifier, "pending", key, size, created, upload_expires_at=expires))
        if arrived:
            self._made.objects[key] = size

    def _soft_deleted(self) -> None:
        deleted = self._ago(timedelta(hours=1), timedelta(days=25))
        created = deleted - self._span(timedelta(hours=1), timedelta(days=60))
        identifier, key, size = self._new()
        self._add(
            FileRow(
                identifier,
                "deleted",
                key,
                size,
                created,
                completed_at=created + timedelta(minutes=1),
                deleted_at=deleted,
                retain_until=deleted + RETENTION,
            )
        )
        self._made.objects[key] = size

    def _orphan(self) -> None:
        _, key, size = self._new()
        self._made.objects[key] = size
        self._made.orphans.append(key)

    def _tell(self) -> None:
        """What the application wrote down of its newest files."""
        told = sorted(self._made.in_state("ready"), key=lambda row: row.created_at)
        for row in told[-self._amounts.audit_events :]:
            self._made.events.append(
                {
                    "kind": self._random.choice(("file.completed", "file.shared", "file.read")),
                    "actor": self._random.choice(PEOPLE),
                    "file_id": str(row.id),
                    "at": row.created_at.isoformat(),
                }
            )

    def _add(self, row: FileRow) -> None:
        self._made.rows.append(row)

    def _new(self) -> tuple[UUID, str, int]:
        """An id, a key that holds it, and a size in bytes."""
        identifier = UUID(int=self._random.getrandbits(128), version=4)
        key = f"files/{identifier}/{self._random.choice(NAMES)}"
        return identifier, key, self._random.randint(LEAST_BYTES, MOST_BYTES)

    def _ago(self, least: timedelta, most: timedelta) -> datetime:
        return self._now - self._span(least, most)

    def _span(self, least: timedelta, most: timedelta) -> timedelta:
        return least + (most - least) * self._random.random()


def _expiry(row: FileRow) -> datetime:
    if row.upload_expires_at is None:
        raise ValueError(f"file {row.id} is no reservation")
    return row.upload_expires_at


# Clients of the application that complete their expired uploads while the collector runs.
#
# Two kinds. Quick ones call `complete_upload` and are done; who wins depends on whether the
# collector was there before. Slow ones call it in a transaction that they commit only when the
# collector has passed: its claim meets their row locks, skips them, and counts them as held by
# another session.

SLOW_AMONG_FIRST = 0.4
"""Slow clients hold rows of this share, the oldest."""

SLOW_UNTIL = 0.6
"""They commit when the collector has looked at this share of the rows, or has ended."""

SECONDS_BETWEEN_LOOKS = 0.02
SECONDS_BETWEEN_CLIENTS = 0.06
SECONDS_AT_MOST = 180.0

COMPLETE = "SELECT complete_upload(%s)"
LOOKED_AT = """
SELECT coalesce(max(scanned), 0), count(*)
  FROM job_progress
 WHERE job = 'upload_reservations' AND mode = 'live'
"""


class _Seen(NamedTuple):
    """How far live runs have looked, and how many there are."""

    looked_at: int
    runs: int


@dataclass
class Answers:
    """What the application told its clients.

    Attributes:
        completed: Uploads whose `complete_upload` returned true: the client was promised its file.
        refused: Uploads that the collector had taken: the client was told to upload again.
        held: How many of `completed` were slow.
    """

    completed: list[FileRow] = field(default_factory=list)
    refused: list[FileRow] = field(default_factory=list)
    held: int = 0


class Clients:
    """A crowd of clients, in two threads, for as long as one live run takes."""

    def __init__(self, database_url: str, feature: Feature) -> None:
        """Choose the uploads; nothing starts yet.

        Only uploads whose bytes had arrived: a client that completes has stored them before.
        """
        chooser = random.Random(SEED)  # noqa: S311 (the same clients every time)
        stored = [row for row in feature.expired if row.storage_key in feature.objects]
        early = stored[: round(len(stored) * SLOW_AMONG_FIRST)]
        self._database_url = database_url
        self._rows = len(feature.expired)
        self._slow = chooser.sample(early, feature.amounts.slow_clients)
        held = {row.id for row in self._slow}
        others = [row for row in stored if row.id not in held]
        self._quick = chooser.sample(others, feature.amounts.quick_clients)
        self._answers = Answers()
        self._failures: list[Exception] = []
        self._holding = threading.Event()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin. Slow clients hold their rows when this returns; quick ones wait for a live run."""
        for work in (self._be_slow, self._be_quick):
            thread = threading.Thread(target=self._guarded, args=(work,), daemon=True)
            thread.start()
            self._threads.append(thread)
        self._holding.wait(SECONDS_AT_MOST)

    def finish(self) -> Answers:
        """The run has ended: let everybody finish, and say what they were told.

        Raises:
            Exception: What a client met that was no answer.
        """
        self.send_away()
        if self._failures:
            raise self._failures[0]
        return self._answers

    def send_away(self) -> None:
        """The run failed: let everybody finish, whatever they were told or met."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 (raised again by finish, in the demo's thread)
            self._failures.append(error)
            self._holding.set()

    def _be_slow(self) -> None:
        with (
            psycopg.connect(self._database_url, autocommit=True) as watching,
            psycopg.connect(self._database_url) as connection,
        ):
            answers = [(row, _complete(connection, row.id)) for row in self._slow]
            self._holding.set()
            enough = self._rows * SLOW_UNTIL
            self._wait_until(watching, lambda seen: seen.looked_at >= enough)
        # The promise holds from the commit on, which leaving the block has made.
        for row, promised in answers:
            (self._answers.completed if promised else self._answers.refused).append(row)
            self._answers.held += promised

    def _be_quick(self) -> None:
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            self._wait_until(connection, lambda seen: seen.runs > 0)
            for row in self._quick:
                if self._over.is_set():
                    return
                promised = _complete(connection, row.id)
                (self._answers.completed if promised else self._answers.refused).append(row)
                self._over.wait(SECONDS_BETWEEN_CLIENTS)

    def _wait_until(self, connection: psycopg.Connection, reached: Callable[[_Seen], bool]) -> None:
        """Wait for a live run to get somewhere, or to end."""
        deadline = time.monotonic() + SECONDS_AT_MOST
        while not self._over.wait(SECONDS_BETWEEN_LOOKS) and time.monotonic() < deadline:
            with connection.cursor() as cursor:
                cursor.execute(LOOKED_AT)
                seen = _Seen(*one(cursor))
            if reached(seen):
                return


def _complete(connection: psycopg.Connection, file_id: UUID) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(COMPLETE, (file_id,))
        return bool(one(cursor)[0])
