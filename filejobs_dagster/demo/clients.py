"""Clients of the application that complete their expired uploads while the collector runs.

Two kinds. Quick ones call `complete_upload` and are done; who wins depends on whether the collector
was there before. Slow ones call it in a transaction that they commit only when the collector has
passed: its claim meets their row locks, skips them, and counts them as held by another session.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from filejobs_dagster.demo.feature import SEED
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from filejobs_dagster.demo.feature import Feature, FileRow

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
