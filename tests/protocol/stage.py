"""Plays steps of the model on the real database functions and the real collector."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.interleavings.stepping import ANSWERED as HAS_ANSWER
from tests.interleavings.stepping import EVENTS_WRITTEN, PROVING
from tests.interleavings.stepping import READ as HAS_READ
from tests.postgres.backends import wait_until
from tests.protocol.reservations import (
    ANSWERED,
    ASKED,
    COMMITTED,
    IDLE,
    READ,
    WRITTEN,
    Collector,
    State,
    bits,
)
from tests.protocol.rows import DUE, FRESH, GONE, LATE, THERE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.interleavings.stepping import SteppedRun
    from tests.interleavings.storage import Held
    from tests.interleavings.world import World
    from tests.protocol.explorer import Step

HOUR = timedelta(hours=1)
_RECORDS = "records the result and ends"


class Stage:
    """Real rows, objects and runs that stand for those of the model."""

    def __init__(self, world: World, beginning: State) -> None:
        self._world = world
        self._files = [world.reserve(HOUR) for _ in beginning.reservations]
        self._runs: list[SteppedRun | None] = [None] * len(beginning.collectors)
        self._state = beginning
        world.storage.holding = True

    def play(self, step: Step[State]) -> None:
        """Do it for real, and compare what is there with what the model says."""
        (number,) = step.which
        _DEEDS[step.action](self, number)
        before, self._state = self._state, step.after
        ended = before.collectors[number] if step.action == _RECORDS else Collector()
        if ended.keys and not ended.given_up:
            self._compare_numbers(ended)
        seen, expected = self._seen(), self._expected()
        assert seen == expected, f"after {step}: real {seen}, model {expected}"

    def clear(self) -> None:
        """End whatever is still at work or open."""
        for held in self._world.storage.held:
            held.cut()
        for run in self._world.at_work():
            run.kill(self._world.admin)
        for file in self._files:
            if file.id in self._world.transactions:
                self._world.end(file, commit=False)
        self._world.admin.execute("DELETE FROM file")

    # The application --------------------------------------------------------------------------

    def _expire(self, number: int) -> None:
        self._world.extend(self._files[number], -HOUR)

    def _extend(self, number: int) -> None:
        self._world.extend(self._files[number], HOUR)

    def _send(self, number: int) -> None:
        """On its way: nothing is to be seen yet."""
        assert not self._files[number].uploaded

    def _land(self, number: int) -> None:
        self._world.upload(self._files[number])

    def _begin_completion(self, number: int) -> None:
        assert self._world.begin(self._files[number], "complete")

    def _begin_cancellation(self, number: int) -> None:
        assert self._world.begin(self._files[number], "cancel")

    def _commit(self, number: int) -> None:
        self._world.end(self._files[number], commit=True)

    def _roll_back(self, number: int) -> None:
        self._world.end(self._files[number], commit=False)

    def _complete_too_late(self, number: int) -> None:
        assert self._world.complete(self._files[number]) is False

    def _complete_once_more(self, number: int) -> None:
        assert self._world.complete(self._files[number]) is True

    def _mark_deleted(self, number: int) -> None:
        self._world.mark_deleted(self._files[number])

    def _remove_row(self, number: int) -> None:
        assert self._world.remove_row(self._files[number])

    # Storage ----------------------------------------------------------------------------------

    def _held(self, key: str) -> Held:
        return next(held for held in self._world.storage.held if key in held.keys)

    def _carry_out(self, number: int) -> None:
        self._world.storage.delete([self._files[number].key])

    def _refuse(self, number: int) -> None:
        key = self._files[number].key
        self._held(key).refused.add(key)

    def _request_of(self, number: int) -> Held:
        first = next(bits(self._state.collectors[number].keys))
        return self._held(self._files[first].key)

    # Collectors -------------------------------------------------------------------------------

    def _run(self, number: int) -> SteppedRun:
        run = self._runs[number]
        assert run is not None
        return run

    def _start(self, number: int) -> None:
        self._world.wait_for_the_dead()
        run = self._world.start_run(batch_size=10, count_bytes=False)
        self._runs[number] = run
        assert run.point == HAS_READ, (run.point, run.outcome)

    def _be_refused(self, _number: int) -> None:
        run = self._world.start_run()
        run.finish()
        assert run.outcome is not None
        assert "is at work already" in str(run.outcome.error)
        assert self._world.record(run)

    def _claim(self, number: int) -> None:
        self._run(number).step_to(EVENTS_WRITTEN)

    def _commit_claim(self, number: int) -> None:
        self._run(number).step_to(PROVING)

    def _ask(self, number: int) -> None:
        run, asked = self._run(number), len(self._world.storage.held)
        while len(self._world.storage.held) == asked:
            assert not run.over, (run.outcome, run.error)
            run.turnstile.release()
            wait_until(
                lambda: run.stands(0.01) or len(self._world.storage.held) > asked,
                "the run asks storage",
            )

    def _read_answer(self, number: int) -> None:
        self._request_of(number).answer()
        wait_until(lambda: self._run(number).point is not None, "the run has its answer")

    def _wait_no_longer(self, number: int) -> None:
        self._request_of(number).cut()
        wait_until(lambda: self._run(number).point is not None, "the run sees the cut")

    def _end(self, number: int) -> None:
        run = self._run(number)
        run.finish()
        given_up = self._state.collectors[number].given_up
        assert self._world.record(run) is not given_up
        self._runs[number] = None

    def _kill(self, number: int) -> None:
        run = self._run(number)
        if self._state.collectors[number].phase == ASKED:
            # The process is gone first, and then its connection.
            run.killed = True
            run.turnstile.kill()
            self._request_of(number).cut()
        run.kill(self._world.admin)
        given_up = self._state.collectors[number].given_up
        assert self._world.record(run) is not given_up
        self._runs[number] = None

    def _lose_locks(self, number: int) -> None:
        self._run(number).lose_locks(self._world.admin)

    def _take_locks_again(self, number: int) -> None:
        context = self._run(number).context
        assert context is not None
        context.lease.prove()

    def _give_up(self, number: int) -> None:
        assert self._world.record(self._run(number))

    # What is there ----------------------------------------------------------------------------

    def _compare_numbers(self, ended: Collector) -> None:
        """The newest record is that of the run that has just ended."""
        records = [row for rows in self._world.records().values() for row in rows]
        newest = max(records, key=lambda row: int(row["id"]))
        assert newest["acted"] == len(list(bits(ended.keys & ~ended.left))), newest
        assert newest["detail"]["claimed"] == len(list(bits(ended.keys))), newest

    def _seen(self) -> tuple[object, ...]:
        look = self._world.look()
        due = {
            row[0]
            for row in self._world.admin.execute(
                "SELECT id FROM file WHERE state = 'pending' AND upload_expires_at < now()"
            )
        }
        audited = {event.file for event in look.of_kind("upload_reservation.collected")}
        reservations = []
        for file in self._files:
            row = look.states.get(file.id, GONE)
            if row == "pending":
                row = DUE if file.id in due else FRESH
            reservations.append((row, file.key in look.objects, file.id in audited))
        closed = {run_id for run_id, rows in look.progress.items() if rows and rows[0]["closed_at"]}
        runs = [
            (IDLE, False, False)
            if run is None
            else (self._phase(run), self._world.run_lock_is_held(run), run.run_id in closed)
            for run in self._runs
        ]
        return (reservations, runs, self._world.exclusive_lock_is_held())

    def _phase(self, run: SteppedRun) -> str:
        phases = {
            HAS_READ: READ,
            EVENTS_WRITTEN: WRITTEN,
            PROVING: COMMITTED,
            HAS_ANSWER: ANSWERED,
            None: ASKED,
        }
        return phases[run.point]

    def _expected(self) -> tuple[object, ...]:
        state = self._state
        return (
            [(it.row, it.upload in (THERE, LATE), it.audited) for it in state.reservations],
            [(run.phase, run.has_lock, run.given_up) for run in state.collectors],
            any(run.has_lock for run in state.collectors),
        )


_DEEDS: Mapping[str, Callable[[Stage, int], None]] = {
    "passes the expiry": Stage._expire,
    "extends its reservation": Stage._extend,
    "sends its PUT": Stage._send,
    "has its PUT land": Stage._land,
    "completes in an open transaction": Stage._begin_completion,
    "commits its completion": Stage._commit,
    "rolls its completion back": Stage._roll_back,
    "completes too late and is told so": Stage._complete_too_late,
    "completes once more and is told it is ready": Stage._complete_once_more,
    "cancels in an open transaction": Stage._begin_cancellation,
    "commits its cancellation": Stage._commit,
    "rolls its cancellation back": Stage._roll_back,
    "marks the file deleted": Stage._mark_deleted,
    "removes the row": Stage._remove_row,
    "carries the deletion out": Stage._carry_out,
    "answers with an error": Stage._refuse,
    "takes the lock and reads candidates": Stage._start,
    "is refused: a live run is at work": Stage._be_refused,
    "writes its claim": Stage._claim,
    "wins nothing and ends": Stage._end,
    "cannot prove that it may go on, and stops": Stage._end,
    "commits its claim": Stage._commit_claim,
    "asks storage": Stage._ask,
    "reads the answer": Stage._read_answer,
    "waits no longer for storage": Stage._wait_no_longer,
    _RECORDS: Stage._end,
    "is killed": Stage._kill,
    "loses its locks with its connection": Stage._lose_locks,
    "takes its locks again": Stage._take_locks_again,
    "is given up for dead by the mirror": Stage._give_up,
}
