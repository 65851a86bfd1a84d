"""Any order of what a run, its killer and the mirrors do ends in exactly one record per run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import hypothesis
import psycopg
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from filejobs_dagster.ledger.mirror import mirror, open_runs
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.locks import run_lock, try_lock
from tests.ledger.records import INSTALLATION, Run, only_record, records

RUNS = st.integers(0, 2)


class Lives(RuleBasedStateMachine):
    """Three runs; the model knows what each may say and what must be written."""

    database: Database
    connection: psycopg.Connection[Any]

    def __init__(self) -> None:
        super().__init__()
        self.runs = [Run(self.database) for _ in range(3)]
        self.opened: set[int] = set()
        self.locks: dict[int, psycopg.Connection] = {}
        self.committed: dict[int, int] = {}
        self.words: dict[int, bool] = {}
        self.recorded: dict[int, str] = {}

    def _alive(self, which: int) -> bool:
        return which in self.locks

    def _expect(self, which: int, act: Any) -> bool:
        """Do it; it must be refused exactly when the record stands."""
        try:
            act()
        except GivenUp:
            assert which in self.recorded
            return False
        assert which not in self.recorded
        return True

    @rule(which=RUNS)
    def start(self, which: int) -> None:
        if which in self.opened:
            return
        lock = psycopg.connect(self.database.url)
        with lock.cursor() as cursor:
            assert try_lock(cursor, run_lock("public", self.runs[which].run_id))
        if self._expect(which, self.runs[which].open):
            self.opened.add(which)
            self.locks[which] = lock
        else:
            # The server frees a lock at once only when it is told; a closed session takes a moment.
            lock.rollback()
            lock.close()

    @rule(which=RUNS, scanned=st.integers(0, 9))
    def advance(self, which: int, scanned: int) -> None:
        if self._alive(which) and which not in self.words:
            run = self.runs[which]
            if self._expect(which, lambda: run.advance(scanned, scanned)):
                self.committed[which] = scanned

    @rule(which=RUNS)
    def beat(self, which: int) -> None:
        if self._alive(which):
            self._expect(which, self.runs[which].beat)

    @rule(which=RUNS, ok=st.booleans())
    def finish(self, which: int, ok: bool) -> None:
        if not self._alive(which):
            return
        word = Outcome(error=None if ok else "why")
        try:
            self.runs[which].finish(word)
        except GivenUp:
            assert which in self.recorded
            assert which not in self.words
            return
        self.words.setdefault(which, ok)

    @rule(which=RUNS)
    def kill(self, which: int) -> None:
        if self._alive(which):
            self.locks.pop(which).close()

    @rule(which=RUNS, ended=st.sampled_from(["success", "failure", "canceled"]))
    def told_by_the_scheduler(self, which: int, ended: Any) -> None:
        written = mirror(self.database, self.connection, self.runs[which].over(ended))
        assert written == (which not in self.recorded)
        self.recorded.setdefault(which, ended)

    @rule(seen=st.booleans())
    def looked_for(self, seen: bool) -> None:
        found = open_runs(self.database, self.connection, INSTALLATION, silence=timedelta(0))
        by_id = {run.run_id: number for number, run in enumerate(self.runs)}
        for run in found:
            which = by_id.get(run.run_id)
            if which is None:
                continue
            assert which not in self.recorded
            assert run.final == (which in self.words)
            assert not (run.lost and self._alive(which))
            if run.final and not seen:
                assert mirror(self.database, self.connection, self.runs[which].over("unseen"))
                self.recorded[which] = "unseen"
            elif run.lost:
                assert mirror(self.database, self.connection, self.runs[which].over("lost"))
                self.recorded[which] = "lost"

    def teardown(self) -> None:
        for lock in self.locks.values():
            lock.close()
        for which, run in enumerate(self.runs):
            mirror(self.database, self.connection, run.over("failure"))
            record = only_record(self.connection, run.run_id)
            said = self.words.get(which)
            assert record["outcome"] == ("ok" if said else "failed")
            assert record["detail"]["ended"] == self.recorded.get(which, "failure")
            assert record["scanned"] == self.committed.get(which)
            assert record["mode"] == ("live" if which in self.opened else "dry")


def test_every_interleaving_ends_in_one_record_per_run(
    database_url: str, connection: psycopg.Connection
) -> None:
    database = Database(database_url)

    class Machine(Lives):
        pass

    Machine.database = database
    Machine.connection = connection
    run_state_machine_as_test(
        Machine,
        settings=hypothesis.settings(max_examples=25, stateful_step_count=25, deadline=None),
    )
    ids = [record["run_id"] for record in records(connection)]
    assert len(ids) == len(set(ids)) > 50
