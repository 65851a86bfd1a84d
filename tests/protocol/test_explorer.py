"""The explorer itself, on protocols small enough to count by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.protocol.explorer import (
    Step,
    explore,
    those_that_cannot_reach,
    traces_with_every_action,
    where_it_ends,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def counting(state: int) -> Iterator[Step[int]]:
    """Up to 5 by one or by two; 4 is a dead end."""
    if state not in (4, 5):
        yield Step("adds one", "somebody", state + 1)
        if state < 4:
            yield Step("adds two", "somebody", state + 2)


def test_every_state_and_every_step_is_counted_once() -> None:
    found = explore([0], counting, promises={})

    assert set(found.found_by) == {0, 1, 2, 3, 4, 5}
    assert found.states == 6
    assert found.transitions == 8
    assert found.actions == {"adds one": 4, "adds two": 4}
    assert found.counterexample is None


def test_the_first_counterexample_is_a_shortest_one_and_speaks_in_words() -> None:
    found = explore([0], counting, promises={"never four": lambda state: state != 4})

    assert found.counterexample is not None
    assert str(found.counterexample) == (
        "Broken: never four\n  1. somebody adds two\n  2. somebody adds two"
    )


def test_a_beginning_can_break_a_promise_already() -> None:
    found = explore([4], counting, promises={"never four": lambda state: state != 4})

    assert found.counterexample is not None
    assert found.counterexample.words == []


def test_a_rule_judges_a_step_also_one_that_leads_to_a_known_state() -> None:
    found = explore(
        [0],
        counting,
        promises={},
        rules={"two is reached by two": lambda before, step: (before, step.after) != (1, 2)},
    )

    assert found.counterexample is not None
    assert found.counterexample.words == ["somebody adds one", "somebody adds one"]


def test_states_that_are_the_same_are_visited_once() -> None:
    found = explore([0], counting, promises={}, same=lambda state: state % 2)

    assert found.states == 2


def test_dead_ends_are_named() -> None:
    found = explore([0], counting, promises={})

    assert those_that_cannot_reach(found, counting, lambda state: state == 5) == {4}
    assert those_that_cannot_reach(found, counting, lambda state: state >= 4) == set()


def test_an_undisturbed_continuation_is_followed_to_its_end() -> None:
    ends = where_it_ends([0, 3], lambda state: next(counting(state), None))

    assert ends == {0: 4, 1: 4, 2: 4, 3: 4, 4: 4}


def test_a_continuation_that_goes_in_circles_is_an_error() -> None:
    with pytest.raises(AssertionError, match="circles"):
        where_it_ends([0], lambda state: Step("turns", "somebody", 1 - state))


def test_a_model_without_end_is_an_error() -> None:
    with pytest.raises(AssertionError, match="more than 50 states"):
        explore([0], lambda state: [Step("adds one", "somebody", state + 1)], promises={}, most=50)


def test_a_few_traces_take_every_action() -> None:
    found = explore([0], counting, promises={})

    traces = traces_with_every_action(found, counting)

    assert {step.action for trace in traces for step in trace} == {"adds one", "adds two"}
