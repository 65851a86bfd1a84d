"""The protocol of upload_reservations as a model: clients, administrators, collectors, storage.

Everything that can happen between two commits is one step. What the model leaves out stands in
docs/sceptics.md; tests/protocol/test_conformance.py holds it against the real code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.explorer import Step
from tests.protocol.rows import (
    CLAIMED,
    DUE,
    GONE,
    LATE,
    REMOVED,
    THERE,
    Change,
    Reservation,
    changes,
    ends_of_transaction,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

# How far a run has come.
IDLE, READ, WRITTEN, COMMITTED, ASKED, ANSWERED = (
    "idle",
    "has read candidates",
    "has written its claim",
    "has committed its claim",
    "has asked storage",
    "has its answer",
)


class Collector(NamedTuple):
    """One place where runs work, one after the other; the fields are those of its present run.

    `keys` and `left` are sets of reservations, as bits.
    """

    phase: str = IDLE
    has_lock: bool = False
    given_up: bool = False
    keys: int = 0
    left: int = 0


class State(NamedTuple):
    """Everything at one moment."""

    reservations: tuple[Reservation, ...]
    collectors: tuple[Collector, ...]


@dataclass(frozen=True)
class Variant:
    """The protocol, or what somebody makes of it who leaves a rule out.

    Attributes:
        claim_repeats_predicates: The claim says again what the candidate query said.
        bytes_after_commit: Storage is asked only after the commit.
        audit_with_claim: The audit event commits with the claim.
        exclusive: A second live run is refused.
        stops_when_given_up: A run looks whether its record stands already.
        reads_errors: A 200 is not believed before its errors are read.
        keys_are_new: A reservation that is made again has another key.
    """

    claim_repeats_predicates: bool = True
    bytes_after_commit: bool = True
    audit_with_claim: bool = True
    exclusive: bool = True
    stops_when_given_up: bool = True
    reads_errors: bool = True
    keys_are_new: bool = True


GUARDED = Variant()


def beginning(reservations: int, collectors: int) -> State:
    """Fresh reservations, and nobody at work."""
    return State((Reservation(),) * reservations, (Collector(),) * collectors)


def bits(keys: int) -> Iterator[int]:
    """The numbers in a set of reservations."""
    number = 0
    while keys:
        if keys & 1:
            yield number
        keys >>= 1
        number += 1


class Reservations:
    """The steps of one variant."""

    def __init__(self, variant: Variant = GUARDED) -> None:
        self._variant = variant

    def steps(self, state: State) -> Iterator[Step[State]]:
        """What may happen next."""
        locked = self._locked(state)
        for number, reservation in enumerate(state.reservations):
            free = not (reservation.open or locked >> number & 1)
            new = self._variant.keys_are_new
            for change in changes(reservation, free=free, keys_are_new=new):
                yield _changed(state, number, change)
            if reservation.deleting:
                yield from self._storage(state, number)
        for number in range(len(state.collectors)):
            yield from self._forward(state, number)
            yield from self._mishaps(state, number)

    def undisturbed(self, state: State) -> Step[State] | None:
        """The next step when nobody new comes, nothing fails, and everybody gets a turn."""
        locked = self._locked(state)
        for number, reservation in enumerate(state.reservations):
            if reservation.open:
                return _changed(state, number, next(ends_of_transaction(reservation)))
            if reservation.deleting:
                return next(self._storage(state, number))
        for number, collector in enumerate(state.collectors):
            if collector.phase != IDLE:
                return next(self._forward(state, number))
        if locked or not any(it.row == DUE for it in state.reservations):
            return None
        return next(self._forward(state, 0))

    # The application --------------------------------------------------------------------------

    # Storage ----------------------------------------------------------------------------------

    def _storage(self, state: State, number: int) -> Iterator[Step[State]]:
        it = state.reservations[number]
        bit, who = 1 << number, f"storage, for key {number + 1},"

        def step(action: str, after: Reservation, collectors: tuple[Collector, ...]) -> Step[State]:
            items = (*state.reservations[:number], after, *state.reservations[number + 1 :])
            return Step(action, who, State(items, collectors), (number,))

        upload = REMOVED if it.upload in (THERE, LATE) else it.upload
        done = it._replace(deleting=False, upload=upload)
        yield step("carries the deletion out", done, state.collectors)
        told = state.collectors
        if self._variant.reads_errors:
            told = tuple(
                run._replace(left=run.left | bit) if run.phase == ASKED and run.keys & bit else run
                for run in state.collectors
            )
        yield step("answers with an error", it._replace(deleting=False), told)

    # Collectors -------------------------------------------------------------------------------

    def _forward(self, state: State, number: int) -> Iterator[Step[State]]:
        """How its run goes on; each phase has its own method."""
        phase = state.collectors[number].phase
        if phase in (READ, COMMITTED) and not self._may_act(state, number):
            yield _run(state, number, "cannot prove that it may go on, and stops", Collector())
        else:
            yield from {
                IDLE: self._idle,
                READ: self._read,
                WRITTEN: self._written,
                COMMITTED: self._claim_committed,
                ASKED: self._asked,
                ANSWERED: self._answered,
            }[phase](state, number)

    def _idle(self, state: State, number: int) -> Iterator[Step[State]]:
        due = sum(1 << n for n, it in enumerate(state.reservations) if it.row == DUE)
        if not due:
            return
        if self._variant.exclusive and any(run.has_lock for run in state.collectors):
            same = state.collectors[number]
            yield _run(state, number, "is refused: a live run is at work", same)
            return
        begun = Collector(READ, has_lock=True, keys=due)
        yield _run(state, number, "takes the lock and reads candidates", begun)

    def _read(self, state: State, number: int) -> Iterator[Step[State]]:
        run = state.collectors[number]
        won = self._won(state, run.keys)
        if won:
            after = run._replace(phase=WRITTEN, has_lock=True, keys=won)
            yield _run(state, number, "writes its claim", after)
        else:
            yield _run(state, number, "wins nothing and ends", Collector())

    def _written(self, state: State, number: int) -> Iterator[Step[State]]:
        run = state.collectors[number]
        if not self._variant.bytes_after_commit and not run.left:
            asked = _each(state, run.keys, deleting=True)
            too_early = run._replace(left=run.keys)
            yield _run(state, number, "asks storage", too_early, asked)
        after = run._replace(phase=COMMITTED, left=0)
        yield _run(state, number, "commits its claim", after, self._claimed(state, run.keys))

    def _claim_committed(self, state: State, number: int) -> Iterator[Step[State]]:
        run = state.collectors[number]
        if not all(state.reservations[key].audited for key in bits(run.keys)):
            audited = _each(state, run.keys, audited=True)
            yield _run(state, number, "commits the audit events", run, audited)
            return
        kept = sum(1 << n for n in bits(run.keys) if state.reservations[n].row != GONE)
        asked = _each(state, run.keys & ~kept, deleting=True)
        after = run._replace(phase=ASKED, has_lock=True)
        yield _run(state, number, "asks storage", after, asked)

    def _asked(self, state: State, number: int) -> Iterator[Step[State]]:
        run = state.collectors[number]
        pending = sum(1 << n for n in bits(run.keys) if state.reservations[n].deleting)
        if not pending:
            yield _run(state, number, "reads the answer", run._replace(phase=ANSWERED))
        else:
            after = run._replace(phase=ANSWERED, left=run.left | pending)
            yield _run(state, number, "waits no longer for storage", after)

    def _answered(self, state: State, number: int) -> Iterator[Step[State]]:
        yield _run(state, number, "records the result and ends", Collector())

    def _mishaps(self, state: State, number: int) -> Iterator[Step[State]]:
        run = state.collectors[number]
        if run.phase == IDLE:
            return
        yield _run(state, number, "is killed", Collector())
        if run.has_lock:
            without = run._replace(has_lock=False)
            yield _run(state, number, "loses its locks with its connection", without)
            return
        # The progress row stays locked from the claim's write to its end: the mirror waits.
        if not run.given_up and run.phase != WRITTEN:
            given_up = run._replace(given_up=True)
            yield _run(state, number, "is given up for dead by the mirror", given_up)
        if not run.given_up and self._lock_is_free(state):
            yield _run(state, number, "takes its locks again", run._replace(has_lock=True))

    def _may_act(self, state: State, number: int) -> bool:
        run = state.collectors[number]
        if run.given_up and self._variant.stops_when_given_up:
            return False
        return run.has_lock or self._lock_is_free(state)

    def _lock_is_free(self, state: State) -> bool:
        return not self._variant.exclusive or not any(c.has_lock for c in state.collectors)

    def _locked(self, state: State) -> int:
        """Rows that an uncommitted claim holds."""
        locked = 0
        for collector in state.collectors:
            if collector.phase == WRITTEN:
                locked |= collector.keys
        return locked

    def _won(self, state: State, keys: int) -> int:
        locked = self._locked(state)
        won = 0
        for number in bits(keys & ~locked):
            it = state.reservations[number]
            still = it.row == DUE if self._variant.claim_repeats_predicates else it.row != GONE
            if still and not it.open:
                won |= 1 << number
        return won

    def _claimed(self, state: State, keys: int) -> tuple[Reservation, ...]:
        items = list(state.reservations)
        for number in bits(keys):
            it = items[number]
            audited = self._variant.audit_with_claim
            items[number] = it._replace(row=GONE, fate=it.fate or CLAIMED, audited=audited)
        return tuple(items)


def _changed(state: State, number: int, change: Change) -> Step[State]:
    who, action, after = change
    named = who if who == "the clock" else f"{who} {number + 1}"
    items = (*state.reservations[:number], after, *state.reservations[number + 1 :])
    return Step(action, named, state._replace(reservations=items), (number,))


def _run(
    state: State,
    number: int,
    action: str,
    after: Collector,
    reservations: tuple[Reservation, ...] | None = None,
) -> Step[State]:
    items = state.reservations if reservations is None else reservations
    collectors = (*state.collectors[:number], after, *state.collectors[number + 1 :])
    return Step(action, f"collector {number + 1}", State(items, collectors), (number,))


def _each(
    state: State, keys: int, *, audited: bool | None = None, deleting: bool | None = None
) -> tuple[Reservation, ...]:
    items = list(state.reservations)
    for number in bits(keys):
        it = items[number]
        items[number] = it._replace(
            audited=it.audited if audited is None else audited,
            deleting=it.deleting if deleting is None else deleting,
        )
    return tuple(items)
