"""What Dagster loads, with settings of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.settings import read_settings
from tests.orchestration.conftest import failure_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.installation import Installation
    from tests.orchestration.conftest import Code


def test_every_job_of_the_registry_is_a_dagster_job(code: Code) -> None:
    definitions = code.definitions
    dg.Definitions.validate_loadable(definitions)

    names = {job.name for job in definitions.resolve_all_job_defs()}

    assert names >= set(JOB_NAMES)


def test_every_job_carries_the_tags_that_make_it_ours_exclusive_and_bounded(code: Code) -> None:
    job = code.definitions.resolve_job_def("upload_reservations")

    assert job.tags[tags.INSTALLATION] == "test"
    assert job.tags[tags.EXCLUSIVE] == "test/upload_reservations"
    assert int(job.tags[tags.MAX_RUNTIME]) == 40 * 60


def test_all_schedules_and_sensors_are_on_by_default(code: Code) -> None:
    code.installation.job(backlog_over=10)
    definitions = code.definitions

    schedules = list(definitions.schedules or [])
    sensors = list(definitions.sensors or [])

    assert {schedule.name for schedule in schedules} == {"upload_reservations_schedule"}
    assert {sensor.name for sensor in sensors} == {
        "job_freshness",
        "job_standing",
        "job_run_reconciler",
        "job_run_mirror_success",
        "job_run_mirror_failure",
        "job_run_mirror_canceled",
        "upload_reservations_backlog",
    }
    for definition in [*schedules, *sensors]:
        assert definition.default_status.value == "RUNNING", definition.name
        assert definition.description, definition.name


def fields_of(node: Any) -> dict[str, Any]:
    """The config fields of an op, as the Launchpad shows them."""
    fields: dict[str, Any] = node.definition.config_schema.as_field().config_type.fields
    return fields


def test_a_schedule_goes_by_the_clock_that_the_settings_name(code: Code) -> None:
    installation = code.installation
    installation.document["jobs"]["upload_reservations"] = {
        "schedule": "0 3 * * *",
        "time_zone": "Europe/Berlin",
    }
    installation.write()
    schedule = build_definitions(installation.loaded()).get_schedule_def(
        "upload_reservations_schedule"
    )
    assert (schedule.cron_schedule, schedule.execution_timezone) == ("0 3 * * *", "Europe/Berlin")


def test_each_job_op_and_config_field_is_described(code: Code) -> None:
    for name in JOB_NAMES:
        job = code.definitions.resolve_job_def(name)
        assert job.description
        for node in job.nodes:
            assert node.definition.description
            fields = fields_of(node)
            assert fields["dry_run"].default_value is True
            assert all(field.description for field in fields.values())


def test_the_launchpad_shows_the_operators_limits_as_defaults(code: Code) -> None:
    code.installation.job(limit=77, batch_size=7, grace="10m", max_runtime="5m")

    [node] = code.definitions.resolve_job_def("upload_reservations").nodes
    fields = fields_of(node)

    shown = {name: fields[name].default_value for name in fields}
    assert shown == {
        "dry_run": True,
        "limit": 77,
        "batch_size": 7,
        "grace": "10m",
        "max_runtime": "5m",
        "count_bytes": True,
    }


def test_broken_settings_still_load_and_the_jobs_refuse_with_every_mistake(code: Code) -> None:
    code.installation.document["buckets"]["uploads"]["owns"] = ["files"]
    code.installation.job(stale_after=7200)
    code.installation.reserve("files/a")
    code.adopted = False

    definitions = code.definitions
    dg.Definitions.validate_loadable(definitions)
    result = code.run(dry_run=False)

    assert not result.success
    said = failure_of(result)
    assert "buckets.uploads.owns[0]" in said
    assert "jobs.upload_reservations.stale_after" in said
    assert code.installation.has_object("files/a")
    assert code.installation.has_row("files/a")
    assert code.installation.progress() == []


def test_with_broken_settings_the_watchdog_is_there_and_raises_them(code: Code) -> None:
    code.installation.document["typo"] = 1

    with pytest.raises(Exception, match="typo"):
        code.sensor("job_freshness")


def test_a_job_that_does_not_stand_in_the_settings_refuses(code: Code) -> None:
    code.installation.document["jobs"] = {}

    result = code.run()

    assert not result.success
    assert "does not stand under `jobs:`" in failure_of(result)


def test_resources_show_the_name_of_a_variable_and_never_its_value(
    installation: Installation, code: Code
) -> None:
    resources = code.definitions.resources or {}

    shown = str(resources["bucket_uploads"].description)

    assert "FILEJOBS_S3_SECRET_ACCESS_KEY" in shown
    assert installation.environment["FILEJOBS_S3_SECRET_ACCESS_KEY"] not in shown


def test_a_missing_file_still_loads(tmp_path: Path) -> None:
    loaded = read_settings(tmp_path / "nothing.yaml", {})

    dg.Definitions.validate_loadable(build_definitions(loaded))
