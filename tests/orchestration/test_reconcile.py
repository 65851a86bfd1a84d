"""A run that Dagster calls started and that never came to its first sign of life."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg

from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.reconcile import reconcile
from tests.orchestration.conftest import failure_of

if TYPE_CHECKING:
    import pytest

    from tests.orchestration.conftest import Code


def started(code: Code, installation: str = "test") -> str:
    run_id = str(uuid.uuid4())
    code.instance.run_storage.add_run(
        dg.DagsterRun(
            job_name="upload_reservations",
            run_id=run_id,
            status=dg.DagsterRunStatus.STARTED,
            tags={tags.INSTALLATION: installation},
        )
    )
    return run_id


def state(code: Code, run_id: str) -> str:
    run = code.instance.get_run_by_id(run_id)
    assert run is not None
    return run.status.value


def test_it_is_ended_after_long_patience_and_recorded_as_never_started(code: Code) -> None:
    run, others = started(code), started(code, "another")

    patient = reconcile(code.instance, code.installation.settings())
    assert (patient.ended, patient.recorded) == ([], []), "it may only be slow"
    assert state(code, run) == "STARTED"

    done = reconcile(code.instance, code.installation.settings(), silence=timedelta(0))

    assert done.ended == done.recorded == [run]
    assert (state(code, run), state(code, others)) == ("FAILURE", "STARTED")
    [record] = code.installation.records()
    assert (record["outcome"], record["mode"], record["scanned"]) == ("failed", "dry", None)
    assert "no sign of life" in record["error"]


def test_were_it_only_slow_it_finds_its_record_and_deletes_nothing(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    code.installation.reserve("files/a")
    monkeypatch.setattr(
        "filejobs_dagster.orchestration.execution._tag",
        lambda context, *_: reconcile(
            context.instance, code.installation.settings(), silence=timedelta(0)
        ),
    )

    result = code.run(dry_run=False)

    assert not result.success
    assert "given up for dead" in failure_of(result)
    assert code.installation.has_row("files/a")
    assert code.installation.has_object("files/a")
