"""Running storage_orphans without Dagster."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs import storage_orphans
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.storage_orphans import Override, Storage, StorageOrphansRun
from filejobs_dagster.jobs.storage_orphans.settings import UNREHEARSED, BreakersSettings
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.registry import BY_NAME
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.door.guard import Guard
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import BucketSettings

QUICK = Intervals(heartbeat=timedelta(seconds=0.2), final_word=timedelta(seconds=3))
NEVER_TRIPS = BreakersSettings(
    max_orphan_fraction=1,
    max_ambiguous_fraction=1,
    max_missing_fraction=1,
    max_named_elsewhere_fraction=1,
    max_reference_shrink=1,
    max_newer=1_000_000,
)

Hook = Callable[["RunContext"], None]


@dataclass
class Sweeper:
    """Runs the job on an installation.

    Attributes:
        installation: Whose bucket and database.
        client: May be prepared with faults.
        min_age: No setting is so low; objects of a test cannot be made older than they are.
        adopted: False leaves the bucket as it is.
        hook: Called with the run's context before it begins.
        environment: What the settings call the environment.
        when: Called once, in the run's own thread, when a line with that text is logged.
        gate: Makes the gate; a careless one for CONTROL tests.
        guards: Of the door; fewer of them for CONTROL tests.
        adopted_as: The environments that a marker was written for.
        asks: True where the first live run by new rules must say that they were rehearsed.
    """

    installation: Installation
    client: S3Client
    min_age: timedelta = timedelta(0)
    adopted: bool = True
    hook: Hook | None = None
    environment: str | None = None
    log: list[str] = field(default_factory=list)
    when: dict[str, Callable[[], object]] = field(default_factory=dict)
    gate: type[Gate] = Gate
    guards: Sequence[Guard] = GUARDS
    adopted_as: set[str | None] = field(default_factory=set)
    asks: bool = False

    @property
    def bucket(self) -> BucketSettings:
        settings = self.installation.settings().buckets["uploads"]
        return settings.model_copy(update={"min_age": self.min_age})

    def __call__(self, mode: Mode = "live", run_id: str | None = None, **request: Any) -> Outcome:
        bucket = self.bucket
        identity = RunIdentity(
            run_id=run_id or str(uuid.uuid4()),
            installation="test",
            job="storage_orphans",
            mode=mode,
            trigger=Trigger("cli"),
            holder="the test",
        )
        limits = {
            "confirm_after": timedelta(0),
            "breakers": NEVER_TRIPS,
            "scratch": self.installation.folder,
            "parts": 2,
            **request,
        }
        if not self.asks:
            said = limits.get("override", Override())
            reason = said.reason if said.breakers else "a test of something else"
            limits["override"] = Override(breakers=(*said.breakers, UNREHEARSED), reason=reason)

        def body(run: RunContext) -> Outcome:
            if self.hook is not None:
                self.hook(run)
            recognise = None if run.door is None else run.door.recognise
            with ReferenceCheck(run.connected, bucket.sources, recognise=recognise) as references:
                gate = self.gate(self.client, bucket, references)
                storage = Storage("uploads", bucket, self.client, gate, references)
                return storage_orphans.run(
                    run, StorageOrphansRun.model_construct(**limits), storage
                )

        if self.adopted and mode == "live":
            self.adopt()
        log = logging.getLogger("sweeper")
        log.setLevel(logging.INFO)
        kept = _Kept(self)
        log.addHandler(kept)
        try:
            database = self.installation.database
            return run_job(RunSpec(identity, pace=QUICK), database, body, log, door=self.door())
        finally:
            log.removeHandler(kept)

    def door(self) -> Door:
        """What a run of the job must prove."""
        settings = self.installation.settings().model_copy(update={"environment": self.environment})
        return Door(
            BY_NAME["storage_orphans"], settings, self.client, entry="uploads", guards=self.guards
        )

    def adopt(self) -> None:
        """Write the marker, once."""
        if self.environment not in self.adopted_as:
            self.installation.adopt(self.environment)
            self.adopted_as.add(self.environment)

    def put(self, *keys: str, body: bytes = b"bytes") -> None:
        """Objects without rows."""
        for key in keys:
            self.installation.client.put_object(Bucket=self.installation.bucket, Key=key, Body=body)

    def seen_before(self, *orphans: str) -> None:
        """Orphans that a first run has marked, beside one object that is in use."""
        self.put(*orphans)
        self.seen_before_there(*orphans)

    def seen_before_there(self, *orphans: str, mode: Mode = "dry") -> None:
        """The same for orphans that are in the bucket already.

        A dry run marks as a live one does, in half the time, and does not try the server.
        """
        self.put("files/used")
        self.refer("files/used")
        if self.adopted:
            self.adopt()
        first = self(mode)
        assert first.ok, first.error
        assert set(self.candidates()) == set(orphans)

    def refer(self, *keys: str) -> None:
        """Rows without objects."""
        self.installation.execute(
            "INSERT INTO file (state, storage_key) SELECT 'ready', unnest(%s::text[])",
            (list(keys),),
        )

    def deletions_have_arrived(self) -> None:
        """Let the time pass in which a deletion that was sent may still be carried out."""
        self.installation.execute(
            "UPDATE orphan_candidate SET intent_at = intent_at - interval '1 hour'"
            " WHERE state = 'deleting'"
        )

    def candidates(self) -> dict[str, str]:
        """State by key."""
        return {
            bytes(key).decode(): state
            for key, state in self.installation.execute(
                "SELECT key, state FROM orphan_candidate ORDER BY key"
            )
        }

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The audit events of a kind, in order."""
        rows = self.installation.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")
        return [body for (body,) in rows if body["kind"] == kind]


class _Kept(logging.Handler):
    def __init__(self, sweeper: Sweeper) -> None:
        super().__init__()
        self._sweeper = sweeper

    def handle(self, record: logging.LogRecord) -> bool:
        """Without the lock and the swallowing of errors of `emit`."""
        line = record.getMessage()
        self._sweeper.log.append(line)
        for text in [text for text in self._sweeper.when if text in line]:
            self._sweeper.when.pop(text)()
        return True


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    return make_installation(tmp_path, database_url, bucket, s3_client, s3_server)


@pytest.fixture
def sweep(installation: Installation) -> Sweeper:
    return Sweeper(installation, make_client(installation.settings().buckets["uploads"]))
