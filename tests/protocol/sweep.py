"""The protocol of an orphan sweep as a model: one old object, clients that name it, a sweeper.

The order is: list and read references, mark, and in a later run look again, write and commit the
intent, wait for older transactions, check again in a fresh snapshot, delete. A client that names
the object comes before, during and after any of these, with its transaction open in between.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from tests.protocol.explorer import Step

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.protocol.explorer import Promise

Trigger = Literal["locks", "reads", "none"]
When = Literal["before the row", "after the row"]
Wait = Literal[
    "open transactions",
    "numbers and snapshots",
    "numbers at the commit",
    "numbers below its own",
    "none",
]
Isolation = Literal["read committed", "repeatable read"]

# What stands of the object in `orphan_candidate`, as committed.
UNSEEN, MARKED, INTENT, CLEARED, DONE = "unseen", "marked", "deleting", "cleared", "deleted"
# How far a run of the sweeper has come.
IDLE, LOOKED, WRITTEN, COMMITTED, WAITED, CHECKED = (
    "idle",
    "has seen no reference",
    "has written its intent",
    "has committed its intent",
    "has waited",
    "has checked again",
)
# How far a client's transaction has come.
AWAY, BEGUN, HALF, NAMED, OVER = "away", "begun", "half way", "named", "over"


class Client(NamedTuple):
    """One client, which names the object in one transaction.

    Attributes:
        phase: How far it has come; half way lies between its row and its trigger, in either order.
        view: The candidate as its snapshot shows it.
        numbered: Its transaction has a number, because it wrote or locked something.
        locking: It holds a lock on the candidate's row.
        waited_for: The sweeper waits for its end.
        holds: A committed reference of it names the object.
        mover: It moves its reference in two transactions instead of one.
        moves: How often it will still do so.
        gap: It is between the two.
    """

    phase: str = AWAY
    view: str = UNSEEN
    numbered: bool = False
    locking: bool = False
    waited_for: bool = False
    holds: bool = False
    mover: bool = False
    moves: int = 0
    gap: bool = False


class State(NamedTuple):
    """Everything at one moment."""

    there: bool
    candidate: str
    sweeper: str
    confirmable: bool
    clients: tuple[Client, ...]


@dataclass(frozen=True)
class Variant:
    """The protocol, or what somebody makes of it who leaves a rule out.

    Attributes:
        second_sighting: The object must be unreferenced in a later run, too.
        intent: It is committed before the object goes, so that a trigger can refuse.
        trigger: How the tables' trigger looks at the candidate: `reads` it, or `locks` its row
            (FOR SHARE), which waits for a writer and, in REPEATABLE READ, fails on a row that
            changed since the snapshot. A row that the snapshot does not show cannot be locked.
        when: Whether it looks before the new row has given the transaction its number.
        wait: For whom the sweeper waits: for every transaction that is open when the intent has
            been committed; for those of them that have a number, hold a snapshot or run a
            statement (`postgres/fence.py`); for those that have a number (`pg_snapshot_xmin`);
            for those whose number is below that of the intent's own transaction; for nobody.
        recheck: References are read again, in a fresh snapshot, right before the object goes.
        isolation: Of the clients' transactions.
    """

    second_sighting: bool = True
    intent: bool = True
    trigger: Trigger = "locks"
    when: When = "after the row"
    wait: Wait = "numbers and snapshots"
    recheck: bool = True
    isolation: Isolation = "read committed"


GUARDED = Variant()


def beginning(*, referring: int = 1, moving: int = 1, moves: int = 1) -> State:
    """An old object; the movers hold a reference to it, the others know its key."""
    mover = Client(holds=True, mover=True, moves=moves)
    return State(True, UNSEEN, IDLE, False, (Client(),) * referring + (mover,) * moving)


class Sweep:
    """The steps of one variant."""

    def __init__(self, variant: Variant = GUARDED) -> None:
        self._variant = variant

    def steps(self, state: State) -> Iterator[Step[State]]:
        """What may happen next."""
        yield from self._time(state)
        yield from self._sweeper(state)
        if state.sweeper != IDLE:
            yield Step("is killed", "the sweeper", state._replace(sweeper=IDLE))
        for number in range(len(state.clients)):
            yield from self._client(state, number)

    def undisturbed(self, state: State) -> Step[State] | None:
        """The next step when nothing fails, and everybody finishes what was begun."""
        for number, client in enumerate(state.clients):
            if client.gap or client.phase in (BEGUN, HALF, NAMED):
                step = next(self._client(state, number), None)
                if step is not None:
                    return step
        return next(self._time(state), None) or next(self._sweeper(state), None)

    # The sweeper ------------------------------------------------------------------------------

    def _time(self, state: State) -> Iterator[Step[State]]:
        # Moving a reference takes less time than lies between two sightings: the assumption on
        # which the second sighting rests.
        moving = any(client.gap for client in state.clients)
        if state.candidate == MARKED and not state.confirmable and not moving:
            yield Step("passes confirm_after", "the clock", state._replace(confirmable=True))

    def _sweeper(self, state: State) -> Iterator[Step[State]]:
        if state.sweeper == IDLE:
            yield from self._begin(state)
        elif state.sweeper == LOOKED:
            yield from self._write_intent(state)
        elif state.sweeper == WRITTEN:
            yield self._intent_committed(state, "commits its intent")
        elif state.sweeper == COMMITTED:
            if not any(client.waited_for for client in state.clients):
                yield _swept(state, "has waited for whom it had to", sweeper=WAITED)
        elif state.sweeper == WAITED:
            yield self._check_again(state)
        else:
            yield _swept(state, "deletes the object", sweeper=IDLE, candidate=DONE, there=False)

    def _begin(self, state: State) -> Iterator[Step[State]]:
        named = _is_named(state)
        if state.candidate == INTENT:
            yield self._intent_committed(state, "finds an intent and goes on with it")
        elif named and state.candidate == MARKED:
            action = "sees a reference and clears the mark"
            yield _swept(state, action, candidate=CLEARED, confirmable=False)
        elif named or not state.there:
            return
        elif self._variant.second_sighting and state.candidate != MARKED:
            yield _swept(state, "sees no reference and marks the object", candidate=MARKED)
        elif self._variant.second_sighting and not state.confirmable:
            return
        else:
            yield _swept(state, "sees no reference, and that is enough", sweeper=LOOKED)

    def _write_intent(self, state: State) -> Iterator[Step[State]]:
        if not self._variant.intent:
            yield _swept(
                state, "states no intent", sweeper=COMMITTED, clients=self._waited_for(state)
            )
        elif not any(client.locking for client in state.clients):
            # Otherwise its write waits for the client's lock on the same row.
            below = self._variant.wait == "numbers below its own"
            clients = tuple(c._replace(waited_for=below and c.numbered) for c in state.clients)
            yield _swept(state, "writes its intent", sweeper=WRITTEN, clients=clients)

    def _intent_committed(self, state: State, action: str) -> Step[State]:
        clients = self._waited_for(state)
        return _swept(state, action, sweeper=COMMITTED, candidate=INTENT, clients=clients)

    def _waited_for(self, state: State) -> tuple[Client, ...]:
        def decide(client: Client) -> bool:
            if self._variant.wait == "open transactions":
                return client.phase in (BEGUN, HALF, NAMED)
            if self._variant.wait == "numbers and snapshots":
                keeps_its_snapshot = self._variant.isolation == "repeatable read"
                looking = client.phase == HALF or (client.phase == BEGUN and keeps_its_snapshot)
                return client.numbered or looking
            if self._variant.wait == "numbers at the commit":
                return client.numbered
            return client.waited_for

        return tuple(client._replace(waited_for=decide(client)) for client in state.clients)

    def _check_again(self, state: State) -> Step[State]:
        if not self._variant.recheck:
            return _swept(state, "does not check again", sweeper=CHECKED)
        if not _is_named(state):
            return _swept(state, "checks again and finds no reference", sweeper=CHECKED)
        action = "checks again, finds a reference and clears the candidate"
        return _swept(state, action, sweeper=IDLE, candidate=CLEARED, confirmable=False)

    # Clients ----------------------------------------------------------------------------------

    def _client(self, state: State, number: int) -> Iterator[Step[State]]:
        it = state.clients[number]
        who = f"{'mover' if it.mover else 'client'} {number + 1}"

        def step(action: str, after: Client) -> Step[State]:
            clients = (*state.clients[:number], after, *state.clients[number + 1 :])
            return Step(action, who, state._replace(clients=clients), (number,))

        over = Client(phase=OVER, mover=it.mover, moves=it.moves)
        if it.mover and it.phase in (AWAY, OVER) and it.holds:
            if it.moves:
                gap = Client(mover=True, moves=it.moves - 1, gap=True)
                yield step("removes its reference, to name the object elsewhere", gap)
        elif it.phase == AWAY:
            begun = it._replace(phase=BEGUN, view=state.candidate)
            yield step("begins a transaction", begun)
        elif it.phase == BEGUN and self._variant.when == "after the row":
            inserted = it._replace(phase=HALF, numbered=True)
            yield step("inserts its reference", inserted)
        elif it.phase in (BEGUN, HALF) and not self._looked(it):
            yield from self._trigger(state, it, over, step)
        elif it.phase == HALF:
            yield step("inserts its reference", it._replace(phase=NAMED, numbered=True))
        elif it.phase == NAMED:
            yield step("commits its reference", over._replace(holds=True))
            yield step("rolls its reference back", over)

    def _looked(self, it: Client) -> bool:
        return it.phase == HALF and self._variant.when == "before the row"

    def _trigger(
        self, state: State, it: Client, over: Client, step: _StepOf
    ) -> Iterator[Step[State]]:
        fresh = self._variant.isolation == "read committed"
        view = state.candidate if fresh else it.view
        admitted = it._replace(
            view=view, phase=HALF if self._variant.when == "before the row" else NAMED
        )
        if self._variant.trigger == "none":
            yield step("meets no trigger", admitted)
            return
        refused = view in (INTENT, DONE)
        if self._variant.trigger == "locks" and view != UNSEEN:
            if state.sweeper == WRITTEN:
                # It waits for the sweeper's uncommitted change of the candidate's row.
                return
            refused = state.candidate in (INTENT, DONE) or view != state.candidate
            admitted = admitted._replace(numbered=True, locking=True)
        if refused:
            yield step("is refused by the trigger", over)
        else:
            yield step("is admitted by the trigger", admitted)


if TYPE_CHECKING:
    from collections.abc import Callable

    _StepOf = Callable[[str, Client], Step[State]]


def _swept(state: State, action: str, **changes: object) -> Step[State]:
    return Step(action, "the sweeper", state._replace(**changes))  # type: ignore[arg-type]


def _is_named(state: State) -> bool:
    return any(client.holds for client in state.clients)


PROMISES: Mapping[str, Promise[State]] = {
    "no reference names an object that was deleted": lambda state: (
        state.there or not _is_named(state)
    ),
    "no object is deleted while its reference moves from one row to another": lambda state: (
        state.there or not any(client.gap for client in state.clients)
    ),
}


def is_settled(state: State) -> bool:
    """The object is gone, or a reference keeps it and nothing of the sweep is left over."""
    if state.sweeper != IDLE:
        return False
    if not state.there:
        return state.candidate == DONE
    return _is_named(state) and state.candidate in (UNSEEN, CLEARED)
