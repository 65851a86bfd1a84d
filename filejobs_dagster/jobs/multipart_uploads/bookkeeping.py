"""Writing down what a run does: progress, and its events on the audit chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.multipart_uploads.settings import JOB
from filejobs_dagster.jobs.multipart_uploads.totals import Totals
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.ledger.sanitize import display_key
from filejobs_dagster.objects.multipart import AbortFate
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.multipart_uploads.judging import Due
    from filejobs_dagster.objects.multipart import Aborted, MultipartUpload

INTENT = "multipart.abort.intent"
RESULT = "multipart.abort.result"


class Bookkeeping:
    """The totals of a run, its progress row, and its events on the audit chain.

    Attributes:
        totals: What the run has reached.
        facts: What else its record says.
        batch: The number of the batch at work, from 1; each intent has its own.
        stopped: Why the run ended before everything was done, or None.
    """

    def __init__(self, context: RunContext, bucket: str) -> None:
        self._context = context
        self._bucket = bucket
        self.totals = Totals(live=context.live)
        self.facts: dict[str, Any] = {}
        self.batch = 0
        self.stopped: str | None = None

    def detail(self) -> dict[str, Any]:
        """Everything that the record says, up to now."""
        detail = self.totals.as_detail() | self.facts
        if self.stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self.stopped}
        return detail

    def commit(self) -> None:
        """Write the totals in a transaction of their own.

        Raises:
            GivenUp: The run's record stands already: stop.
        """
        with self._context.database.transaction(self._context.connection) as cursor:
            self._advance(cursor)

    def commit_position(self, facts: Mapping[str, Any]) -> None:
        """Write where a phase is."""
        self.facts |= facts
        self.commit()

    def commit_intent(self, batch: Sequence[Due]) -> None:
        """Write which uploads are about to be aborted, before the first of them is.

        Raises:
            GivenUp: The run's record stands already: stop.
        """
        self.batch += 1
        self.totals.intended = len(batch)
        event = self._event(
            INTENT,
            uploads=[
                {**named(it.upload), "parts": it.parts.count, "bytes": str(it.parts.size)}
                for it in batch
            ],
        )
        with self._context.database.transaction(self._context.connection) as cursor:
            self._advance(cursor)
            append(cursor, [event])

    def commit_result(
        self, fates: Sequence[tuple[MultipartUpload, Aborted]], *, stopped: str | None = None
    ) -> None:
        """Write what became of an intent, with the totals.

        The bytes are gone by now, so the audit log says so even when the run may not write its
        totals any more.

        Raises:
            GivenUp: The run's record stands already; the event was written all the same.
        """
        self.totals.intended = 0
        event = self._event(RESULT, **_facts_of(fates))
        if stopped is not None:
            event["stopped"] = stopped
        try:
            trying_again(self._write, event, with_totals=True)
        except GivenUp:
            trying_again(self._write, event, with_totals=False)
            raise

    def commit_event_of_result(
        self, fates: Sequence[tuple[MultipartUpload, Aborted]], *, stopped: str
    ) -> None:
        """Write what became of an intent for a run that may not write its totals any more."""
        event = self._event(RESULT, **_facts_of(fates)) | {"stopped": stopped}
        trying_again(self._write, event, with_totals=False)

    def _write(self, event: Mapping[str, Any], *, with_totals: bool) -> None:
        with self._context.database.transaction(self._context.connection) as cursor:
            if with_totals:
                self._advance(cursor)
            append(cursor, [event])

    def _advance(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        # Before anything was looked at, no number is decided.
        decided = bool(self.totals.scanned or self.totals.asked_by_id)
        self._context.progress.advance(
            cursor,
            scanned=self.totals.scanned if decided else None,
            acted=self.totals.aborted if decided else None,
            detail=self.detail(),
        )

    def _event(self, kind: str, **facts: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "job": JOB,
            "run_id": self._context.identity.run_id,
            "bucket": self._bucket,
            "batch": self.batch,
            **facts,
        }


def named(upload: MultipartUpload) -> dict[str, str]:
    r"""An upload as events name it; a key that JSON text cannot carry is escaped, and says so.

    jsonb refuses `\x00`. Keys that are no UTF-8 never come so far: the gate keeps them.
    """
    key = {"key": upload.key}
    if "\x00" in upload.key:
        key = {"key_escaped": display_key(upload.key, limit=8000)}
    return {**key, "upload_id": upload.upload_id}


def _facts_of(fates: Sequence[tuple[MultipartUpload, Aborted]]) -> dict[str, Any]:
    """Counts, and by name whatever did not simply go."""
    return {
        "aborted": sum(it.fate is AbortFate.ABORTED for _, it in fates),
        "parts": sum(it.parts for _, it in fates),
        # As text: events hold no number that a double does not hold for certain.
        "bytes_freed": str(sum(it.bytes_freed for _, it in fates)),
        "others": [
            {**named(upload), "fate": it.fate.value, "reason": it.reason.replace("\x00", "")}
            for upload, it in fates
            if it.fate is not AbortFate.ABORTED
        ],
    }
