"""`filejobs init`: a first `filejobs.yaml`, all of it dry, and the commands that come next."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, one_line, print_error, problems_text

if TYPE_CHECKING:
    from filejobs_dagster.settings import Loaded

DATABASE_VARIABLE = "FILEJOBS_DATABASE_URL"
KEYS = {"access_key_id": "FILEJOBS_S3_ACCESS_KEY_ID",
        "secret_access_key": "FILEJOBS_S3_SECRET_ACCESS_KEY"}  # fmt: skip
SCHEMA = "filejobs"
DEFAULT = Path("filejobs.yaml")


class Journey(str, Enum):
    """What somebody has, as docs/first-hour.md tells it."""

    OWN_TABLES = "own-tables"
    ORPHANS = "orphans"
    FILES = "files"


JOURNEYS = (
    "own-tables: your table has uploads that never finished; orphans: tables name keys, and the "
    "bucket only grows; files: an application that will use the table file"
)


@dataclass(frozen=True)
class Source:
    """A source that a scan proposes.

    Attributes:
        line: As the settings have it.
        rewrites: Of its owners.
        measured: What the scan has counted, and what it says besides, for a comment.
        usable: False for what is written as a comment only: superfluous, without a query.
        redundant: Whether other sources name all that it names.
        unsure: Whether it may name what is dead. It is used all the same: a source only keeps.
    """

    line: dict[str, Any]
    rewrites: tuple[dict[str, str], ...]
    measured: str
    usable: bool
    redundant: bool
    unsure: bool


@dataclass
class Answers:
    """What the file is made of: from flags, from a scan, from who sits at the terminal.

    What a preset says stands instead of what the journey would.

    Attributes:
        by: Which command writes it.
        entry: The bucket's name in the settings.
        comments: Above the file.
        reach: Where the bucket is.
        owned: What may be collected, and what else is said of the bucket before its sources.
        rules: What is said of it behind them.
        variables: Further environment variables that the file names.
    """

    journey: Journey
    installation: str = ""
    bucket: str = ""
    endpoint_url: str | None = None
    region: str | None = None
    owns: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    table: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    by: str = "init"
    entry: str = "uploads"
    comments: list[str] = field(default_factory=list)
    reach: dict[str, Any] = field(default_factory=dict)
    owned: dict[str, Any] = field(default_factory=dict)
    rules: dict[str, Any] = field(default_factory=dict)
    database: dict[str, Any] = field(default_factory=dict)
    presets: list[dict[str, Any]] = field(default_factory=list)
    jobs: dict[str, Any] = field(default_factory=dict)
    variables: tuple[str, ...] = ()


def init(  # noqa: PLR0917 (each is an option)
    context: typer.Context,
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PATH]", help="Where to write. Without it, as of --config.", show_default=False
        ),
    ] = None,
    journey: Annotated[
        Journey | None,
        typer.Option(
            "--journey",
            help=JOURNEYS,
            show_default=False,
        ),
    ] = None,
    from_scan: Annotated[
        Path | None,
        typer.Option(
            "--from-scan",
            metavar="FILE",
            help="What `filejobs scan --json` printed.",
            show_default=False,
        ),
    ] = None,
    installation: Annotated[
        str | None,
        typer.Option("--installation", metavar="NAME", help="acme-production", show_default=False),
    ] = None,
    bucket: Annotated[
        str | None,
        typer.Option("--bucket", metavar="NAME", help="The bucket.", show_default=False),
    ] = None,
    endpoint_url: Annotated[
        str | None,
        typer.Option(
            "--endpoint-url", metavar="URL", help="Of anything but AWS.", show_default=False
        ),
    ] = None,
    region: Annotated[
        str | None, typer.Option("--region", metavar="NAME", help="Its region.", show_default=False)
    ] = None,
    owns: Annotated[
        list[str] | None,
        typer.Option(
            "--owns",
            metavar="PREFIX",
            help="A prefix in which may be collected, such as files/. May be given again.",
            show_default=False,
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            "--table",
            metavar="'TABLE KEY DUE WHERE'",
            help="For own-tables: the table, its column of keys, its column of deadlines, and "
            "which rows may go: \"public.documents storage_key expires_at status = 'reserved'\".",
            show_default=False,
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write a first filejobs.yaml, all of it dry, and print the commands that come next.

    Takes what `filejobs scan` found, with what was measured as comments. Asks on a terminal what
    it was not told; elsewhere it says which flag is missing. Only the file is written. It is
    checked before: what this command writes, the jobs can read.

    [bold]Examples[/bold]
      filejobs scan --bucket acme-uploads --json > scan.json
      filejobs init --journey orphans --from-scan scan.json --installation acme-production
      filejobs init --journey files --installation acme --bucket acme-uploads --owns files/

    [bold]Exit codes[/bold]
      0   written
      1   refused: the file is there, or what would be written has mistakes
      64  called wrongly
    """
    invocation = Invocation.of(context)
    place = path or invocation.config or Path(os.environ.get("FILEJOBS_CONFIG") or DEFAULT)
    if place.exists() and not force:
        print_error(f"{place} is there already, and nothing was written. --force replaces it.")
        raise typer.Exit(terminal.FAILED)
    if journey is None and from_scan is not None:
        journey = Journey.ORPHANS  # what a scan can know of
    answers = Answers(
        journey or _journey(_said("--journey", None, JOURNEYS)),
        endpoint_url=endpoint_url,
        region=region,
        owns=owns or [],
    )
    if from_scan is not None:
        take_scan(from_scan, answers)
    answers.installation = _said("--installation", installation, "a name, such as acme-production")
    answers.bucket = _said("--bucket", bucket or answers.bucket, "the bucket's name")
    if not answers.owns:
        answers.owns = _said("--owns", None, "prefixes that may be collected in: files/").split()
    if answers.journey is Journey.OWN_TABLES:
        answers.table = _table(_said("--table", table, "TABLE KEY DUE WHERE"))
    text = right(answers, place)
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        print_error(f"{place} cannot be written ({error.strerror}): name another with PATH.")
        raise typer.Exit(terminal.FAILED) from None
    typer.echo(f"Wrote {place}: everything in it is dry. Read it, then:\n")
    for command in _next(answers, text, place):
        typer.echo(f"  {command}")
    for remark in (*answers.remarks, *_sources_in_words(answers.sources)):
        typer.echo(f"\n{remark}")


def _next(answers: Answers, text: str, place: Path) -> Iterator[str]:
    """What to type now: what this shell does not know yet, and the commands up to a dry run."""
    theirs = answers.journey is Journey.OWN_TABLES or any(it.usable for it in answers.sources)
    where = "@HOST:5432/DATABASE"
    meant = {
        "FILEJOBS_CONFIG": str(place.absolute()) if place != DEFAULT else "",
        DATABASE_VARIABLE: f"postgresql://filejobs_collector:…{where}",
        "OWNER_URL": f"postgresql://filejobs_owner:…{where}",
        "APP_OWNER_URL": f"postgresql://…{where}" if theirs else "",
        **{name: "…" for name in KEYS.values() if name in text},
    }
    for name, value in meant.items():
        if value and not os.environ.get(name):
            yield f"export {name}='{value}'"
    yield f"filejobs migrate --database-url-env OWNER_URL --schema {SCHEMA}"
    yield 'filejobs grants --database-url-env OWNER_URL | psql "$OWNER_URL"'
    if theirs:
        yield 'filejobs grants --missing --database-url-env OWNER_URL | psql "$APP_OWNER_URL"'
    yield "filejobs doctor"
    yield f"filejobs run {next(iter(_jobs(answers)))}"


def _sources_in_words(sources: Sequence[Source]) -> Iterator[str]:
    """What somebody has to decide on."""
    missing = [it.line["name"] for it in sources if not it.usable and not it.redundant]
    if missing:
        yield (f"Found, but a comment only: {', '.join(missing)}. What nothing else "
               "names will look unused: make sources of them before anything is live.")  # fmt: skip
    doubted = [it.line["name"] for it in sources if it.usable and it.unsure]
    if doubted:
        yield (f"The scan doubts that these name what is in use: {', '.join(doubted)}. What "
               "they name is kept; take out those whose rows outlive it.")  # fmt: skip


def _said(flag: str, given: str | None, what: str) -> str:
    """What was given, or what somebody at the terminal answers."""
    if given:
        return given
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"it is missing: {what}", param_hint=flag)
    answer: str = typer.prompt(f"{flag.removeprefix('--')} ({what})")
    return answer.strip()


def _journey(said: str) -> Journey:
    try:
        return Journey(said)
    except ValueError:
        raise typer.BadParameter(
            f"{said!r} is none of {JOURNEYS}", param_hint="--journey"
        ) from None


def _table(said: str) -> dict[str, str]:
    name, _, rest = said.strip().partition(" ")
    key, _, rest = rest.strip().partition(" ")
    due, _, where = rest.strip().partition(" ")
    if not where.strip():
        raise typer.BadParameter(
            "write four things: the table, its column of keys, its column of deadlines, and a "
            "condition on the rows that may go",
            param_hint="--table",
        )
    short = name.rpartition(".")[2]
    return {"name": short, "table": name, "key": key, "due": due, "after": "0s",
            "where": where.strip()}  # fmt: skip


def take_scan(path: Path, answers: Answers) -> None:
    """Take the bucket, the prefixes and the sources of a scan."""
    try:
        scan = json.loads(path.read_text(encoding="utf-8"))
        answers.bucket = scan["bucket"]
        found = [_source(one) for one in scan["sources"]]
        prefixes = scan.get("prefixes", ())
        named = [one["label"] for one in prefixes if one.get("referenced", {}).get("objects")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise typer.BadParameter(
            f"{path} is not what `filejobs scan --json` prints ({type(error).__name__})",
            param_hint="--from-scan",
        ) from None
    answers.endpoint_url = answers.endpoint_url or scan.get("endpoint_url")
    if not found:
        raise typer.BadParameter(
            "no column that it could read names an object: scan with a role that may read your "
            "tables (FILEJOBS_DATABASE_URL), and see what it lists as not looked at",
            param_hint="--from-scan",
        )
    answers.sources = found
    answers.owns = answers.owns or [label for label in named if label.endswith("/")]
    if scan.get("stopped"):
        answers.remarks.append(f"The scan did not come to its end: {scan['stopped']}.")


def _source(said: dict[str, Any]) -> Source:
    line = {"name": said["name"], "sql": said.get("sql")}
    if said.get("names", "keys") != "keys":
        line["names"] = said["names"]
    for name in ("transforms", "recheck_sql"):
        if said.get(name):
            line[name] = said[name]
    objects = said.get("objects", {})
    measured = f"{said.get('column', said['name'])}: {said.get('values', 'unknown')} names, "
    measured += f"{objects.get('objects', 'unknown')} objects"
    if said.get("missing"):
        measured += f", {said['missing']} names without an object"
    redundant, unsure = bool(said.get("redundant")), said.get("unsure") or ""
    why = "other sources name all of it" if redundant else unsure and f"unsure: {unsure}"
    rest = "; ".join(filter(None, (why, said.get("note"))))
    return Source(
        line,
        tuple(said.get("rewrites", ())),
        one_line(f"{measured}; {rest}").rstrip("; "),
        usable=said.get("sql") is not None and not redundant,
        redundant=redundant,
        unsure=bool(unsure),
    )


def document(answers: Answers) -> str:
    """The text of the file."""
    said = answers.reach or _reach(answers)
    said |= answers.owned or {"owns": answers.owns, "min_age": "48h"}
    said["sources"] = [Noted(it.line, note=it.measured, usable=it.usable) for it in answers.sources]
    rewrites = [one for it in answers.sources if it.usable for one in it.rewrites]
    said |= answers.rules or {"rewrites": rewrites}
    head: dict[str, Any] = {
        "installation": answers.installation,
        "environment": "production",
        "allow_live": False,
        "database": answers.database or {"url": {"env": DATABASE_VARIABLE}, "schema": SCHEMA},
        "presets": answers.presets,
        "buckets": {answers.entry: {key: it for key, it in said.items() if it != []}},
        "jobs": answers.jobs or _jobs(answers),
    }
    dry = "Nothing here deletes: allow_live is false, each job dry."
    above = [f"Written by `filejobs {answers.by}`. {dry}", *answers.comments]
    comments = "".join(f"# {one_line(it)}\n" for it in above)
    return comments + written({key: it for key, it in head.items() if it != []})


def _reach(answers: Answers) -> dict[str, Any]:
    """Where the bucket is, and by which variables it is reached."""
    bucket: dict[str, Any] = {"bucket": answers.bucket}
    if answers.endpoint_url:
        bucket |= {"endpoint_url": answers.endpoint_url, "addressing": "path"}
        if "AWS_ACCESS_KEY_ID" not in os.environ or all(map(os.environ.get, KEYS.values())):
            bucket |= {name: {"env": variable} for name, variable in KEYS.items()}
    if answers.region or answers.endpoint_url:
        bucket["region"] = answers.region or "us-east-1"
    return bucket


def _jobs(answers: Answers) -> dict[str, Any]:
    by_hand: dict[str, Any] = {"by_hand": True, "mode": "dry"}
    if answers.journey is Journey.ORPHANS:
        return {"storage_orphans": by_hand}
    if answers.journey is Journey.OWN_TABLES:
        return {"upload_reservations": {**by_hand, "tables": [answers.table]}}
    return {"upload_reservations": by_hand}


class Noted(dict[str, Any]):
    """An entry of a list, with a comment above it; as a comment itself where it cannot be used."""

    def __init__(self, said: Mapping[str, Any], *, note: str = "", usable: bool = True) -> None:
        super().__init__(said)
        self.note, self.usable = one_line(note), usable


_ABOVE = {"sources": "Every query that names keys in use. What none names looks unused."}
"""Comments above a key, whoever writes it."""


class _Dumper(yaml.SafeDumper):
    """Writes SQL of several lines as such."""


def _as_text(dumper: yaml.SafeDumper, said: str) -> yaml.Node:
    style = "|" if "\n" in said else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", said, style=style)


_Dumper.add_representer(str, _as_text)
_Dumper.add_multi_representer(dict, yaml.SafeDumper.represent_dict)


def written(said: Mapping[str, Any]) -> str:
    """A mapping of settings as YAML, with the comments of what is `Noted`."""
    return "".join(_lines_of(key, value) for key, value in said.items())


def _lines_of(key: str, value: Any) -> str:
    if isinstance(value, Mapping) and _has_notes(value):
        return f"{key}:\n{_indented(written(value), 2)}"
    if not (isinstance(value, list) and _has_notes(value)):
        return _yaml({key: value})
    above = f"# {_ABOVE[key]}\n" if key in _ABOVE else ""
    there = any(getattr(it, "usable", True) for it in value)
    entries = "".join(_indented(_entry(it), 2) for it in value)
    return f"{above}{f'{key}:{chr(10)}' if there else ''}{entries}"


def _entry(said: Any) -> str:
    text = _yaml([said])
    if not getattr(said, "usable", True):
        text = "".join(f"# {line}\n" for line in text.splitlines())
    note = getattr(said, "note", "")
    return f"# {note}\n{text}" if note else text


def _has_notes(said: Any) -> bool:
    if isinstance(said, Noted):
        return True
    inner = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    return any(map(_has_notes, inner))


def _yaml(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)


def _indented(text: str, by: int) -> str:
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def right(answers: Answers, place: Path) -> str:
    """The text of the file, once the jobs can read it; a source that they cannot is a comment.

    Raises:
        typer.Exit: It has mistakes, which are told.
    """
    text = document(answers)
    loaded = _read(text, place, answers.variables)
    usable = [number for number, source in enumerate(answers.sources) if source.usable]
    wrong: dict[int, str] = {}
    for problem in loaded.problems:
        at = re.match(rf"buckets\.{re.escape(answers.entry)}\.sources\[(\d+)\]", problem.path)
        if at is not None:
            wrong.setdefault(usable[int(at[1])], f"{problem.found}; {problem.expected}")
    if wrong:
        for number, why in wrong.items():
            it = answers.sources[number]
            said = one_line(f"{it.measured}; {why}")
            answers.sources[number] = replace(it, measured=said, usable=False)
        text = document(answers)
        loaded = _read(text, place, answers.variables)
    if loaded.settings is None:
        told = problems_text(replace(loaded, path=place))
        print_error(f"{told}\nNothing was written: give other flags, or mend the scan's proposal.")
        raise typer.Exit(terminal.FAILED)
    return text


def _read(text: str, place: Path, variables: Sequence[str] = ()) -> Loaded:
    """Read what would be written as the jobs will read it, with secrets that mean nothing."""
    import tempfile  # noqa: PLC0415 (--help stays fast)

    from filejobs_dagster.settings import read_settings  # noqa: PLC0415

    addresses = dict.fromkeys((DATABASE_VARIABLE, *variables), "postgresql://")
    known = {**addresses, **dict.fromkeys(KEYS.values(), "unknown")}
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / place.name
        draft.write_text(text, encoding="utf-8")
        return read_settings(draft, {**os.environ, **known})
