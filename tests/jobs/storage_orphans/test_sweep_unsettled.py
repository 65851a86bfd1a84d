"""Whoever may still lose an object is not allowed to refer to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.objects import sending
from tests.jobs.storage_orphans.test_sweep_failures import refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.jobs.storage_orphans.conftest import Sweeper

OLD, OTHER, DENIED = "files/old", "files/other", "files/secret"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server is asked as often as ever, and nobody waits in between."""
    monkeypatch.setattr(sending, "MOST_TRIES", 2)


@pytest.fixture
def late(sweep: Sweeper) -> Callable[[], None]:
    """A gateway says 500 for one object, another one is denied, and a third one goes.

    Returns:
        What the server behind the gateway does in the end.
    """
    sweep.seen_before(OLD, OTHER, DENIED)
    answers = {OLD: ("InternalError", 500), DENIED: ("AccessDenied", 403)}
    refuse(sweep, answers.get)

    def arrive() -> None:
        sweep.installation.client.delete_object(Bucket=sweep.installation.bucket, Key=OLD)

    return arrive


def test_an_object_that_may_yet_be_deleted_stays_refused_and_the_next_run_looks(
    sweep: Sweeper, late: Callable[[], None]
) -> None:
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["fates"] == {"deleted": 1, "failed": 2}
    assert sweep.candidates() == {OLD: "deleting", DENIED: "failed"}
    with pytest.raises(psycopg.Error, match="is being deleted"):
        sweep.refer(OLD)
    sweep.refer(DENIED)
    late()
    assert not sweep.installation.has_row(OLD)
    assert sweep().detail["recovered"] == {"gone": 1, "there": 0}
    assert sweep.candidates() == {}


def test_an_object_that_stayed_is_judged_anew_and_comes_last(
    sweep: Sweeper, late: Callable[[], None]
) -> None:
    del late
    assert sweep().ok
    assert sweep().detail["recovered"]["too_recent"] == 1
    sweep.deletions_have_arrived()
    assert sweep("live").detail["recovered"] == {"gone": 0, "there": 1}
    reasons = sweep.installation.execute(
        "SELECT reason FROM orphan_candidate WHERE key = convert_to(%s, 'UTF8')", (OLD,)
    )
    assert "InternalError" in reasons[0][0]


def test_control_who_calls_it_failed_ends_with_a_row_without_its_object(
    sweep: Sweeper, late: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "may_yet_be_done", lambda _error: False)
    assert sweep().ok
    assert sweep.candidates() == {OLD: "failed", DENIED: "failed"}
    sweep.refer(OLD)
    late()
    assert sweep.installation.has_row(OLD)
    assert not sweep.installation.has_object(OLD)
