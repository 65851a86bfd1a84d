"""Runs through Dagster: modes, windows, refusals, what the run's page shows, the record."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from dagster._core.events import EngineEventData
from dagster_shared.error import SerializableErrorInfo

from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.ledger.swept_days import swept_days
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.reconcile import reconcile
from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

TODAY = datetime.now(timezone.utc).date().isoformat()


def record(code: Code) -> dict[str, Any]:
    """Mirror everything and return the newest row of job_run."""
    reconcile(code.instance, code.installation.settings(), silence=timedelta(0))
    return code.installation.records()[-1]


def test_a_run_without_any_config_is_dry(code: Code) -> None:
    code.installation.reserve("files/a")

    result = code.run()

    assert result.success
    assert metadata_of(result)["mode"] == "dry"
    assert metadata_of(result)["would_collect"] == 1
    assert code.installation.has_object("files/a")
    assert record(code)["mode"] == "dry"


def test_dry_run_false_and_nothing_else_goes_live(code: Code) -> None:
    code.installation.reserve("files/a", body=b"123")

    result = code.run(dry_run=False)

    assert result.success
    shown = metadata_of(result)
    assert (shown["mode"], shown["scanned"], shown["acted"], shown["bytes_freed"]) == (
        "live", 1, 1, 3,
    )  # fmt: skip
    assert shown["stopped_reason" if shown.get("stopped_reason") else "truncated"] is False
    row = record(code)
    assert (row["outcome"], row["mode"], row["acted"]) == ("ok", "live", 1)
    assert row["detail"]["trigger"] == {"kind": "cli", "name": None}


@pytest.mark.parametrize(
    ("allow_live", "config", "tag", "mode", "reason"),
    [
        (True, {}, None, "dry", False),
        (True, {}, "live", "live", False),
        (True, {}, "dry", "dry", False),
        (True, {"dry_run": False}, None, "live", False),
        (True, {"dry_run": True}, "live", "dry", True),
        (True, {"dry_run": False}, "dry", "live", True),
        (False, {"dry_run": False}, None, "dry", True),
        (False, {}, "live", "dry", True),
    ],
)
def test_who_decides_the_mode(
    code: Code, allow_live: bool, config: dict[str, Any], tag: str | None, mode: str, reason: bool
) -> None:
    code.installation.document["allow_live"] = allow_live
    code.installation.reserve("files/a")

    result = code.run(tags={tags.MODE: tag} if tag else None, **config)

    assert result.success
    row = record(code)
    assert row["mode"] == mode
    assert ("mode_reason" in row["detail"]) == reason
    assert code.installation.has_object("files/a") == (mode == "dry")


@pytest.mark.parametrize("job", [None, "upload_reservations", "deleted_files"])
def test_a_run_under_a_hold_is_dry_and_says_who_holds_it(code: Code, job: str | None) -> None:
    code.installation.reserve("files/a")
    code.installation.execute(
        "INSERT INTO hold (installation, job, held_by, why)"
        " VALUES (%s, %s, 'ada@desk', 'files gone')",
        (code.installation.settings().installation, job),
    )

    result = code.run(dry_run=False)

    assert result.success
    row = record(code)
    # CONTROL: a hold of another job is none.
    assert row["mode"] == ("live" if job == "deleted_files" else "dry")
    assert code.installation.has_object("files/a") == (job != "deleted_files")
    if job != "deleted_files":
        assert "is held by ada@desk since" in row["detail"]["mode_reason"]
        assert row["detail"]["mode_reason"].endswith("files gone")


@pytest.mark.parametrize("said", [False, "perhaps"], ids=["forbidden", "a mistake"])
def test_a_file_that_was_edited_since_the_code_server_read_it_makes_no_run_livelier(
    code: Code, said: object
) -> None:
    code.installation.document["allow_live"] = said
    job = code.definitions.resolve_job_def("upload_reservations")
    assert job.tags[tags.ALLOW_LIVE] == "false"
    code.installation.document["allow_live"] = True
    code.installation.reserve("files/a")

    asked = {name: job.tags.get(name, "") for name in (tags.ALLOW_LIVE, tags.SETTINGS)}
    result = code.run(dry_run=False, tags=asked)

    assert result.success
    row = record(code)
    assert row["mode"] == "dry"
    assert "reload the code location" in row["detail"]["mode_reason"]
    # Which file the run has read stands in its record, and which the code server in its tags.
    assert row["detail"]["settings"] == code.installation.settings().digest
    assert row["detail"]["settings"] != job.tags.get(tags.SETTINGS)
    # CONTROL: what the code server reads now lets it run.
    assert tags.ALLOW_LIVE not in code.definitions.resolve_job_def("upload_reservations").tags
    assert code.run(dry_run=False).success
    assert not code.installation.has_object("files/a")


def test_an_unknown_mode_refuses_before_anything_is_touched(code: Code) -> None:
    code.installation.reserve("files/a")

    result = code.run(tags={tags.MODE: "Live"}, limit=1)

    assert not result.success
    assert "can be 'dry' or 'live'" in failure_of(result)
    assert code.installation.has_object("files/a")
    row = record(code)
    assert (row["outcome"], row["mode"], row["scanned"]) == ("failed", "dry", None)
    assert "can be 'dry' or 'live'" in row["error"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"limit": 0}, "limit is 0; it can be 1 to 1,000,000"),
        ({"batch_size": 1001}, "batch_size is 1,001; it can be 1 to 1,000"),
        ({"grace": "90"}, "unit"),
        ({"grace": "31d"}, "grace is 31d; it can be 0s to 30d"),
        ({"max_runtime": "2 hours"}, "2 hours"),
    ],
)
def test_a_config_that_a_person_gets_wrong_is_refused_before_anything_is_touched(
    code: Code, config: dict[str, Any], said: str
) -> None:
    code.installation.reserve("files/a")

    result = code.run(dry_run=False, **config)

    assert not result.success
    assert said in failure_of(result)
    assert code.installation.has_row("files/a")
    assert "Nothing was touched" in failure_of(result)
    assert code.installation.progress() == []
    row = record(code)
    assert row["outcome"] == "failed"
    assert row["error"].startswith("Ended before anything was touched")
    assert said in row["error"]


@pytest.mark.parametrize("config", [{"dry_run": "false"}, {"limt": 3}, {"limit": "many"}])
def test_a_config_that_does_not_fit_the_schema_starts_no_run(
    code: Code, config: dict[str, Any]
) -> None:
    code.installation.reserve("files/a")

    with pytest.raises(Exception, match="Error in config"):
        code.run(**config)

    assert code.installation.has_object("files/a")
    assert code.instance.get_runs_count() == 0


def test_a_partition_takes_its_day_only(code: Code) -> None:
    code.installation.reserve("files/long ago", due_ago=timedelta(days=3))
    code.installation.reserve("files/now", due_ago=timedelta(microseconds=1))

    day = (datetime.now(timezone.utc) - timedelta(days=3)).date().isoformat()
    result = code.run(partition_key=day, dry_run=False)

    assert result.success
    assert code.installation.keys() == {"files/now"}
    assert record(code)["detail"]["window"]["covers"] == day


def test_a_scheduled_run_carries_today_and_takes_everything_due(code: Code) -> None:
    code.installation.reserve("files/long ago", due_ago=timedelta(days=400))

    result = code.run(
        partition_key=TODAY,
        tags={
            tags.MODE: "live",
            tags.WINDOW: tags.COVERS_EVERYTHING,
            "dagster/schedule_name": "upload_reservations_schedule",
        },
    )

    assert result.success
    assert code.installation.keys() == set()
    row = record(code)
    assert row["detail"]["window"] == {"covers": "everything"}
    assert row["detail"]["trigger"] == {"kind": "schedule", "name": "upload_reservations_schedule"}


def painted(code: Code) -> set[str]:
    """The days that the Partitions tab shows as done."""
    wanted = dg.RunsFilter(tags={"dagster/partition_set": "upload_reservations_partition_set"})
    return {
        data.partition
        for data in code.instance.run_storage.get_run_partition_data(wanted)
        if data.status.value == "SUCCESS"
    }


def test_only_a_live_run_that_left_nothing_paints_its_day(code: Code) -> None:
    for key, day in (("files/1", "01"), ("files/2", "02"), ("files/3", "02")):
        code.installation.execute(
            "INSERT INTO file (storage_key, upload_expires_at) VALUES (%s, %s)",
            (key, f"2026-03-{day}T12:00:00Z"),
        )

    assert code.run(partition_key="2026-03-01").success
    assert painted(code) == set()
    assert code.run(partition_key="2026-03-02", dry_run=False, limit=1).success
    assert painted(code) == set()
    assert code.run(partition_key="2026-03-01", dry_run=False).success
    assert painted(code) == {"2026-03-01"}


def test_storage_that_refuses_everything_fails_the_run_and_is_not_a_success(code: Code) -> None:
    code.installation.reserve("files/a")
    code.installation.document["buckets"]["uploads"]["endpoint_url"] = "http://127.0.0.1:9"

    result = code.run(dry_run=False)

    assert not result.success
    assert code.installation.has_row("files/a")
    row = record(code)
    assert row["outcome"] == "failed"
    assert row["scanned"] is None


def test_no_secret_reaches_the_record_the_error_or_the_metadata(code: Code) -> None:
    secret = "s3cr3t-of-the-database"
    url = code.installation.database_url.replace("postgres@", f"postgres:{secret}@", 1)
    assert secret in url
    code.installation.database_url = url
    code.installation.execute("DROP TABLE file CASCADE")
    code.installation.execute("ALTER ROLE postgres SET lock_timeout = DEFAULT")

    result = code.run(dry_run=False)

    assert not result.success
    assert secret not in str(result.all_events)
    assert secret not in str(code.instance.all_logs(result.run_id))
    assert secret not in str(record(code))


def test_the_catalog_plots_numbers_and_only_a_sweep_is_a_materialization(code: Code) -> None:
    code.installation.reserve("files/a", body=b"123")
    code.installation.reserve("files/b", body=b"123")

    kinds = [
        [
            event.event_type_value
            for event in result.all_events
            if "ASSET_" in event.event_type_value
        ]
        for result in (code.run(), code.run(dry_run=False, limit=1), code.run(dry_run=False))
    ]

    assert kinds == [["ASSET_OBSERVATION"], ["ASSET_OBSERVATION"], ["ASSET_MATERIALIZATION"]]
    event = code.instance.get_latest_materialization_event(dg.AssetKey("upload_reservations"))
    assert event is not None
    assert event.asset_materialization is not None
    plotted = event.asset_materialization.metadata
    assert plotted["acted"].value == 1
    assert plotted["bytes_freed"].value == 3


def test_the_list_of_runs_tells_dry_from_live(code: Code) -> None:
    code.run()
    code.run(dry_run=False)

    shown = sorted(run.tags[tags.EFFECTIVE_MODE] for run in code.instance.get_runs())
    assert shown == ["dry", "live"]


def test_a_run_may_have_more_time_than_the_settings_say(code: Code) -> None:
    result = code.run(max_runtime="2h")

    run = code.instance.get_run_by_id(result.run_id)
    assert run is not None
    assert run.tags[tags.MAX_RUNTIME] == str(2 * 3600 + 600)


def test_no_bucket_and_no_secret_can_be_set_in_the_launchpad(code: Code) -> None:
    job = code.definitions.resolve_job_def("upload_reservations")

    with pytest.raises(Exception, match="Error in config"):
        job.execute_in_process(
            run_config={"resources": {"bucket_uploads": {"config": {"bucket": "other"}}}},
            instance=code.instance,
        )

    assert code.instance.get_runs_count() == 0


def test_a_dry_run_that_a_person_got_wrong_does_not_make_a_live_job_failed(code: Code) -> None:
    code.installation.job(stale_after="2h")
    assert code.run(dry_run=False).success
    assert not code.run(limit=0).success
    record(code)

    assert "stands as it should" in code.sensor("job_freshness").skip_message


def test_a_scheduled_run_that_never_started_makes_its_job_failed(code: Code) -> None:
    code.installation.job(stale_after="2h")
    assert code.run(dry_run=False).success
    assert not code.run(limit=0, tags={"dagster/schedule_name": "x"}).success
    record(code)

    with pytest.raises(Exception, match="failed"):
        code.sensor("job_freshness")


def test_the_record_of_a_run_that_could_not_begin_says_what_dagster_met(code: Code) -> None:
    job = code.definitions.resolve_job_def("upload_reservations")
    run = code.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTING, tags={**job.tags, "filejobs/mode": "live"}
    )
    met = SerializableErrorInfo("Tried to start a run after telling it to shut down", [], None)
    said = "Caught an unrecoverable error while dequeuing the run"
    code.instance.report_engine_event(said, run, EngineEventData.engine_error(met))
    code.instance.report_run_failed(run)
    error = record(code)["error"]
    assert said in error
    assert "after telling it to shut down" in error


def test_a_run_that_was_ended_by_force_stops_at_its_next_proof(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process lives on, and nobody has mirrored anything yet."""
    for number in range(3):
        code.installation.reserve(f"files/{number}")
    read, pages = Collection._read, []

    def read_and_be_ended(self: Collection, *arguments: Any) -> Any:
        pages.append(self)
        if len(pages) == 2:
            run = code.instance.get_run_by_id(self._context.identity.run_id)
            assert run is not None
            code.instance.report_run_canceled(run)
        return read(self, *arguments)

    monkeypatch.setattr(Collection, "_read", read_and_be_ended)
    result = code.run(dry_run=False, batch_size=1)

    assert "was ended from outside" in failure_of(result)
    assert len(code.installation.keys() & {"files/0", "files/1", "files/2"}) == 2
    assert code.installation.value("SELECT count(*) FROM file WHERE state = 'pending'") == 2
    assert code.installation.records() == []


def test_a_day_stays_unpainted_while_another_session_holds_one_of_its_rows(code: Code) -> None:
    day = (datetime.now(timezone.utc) - timedelta(days=3)).date()
    code.installation.reserve("files/free", due_ago=timedelta(days=3))
    held = code.installation.reserve("files/held", due_ago=timedelta(days=3))

    with psycopg.connect(code.installation.database_url) as other:
        other.execute("SELECT FROM file WHERE id = %s FOR UPDATE", (held,))
        result = code.run(partition_key=day.isoformat(), dry_run=False)
        assert result.success
        assert metadata_of(result)["acted"] == 1

        assert painted(code) == set()
        assert record(code)["detail"]["classes"]["held by another session"] == 1
        assert missing(code, day) == (day,)

    assert code.run(partition_key=day.isoformat(), dry_run=False).success
    record(code)
    assert painted(code) == {day.isoformat()}
    assert missing(code, day) == ()


def missing(code: Code, day: date) -> tuple[date, ...]:
    """The day, unless `job_run` calls it swept."""
    with psycopg.connect(code.installation.database_url) as connection:
        swept = swept_days(connection.cursor(), "test", "upload_reservations", [day])
    return swept.missing([day])
