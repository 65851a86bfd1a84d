"""What the protocol of upload_reservations promises, in every state and of every step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.protocol.reservations import ANSWERED, Collector, State, bits
from tests.protocol.rows import (
    CLAIMED,
    COMPLETED,
    DELETED,
    DUE,
    GONE,
    READY,
    REMOVED,
    THERE,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.protocol.explorer import Promise, Rule, Step


def _collected_is_gone(state: State) -> bool:
    return all(
        state.reservations[number].upload != THERE
        for run in state.collectors
        if run.phase == ANSWERED
        for number in bits(run.keys & ~run.left)
        if state.reservations[number].row == GONE
    )


PROMISES: Mapping[str, Promise[State]] = {
    "a ready file has its bytes": lambda state: all(
        it.upload == THERE for it in state.reservations if it.row == READY
    ),
    "no row names bytes that were taken away": lambda state: all(
        it.row == GONE for it in state.reservations if it.upload == REMOVED
    ),
    "a completed upload is never lost": lambda state: all(
        it.row in (READY, DELETED) for it in state.reservations if it.fate == COMPLETED
    ),
    "every row that a run has taken has its audit event": lambda state: all(
        it.audited for it in state.reservations if it.row == GONE and it.fate == CLAIMED
    ),
    "one live run holds the lock": lambda state: sum(c.has_lock for c in state.collectors) <= 1,
    "what counts as collected is not in storage, unless it arrived late": _collected_is_gone,
}


def _acts_with_the_lock(_before: State, step: Step[State]) -> bool:
    if step.action not in ("writes its claim", "asks storage"):
        return True
    run = step.after.collectors[step.which[0]]
    return run.has_lock and not run.given_up


ACTS_ALONE = "only a run that holds the lock, and that nobody gave up, claims or deletes"

RULES: Mapping[str, Rule[State]] = {ACTS_ALONE: _acts_with_the_lock}


def is_clean(state: State) -> bool:
    """Nothing due, nobody at work, nothing open, no lock held."""
    return all(
        it.row != DUE and not it.open and not it.deleting for it in state.reservations
    ) and all(run == Collector() for run in state.collectors)


def renumbered(state: State) -> State:
    """The state that stands for all that differ in the numbers of rows and collectors only."""
    collectors = tuple(sorted(state.collectors))
    first, *others = state.reservations
    if not others:
        return State(state.reservations, collectors)
    assert len(others) == 1, "written for at most two reservations"
    other = State(
        (others[0], first),
        tuple(
            sorted(
                run._replace(keys=_SWAPPED[run.keys], left=_SWAPPED[run.left]) for run in collectors
            )
        ),
    )
    return min(State(state.reservations, collectors), other)


_SWAPPED = (0, 2, 1, 3)
