"""Silence for a while: nobody is told, everybody sees it, and it ends by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.alerts.mutes import Mute, active, covering, mute, unmute
from filejobs_dagster.alerts.outbox import Timing
from filejobs_dagster.postgres.connect import database_now
from tests.ledger.records import INSTALLATION, JOB

if TYPE_CHECKING:
    from tests.alerts.conftest import Watch

OTHER = "storage_orphans"


def silence(watch: Watch, job: str | None = JOB, kind: str | None = None, **span: float) -> Mute:
    with watch.connection.cursor() as cursor:
        until = database_now(cursor) + timedelta(**(span or {"hours": 1}))
        return mute(
            cursor, INSTALLATION, job=job, kind=kind, until=until, who="ada@desk", why="moving"
        )


def expire(watch: Watch) -> None:
    watch.connection.execute(
        "UPDATE mute SET since = since - interval '2 hours', until = until - interval '2 hours'"
    )


def texts(watch: Watch) -> str:
    return "\n".join(watch.receiver.texts)


def test_what_is_muted_is_told_to_nobody_until_its_time_and_then_by_itself(watch: Watch) -> None:
    watch.told()
    silence(watch)
    watch.fail()
    assert watch.tick() == []
    assert watch.waiting() == [], "nothing waits that a sender would call undelivered"
    expire(watch)
    watch.tick()
    assert "upload_reservations fails" in texts(watch)


def test_control_without_the_mute_it_is_told_at_once(watch: Watch) -> None:
    watch.told()
    watch.fail()
    watch.tick()
    assert "upload_reservations fails" in texts(watch)


def test_what_came_and_went_while_it_was_muted_is_never_told(watch: Watch) -> None:
    watch.told()
    silence(watch)
    watch.fail()
    watch.tick()
    watch.succeed()
    watch.tick()
    expire(watch)
    watch.tick()
    assert texts(watch) == ""


def test_what_was_told_before_is_not_repeated_and_its_end_is_told(watch: Watch) -> None:
    watch.timing = Timing(recovered_after=timedelta(), repeat_after=timedelta(hours=1))
    watch.told()
    watch.fail()
    watch.tick()
    silence(watch)
    watch.let_time_pass(hours=2)
    assert watch.tick() == []
    watch.succeed()
    watch.tick()
    assert "OVER" in watch.receiver.texts[-1]


def test_the_others_are_told_and_their_message_says_what_is_not(watch: Watch) -> None:
    watch.expect(JOB, OTHER)
    watch.told()
    silence(watch, kind="failed")
    watch.fail()
    watch.fail(OTHER)
    watch.tick()
    (message,) = watch.receiver.texts
    assert "storage_orphans fails" in message
    assert "upload_reservations fails" not in message
    assert "Not told: the alert 'failed' of upload_reservations is muted until" in message
    assert "by ada(at)desk: moving" in message


def test_a_mute_covers_its_job_and_its_kind_and_no_other(watch: Watch) -> None:
    by_job, by_kind = silence(watch), silence(watch, None, "queued", hours=2)
    assert by_job.covers(JOB, "stale")
    assert not by_job.covers(None, "silent")
    assert by_kind.covers(OTHER, "queued")
    assert not by_kind.covers(OTHER, "stale")
    assert covering([by_job, by_kind], JOB, "queued") == by_kind, "the one that lasts longer"


def test_it_ends_for_whoever_names_it_and_stays_on_record(watch: Watch) -> None:
    silence(watch)
    with watch.connection.cursor() as cursor:
        assert unmute(cursor, INSTALLATION, job=JOB, kind="failed", who="bob") == []
        assert len(active(cursor, INSTALLATION)) == 1
        assert active(cursor, "another installation") == []
        (ended,) = unmute(cursor, INSTALLATION, job=JOB, kind=None, who="bob")
        assert active(cursor, INSTALLATION) == []
    assert ended.by == "ada@desk"
    assert watch.connection.execute("SELECT ended_by FROM mute").fetchall() == [("bob",)]


@pytest.mark.parametrize(("job", "kind", "hours"), [(None, None, 1), (JOB, None, -1)])
def test_a_mute_of_everything_or_of_the_past_is_refused(
    watch: Watch, job: str | None, kind: str | None, hours: float
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        silence(watch, job, kind, hours=hours)
