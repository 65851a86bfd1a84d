from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.settings import settings_json_schema
from filejobs_dagster.settings.schema import settings_json_schema_text

if TYPE_CHECKING:
    from tests.settings.conftest import Files

ROOT = Path(__file__).parents[2]
FILE = ROOT / "examples" / "filejobs.schema.json"
HOW = (
    "write it again: python -c 'from filejobs_dagster.settings.schema import "
    'settings_json_schema_text as text; print(text(), end="")\' > examples/filejobs.schema.json'
)


def as_editor(text: str) -> Any:
    """What an editor sees: JSON knows no dates."""
    return json.loads(json.dumps(yaml.safe_load(text), default=date.isoformat))


def refused(document: Any) -> bool:
    validator = jsonschema.Draft202012Validator(settings_json_schema())
    return not validator.is_valid(document)


def test_the_file_is_what_the_code_says() -> None:
    assert FILE.read_text(encoding="utf-8") == settings_json_schema_text(), HOW


def test_the_schema_is_a_schema_of_its_dialect() -> None:
    schema = settings_json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "filejobs.yaml"
    jsonschema.Draft202012Validator.check_schema(schema)


def test_jobs_are_those_of_the_registry_each_with_its_own_settings() -> None:
    jobs = settings_json_schema()["properties"]["jobs"]
    assert list(jobs["properties"]) == list(JOB_NAMES)
    assert jobs["additionalProperties"] is False
    own = jobs["properties"]["upload_reservations"]["$ref"]
    assert own == "#/$defs/UploadReservationsSettings"


def test_defaults_are_written_as_the_file_writes_them() -> None:
    database = settings_json_schema()["$defs"]["DatabaseSettings"]["properties"]
    assert database["connect_timeout"]["default"] == "10s"


def test_every_key_is_described() -> None:
    schema = settings_json_schema()
    for name, section in {"top": schema, **schema["$defs"]}.items():
        for key, described in section["properties"].items():
            assert described["description"], f"{name}.{key}"


def test_an_editor_accepts_what_is_right(files: Files) -> None:
    assert not refused(as_editor(files.good))
    assert not refused(as_editor((ROOT / "filejobs.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("acme-production", "Acme"),
        ("{env: DATABASE_URL}", "literal"),
        ("{env: DATABASE_URL}", "{env: DATABASE_URL, value: x}"),
        ("min_age: 48h", "min_age: 48"),
        ("min_age: 48h", "min_age: 48 hours"),
        ('["files/"]', '["files"]'),
        ('["files/"]', '["/files/"]'),
        ('["files/"]', "[]"),
        ('owns: ["files/"]', 'owns: ["files/"]\n    owns_whole_bucket: true'),
        ('owns: ["files/"]', "region: x"),
        ("upload_reservations:", "upload_reservation:"),
        ('{schedule: "*/15 * * * *"}', "{}"),
        ('{schedule: "*/15 * * * *"}', "{schedule: '@daily', by_hand: true}"),
        ('{schedule: "*/15 * * * *"}', "{by_hand: true, batch_size: 5000}"),
        ("jobs:", "zzz: 1\njobs:"),
    ],
)
def test_an_editor_underlines_a_mistake(files: Files, old: str, new: str) -> None:
    assert refused(as_editor(files.good.replace(old, new)))
