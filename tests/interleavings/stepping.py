"""The real collector, stopped before and after whatever it says to database and storage."""

from __future__ import annotations

import logging
import re
import threading
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

import psycopg
from tenacity import wait_none

from filejobs_dagster.jobs import upload_reservations
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.upload_reservations import Storage, UploadReservationsRun
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.postgres.connect import (
    Database,
    DatabaseUnavailable,
    application_name,
)
from filejobs_dagster.references.check import ReferenceCheck
from tests.interleavings.turnstile import SECONDS, Turnstile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.postgres.locks import Lease
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import BucketSettings

LOG = logging.getLogger("stepped collector")
LOG.setLevel(logging.CRITICAL)

# No heartbeat of its own, and no second try of a final word: the schedule decides what happens.
STILL = Intervals(heartbeat=timedelta(hours=1), final_word=timedelta(0))

PROVING, READ, CLAIM_WRITTEN, EVENTS_WRITTEN, SENDING, ANSWERED, RECORDING, SPEAKING, SPOKEN = (
    "about to prove that it may go on",
    "has read candidates",
    "has written its claim",
    "has written its events",
    "about to ask storage",
    "has its answer",
    "about to record the result",
    "about to say its final word",
    "has said its final word",
)

_CLAIM = re.compile(r"\s*DELETE\s+FROM\s+file\b")
_SEAMS: tuple[tuple[re.Pattern[str], str, str], ...] = (
    (re.compile(r"[\s\S]*FROM file[\s\S]*LIMIT %\(size\)s"), "after", READ),
    (_CLAIM, "after", CLAIM_WRITTEN),
    (re.compile(r"[\s\S]*audit_append_many"), "after", EVENTS_WRITTEN),
    (re.compile(r"\s*UPDATE job_progress\s+SET scanned      = %"), "before", RECORDING),
    (re.compile(r"\s*UPDATE job_progress\s+SET scanned      = coalesce"), "before", SPEAKING),
    (re.compile(r"\s*UPDATE job_progress\s+SET scanned      = coalesce"), "after", SPOKEN),
)


@dataclass
class Carelessness:
    """What somebody else would have written.

    Attributes:
        claim: A statement that takes the place of the claim.
        bytes_first: Called with the run and the ids of its claim, before its commit.
        gate: The class that takes the gate's place.
    """

    claim: str | None = None
    bytes_first: Callable[[SteppedRun, Sequence[uuid.UUID]], None] | None = None
    gate: type[Gate] = Gate


CAREFUL = Carelessness()


class SteppingDatabase(Database):
    """Hands out connections that stop at the seams, and none to a process that is dead."""

    def connect(self, purpose: str) -> Connection:
        run: SteppedRun = self.__dict__["run"]
        if run.killed:
            raise DatabaseUnavailable("the process is dead")
        connection = super().connect(purpose)
        connection.cursor_factory = _cursor_of(run)
        run.sessions[connection.info.backend_pid] = purpose
        return connection


def _cursor_of(run: SteppedRun) -> type[psycopg.Cursor[Any]]:
    class SteppingCursor(psycopg.Cursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
            text = query if isinstance(query, str) else ""
            careless = run.carelessness
            is_claim = bool(_CLAIM.match(text))
            for pattern, when, point in _SEAMS:
                if when == "before" and pattern.match(text):
                    run.turnstile.arrive(point)
            if is_claim and careless.claim is not None:
                query = careless.claim
            super().execute(query, params, **options)
            if is_claim and careless.bytes_first is not None:
                careless.bytes_first(run, params["ids"])
            for pattern, when, point in _SEAMS:
                if when == "after" and pattern.match(text):
                    run.turnstile.arrive(point)
            return self

    return SteppingCursor


class SteppingLease:
    """Stops before every proof."""

    def __init__(self, lease: Lease, run: SteppedRun) -> None:
        self._lease = lease
        self._run = run

    @property
    def were_free(self) -> bool:
        """As the lease that it stands for."""
        return self._lease.were_free

    def prove(self) -> None:
        """As the lease that it stands for."""
        self._run.turnstile.arrive(PROVING)
        self._lease.prove()


class SteppedRun:
    """One live run in a thread of its own."""

    def __init__(
        self,
        url: str,
        bucket: BucketSettings,
        client: S3Client,
        carelessness: Carelessness = CAREFUL,
        **limits: Any,
    ) -> None:
        # Short, so that the names of its sessions hold it whole.
        self.run_id = uuid.uuid4().hex[:16]
        self.turnstile = Turnstile()
        self.carelessness = carelessness
        self.sessions: dict[int, str] = {}
        self.killed = False
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        self.context: RunContext | None = None
        self.client = client
        self.url = url
        self.bucket = bucket
        self._limits = limits
        self._database = SteppingDatabase(url)
        self._database.__dict__["run"] = self
        self._thread = threading.Thread(target=self._work, daemon=True)

    @contextmanager
    def _stopping_at_requests(self) -> Iterator[None]:
        """Stop last of all who are asked before a request, that is after the proof."""
        events: Any = self.client.meta.events
        before, *answers = (
            "before-send.s3.DeleteObjects",
            "after-call.s3.DeleteObjects",
            "after-call-error.s3.DeleteObjects",
        )

        def send(**_event: object) -> None:
            self.turnstile.arrive(SENDING)

        def answered(**_event: object) -> None:
            self.turnstile.arrive(ANSWERED)

        events.register_last(before, send)
        for name in answers:
            events.register_first(name, answered)
        try:
            yield
        finally:
            events.unregister(before, send)
            for name in answers:
                events.unregister(name, answered)

    def _work(self) -> None:
        self.turnstile.belongs_to_me()
        identity = RunIdentity(
            run_id=self.run_id,
            installation="test",
            job="upload_reservations",
            mode="live",
            trigger=Trigger("cli"),
            holder="the test",
        )
        try:
            with self._stopping_at_requests():
                run_spec = RunSpec(identity, pace=STILL)
                self.outcome = run_job(run_spec, self._database, self._body, LOG, door=None)
        except BaseException as error:  # noqa: BLE001 (a process ends by whatever ended it)
            self.error = error
        finally:
            self.turnstile.end()

    def _body(self, context: RunContext) -> Outcome:
        self.context = context
        # Around the lease, not inside: there a heartbeat would wait for the one who stands.
        context = replace(context, lease=cast("Lease", SteppingLease(context.lease, self)))
        checks = ReferenceCheck(context.connection, self.bucket.sources)
        gate = self.carelessness.gate(self.client, self.bucket, checks, wait=wait_none())
        storage = Storage(self.bucket.bucket, self.client, gate, checks)
        return upload_reservations.run(
            context, UploadReservationsRun.model_construct(**self._limits), storage
        )

    # The schedule -----------------------------------------------------------------------------

    @property
    def point(self) -> str | None:
        """Where it stands; None when it is over, or at work."""
        return self.turnstile.point

    @property
    def over(self) -> bool:
        """True when its thread has come to its end."""
        return self.turnstile.ended

    def start(self) -> None:
        """Begin, up to the first point."""
        self._thread.start()
        assert self.stands(), f"run {self.run_id} neither stops nor ends"

    def stands(self, seconds: float = SECONDS) -> bool:
        """Wait until it stands at a point or is over; False when it waits for somebody's lock."""
        return self.turnstile.wait(seconds)

    def step(self) -> None:
        """Go on to the next point, or to the end."""
        self.turnstile.release()
        assert self.stands(), f"run {self.run_id} neither stops nor ends"

    def step_to(self, *points: str) -> None:
        """Go on until it stands at one of the points, or is over."""
        self.step()
        while not self.over and self.point not in points:
            self.step()

    def let_go(self) -> None:
        """Let it go on to its end, without stops."""
        self.turnstile.open()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join(60)
        assert self.over, f"run {self.run_id} does not end"

    def finish(self) -> None:
        """Go on to the end, without stops."""
        self.let_go()
        self.join()

    def kill(self, admin: psycopg.Connection[Any]) -> None:
        """Die as by SIGKILL: the server finds its sessions gone, and nothing more is said."""
        self.killed = True
        self._end_sessions(admin, lambda _purpose: True)
        self.turnstile.kill()
        self.join()

    def lose_locks(self, admin: psycopg.Connection[Any]) -> None:
        """Its locks go with the connection that holds them; the process lives."""
        self._end_sessions(admin, lambda purpose: " lock " in purpose)

    def _end_sessions(self, admin: psycopg.Connection[Any], chosen: Callable[[str], bool]) -> None:
        for pid, purpose in list(self.sessions.items()):
            if chosen(purpose):
                admin.execute(
                    "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                    " WHERE pid = %s AND application_name = %s",
                    (pid, application_name(purpose)),
                )
