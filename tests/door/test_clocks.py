"""Which clocks are compared, what is said of them, and when a run is let in."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.door import clocks
from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.door.clocks import Clocks, proven_now
from filejobs_dagster.door.guard import BucketAt, Look, Refusal
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.listing import ListingFailed, read_server_date
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.registry import JOBS
from tests.installation import make_installation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from tests.installation import Installation

MONTH = timedelta(days=31)
MARKER_KEY = "filejobs-adopted/test.json"


def now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    return make_installation(tmp_path, database_url, bucket, s3_client, s3_server)


@pytest.fixture
def at(installation: Installation) -> Iterator[Look]:
    """What a run sees that deletes objects from the one bucket."""
    settings = installation.settings()
    bucket = settings.buckets["uploads"]
    with installation.database.connect("test") as connection:
        yield Look(
            settings=settings,
            touches=frozenset({"objects"}),
            database=installation.database,
            connection=connection,
            buckets=(BucketAt("uploads", bucket, make_client(bucket), deletes=True),),
            log=logging.getLogger("clocks"),
        )


def without_bytes(at: Look, *, buckets: bool = True) -> Look:
    """The same for a run that deletes no bytes."""
    seen = tuple(BucketAt(it.entry, it.settings, it.client, deletes=False) for it in at.buckets)
    return Look(
        at.settings,
        frozenset({"rows"}),
        at.database,
        at.connection,
        seen if buckets else (),
        at.log,
    )


def shifted(
    monkeypatch: pytest.MonkeyPatch,
    *,
    database: timedelta = timedelta(0),
    bucket: timedelta = timedelta(0),
) -> None:
    """Let clocks say another time."""
    monkeypatch.setattr(clocks, "database_now", lambda cursor: database_now(cursor) + database)

    def bucket_says(client: S3Client, name: str) -> datetime:
        date = read_server_date(client, name)
        assert date is not None
        return date + bucket

    monkeypatch.setattr(clocks, "read_server_date", bucket_says)


def refused(guard: Clocks, at: Look) -> str:
    with pytest.raises(Refusal) as caught:
        guard.look(at)
    return str(caught.value)


def test_whatever_a_job_touches_its_clocks_are_compared() -> None:
    for job in JOBS:
        assert job.read_only or job.touches <= Clocks.protects, job.name


def test_clocks_that_agree_are_all_named(at: Look) -> None:
    said = Clocks().look(at)
    assert f"by the database it is {now():%Y-%m-%d}" in said
    assert "this machine 0.0 s apart" in said
    assert f"the server of bucket {at.buckets[0].settings.bucket!r} 0.0 s apart" in said


@pytest.mark.parametrize(("seconds", "said"), [(50, 0), (70, 1), (-70, 1), (290, 1)])
def test_clocks_that_are_near_enough_and_not_the_same_are_worth_a_word(
    at: Look,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    seconds: int,
    said: int,
) -> None:
    shifted(monkeypatch, bucket=timedelta(seconds=seconds))
    found = Clocks().look(at)
    assert [line.count("synchronise both clocks") for line in caplog.messages] == [1] * said
    assert found.count("synchronise both clocks") == said


@pytest.mark.parametrize(
    ("wrong", "moved"),
    [("the database", {"database": MONTH}), ("the server of bucket", {"bucket": -MONTH})],
)
def test_the_one_clock_that_differs_from_two_others_is_named_with_all_times(
    at: Look, monkeypatch: pytest.MonkeyPatch, wrong: str, moved: dict[str, timedelta]
) -> None:
    shifted(monkeypatch, **moved)
    said = refused(Clocks(), at)
    [(other, by)] = moved.items()
    times = {"database": now(), "bucket": now(), "here": now()} | {other: now() + by}
    assert f"by the database it is {times['database']:%Y-%m-%d}" in said
    assert f"by this machine it is {times['here']:%Y-%m-%d}" in said
    assert f"{at.buckets[0].settings.bucket!r} it is {times['bucket']:%Y-%m-%d}" in said
    assert said.count(" UTC") >= 3
    assert f"most likely the clock of {wrong}" in said
    assert "Nothing was touched." in said


def test_this_machine_is_named_when_it_is_the_one(at: Look) -> None:
    said = refused(Clocks(lambda: now() + timedelta(minutes=6)), at)
    assert "most likely the clock of this machine that is wrong" in said


def test_two_clocks_do_not_tell_which_of_them_is_wrong(at: Look) -> None:
    said = refused(Clocks(lambda: now() - MONTH), without_bytes(at, buckets=False))
    assert "do not tell which of them is wrong" in said


@pytest.mark.parametrize("minutes", [-4, 4])
def test_four_minutes_are_tolerated(at: Look, minutes: int) -> None:
    said = Clocks(lambda: now() + timedelta(minutes=minutes)).look(at)
    assert "this machine 2" in said, "seconds"


def test_a_slow_answer_is_no_difference() -> None:
    """The answer came at some moment between question and answer."""
    late = clocks.Reading("slow", now() + timedelta(minutes=10), 0.0, 900.0)
    quick = clocks.Reading("quick", now(), 0.0, 0.0)
    assert late.agrees(quick)
    assert quick.agrees(late)
    far = clocks.Reading("far", now() + timedelta(minutes=21), 0.0, 900.0)
    assert not far.agrees(quick)
    assert not quick.agrees(far)


# Buckets that do not answer ---------------------------------------------------------------------


def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> datetime:
        raise ListingFailed("Bucket 'acme' did not say what time it is: timeout.")

    monkeypatch.setattr(clocks, "read_server_date", fails)


def test_a_bucket_that_does_not_answer_refuses_whoever_deletes_there_and_nobody_else(
    at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent(monkeypatch)
    assert "did not say what time it is" in refused(Clocks(), at)
    assert "bucket uploads was not asked" in Clocks().look(without_bytes(at))


def test_a_server_without_a_clock_refuses_whoever_deletes_there_and_nobody_else(
    at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "read_server_date", lambda *_: None)
    assert "its answers have no Date" in refused(Clocks(), at)
    assert "its answers have no Date" in Clocks().look(without_bytes(at))


# Our own past -----------------------------------------------------------------------------------

RECORDED = {
    "run r-1 of deleted_files": (
        "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode)"
        " VALUES ('r-1', 'test', 'deleted_files', now(), now() + %s, 'ok', 'live')"
    ),
    "the sign of life of run r-2 of audit_seal": (
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder, heartbeat_at)"
        " VALUES ('r-2', 'test', 'audit_seal', 'live', 'cli', 'x', now() + %s)"
    ),
    "the adoption of bucket acme": (
        "INSERT INTO bucket_adoption (endpoint, bucket, installation, counter, adopted_at,"
        " adopted_by) VALUES ('AWS', 'acme', 'test', 1, now() + %s, 'x')"
    ),
    "the newest event of the audit chain collectors": (
        "INSERT INTO audit_chain (chain_id, genesis, head_seq, head_hash, head_at)"
        " VALUES ('collectors', sha256('x'), 0, sha256('x'), now() + %s)"
    ),
}


def test_a_record_that_ends_at_infinity_is_one_of_the_future(
    installation: Installation, at: Look
) -> None:
    installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode)"
        " VALUES ('r-1', 'test', 'deleted_files', now(), 'infinity', 'ok', 'live')"
    )
    said = refused(Clocks(), without_bytes(at, buckets=False))
    assert "a record of the future stands there" in said
    assert "(run r-1 of deleted_files) is of 9999-12-30" in Clocks().look(at)


@pytest.mark.parametrize("what", RECORDED)
def test_a_record_of_the_future_is_named_and_refuses_where_no_third_clock_speaks_against_it(
    installation: Installation, at: Look, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    installation.execute(RECORDED[what], (MONTH,))
    said = refused(Clocks(), without_bytes(at, buckets=False))
    assert "the clock went back or a record of the future stands there" in said
    assert f"our newest record ({what}) is of {now() + MONTH:%Y-%m-%d}" in said
    # With three clocks that agree it is the record that is wrong, and it must stop nobody for a
    # month: nothing can remove it.
    with caplog.at_level(logging.WARNING):
        let_in = Clocks().look(at)
    assert f"({what}) is of" in let_in
    assert "in the future by all 3 clocks" in caplog.text


def test_after_a_pause_of_a_year_clocks_that_agree_let_everybody_in(
    installation: Installation, at: Look
) -> None:
    installation.execute(RECORDED["run r-1 of deleted_files"], (timedelta(days=-365),))
    assert "by the database it is" in Clocks().look(at)
    assert "by the database it is" in Clocks().look(without_bytes(at, buckets=False))


def test_a_refusal_gives_the_newest_record_for_comparison(
    installation: Installation, at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.execute(RECORDED["run r-1 of deleted_files"], (timedelta(days=-1),))
    shifted(monkeypatch, database=MONTH)
    said = refused(Clocks(), without_bytes(at, buckets=False))
    assert f"is of {now() - timedelta(days=1):%Y-%m-%d}" in said


# What an object is dated to that was written a moment ago ---------------------------------------


def dates_moved(at: Look, operation: str, change: Callable[[dict[str, Any]], None]) -> None:
    """The server answers with other dates of objects; its own Date stays right."""

    def moved(parsed: dict[str, Any], **_: object) -> None:
        change(parsed)

    at.buckets[0].client.meta.events.register(f"after-call.s3.{operation}", moved)


def local_time(parsed: dict[str, Any]) -> None:
    parsed["LastModified"] -= timedelta(hours=8)


def local_time_in_lists(parsed: dict[str, Any]) -> None:
    for entry in parsed["Contents"]:
        entry["LastModified"] -= timedelta(hours=8)


def counted(installation: Installation, at: Look) -> None:
    installation.adopt()
    at.counted.add("uploads")


def test_a_marker_dated_to_now_lets_the_run_in(installation: Installation, at: Look) -> None:
    counted(installation, at)
    Clocks().enter(at)
    head = at.buckets[0].client.head_object(Bucket=installation.bucket, Key=MARKER_KEY)
    assert abs(head["LastModified"] - now()) < timedelta(minutes=5)


@pytest.mark.parametrize(
    ("operation", "change", "where"),
    [
        ("HeadObject", local_time, "HEAD"),
        ("ListObjectsV2", local_time_in_lists, "the listing"),
        ("HeadObject", lambda parsed: parsed.pop("LastModified"), "HEAD"),
    ],
)
def test_a_server_that_calls_its_local_time_utc_is_noticed_by_the_marker(
    installation: Installation,
    at: Look,
    operation: str,
    change: Callable[[dict[str, Any]], None],
    where: str,
) -> None:
    counted(installation, at)
    dates_moved(at, operation, change)
    with pytest.raises(Refusal, match=f"a moment ago.* and {where} says") as caught:
        Clocks().enter(at)
    assert "set its time zone to UTC" in str(caught.value)


def test_control_its_date_alone_shows_nothing_of_it(installation: Installation, at: Look) -> None:
    counted(installation, at)
    dates_moved(at, "HeadObject", local_time)
    dates_moved(at, "ListObjectsV2", local_time_in_lists)
    assert "apart" in Clocks().look(at)


def test_a_marker_that_cannot_be_seen_refuses(installation: Installation, at: Look) -> None:
    counted(installation, at)
    installation.client.delete_object(Bucket=installation.bucket, Key=MARKER_KEY)
    with pytest.raises(Refusal, match="which this run has just written"):
        Clocks().enter(at)


# A jump in the middle ---------------------------------------------------------------------------


@pytest.mark.parametrize("by", [MONTH, -MONTH, timedelta(minutes=6)])
def test_a_clock_that_jumps_while_a_run_works_stops_it(
    at: Look, monkeypatch: pytest.MonkeyPatch, by: timedelta
) -> None:
    guard = Clocks()
    guard.look(at)
    guard.prove(at)
    shifted(monkeypatch, database=by)
    with pytest.raises(Refusal, match="A clock jumped while this run worked") as caught:
        guard.prove(at)
    assert f"by the database it is {now() + by:%Y-%m-%d}" in str(caught.value)


def test_the_moment_of_a_run_does_not_jump_with_the_clock(
    at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert proven_now(at) is None
    Clocks().look(at)
    shifted(monkeypatch, database=MONTH)
    moment = proven_now(at)
    assert moment is not None
    assert abs(moment - now()) < timedelta(minutes=5)


def test_what_was_doubted_is_not_the_moment_of_a_run(
    at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    shifted(monkeypatch, database=MONTH)
    refused(Clocks(), at)
    assert proven_now(at) is None


# All of them jump -------------------------------------------------------------------------------


def all_shifted(monkeypatch: pytest.MonkeyPatch, by: timedelta) -> Clocks:
    """Everything is on one machine, and that one's clock jumps."""
    shifted(monkeypatch, database=by, bucket=by)
    return Clocks(lambda: now() + by)


def expected_hourly(at: Look) -> Look:
    jobs = {
        name: job.model_copy(update={"stale_after": timedelta(hours=2)})
        for name, job in at.settings.jobs.items()
    }
    return replace(at, settings=at.settings.model_copy(update={"jobs": jobs}))


def recorded(
    installation: Installation,
    *runs: tuple[timedelta, str, str],
    began: timedelta | None = None,
) -> None:
    """Runs that ended so far from now, with their mode and outcome."""
    for since, mode, outcome in runs:
        installation.execute(
            "INSERT INTO job_run (job, run_id, installation, started_at, finished_at, outcome,"
            " mode, error) SELECT 'run_history', gen_random_uuid(), 'test', now() + %s, now() + %s,"
            " %s, %s, CASE WHEN %s = 'failed' THEN 'refused' END",
            (since if began is None else began, since, outcome, mode, outcome),
        )


def test_clocks_that_all_jump_by_a_month_are_refused_until_somebody_says_that_it_is_the_time(
    installation: Installation, at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.adopt()
    recorded(installation, (timedelta(0), "live", "ok"))
    watched = expected_hourly(at)
    assert "apart" in all_shifted(monkeypatch, timedelta(days=13)).look(watched)
    for by in (MONTH, timedelta(days=365)):
        said = refused(all_shifted(monkeypatch, by), watched)
        assert "all clocks jumped together" in said
        assert f"{now() + by:%Y-%m-%d}" in said
        assert clocks.THE_TIME_IS_RIGHT in said
        # Who was refused is on record with that time, and so is a dry run: neither opens the door.
        recorded(installation, (by, "live", "failed"), (by, "dry", "ok"))
        assert "all clocks jumped together" in refused(all_shifted(monkeypatch, by), watched)

    # CONTROL: clocks that are only compared with each other let it in.
    assert "apart" in all_shifted(monkeypatch, MONTH).look(at)


def test_clocks_that_all_jump_while_a_run_works_are_not_proven_by_its_good_end(
    installation: Installation, at: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was let in before, and found nothing to do afterwards, so that nothing asked again."""
    installation.adopt()
    watched = expected_hourly(at)
    recorded(installation, (timedelta(0), "live", "ok"))
    # CONTROL: one that began and ended today is a proof.
    assert "apart" in Clocks().look(watched)
    recorded(installation, (MONTH, "live", "ok"), began=timedelta(minutes=1))
    said = refused(all_shifted(monkeypatch, MONTH + timedelta(minutes=15)), watched)
    assert "all clocks jumped together" in said


def test_whoever_says_that_the_time_is_right_ends_the_silence(
    installation: Installation, at: Look
) -> None:
    installation.adopt()
    installation.execute("UPDATE bucket_adoption SET adopted_at = now() - interval '30 days'")
    watched = expected_hourly(at)
    assert "nothing ran for 30d" in refused(Clocks(), watched)
    place = AdoptionTarget.of(
        at.settings,
        at.buckets[0].settings,
        at.buckets[0].client,
        at.database,
        at.connection,
    )
    adopt(place, by="the test", again="we were on holiday")
    assert "apart" in Clocks().look(watched)


@pytest.mark.parametrize(("every", "refuses"), [(7, False), (20, True)])
def test_months_of_dry_runs_are_no_silence(
    installation: Installation, at: Look, every: int, *, refuses: bool
) -> None:
    installation.adopt()
    installation.execute("UPDATE bucket_adoption SET adopted_at = now() - interval '60 days'")
    recorded(installation, *((timedelta(days=-ago), "dry", "ok") for ago in range(0, 60, every)))
    watched = expected_hourly(at)
    if refuses:
        assert "nothing ran for 20d" in refused(Clocks(), watched)
    else:
        assert "apart" in Clocks().look(watched)
