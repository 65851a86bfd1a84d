"""Visits every reachable state of a protocol, and tells the shortest way to a broken promise.

A protocol is plain Python: hashable states, and for each state the steps that somebody may take
next. Breadth first, so the first trace that breaks a promise is one of the shortest.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

State = TypeVar("State", bound=Hashable)


@dataclass(frozen=True)
class Step(Generic[State]):
    """One thing that somebody does.

    Attributes:
        action: What is done, the same word whoever does it.
        who: Who does it, in words.
        after: The state that it leads to.
        which: Further facts for whoever replays the step: numbers of items and of actors.
    """

    action: str
    who: str
    after: State
    which: tuple[int, ...] = ()

    def __str__(self) -> str:
        """The step in words."""
        return f"{self.who} {self.action}"


Steps = Callable[[State], Iterable[Step[State]]]
Promise = Callable[[State], bool]
Rule = Callable[[State, Step[State]], bool]


@dataclass(frozen=True)
class Counterexample(Generic[State]):
    """A shortest way from the beginning to a broken promise."""

    promise: str
    steps: tuple[Step[State], ...]

    @property
    def words(self) -> list[str]:
        """Every step in words."""
        return [str(step) for step in self.steps]

    def __str__(self) -> str:
        """The trace, one numbered line a step."""
        lines = [f"{number:>3}. {words}" for number, words in enumerate(self.words, 1)]
        return "\n".join([f"Broken: {self.promise}", *lines])


@dataclass
class Exploration(Generic[State]):
    """What was found.

    Attributes:
        found_by: Every reached state, with the state and the step that first led to it.
        transitions: How many steps there are, counted from each state once.
        actions: How often each action can be taken.
        counterexample: The shortest one, or None when every promise holds in every state.
    """

    found_by: dict[State, tuple[State, Step[State]] | None] = field(default_factory=dict)
    transitions: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    counterexample: Counterexample[State] | None = None

    @property
    def states(self) -> int:
        """How many states are reachable."""
        return len(self.found_by)

    def trace(self, state: State) -> tuple[Step[State], ...]:
        """The steps by which the state was first reached."""
        steps: list[Step[State]] = []
        while (found := self.found_by[state]) is not None:
            state, step = found
            steps.append(step)
        return tuple(reversed(steps))


def explore(
    beginnings: Iterable[State],
    steps: Steps[State],
    *,
    promises: Mapping[str, Promise[State]],
    rules: Mapping[str, Rule[State]] | None = None,
    same: Callable[[State], State] = lambda state: state,
    most: int = 2_000_000,
) -> Exploration[State]:
    """Visit every state, or stop at the first broken promise.

    Args:
        beginnings: Where it starts.
        steps: Who may do what in a state.
        promises: What must hold in every state, by its wording.
        rules: What must hold of every step, by its wording; each gets the state before it.
        same: The one state that stands for all that differ in numbering only. Traces then change
            the numbers on their way.
        most: Give up beyond that many states.

    Raises:
        AssertionError: There are more than `most` states: the model is not finite.
    """
    found: Exploration[State] = Exploration()
    waiting: deque[State] = deque()
    for beginning in beginnings:
        found.found_by[beginning] = None
        waiting.append(beginning)
        broken = _broken(promises, beginning)
        if broken is not None:
            found.counterexample = Counterexample(broken, ())
            return found
    while waiting:
        before = waiting.popleft()
        for step in steps(before):
            found.transitions += 1
            found.actions[step.action] += 1
            ruled = [name for name, holds in (rules or {}).items() if not holds(before, step)]
            after = same(step.after)
            is_new = after not in found.found_by
            broken = ruled[0] if ruled else _broken(promises, after) if is_new else None
            if broken is not None:
                way = (*found.trace(before), step)
                found.counterexample = Counterexample(broken, way)
                return found
            if is_new:
                found.found_by[after] = (before, step)
                waiting.append(after)
                assert len(found.found_by) <= most, f"more than {most:,} states"
    return found


def _broken(promises: Mapping[str, Promise[State]], state: State) -> str | None:
    return next((name for name, holds in promises.items() if not holds(state)), None)


def those_that_cannot_reach(
    found: Exploration[State],
    steps: Steps[State],
    goal: Promise[State],
    same: Callable[[State], State] = lambda state: state,
) -> set[State]:
    """The reached states from which no sequence of steps leads to the goal."""
    came_from: dict[State, list[State]] = {}
    for state in found.found_by:
        for step in steps(state):
            came_from.setdefault(same(step.after), []).append(state)
    can = {state for state in found.found_by if goal(state)}
    waiting = deque(can)
    while waiting:
        for before in came_from.get(waiting.popleft(), ()):
            if before not in can:
                can.add(before)
                waiting.append(before)
    return set(found.found_by) - can


def where_it_ends(
    states: Iterable[State], undisturbed: Callable[[State], Step[State] | None]
) -> dict[State, State]:
    """Follow the one undisturbed continuation of each state to its end.

    Args:
        states: Where to begin.
        undisturbed: The next step when nothing goes wrong, or None at the end.

    Raises:
        AssertionError: A continuation goes in circles.
    """
    ends: dict[State, State] = {}
    for beginning in states:
        path: dict[State, None] = {}
        state = beginning
        while state not in ends:
            assert state not in path, f"an undisturbed run goes in circles at {state}"
            path[state] = None
            step = undisturbed(state)
            if step is None:
                ends[state] = state
                break
            state = step.after
        for passed in path:
            ends[passed] = ends[state]
    return ends


def traces_with_every_action(
    found: Exploration[State], steps: Steps[State], *, longest: int = 60
) -> list[tuple[Step[State], ...]]:
    """A few traces that take every action at least once, each as long as it pays.

    Goes to the nearest state in which a missing action can be taken, takes it, and goes on from
    there; begins anew when nothing that is missing can be reached.
    """
    missing = set(found.actions)
    beginnings: Sequence[State] = [state for state, by in found.found_by.items() if by is None]
    traces: list[tuple[Step[State], ...]] = []
    while missing:
        trace: list[Step[State]] = []
        state = beginnings[0]
        while len(trace) < longest:
            way = _nearest(state, steps, missing)
            if way is None:
                break
            trace += way
            missing -= {step.action for step in way}
            state = way[-1].after
        assert trace, f"no beginning leads to {sorted(missing)}"
        traces.append(tuple(trace))
    return traces


def _nearest(
    beginning: State, steps: Steps[State], wanted: set[str]
) -> tuple[Step[State], ...] | None:
    ways: dict[State, tuple[Step[State], ...]] = {beginning: ()}
    waiting = deque([beginning])
    while waiting:
        state = waiting.popleft()
        for step in steps(state):
            if step.action in wanted:
                return (*ways[state], step)
            if step.after not in ways:
                ways[step.after] = (*ways[state], step)
                waiting.append(step.after)
    return None
