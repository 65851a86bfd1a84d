"""The JSON Schema of `filejobs.yaml`, for editors."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from filejobs_dagster.registry import BY_NAME, OWN
from filejobs_dagster.settings.model import Settings
from filejobs_dagster.settings.section import JobSettings
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from filejobs_dagster.settings.section import Section

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_SAY_WHEN: list[dict[str, Any]] = [
    {"required": ["schedule"], "properties": {"by_hand": {"const": False}}},
    {
        "required": ["by_hand"],
        "properties": {"by_hand": {"const": True}, "schedule": {"type": "null"}},
    },
]


class _InTheFilesWords(GenerateJsonSchema):
    """Writes a default as the file would, and no titles that repeat the key."""

    def encode_default(self, dft: Any) -> Any:
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def settings_json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of the whole file.

    It knows keys, types, bounds and the names of the jobs. What needs more than one place of the
    file, such as prefixes that overlap, only loading the file can tell.
    """
    from filejobs_dagster.jobs.own.settings import KINDS  # noqa: PLC0415 (a circle)

    ours = [BY_NAME[name] for name in BY_NAME if name not in BY_NAME.own]
    models: list[type[Section]] = [
        Settings,
        *dict.fromkeys(job.settings for job in ours),
        *(model for model, _ in KINDS.values()),
    ]
    _, shared = models_json_schema(
        [(model, "validation") for model in models],
        ref_template="#/$defs/{model}",
        schema_generator=_InTheFilesWords,
    )
    definitions: dict[str, Any] = shared["$defs"]
    for model in models:
        if issubclass(model, JobSettings):
            definitions[model.__name__]["oneOf"] = _SAY_WHEN
    _choose_what_is_owned(definitions["BucketSettings"])
    top: dict[str, Any] = definitions.pop("Settings")
    top["properties"]["jobs"] |= {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            job.name: {
                "$ref": f"#/$defs/{job.settings.__name__}",
                "description": job.summary,
            }
            for job in ours
        },
    }
    top["properties"]["own_jobs"] |= {
        "type": "object",
        "propertyNames": {"pattern": f"^{OWN.pattern}$"},
        "additionalProperties": {
            "oneOf": [{"$ref": f"#/$defs/{model.__name__}"} for model, _ in KINDS.values()]
        },
    }
    return {
        "$schema": DIALECT,
        **top,
        "title": "filejobs.yaml",
        "$defs": dict(sorted(definitions.items())),
    }


def settings_json_schema_text() -> str:
    """The schema as the file `examples/filejobs.schema.json` holds it."""
    return json.dumps(settings_json_schema(), indent=2, ensure_ascii=False) + "\n"


def _choose_what_is_owned(bucket: dict[str, Any]) -> None:
    bucket["properties"]["owns"]["minItems"] = 1
    no, yes = {"const": False}, {"const": True}
    bucket["oneOf"] = [
        {
            "required": ["owns", "min_age"],
            "properties": {"owns_whole_bucket": no, "owns_nothing": no},
        },
        {
            "required": ["owns_whole_bucket", "min_age"],
            "properties": {"owns_whole_bucket": yes, "owns_nothing": no, "owns": False},
        },
        {
            "required": ["owns_nothing"],
            "properties": {"owns_nothing": yes, "owns_whole_bucket": no, "owns": False},
        },
    ]
