"""A multipart upload that began long ago and whose parts still arrive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from filejobs_dagster.jobs import multipart_uploads
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy
from filejobs_dagster.prove.workplace import run_in_bucket

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.prove.workplace import Workplace

IDLE_FOR = timedelta(hours=48)
SLOW_KEY = "files/film.mov"
IDLE_KEY = "files/forgotten.mov"
PART = b"the newest part of a film"


@dataclass(frozen=True)
class _Uploads:
    """Two multipart uploads: one whose newest part has just come, one without a part.

    The embedded server says of every upload that it began in November 2010. That is the age that
    the careless version goes by; the parts are dated by when they really came.
    """

    store: Store
    slow: str
    idle: str

    @classmethod
    def begin(cls, store: Store) -> _Uploads:
        slow, idle = (
            store.client.create_multipart_upload(Bucket=store.name, Key=key)["UploadId"]
            for key in (SLOW_KEY, IDLE_KEY)
        )
        store.client.upload_part(
            Bucket=store.name, Key=SLOW_KEY, UploadId=slow, PartNumber=1, Body=PART
        )
        return cls(store, slow, idle)

    def complete(self) -> str:
        """The client asks which of its parts are there, and completes; what it is told."""
        client, bucket = self.store.client, self.store.name
        try:
            found = client.list_parts(Bucket=bucket, Key=SLOW_KEY, UploadId=self.slow)["Parts"]
        except ClientError as error:
            return f"refused: {error.response['Error']['Code']}"
        client.complete_multipart_upload(
            Bucket=bucket,
            Key=SLOW_KEY,
            UploadId=self.slow,
            MultipartUpload={
                "Parts": [
                    {"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in found
                ]
            },
        )
        return "200, complete"

    def newest_part(self) -> datetime:
        """When the slow upload's last part came, by the server."""
        (part,) = self.store.client.list_parts(
            Bucket=self.store.name, Key=SLOW_KEY, UploadId=self.slow
        )["Parts"]
        return part["LastModified"]

    def left(self) -> dict[str, datetime]:
        """The uploads that the server lists, and when it says that they began."""
        answer = self.store.client.list_multipart_uploads(Bucket=self.store.name)
        return {entry["UploadId"]: entry["Initiated"] for entry in answer.get("Uploads", [])}


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as scene:
        return Evidence(
            _careless(scene, _Uploads.begin(stage.store())),
            _guarded(scene, _Uploads.begin(stage.store())),
        )


def _careless(scene: Scene, uploads: _Uploads) -> Side:
    before = _dates(scene, uploads)
    now: datetime = scene.value("SELECT now()")
    aborted = 0
    for upload_id, initiated in uploads.left().items():
        if initiated < now - IDLE_FOR:
            key = SLOW_KEY if upload_id == uploads.slow else IDLE_KEY
            uploads.store.client.abort_multipart_upload(
                Bucket=uploads.store.name, Key=key, UploadId=upload_id
            )
            aborted += 1
    return _side(
        uploads,
        "abort what began more than 48 hours ago",
        """
        -- S3: ListMultipartUploads
        -- S3: AbortMultipartUpload, where Initiated < now - 48 hours
        """,
        (*before, ("uploads aborted", aborted)),
    )


def _guarded(scene: Scene, uploads: _Uploads) -> Side:
    before = _dates(scene, uploads)
    outcome = _sweep(scene, uploads.store)
    classes = outcome.detail["classes"]
    return _side(
        uploads,
        "the project's multipart_uploads: idle by the newest part, never by the beginning",
        """
        -- S3: ListMultipartUploads; then every source is asked for the keys
        -- S3: ListParts: the newest one must have come before now - 48 hours,
        --     here and once more right before the abort
        -- S3: AbortMultipartUpload, and ListParts until nothing is left
        """,
        (
            *before,
            ("uploads aborted", outcome.acted),
            ("what became of all", ", ".join(f"{n} {fate}" for fate, n in sorted(classes.items()))),
        ),
    )


def _sweep(scene: Scene, store: Store) -> Outcome:
    def body(at: Workplace) -> Outcome:
        storage = multipart_uploads.Storage(
            entry="prove",
            bucket=store.settings,
            client=store.client,
            gate=at.gate,
            references=at.references,
        )
        return multipart_uploads.run(
            at.context, multipart_uploads.MultipartUploadsRun(idle_for=IDLE_FOR), storage
        )

    return run_in_bucket(scene, store, multipart_uploads.JOB, body)


def _dates(scene: Scene, uploads: _Uploads) -> tuple[tuple[str, FactValue], ...]:
    now: datetime = scene.value("SELECT clock_timestamp()")
    began = uploads.left()[uploads.slow]
    came = max(timedelta(0), now - uploads.newest_part())
    return (
        ("the slow upload began, as this server dates all", began.date().isoformat()),
        ("its newest part came", f"{came.total_seconds():.0f} s ago"),
    )


def _side(
    uploads: _Uploads, title: str, statement: str, facts: tuple[tuple[str, FactValue], ...]
) -> Side:
    idle_is_left = uploads.idle in uploads.left()
    told = uploads.complete()
    has_object = uploads.store.has(SLOW_KEY)
    return Side(
        title,
        tidy(statement),
        (
            *facts,
            ("the idle upload", "is still there" if idle_is_left else "aborted"),
            ("the slow client then completes", told),
            ("HEAD of its object", uploads.store.head(SLOW_KEY)),
        ),
        lost=not has_object or idle_is_left,
    )


CLAIM = Claim(
    "slow-multipart",
    "A multipart upload that began long ago and still gets parts is kept.",
    _demonstrate,
)
