"""Every state that claim, commit, bytes, crash and complete can reach, with nothing left out."""

from __future__ import annotations

import os
import re

import pytest

from tests.protocol.explorer import (
    Counterexample,
    Exploration,
    explore,
    those_that_cannot_reach,
    where_it_ends,
)
from tests.protocol.promises import ACTS_ALONE, PROMISES, RULES, is_clean, renumbered
from tests.protocol.reservations import COMMITTED, Reservations, State, Variant, beginning


@pytest.fixture(scope="module")
def two_by_two() -> Exploration[State]:
    """Two reservations with a client each, two collectors; numbering does not count."""
    return explore(
        [beginning(2, 2)], Reservations().steps, promises=PROMISES, rules=RULES, same=renumbered
    )


def test_no_reachable_state_breaks_a_promise(two_by_two: Exploration[State]) -> None:
    assert two_by_two.counterexample is None, str(two_by_two.counterexample)
    assert two_by_two.states == 48_630
    assert two_by_two.transitions == 438_535


def test_an_undisturbed_run_ends_with_nothing_due_from_every_state(
    two_by_two: Exploration[State],
) -> None:
    ends = where_it_ends(two_by_two.found_by, Reservations().undisturbed)

    assert set(two_by_two.found_by) <= set(ends)
    assert [end for end in set(ends.values()) if not is_clean(end)] == []


def test_every_crash_is_explored(two_by_two: Exploration[State]) -> None:
    killed = [
        (before.collectors, step)
        for before, step in filter(None, two_by_two.found_by.values())
        if step.action == "is killed"
    ]
    phases = {collectors[step.which[0]].phase for collectors, step in killed}

    assert two_by_two.actions["is killed"] > 50_000
    assert phases >= {COMMITTED, "has asked storage"}


def test_without_renumbering_the_same_holds_for_two_collectors_and_one_reservation() -> None:
    model = Reservations()
    found = explore([beginning(1, 2)], model.steps, promises=PROMISES, rules=RULES)

    assert found.counterexample is None
    assert (found.states, found.transitions) == (1_043, 6_544)
    assert those_that_cannot_reach(found, model.steps, is_clean) == set()


@pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "thorough", reason="half a minute; thorough only"
)
def test_renumbering_hides_nothing() -> None:
    model = Reservations()
    found = explore([beginning(2, 2)], model.steps, promises=PROMISES, rules=RULES)

    assert found.counterexample is None
    assert {renumbered(state) for state in found.found_by} == set(
        explore([beginning(2, 2)], model.steps, promises=PROMISES, same=renumbered).found_by
    )


def broken_by(variant: Variant, promise: str, *, collectors: int = 1) -> list[str]:
    """The words of the shortest trace to that broken promise."""
    judged = {name: holds for name, holds in PROMISES.items() if name == promise}
    ruled = {name: holds for name, holds in RULES.items() if name == promise}
    assert judged or ruled
    found = explore(
        [beginning(1, collectors)], Reservations(variant).steps, promises=judged, rules=ruled
    )
    assert found.counterexample is not None, f"{variant} keeps {promise!r}"
    return found.counterexample.words


def test_a_claim_by_identity_alone_takes_a_file_that_was_completed_meanwhile() -> None:
    trace = broken_by(Variant(claim_repeats_predicates=False), "a completed upload is never lost")

    assert trace == [
        "the clock passes the expiry",
        "client 1 sends its PUT",
        "client 1 has its PUT land",
        "client 1 completes in an open transaction",
        "collector 1 takes the lock and reads candidates",
        "client 1 commits its completion",
        "collector 1 writes its claim",
        "collector 1 commits its claim",
    ]


def test_bytes_before_the_commit_leave_a_row_that_names_nothing() -> None:
    trace = broken_by(Variant(bytes_after_commit=False), "no row names bytes that were taken away")

    assert trace[-3:] == [
        "collector 1 writes its claim",
        "collector 1 asks storage",
        "storage, for key 1, carries the deletion out",
    ]


def test_bytes_before_the_commit_and_a_kill_leave_a_ready_file_without_bytes() -> None:
    trace = broken_by(Variant(bytes_after_commit=False), "a ready file has its bytes")

    assert "client 1 commits its completion" in trace[-2:]
    assert "storage, for key 1, carries the deletion out" in trace
    assert "collector 1 commits its claim" not in trace


def test_an_audit_event_of_a_later_transaction_is_missing_when_the_run_is_killed() -> None:
    def is_audited_in_the_end(state: State) -> bool:
        about_to = any(run.phase == COMMITTED for run in state.collectors)
        return about_to or PROMISES["every row that a run has taken has its audit event"](state)

    found = explore(
        [beginning(1, 1)],
        Reservations(Variant(audit_with_claim=False)).steps,
        promises={"every row that a run has taken has its audit event": is_audited_in_the_end},
    )

    assert found.counterexample is not None
    assert found.counterexample.words == [
        "the clock passes the expiry",
        "collector 1 takes the lock and reads candidates",
        "collector 1 writes its claim",
        "collector 1 commits its claim",
        "collector 1 is killed",
    ]


def test_without_the_exclusive_lock_two_live_runs_are_at_work() -> None:
    trace = broken_by(Variant(exclusive=False), "one live run holds the lock", collectors=2)

    assert trace == [
        "the clock passes the expiry",
        "collector 1 takes the lock and reads candidates",
        "collector 2 takes the lock and reads candidates",
    ]


def test_a_run_that_does_not_look_whether_it_was_given_up_still_deletes() -> None:
    trace = broken_by(Variant(stops_when_given_up=False), ACTS_ALONE)

    assert trace == [
        "the clock passes the expiry",
        "collector 1 takes the lock and reads candidates",
        "collector 1 loses its locks with its connection",
        "collector 1 is given up for dead by the mirror",
        "collector 1 writes its claim",
    ]


def test_an_answer_that_is_believed_unread_counts_bytes_that_are_still_there() -> None:
    promise = "what counts as collected is not in storage, unless it arrived late"
    trace = broken_by(Variant(reads_errors=False), promise)

    assert trace[-3:] == [
        "collector 1 asks storage",
        "storage, for key 1, answers with an error",
        "collector 1 reads the answer",
    ]


def test_a_key_that_is_used_again_meets_the_deletion_of_its_predecessor() -> None:
    trace = broken_by(Variant(keys_are_new=False), "no row names bytes that were taken away")

    assert trace[-3:] == [
        "collector 1 asks storage",
        "client 1 reserves the same key again",
        "storage, for key 1, carries the deletion out",
    ]


def test_a_late_upload_leaves_an_orphan_and_loses_nothing() -> None:
    """The shortest way to an object that arrived after its row and its deletion."""
    found = explore(
        [beginning(1, 1)],
        Reservations().steps,
        promises={
            "no orphan": lambda state: (
                not (is_clean(state) and state.reservations[0][:2] == ("gone", "late"))
            )
        },
    )

    assert isinstance(found.counterexample, Counterexample)
    end = found.counterexample.steps[-1].after.reservations[0]
    assert re.search("PUT land", found.counterexample.words[-1])
    assert (end.fate, end.audited) in (("claimed", True), ("by the application", False))
