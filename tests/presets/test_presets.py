"""Presets on the databases that real applications have left: what they keep, take and refuse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml
from psycopg.conninfo import conninfo_to_dict
from typer.testing import CliRunner

from filejobs_dagster import presets
from filejobs_dagster.cli.main import app
from filejobs_dagster.cli.preset import TO_NAME
from filejobs_dagster.door.guards import GUARDS, Presets
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.presets.preset import PresetError, load, names, page, probe
from filejobs_dagster.rehearse.taking import Options, rehearse
from tests.applications.test_applications import HERE, Application, application
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS

if TYPE_CHECKING:
    from tests.databases import Databases

__all__ = ["application"]

PLACE = Path(presets.__file__).parent
GENERATED = HERE / "django" / "preset.yaml"
"""What the script of the preset `django` printed in the project of tests/applications/making."""

SAID: dict[str, tuple[str, ...]] = {
    "rails": (),
    "directus": ("--set", "root=media/"),
    "mlflow": (),
    "django": (),
    "payload": (),
    # Behind the host stands the bucket, which no query can know.
    "strapi": ("--set", "addresses=http://s3.example.com/{bucket}/", "--set", "folder=cms/"),
    "supabase": (),
    "plane": (),
    "outline": (),
    "mattermost": (),
}
ALL = tuple(SAID)
AFTER_A_SCHEMA = ("supabase", "plane", "outline", "mattermost")
RUN = tuple(it for it in ALL if it not in AFTER_A_SCHEMA)
LATER = "untracked variants of a blob whose purge was lost"


@pytest.fixture
def at(application: Application, monkeypatch: pytest.MonkeyPatch) -> Application:
    for name, value in application.environment.items():
        if name != "FILEJOBS_CONFIG":
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return application


def call(at: Application, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["preset", *arguments])


def here(at: Application) -> tuple[str, ...]:
    return "--bucket", at.bucket, "--endpoint-url", at.endpoint_url


def said_of(at: Application) -> list[str]:
    return [it.format(bucket=at.bucket) for it in SAID[at.name]]


def path_of(at: Application) -> str:
    """The name of a preset, or the path of the one that the script has made for this bucket."""
    if at.name != "django":
        return at.name
    made = at.folder / "django.yaml"
    made.write_text(GENERATED.read_text().replace("django-app", at.bucket))
    return str(made)


def apply(at: Application) -> dict[str, Any]:
    """Put what `preset apply` prints in place, with jobs that are live."""
    said = call(at, "apply", path_of(at), *here(at), *said_of(at))
    assert said.exit_code == 0, said.output
    document: dict[str, Any] = yaml.safe_load(said.stdout)
    assert document["allow_live"] is False
    assert {job["mode"] for job in document["jobs"].values()} == {"dry"}
    document |= {"allow_live": True, "installation": "test"}
    document["database"].pop("schema")
    document["buckets"]["uploads"]["delete"] = "at_once"
    del document["environment"]
    for job in document["jobs"].values():
        job["mode"] = "live"
    at.document = document
    return document


def sweep(at: Application, **said: Any) -> None:
    for _ in range(2):
        outcome = at.sweep(breakers=NEVER_TRIPS, **said)
        assert outcome.ok, outcome.error


# The files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_every_preset_is_right_and_has_a_page_that_says_why(name: str) -> None:
    preset = load(name)
    assert preset.reason in page(preset)
    for proof in preset.proven:
        assert proof.fixture is not None or proof.how == "published schema"
        assert proof.fixture is None or (HERE / proof.fixture / "expected.json").exists()


def test_all_mistakes_of_a_preset_are_named_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    said = yaml.safe_load((HERE / "django" / "filejobs.yaml").read_text())
    path.write_text(
        yaml.safe_dump(
            {
                "name": "wrong",
                "title": "W",
                "version": 1,
                "advice": "live",
                "reason": "r",
                "proven": [{"on": "x", "how": "run"}],
                "surprise": 1,
                "bucket": {
                    "owns": ["media/"],
                    "sources": [
                        {**said["buckets"]["uploads"]["sources"][0], "when": {"nobody": 1}}
                    ],
                    "protect": ["@nothing@"],
                },
                "jobs": {"storage_orphans": {"mode": "live", "grce": "2d"}},
            }
        )
    )
    with pytest.raises(PresetError) as caught:
        load(str(path))
    for words in (
        "surprise", "bucket.sources[0].when.nobody", "@nothing@ is no parameter",
        "a preset is dry", "jobs.storage_orphans.grce",
    ):  # fmt: skip
        assert words in str(caught.value)


def test_what_is_refused_writes_nothing_and_says_why() -> None:
    said = CliRunner().invoke(app, ["preset", "apply", "gitlab", "--bucket", "b"])
    assert (said.exit_code, said.stdout) == (1, "")
    assert "twenty uploaders" in said.stderr
    said = CliRunner().invoke(app, ["preset", "apply", "django", "--bucket", "b"])
    assert said.exit_code == 1
    assert "--script" in said.stderr


# On what applications have left ---------------------------------------------------------------


@pytest.mark.parametrize(
    "application",
    [*RUN, *(pytest.param(it, marks=pytest.mark.thorough) for it in AFTER_A_SCHEMA)],
    indirect=True,
)
def test_it_fits_and_with_its_settings_all_that_is_dead_goes_and_nothing_that_lives(
    at: Application,
) -> None:
    said = call(at, "check", path_of(at), *here(at), *said_of(at), "--json")
    assert said.exit_code == 0, said.output
    found = json.loads(said.stdout)
    assert found["fits"]
    assert found["objects"]["unnamed"] > 0
    apply(at)
    if load(path_of(at)).advice == "list only":
        # What its lists show is what would go.
        del at.document["presets"]
    if "upload_reservations" in at.document["jobs"]:
        for _ in range(4):
            collected = at.collect()
            assert collected.ok, collected.error
    sweep(at)
    gone = at.dead() | at.dead("reservations")
    assert not at.live - at.keys()
    assert not gone & at.keys()
    if at.name != "rails":
        assert at.keys() == at.live | at.dead("kept")


@pytest.mark.thorough
@pytest.mark.parametrize("application", ALL, indirect=True)
def test_every_rule_left_out_is_caught_or_named(at: Application) -> None:
    apply(at)
    at.document["jobs"].pop("upload_reservations", None)
    at.document["jobs"]["storage_orphans"]["breakers"] = {"max_orphan_fraction": 0.5}
    found = rehearse(at.settings(), Options(all_tables=True), lambda _: None)
    named = {(it.kind, it.name) for it in load(path_of(at)).not_caught}
    missed = {
        (it["kind"], it["name"]): it["sample"]
        for it in found["mutations"]
        if it["gone"] and (it["kind"], it["name"]) not in named
    }
    assert found["mutations"]
    assert not missed
    # CONTROL: by exact names alone, with no guard, a rule that is left out takes what lives.
    assert any(it["would_have_gone"] for it in found["mutations"])


@pytest.mark.parametrize("application", ["directus"], indirect=True)
def test_what_only_lists_is_never_live_whatever_the_settings_say(at: Application) -> None:
    path = at.folder / "directus.yaml"
    text = (PLACE / "directus.yaml").read_text().replace("advice: live", "advice: list only")
    path.write_text(text)
    said = call(at, "apply", str(path), *here(at), *SAID["directus"])
    assert said.exit_code == 0, said.output
    assert "# Its settings are for lists alone: live runs are refused." in said.stdout
    document = yaml.safe_load(said.stdout)
    apply(at)
    at.document["presets"] = document["presets"]
    outcome = at.sweep(breakers=NEVER_TRIPS)
    assert not outcome.ok
    assert "are never live" in str(outcome.error)
    # CONTROL: by the preset as it comes they may be.
    apply(at)
    sweep(at)


OTHERWISE = {
    "mattermost": ["drop table uploadsessions"],
    "outline": ['alter table file_operations drop column "deletedAt"'],
    "payload": [
        "alter table documents alter column prefix set default 'media/documents'",
        "alter table documents drop column prefix",
    ],
    "plane": ["alter table file_assets drop column is_uploaded"],
    "strapi": ["alter table files drop column document_id"],
    "supabase": ["alter table storage.objects add archived_at timestamptz"],
}
"""What tells another version, or settings of it for which a preset is not."""


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_preset_knows_its_application_from_others_and_from_another_version_of_it(
    name: str, databases: Databases
) -> None:
    with databases.one() as url, Database(url).connect("test") as connection:

        def objection(preset: str) -> str:
            return probe(load(preset), Database(url), connection).objection

        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute((HERE / name / "database.sql").read_text().encode())
            asking = [other for other in names() if load(other).probes]
            assert [other for other in asking if not objection(other)] == [name]
            said = []
            for statement in OTHERWISE[name]:
                owner.execute(statement.encode())
                said.append(objection(name))
        assert all(said)
        assert len(set(said)) == len(said), "each for a reason of its own"


# Upgrades -------------------------------------------------------------------------------------


def upgrade(at: Application) -> set[str]:
    """A release of Directus keeps names of files in another column: what becomes of old rows."""
    living = {
        row[0]
        for row in at.execute(
            "SELECT 'media/' || filename_disk FROM directus_files"
            " WHERE tus_id IS NULL ORDER BY id LIMIT 5"
        )
    }
    at.execute("ALTER TABLE directus_files ADD COLUMN object_parts bytea")
    at.execute(
        "UPDATE directus_files SET object_parts = convert_to(reverse(filename_disk), 'UTF8'),"
        " filename_disk = 'moved-' || id WHERE 'media/' || filename_disk = ANY(%s)",
        (list(living),),
    )
    at.execute("UPDATE directus_files SET filename_download = 'x', title = 'x'")
    return living & at.keys()


@pytest.mark.parametrize("application", ["directus"], indirect=True)
def test_after_an_upgrade_that_moved_a_column_no_live_run_begins_until_somebody_looked(
    at: Application,
) -> None:
    apply(at)
    living = upgrade(at)
    assert living
    dry = at.sweep(breakers=NEVER_TRIPS, mode="dry")
    assert any("presets: " in it for it in dry.detail["would_be_refused"])
    for _ in range(2):
        outcome = at.sweep(breakers=NEVER_TRIPS)
        assert not outcome.ok
        assert "columns of public.directus_files" in str(outcome.error)
        assert "filejobs preset check directus" in str(outcome.error)
    assert living <= at.keys()
    # CONTROL: without the guard the files that the new column names are lost.
    careless = at.sweeper()
    careless.guards = [guard for guard in GUARDS if not isinstance(guard, Presets)]
    for _ in range(2):
        outcome = at.sweep(careless, breakers=NEVER_TRIPS)
        assert outcome.ok, outcome.error
    assert not living & at.keys()


@pytest.mark.parametrize("application", ["rails"], indirect=True)
def test_check_and_apply_again_let_an_upgraded_application_in(
    at: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(at)
    at.execute("ALTER TABLE active_storage_blobs ADD COLUMN updated_at timestamp")
    monkeypatch.setenv("FILEJOBS_CONFIG", str(at.write()))
    assert not at.sweep(breakers=NEVER_TRIPS).ok
    said = call(at, "check", "rails")
    assert (said.exit_code, "It fits." in said.stdout) == (0, True), said.output
    again = call(at, "apply", "rails", "--again")
    assert again.exit_code == 0, again.output
    at.document["presets"] = yaml.safe_load(again.stdout)["presets"]
    assert "does not" not in again.stdout
    sweep(at)
    # What the preset says and the file does not is told, and nothing is put there unasked.
    del at.document["buckets"]["uploads"]["rewrites"]
    monkeypatch.setenv("FILEJOBS_CONFIG", str(at.write()))
    again = call(at, "apply", "rails", "--again")
    assert "buckets.uploads does not: rewrites: untracked variants" in again.stdout


@pytest.mark.parametrize("application", ["rails"], indirect=True)
def test_it_does_not_fit_another_application_or_where_objects_are_elsewhere(
    at: Application,
) -> None:
    there = at.folder / "there.yaml"
    there.write_text("mine")
    said = call(at, "apply", "rails", *here(at), "--output", str(there))
    assert (said.exit_code, there.read_text()) == (1, "mine")
    said = call(at, "check", "directus", *here(at), "--set", "root=media/")
    assert (said.exit_code, "Directus' files" in said.stderr) == (1, True)
    said = call(at, "apply", "directus", *here(at), "--set", "root=media/")
    assert (said.exit_code, said.stdout) == (1, "")
    said = call(at, "apply", "rails", *here(at), "--set", "service=a'b")
    assert (said.exit_code, said.stdout) == (1, "")
    # Each source that names no object, and each object that nothing names.
    said = call(at, "check", "rails", *here(at), "--set", "service=backup", "--json")
    assert said.exit_code == 1, said.output
    assert not json.loads(said.stdout)["fits"]
    said = call(at, "apply", "rails", *here(at), "--set", "service=backup")
    assert (said.exit_code, said.stdout) == (1, "")
    said = call(at, "apply", "rails", "--again", *here(at))
    assert said.exit_code == 64
    assert "--entry" in said.stderr


@pytest.mark.parametrize("application", ["rails"], indirect=True)
@pytest.mark.parametrize("table", ["active_storage_blobs", "It's Blobs"])
def test_a_scan_starts_a_preset_that_can_be_checked(at: Application, table: str) -> None:
    if table != "active_storage_blobs":
        at.execute(f'ALTER TABLE active_storage_blobs RENAME TO "{table}"')
    scanned = CliRunner().invoke(app, ["scan", *here(at), "--json"])
    assert scanned.exit_code == 0, scanned.output
    (at.folder / "scan.json").write_text(scanned.stdout)
    made = at.folder / "acme.yaml"
    said = call(at, "new", "acme", "--from-scan", str(at.folder / "scan.json"))
    assert said.exit_code == 0, said.output
    made.write_text(said.stdout)
    assert load(str(made)).watches == [f"public.{table}"]
    said = call(at, "check", str(made), *here(at))
    assert said.exit_code == 0, said.output

    # Of which a scan could not tell what is owned, that is not the whole bucket.
    document = json.loads(scanned.stdout)
    document["prefixes"] = []
    (at.folder / "scan.json").write_text(json.dumps(document))
    said = call(at, "new", "acme", "--from-scan", str(at.folder / "scan.json"))
    assert yaml.safe_load(said.stdout)["bucket"]["owns"] == [TO_NAME]


# The script of Django -------------------------------------------------------------------------

PROJECT = ("django<5.2", "wagtail<7", "django-storages[s3]", "easy-thumbnails", "sorl-thumbnail",
           "psycopg[binary]", "setuptools")  # fmt: skip


def python_with_django(folder: Path) -> str:
    """An interpreter with what the project needs: a given one, else one that is made for it."""
    given = os.environ.get("PYTHON_WITH_DJANGO")
    if given:
        return given
    uv = [str(Path(sys.executable).with_name("uv"))]
    subprocess.run([*uv, "venv", "-q", str(folder / "venv")], check=True)
    made = str(folder / "venv" / "bin" / "python")
    subprocess.run([*uv, "pip", "install", "-q", "--python", made, *PROJECT], check=True)
    return made


def printed(at: Application) -> str:
    """What the script prints in the project that made the fixture."""
    script = CliRunner().invoke(app, ["preset", "show", "django", "--script"]).stdout
    where = conninfo_to_dict(at.database_url)
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "PYTHON"))},
        "DJANGO_SETTINGS_MODULE": "settings",
        "PYTHONPATH": str(HERE / "making" / "django_app"),
        "S3_BUCKET": at.bucket,
        "S3_ENDPOINT": "http://s3.example.com",
        "S3_KEY": "key",
        "S3_SECRET": "secret",
        "S3_REGION": "us-east-1",
        "DATABASE_PORT": str(where["port"]),
        "DATABASE_NAME": str(where["dbname"]),
        "PGPASSWORD": str(where.get("password", "")),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    # The project knows its database as app.
    start = (
        "import os, django; from django.conf import settings; "
        "settings.DATABASES['default'].update(NAME=os.environ['DATABASE_NAME'], "
        f"USER={str(where['user'])!r}, HOST={str(where['host'])!r}); "
        "django.setup(); from django.core.management import call_command; "
        "call_command('shell', verbosity=0)"
    )
    said = subprocess.run(
        [python_with_django(at.folder), "-c", start],
        input=script,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    return said.stdout


@pytest.mark.thorough
@pytest.mark.parametrize("application", ["django"], indirect=True)
def test_the_script_prints_the_preset_of_a_real_project(at: Application) -> None:
    said = printed(at).replace(at.bucket, "django-app")
    if os.environ.get("KEEP_PRESET"):
        GENERATED.write_text(said)
    assert json.loads(said) == json.loads(GENERATED.read_text())
