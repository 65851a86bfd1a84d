"""What something else says over HTTP of a job that it runs: it began, or how it ended."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.jobs.own.settings import WatchedReportsSettings
from filejobs_dagster.ledger.outcome import Outcome, Trigger
from filejobs_dagster.ledger.progress import GivenUp, RunIdentity
from filejobs_dagster.ledger.reports import begin, end, newest_open
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import known_secrets
from filejobs_dagster.trigger.starting import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.settings import Settings
    from filejobs_dagster.trigger.tokens import TokenHolder

SAID = ("start", "success", "failure")
RUN_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")


@dataclass(frozen=True)
class Report:
    """One report.

    Attributes:
        said: What happened.
        run: Which run, as its reporter calls it; None for the one that it began last.
        error: Why it failed, where it says so.
        scanned: Items looked at, where it counts them.
        acted: Items acted on, where it counts them.
    """

    said: Literal["start", "success", "failure"]
    run: str | None = None
    error: str | None = None
    scanned: int | None = None
    acted: int | None = None


class Reporter:
    """Takes reports of one installation, from any number of threads and processes."""

    def __init__(self, settings: Callable[[], Settings]) -> None:
        self._settings = settings

    def report(self, holder: TokenHolder, job: str, said: Report) -> Answer:
        """Write a report down; the same one again changes nothing.

        Args:
            holder: Who reports.
            job: As the request names it.
            said: What is reported.

        Raises:
            SettingsError: The settings have mistakes.
            DatabaseUnavailable: The database is away.
            psycopg.Error: It refused.
        """
        settings = self._settings()
        configured = settings.jobs.get(job)
        if configured is None:
            return Answer("unknown job")
        allowed = holder.jobs is None or job in holder.jobs
        if not allowed or not isinstance(configured, WatchedReportsSettings):
            return Answer("not allowed")
        database = Database.of(settings.database)
        with database.connect(f"{job} report") as connection:
            identity = _identity(settings.installation, job, holder.name, said.run)
            if said.run is None and said.said != "start":
                known = newest_open(database, connection, identity)
                identity = identity if known is None else replace(identity, run_id=known)
            # Also of an end whose start was never heard of: it begins with it.
            new = begin(database, connection, identity, configured.max_runtime)
            if said.said == "start":
                # A name that is used once more names the old run: its reporter must hear of it.
                return Answer("recorded" if new else "recorded before", run_id=identity.run_id)
            error = None
            if said.said == "failure":
                error = said.error or "It reported a failure, and no reason."
            outcome = Outcome(said.scanned, said.acted, {"swept": error is None}, error)
            try:
                first = end(database, connection, identity, outcome, known_secrets(settings))
            except GivenUp:
                first = False
        return Answer("recorded" if first else "recorded before", run_id=identity.run_id)


def _identity(installation: str, job: str, token: str, run: str | None) -> RunIdentity:
    # The name of its job in front: two jobs may count their runs alike.
    named = uuid.uuid4().hex if run is None else run
    return RunIdentity(
        run_id=f"{installation}/{job}/{named}",
        installation=installation,
        job=job,
        mode="live",
        trigger=Trigger("http", token),
        holder=f"reported over HTTP by {token}",
    )
