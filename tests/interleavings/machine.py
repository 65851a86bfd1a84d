"""Any order of what clients, administrators, collectors, their killer and storage do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.interleavings.invariants import (
    COLLECTED,
    check_after_every_step,
    check_at_the_end,
)
from tests.interleavings.storage import PLANS, Plan

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping

    from tests.interleavings.stepping import SteppedRun
    from tests.interleavings.world import File, World

A_RESERVATION_LASTS = timedelta(hours=1)
# Clients' clocks are wrong by up to nine hours; what they write is what counts, by the clock of
# the database.
SKEWS = st.sampled_from([-9, -2, -1, 0, 5]).map(lambda hours: timedelta(hours=hours))
WHICH = st.integers(0, 5)
DEEDS = st.sampled_from(
    [
        "complete",
        "complete in a transaction",
        "upload",
        "reserve",
        "extend",
        "cancel in a transaction",
        "cancel and retry",
        "mark deleted",
        "remove",
    ]
)
MISHAPS = st.sampled_from(["killed", "locks lost", "given up"])
MOST_FILES, MOST_RUNS = 6, 6
A_MOMENT = 0.4


class Interleavings(RuleBasedStateMachine):
    """One schedule; every rule is one step of somebody."""

    make_world: ClassVar[Callable[[], World]]
    happened: ClassVar[Counter[str]]
    broken: ClassVar[list[str]]

    def __init__(self) -> None:
        super().__init__()
        self.world = type(self).make_world()

    def _check(self) -> None:
        try:
            check_after_every_step(self.world)
        except AssertionError as error:
            self.broken.append(str(error))
            raise

    def _file(self, which: int) -> File:
        return self.world.files[which % len(self.world.files)]

    def _run(self, which: int) -> SteppedRun | None:
        """One of the runs at work that does not wait for somebody's lock."""
        running = self.world.at_work()
        run = running[which % len(running)] if running else None
        return run if run is not None and run.stands(A_MOMENT) and not run.over else None

    # The application --------------------------------------------------------------------------

    @initialize(skews=st.lists(SKEWS, min_size=1, max_size=3), plan=st.sampled_from(PLANS))
    def begin(self, skews: list[timedelta], plan: Plan) -> None:
        self.world.storage.plan = plan
        for skew in [timedelta(hours=-2), *skews]:
            self.world.upload(self.world.reserve(A_RESERVATION_LASTS + skew))
        self.start_run(batch_size=2, count_bytes=False)

    @rule(which=WHICH, does=DEEDS, skew=SKEWS)
    def application(self, which: int, does: str, skew: timedelta) -> None:
        file = self._file(which)
        if file.id in self.world.transactions:
            self.world.end(file, commit=does != "remove")
        elif file.uploaded or does not in ("complete", "complete in a transaction"):
            _APPLICATION[does](self, file, skew)

    def _reserve(self, _file: File, skew: timedelta) -> None:
        if len(self.world.files) < MOST_FILES:
            self.world.reserve(A_RESERVATION_LASTS + skew)

    def _upload(self, file: File, _skew: timedelta) -> None:
        if not file.uploaded:
            self.world.upload(file)

    def _complete(self, file: File, _skew: timedelta) -> None:
        before = self.world.state_of(file)
        said = self.world.complete(file)
        assert before != "ready" or said, "a repeated call is not told that the file is ready"
        assert before is not None or said is False, "a call completes a row that is gone"

    def _complete_in_a_transaction(self, file: File, _skew: timedelta) -> None:
        self.world.begin(file, "complete")

    def _cancel_in_a_transaction(self, file: File, _skew: timedelta) -> None:
        self.world.begin(file, "cancel")

    def _extend(self, file: File, skew: timedelta) -> None:
        self.world.extend(file, A_RESERVATION_LASTS + skew)

    def _cancel_and_retry(self, file: File, skew: timedelta) -> None:
        if len(self.world.files) < MOST_FILES:
            self.world.remove_row(file)
            self.world.upload(self.world.reserve(A_RESERVATION_LASTS + skew))

    def _mark_deleted(self, file: File, _skew: timedelta) -> None:
        self.world.mark_deleted(file)

    def _remove(self, file: File, _skew: timedelta) -> None:
        self.world.remove_row(file)

    # Collectors -------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.runs) < MOST_RUNS)
    @rule(batch_size=st.integers(1, 3), count_bytes=st.booleans())
    def start_run(self, batch_size: int, count_bytes: bool) -> None:
        held = self.world.exclusive_lock_is_held()
        run = self.world.start_run(batch_size=batch_size, count_bytes=count_bytes)
        if not held:
            return
        run.finish()
        assert run.outcome is not None
        assert "is at work already" in str(run.outcome.error)
        self.world.happened["a second live run is refused"] += 1

    @precondition(lambda self: self.world.at_work())
    @rule(which=WHICH, steps=st.integers(1, 5))
    def go_on(self, which: int, steps: int) -> None:
        for _ in range(steps):
            run = self._run(which)
            if run is not None:
                run.turnstile.release()
                run.stands(A_MOMENT)
                self._check()

    @precondition(lambda self: self.world.at_work())
    @rule(which=WHICH, steps=st.integers(0, 12), mishap=MISHAPS)
    def go_on_until(self, which: int, steps: int, mishap: str) -> None:
        self.go_on(which, steps)
        run = self._run(which)
        if run is None:
            return
        self.world.happened[f"{mishap}: {run.point}"] += 1
        if mishap == "killed":
            run.kill(self.world.admin)
            return
        run.lose_locks(self.world.admin)
        if mishap == "given up":
            self.world.record(run)

    @rule(which=WHICH)
    def record(self, which: int) -> None:
        """The mirror: it also gives up a run that lives on without its locks."""
        self.world.record(self.world.runs[which % len(self.world.runs)])

    # Storage ----------------------------------------------------------------------------------

    @rule(plan=st.sampled_from(PLANS), down=st.integers(0, 9))
    def storage_fails(self, plan: Plan, down: int) -> None:
        self.world.storage.plan, self.world.storage.down = plan, down == 9

    # What must be true ------------------------------------------------------------------------

    @invariant()
    def the_contract_holds(self) -> None:
        self._check()

    def teardown(self) -> None:
        try:
            self._end()
        finally:
            type(self).happened.update(self.world.happened)
            type(self).happened.update(self.world.storage.met)
            self.world.close()

    def _end(self) -> None:
        world = self.world
        for file in world.files:
            if file.id in world.transactions:
                world.end(file, commit=True)
        for run in world.at_work():
            run.let_go()
        for run in world.at_work():
            run.join()
        for run in world.runs:
            world.record(run)
        self._check()
        world.storage.plan, world.storage.down = "works", False
        undisturbed = world.start_run()
        undisturbed.finish()
        assert undisturbed.outcome is not None
        assert undisturbed.outcome.ok, undisturbed.outcome.error
        assert world.record(undisturbed)
        self._check()
        check_at_the_end(world)
        world.happened["schedules"] += 1
        world.happened["rows collected"] += len(world.look().of_kind(COLLECTED))


_APPLICATION: Mapping[str, Callable[[Interleavings, File, timedelta], None]] = {
    "reserve": Interleavings._reserve,
    "upload": Interleavings._upload,
    "complete": Interleavings._complete,
    "complete in a transaction": Interleavings._complete_in_a_transaction,
    "cancel in a transaction": Interleavings._cancel_in_a_transaction,
    "extend": Interleavings._extend,
    "cancel and retry": Interleavings._cancel_and_retry,
    "mark deleted": Interleavings._mark_deleted,
    "remove": Interleavings._remove,
}
