"""The one door of every run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.door.belonging import watch_of
from filejobs_dagster.door.clocks import proven_now
from filejobs_dagster.door.databases import recognise
from filejobs_dagster.door.guard import BucketAt, Guard, Look, Refusal
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.ledger.outcome import REFUSALS
from filejobs_dagster.objects.client import BucketUnavailable, make_client
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.collector import Collector
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.postgres.primary import ServerState
    from filejobs_dagster.settings import Settings

WOULD_BE_REFUSED = "would be refused"
"""The class of what a dry run would have taken, when a live one would not be let in."""

REFUSED = "refused"
"""Before what a guard found that let a live run not in, or not go on."""

_SAYS_WHAT = re.compile(r"\bwould\b.*$")
"""In the name of a class, also of one that stands behind another word."""


class Door:
    """The guards of one run.

    A live run is refused when one of them objects. All look before, so that the record of a run
    that was refused says everything that was found, as that of a dry run does: which passes them
    all, and says which of them would have refused a live one.
    """

    def __init__(
        self,
        job: Collector[Any, Any],
        settings: Settings,
        client: S3Client | None = None,
        *,
        entry: str | None = None,
        guards: Sequence[Guard] | None = None,
    ) -> None:
        """Choose the guards by what the job touches.

        Args:
            job: What it is, and what it touches.
            settings: All of them.
            client: Of the bucket that the job deletes from; made here when None.
            entry: That bucket's name in the settings; None for what they say of the job.
            guards: All there are, unless a test says otherwise.
        """
        self._job = job
        self._settings = settings
        self._client = client
        self._entry = entry
        known = GUARDS if guards is None else guards
        self._guards = tuple(guard for guard in known if guard.protects & job.touches)
        self._at: Look | None = None
        self._said: dict[str, str] = {}
        self._refusals: list[str] = []
        self._doubted = False

    def enter(
        self, database: Database, connection: Connection, log: logging.Logger, *, live: bool
    ) -> None:
        """Look at everything; of a live run, write what it owes before its first claim.

        Args:
            database: Where the project's tables are.
            connection: The run's own, outside a transaction.
            log: Where remarks go.
            live: False for a run that changes nothing.

        Raises:
            Refusal: A live run may not begin. Nothing was touched.
        """
        try:
            buckets = tuple(self._buckets())
        except BucketUnavailable as error:
            unavailable = Refusal(str(error), "Nothing was touched.").told_by("buckets")
            self._refused("buckets", unavailable, log, live=live)
            if live:
                raise unavailable from error
            return
        at = Look(
            settings=self._settings,
            touches=self._job.touches,
            database=database,
            connection=connection,
            buckets=buckets,
            log=log,
            job=self._job.name,
        )
        self._at = at
        objections: list[Refusal] = []
        for guard in self._guards:
            try:
                self._said[guard.name] = asked(guard, at)
            except Refusal as refusal:
                objections.append(refusal)
                self._refused(guard.name, refusal, log, live=live)
        if not live:
            return
        if objections:
            raise objections[0]
        for guard in self._guards:
            self._take_down(guard, guard.enter, at)

    def _refused(self, guard: str, refusal: Refusal, log: logging.Logger, *, live: bool) -> None:
        """Keep what ends a live run, or would have ended it."""
        if live:
            self._said[guard] = f"{REFUSED}: {refusal}"
            return
        self._said[guard] = f"{WOULD_BE_REFUSED}: {refusal}"
        self._refusals.append(f"{guard}: {refusal}")
        self._doubted = self._doubted or refusal.doubts
        log.warning("A live run would be refused (%s): %s", guard, refusal)

    def look_with(self, fresh: Connection) -> None:
        """Take a connection that somebody has just made as a look at where the address leads.

        Args:
            fresh: Outside a transaction; any thread may call this.

        Raises:
            psycopg.Error: The server would not say.
        """
        watch = None if self._at is None else watch_of(self._at)
        if watch is not None:
            watch.tell(fresh)

    def recognise(self, url: str, here: ServerState) -> None:
        """Take what a server of the operator's says of itself, in the transaction of its answer.

        Args:
            url: Where it was reached.
            here: What it says.

        Raises:
            Refusal: What it answered is no answer.
        """
        if self._at is not None:
            recognise(self._at, url, here)

    def prove(self, connection: Connection | None = None) -> None:
        """Look again, before a batch of a live run, at what may have changed.

        Args:
            connection: The run's own by now, where the one of `enter` has broken.

        Raises:
            Refusal: The run must stop.
        """
        if self._at is None:
            return
        if connection is not None and connection is not self._at.connection:
            self._at = replace(self._at, connection=connection)
        for guard in self._guards:
            self._take_down(guard, guard.prove, self._at)

    def _take_down(self, guard: Guard, step: Callable[[Look], None], at: Look) -> None:
        try:
            step(at)
        except Refusal as refusal:
            self._said[guard.name] = f"{REFUSED}: {refusal.told_by(guard.name)}"
            raise

    def now(self) -> datetime | None:
        """The moment by which the run judges; None where no guard has compared the clocks."""
        return None if self._at is None else proven_now(self._at)

    def told(self, outcome: Outcome) -> Outcome:
        """The outcome, with what the guards found; also that of a run that they have refused.

        A dry run that they doubt must not say what a live one would take.
        """
        detail: dict[str, Any] = {**outcome.detail, "door": self._said}
        if self._refusals:
            explained = f"A live run would be refused: {'; '.join(self._refusals)}"
            if not self._doubted and "explained" in detail:
                explained = f"{detail['explained']} {explained}"
            # Those that the job has found itself stand in its own sentence.
            refusals = [*detail.get(REFUSALS, ()), *self._refusals]
            detail |= {REFUSALS: refusals, "explained": explained}
        if self._doubted:
            # None, not left out: the numbers of the last batch are written down already.
            says_would = [name for name in detail if name.startswith("would_")]
            detail |= {name: None for name in says_would if name != REFUSALS}
            for name in ("classes", "bytes_by_class", "samples"):
                if name in detail:
                    detail[name] = _renamed(detail[name])
        return replace(outcome, detail=detail)

    def _buckets(self) -> Iterator[BucketAt]:
        """All of them: what one says of the database holds for every run that goes by its rows."""
        own = None
        if self._job.deletes_bytes:
            own = self._entry or self._settings.bucket_of(self._job.name)[0]
        for entry, bucket in self._settings.buckets.items():
            client = self._client if entry == own else None
            yield BucketAt(entry, bucket, client or make_client(bucket), deletes=entry == own)


def asked(guard: Guard, at: Look) -> str:
    """What the guard says; one that cannot look lets nobody in.

    Raises:
        Refusal: It objects, or the database would not say what it asks.
    """
    try:
        return guard.look(at)
    except psycopg.Error as error:
        raise Refusal(
            f"The database would not say what the guard {guard.name!r} asks: "
            f"{sanitize_exception(error, limit=1000)}.",
            "`filejobs grants --missing` prints the rights that the role lacks; `filejobs doctor` "
            "looks closer.",
        ).told_by(guard.name) from error
    except Refusal as refusal:
        refusal.told_by(guard.name)
        raise
    except Exception as error:
        raise Refusal(
            f"The guard {guard.name!r} could not look: {sanitize_exception(error, limit=1000)}.",
            "Nothing was touched.",
        ).told_by(guard.name) from error


def _renamed(by_class: dict[str, Any]) -> dict[str, Any]:
    """The same, without a class that says what a run would do."""
    renamed: dict[str, Any] = {}
    for name, value in by_class.items():
        new = _SAYS_WHAT.sub(WOULD_BE_REFUSED, name)
        renamed[new] = renamed[new] + value if new in renamed else value
    return renamed
