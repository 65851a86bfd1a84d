"""The life of one run, the same for every job and every door.

Run lock, progress row, exclusive lock (live only), the job itself, its final word. Whatever
happens in between, the final word is written or, when that fails too, both failures are told.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from filejobs_dagster.audit.append import NotCanonical, append
from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.jobs.context import JobFailed, RunContext
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.progress import GivenUp, Progress, RunIdentity
from filejobs_dagster.ledger.sanitize import sanitize, sanitize_exception
from filejobs_dagster.ledger.words import EVERYTHING, INTERRUPTED, LIMITED_TO, Window
from filejobs_dagster.postgres.connect import (
    Connection,
    Database,
    DatabaseUnavailable,
    NoConnectionFree,
    close_after_interrupt,
)
from filejobs_dagster.postgres.locks import (
    Lease,
    LeaseLost,
    LockTaken,
    exclusive_lock,
    run_lock,
)
from filejobs_dagster.runbook import RUNNING, of_refusal

if TYPE_CHECKING:
    import logging

    from filejobs_dagster.door.door import Door
    from filejobs_dagster.ledger.progress import Holder

Body = Callable[[RunContext], Outcome]

STARTED_BY_HAND = "run.started_by_hand"
"""The audit event of a live run that somebody asked for."""


@dataclass(frozen=True)
class Pace:
    """Intervals of a run's own housekeeping.

    Attributes:
        heartbeat: Between two signs of life; also how soon broken locks are taken again.
        final_word: How long to keep trying to write the final word while the database is away.
    """

    heartbeat: timedelta = timedelta(seconds=10)
    final_word: timedelta = timedelta(seconds=45)


@dataclass(frozen=True)
class Ticket:
    """What starts a run.

    Attributes:
        identity: Which run this is.
        window: What it sets out to cover.
        mode_reason: Why the effective mode is not the one that was asked for, or None.
        known_secrets: Values that must not appear in anything that is recorded.
        pace: Intervals of the run's own housekeeping.
        by_hand: True when somebody asked for the run. A live one then stands in the audit log
            before it removes anything.
        settings: What tells the settings that it read from others; see `Settings.digest`.
        limited_to: The most items it may act on, where that is less than the settings say.
        ended: Says how the scheduler calls the run over, while it is at work; else None. Asked
            before each batch.
    """

    identity: RunIdentity
    window: Window = EVERYTHING
    mode_reason: str | None = None
    known_secrets: tuple[str, ...] = ()
    pace: Pace = Pace()
    by_hand: bool = False
    settings: str = ""
    limited_to: int | None = None
    ended: Callable[[], str | None] = lambda: None


class AlreadyRunning(JobFailed):
    """Another live run of the job is at work."""

    def __init__(self, identity: RunIdentity, holder: Holder | None) -> None:
        super().__init__(
            f"A live run of {identity.job} is at work already: {_who(holder)}. One live run per "
            f"job: wait for it, or cancel it. See {of_refusal(RUNNING)}"
        )


class AtWorkElsewhere(LockTaken):
    """This very run is at work already, in another process."""

    def __init__(self, name: str, holder: Holder | None) -> None:
        super().__init__(
            name,
            f"This run is at work already, in another process: {_who(holder)}. A run has one "
            "process: this one did nothing, and the other goes on.",
        )


def _who(holder: Holder | None) -> str:
    if holder is None:
        return "another session holds its lock (its progress row is not to be seen)"
    since = holder.started_at.isoformat(timespec="seconds")
    return f"run {holder.run_id} by {holder.holder} ({holder.trigger}) works since {since}"


class NotRecorded(Exception):
    """The run's final word could not be written; the message says that and how the job ended."""


def conduct(
    ticket: Ticket,
    database: Database,
    body: Body,
    log: logging.Logger,
    *,
    door: Door | None,
) -> Outcome:
    """Run a job from its locks to its final word.

    Args:
        ticket: What starts the run.
        database: Where the tables are.
        body: The job.
        log: Where progress lines go.
        door: What the run must prove. None runs a job alone: only tests and demonstrations of a
            single fault do that.

    Returns:
        The final word that was written, also when the job failed.

    Raises:
        GivenUp: The run's record stands already: nothing was done, or it was given up while it
            worked.
        AtWorkElsewhere: This very run is at work already, in another process.
        NotRecorded: The final word could not be written.
        DatabaseUnavailable: The database was away before anything was done.
        NoConnectionFree: A pooler had no connection at all before anything was done.
        BaseException: An interrupt, after the final word was written.
    """
    identity = ticket.identity
    lease = Lease(database, f"{identity.job} lock {identity.run_id}")
    progress = Progress(identity)
    try:
        _claim_run(lease, database, progress)
        with closing_for_sure(database.connect(f"{identity.job} {identity.run_id}")) as connection:
            context = RunContext(
                identity,
                ticket.window,
                database,
                connection,
                lease,
                progress,
                log,
                door,
                ticket.ended,
            )
            try:
                with database.transaction(connection) as cursor:
                    progress.open(cursor, _opening(ticket))
            except NoConnectionFree as error:
                # Another run may be waiting for the connection that this one's locks are on.
                lease.release()
                outcome = _failed(ticket, error)
                return _write_final_word(ticket, context, outcome, _opening(ticket))
            try:
                with _beating(context, ticket.pace):
                    return _work(ticket, context, body)
            finally:
                # Another one by now, where the first had broken.
                context.connection.close()
    finally:
        lease.release()


@contextmanager
def closing_for_sure(connection: Connection) -> Iterator[Connection]:
    """Close the connection at the end, and cancel its statement when the end is an interrupt."""
    try:
        yield connection
    except Exception:
        connection.close()
        raise
    except BaseException:
        close_after_interrupt(connection)
        raise
    else:
        connection.close()


def _opening(ticket: Ticket) -> dict[str, Any]:
    detail: dict[str, Any] = {"window": ticket.window.as_detail()}
    if ticket.identity.started_by is not None:
        detail["started_by"] = ticket.identity.started_by.as_detail()
    if ticket.settings:
        detail["settings"] = ticket.settings
    if ticket.mode_reason is not None:
        detail["mode_reason"] = ticket.mode_reason
    if ticket.limited_to is not None:
        detail[LIMITED_TO] = ticket.limited_to
    return detail


def _work(ticket: Ticket, context: RunContext, body: Body) -> Outcome:
    try:
        if context.live:
            _claim_exclusive(context)
        door = context.door
        if door is not None:
            door.enter(context.database, context.connection, context.log, live=context.live)
        if context.live and ticket.by_hand:
            _announce(ticket, context)
        outcome = _told(ticket, context, body(context))
    except GivenUp:
        raise
    except Exception as error:  # noqa: BLE001 (every failure becomes the final word)
        context.log.warning("The job failed: %s", sanitize(str(error), known=ticket.known_secrets))
        outcome = _told(ticket, context, _failed(ticket, error))
    except BaseException:
        close_after_interrupt(context.connection)
        try:
            _write_final_word(ticket, context, _told(ticket, context, Outcome(error=INTERRUPTED)))
        except GivenUp as given_up:
            # Its record stands already; what interrupted the run is still what ends it.
            context.log.warning("%s", given_up)
        raise
    return _write_final_word(ticket, context, outcome)


def _told(ticket: Ticket, context: RunContext, outcome: Outcome) -> Outcome:
    """The outcome with what the door found, without secrets."""
    door = context.door
    return (outcome if door is None else door.told(outcome)).sanitized(ticket.known_secrets)


def _claim_run(lease: Lease, database: Database, progress: Progress) -> None:
    identity = progress.identity
    try:
        lease.take(run_lock(database.schema, identity.run_id))
    except LockTaken as taken:
        holder = None
        # Who it is makes the refusal plainer; that it is refused does not depend on it.
        with (
            suppress(DatabaseUnavailable, psycopg.Error),
            closing(database.connect(f"{identity.job} {identity.run_id}")) as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            holder = progress.own_holder(cursor)
        raise AtWorkElsewhere(taken.name, holder) from taken


def _claim_exclusive(context: RunContext) -> None:
    identity = context.identity
    try:
        context.lease.take(exclusive_lock(context.database.schema, identity.job))
    except LockTaken as taken:
        with context.database.transaction(context.connection, read_only=True) as cursor:
            holder = context.progress.live_holder(cursor)
        raise AlreadyRunning(identity, holder) from taken


def _announce(ticket: Ticket, context: RunContext) -> None:
    """Write into the audit log that somebody runs this job live, before it can remove anything.

    Raises:
        JobFailed: It could not be written. No manual live run goes without its event.
        GivenUp: The run's record stands already.
    """
    identity = ticket.identity
    starter = identity.started_by
    event = {
        "kind": STARTED_BY_HAND,
        "job": identity.job,
        "run_id": identity.run_id,
        "trigger": {"kind": identity.trigger.kind, "name": identity.trigger.name},
        "started_by": None if starter is None else starter.as_detail(),
        "holder": identity.holder,
        "window": ticket.window.as_detail(),
    }
    try:
        with context.database.transaction(context.connection) as cursor:
            context.progress.must_be_open(cursor)
            append(cursor, [event])
    except (psycopg.Error, NotCanonical) as error:
        raise JobFailed(
            "A live run that somebody starts stands in the audit log first, and that could not be "
            f"written: {sanitize_exception(error, known=ticket.known_secrets)}\n"
            "Nothing was removed. `filejobs doctor` says what the audit log lacks."
        ) from error


def _failed(ticket: Ticket, error: Exception) -> Outcome:
    """Turn an exception into an outcome; the numbers committed so far stay as they are."""
    text = (
        sanitize(str(error), known=ticket.known_secrets)
        if isinstance(error, JobFailed | Refusal)
        else sanitize_exception(error, known=ticket.known_secrets)
    )
    return Outcome(error=text)


def _write_final_word(
    ticket: Ticket, context: RunContext, outcome: Outcome, opening: dict[str, Any] | None = None
) -> Outcome:
    """Write the final word on a fresh connection, trying again while the database is away.

    Args:
        ticket: What started the run.
        context: The run.
        outcome: Its final word.
        opening: What its row begins with, when the row is not there yet.

    Returns:
        The outcome, completed by the numbers and the detail that were committed before.
    """
    attempts = Retrying(
        retry=retry_if_exception_type((psycopg.OperationalError, DatabaseUnavailable)),
        stop=stop_after_delay(ticket.pace.final_word.total_seconds()),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        reraise=True,
    )
    try:
        return attempts(_finish_once, context, outcome, opening)
    except GivenUp:
        raise
    except Exception as error:
        how = "The job succeeded" if outcome.ok else f"The job failed: {outcome.error}"
        raise NotRecorded(
            f"{how}\nAND its final word could not be recorded: "
            f"{sanitize_exception(error, known=ticket.known_secrets)}"
        ) from error


def _finish_once(context: RunContext, outcome: Outcome, opening: dict[str, Any] | None) -> Outcome:
    database = context.database
    try:
        with (
            database.connect(f"{context.identity.job} final word") as connection,
            database.transaction(connection) as cursor,
        ):
            if opening is not None:
                context.progress.open(cursor, opening)
            context.progress.finish(cursor, outcome)
            scanned, acted, detail = context.progress.committed(cursor)
    except NoConnectionFree:
        # The work is over: the word needs the pool's connection more than the locks do.
        context.lease.release()
        raise
    return replace(outcome, scanned=scanned, acted=acted, detail=detail)


@contextmanager
def _beating(context: RunContext, pace: Pace) -> Iterator[None]:
    """Show signs of life beside the job, and take broken locks again.

    A job that reads a long listing does not speak to the database for an hour; if the database was
    restarted meanwhile, its locks must come back before anybody concludes that the run is lost.
    """
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(pace.heartbeat.total_seconds()):
            try:
                _beat_once(context)
            except (psycopg.Error, DatabaseUnavailable, LeaseLost) as error:
                context.log.debug("No sign of life could be written: %s", error)
            except GivenUp as error:
                context.log.warning("%s", error)
                return

    thread = threading.Thread(target=beat, name="filejobs-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=context.database.statement_timeout.total_seconds())


def _beat_once(context: RunContext) -> None:
    context.lease.prove()
    database = context.database
    with database.connect(f"{context.identity.job} heartbeat") as connection:
        if context.door is not None:
            # After a failover this connection leads to the new primary, and the run's own does not.
            context.door.look_with(connection)
        with database.transaction(connection) as cursor:
            context.progress.beat(cursor)
