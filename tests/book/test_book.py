"""What the book says of a run, whatever the job."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import Mock

import pytest

from filejobs_dagster.book.bookkeeping import Bookkeeping, nothing_worked
from filejobs_dagster.book.outcomes import Fate, ItemOutcome, Outcomes
from filejobs_dagster.book.totals import MOST_REFUSED_IN_A_ROW, SAMPLE, Meaning, Totals
from filejobs_dagster.run_context import JobFailed

DUE = datetime(2026, 1, 2, tzinfo=timezone.utc)


def books_of(totals: Totals) -> Bookkeeping:
    nobody: Any = None
    return Bookkeeping(nobody, totals, lambda it: it.as_detail())


@pytest.mark.parametrize("means", Meaning)
def test_a_run_swept_unless_something_due_was_passed_over_or_left(means: Meaning) -> None:
    totals = Totals(live=True, scanned=2)
    totals.note("gone", "a", Meaning.DONE)
    totals.note("another", "b", means)

    detail = books_of(totals).outcome(oldest_left=None).detail

    assert detail["swept"] is (means not in (Meaning.PASSED_OVER, Meaning.LEFT))


@pytest.mark.parametrize(
    ("live", "stopped", "unswept"),
    [(False, None, False), (True, "limit", False), (True, None, True)],
)
def test_a_run_that_was_dry_stopped_or_partial_did_not_sweep(
    *, live: bool, stopped: str | None, unswept: bool
) -> None:
    books = books_of(Totals(live=live))
    books.stopped = stopped
    detail = books.outcome(oldest_left=DUE, unswept=unswept).detail
    assert (detail["swept"], detail["oldest_left"]) == (False, DUE.isoformat())
    assert (detail["truncated"], detail["stopped_reason"]) == (stopped is not None, stopped)


@pytest.mark.parametrize(
    ("live", "went", "own", "found"),
    [
        (True, 0, None, "of 2 candidates none went (2 undecided): see the samples"),
        (True, 1, None, None),
        (True, 1, "the server lists nothing", "the server lists nothing"),
        (False, 0, "the server lists nothing", None),
    ],
)
def test_a_run_of_which_every_candidate_dropped_out_did_not_sweep_and_says_so(
    *, live: bool, went: int, own: str | None, found: str | None
) -> None:
    context = Mock(log=Mock())
    books = Bookkeeping(context, Totals(live=live), lambda it: it.as_detail())
    detail = books.outcome(
        oldest_left=None, went=went, dropped={"undecided": 2, "ghost": 0}, finding=own
    ).detail
    assert detail.get("finding") == found
    assert detail["swept"] is (live and found is None)
    assert context.log.warning.called is (found is not None)


def test_what_a_run_acted_on_is_what_it_is_done_with_and_an_extra_object_is_no_item() -> None:
    totals = Totals(live=True)
    for means in Meaning:
        totals.note(means.value, means.name, means)
    totals.note("derived: gone", "c", Meaning.DONE, extra=True)
    assert (totals.acted, totals.means[Meaning.DONE]) == (1, 2)


def test_every_item_is_counted_and_a_few_are_shown() -> None:
    totals = Totals(live=True)
    for number in range(SAMPLE + 1):
        totals.note("failed", b"\xff%d" % number, Meaning.LEFT, why="denied", size=2)
    assert totals.as_detail() == {
        "classes": {"failed": SAMPLE + 1},
        "bytes_by_class": {"failed": 2 * (SAMPLE + 1)},
        "samples": {"failed": [f"\\\\xff{number}: denied" for number in range(SAMPLE)]},
    }


def test_the_numbers_of_a_transaction_that_rolls_back_are_nobodys() -> None:
    totals = Totals(live=True)
    after = totals.copy()
    after.note("gone", "a", Meaning.DONE, since=DUE)
    assert (totals.acted, totals.classes, totals.samples, totals.oldest_left) == (0, {}, {}, None)
    assert (after.acted, after.oldest_left) == (1, DUE)


def test_refusals_add_up_until_storage_lets_something_go() -> None:
    books = books_of(Totals(live=True))
    refused = Outcomes((ItemOutcome("a", Fate.FAILED, "denied"),))
    for _ in range(MOST_REFUSED_IN_A_ROW - 1):
        books.totals.note_refusals(refused)
        assert books.refused_as_a_whole(refused.failed, 1, "Look.") is None
    books.totals.note_refusals(refused)
    assert "denied" in str(books.refused_as_a_whole(refused.failed, 1, "Look."))
    assert books.stopped == "storage rejected a batch"
    books.totals.note_refusals(Outcomes((ItemOutcome("b", Fate.ALREADY_GONE),)))
    assert books.totals.refused_in_a_row == 0


def test_a_run_in_which_every_item_failed_has_failed() -> None:
    totals = Totals(live=True)
    totals.note("failed", "a", Meaning.LEFT)
    said = nothing_worked(totals, worked=0, failed=1, what="None went", advice="rights")
    assert said == "None went (1 failed). See the samples in the record; check rights."
    assert nothing_worked(totals, worked=1, failed=1, what="None went", advice="rights") is None


def test_a_run_whose_time_was_over_before_it_looked_at_anything_has_failed() -> None:
    books = books_of(Totals(live=True))
    books.require_begun(timedelta(minutes=1), "one row")
    books.stopped = "max_runtime"
    with pytest.raises(JobFailed, match="before it had looked at one row"):
        books.require_begun(timedelta(minutes=1), "one row")
