"""Every order of an orphan sweep and of clients that name the old object meanwhile."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import pytest

from tests.protocol.explorer import explore, those_that_cannot_reach, where_it_ends
from tests.protocol.sweep import (
    PROMISES,
    Isolation,
    State,
    Sweep,
    Trigger,
    Variant,
    Wait,
    When,
    beginning,
    is_settled,
)

NAMES_NOTHING = "no reference names an object that was deleted"
MOVES = "no object is deleted while its reference moves from one row to another"

EVERY_VARIANT = list(itertools.product(get_args(Isolation), get_args(Trigger), get_args(When)))


def broken_by(start: State, **careless: Any) -> tuple[str, list[str]] | None:
    """The promise that the variant breaks, and the shortest way there in words."""
    found = explore([start], Sweep(Variant(**careless)).steps, promises=PROMISES)
    trace = found.counterexample
    return None if trace is None else (trace.promise, trace.words)


def test_no_reachable_state_of_the_sweep_loses_an_object() -> None:
    model = Sweep()
    found = explore([beginning(referring=2, moving=1)], model.steps, promises=PROMISES)

    assert found.counterexample is None, str(found.counterexample)
    assert (found.states, found.transitions) == (2_272, 6_980)
    assert those_that_cannot_reach(found, model.steps, is_settled) == set()
    ends = where_it_ends(found.found_by, model.undisturbed)
    assert [end for end in set(ends.values()) if not is_settled(end)] == []


@pytest.mark.parametrize(("isolation", "trigger", "when"), EVERY_VARIANT)
def test_which_wait_is_enough_for_which_trigger(
    isolation: Isolation, trigger: Trigger, when: When
) -> None:
    safe = {
        wait
        for wait in get_args(Wait)
        if broken_by(
            beginning(referring=2),
            isolation=isolation,
            trigger=trigger,
            when=when,
            wait=wait,
        )
        is None
    }

    expected = {"open transactions", "numbers and snapshots"} if trigger != "none" else set()
    if isolation == "read committed" and when == "after the row" and trigger != "none":
        expected.add("numbers at the commit")
        if trigger == "locks":
            expected.add("numbers below its own")
    assert safe == expected


def test_without_the_wait_a_transaction_from_before_the_mark_loses_its_object() -> None:
    assert broken_by(beginning(moving=0), wait="none") == (
        NAMES_NOTHING,
        [
            "client 1 begins a transaction",
            "client 1 inserts its reference",
            "client 1 is admitted by the trigger",
            "the sweeper sees no reference and marks the object",
            "the clock passes confirm_after",
            "the sweeper sees no reference, and that is enough",
            "the sweeper writes its intent",
            "the sweeper commits its intent",
            "the sweeper has waited for whom it had to",
            "the sweeper checks again and finds no reference",
            "the sweeper deletes the object",
            "client 1 commits its reference",
        ],
    )


def test_without_the_second_check_a_reference_from_before_the_intent_is_overlooked() -> None:
    found = broken_by(beginning(moving=0), recheck=False)

    assert found is not None
    promise, trace = found
    assert promise == NAMES_NOTHING
    assert trace.index("client 1 commits its reference") < trace.index(
        "the sweeper writes its intent"
    )
    assert trace[-2:] == ["the sweeper does not check again", "the sweeper deletes the object"]


def test_without_an_intent_nothing_refuses_a_reference_after_the_second_check() -> None:
    found = broken_by(beginning(moving=0), intent=False)

    assert found is not None
    promise, trace = found
    assert promise == NAMES_NOTHING
    assert trace.index("the sweeper checks again and finds no reference") < trace.index(
        "client 1 is admitted by the trigger"
    )


def test_without_a_trigger_a_reference_comes_after_the_object_has_gone() -> None:
    found = broken_by(beginning(moving=0), trigger="none")

    assert found is not None
    promise, trace = found
    assert promise == NAMES_NOTHING
    assert trace[-2:] == ["client 1 meets no trigger", "client 1 commits its reference"]


def test_without_a_second_sighting_a_reference_that_moves_loses_its_object() -> None:
    assert broken_by(beginning(referring=0), second_sighting=False) == (
        MOVES,
        [
            "mover 1 removes its reference, to name the object elsewhere",
            "the sweeper sees no reference, and that is enough",
            "the sweeper writes its intent",
            "the sweeper commits its intent",
            "the sweeper has waited for whom it had to",
            "the sweeper checks again and finds no reference",
            "the sweeper deletes the object",
        ],
    )


def test_a_limit_a_reference_that_moves_twice_can_be_missed_by_both_sightings() -> None:
    found = broken_by(beginning(referring=0, moves=2))

    assert found is not None
    promise, trace = found
    assert promise == MOVES
    assert trace.count("mover 1 removes its reference, to name the object elsewhere") == 2


def test_numbers_alone_overlook_a_snapshot_that_has_none() -> None:
    found = broken_by(
        beginning(moving=0), isolation="repeatable read", wait="numbers at the commit"
    )

    assert found is not None
    promise, trace = found
    assert promise == NAMES_NOTHING
    assert trace[0] == "client 1 begins a transaction"
    assert trace.index("the sweeper deletes the object") < trace.index(
        "client 1 inserts its reference"
    )


def test_a_trigger_that_looks_before_the_row_is_not_seen_by_its_number() -> None:
    found = broken_by(
        beginning(moving=0), trigger="reads", when="before the row", wait="numbers at the commit"
    )

    assert found is not None
    _, trace = found
    assert trace.index("client 1 is admitted by the trigger") < trace.index(
        "the sweeper commits its intent"
    )
    assert trace[-2:] == ["client 1 inserts its reference", "client 1 commits its reference"]


def test_a_number_above_the_intents_own_can_be_older_than_its_commit() -> None:
    found = broken_by(beginning(moving=0), trigger="reads", wait="numbers below its own")

    assert found is not None
    _, trace = found
    assert (
        trace.index("the sweeper writes its intent")
        < trace.index("client 1 is admitted by the trigger")
        < trace.index("the sweeper commits its intent")
    )
