"""upload_cleanup through Dagster: its op, its sensor, its standing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from filejobs_dagster.jobs.upload_cleanup.claims import Due, count_due
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.reconcile import reconcile
from tests.jobs.upload_cleanup.uploads import Uploads
from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

JOB = "upload_cleanup"
SENSOR = "upload_cleanup_due"


@pytest.fixture
def uploads(code: Code) -> Uploads:
    code.installation.document["jobs"] = {
        JOB: {"schedule": "*/15 * * * *", "mode": "live", "max_attempts": 1}
    }
    return Uploads(code.installation)


def test_a_live_run_cleans_and_a_dry_one_only_tells(code: Code, uploads: Uploads) -> None:
    upload = uploads.cancelled(body=b"seven b")

    dry = code.run(JOB)
    assert dry.success
    assert metadata_of(dry)["would_collect"] == 1
    assert uploads.state(upload) == "cleanup"

    live = code.run(JOB, dry_run=False)
    assert live.success
    assert metadata_of(live)["bytes_freed"] == 7
    assert metadata_of(live)["dead_letters"] == 0
    assert uploads.state(upload) == "cleaned"


def test_a_backfill_of_one_day_takes_that_day_only(code: Code, uploads: Uploads) -> None:
    old, new = uploads.stored(), uploads.cancelled()
    uploads.change(old, "state = 'cleanup', collectable_at = '2026-03-05 12:00Z'")

    result = code.run(JOB, partition_key="2026-03-05", dry_run=False)

    assert result.success
    assert (uploads.state(old), uploads.state(new)) == ("cleaned", "cleanup")


def test_config_that_is_out_of_bounds_is_refused_in_sentences(code: Code, uploads: Uploads) -> None:
    upload = uploads.cancelled()
    result = code.run(JOB, dry_run=False, writing_limit="2h", limit=0)
    assert "writing_limit is 2h; it can be 1d to 365d" in failure_of(result)
    assert "limit is 0" in failure_of(result)
    assert uploads.state(upload) == "cleanup"


def test_the_sensor_fires_as_soon_as_something_is_due(code: Code, uploads: Uploads) -> None:
    assert "Nothing is due" in code.sensor(SENSOR).skip_message
    uploads.cancelled()

    [request] = code.sensor(SENSOR).run_requests

    assert request.tags[tags.MODE] == "live"
    assert request.tags[tags.WINDOW] == tags.COVERS_EVERYTHING
    assert request.partition_key is not None


def test_the_sensor_sees_what_storage_has_to_be_asked_about(code: Code, uploads: Uploads) -> None:
    uncertain, silent, retained = uploads.begin(), uploads.begin(), uploads.cancelled()
    uploads.call("mark_uncertain", uncertain.id, "a timeout")
    uploads.change(silent, "activity_at = clock_timestamp() - interval '8 days'")
    uploads.change(
        retained,
        "state = 'retained', retained_until = now() - interval '1 s', next_attempt_at = NULL",
    )
    database = code.installation.database
    with database.connect("due") as connection, database.transaction(connection) as cursor:
        found = count_due(cursor, timedelta(days=7))
    assert found == Due(cleanup=0, uncertain=1, silent=1, retained=1)
    assert code.sensor(SENSOR).run_requests


def test_nothing_is_started_twice_and_not_right_after_a_failure(
    code: Code, uploads: Uploads
) -> None:
    upload = uploads.cancelled()
    job = code.definitions.resolve_job_def(JOB)
    at_work = code.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTED, tags=job.tags
    )
    assert "queued or running" in code.sensor(SENSOR).skip_message
    code.instance.delete_run(at_work.run_id)

    code.installation.execute(
        "INSERT INTO file (state, storage_key) VALUES ('ready', %s)", (upload.key,)
    )
    assert not code.run(JOB, dry_run=False).success
    reconcile(code.instance, code.installation.settings())
    uploads.cancelled()
    assert "has just failed" in code.sensor(SENSOR).skip_message


def test_the_sensor_starts_no_dry_run(code: Code, uploads: Uploads) -> None:
    uploads.cancelled()
    code.installation.document["allow_live"] = False
    assert "dry run" in code.sensor(SENSOR).skip_message
    code.installation.document["allow_live"] = True
    code.installation.document["jobs"][JOB]["mode"] = "dry"
    assert "dry run" in code.sensor(SENSOR).skip_message


def test_a_dead_letter_makes_the_job_behind_although_its_run_went_well(
    code: Code, uploads: Uploads
) -> None:
    kept = uploads.cancelled()
    code.installation.execute(
        "INSERT INTO file (state, storage_key) VALUES ('ready', %s)", (kept.key,)
    )
    uploads.cancelled()
    assert code.run(JOB, dry_run=False).success
    reconcile(code.instance, code.installation.settings())

    with pytest.raises(Exception, match="1 dead letter: given up") as raised:
        code.sensor("job_freshness")
    assert "behind" in str(raised.value)
