"""Words that the code uses and the pages explain: neither may have one more than the other."""

from __future__ import annotations

import re
import shlex
from datetime import timedelta
from typing import TYPE_CHECKING, Any, get_args

import click
import dagster as dg
import pytest
import typer
import yaml

from filejobs_dagster.book.meanings import COLUMNS
from filejobs_dagster.book.outcomes import WHY_STOPPED
from filejobs_dagster.book.totals import KEPT, MOST_REFUSED_IN_A_ROW, SAMPLE
from filejobs_dagster.cli.main import Commands, app
from filejobs_dagster.door.guard import AdoptionRefused
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs.collecting import detail as totals
from filejobs_dagster.jobs.upload_reservations import NO_USE_IN_TRYING_SOONER
from filejobs_dagster.jobs.upload_reservations.collection import MOST_WITHOUT_EXPIRY
from filejobs_dagster.jobs.upload_reservations.detail import FIELDS
from filejobs_dagster.ledger.mirror import OVERLAP, SILENCE, WIDE_SCAN
from filejobs_dagster.ledger.outcome import TriggerKind
from filejobs_dagster.ledger.standing import Word
from filejobs_dagster.objects import gate
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.orchestration.metadata import catalog_assets
from filejobs_dagster.orchestration.sensors import all_sensors
from filejobs_dagster.postgres.connect import TRIES
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings import read_settings
from tests.docs.pages import CHECKOUT, EXAMPLES, explained, names_in, page, pages
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

UploadReservationsConfig: Any = config_of(BY_NAME["upload_reservations"], None)

RUN_CONFIGS = sorted(EXAMPLES.glob("upload_reservations_*.yaml"))
EXPLAINED = explained("upload_reservations")


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    return installation


@pytest.fixture
def definitions(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    installation.job(backlog_over=10)
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    return build_definitions(installation.loaded())


def _first_column(text: str) -> set[str]:
    """The words in code in the first column of every table."""
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def _constants_of_the_gate() -> set[str]:
    """Every reason to keep a key for its name's sake."""
    return {
        value
        for name, value in vars(gate).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }


# The collector --------------------------------------------------------------------------------


def test_every_field_of_a_record_is_explained(
    installation: Installation, definitions: dg.Definitions
) -> None:
    installation.reserve("files/1")
    installation.reserve("files/2", body=None)
    installation.reserve("elsewhere/3")
    job = definitions.resolve_job_def("upload_reservations")
    with dagster_instance() as instance:
        for asked in ({}, {"filejobs/mode": "live"}):
            assert job.execute_in_process(instance=instance, tags=asked).success
    details: list[dict[str, Any]] = [row["detail"] for row in installation.progress()]
    assert [len(details), *(bool(detail) for detail in details)] == [2, True, True]
    for detail in details:
        assert set(detail) <= EXPLAINED, set(detail) - EXPLAINED
        assert set(detail["classes"]) <= EXPLAINED


def test_every_class_is_explained() -> None:
    noted = set(totals.LET_GO)
    assert noted == {"deleted", "marked", "quarantined", "already gone"}
    named = {totals.WOULD_COLLECT, totals.WON_BY_OTHERS, totals.CLAIM_REFUSED,
             totals.NEVER_ARRIVED, totals.BYTES_LEFT}  # fmt: skip
    reasons = _constants_of_the_gate()
    assert "ambiguous path" in reasons
    kept = {f"{KEPT}{reason}" for reason in reasons}
    missing = (noted | named | kept) - EXPLAINED
    assert not missing


def test_every_reason_to_stop_is_explained() -> None:
    for reason in ("limit", "max_runtime", *WHY_STOPPED.values()):
        assert f"`{reason}`" in FIELDS["stopped_reason"]


@pytest.mark.parametrize("path", RUN_CONFIGS, ids=lambda path: path.name)
def test_every_example_of_a_run_config_is_one(path: Path, definitions: dg.Definitions) -> None:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    job = definitions.resolve_job_def("upload_reservations")
    assert dg.validate_run_config(job, config)
    # Dagster checks names and types; bounds are checked by the op when the run begins.
    asked = UploadReservationsConfig(**config["ops"]["upload_reservations"]["config"])
    assert asked.mistakes() == []
    assert asked.dry_run is (path.name == "upload_reservations_dry.yaml")
    assert f"-c examples/{path.name}" in path.read_text(encoding="utf-8")


# The record -----------------------------------------------------------------------------------


@pytest.mark.parametrize("table", COLUMNS)
def test_every_column_of_a_table_is_explained_and_no_other(
    table: str, connection: psycopg.Connection[Any]
) -> None:
    columns = connection.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s", (table,)
    ).fetchall()
    assert columns
    assert {name for (name,) in columns} == names_in(COLUMNS[table])


def test_every_standing_and_every_trigger_is_explained() -> None:
    assert set(get_args(Word)) <= _first_column(page("did-it-run.md").text)
    for kind in get_args(TriggerKind):
        assert f"`{kind}`" in page("running-dagster.md").text


# Dagster and the command ----------------------------------------------------------------------


def test_the_runbook_knows_every_standing_and_every_refusal_of_a_bucket() -> None:
    text = page("runbook.md").words
    known = {*get_args(Word), *(kind.__name__ for kind in AdoptionRefused.__subclasses__())}
    assert len(known) > 15
    assert {word for word in known if f"`{word}`" not in text} == set()


def test_the_picture_of_the_door_has_every_guard_beside_it_and_no_other() -> None:
    table = page("concepts.md").text.split("| Guard |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == {
        guard.name for guard in GUARDS
    }


def test_every_sensor_is_explained(installation: Installation, definitions: dg.Definitions) -> None:
    del definitions
    loaded = installation.loaded()
    jobs = {job.name: job for job in build_definitions(loaded).jobs or []}
    names = {sensor.name for sensor in all_sensors(loaded, jobs)}  # type: ignore[arg-type]
    assert "upload_reservations_backlog" in names
    assert names <= _first_column(page("running-dagster.md").text)


def test_every_tag_that_a_run_gets_is_explained() -> None:
    for tag in (tags.MODE, tags.EFFECTIVE_MODE, tags.EXCLUSIVE, tags.MAX_RUNTIME, tags.SETTINGS,
                tags.ALLOW_LIVE):  # fmt: skip
        assert f"`{tag}`" in page("running-dagster.md").text


def test_the_catalog_has_an_asset_for_each_job_by_its_name_as_the_page_says() -> None:
    assert "the asset of the job's name" in page("running-dagster.md").words
    assets = catalog_assets(read_settings(CHECKOUT / "filejobs.yaml", {}))
    assert {asset.key.to_user_string() for asset in assets} == {job.name for job in JOBS}


def test_the_numbers_that_the_pages_write_out_are_those_of_the_code() -> None:
    written_out = {
        "silent for two minutes (lost)": timedelta(minutes=2) == SILENCE,
        "the last 35 days": timedelta(days=35) == WIDE_SCAN,
        "ten minutes overlapping": timedelta(minutes=10) == OVERLAP,
        "for 15 minutes after a run that collected nothing": (
            timedelta(minutes=15) == NO_USE_IN_TRYING_SOONER
        ),
        "the tenth object in a row": MOST_REFUSED_IN_A_ROW == 10,
        "Dagster ends a run ten minutes later": timedelta(minutes=10) == tags.SLACK,
        "the claim is tried 4 times": TRIES == 4,
        "counted up to 10,000": MOST_WITHOUT_EXPIRY == 10_000,
        "up to 20 keys of each class": SAMPLE == 20,
    }
    text = "\n".join(each.words for each in pages())
    assert {words for words in written_out if words not in text} == set()
    assert {words for words, holds in written_out.items() if not holds} == set()


def test_the_map_names_every_job() -> None:
    text = page("README.md").text
    for job in JOBS:
        assert f"`{job.name}`" in text


def test_every_command_that_a_page_tells_to_type_exists() -> None:
    told = {
        word
        for each in pages()
        for block in each.blocks
        if block.language in ("sh", "")
        for word in re.findall(
            r"(?:^|[ /])filejobs (?:--config \S+ )?([a-z]+(?:-[a-z]+)*)", block.text, re.MULTILINE
        )
    }
    assert {"migrate", "grants", "doctor", "run", "status", "runs", "settings"} <= told
    assert told <= set(Commands.places)


def _typed() -> list[str]:
    """Every line of the pages that calls `filejobs`, without comments, redirections and pipes."""
    lines = [
        re.split(r" (?:#|>|\|\|?) ", line)[0]
        for each in pages()
        for block in each.blocks
        if block.language == "sh"
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    return sorted({line.strip() for line in lines if line.startswith("filejobs ")})


def _parse(line: str) -> None:
    """Let the parser alone look at a line: what it does not take is refused, and nothing runs."""
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)[1:]
    while hasattr(command, "get_command"):
        name, *words = words
        command = command.get_command(click.Context(command), name)
        assert command is not None, f"{line}: there is no {name}"
    if any("--format" in parameter.opts for parameter in command.params):
        words = ["--format=json" if each == "--json" else each for each in words]
    command.make_parser(click.Context(command)).parse_args(words)


@pytest.mark.parametrize("line", _typed())
def test_every_command_line_of_a_page_is_one_that_the_command_takes(line: str) -> None:
    _parse(line)


@pytest.mark.parametrize("line", ["filejobs status --chek", "filejobs statsu"])
def test_control_a_line_with_a_mistake_is_not_taken(line: str) -> None:
    with pytest.raises(Exception, match=r"chek|statsu"):
        _parse(line)


def test_every_example_that_a_page_tells_to_use_is_there() -> None:
    told = {name for each in pages() for name in re.findall(r"-c (examples/\S+\.yaml)", each.text)}
    assert told
    for name in told:
        assert (CHECKOUT / name).is_file(), name
