"""What the pages say of the settings is what the settings are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from filejobs_dagster.registry import JOBS
from filejobs_dagster.settings import load_settings, settings_json_schema
from tests.docs.pages import EXAMPLES, Block, blocks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_ENV = re.compile(r"\{env: (\w+)\}")


def _whole_files() -> list[Block]:
    return [block for block in blocks("yaml") if "installation:" in block.text]


def _environment(text: str) -> dict[str, str]:
    """Every variable that a file names, each with a value of the right kind."""
    return {
        name: "postgresql://role@127.0.0.1/app"
        if "DATABASE_URL" in name
        else f"value-of-a-test-for-{name}"
        for name in _ENV.findall(text)
    }


def test_every_yaml_block_is_a_whole_settings_file() -> None:
    assert _whole_files()
    assert _whole_files() == blocks("yaml")


@pytest.mark.parametrize("block", _whole_files(), ids=lambda block: block.name)
def test_every_settings_file_of_a_page_loads(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "filejobs.yaml"
    path.write_text(block.text, encoding="utf-8")
    settings = load_settings(path, _environment(block.text))
    assert settings.installation == "acme-production"
    assert settings.jobs.keys() & {"upload_reservations", "storage_orphans"}


def test_the_settings_for_production_load() -> None:
    path = EXAMPLES / "filejobs.production.yaml"
    settings = load_settings(path, _environment(path.read_text(encoding="utf-8")))
    assert set(settings.jobs) == {job.name for job in JOBS}
    assert settings.bucket_of("upload_reservations")[0] == "uploads"


def test_the_settings_for_production_show_every_key_that_is_not_an_alternative() -> None:
    shown = set(_keys_of(yaml.safe_load((EXAMPLES / "filejobs.production.yaml").read_text())))
    assert {name for name, _ in _properties()} - shown == {
        "by_hand", "delete", "key_file", "marker",
    }  # fmt: skip


def _properties() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every key of the file, with what the schema says of it; jobs' names are no keys."""
    schema = settings_json_schema()
    for place in (schema, *schema["$defs"].values()):
        yield from place["properties"].items()


def _keys_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _keys_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys_of(inner)
