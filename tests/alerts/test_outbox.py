"""At least once, not twice, in one message: whatever the notifier and the senders do."""

from __future__ import annotations

import subprocess
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.alerts import outbox
from filejobs_dagster.alerts.conditions import Looked
from filejobs_dagster.alerts.outbox import LONGEST_WAIT, Timing, wait_after
from filejobs_dagster.alerts.sending import send
from filejobs_dagster.registry import JOB_NAMES
from tests.alerts.conftest import AT_ONCE
from tests.alerts.receiver import TOKEN
from tests.ledger.records import INSTALLATION, JOB, ago

if TYPE_CHECKING:
    from filejobs_dagster.alerts.digest import Digest
    from tests.alerts.conftest import Watch


def test_what_begins_is_said_once_and_not_again_while_it_lasts(watch: Watch) -> None:
    watch.fail()
    for _ in range(3):
        watch.tick()
    (said,) = watch.receiver.texts
    assert "upload_reservations fails" in said.splitlines()[0]
    assert "it did not work" in said
    assert "filejobs runs --failed" in said


def test_two_dozen_failures_are_one_message_about_how_things_stand(watch: Watch) -> None:
    watch.expect(*JOB_NAMES)
    for number in range(24):
        watch.fail(tuple(JOB_NAMES)[number % len(JOB_NAMES)], finished_at=ago(minutes=24 - number))
        if number == 12:
            watch.write_down()
    watch.tick()
    (said,) = watch.receiver.texts
    assert f"{len(JOB_NAMES)} critical" in said.splitlines()[0]
    assert all(f"{job} fails" in said for job in JOB_NAMES)


def test_a_notifier_that_is_down_is_tried_again_and_told_once(watch: Watch) -> None:
    watch.fail()
    watch.receiver.status = 503
    (failed,) = watch.tick()
    assert failed.error == "it answered 503"
    assert watch.tick() == [], "it waits before it tries again"
    (waiting,) = watch.waiting()
    assert (waiting.notices, waiting.attempts, waiting.error) == (1, 1, "it answered 503")

    watch.receiver.status = 200
    watch.let_time_pass(minutes=1)
    watch.tick()
    watch.tick()
    assert len(watch.receiver.messages) == 1
    assert watch.waiting() == []


def test_it_is_tried_for_ever_with_a_longest_wait() -> None:
    waits = [wait_after(attempts) for attempts in (1, 2, 3, 6, 1_000_000)]
    assert waits == sorted(waits)
    assert waits[0] == timedelta(seconds=30)
    assert waits[-1] == LONGEST_WAIT


def test_what_piled_up_behind_a_silent_notifier_is_one_message(watch: Watch) -> None:
    watch.receiver.status = 500
    watch.fail()
    watch.tick()
    watch.expect(JOB, "audit_seal")
    watch.receiver.status = 200
    watch.tick()
    (said,) = watch.receiver.texts
    assert "upload_reservations fails" in said
    assert "audit_seal has never run" in said


def test_the_end_is_said_once_and_says_from_when_to_when(watch: Watch) -> None:
    watch.fail()
    watch.tick()
    watch.succeed()
    watch.tick()
    watch.tick()
    _, said = watch.receiver.texts
    assert said.startswith("filejobs test: 1 over: upload_reservations fails")
    assert "is over since" in said
    assert watch.receiver.messages[1]["type"] == "success"


def test_the_end_is_when_the_success_ended_and_not_when_somebody_looked(watch: Watch) -> None:
    watch.fail(finished_at=ago(hours=3))
    watch.tick()
    watch.let_time_pass(hours=2)
    over = ago(hours=1)
    watch.succeed(finished_at=over)
    watch.tick()
    (since,) = watch.connection.execute("SELECT clear_since FROM alert_condition").fetchone() or ()
    assert since == over
    assert f"is over since {over:%Y-%m-%d %H:%M}" in watch.receiver.texts[1]


def test_what_began_and_ended_unheard_is_one_entry_and_no_alarm(watch: Watch) -> None:
    watch.receiver.status = 500
    watch.fail()
    watch.tick()
    watch.succeed()
    watch.write_down()
    watch.receiver.status = 200
    watch.let_time_pass(minutes=1)
    watch.send()
    (said,) = watch.receiver.texts
    assert said.count("upload_reservations fails") == 2, "in the subject and as one entry"
    assert "CRITICAL" not in said


def test_what_lasts_is_said_again_when_the_settings_ask_for_it(watch: Watch) -> None:
    watch.timing = Timing(timedelta(), repeat_after=timedelta(hours=24))
    watch.fail()
    watch.tick()
    watch.let_time_pass(hours=23)
    watch.tick()
    assert len(watch.receiver.messages) == 1
    watch.let_time_pass(hours=2)
    watch.tick()
    watch.tick()
    assert len(watch.receiver.messages) == 2
    assert "STILL CRITICAL  upload_reservations fails" in watch.receiver.texts[1]


def test_each_destination_hears_its_severities_and_one_that_is_down_delays_no_other(
    watch: Watch,
) -> None:
    watch.destinations = ()
    watch.told("team", url="json://127.0.0.1:1/nobody")
    watch.told("pager", severities=frozenset({"critical"}))
    watch.told("chat", severities=frozenset({"warning"}))
    watch.fail()
    done = {each.destination: each.error for each in watch.tick()}
    assert done == {"team": "it could not be reached in time", "pager": None}


def test_a_destination_that_comes_into_the_settings_hears_what_is_open(watch: Watch) -> None:
    watch.fail()
    watch.tick()
    watch.told("second")
    watch.tick()
    assert len(watch.receiver.messages) == 2


def test_what_a_destination_was_not_told_before_it_left_the_settings_is_dropped(
    watch: Watch,
) -> None:
    watch.receiver.status = 500
    watch.fail()
    watch.tick()
    before = watch.destinations
    watch.destinations = ()
    watch.tick()
    assert watch.waiting() == []

    watch.destinations = before
    watch.receiver.status = 200
    watch.tick()
    assert len(watch.receiver.messages) == 1, "it is back, and so is the condition"


# --- flapping ------------------------------------------------------------------------------------


def test_a_gap_that_is_shorter_than_recovered_after_is_no_end(watch: Watch) -> None:
    watch.timing = Timing(recovered_after=timedelta(minutes=5))
    watch.fail()
    watch.tick()
    watch.succeed()
    watch.tick()
    watch.let_time_pass(minutes=4)
    watch.fail()
    watch.tick()
    watch.let_time_pass(minutes=4)
    watch.tick()
    assert len(watch.receiver.messages) == 1


def test_what_comes_and_goes_is_told_ever_more_rarely_and_says_so(watch: Watch) -> None:
    watch.timing = Timing(recovered_after=timedelta(minutes=5))
    wrong, right = watch.look(), Looked(())
    for number in range(20):
        watch.write_down(wrong if number % 2 == 0 else right)
        watch.let_time_pass(minutes=15)
        watch.write_down(wrong if number % 2 == 0 else right)
    rows = watch.connection.execute("SELECT what, openings FROM alert_delivery"
        " JOIN alert_condition AS condition ON condition.id = condition_id").fetchall()  # fmt: skip
    # Ten times wrong and ten times right: without the hold there were 20 notices.
    assert 3 <= len(rows) <= 6
    watch.send()
    assert "It comes and goes: 3 times within a day." in watch.receiver.texts[0]


def test_a_job_whose_trouble_changes_has_not_recovered(watch: Watch) -> None:
    watch.tick()
    watch.fail()
    watch.tick()
    assert ["never run" in said or "fails" in said for said in watch.receiver.texts] == [True] * 2
    assert "over" not in "".join(watch.receiver.texts)


# --- several senders, and senders that die -------------------------------------------------------


def test_two_senders_at_once_send_once_and_the_careless_version_sends_twice(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def race() -> int:
        both = threading.Barrier(2)
        watch.receiver.before = lambda: _meet(both, 1.0)
        watch.receiver.messages.clear()
        senders = [threading.Thread(target=watch.send) for _ in range(2)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        return len(watch.receiver.messages)

    watch.fail()
    watch.write_down()
    assert race() == 1

    watch.connection.execute("UPDATE alert_delivery SET sent_at = NULL")
    careless = outbox._CLAIM.replace("FOR UPDATE OF delivery SKIP LOCKED", "")
    monkeypatch.setattr(outbox, "_CLAIM", careless)
    assert race() == 2


def _meet(both: threading.Barrier, seconds: float) -> None:
    try:
        both.wait(seconds)
    except threading.BrokenBarrierError:
        return  # the other never came, which is what is right


def test_two_who_look_at_once_open_one_condition(watch: Watch) -> None:
    watch.fail()
    looked = watch.look()
    lookers = [threading.Thread(target=watch.write_down, args=(looked,)) for _ in range(4)]
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join()
    watch.send()
    assert len(watch.receiver.messages) == 1


KILLED_AFTER_SENDING = """
import os, sys, time
from filejobs_dagster.alerts.sending import Destination
from filejobs_dagster.alerts.outbox import deliver
from filejobs_dagster.alerts.sending import send
from filejobs_dagster.postgres.connect import Database

def send_and_die(url, digest, timeout):
    send(url, digest, timeout)
    os.kill(os.getpid(), 9)

database = Database(sys.argv[1])
with database.connect("outbox") as connection:
    deliver(database, connection, sys.argv[2], [Destination("on-call", sys.argv[3])], send_and_die,
            deadline=time.monotonic() + 20)
"""


def test_a_sender_killed_between_sending_and_marking_says_it_again_and_never_less(
    watch: Watch,
) -> None:
    watch.fail()
    watch.write_down()
    arguments = [watch.database.url, INSTALLATION, watch.receiver.url]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_AFTER_SENDING, *arguments], check=False, timeout=60
    )
    assert killed.returncode == -9
    assert len(watch.receiver.messages) == 1
    watch.send()
    watch.send()
    assert len(watch.receiver.messages) == 2


def test_what_stands_in_the_outbox_was_committed_before_anything_is_sent(watch: Watch) -> None:
    seen: list[int] = []

    def count_then_send(url: str, digest: Digest, timeout: float) -> None:
        row = watch.connection.execute(
            "SELECT count(*) FROM alert_delivery WHERE sent_at IS NULL"
        ).fetchone()
        assert row is not None
        seen.append(row[0])
        send(url, digest, timeout)

    watch.fail()
    watch.write_down()
    watch.send(count_then_send)
    assert seen == [1]


# --- what is kept --------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 500])
def test_neither_the_url_nor_any_part_of_it_is_stored(watch: Watch, status: int) -> None:
    watch.receiver.status = status
    watch.fail()
    watch.tick()
    rows = watch.connection.execute(
        "SELECT delivery::text || condition::text FROM alert_delivery AS delivery"
        " JOIN alert_condition AS condition ON condition.id = condition_id"
    ).fetchall()
    assert len(rows) == 1
    assert TOKEN not in rows[0][0]
    assert str(watch.receiver.port) not in rows[0][0]
    assert TOKEN not in repr(watch.destinations)


def test_what_is_long_over_is_forgotten(watch: Watch) -> None:
    watch.fail()
    watch.tick()
    watch.succeed()
    watch.tick()
    watch.let_time_pass(days=91)
    watch.tick()
    assert watch.connection.execute("SELECT FROM alert_delivery").fetchall() == []
    assert watch.timing == AT_ONCE


def test_what_ended_three_months_ago_is_forgotten_and_what_lasts_is_not(watch: Watch) -> None:
    watch.fail()
    watch.tick()
    watch.let_time_pass(days=200)
    watch.tick()
    kept = "SELECT (SELECT count(*) FROM alert_condition) + (SELECT count(*) FROM alert_delivery)"
    assert watch.connection.execute(kept).fetchall() != [(0,)], "it lasts"
    watch.write_down(Looked(()))
    watch.let_time_pass(days=89)
    watch.write_down(Looked(()))
    assert watch.connection.execute(kept).fetchall() != [(0,)]
    watch.let_time_pass(days=2)
    watch.write_down(Looked(()))
    assert watch.connection.execute(kept).fetchall() == [(0,)]
