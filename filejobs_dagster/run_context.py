"""What a job is given to work with."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg
from psycopg.pq import TransactionStatus
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from filejobs_dagster.postgres.connect import DatabaseUnavailable, database_now
from filejobs_dagster.postgres.locks import LeaseLost

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import datetime

    from filejobs_dagster.door.door import Door
    from filejobs_dagster.ledger.outcome import Window
    from filejobs_dagster.ledger.progress import Progress, RunIdentity
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.postgres.locks import Lease

AWAY_FOR = 30.0
"""Seconds for which a run waits for a database that is being restarted."""


@dataclass
class RunContext:
    """One run at work.

    Attributes:
        identity: Which run this is.
        window: What it set out to cover.
        database: Where the tables are.
        connection: The run's own connection for its work; a new one after it had broken.
        lease: Its locks; prove them before anything is destroyed.
        progress: Its row in `job_progress`.
        log: Where progress lines go.
        door: What the run has proven and proves again; None where a test runs a job alone.
        ended: Says how the scheduler calls the run over, while it is at work; else None.
    """

    identity: RunIdentity
    window: Window
    database: Database
    connection: Connection
    lease: Lease
    progress: Progress
    log: logging.Logger
    door: Door | None = None
    ended: Callable[[], str | None] = lambda: None
    _was_away: bool = field(default=False, init=False)

    @property
    def live(self) -> bool:
        """True when the run may change something."""
        return self.identity.mode == "live"

    def now(self) -> datetime:
        """The moment by which this run judges what is old enough: the database's.

        Where the door has compared the clocks it is the time that it found, and what has gone by
        since: a clock that jumps after that, be it for a second, makes nothing look old.
        """
        proven = None if self.door is None else self.door.now()
        if proven is not None:
            return proven
        with self.database.transaction(self.connection, read_only=True) as cursor:
            return database_now(cursor)

    def connected(self) -> Connection:
        """The run's connection, made anew where it has broken since it was last used.

        Between two transactions nothing is lost with it. What must hold before bytes go is proven
        on the new one: locks, record, and that it leads to the same server.

        Raises:
            DatabaseUnavailable: The database stayed away.
        """
        if self.connection.info.transaction_status == TransactionStatus.IDLE:
            with suppress(psycopg.OperationalError):
                self.connection.execute("SELECT 1")
        if self.connection.closed:
            attempts = Retrying(
                retry=retry_if_exception_type(DatabaseUnavailable),
                stop=stop_after_delay(AWAY_FOR),
                wait=wait_random_exponential(multiplier=0.2, max=2),
                reraise=True,
            )
            name = f"{self.identity.job} {self.identity.run_id}"
            self.connection = attempts(self.database.connect, name)
            self._was_away = True
            self.log.warning("The run's connection to the database broke, and was made anew.")
        return self.connection

    def prove_alive(self) -> None:
        """Make sure that this run may still destroy: the same proof before each batch of each job.

        Its locks hold, nobody gave it up, and the door's guards find what they found before.

        Raises:
            DatabaseUnavailable: The database is away, and stayed away.
            LeaseLost: Its locks are gone.
            GivenUp: Its record stands already.
            CommitUnconfirmed: What is committed may be on this server alone.
            Refusal: A guard says stop.
            JobFailed: Somebody ended the run by force: its process is all that is left of it.
        """
        ended = self.ended()
        if ended is not None:
            raise JobFailed(
                f"This run was ended from outside ({ended}) while it worked; it stops here. A "
                "later run goes on with what is left."
            )
        connection = self.connected()
        self.lease.prove()
        away = self._was_away or self.lease.were_free
        # A write, where a look would do. Right before bytes go the sources have said that nothing
        # names them, and an application may have committed that asynchronously: this commit is
        # behind theirs in the same log, so with it theirs is on the disk, and with the standby.
        with self.database.transaction(connection) as cursor:
            self.progress.beat(cursor)
            later = self.progress.later_live_run(cursor) if away else None
        if later is not None:
            # While nobody held the locks, it may have done what this one was about to do.
            raise LeaseLost(
                "The connection that held this run's locks broke, and another live run of the job "
                f"has begun since ({later}). The run stops; a later run goes on with what is left."
            )
        if self.door is not None and self.live:
            self.door.prove(connection)


class JobFailed(Exception):
    """A job ends as failed, with the numbers that it had reached already committed."""
