"""What is wrong is read from how things stand, so nothing is missed by looking late."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.alerts.conditions import QueuedRun
from filejobs_dagster.alerts.digest import ADVICE, SEVERITY, TITLE
from filejobs_dagster.ledger.mirror import mirror
from filejobs_dagster.ledger.outcome import EVERYTHING, Outcome
from filejobs_dagster.ledger.standing import Expectation
from tests.docs.pages import page
from tests.ledger.records import INSTALLATION, JOB, Run, ago

if TYPE_CHECKING:
    from tests.alerts.conftest import Watch

WHOLE = {"window": EVERYTHING.as_detail(), "oldest_left": None}
PAGE = page("runbook.md").text


def kinds(watch: Watch, **how: Any) -> dict[str, str | None]:
    """What is wrong, with the job."""
    return {each.kind: each.job for each in watch.look(**how).conditions}


def test_a_job_that_stands_as_it_should_and_one_that_nobody_asked_for_are_no_news(
    watch: Watch,
) -> None:
    watch.succeed()
    watch.fail("storage_orphans")
    assert kinds(watch) == {}


def test_a_job_that_never_ran_is_critical_without_any_threshold(watch: Watch) -> None:
    (condition,) = watch.look().conditions
    assert (condition.kind, condition.severity) == ("never run", "critical")


def test_before_its_first_tick_it_is_a_warning_of_another_kind(watch: Watch) -> None:
    watch.expected = [Expectation(JOB, configured=True, mode="live", schedule="0 0 29 2 *")]
    watch.connection.execute("UPDATE filejobs_migration SET applied_at = now()")
    (condition,) = watch.look().conditions
    assert (condition.kind, condition.severity) == ("first run awaited", "warning")


def test_only_a_success_ends_staleness(watch: Watch) -> None:
    """A run that fails to start leaves no failed run behind, and a cancelled one is no success."""
    watch.expected = [
        Expectation(JOB, configured=True, mode="live", stale_after=timedelta(hours=2))
    ]
    watch.succeed(finished_at=ago(hours=3))
    watch.succeed(mode="dry")
    assert kinds(watch) == {"stale": JOB}


@pytest.mark.parametrize(
    ("job", "detail", "kind"),
    [
        ("storage_orphans", {"breakers": [{"breaker": "share", "verdict": "tripped"}]}, "breaker"),
        ("storage_orphans", {"breakers": [{"breaker": "share", "verdict": "ok"}]}, "failed"),
        ("audit_verify", {"findings": [{"code": "ROW_CHANGED"}]}, "findings"),
        ("audit_verify", {"findings": []}, "failed"),
        (JOB, {"breakers": "nonsense"}, "failed"),
    ],
)
def test_a_breaker_and_a_finding_have_names_of_their_own(
    watch: Watch, job: str, detail: dict[str, Any], kind: str
) -> None:
    watch.expect(job)
    watch.fail(job, detail=WHOLE | detail)
    assert kinds(watch) == {kind: job}


def test_one_killed_run_that_is_started_again_is_a_warning_for_a_minute(watch: Watch) -> None:
    watch.succeed(finished_at=ago(hours=1))
    killed = Run(watch.database).open()
    mirror(watch.database, watch.connection, killed.over("failure", started_again=True))

    (condition,) = watch.look().conditions
    assert (condition.kind, condition.severity) == ("started again", "warning")
    assert "Dagster starts it again" in condition.reason
    watch.write_down()

    watch.succeed()
    assert kinds(watch) == {}
    watch.tick()
    (message,) = watch.receiver.texts
    assert "critical" not in message


def test_a_repetition_that_does_not_succeed_in_time_is_critical(watch: Watch) -> None:
    watch.succeed(finished_at=ago(hours=1))
    killed = Run(watch.database).open()
    mirror(watch.database, watch.connection, killed.over("failure", started_again=True))
    watch.write_down()
    watch.connection.execute(
        "UPDATE job_progress SET closed_at = closed_at - interval '61 seconds'"
    )
    watch.tick()
    assert kinds(watch) == {"failed": JOB}
    assert "1 critical" in watch.receiver.messages[0]["title"]


def test_dead_letters_are_told_beside_a_failure_and_instead_of_being_behind(watch: Watch) -> None:
    watch.succeed(detail=WHOLE | {"dead_letters": 3})
    assert kinds(watch) == {"dead letters": JOB}
    watch.fail(detail=WHOLE | {"dead_letters": 3})
    assert kinds(watch) == {"failed": JOB, "dead letters": JOB}


def test_a_run_at_work_for_too_long_is_stuck_and_one_within_its_time_is_not(watch: Watch) -> None:
    watch.succeed()
    run = Run(watch.database).open()
    assert kinds(watch) == {}
    watch.connection.execute(
        "UPDATE job_progress SET started_at = started_at - interval '61 minutes'"
    )
    (stuck,) = watch.look().conditions
    assert (stuck.kind, stuck.job, stuck.severity) == ("stuck", JOB, "warning")
    assert run.run_id in stuck.reason
    assert "host 4711" in stuck.reason


def test_a_run_that_ended_and_has_no_record_after_a_while_is_told(watch: Watch) -> None:
    watch.succeed()
    run = Run(watch.database).open()
    run.finish(Outcome(scanned=1, acted=1))
    assert kinds(watch) == {}
    watch.connection.execute(
        "UPDATE job_progress SET finished_at = finished_at - interval '16 minutes'"
    )
    assert kinds(watch) == {"unrecorded": JOB}


def test_a_run_that_waits_in_the_queue_counts_as_not_run(watch: Watch) -> None:
    watch.succeed()
    waits = QueuedRun("a", JOB, ago(hours=26))
    just_now = QueuedRun("b", JOB, ago(minutes=5))
    assert kinds(watch, queued=[just_now]) == {}
    assert kinds(watch, queued=[waits, just_now]) == {"queued": JOB}


def test_who_cannot_ask_for_the_queue_says_neither_that_it_is_nor_that_it_is_over(
    watch: Watch,
) -> None:
    watch.succeed()
    watch.write_down(watch.look(queued=[QueuedRun("a", JOB, ago(hours=26))]))
    watch.write_down(watch.look(from_outside=True))
    watch.send()
    assert watch.receiver.messages[0]["title"].endswith("1 warning: upload_reservations has a run "
                                                        "that does not start")  # fmt: skip
    watch.tick()
    assert len(watch.receiver.messages) == 1
    watch.write_down(watch.look(queued=[]))
    watch.send()
    assert "1 over" in watch.receiver.texts[1]


def test_the_daemons_silence_is_heard_from_outside_and_its_return_from_inside(
    watch: Watch,
) -> None:
    watch.succeed()
    watch.connection.execute(
        "INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)"
        " VALUES (%s, now() - interval '2 hours', now())",
        (INSTALLATION,),
    )
    assert kinds(watch) == {}, "whoever ticks inside is alive, and the mirror is about to look"
    assert kinds(watch, from_outside=True) == {"silent": None}
    watch.write_down(watch.look(from_outside=True))
    watch.write_down(watch.look())
    watch.connection.execute("UPDATE mirror_watermark SET read_until = now()")
    watch.tick()
    assert "1 over: Nobody records what ran" in watch.receiver.texts[0]
    ahead = "UPDATE mirror_watermark SET read_until = now() + interval '365 days'"
    watch.connection.execute(ahead)
    assert kinds(watch, from_outside=True) == {"silent": None}, "no clock silences it for a year"


def test_no_reason_shows_a_secret_or_is_longer_than_a_message_may_be(watch: Watch) -> None:
    watch.fail(error="password=hunter2secret " + "x" * 5000)
    (condition,) = watch.look(known=("hunter2secret",)).conditions
    assert "hunter2secret" not in condition.reason
    assert len(condition.reason) <= 400


def test_the_page_explains_every_kind_with_its_severity() -> None:
    rows = re.findall(r"^\| `([a-z ]+)` \| (warning|critical) \|", PAGE, re.MULTILINE)
    assert dict(rows) == SEVERITY


def test_every_kind_has_a_title_and_says_what_to_do() -> None:
    assert set(SEVERITY) == set(TITLE) == set(ADVICE)
    assert all(text.endswith((".", "?")) for text in ADVICE.values())


def test_references_without_an_object_are_told_with_a_few_of_them(watch: Watch) -> None:
    found = {"missing": 5, "samples": {"missing": ["files/1", "files/2", "files/3", "files/4"]}}
    watch.succeed(detail=WHOLE | found)

    (condition,) = watch.look().conditions

    assert (condition.kind, condition.severity) == ("missing", "warning")
    assert "5 references have no object, such as files/1, files/2, files/3" in condition.reason
    assert "filejobs restore" not in condition.reason
    watch.succeed(detail=WHOLE | found | {"missing_taken": {"objects": 3, "brought_back": 1}})
    (condition,) = watch.look().conditions
    assert condition.reason.endswith("of 2 a run took the object: `filejobs restore KEY`")
    watch.succeed(detail=WHOLE | {"missing": 0})
    assert kinds(watch) == {}
