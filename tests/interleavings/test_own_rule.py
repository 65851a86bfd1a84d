"""A rule of the operator's at each of its steps, while a client does each thing that it can do."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.book import bookkeeping
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.own.rows import Rows, take_rows
from filejobs_dagster.jobs.own.settings import OwnRuleRequest
from filejobs_dagster.jobs.upload_reservations import operator_table
from filejobs_dagster.jobs.upload_reservations.operator_statements import claim_query
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings.tables import RowRuleSettings
from tests.interleavings.stepping import LOG
from tests.interleavings.turnstile import Turnstile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.thorough

MOMENT = timedelta(milliseconds=60)
DRAFTS = """
CREATE TABLE draft (id bigint PRIMARY KEY, state text NOT NULL DEFAULT 'open',
                    abandoned_at timestamptz);
CREATE TABLE page (draft_id bigint NOT NULL REFERENCES draft);
"""
FILL = """
DELETE FROM page; DELETE FROM draft;
INSERT INTO draft SELECT n, 'open', now() - interval '1 day' FROM generate_series(1, 5) AS n
"""
# Each is answered, and committed, before the run goes on; or refused since the row is held.
ACTIONS = {
    "completes": "UPDATE draft SET state = 'kept' WHERE id = 2 RETURNING id",
    "gives more time": "UPDATE draft SET abandoned_at = now() + interval '1 day' WHERE id = 2"
    " RETURNING id",
    "names it": "INSERT INTO page SELECT id FROM draft WHERE id = 2 FOR KEY SHARE RETURNING 1",
    "removes it": "DELETE FROM draft WHERE id = 2 RETURNING id",
}
POINTS = ("has read", "before the claim", "before the commit", "after the commit")


class Stepped:
    """One live run in a thread of its own, which stops at each of its steps."""

    def __init__(self, url: str, number: int) -> None:
        self.turnstile = Turnstile()
        self.outcome: Any = None
        self.run_id = f"run-{number}"
        self._database = Database(url, lock_timeout=MOMENT)
        self._thread = threading.Thread(target=self._work, daemon=True)

    def _work(self) -> None:
        self.turnstile.belongs_to_me()
        rule = RowRuleSettings(table="draft", due="abandoned_at", where="state = 'open'")
        request = OwnRuleRequest.model_construct(
            rule=rule, limit=100, batch_size=2, older_than=timedelta(0),
            max_runtime=timedelta(minutes=5),
        )  # fmt: skip
        identity = RunIdentity(self.run_id, "test", "own_drafts", "live", Trigger("cli"), "test")
        still = Intervals(heartbeat=timedelta(hours=1), final_word=timedelta(0))
        try:
            self.outcome = run_job(
                RunSpec(identity, pace=still), self._database,
                lambda context: take_rows(context, request), LOG, door=None,
            )  # fmt: skip
        finally:
            self.turnstile.end()

    def to(self, point: str) -> None:
        """Begin, and go on to the first time that it stands there."""
        self._thread.start()
        assert self.turnstile.wait()
        while self.turnstile.point != point:
            assert not self.turnstile.ended
            self.turnstile.release()
            assert self.turnstile.wait()

    def finish(self) -> None:
        self.turnstile.open()
        self._thread.join(60)
        assert self.turnstile.ended


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Stepped], None]:
    """Says which run stops."""
    stopping: list[Stepped] = []

    def seam(owner: Any, name: str, point: str, *, after: bool = False) -> None:
        was = getattr(owner, name)

        def stops(*given: Any, **named: Any) -> Any:
            if after:
                found = was(*given, **named)
                stopping[-1].turnstile.arrive(point)
                return found
            stopping[-1].turnstile.arrive(point)
            return was(*given, **named)

        monkeypatch.setattr(owner, name, stops)

    seam(OperatorTable, "read", "has read", after=True)
    seam(Rows, "_claim", "before the claim")
    seam(bookkeeping, "append", "before the commit")
    seam(Rows, "_take_bytes", "after the commit")
    return stopping.append


def schedules(url: str, stop: Callable[[Stepped], None]) -> Iterator[str]:
    """Every action at every step; what was lost, a line each."""
    with psycopg.connect(url, autocommit=True) as client:
        client.execute(DRAFTS)
        client.execute("SELECT set_config('lock_timeout', '60ms', false)")
        for number, (point, action) in enumerate((p, a) for p in POINTS for a in ACTIONS):
            client.execute(FILL)
            run = Stepped(url, number)
            stop(run)
            run.to(point)
            try:
                answered = bool(client.execute(ACTIONS[action].encode()).fetchall())
            except psycopg.errors.LockNotAvailable:
                answered = False
            run.finish()
            left = {row[0] for row in client.execute("SELECT id FROM draft")}
            gone = 5 - len(left) - (answered and action == "removes it")
            told = client.execute(
                "SELECT coalesce(sum((body::jsonb ->> 'rows')::int), 0) FROM audit_event"
                " WHERE body::jsonb ->> 'run_id' = %s", (run.run_id,)
            ).fetchone()  # fmt: skip
            kept = answered and action != "removes it"
            if kept is not (2 in left):
                yield f"{point}: a client {action}, answered {answered}, and left are {left}"
            if run.outcome is None or run.outcome.acted != gone or told != (gone,):
                yield f"{point}, {action}: {gone} gone, {told} told, {run.outcome}"


def test_whatever_a_client_does_at_any_step_its_answer_holds_and_the_book_is_right(
    database_url: str, stop: Callable[[Stepped], None]
) -> None:
    assert list(schedules(database_url, stop)) == []


def test_control_a_claim_that_repeats_no_condition_is_caught(
    database_url: str, stop: Callable[[Stepped], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = claim_query

    def careless(claim: str) -> str:
        returning = claim.rpartition("RETURNING")[2]
        return written(
            "DELETE FROM draft AS own WHERE id = ANY($1::bigint[])"
            f" AND $2::timestamptz IS NOT NULL RETURNING {returning}"
        )

    monkeypatch.setattr(operator_table, "claim_query", careless)

    lost = list(schedules(database_url, stop))

    for action in ("completes", "gives more time"):
        assert f"has read: a client {action}, answered True, and left are set()" in lost
