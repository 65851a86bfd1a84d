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
from typing import TYPE_CHECKING, Any, get_args

import psycopg
from tenacity import (
    Retrying,
    retry_if_exception_type,
    stop_after_delay,
    wait_random_exponential,
)

from filejobs_dagster.audit.append import NotCanonical, append
from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.ledger.outcome import (
    EVERYTHING,
    INTERRUPTED,
    LIMITED_TO,
    Mode,
    Outcome,
    Window,
)
from filejobs_dagster.ledger.progress import GivenUp, Progress, RunIdentity
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
from filejobs_dagster.run_context import JobFailed, RunContext
from filejobs_dagster.runbook import RUNNING, of_refusal
from filejobs_dagster.text import sanitize, sanitize_exception

if TYPE_CHECKING:
    import logging

    from filejobs_dagster.door.door import Door
    from filejobs_dagster.ledger.progress import Holder

Body = Callable[[RunContext], Outcome]

STARTED_BY_HAND = "run.started_by_hand"
"""The audit event of a live run that somebody asked for."""


@dataclass(frozen=True)
class Intervals:
    """Intervals of a run's own housekeeping.

    Attributes:
        heartbeat: Between two signs of life; also how soon broken locks are taken again.
        final_word: How long to keep trying to write the final word while the database is away.
    """

    heartbeat: timedelta = timedelta(seconds=10)
    final_word: timedelta = timedelta(seconds=45)


@dataclass(frozen=True)
class RunSpec:
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
    pace: Intervals = Intervals()
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


def run_job(
    run_spec: RunSpec,
    database: Database,
    body: Body,
    log: logging.Logger,
    *,
    door: Door | None,
) -> Outcome:
    """Run a job from its locks to its final word.

    Args:
        run_spec: What starts the run.
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
    identity = run_spec.identity
    lease = Lease(database, f"{identity.job} lock {identity.run_id}")
    progress = Progress(identity)
    try:
        _claim_run(lease, database, progress)
        with closing_for_sure(database.connect(f"{identity.job} {identity.run_id}")) as connection:
            context = RunContext(
                identity,
                run_spec.window,
                database,
                connection,
                lease,
                progress,
                log,
                door,
                run_spec.ended,
            )
            try:
                with database.transaction(connection) as cursor:
                    progress.open(cursor, _opening(run_spec))
            except NoConnectionFree as error:
                # Another run may be waiting for the connection that this one's locks are on.
                lease.release()
                outcome = _failed(run_spec, error)
                return _write_final_word(run_spec, context, outcome, _opening(run_spec))
            try:
                with _beating(context, run_spec.pace):
                    return _work(run_spec, context, body)
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


def _opening(run_spec: RunSpec) -> dict[str, Any]:
    detail: dict[str, Any] = {"window": run_spec.window.as_detail()}
    if run_spec.identity.started_by is not None:
        detail["started_by"] = run_spec.identity.started_by.as_detail()
    if run_spec.settings:
        detail["settings"] = run_spec.settings
    if run_spec.mode_reason is not None:
        detail["mode_reason"] = run_spec.mode_reason
    if run_spec.limited_to is not None:
        detail[LIMITED_TO] = run_spec.limited_to
    return detail


def _work(run_spec: RunSpec, context: RunContext, body: Body) -> Outcome:
    try:
        if context.live:
            _claim_exclusive(context)
        door = context.door
        if door is not None:
            door.enter(context.database, context.connection, context.log, live=context.live)
        if context.live and run_spec.by_hand:
            _announce(run_spec, context)
        outcome = _told(run_spec, context, body(context))
    except GivenUp:
        raise
    except Exception as error:  # noqa: BLE001 (every failure becomes the final word)
        context.log.warning(
            "The job failed: %s", sanitize(str(error), known=run_spec.known_secrets)
        )
        outcome = _told(run_spec, context, _failed(run_spec, error))
    except BaseException:
        close_after_interrupt(context.connection)
        try:
            _write_final_word(
                run_spec, context, _told(run_spec, context, Outcome(error=INTERRUPTED))
            )
        except GivenUp as given_up:
            # Its record stands already; what interrupted the run is still what ends it.
            context.log.warning("%s", given_up)
        raise
    return _write_final_word(run_spec, context, outcome)


def _told(run_spec: RunSpec, context: RunContext, outcome: Outcome) -> Outcome:
    """The outcome with what the door found, without secrets."""
    door = context.door
    return (outcome if door is None else door.told(outcome)).sanitized(run_spec.known_secrets)


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


def _announce(run_spec: RunSpec, context: RunContext) -> None:
    """Write into the audit log that somebody runs this job live, before it can remove anything.

    Raises:
        JobFailed: It could not be written. No manual live run goes without its event.
        GivenUp: The run's record stands already.
    """
    identity = run_spec.identity
    starter = identity.started_by
    event = {
        "kind": STARTED_BY_HAND,
        "job": identity.job,
        "run_id": identity.run_id,
        "trigger": {"kind": identity.trigger.kind, "name": identity.trigger.name},
        "started_by": None if starter is None else starter.as_detail(),
        "holder": identity.holder,
        "window": run_spec.window.as_detail(),
    }
    try:
        with context.database.transaction(context.connection) as cursor:
            context.progress.must_be_open(cursor)
            append(cursor, [event])
    except (psycopg.Error, NotCanonical) as error:
        raise JobFailed(
            "A live run that somebody starts stands in the audit log first, and that could not be "
            f"written: {sanitize_exception(error, known=run_spec.known_secrets)}\n"
            "Nothing was removed. `filejobs doctor` says what the audit log lacks."
        ) from error


def _failed(run_spec: RunSpec, error: Exception) -> Outcome:
    """Turn an exception into an outcome; the numbers committed so far stay as they are."""
    text = (
        sanitize(str(error), known=run_spec.known_secrets)
        if isinstance(error, JobFailed | Refusal)
        else sanitize_exception(error, known=run_spec.known_secrets)
    )
    return Outcome(error=text)


def _write_final_word(
    run_spec: RunSpec, context: RunContext, outcome: Outcome, opening: dict[str, Any] | None = None
) -> Outcome:
    """Write the final word on a fresh connection, trying again while the database is away.

    Args:
        run_spec: What started the run.
        context: The run.
        outcome: Its final word.
        opening: What its row begins with, when the row is not there yet.

    Returns:
        The outcome, completed by the numbers and the detail that were committed before.
    """
    attempts = Retrying(
        retry=retry_if_exception_type((psycopg.OperationalError, DatabaseUnavailable)),
        stop=stop_after_delay(run_spec.pace.final_word.total_seconds()),
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
            f"{sanitize_exception(error, known=run_spec.known_secrets)}"
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
def _beating(context: RunContext, pace: Intervals) -> Iterator[None]:
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


# Who decides whether a run is live.
#
# In this order: the operator's veto (`allow_live: false`, or FILEJOBS_ALLOW_LIVE=0), the run
# config when it says so itself, the run tag `filejobs/mode`, and otherwise dry.

MODE_TAG = "filejobs/mode"

_MODES: tuple[Mode, ...] = get_args(Mode)


class UnknownMode(ValueError):
    """Somebody asked for a mode that does not exist; nothing was started."""


@dataclass(frozen=True)
class ModeDecision:
    """The effective mode.

    Attributes:
        mode: What the run does.
        reason: Why, when that is not what somebody asked for; else None.
    """

    mode: Mode
    reason: str | None = None


def decide_mode(*, allow_live: bool, config_dry_run: bool | None, tag: str | None) -> ModeDecision:
    """Decide the effective mode of a run.

    Args:
        allow_live: The operator's veto when False.
        config_dry_run: `dry_run` where the run config says it explicitly, else None.
        tag: The run tag `filejobs/mode`, if there is one.

    Raises:
        UnknownMode: The tag is neither `dry` nor `live`.
    """
    if tag is not None and tag not in _MODES:
        raise UnknownMode(
            f"The run tag {MODE_TAG} is {tag!r}; it can be 'dry' or 'live'. Nothing was started."
        )
    asked: Mode = "live" if tag == "live" else "dry"
    reason = None
    if config_dry_run is not None:
        by_config: Mode = "dry" if config_dry_run else "live"
        if tag is not None and by_config != asked:
            reason = (
                f"the run config says dry_run: {str(config_dry_run).lower()}, which comes before "
                f"the tag {MODE_TAG}: {tag}"
            )
        asked = by_config
    if asked == "live" and not allow_live:
        return ModeDecision(
            "dry", "live was asked, but allow_live: false (or FILEJOBS_ALLOW_LIVE=0) forbids it"
        )
    return ModeDecision(asked, reason)
