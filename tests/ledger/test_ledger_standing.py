"""Where a job stands: only sweeping counts as sweeping, and what never ran is named."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from dateutil.parser import isoparse

from filejobs_dagster.ledger.mirror import mirror
from filejobs_dagster.ledger.outcome import EVERYTHING, Outcome, Window
from filejobs_dagster.ledger.runs import newest_runs
from filejobs_dagster.ledger.standing import Expectation, Severity, Standing, Word, standings
from filejobs_dagster.orchestration.sensors import alarm_text, table
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.settings.cron import MACROS
from tests.ledger.records import INSTALLATION, JOB, Run, ago, insert_record, now

if TYPE_CHECKING:
    from filejobs_dagster.ledger.outcome import Mode

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
WHOLE = EVERYTHING.as_detail()
PART = Window(label="2026-01-02", begins=ago(days=9), ends=ago(days=8)).as_detail()


def standing_of(
    connection: psycopg.Connection, expected: Expectation, installation: str = INSTALLATION
) -> Standing:
    with connection.cursor() as cursor:
        every = standings(cursor, installation, [expected])
    assert [standing.job for standing in every] == list(JOB_NAMES)
    return next(standing for standing in every if standing.job == expected.job)


def live(**changes: Any) -> Expectation:
    return replace(Expectation(JOB, configured=True, mode="live"), **changes)


def ok(hours: float, **columns: Any) -> dict[str, Any]:
    return {"finished_at": ago(hours=hours), **columns}


def failed(hours: float, error: str = "why", **columns: Any) -> dict[str, Any]:
    return {
        "finished_at": ago(hours=hours),
        "error": error,
        "scanned": None,
        "acted": None,
    } | columns


def left(oldest: datetime | None, **detail: Any) -> dict[str, Any]:
    when = None if oldest is None else oldest.isoformat()
    return {"window": WHOLE, "oldest_left": when} | detail


@dataclass
class Case:
    """Records, the operator's wish, and what the standing must say."""

    name: str
    word: Word
    severity: Severity
    records: list[dict[str, Any]] = field(default_factory=list)
    stale_after: timedelta | None = None
    stale: bool | None = None
    behind: bool | None = None
    mode: Mode = "live"
    configured: bool = True
    failures: int = 0
    reason: str = ""


SIX_WEEKS_DRY = [ok(hours, mode="dry") for hours in range(1, 6 * 7 * 24, 24)]

CASES = [
    Case(
        "never run",
        "never run",
        "critical",
        reason="to start it now: filejobs run upload_reservations --live",
    ),
    Case("never run with a threshold", "never run", "critical", stale_after=DAY, stale=True),
    Case("never run, not configured", "never run", "silent", configured=False),
    Case(
        "a run by hand for one item, after a sweep",
        "ok",
        "ok",
        [ok(9), ok(1, detail=left(ago(hours=3), truncated=True, limited_to=1))],
        reason="the newest run does not count, since it was limited to 1 and left due items",
    ),
    Case(
        "a run by hand for one item, after a sweep that is too old",
        "stale",
        "critical",
        [ok(30), ok(1, detail=left(ago(hours=3), truncated=True, limited_to=1))],
        stale_after=DAY,
        stale=True,
        behind=False,
        reason="does not count",
    ),
    Case(
        "a run by hand for one item, and never a sweep",
        "unknown",
        "critical",
        [ok(1, detail=left(ago(hours=3), truncated=True, limited_to=1))],
        reason="nothing counts as swept",
    ),
    Case(
        "a run by hand for five items that found two",
        "ok",
        "ok",
        [ok(1, detail=left(None, truncated=False, limited_to=5))],
        reason="last live run collected",
    ),
    Case(
        "names that were looked for",
        "ok",
        "ok",
        [ok(1, detail={"search": {"columns": 300}, "window": {"covers": "everything"}})],
        reason="; it looked for names in 300 columns",
    ),
    Case(
        "a dry look after a sweep",
        "ok",
        "ok",
        [ok(9), ok(1, mode="dry")],
        reason="the newest run does not count, since it ran dry",
    ),
    Case(
        "dead letters, and no threshold",
        "behind",
        "warning",
        [ok(1, detail=left(None, dead_letters=2))],
        behind=True,
        reason="2 dead letters: given up after too many attempts",
    ),
    Case(
        "dead letters that are gone by the last run",
        "ok",
        "ok",
        [ok(2, detail=left(None, dead_letters=2)), ok(1, detail=left(None, dead_letters=0))],
    ),
    Case("swept an hour ago", "ok", "ok", [ok(1)]),
    Case(
        "a success of the future, and five failures since",
        "failed",
        "critical",
        [ok(-24 * 365), *[failed(hours) for hours in range(1, 6)]],
        failures=5,
        reason="ends in the future",
    ),
    Case(
        "a success of the future beside one of today",
        "ok",
        "warning",
        [ok(-24 * 365), ok(1)],
        stale_after=DAY,
        stale=False,
        behind=False,
        reason="a clock was wrong when it was written",
    ),
    Case(
        "a record that ends at no time of the calendar",
        "ok",
        "warning",
        [ok(1), {"started_at": ago(hours=1), "finished_at": "infinity"}],
        reason="ends in the future, at infinity",
    ),
    Case(
        "cancelled after a sweep",
        "ok",
        "ok",
        [ok(2), failed(1, "Cancelled while it worked.", detail={"ended": "canceled"})],
    ),
    Case(
        "failed, and then cancelled",
        "failed",
        "critical",
        [ok(3), failed(2), failed(1, "Cancelled.", detail={"ended": "canceled"})],
        failures=1,
        reason="1 failed since the last success that counts",
    ),
    Case("swept in time", "ok", "ok", [ok(1)], stale_after=DAY, stale=False, behind=False),
    Case(
        "swept too long ago",
        "stale",
        "critical",
        [ok(25)],
        stale_after=DAY,
        stale=True,
        behind=False,
        reason="last live success 1d1h ago, threshold 1d",
    ),
    Case("swept long ago, no threshold", "ok", "ok", [ok(2400)]),
    Case(
        "six weeks of dry runs on a live job",
        "unknown",
        "critical",
        SIX_WEEKS_DRY,
        reason="none of its 42 recorded runs succeeded live",
    ),
    Case(
        "the same with a threshold",
        "stale",
        "critical",
        SIX_WEEKS_DRY,
        stale_after=DAY,
        stale=True,
        reason="the last ran dry",
    ),
    Case(
        "live days of a backfill only",
        "unknown",
        "critical",
        [ok(hours, detail={"window": PART}) for hours in (1, 2, 3)],
        reason="the last covered 2026-01-02 only",
    ),
    Case(
        "days of a backfill after a sweep",
        "stale",
        "critical",
        [ok(30), ok(1, detail={"window": PART})],
        stale_after=DAY,
        stale=True,
        behind=False,
    ),
    Case(
        "a limit of one over a backlog",
        "behind",
        "warning",
        [ok(0.1, detail=left(ago(days=3), stopped_reason="limit"))],
        stale_after=DAY,
        stale=False,
        behind=True,
        reason="due for 3d; it stopped because of limit",
    ),
    Case(
        "something young is left",
        "ok",
        "ok",
        [ok(0.1, detail=left(ago(hours=3)))],
        stale_after=DAY,
        stale=False,
        behind=False,
    ),
    Case(
        "something old is left, no threshold",
        "ok",
        "ok",
        [ok(1, detail=left(ago(days=9), stopped_reason="limit"))],
        reason="and left some, because of limit: the oldest due since",
    ),
    Case(
        "a job that does not say what it left",
        "ok",
        "ok",
        [ok(1, detail={"window": WHOLE})],
        stale_after=DAY,
        stale=False,
        behind=None,
    ),
    Case(
        "failed five minutes ago",
        "failed",
        "critical",
        [ok(1), failed(1 / 12, "S3 is down\nand more")],
        stale_after=DAY,
        stale=False,
        behind=False,
        failures=1,
        reason="the last run failed: S3 is down",
    ),
    Case(
        "failed three times in a row",
        "failed",
        "critical",
        [ok(9), failed(3), failed(2), failed(1, "S3 is down")],
        failures=3,
        reason="3 failures in a row: S3 is down",
    ),
    Case("never succeeded", "failed", "critical", [failed(2), failed(1)], failures=2),
    Case("failed, then swept", "ok", "ok", [failed(3), failed(2), ok(1)]),
    Case(
        "a dry success by hand does not mask a live failure",
        "failed",
        "critical",
        [ok(9), failed(2), ok(1, mode="dry")],
        failures=1,
        reason="1 failed since the last success that counts",
    ),
    Case(
        "nor does it where nothing ever counted",
        "failed",
        "critical",
        [failed(2), ok(1, mode="dry")],
        failures=1,
    ),
    Case(
        "every deletion was denied, with a threshold",
        "failed",
        "critical",
        [ok(30), failed(1, "every item failed", scanned=9, acted=0)],
        stale_after=DAY,
        stale=True,
        behind=False,
        failures=1,
    ),
    Case("a dry job that ran dry", "ok (dry)", "ok", [ok(1, mode="dry")], mode="dry"),
    Case(
        "a dry job is stale, too",
        "stale",
        "critical",
        [ok(30, mode="dry")],
        mode="dry",
        stale_after=DAY,
        stale=True,
    ),
    Case(
        "a dry job is never behind",
        "ok (dry)",
        "ok",
        [ok(1, mode="dry", detail=left(ago(days=9)))],
        mode="dry",
        stale_after=DAY,
        stale=False,
    ),
    Case(
        "not configured and failed", "failed", "silent", [failed(1)], configured=False, failures=1
    ),
    Case("numbers that nobody knows", "ok", "ok", [ok(1, scanned=None, acted=None)]),
]


def killed(database: Database, *, started_again: bool = True, final: bool = False) -> None:
    run = Run(database).open()
    if final:
        run.finish(Outcome(error="S3 is down"))
    with database.connect("mirror") as connection:
        assert mirror(database, connection, run.over("failure", started_again=started_again))


def test_one_run_that_was_killed_is_a_warning_while_dagster_starts_it_again(
    connection: psycopg.Connection, database_url: str
) -> None:
    insert_record(connection, finished_at=ago(hours=1))
    killed(Database(database_url))

    def said(**wish: Any) -> tuple[str, str]:
        standing = standing_of(connection, live(**wish))
        assert standing.consecutive_failures == 1
        return standing.word, standing.severity

    assert said() == said(stale_after=DAY) == ("failed", "warning")
    assert said(stale_after=timedelta(minutes=30)) == ("failed", "critical"), "it is stale besides"
    connection.execute("UPDATE job_progress SET closed_at = closed_at - interval '61 seconds'")
    assert said() == ("failed", "critical")
    insert_record(connection)
    assert standing_of(connection, live()).word == "ok"


@pytest.mark.parametrize("first", [{"started_again": False}, {"final": True}])
def test_a_failure_that_nobody_repeats_or_that_the_run_told_is_critical_at_once(
    connection: psycopg.Connection, database_url: str, first: dict[str, bool]
) -> None:
    insert_record(connection, finished_at=ago(hours=1))
    killed(Database(database_url), **first)
    assert standing_of(connection, live()).severity == "critical"


def test_failures_are_no_alarm_before_as_many_as_the_settings_say(
    connection: psycopg.Connection,
) -> None:
    insert_record(connection, **ok(9))
    patient = live(alert_after=3)
    for hours in (3, 2):
        insert_record(connection, **failed(hours))
    two = standing_of(connection, patient)
    assert (two.word, two.severity, two.alarming) == ("failed", "ok", False)
    assert "no alarm before 3 failures in a row" in two.reason
    # CONTROL: without it the first one rings.
    assert standing_of(connection, live()).severity == "critical"
    late = standing_of(connection, live(alert_after=3, stale_after=HOUR))
    assert (late.stale, late.severity) == (True, "critical"), "it waits for nothing"

    tripped = {"window": WHOLE, "breakers": [{"breaker": "share", "verdict": "tripped"}]}
    insert_record(connection, **failed(1.5, detail=tripped))
    assert standing_of(connection, live(alert_after=9)).severity == "critical", "a breaker"
    insert_record(connection, **failed(1))
    assert standing_of(connection, live(alert_after=4)).severity == "critical", "the fourth"
    assert standing_of(connection, live(alert_after=5)).severity == "ok"


def test_the_next_tick_goes_by_the_clock_of_the_schedule() -> None:
    expected = live(schedule="0 3 * * *", time_zone="Europe/Berlin")
    before = isoparse("2027-03-27T12:00:00Z")
    assert expected.next_tick(before) == isoparse("2027-03-28T01:00:00Z"), "in summer time"
    assert expected.next_tick(isoparse("2027-01-01T12:00:00Z")) == isoparse("2027-01-02T02:00:00Z")


def test_the_second_killed_run_in_a_row_is_critical(
    connection: psycopg.Connection, database_url: str
) -> None:
    killed(Database(database_url))
    assert standing_of(connection, live()).severity == "warning"
    killed(Database(database_url))
    standing = standing_of(connection, live())
    assert (standing.severity, standing.consecutive_failures) == ("critical", 2)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_standing(connection: psycopg.Connection, case: Case) -> None:
    for columns in case.records:
        insert_record(connection, **columns)
    expected = live(mode=case.mode, configured=case.configured, stale_after=case.stale_after)
    standing = standing_of(connection, expected)
    assert (standing.word, standing.severity) == (case.word, case.severity)
    assert (standing.stale, standing.behind) == (case.stale, case.behind)
    assert standing.consecutive_failures == case.failures
    assert case.reason in standing.reason
    assert standing.alarming is (case.severity in ("warning", "critical"))
    ended = [columns["finished_at"] for columns in case.records]
    past = [moment for moment in ended if not isinstance(moment, str) and moment < now()]
    newest = max(past, default=None)
    assert (standing.last_run.finished_at if standing.last_run else None) == newest
    assert (standing.age is None) is (standing.last_success is None)


def test_both_never_run_jobs_raise_with_and_without_a_threshold(
    connection: psycopg.Connection,
) -> None:
    expected = [live(stale_after=HOUR), live(job="audit_seal", by_hand=True)]
    with connection.cursor() as cursor:
        every = standings(cursor, INSTALLATION, expected)
    alarming = [standing for standing in every if standing.alarming]
    assert [standing.job for standing in alarming] == [JOB, "audit_seal"]
    assert [standing.stale for standing in alarming] == [True, None]
    assert "by hand" in alarming[1].reason


@pytest.mark.parametrize(
    ("installed", "schedule", "severity", "reason"),
    [
        ("0 s", "@hourly", "warning", "no run is recorded yet; its next tick is at"),
        # Its tick, and what it takes to start, to end and to be recorded.
        ("2 hours", "@hourly", "critical", "no run is recorded, though its tick has passed"),
        ("2 hours", "0 0 29 2 *", "warning", "UTC, in "),
        ("0 s", None, "critical", "it is run by hand; to start it now: filejobs run "),
    ],
)
def test_a_job_that_never_ran_is_a_warning_until_its_first_tick_has_passed(
    connection: psycopg.Connection,
    installed: str,
    schedule: str | None,
    severity: str,
    reason: str,
) -> None:
    connection.execute(
        "UPDATE filejobs_migration SET applied_at = now() - %s::interval", (installed,)
    )
    cron = None if schedule is None else MACROS.get(schedule, schedule)
    expected = live(stale_after=HOUR, schedule=cron, by_hand=schedule is None)
    standing = standing_of(connection, expected)
    assert (standing.word, standing.severity) == ("never run", severity)
    assert reason in standing.reason
    assert standing.alarming
    assert standing.stale is True, "with a threshold it is stale at once"


def test_while_its_first_run_is_at_work_a_job_is_a_warning(connection: psycopg.Connection) -> None:
    assert standing_of(connection, live(schedule="0 * * * *")).severity == "critical"
    connection.execute(
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder)"
        " VALUES ('r', 'test', %s, 'live', 'ui', 'host 4711')",
        (JOB,),
    )
    assert standing_of(connection, live(schedule="0 * * * *")).severity == "warning"


def test_the_boundary_of_stale_belongs_to_the_threshold(connection: psycopg.Connection) -> None:
    insert_record(connection, finished_at=ago(hours=1))
    age = standing_of(connection, live()).age
    assert age is not None
    assert standing_of(connection, live(stale_after=age - timedelta(seconds=1))).stale is True
    assert standing_of(connection, live(stale_after=age + timedelta(minutes=1))).stale is False


def test_failures_are_counted_up_to_a_bound(connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode,"
        " error) SELECT n::text, 'test', %s, now() - interval '1 day', now() - n * interval '1 s',"
        " 'failed', 'live', 'why' FROM generate_series(1, 1500) AS n",
        (JOB,),
    )
    assert standing_of(connection, live()).consecutive_failures == 1000


def test_an_installation_sees_only_its_own(connection: psycopg.Connection) -> None:
    insert_record(connection, installation="another")
    assert standing_of(connection, live()).word == "never run"
    assert standing_of(connection, live(), "another").word == "ok"


def test_unknown_numbers_stay_unknown(connection: psycopg.Connection) -> None:
    insert_record(connection, scanned=None, acted=None)
    standing = standing_of(connection, live())
    assert standing.last_success is not None
    assert (standing.last_success.scanned, standing.last_success.acted) == (None, None)
    assert standing.reason == "last live run collected unknown"


def test_a_run_at_work_is_shown_and_does_not_change_the_word(
    connection: psycopg.Connection,
) -> None:
    connection.execute(
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder)"
        " VALUES ('r', 'test', %s, 'live', 'ui', 'host 4711')",
        (JOB,),
    )
    standing = standing_of(connection, live())
    assert standing.word == "never run"
    assert standing.running is not None
    assert (standing.running.run_id, standing.running.holder) == ("r", "host 4711")
    connection.execute("UPDATE job_progress SET closed_at = now()")
    assert standing_of(connection, live()).running is None


def test_times_are_told_in_utc_whatever_the_session_says(connection: psycopg.Connection) -> None:
    moment = ago(hours=2)
    insert_record(connection, finished_at=moment)
    connection.execute("SET TimeZone = 'Asia/Kathmandu'")
    standing = standing_of(connection, live())
    assert standing.last_success is not None
    assert standing.last_success.finished_at == moment
    assert f"{moment:%Y-%m-%d %H:%M} UTC" in table([standing])


def test_a_read_only_transaction_is_enough(connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute("SET TRANSACTION READ ONLY")
        assert standing_of(connection, live()).word == "never run"


def test_a_misspelt_job_is_refused_instead_of_never_watched(
    connection: psycopg.Connection,
) -> None:
    with connection.cursor() as cursor, pytest.raises(ValueError, match="upload_reservation"):
        standings(cursor, INSTALLATION, [live(job="upload_reservation")])


def test_control_the_natural_query_drops_what_never_ran_and_what_never_succeeded(
    connection: psycopg.Connection,
) -> None:
    insert_record(connection, job="deleted_files", finished_at=ago(days=9))
    insert_record(connection, job="audit_seal", error="why", finished_at=ago(hours=1))
    natural = connection.execute(
        """
        SELECT job FROM job_run
         GROUP BY job
        HAVING max(finished_at) FILTER (WHERE outcome = 'ok') < now() - interval '1 day'
        """
    ).fetchall()
    expected = [live(job=job, stale_after=DAY) for job in ("deleted_files", "audit_seal", JOB)]
    with connection.cursor() as cursor:
        every = standings(cursor, INSTALLATION, expected)
    ours = {standing.job: standing.word for standing in every if standing.stale}
    assert natural == [("deleted_files",)]
    assert ours == {JOB: "never run", "deleted_files": "stale", "audit_seal": "failed"}


# --- the report ----------------------------------------------------------------------------------


def test_nothing_alarming_is_no_report(connection: psycopg.Connection) -> None:
    insert_record(connection)
    with connection.cursor() as cursor:
        assert alarm_text(standings(cursor, INSTALLATION, [live()])) is None


def test_the_first_line_of_a_report_is_complete_in_itself(connection: psycopg.Connection) -> None:
    insert_record(connection, error="S3 is down\n    with a traceback")
    expected = [live(), live(job="audit_seal")]
    with connection.cursor() as cursor:
        every = standings(cursor, INSTALLATION, expected)
    report = alarm_text(every)
    one = alarm_text([standing for standing in every if standing.job == JOB])
    assert report is not None
    assert one is not None
    first, empty, *rest = report.splitlines()
    assert first == "2 jobs need attention: upload_reservations (failed), audit_seal (never run)"
    assert one.splitlines()[0] == "1 job needs attention: upload_reservations (failed)"
    assert empty == ""
    assert rest[:3] == [
        "upload_reservations: failed",
        "    why: the last run failed: S3 is down",
        "    last success that counts (live): never",
    ]
    assert "audit_seal: never run" in rest
    assert "traceback" not in report


# --- a long history ------------------------------------------------------------------------------


def plan_of(connection: psycopg.Connection, expected: list[Expectation]) -> list[dict[str, Any]]:
    """Every node of the plan of the very statement that `standings` sends."""
    nodes: list[dict[str, Any]] = []

    class Explaining(psycopg.ClientCursor[Any]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Explaining:
            if params and "expected" in query:
                text = self.mogrify(query, params)
                super().execute("EXPLAIN (ANALYZE, FORMAT JSON) " + text)
                for (plan,) in self.fetchall():
                    walk(plan[0]["Plan"])
            return super().execute(query, params, **options)

    def walk(node: dict[str, Any]) -> None:
        nodes.append(node)
        for child in node.get("Plans", []):
            walk(child)

    with Explaining(connection) as cursor:
        standings(cursor, INSTALLATION, expected)
    return nodes


def test_a_hundred_thousand_records_are_not_read(connection: psycopg.Connection) -> None:
    """Years of dry runs of a live job, of sweeps, and of failures before the last sweep."""
    connection.execute(
        """
        INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode,
                             detail, error)
        SELECT n::text, 'test',
               CASE n %% 3 WHEN 0 THEN %(job)s WHEN 1 THEN 'deleted_files' ELSE 'audit_trim' END,
               now() - n * interval '1 minute', now() - n * interval '1 minute',
               CASE WHEN n %% 3 = 2 AND n > 2 THEN 'failed' ELSE 'ok' END,
               CASE n %% 3 WHEN 0 THEN 'dry' ELSE 'live' END,
               '{"window": {"covers": "everything"}}',
               CASE WHEN n %% 3 = 2 AND n > 2 THEN 'why' END
          FROM generate_series(1, 100000) AS n
        """,
        {"job": JOB},
    )
    connection.execute("ANALYZE job_run")
    jobs = [live(), live(job="deleted_files"), live(job="audit_trim")]
    nodes = plan_of(connection, jobs)
    scans = [node for node in nodes if node.get("Relation Name") == "job_run"]
    assert len(scans) == 7
    assert {node["Node Type"] for node in scans} <= {"Index Scan", "Index Only Scan"}
    for node in scans:
        read = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        assert read <= 1000, node
    with connection.cursor() as cursor:
        words = {standing.job: standing.word for standing in standings(cursor, INSTALLATION, jobs)}
    assert (words[JOB], words["deleted_files"], words["audit_trim"]) == ("unknown", "ok", "ok")


def test_a_job_that_changes_nothing_counts_by_its_dry_runs(connection: psycopg.Connection) -> None:
    insert_record(connection, job="audit_verify", mode="dry", scanned=1200, acted=0)
    expected = Expectation("audit_verify", configured=True, mode="dry", stale_after=DAY)
    standing = standing_of(connection, expected)
    assert (standing.word, standing.severity, standing.stale) == ("ok", "ok", False)
    assert standing.reason == "last run looked at 1,200 and found nothing wrong"
    # CONTROL: of a job that can collect, a dry run is told as such.
    insert_record(connection, mode="dry")
    assert standing_of(connection, live(mode="dry")).word == "ok (dry)"


@pytest.mark.parametrize(
    "detail",
    [
        '{"window": null}',
        '{"window": "x"}',
        "[]",
        '{"window": {"covers": "everything"}, "oldest_left": "garbage"}',
        '{"window": {"covers": "everything"}, "oldest_left": 5, "dead_letters": "x"}',
        '{"window": {"covers": "everything"}, "oldest_left": "2026-01-01", "untouched": "many"}',
    ],
)
def test_a_record_that_somebody_else_wrote_does_not_keep_the_watchdog_from_judging(
    connection: psycopg.Connection, detail: str
) -> None:
    """It stands for ever: nobody can correct it."""
    connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, detail)"
        " VALUES ('r', %s, %s, now(), 'ok', 'live', %s)",
        (INSTALLATION, JOB, detail),
    )
    found = standing_of(connection, live(stale_after=HOUR))
    counts = "everything" in detail
    assert (found.word in ("ok", "behind")) == counts
    assert (found.last_success is not None) == counts
    assert table([found])


@pytest.mark.parametrize(
    ("detail", "reason"),
    [
        ('{"a": ' * 2000 + "1" + "}" * 2000, "RecursionError"),
        ("[1, 2]", "ok"),
        ('{"window": {"covers": "everything"}, "oldest_left": "-infinity"}', "ok"),
    ],
    ids=["nested 2,000 deep", "a list", "infinity"],
)
def test_a_record_that_no_reader_can_read_leaves_the_other_jobs_judged(
    connection: psycopg.Connection, detail: str, reason: str
) -> None:
    connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, detail)"
        " VALUES ('r', %s, %s, now(), 'ok', 'live', %s)",
        (INSTALLATION, JOB, detail),
    )
    insert_record(connection, job="deleted_files")
    jobs = [live(), live(job="deleted_files")]
    with connection.cursor() as cursor:
        found = {each.job: each for each in standings(cursor, INSTALLATION, jobs)}
        runs = newest_runs(cursor, INSTALLATION, limit=10)
    assert found["deleted_files"].word == "ok"
    if reason != "ok":
        assert (found[JOB].word, found[JOB].severity) == ("unknown", "unknown")
        assert reason in found[JOB].reason
        assert "run r" in found[JOB].reason
    assert {run.run_id for run in runs} >= {"r"}
