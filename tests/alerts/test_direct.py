"""While the database is away, what is known is told all the same, once, and when it is over."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.alerts.conditions import Condition, Looked
from filejobs_dagster.alerts.outbox import FileMemory, Timing
from filejobs_dagster.alerts.rounds import (
    Round,
    Teller,
    conduct_round,
    tell_of_trouble,
    tell_what_is_seen,
)
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from tests.alerts.receiver import TOKEN
from tests.ledger.records import INSTALLATION

if TYPE_CHECKING:
    from pathlib import Path

    from tests.alerts.conftest import Watch

AWAY = Database("postgresql://collector:hunter2secret@127.0.0.1:9/files")
BUDGET = timedelta(seconds=20)


@pytest.fixture
def memory(tmp_path: Path) -> FileMemory:
    return FileMemory(tmp_path / "state" / "alert.json")


@pytest.fixture
def teller(watch: Watch, memory: FileMemory) -> Teller:
    return Teller(INSTALLATION, watch.destinations, watch.timing, memory, ("hunter2secret",))


def look(teller: Teller, database: Database, watch: Watch) -> Round:
    return tell_what_is_seen(teller, database, lambda _: watch.look(), budget=BUDGET)


def test_a_database_that_is_away_is_told_once_and_its_return_once(
    watch: Watch, teller: Teller, memory: FileMemory
) -> None:
    watch.succeed()
    for _ in range(3):
        assert look(teller, AWAY, watch).trouble is not None
    (said,) = watch.receiver.texts
    assert "The standing of the jobs cannot be read" in said
    assert "hunter2secret" not in said

    for _ in range(2):
        assert look(teller, watch.database, watch).trouble is None
    assert len(watch.receiver.messages) == 2
    assert "1 over" in watch.receiver.texts[1]
    assert memory.read() == {"told": {}}


def test_a_notifier_that_is_down_too_is_told_later(watch: Watch, teller: Teller) -> None:
    watch.receiver.status = 500
    done = look(teller, AWAY, watch)
    assert [each.error for each in done.delivered] == ["it answered 500"]
    watch.receiver.status = 200
    look(teller, AWAY, watch)
    look(teller, AWAY, watch)
    assert len(watch.receiver.messages) == 1


def test_it_is_told_again_after_repeat_after(watch: Watch, teller: Teller) -> None:
    impatient = Teller(
        INSTALLATION, watch.destinations, Timing(timedelta(), timedelta()), teller.memory
    )
    look(impatient, AWAY, watch)
    look(impatient, AWAY, watch)
    assert "STILL CRITICAL" in watch.receiver.texts[1]


def test_tables_that_are_missing_are_told_without_them(watch: Watch, teller: Teller) -> None:
    watch.fail()
    watch.connection.execute("DROP TABLE alert_delivery, alert_condition")
    done = look(teller, watch.database, watch)
    assert done.trouble is not None
    assert "filejobs migrate" in watch.receiver.texts[0]


def test_a_fault_of_the_notifier_is_a_result_and_no_exception(watch: Watch, teller: Teller) -> None:
    def faulty(_: object) -> Looked:
        raise RuntimeError("hunter2secret")

    with watch.database.connect("test") as connection:
        done = conduct_round(teller, watch.database, connection, faulty, budget=BUDGET)
    assert done.trouble == "RuntimeError: ***"
    assert watch.receiver.messages == []


def test_what_the_outbox_cares_for_again_is_not_called_over(watch: Watch, teller: Teller) -> None:
    watch.succeed()
    broken = Condition("settings", None, "jobs: it is missing")
    deadline = time.monotonic() + 20
    tell_of_trouble(teller, DatabaseUnavailable("away"), (broken,), deadline=deadline)
    looked = Looked((broken,), frozenset({"settings"}))
    tell_what_is_seen(teller, watch.database, lambda _: looked, budget=BUDGET)
    assert "has mistakes, so no job can run" in watch.receiver.texts[0]
    assert not any("OVER  filejobs.yaml" in said for said in watch.receiver.texts)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"told": 5}', '{"told": {"a": {"kind": "x"}}}'])
def test_a_memory_that_somebody_else_wrote_is_begun_anew(
    watch: Watch, teller: Teller, tmp_path: Path, text: str
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "alert.json").write_text(text)
    look(teller, AWAY, watch)
    look(teller, AWAY, watch)
    assert len(watch.receiver.messages) == 1
    kept = (tmp_path / "state" / "alert.json").read_text()
    assert list(json.loads(kept)["told"]) == ["-/database/critical"]
    assert TOKEN not in kept
    assert "hunter2secret" not in kept


def test_a_memory_that_cannot_be_written_costs_a_message_too_many(
    watch: Watch, teller: Teller, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("a file where the directory belongs")
    look(teller, AWAY, watch)
    look(teller, AWAY, watch)
    assert len(watch.receiver.messages) == 2
    assert "told again by the next call" in capsys.readouterr().err
