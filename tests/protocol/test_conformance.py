"""The model is no fiction: the real code goes through its states, step by step."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.interleavings.storage import storage_server
from tests.interleavings.world import World, bucket_settings
from tests.protocol.explorer import explore, traces_with_every_action
from tests.protocol.promises import PROMISES
from tests.protocol.reservations import WRITTEN, Reservations, State, beginning
from tests.protocol.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.protocol.explorer import Step

pytestmark = pytest.mark.thorough

MODEL = Reservations()
APPEND_TO_THE_AUDIT_LOG = ("writes its claim", "records the result and ends")


def steps(state: State) -> Iterator[Step[State]]:
    """Those that can be replayed without waiting for a lock that the model knows nothing of.

    That is the head of the audit chain, and the row whose expiry is written to let time pass.
    """
    for step in MODEL.steps(state):
        others = [run for number, run in enumerate(state.collectors) if (number,) != step.which]
        appends = step.action in APPEND_TO_THE_AUDIT_LOG
        held = step.action == "passes the expiry" and state.reservations[step.which[0]].open
        if not held and not (appends and any(run.phase == WRITTEN for run in others)):
            yield step


@pytest.fixture
def world(tmp_path: Path, database_url: str) -> Iterator[World]:
    with storage_server() as storage:
        bucket = bucket_settings(tmp_path, database_url, storage)
        world = World(database_url, storage, bucket, make_client(bucket))
        yield world
        for held in storage.held:
            held.cut()
        world.close()


def play(world: World, start: State, trace: Sequence[Step[State]]) -> None:
    stage = Stage(world, start)
    for number, step in enumerate(trace):
        try:
            stage.play(step)
        except Exception as error:
            done = "\n".join(str(it) for it in trace[: number + 1])
            raise AssertionError(f"the code left the model:\n{done}\n{error}") from error
    stage.clear()


def test_the_real_code_takes_every_action_of_the_model(world: World) -> None:
    start = beginning(1, 2)
    found = explore([start], steps, promises=PROMISES)
    assert set(found.actions) == set(explore([start], MODEL.steps, promises=PROMISES).actions)
    traces = traces_with_every_action(found, steps)

    assert {step.action for trace in traces for step in trace} == set(found.actions)
    for trace in traces:
        play(world, start, trace)


def weight(step: Step[State]) -> float:
    """Ends come seldom, and a run goes on more often than others act."""
    if step.action in ("is killed", "removes the row", "commits its cancellation"):
        return 0.3
    return 4 if step.who.startswith("collector") else 1


@pytest.mark.parametrize("seed", range(4))
def test_the_real_code_follows_the_model_on_any_way(world: World, seed: int) -> None:
    """Two reservations, two collectors; dull steps are drawn less often than a run's own."""
    draw = random.Random(seed)  # noqa: S311 (a schedule, not a secret)
    start = state = beginning(2, 2)
    trace: list[Step[State]] = []
    while len(trace) < 45 and (able := list(steps(state))):
        [step] = draw.choices(able, [weight(step) for step in able])
        trace.append(step)
        state = step.after

    play(world, start, trace)


def test_control_a_wrong_model_is_noticed(world: World) -> None:
    """A model that believes that a row survives its claim."""
    start = beginning(1, 1)
    trace: list[Step[State]] = []
    state = start
    for action in (
        "passes the expiry",
        "takes the lock and reads candidates",
        "writes its claim",
        "commits its claim",
    ):
        step = next(step for step in MODEL.steps(state) if step.action == action)
        trace.append(step)
        state = step.after
    wrong = state._replace(reservations=(state.reservations[0]._replace(row="due"),))
    trace[-1] = trace[-1].__class__(trace[-1].action, trace[-1].who, wrong, trace[-1].which)

    with pytest.raises(AssertionError, match="the code left the model"):
        play(world, start, trace)
