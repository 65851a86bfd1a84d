"""An eleventh job, declared here and nowhere else: everything else is made of it.

The one thing that no declaration can change is a table that exists: the CHECK on `job_run` names
the jobs, so a new one brings a migration of one statement. `MIGRATION` is what it says.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import dagster as dg
import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import Field, StrictInt

import filejobs_dagster
from filejobs_dagster.collector import Collector, EarlyStart, Examination, Resources
from filejobs_dagster.doctor.examination import examine
from filejobs_dagster.doctor.finding import ok
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.registry import BY_NAME, JOB_NAMES
from filejobs_dagster.settings import settings_json_schema
from filejobs_dagster.settings.section import JobSettings, OneRun, Run
from filejobs_dagster.settings.values import (
    Duration,
    between,
)
from tests.docs.pages import page
from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings
    from tests.orchestration.conftest import Code

JOB = "old_drafts"
PACKAGE = Path(filejobs_dagster.__file__).parent

MIGRATION = f"""
ALTER TABLE job_run DROP CONSTRAINT job_run_job_known,
  ADD CONSTRAINT job_run_job_known
      CHECK (job IN ({", ".join(f"'{name}'" for name in (*JOB_NAMES, JOB))}))
"""


class OldDraftsSettings(JobSettings):
    """What `old_drafts` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most drafts to remove in this run, {least} to {most}; the oldest first.", safer="less"
        ),
    ] = Field(default=50, ge=1, le=5000, description="The most drafts one run removes.")
    older_than: Annotated[
        Duration,
        between(timedelta(days=2), timedelta(days=90)),
        Run("How old a draft must be, with a unit: 7d; at least {least}.", safer="more"),
    ] = Field(default=timedelta(days=7), description="How old a draft must be.")
    backlog_over: StrictInt | None = Field(default=None, description="Start early over this.")


class Request(OneRun, OldDraftsSettings):
    """What one run does."""

    only: Annotated[
        tuple[str, ...], Run("Authors; empty for all.", called="authors", safer="either")
    ] = ()


def _run(run: RunContext, request: Request, has: Resources) -> Outcome:
    with has.storage(run) as storage:
        detail = {
            "limit": request.limit,
            "older_than": request.older_than.days,
            "authors": list(request.only),
            "entry": storage.entry,
            "swept": run.live,
        }
        with run.database.transaction(run.connection) as cursor:
            run.progress.advance(cursor, scanned=3, acted=2, detail=detail)
    return Outcome(scanned=3, acted=2, detail=detail)


OLD_DRAFTS = Collector(
    name=JOB,
    summary="Removes drafts that nobody goes on with.",
    touches=frozenset({"rows", "objects"}),
    partitioned=True,
    settings=OldDraftsSettings,
    request=Request,
    run=_run,
    examine=lambda _, configured: Examination(
        JOB, lambda *_: [ok(JOB, f"drafts of {configured.older_than.days} days go")]
    ),
    due=lambda _, configured: EarlyStart(
        suffix="backlog",
        every=timedelta(minutes=1),
        description="Starts it early.",
        if_dry="A dry run would leave them.",
        why_not=lambda *_: None if configured.backlog_over else "There are few.",
    ),
)


@pytest.fixture
def eleventh(code: Code, monkeypatch: pytest.MonkeyPatch) -> Code:
    """An installation that has the job: one line in the registry, and the migration."""
    monkeypatch.setitem(BY_NAME.lines, JOB, OLD_DRAFTS)
    code.installation.execute(MIGRATION)
    code.installation.document["jobs"] = {
        JOB: {"schedule": "@daily", "mode": "live", "limit": 20, "older_than": "3d"}
    }
    return code


def settings_of(code: Code) -> Settings:
    return code.installation.settings()


def test_its_op_schedule_partitions_early_start_and_place_in_the_catalog(eleventh: Code) -> None:
    definitions = eleventh.definitions
    dg.Definitions.validate_loadable(definitions)

    job = definitions.resolve_job_def(JOB)
    [node] = job.nodes

    assert node.definition.description == OLD_DRAFTS.summary
    assert job.partitions_def is not None
    assert definitions.resolve_schedule_def(f"{JOB}_schedule").cron_schedule == "@daily"
    assert "There are few." in str(eleventh.sensor(f"{JOB}_backlog").skip_message)
    assert dg.AssetKey(JOB) in {spec.key for spec in definitions.resolve_all_asset_specs()}


def test_its_limits_are_said_once_and_stand_in_launchpad_file_and_schema(eleventh: Code) -> None:
    offered: Any = config_of(OLD_DRAFTS, settings_of(eleventh))
    fields = offered.model_fields

    assert set(fields) == {"dry_run", "limit", "older_than", "authors", "max_runtime"}
    assert (fields["limit"].default, fields["older_than"].default) == (20, "3d")
    assert fields["limit"].description == (
        "Most drafts to remove in this run, 1 to 5,000; the oldest first."
    )
    assert offered(limit=0, older_than="1d").mistakes() == [
        "limit is 0; it can be 1 to 5,000.",
        "older_than is 1d; it can be 2d to 90d.",
    ]
    assert offered(older_than="9d").narrower() == "with older_than 9d instead of 3d"

    document = eleventh.installation.document
    schema = jsonschema.Draft202012Validator(settings_json_schema())
    assert schema.is_valid(document)
    document["jobs"][JOB] |= {"limit": 0, "older_than": "1d", "authors": ["ada"]}
    said = "\n".join(str(problem) for problem in eleventh.installation.loaded().problems)
    for path in ("limit", "older_than", "authors"):
        assert f"jobs.{JOB}.{path}" in said
    assert not schema.is_valid(document)


def test_the_doctor_looks_at_it(eleventh: Code) -> None:
    found = {one.check: one for one in examine(eleventh.installation.loaded(), {})}

    assert found[JOB].found == "drafts of 3 days go"


def test_the_door_refuses_it_as_every_other(eleventh: Code) -> None:
    eleventh.adopted = False

    result = eleventh.run(JOB, dry_run=False)

    assert not result.success
    assert "adopt" in failure_of(result)


def test_it_runs_with_the_config_applied_and_stands_in_the_book(eleventh: Code) -> None:
    result = eleventh.run(JOB, dry_run=False, limit=7, authors=["ada"])
    assert result.success, failure_of(result)

    reconcile(eleventh.instance, settings_of(eleventh))

    assert metadata_of(result)["acted"] == 2
    [record] = eleventh.installation.records()
    assert (record["job"], record["mode"], record["acted"]) == (JOB, "live", 2)
    told = {name: record["detail"][name] for name in ("limit", "older_than", "authors", "entry")}
    assert told == {"limit": 7, "older_than": 3, "authors": ["ada"], "entry": "uploads"}


def test_control_without_its_migration_the_book_does_not_take_it(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BY_NAME.lines, JOB, OLD_DRAFTS)
    code.installation.document["jobs"] = {JOB: {"by_hand": True}}
    assert code.run(JOB).success

    with pytest.raises(Exception, match="job_run_job_known"):
        reconcile_loudly(code)


def reconcile_loudly(code: Code) -> None:
    done = reconcile(code.instance, settings_of(code))
    if done.failed:
        raise AssertionError(str(done.failed))


def test_no_file_of_the_house_names_a_job_but_the_registry_and_the_jobs_own() -> None:
    named = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        place = path.relative_to(PACKAGE)
        if place.parts[0] in ("jobs", "prove", "demo") or place == Path("registry.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in BY_NAME:
                named[str(place)].add(node.value)

    assert dict(named) == {
        # A table that has its job's name, the jobs of a first file, those that are rehearsed,
        # checks of the doctor that are called like jobs, and examples of how a file names a job.
        "audit/tables.py": {"audit_seal"},
        "cli/init.py": {"storage_orphans", "upload_reservations"},
        "cli/preset.py": {"storage_orphans"},
        "presets/preset.py": {"storage_orphans"},
        "rehearse/taking.py": {"storage_orphans"},
        "rehearse/there.py": {"deleted_files", "upload_reservations"},
        "runbook.py": {"deleted_files", "multipart_uploads"},
        "settings/model.py": {"upload_reservations"},
        "settings/trigger.py": {"upload_reservations"},
    }


def test_the_page_shows_this_job() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    shown = [block.text for block in page("adding-a-job.md").blocks if block.language == "python"]

    assert len(shown) == 2
    assert all(text.strip() in here for text in shown)
