"""Who started a run, as the place that submits it and the run itself can know it."""

from __future__ import annotations

import getpass
import shutil
import socket
import uuid
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import yaml
from dagster._core.errors import DagsterInvalidConfigError
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_origin import (
    GrpcServerCodeLocationOrigin,
    RemoteJobOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.run_coordinator.base import SubmitRunContext
from dagster._core.workspace.context import WorkspaceRequestContext
from dagster._core.workspace.workspace import CurrentWorkspace
from dagster_graphql.implementation.execution import terminate_pipeline_execution
from dagster_graphql.schema.roots.mutation import GrapheneTerminateRunPolicy
from starlette.requests import Request

from filejobs_dagster.ledger.outcome import StartedBy
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.attribution import (
    LONGEST_NAME,
    AttributingRunCoordinator,
    cleaned,
    named_in_tags,
    started_by,
    this_process,
)
from filejobs_dagster.orchestration.draining import holds, pause, pause_of, resume
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.orchestration.runs import finished_run, records_of
from tests.orchestration.conftest import failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestration.conftest import Code

CHECKOUT = Path(__file__).parents[2]
HEADER = "X-Forwarded-User"
ME = StartedBy(getpass.getuser(), socket.gethostname(), "process")
TYPED = {tags.STARTED_BY: "mallory", tags.STARTED_HOW: "proxy header"}


@pytest.fixture(params=[HEADER])
def instance(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """An instance of the shipped dagster.yaml on files, with or without the header."""
    document = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    del document["storage"]
    document["run_coordinator"]["config"] |= {"user_header": request.param}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(document))
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    with dg.DagsterInstance.from_config(str(tmp_path)) as made:
        yield made


def submitted(
    instance: dg.DagsterInstance, headers: dict[str, str] | None, **more: str
) -> dg.DagsterRun:
    """A run as it stands in the queue: over HTTP with these headers, or from this process."""
    server = GrpcServerCodeLocationOrigin("127.0.0.1", 1, None, "filejobs")
    origin = RemoteJobOrigin(RemoteRepositoryOrigin(server, "__repository__"), "run_history")
    run = dg.DagsterRun(
        job_name="run_history", run_id=str(uuid.uuid4()), tags=more, remote_job_origin=origin
    )
    instance.run_storage.add_run(run)
    if not isinstance(instance.run_coordinator, AttributingRunCoordinator):
        return run
    source = None
    if headers is not None:
        sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        source = Request({"type": "http", "headers": sent})
    workspace = WorkspaceRequestContext(
        instance, CurrentWorkspace({}), None, None, source, read_only=False  # type: ignore[arg-type]
    )  # fmt: skip
    return instance.run_coordinator.submit_run(SubmitRunContext(run, workspace))


def test_the_proxys_user_is_known_and_what_was_typed_beside_it_does_not_count(
    instance: dg.DagsterInstance,
) -> None:
    run = submitted(instance, {HEADER: " ada@example.com "}, **TYPED)

    assert run.status == dg.DagsterRunStatus.QUEUED
    assert started_by(instance, run) == StartedBy("ada@example.com", None, "proxy header")


@pytest.mark.parametrize("headers", [{}, {HEADER: "  "}, {"X-Other": "ada"}])
def test_without_the_proxys_header_a_typed_tag_is_a_claim(
    instance: dg.DagsterInstance, headers: dict[str, str]
) -> None:
    # CONTROL: whoever believes the tags, believes this.
    assert TYPED[tags.STARTED_HOW] == "proxy header"

    assert started_by(instance, submitted(instance, headers, **TYPED)) == StartedBy(
        "mallory", None, "tag"
    )
    assert started_by(instance, submitted(instance, headers)) is None


@pytest.mark.parametrize("forged", ["dagster/schedule_name", "dagster/sensor_name"])
def test_who_asks_the_webserver_cannot_pass_for_the_daemon(
    instance: dg.DagsterInstance, forged: str
) -> None:
    typed = {forged: "nightly"}
    # CONTROL: the daemon's own runs carry the same tag, and stand in no audit log.
    assert not tags.is_by_hand(submitted(instance, None, **typed).tags)

    run = submitted(instance, {}, **typed)
    kept = instance.get_run_by_id(run.run_id)

    assert kept is not None
    assert tags.trigger_of(kept.tags).kind == "ui"
    assert tags.is_by_hand(kept.tags)
    retry = {**kept.tags, "dagster/retry_number": "1", "dagster/parent_run_id": run.run_id}
    assert tags.is_by_hand(retry)


def ended_in_the_web_ui(
    instance: dg.DagsterInstance, run: dg.DagsterRun, headers: dict[str, str]
) -> str:
    """End a run as the button does, and say what its record will."""
    sent = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    context = WorkspaceRequestContext(
        instance, CurrentWorkspace({}), None, None,  # type: ignore[arg-type]
        Request({"type": "http", "headers": sent}), read_only=False,
    )  # fmt: skip
    terminate_pipeline_execution(
        SimpleNamespace(context=context),  # type: ignore[arg-type]
        run.run_id,
        GrapheneTerminateRunPolicy.SAFE_TERMINATE,  # type: ignore[arg-type]
    )
    [record] = records_of(instance, [run.run_id])
    assert record.dagster_run.status == dg.DagsterRunStatus.CANCELED
    found = finished_run(instance, record, "desk", ())
    assert found is not None
    assert found.ended == "canceled"
    return found.error or ""


def test_who_ends_a_run_behind_a_proxy_stands_in_its_record_and_no_class_of_an_exception(
    instance: dg.DagsterInstance,
) -> None:
    typed = {tags.CANCELLED_BY: "mallory"}
    said = ended_in_the_web_ui(
        instance, submitted(instance, {HEADER: "ada"}, **typed), {HEADER: "grace"}
    )
    assert said.startswith("stopped by grace."), said
    assert "Error" not in said
    assert "Exception" not in said

    # CONTROL: the tag alone is typed by whoever starts the run.
    run = submitted(instance, {}, **typed)
    assert run.tags[tags.CANCELLED_BY] != "mallory"
    unknown = ended_in_the_web_ui(instance, run, {})
    assert unknown.startswith("somebody stopped it, and Dagster does not say by whom.")


@pytest.mark.parametrize("instance", [None], indirect=True)
def test_a_header_that_nobody_configured_is_not_read(instance: dg.DagsterInstance) -> None:
    assert started_by(instance, submitted(instance, {HEADER: "mallory"})) is None
    claimed = started_by(instance, submitted(instance, {HEADER: "mallory"}, **TYPED))
    assert claimed == StartedBy("mallory", None, "tag")


def test_a_command_is_known_by_its_process_unless_it_says_for_whom_it_asks(
    instance: dg.DagsterInstance,
) -> None:
    assert started_by(instance, submitted(instance, None)) == ME
    of_command = {tags.BACKFILL: "submitted before it is stored"}
    assert started_by(instance, submitted(instance, None, **of_command)) == ME
    asked = {tags.STARTED_BY: "ada", tags.TRIGGER: tags.HTTP, tags.STARTED_HOW: "process"}
    assert started_by(instance, submitted(instance, None, **asked)) == StartedBy("ada", None, "tag")


def test_what_the_daemon_submits_has_nobody(instance: dg.DagsterInstance) -> None:
    instance.add_backfill(PartitionBackfill("stored", BulkActionStatus.REQUESTED, False, {}, 0.0))
    for of_daemon in (
        {"dagster/schedule_name": "nightly"},
        {"dagster/sensor_name": "backlog"},
        {tags.BACKFILL: "stored"},
    ):
        assert started_by(instance, submitted(instance, None, **of_daemon)) is None
    copied = {"dagster/retry_number": "1", tags.PARENT_RUN: "first", **TYPED}
    assert started_by(instance, submitted(instance, None, **copied)) == StartedBy(
        "mallory", None, "tag"
    )


def test_another_coordinator_proves_nothing() -> None:
    with dg.instance_for_test() as plain:
        run = submitted(plain, {HEADER: "ada"}, **TYPED)
        assert named_in_tags(plain, run) == StartedBy("mallory", None, "tag")


def test_a_live_run_by_hand_stands_in_the_audit_log_with_who_before_it_works(code: Code) -> None:
    installation = code.installation
    installation.document["jobs"]["run_history"] = {"by_hand": True, "keep": "30d"}

    assert code.run("run_history", tags=TYPED).success
    assert code.run("run_history", tags=TYPED, dry_run=False).success
    scheduled = {"dagster/schedule_name": "nightly"}
    assert code.run("run_history", tags=scheduled, dry_run=False).success

    _, live, _ = installation.progress()
    assert live["detail"]["started_by"] == this_process().as_detail() == ME.as_detail()
    events = installation.execute(
        "SELECT body::jsonb FROM audit_event WHERE body LIKE '%run.started_by_hand%'"
    )
    assert [body for (body,) in events] == [
        {
            "kind": "run.started_by_hand",
            "job": "run_history",
            "run_id": live["run_id"],
            "trigger": {"kind": "cli", "name": None},
            "started_by": ME.as_detail(),
            "holder": live["holder"],
            "window": {"covers": "everything"},
        }
    ]
    reconcile(code.instance, installation.settings(), silence=timedelta(0))
    [record] = [row for row in installation.records() if row["run_id"] == live["run_id"]]
    assert record["detail"]["started_by"] == ME.as_detail()


def test_no_live_run_by_hand_without_its_event(code: Code) -> None:
    installation = code.installation
    installation.reserve("files/a")
    installation.adopt()
    installation.execute(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$;"
        "CREATE TRIGGER refuse BEFORE INSERT ON audit_event"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    result = code.run(dry_run=False)

    assert not result.success
    said = failure_of(result)
    assert "stands in the audit log first" in said
    assert "the disk is full" in said
    assert installation.has_row("files/a")
    assert installation.has_object("files/a")
    [progress] = installation.progress()
    assert (progress["outcome"], progress["scanned"]) == ("failed", None)


def test_a_name_is_one_printed_line_of_bounded_length() -> None:
    assert cleaned("ada\r\n\x00lovelace\t ") == "ada lovelace"
    assert cleaned("\n") is None
    assert cleaned("a" * 1000) == "a" * LONGEST_NAME


def test_the_queues_limits_hold_beside_the_coordinator(instance: dg.DagsterInstance) -> None:
    coordinator = instance.run_coordinator
    assert isinstance(coordinator, AttributingRunCoordinator)
    assert coordinator.user_header == HEADER
    assert coordinator.dequeue_interval_seconds == 2
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert (queue.max_concurrent_runs, queue.max_user_code_failure_retries) == (4, 5)
    assert queue.tag_concurrency_limits[0]["key"] == "filejobs/exclusive"


def test_dagster_refuses_a_run_queue_beside_it(tmp_path: Path) -> None:
    document = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    document["run_queue"] = {"dequeue_interval_seconds": 2}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(DagsterInvalidConfigError, match="run_queue"):
        dg.DagsterInstance.from_config(str(tmp_path))
    shutil.rmtree(tmp_path)


def test_a_queue_that_is_held_lets_nothing_through_until_it_is_let_go(
    instance: dg.DagsterInstance,
) -> None:
    def at_most() -> int:
        config = instance.get_concurrency_config().run_queue_config
        assert config is not None
        assert config.tag_concurrency_limits
        return config.max_concurrent_runs

    assert (at_most(), pause_of(instance)) == (4, None)
    held = pause(instance, "maria@ops")
    assert at_most() == 0
    # Who comes second does not take it over, and both see who was first.
    assert pause(instance, "another").by == held.by == "maria@ops"
    ended = resume(instance)
    assert ended is not None
    assert ended.by == "maria@ops"
    assert (at_most(), resume(instance)) == (4, None)


def test_control_limits_under_concurrency_hold_whoever_holds_the_queue(tmp_path: Path) -> None:
    document = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    del document["storage"]
    document["concurrency"] = {"runs": {"max_concurrent_runs": 4}}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(document))
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        pause(instance, "maria@ops")
        assert not holds(instance)
