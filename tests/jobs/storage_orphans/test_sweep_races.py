"""A client refers to an old object while the job is about to delete it.

Each moment between the listing and the deletion has its test, and each guard its CONTROL, in which
a careless job loses the object.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.door.guards import GUARDS, Tables
from filejobs_dagster.objects.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.references.own_tables import Claim
    from tests.jobs.storage_orphans.conftest import Sweeper

AFTER_LISTING = "Reading all references"
AFTER_REFERENCES = "Comparing."
BEFORE_INTENT = "were seen by an earlier run"
OLD = "files/old"
REFER = "INSERT INTO file (state, storage_key) VALUES ('ready', 'files/old')"
TRIGGERS_OFF = "ALTER TABLE file DISABLE TRIGGER ALL"
REFER_ELSEWHERE = "INSERT INTO account (avatar_key) VALUES ('files/old')"


class CarelessGate(Gate):
    """Believes the pass, and asks no source again."""

    def _judged(self, keys: Sequence[str], claims: Sequence[Claim]) -> dict[str, str]:
        del keys, claims
        return {}


@pytest.fixture
def accounts(sweep: Sweeper) -> None:
    """A table of the application's own that names keys; no trigger of ours watches it."""
    sweep.installation.execute("CREATE TABLE account (avatar_key text)")
    sweep.installation.execute("INSERT INTO account VALUES ('files/used')")
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select avatar_key from account"}
    ]


@contextmanager
def client_of(sweep: Sweeper) -> Iterator[psycopg.Connection]:
    with psycopg.connect(sweep.installation.database_url) as connection:
        yield connection


@pytest.mark.parametrize("moment", [AFTER_LISTING, AFTER_REFERENCES, BEFORE_INTENT])
def test_a_reference_committed_at_any_moment_before_the_intent_keeps_its_object(
    sweep: Sweeper, moment: str
) -> None:
    sweep.seen_before(OLD)
    sweep.when[moment] = lambda: sweep.installation.execute(REFER)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert not sweep.when
    assert outcome.acted == 0
    assert sweep.installation.has_object(OLD)
    assert sweep.candidates() == {}


def test_control_without_the_check_before_the_deletion_the_object_is_lost(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    sweep.gate = CarelessGate
    sweep.when[BEFORE_INTENT] = lambda: sweep.installation.execute(REFER)
    assert sweep().acted == 1
    assert not sweep.installation.has_object(OLD)
    assert sweep.installation.has_row(OLD), "a row without its object"


def test_a_transaction_that_refers_to_the_key_at_this_moment_wins(sweep: Sweeper) -> None:
    sweep.seen_before(OLD, "files/another")
    with client_of(sweep) as client:
        sweep.when[BEFORE_INTENT] = lambda: client.execute(REFER)
        outcome = sweep(wait_for_transactions=timedelta(seconds=0.3))
        client.commit()
    assert outcome.detail["fates"].get("being referenced") == 1
    assert sweep.installation.has_object(OLD)
    assert outcome.ok, outcome.error


def test_a_reference_that_commits_while_the_job_waits_is_seen(
    sweep: Sweeper, accounts: None
) -> None:
    del accounts
    sweep.seen_before(OLD)
    with client_of(sweep) as client:

        def begin() -> None:
            client.execute(REFER_ELSEWHERE)
            threading.Timer(0.5, client.commit).start()

        sweep.when[BEFORE_INTENT] = begin
        outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 0
    assert outcome.detail["fates"] == {"kept: referenced by avatars": 1}
    assert sweep.installation.has_object(OLD)


def test_control_who_does_not_wait_for_older_transactions_loses_the_object(
    sweep: Sweeper, accounts: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    del accounts
    sweep.seen_before(OLD)
    monkeypatch.setattr("filejobs_dagster.postgres.fence.Fence.wait", lambda *_args, **_more: True)
    with client_of(sweep) as client:
        sweep.when[BEFORE_INTENT] = lambda: client.execute(REFER_ELSEWHERE)
        assert sweep().acted == 1
        client.commit()
    assert not sweep.installation.has_object(OLD)


def test_a_transaction_that_does_not_end_defers_the_batch_and_says_who_it_is(
    sweep: Sweeper, accounts: None
) -> None:
    del accounts
    sweep.seen_before(OLD)
    with client_of(sweep) as client:
        client.execute("SET application_name = 'a long report'")
        sweep.when[BEFORE_INTENT] = lambda: client.execute(REFER_ELSEWHERE)
        outcome = sweep(wait_for_transactions=timedelta(seconds=0.3))
    assert outcome.ok, outcome.error
    assert outcome.acted == 0
    assert outcome.detail["stopped_reason"] == "older transactions"
    assert outcome.detail["truncated"] is True
    assert outcome.detail["deferred"] == 1
    assert "a long report" in str(outcome.detail["waited_for"])
    assert any("after 0.3s, transactions from before its intent" in line for line in sweep.log)
    assert sweep.candidates() == {OLD: "seen"}, "the key may be referred to again"
    [result] = sweep.events("objects.delete.result")
    assert result["why"] == "older transactions"


def refer_after_the_intent(sweep: Sweeper) -> list[psycopg.Error]:
    """A client refers to the old object between a run's intent and its deletion; or is refused."""
    refused: list[psycopg.Error] = []

    def late(**_: object) -> None:
        if sweep.candidates().get(OLD) != "deleting":
            return  # the probe deletes objects of its own
        try:
            sweep.installation.execute(REFER)
        except psycopg.Error as error:
            refused.append(error)

    sweep.client.meta.events.register_first("before-call.s3.DeleteObject", late)
    sweep.client.meta.events.register_first("before-call.s3.DeleteObjects", late)
    return refused


def test_after_the_intent_the_projects_table_refuses_the_key_with_a_hint(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    refused = refer_after_the_intent(sweep)
    outcome = sweep()
    assert outcome.acted == 1
    assert refused
    assert "new key" in str(refused[0].diag.message_hint)
    assert not sweep.installation.has_row(OLD)


def test_a_trigger_that_is_switched_off_while_a_run_works_stops_it(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    sweep.when[BEFORE_INTENT] = lambda: sweep.installation.execute(TRIGGERS_OFF)
    refer_after_the_intent(sweep)
    outcome = sweep()
    assert "the trigger file_refuses_key_in_deletion of file is off" in str(outcome.error)
    assert sweep.installation.has_object(OLD)


def test_control_without_the_guard_the_object_of_a_late_reference_is_lost(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    sweep.guards = [guard for guard in GUARDS if not isinstance(guard, Tables)]
    sweep.installation.execute(TRIGGERS_OFF)
    assert not refer_after_the_intent(sweep)
    assert sweep().acted == 1
    assert sweep.installation.has_row(OLD)
    assert not sweep.installation.has_object(OLD), "a row without its object"


def test_a_derived_object_stays_when_its_owner_becomes_referenced_meanwhile(
    sweep: Sweeper,
) -> None:
    sweep.installation.document["buckets"]["uploads"]["rewrites"] = [
        {"name": "thumb", "match": r"files/small/(?P<id>[^/]+)", "owner": "files/{id}"}
    ]
    sweep.seen_before("files/small/old")
    sweep.when[BEFORE_INTENT] = lambda: sweep.installation.execute(REFER)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 0
    assert sweep.installation.has_object("files/small/old")


def test_an_object_that_is_written_anew_after_the_intent_is_kept(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    sweep.when[BEFORE_INTENT] = lambda: sweep.put(OLD, body=b"a new upload under the old key")
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["fates"] == {"changed meanwhile": 1}
    assert sweep.installation.has_object(OLD)


def test_two_live_runs_do_not_work_side_by_side(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    second: list[object] = []
    sweep.when[BEFORE_INTENT] = lambda: second.append(sweep().error)
    assert sweep().acted == 1
    assert "is at work already" in str(second[0])


def test_a_dry_run_beside_a_live_one_leaves_the_marks_to_it(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    dry: list[object] = []
    sweep.when[BEFORE_INTENT] = lambda: dry.append(sweep("dry").detail["marks"])
    assert sweep().acted == 1
    assert dry == ["left to the live run at work"]


def test_a_run_that_was_given_up_deletes_nothing_more(sweep: Sweeper) -> None:
    sweep.seen_before(OLD)
    sweep.when[BEFORE_INTENT] = lambda: sweep.installation.execute(
        "UPDATE job_progress SET closed_at = now() WHERE closed_at IS NULL AND outcome IS NULL"
    )
    with pytest.raises(Exception, match="given up for dead"):
        sweep()
    assert sweep.installation.has_object(OLD)
