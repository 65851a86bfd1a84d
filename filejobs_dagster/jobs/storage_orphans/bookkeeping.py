"""Writing down what a run does: progress, and its events on the audit chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.storage_orphans.keys_in_lists import escape_key
from filejobs_dagster.jobs.storage_orphans.settings import JOB
from filejobs_dagster.jobs.storage_orphans.totals import Totals
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans.settings import Override


class Bookkeeping:
    """The totals of a run, its progress row, and its events on the audit chain.

    Attributes:
        totals: What the run has reached.
        facts: What else its record says; added to with every phase.
        batch: The number of the batch at work, from 1.
        stopped: Why the run ended before everything was done, or None.
        oldest_failed: Since when the oldest orphan has been seen that storage did not let go.
    """

    def __init__(self, context: RunContext, bucket: str) -> None:
        self._context = context
        self._bucket = bucket
        self.totals = Totals(live=context.live)
        self.facts: dict[str, Any] = {}
        self.batch = 0
        self.stopped: str | None = None
        self.oldest_failed: datetime | None = None

    def detail(self) -> dict[str, Any]:
        """Everything that the record says, up to now."""
        detail = self.totals.as_detail() | self.facts
        if self.stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self.stopped}
        return detail

    def advance(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        """Write the totals in the caller's transaction.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        self._context.progress.advance(
            cursor, scanned=self.totals.objects, acted=self.totals.acted, detail=self.detail()
        )

    def commit(self) -> None:
        """Write the totals in a transaction of their own."""
        with self._context.database.transaction(self._context.connection) as cursor:
            self.advance(cursor)

    def commit_position(self, facts: Mapping[str, Any]) -> None:
        """Write where a phase is; before the listing is complete, no number is decided."""
        decided = bool(self.totals.objects)
        with self._context.database.transaction(self._context.connection) as cursor:
            self._context.progress.advance(
                cursor,
                scanned=self.totals.objects if decided else None,
                acted=self.totals.acted if decided else None,
                detail=facts,
            )

    def write_intent(self, cursor: psycopg.Cursor[TupleRow], keys: Sequence[bytes]) -> None:
        """Write the intent to delete, the last statements of its transaction."""
        self.advance(cursor)
        append(cursor, [self._event("objects.delete.intent", **named("keys", keys))])

    def commit_result(self, **facts: Any) -> None:
        """Write what became of an intent in a transaction of its own, whoever owns the record.

        The bytes are gone by now, so the audit log says so even when the run may not write its
        totals any more.
        """
        trying_again(self._write_event, self._event("objects.delete.result", **facts))

    def write_result(self, cursor: psycopg.Cursor[TupleRow], **facts: Any) -> None:
        """Write what became of an intent, with the totals."""
        self.advance(cursor)
        append(cursor, [self._event("objects.delete.result", **facts)])

    def commit_override(self, override: Override, tripped: Sequence[Mapping[str, Any]]) -> None:
        """Write that somebody let this run pass over breakers, and why.

        Raises:
            GivenUp: The run's record stands already.
        """
        with self._context.database.transaction(self._context.connection) as cursor:
            self._context.progress.must_be_open(cursor)
            append(
                cursor,
                [
                    self._event(
                        "storage_orphans.breakers.overridden",
                        reason=override.reason.replace("\x00", ""),
                        tripped=[dict(reading) for reading in tripped],
                    )
                ],
            )

    def _write_event(self, event: dict[str, Any]) -> None:
        with self._context.database.transaction(self._context.connection) as cursor:
            append(cursor, [event])

    def _event(self, kind: str, **facts: Any) -> dict[str, Any]:
        event: dict[str, Any] = {
            "kind": kind,
            "job": JOB,
            "run_id": self._context.identity.run_id,
            "bucket": self._bucket,
            **facts,
        }
        return event | {"batch": self.batch} if self.batch else event


def named(name: str, keys: Iterable[bytes]) -> dict[str, list[str]]:
    r"""Keys for an event; those that JSON text cannot carry stand apart, percent-encoded.

    jsonb refuses `\x00`, and no JSON text holds bytes that are not UTF-8.
    """
    plain: list[str] = []
    escaped: list[str] = []
    for key in keys:
        text = _as_text(key)
        if text is None:
            escaped.append(escape_key(key))
        else:
            plain.append(text)
    found = {name: plain}
    return found | {f"{name}_percent_encoded": escaped} if escaped else found


def reasons(name: str, why: Mapping[bytes, object]) -> dict[str, dict[str, str]]:
    """Keys with their reasons for an event, as `named` does it."""
    plain: dict[str, str] = {}
    escaped: dict[str, str] = {}
    for key, reason in why.items():
        text = _as_text(key)
        if text is None:
            escaped[escape_key(key)] = str(reason)
        else:
            plain[text] = str(reason)
    found = {name: plain}
    return found | {f"{name}_percent_encoded": escaped} if escaped else found


def _as_text(key: bytes) -> str | None:
    if b"\x00" in key:
        return None
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return None
