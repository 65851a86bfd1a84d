"""What a job is given to work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import datetime

    from filejobs_dagster.door.door import Door
    from filejobs_dagster.ledger.progress import Progress, RunIdentity
    from filejobs_dagster.ledger.words import Window
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.postgres.locks import Lease


@dataclass(frozen=True)
class RunContext:
    """One run at work.

    Attributes:
        identity: Which run this is.
        window: What it set out to cover.
        database: Where the tables are.
        connection: The run's own connection for its work.
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

    def prove_alive(self) -> None:
        """Make sure that this run may still destroy: the same proof before each batch of each job.

        Its locks hold, nobody gave it up, and the door's guards find what they found before.

        Raises:
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
        self.lease.prove()
        # A write, where a look would do. Right before bytes go the sources have said that nothing
        # names them, and an application may have committed that asynchronously: this commit is
        # behind theirs in the same log, so with it theirs is on the disk, and with the standby.
        with self.database.transaction(self.connection) as cursor:
            self.progress.beat(cursor)
        if self.door is not None and self.live:
            self.door.prove()


class JobFailed(Exception):
    """A job ends as failed, with the numbers that it had reached already committed."""
