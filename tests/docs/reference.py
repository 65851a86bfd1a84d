"""The pages of `docs/reference/`, made of what the code declares.

`python -m tests.docs.reference` writes them; a test refuses pages that say anything else.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import TYPE_CHECKING, Any, get_args

import typer
import yaml
from pydantic import AfterValidator

from filejobs_dagster.book import meanings
from filejobs_dagster.cli.main import app
from filejobs_dagster.jobs.storage_orphans.detail import LIST_COLUMNS
from filejobs_dagster.metrics.exposition import Reading, text_of
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.presets import preset
from filejobs_dagster.prove.claims import CLAIMS
from filejobs_dagster.registry import JOBS
from filejobs_dagster.settings import settings_json_schema
from filejobs_dagster.settings.section import Section
from filejobs_dagster.settings.values import Bounds
from filejobs_dagster.text import format_duration
from tests.docs.pages import DOCS, EXAMPLES, WORDS
from tests.docs.supply import licence_of, needed, reasons
from tests.jobs.bucket_states import table_lines

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import click

PLACE = DOCS / "reference"

_MADE = (
    "<!-- Written by `python -m tests.docs.reference` from the declarations. Do not edit. -->\n\n"
)

_RUN_CONFIG = (
    "What one run can be told: in the Launchpad, or in a file for `dagster job execute -c`. Except "
    "`dry_run`, a default is the one of `filejobs.yaml` where the file says one. The run itself "
    "checks the bounds, before anything is touched.\n"
)
_COMMANDS = (
    "`filejobs COMMAND --help` says the same with examples. Exit codes are 0 done, 1 refused or "
    "failed, 64 called wrongly, 70 a fault of the program, 130 interrupted; `status --check`, "
    "`verify`, `alert` and `retention` have more, which their help lists.\n"
)
_METRICS = (
    "What `filejobs metrics` shows. Every one is a gauge with the label `installation`; those of "
    "jobs have `job_name` as well. What is not known has no sample.\n"
)
_RECORDS = (
    "What stands in `job_run.detail`, in the tables that people read, and in the list that "
    "`storage_orphans` writes for review.\n"
)
_HASH = (
    f"`hash` is the SHA-256 of {sum(size for size, _ in meanings.PRE_IMAGE)} bytes, integers "
    "big-endian. The genesis is that of the text `filejobs/audit/genesis`, a newline and the "
    "chain's name.\n"
)
_AUDIT_CODES = (
    "What [the verifier finds](../audit.md#when-something-is-found) and why sealing and trimming "
    "are refused. Do not repair anything by hand.\n"
)
_CLAIMS = (
    "What `filejobs prove` executes on a real PostgreSQL, by a careless version that loses and by "
    "this project. `--only` tries one.\n"
)
_VERSIONS = (
    "What becomes of an object that was written twice, and that nothing names any more, without "
    "and with [quarantine](../buckets.md#quarantine). *Suspended*: the older version is "
    "from before, the current one from after. *Locked*: the bucket keeps versions, and the current "
    "one is retained.\n"
)


def pages() -> dict[str, str]:
    """Every page of the reference: its name and its text."""
    made = {
        "settings.md": _settings(),
        "run-config.md": _run_config(),
        "commands.md": _commands(),
        "metrics.md": _metrics(),
        "records.md": _records(),
        "audit-codes.md": _audit_codes(),
        "examples.md": _examples(),
        "claims.md": _claims(),
        "versions.md": _versions(),
        "dependencies.md": _dependencies(),
        **{f"preset-{name}.md": preset.page(preset.load(name)) for name in preset.names()},
    }
    return {name: _MADE + text.rstrip("\n") + "\n" for name, text in made.items()}


# Settings -------------------------------------------------------------------------------------


def _settings() -> str:
    schema = settings_json_schema()
    parts = [
        "# Reference: settings\n",
        "Every key of `filejobs.yaml`; [Settings](../settings.md) says how the file works.\n",
        *_section("the top of the file", schema),
    ]
    told: set[str] = set()
    for path, name in _places(schema, schema, ""):
        if name not in told:
            told.add(name)
            parts += _section(f"`{path}`", schema["$defs"][name], name)
    return "\n".join(parts)


def _section(title: str, about: Mapping[str, Any], name: str = "Settings") -> Iterator[str]:
    fields = _models()[name].model_fields
    yield f"## {title[0].upper()}{title[1:]}\n"
    if "description" in about:
        yield about["description"] + "\n"
    yield "| Key | Default | Can be | Meaning |\n|---|---|---|---|"
    required = about.get("required", [])
    for key, one in about["properties"].items():
        default = "required" if key in required else _value(one.get("default"))
        can_be = _bounds(fields.get(key)) or _kind(one)
        yield f"| `{key}` | {default} | {_cell(can_be)} | {_cell(one['description'])} |"
    yield ""


def _models() -> dict[str, type[Section]]:
    """Every section's model, by its name."""
    found: dict[str, type[Section]] = {}
    left: list[type[Section]] = [Section]
    while left:
        model = left.pop()
        found[model.__name__] = model
        left += model.__subclasses__()
    return found


def _bounds(about: Any) -> str:
    """The shortest and the longest of a duration; nothing for any other value."""
    left = [] if about is None else [*about.metadata, about.annotation]
    while left:
        each = left.pop()
        if isinstance(each, AfterValidator) and isinstance(each.func, Bounds):
            return f"{format_duration(each.func.least)} to {format_duration(each.func.most)}"
        left += [*getattr(each, "__metadata__", ()), *get_args(each)]
    return ""


def _places(schema: Mapping[str, Any], about: Mapping[str, Any], path: str) -> Iterator[Any]:
    """Every section below a place of the file, with its path, as the file has them."""
    for key, one in about["properties"].items():
        for name, suffix in _sections(one):
            here = f"{path}.{key}{suffix}".lstrip(".")
            yield here, name
            yield from _places(schema, schema["$defs"][name], here)


def _sections(one: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for alternative in (one, *one.get("anyOf", ()), *one.get("allOf", ())):
        if "$ref" in alternative:
            yield alternative["$ref"].rpartition("/")[2], ""
        for where, suffix in (("items", "[]"), ("additionalProperties", ".NAME")):
            inner = alternative.get(where)
            for one_of in inner.get("oneOf", ()) if isinstance(inner, dict) else ():
                yield one_of["$ref"].rpartition("/")[2], suffix
            if isinstance(inner, dict) and "$ref" in inner:
                yield inner["$ref"].rpartition("/")[2], suffix
        for key, inner in alternative.get("properties", {}).items():
            if isinstance(inner, dict) and "$ref" in inner:
                yield inner["$ref"].rpartition("/")[2], f".{key}"


def _kind(one: Mapping[str, Any]) -> str:
    """What a value can be, in a few words."""
    alternatives = [each for each in one.get("anyOf", [one]) if each.get("type") != "null"]
    return " or ".join(dict.fromkeys(_one_kind(each) for each in alternatives))


def _one_kind(one: Mapping[str, Any]) -> str:
    if "enum" in one:
        return ", ".join(f"`{choice}`" for choice in one["enum"])
    if "env" in one.get("properties", {}):
        return "`{env: NAME}`"
    if one.get("type") == "integer" and "minimum" in one:
        most = f" to {one['maximum']:,}" if "maximum" in one else " or more"
        return f"{one['minimum']:,}{most}"
    kinds = {"boolean": "`true`, `false`", "array": "list", "string": "text", "integer": "number"}
    return kinds.get(str(one.get("type")), "number" if one.get("type") == "number" else "mapping")


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# What a run can be told -----------------------------------------------------------------------


def _run_config() -> str:
    parts = [
        "# Reference: run config\n",
        _RUN_CONFIG,
    ]
    for job in JOBS:
        parts += [
            f"## {job.name}\n",
            f"{job.summary}\n",
            "| Key | Default | Meaning |\n|---|---|---|",
        ]
        for name, about in config_of(job, None).model_fields.items():
            default = "" if about.is_required() else _default(about.default)
            parts.append(f"| `{name}` | {default} | {_cell(about.description or '')} |")
        parts.append("")
    return "\n".join(parts)


def _default(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str | list | tuple):
        return _value(list(value) if isinstance(value, tuple) else value)
    return "none"


# The command line -----------------------------------------------------------------------------


def _commands() -> str:
    group: Any = typer.main.get_command(app)
    parts = [
        "# Reference: commands\n",
        _COMMANDS,
    ]
    for name, command in _all_commands(group, "filejobs"):
        parts += [f"## {name}\n", _first_sentence(command.help or "") + "\n"]
        options = [one for one in command.params if one.name != "help"]
        if options:
            parts.append("| Option | Meaning |\n|---|---|")
            for one in options:
                said = ", ".join(f"`{opt}`" for opt in (*one.opts, *one.secondary_opts))
                called = said if one.param_type_name == "option" else f"`{one.name.upper()}`"
                words = getattr(one, "help", None) or ""
                parts.append(f"| {called} | {_cell(words)} |")
            parts.append("")
    return "\n".join(parts)


def _all_commands(group: Any, path: str) -> Iterator[tuple[str, click.Command]]:
    import click as library  # noqa: PLC0415 (the type checker knows it by its name above)

    context = library.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from _all_commands(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command


def _first_sentence(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


# Metrics, records, codes ----------------------------------------------------------------------


def _metrics() -> str:
    text = text_of(Reading("test", 0.0, (), {}, {}))
    rows = re.findall(r"^# HELP (\w+) (.+)$", text, re.MULTILINE)
    return "\n".join(
        [
            "# Reference: metrics\n",
            _METRICS,
            "| Metric | Meaning |\n|---|---|",
            *(f"| `{name}` | {_cell(words)} |" for name, words in rows),
        ]
    )


def _records() -> str:
    parts = [
        "# Reference: records\n",
        _RECORDS,
        "## Every run\n",
        *_table("Field", meanings.EVERY_RUN),
    ]
    for job in JOBS:
        page = f"{job.name}.md" if (DOCS / f"{job.name}.md").is_file() else "audit.md"
        parts += [f"## {job.name}\n", f"{job.summary} [Its page](../{page}).\n"]
        for title, entries in WORDS[job.name].items():
            parts += _table(title, entries)
    parts += ["## Own jobs\n", *_table("Field", meanings.OWN_JOBS)]
    parts += ["## The list for review\n", *_table("Column", LIST_COLUMNS)]
    for table, columns in meanings.COLUMNS.items():
        parts += [f"## The table {table}\n", *_table("Column", columns)]
    parts += [
        _HASH,
        "| Bytes | What |\n|---|---|",
        *(f"| {size} | {what} |" for size, what in meanings.PRE_IMAGE),
    ]
    return "\n".join(parts)


def _table(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    yield f"| {title} | Meaning |\n|---|---|"
    for names, words in entries.items():
        yield f"| {_names(names)} | {_cell(words)} |"
    yield ""


def _names(names: str) -> str:
    """Names in code, with a comma between them."""
    return ", ".join(f"`{each}`" for each in names.split(meanings.AND))


def _audit_codes() -> str:
    parts = [
        "# Reference: audit codes\n",
        _AUDIT_CODES,
    ]
    for title, codes in (("finding", meanings.FINDINGS), ("refusal", meanings.REFUSALS)):
        parts.append(f"| Code of a {title} | Means | What to do |\n|---|---|---|")
        parts += [
            f"| `{code}` | {_cell(means)} | {_cell(do)} |" for code, (means, do) in codes.items()
        ]
        parts.append("")
    return "\n".join(parts)


# Examples -------------------------------------------------------------------------------------


def _examples() -> str:
    parts = [
        "# Reference: examples\n",
        "Files to start from, in [`examples/`](../../examples).\n",
        "| File | What it is |\n|---|---|",
    ]
    parts += [
        f"| [`{path.name}`](../../examples/{path.name}) | {_cell(_about(path))} |"
        for path in sorted(EXAMPLES.iterdir())
    ]
    return "\n".join(parts)


def _about(path: Any) -> str:
    """The first paragraph of the comment at the top of a file, or what a JSON says of itself."""
    if path.is_dir():
        path = path / "pyproject.toml"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return ast.get_docstring(ast.parse(text)) or ""
    if path.suffix == ".json":
        said = yaml.safe_load(text)
        about = said.get("description") or said.get("title")
        return str(about or "tags for `dagster job launch` and `dagster job backfill`")
    lines = []
    for line in text.splitlines():
        if line.startswith(("# yaml-language-server", "[")):
            continue
        if not line.startswith("#") or not line.strip("# "):
            break
        lines.append(line.strip("# "))
    return " ".join(lines)


# Claims, and buckets that keep versions -------------------------------------------------------


def _claims() -> str:
    rows = [
        f"| `{claim.name}` | {_cell(sys.modules[claim.demonstrate.__module__].__doc__ or '')} "
        f"| {_cell(claim.sentence)} |"
        for claim in CLAIMS
    ]
    return "\n".join(
        [
            "# Reference: claims\n",
            _CLAIMS,
            "| Name | What loses | The claim |\n|---|---|---|",
            *rows,
        ]
    )


def _versions() -> str:
    return "\n".join(["# Reference: versions\n", _VERSIONS, *table_lines()])


_DEPENDENCIES = (
    "What the package needs, why, and under which licence. A test refuses one that does not "
    "go with ours. `make sbom` writes the bill of materials (CycloneDX) of everything that "
    "`constraints.txt` pins; `make vulnerabilities` asks the package index with pip-audit about "
    "each, where the network allows it, and passes no finding over.\n"
)


def _dependencies() -> str:
    why = reasons()
    rows = [f"| `{name}` | {_cell(licence_of(name))} | {_cell(why[name])} |" for name in why]
    return "\n".join(
        [
            "# Reference: dependencies\n",
            _DEPENDENCIES,
            "| Name | Licence | Why |\n|---|---|---|",
            *rows,
            "\nWhat these need in turn:\n",
            "| Name | Licence |\n|---|---|",
            *(f"| `{name}` | {_cell(licence_of(name))} |" for name in needed()),
        ]
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PLACE.mkdir(exist_ok=True)
    for stale in set(PLACE.glob("*.md")) - {PLACE / name for name in pages()}:
        stale.unlink()
    for name, text in pages().items():
        (PLACE / name).write_text(text, encoding="utf-8")
