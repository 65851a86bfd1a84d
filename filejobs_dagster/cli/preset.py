"""`filejobs preset`: settings for applications that many teams run, with how they were proven."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.init import (
    DATABASE_VARIABLE,
    DEFAULT,
    KEYS,
    Answers,
    Journey,
    Noted,
    Source,
    right,
    take_scan,
    written,
)
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.terminal import Invocation, console, print_error, print_json, print_table
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from filejobs_dagster.door.guard import BucketAt
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.presets.fit import Fit
    from filejobs_dagster.presets.preset import Preset
    from filejobs_dagster.settings import BucketSettings, Settings

app = typer.Typer(
    help="Settings for applications that many teams run: Rails, Django, Directus, MLflow and "
    "others, each with how it was proven.",
    rich_markup_mode="rich",
    add_completion=False,
)

UNKNOWN = "unknown"
"""Stands for a secret where a text is only read."""


class Format(str, Enum):
    """How the answer is printed."""

    TABLE = "table"
    JSON = "json"


Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="One of `filejobs preset list`, or the path of a file."),
]
Output = Annotated[Format, typer.Option("--format", help="table for people, json for programs.")]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        envvar=DATABASE_VARIABLE,
        show_envvar=False,
        help="The application's database, best given as FILEJOBS_DATABASE_URL: others on this "
        "machine can read what stands on a command line.",
        show_default=False,
    ),
]
Bucket = Annotated[
    str | None,
    typer.Option(
        "--bucket",
        metavar="NAME",
        help="The bucket's name. Without it, database and bucket are those of filejobs.yaml.",
        show_default=False,
    ),
]
EndpointUrl = Annotated[
    str | None,
    typer.Option("--endpoint-url", metavar="URL", help="Of anything but AWS.", show_default=False),
]
Region = Annotated[
    str | None, typer.Option("--region", metavar="NAME", help="Its region.", show_default=False)
]
Entry = Annotated[
    str | None,
    typer.Option(
        "--entry",
        metavar="NAME",
        help="The bucket's name under `buckets:` of filejobs.yaml, where there are several.",
        show_default=False,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PARAMETER=VALUE",
        help="A value for a parameter; several times for a list. Without it, what the database "
        "suggests, or the default.",
        show_default=False,
    ),
]


@app.callback(invoke_without_command=True)
def _preset(context: typer.Context) -> None:
    help_when_alone(context)


@app.command("list")
def list_presets(output: Output = Format.TABLE) -> None:
    """Name the presets, what each is for, and what may become of its settings.

    [bold]Examples[/bold]
      filejobs preset list

    [bold]Exit codes[/bold]
      0   listed
    """
    from filejobs_dagster.presets.preset import load, names  # noqa: PLC0415 (--help is fast)

    every = [load(name) for name in names()]
    if output is Format.JSON:
        print_json([_about(it) for it in every])
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "application", "advice", "proven on"):
        table.add_column(heading)
    for it in every:
        proven = "; ".join(f"{one.on} ({one.how})" for one in it.proven)
        table.add_row(it.name, it.title, it.advice, proven)
    print_table(console(), table)


def _about(preset: Preset) -> dict[str, Any]:
    said = preset.model_dump(mode="json")
    about = {key: said[key] for key in ("name", "title", "version", "advice", "reason", "proven")}
    return {**about, "hash": preset.digest}


@app.command()
def show(
    name: Name,
    script: Annotated[
        bool,
        typer.Option("--script", help="Print the script that makes a preset of your own."),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Print a preset: what it takes, what it never takes, what the application does, traps.

    [bold]Examples[/bold]
      filejobs preset show rails
      filejobs preset show django --script | python manage.py shell > shop.yaml

    [bold]Exit codes[/bold]
      0   printed
      1   there is no such preset, or it has mistakes
    """
    from filejobs_dagster.presets.preset import load, page, script_of  # noqa: PLC0415

    preset = load(name)
    if script:
        typer.echo(script_of(preset), nl=False)
    elif output is Format.JSON:
        print_json({**preset.model_dump(mode="json"), "hash": preset.digest})
    else:
        typer.echo(page(preset), nl=False)


@app.command()
def check(  # noqa: PLR0917 (each is an option)
    context: typer.Context,
    name: Name,
    bucket: Bucket = None,
    database_url: DatabaseUrl = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    entry: Entry = None,
    values: Set = None,
    output: Output = Format.TABLE,
) -> None:
    """Ask whether a preset fits a database and a bucket. Reads a sample; changes nothing.

    Its probes say whether this is the application, and which variant. Each source is asked for its
    keys, and a few of their objects are looked for; up to 1,000 objects of each prefix are looked
    at, and what nothing names is shown by its shape.

    [bold]Examples[/bold]
      filejobs preset check rails --bucket acme-active-storage
      filejobs preset check directus --bucket acme --set root=media/ --json

    [bold]Exit codes[/bold]
      0   it fits
      1   it does not, or could not be asked; the message says why
    """
    from filejobs_dagster.presets.preset import load  # noqa: PLC0415 (--help is fast)

    preset = load(name)
    _require_settings(preset)
    place = _Place.of(Invocation.of(context), preset, bucket, database_url, endpoint_url, region,
                      entry)  # fmt: skip
    with _asked(place, preset, values) as (fit, facts, connection):
        if fit.fits:
            _measure(fit, place, preset, facts, connection)
    if output is Format.JSON:
        print_json(fit.as_json())
    else:
        _print(fit, preset)
    if not fit.fits:
        for why in fit.why_not:
            print_error(sanitize(f"It does not fit: {why}"))
        raise typer.Exit(terminal.FAILED)


@app.command()
def apply(  # noqa: PLR0917 (each is an option)
    context: typer.Context,
    name: Name,
    bucket: Bucket = None,
    database_url: DatabaseUrl = None,
    endpoint_url: EndpointUrl = None,
    region: Region = None,
    entry: Entry = None,
    values: Set = None,
    installation: Annotated[
        str | None,
        typer.Option("--installation", metavar="NAME", help="acme-production", show_default=False),
    ] = None,
    app_database_env: Annotated[
        str | None,
        typer.Option(
            "--app-database-env",
            metavar="VARIABLE",
            help="The environment variable of the application's database, where the project's own "
            "tables are in another.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            metavar="FILE",
            help="Write there instead of printing. A file that is there stays.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="After an upgrade: check, then print the section `presets:` as it must be now, "
            "and what the preset says that filejobs.yaml does not.",
        ),
    ] = False,
) -> None:
    """Write plain settings for an application, all of them dry, to read before they are used.

    The section `presets:` records the preset, its version and hash, and what the database
    answered; nothing else refers to it: after this the file alone decides. Once the application
    answers differently, it was upgraded, and live runs refuse until `preset check` fits and
    `preset apply --again` has been put into the file.

    [bold]Examples[/bold]
      filejobs preset apply rails --bucket acme-files --installation acme --output filejobs.yaml
      filejobs preset apply rails --again

    [bold]Exit codes[/bold]
      0   written
      1   refused: it does not fit, is not for settings, or the file is there
    """
    from filejobs_dagster.presets.preset import load  # noqa: PLC0415 (--help is fast)

    preset = load(name)
    _require_settings(preset)
    if output is not None and output.exists():
        print_error(f"{output} is there already, and nothing was written: give another --output.")
        raise typer.Exit(terminal.FAILED)
    if again and bucket is not None:
        raise typer.BadParameter(
            "--again is about a filejobs.yaml: leave it out, and name the bucket by --entry",
            param_hint="--bucket",
        )
    place = _Place.of(Invocation.of(context), preset, bucket, database_url, endpoint_url, region,
                      entry)  # fmt: skip
    if app_database_env is not None:
        place.app_env = app_database_env
    with _asked(place, preset, values) as (fit, facts, connection):
        if fit.fits:
            _measure(fit, place, preset, facts, connection)
    if not fit.fits:
        print_error(sanitize(f"It does not fit: {' '.join(fit.why_not)}"))
        raise typer.Exit(terminal.FAILED)
    record = _record(name, preset, place, fit)
    if again:
        text = _again(name, preset, place, facts, record)
    else:
        text = right(_answers(preset, place, facts, record, installation), output or DEFAULT)
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        print_error(f"{output} cannot be written ({error.strerror}): give another --output.")
        raise typer.Exit(terminal.FAILED) from None
    typer.echo(
        f"Wrote {output}: put its `presets:` into filejobs.yaml, then `filejobs doctor`."
        if again
        else f"Wrote {output}: everything in it is dry. Read it, then `filejobs doctor`."
    )


@app.command()
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What it will be called.")],
    from_scan: Annotated[
        Path,
        typer.Option("--from-scan", metavar="FILE", help="What `filejobs scan --json` printed."),
    ],
) -> None:
    """Start a preset from what a scan has found, and print it.

    What is left to do stands in it: which version it was tried on, what the application cleans
    itself, parameters for what differs elsewhere. docs/presets.md says how to hand it in.

    [bold]Examples[/bold]
      filejobs scan --bucket acme-uploads --json > scan.json
      filejobs preset new acme --from-scan scan.json > acme.yaml
      filejobs preset check ./acme.yaml --bucket acme-uploads

    [bold]Exit codes[/bold]
      0   printed
      64  the file is not of a scan
    """
    answers = Answers(Journey.ORPHANS)
    take_scan(from_scan, answers)
    usable = [it for it in answers.sources if it.usable]
    tables = sorted({it.measured.partition(":")[0].rpartition(".")[0] for it in usable})
    known = " and ".join(f"to_regclass({_quoted(it)}) is not null" for it in tables) or "true"
    typer.echo("# The package filejobs_dagster.presets says what each key means.")
    typer.echo(
        written(
            {
                "name": name,
                "title": name.capitalize(),
                "version": 1,
                "advice": "list only",
                "reason": "It was made from a scan, and nobody has proven it.",
                "proven": [{"on": "a scan of one installation", "how": "run"}],
                "probes": [
                    {
                        "name": "application",
                        "asks": "Are there the tables that name keys?",
                        "sql": f"select case when {known} then 'yes' else 'no' end",
                        "must_be": ["yes"],
                    }
                ],
                "watches": tables,
                "bucket": {
                    **(
                        {"owns_whole_bucket": True}
                        if answers.whole_bucket
                        else {"owns": answers.owns or [TO_NAME]}
                    ),
                    "min_age": "48h",
                    "sources": [
                        Noted({**it.line, "about": it.measured}, usable=it.usable)
                        for it in answers.sources
                    ],
                    **_if_any("rewrites", [one for it in usable for one in it.rewrites]),
                },
                "jobs": {"storage_orphans": {}},
                "traps": ["Write here what a team falls into."],
            }
        ),
        nl=False,
    )


TO_NAME = "name-the-folder-that-only-this-application-writes-in/"
"""What a preset owns of which a scan could not tell it: never the whole bucket by silence."""


def _quoted(table: str) -> str:
    """A table's name for `to_regclass`, which folds the case of what is not quoted."""
    schema, _, name = table.partition(".")
    named = ".".join('"{}"'.format(it.replace('"', '""')) for it in (schema, name))
    return "'{}'".format(named.replace("'", "''"))


def _if_any(key: str, said: list[Any]) -> dict[str, list[Any]]:
    return {key: said} if said else {}


def _require_settings(preset: Preset) -> None:
    """End where the preset is for no settings.

    Raises:
        typer.Exit: It is refused, or a script makes the settings.
    """
    if preset.advice == "refused":
        print_error(f"{preset.title} is refused: {preset.reason}")
        raise typer.Exit(terminal.FAILED)
    if preset.script is not None:
        print_error(
            f"Every {preset.title} project keeps its files elsewhere. `filejobs preset show "
            f"{preset.name} --script` prints a script that makes a preset of your project; give "
            "the path of that instead of the name."
        )
        raise typer.Exit(terminal.FAILED)


@dataclass
class _Place:
    """Where application and bucket are.

    Attributes:
        database: With the application's URL.
        bucket: How to reach it; what it owns does not matter.
        reach: The same, as a file says it.
        entry: Its name in the settings.
        settings: What filejobs.yaml says; None where flags say everything.
        app_env: The variable of the application's database, where it is not the project's.
    """

    database: Database
    bucket: BucketSettings
    reach: dict[str, Any]
    entry: str = "uploads"
    settings: Settings | None = None
    app_env: str | None = None

    @classmethod
    def of(
        cls,
        invocation: Invocation,
        preset: Preset,
        bucket: str | None,
        url: str | None,
        endpoint: str | None,
        region: str | None,
        entry: str | None,
    ) -> _Place:
        """Take flags, or what filejobs.yaml says."""
        from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415 (--help is fast)
        from filejobs_dagster.settings import BucketSettings  # noqa: PLC0415
        from filejobs_dagster.settings.secrets import ENVIRON  # noqa: PLC0415

        if bucket is None:
            return cls._of_settings(invocation, preset, entry)
        if not url:
            raise typer.BadParameter(
                f"no database: set {DATABASE_VARIABLE}", param_hint="--database-url"
            )
        invocation.hide(url)
        reach: dict[str, Any] = {"bucket": bucket}
        if endpoint:
            reach |= {"endpoint_url": endpoint, "addressing": "path"}
        if endpoint or region:
            reach["region"] = region or "us-east-1"
        if all(map(os.environ.get, KEYS.values())):
            reach |= {key: {"env": variable} for key, variable in KEYS.items()}
        made = BucketSettings.model_validate(
            {**reach, "owns_nothing": True}, context={ENVIRON: os.environ}
        )
        return cls(Database(url), made, reach, entry or "uploads")

    @classmethod
    def _of_settings(cls, invocation: Invocation, preset: Preset, entry: str | None) -> _Place:
        from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415 (--help is fast)

        settings = invocation.require()
        by_it = {it.bucket: it for it in settings.presets if _is(it.name, preset)}
        names = list(by_it) or settings.entries_meant
        if entry is None and len(names) == 1:
            (entry,) = names
        if entry is None or entry not in settings.buckets:
            known = ", ".join(settings.buckets) or "none"
            raise typer.BadParameter(f"name one of {known}", param_hint="--entry")
        bucket, recorded = settings.buckets[entry], by_it.get(entry)
        database, app_env = Database.of(settings.database), None
        if recorded is not None and recorded.database is not None:
            app_env = recorded.database.url.env
            database = database.elsewhere(recorded.database.url.reveal())
        said = bucket.model_dump(mode="json", by_alias=True, exclude_unset=True)
        reach = {key: said[key] for key in _REACH if key in said}
        return cls(database, bucket, reach, entry, settings, app_env)


_REACH = ("bucket", "endpoint_url", "region", *KEYS, "session_token", "addressing", "content_md5",
          "max_attempts", "quarantine", "delete", "purge_versions")  # fmt: skip


def _is(name: str, preset: Preset) -> bool:
    return name == preset.name or Path(name).stem == preset.name


@contextmanager
def _asked(
    place: _Place, preset: Preset, values: list[str] | None
) -> Iterator[tuple[Fit, dict[str, Any], Connection]]:
    """What the database says, the values of all parameters, and the connection."""
    from filejobs_dagster.presets.fit import begun  # noqa: PLC0415 (--help is fast)
    from filejobs_dagster.presets.preset import parameters_of, probe  # noqa: PLC0415

    said: dict[str, Any] = {}
    for each in values or ():
        key, sign, value = each.partition("=")
        if not sign:
            raise typer.BadParameter(f"{each!r} has no =", param_hint="--set")
        many = key in preset.parameters and preset.parameters[key].many
        said[key] = [*said.get(key, ()), value] if many else value
    with place.database.connect("preset") as connection:
        probed = probe(preset, place.database, connection)
        fit = begun(preset, probed)
        facts: dict[str, Any] = dict(probed.answers)
        if fit.fits:
            found, origins = parameters_of(preset, place.database, connection, said)
            facts |= found
            fit.parameters = {
                key: {"value": list(value) if isinstance(value, tuple) else value,
                      "from": origins[key]}
                for key, value in found.items()
            }  # fmt: skip
        yield fit, facts, connection


def _measure(
    fit: Fit, place: _Place, preset: Preset, facts: Mapping[str, Any], connection: Connection
) -> None:
    from filejobs_dagster.presets.fit import measure  # noqa: PLC0415 (--help is fast)

    measure(fit, _bucket_at(place, preset, facts), place.database, connection)


def _bucket_at(place: _Place, preset: Preset, facts: Mapping[str, Any]) -> BucketAt:
    """The bucket as the preset's settings have it, with the sources that its tables are."""
    from filejobs_dagster.door.guard import BucketAt  # noqa: PLC0415 (--help is fast)
    from filejobs_dagster.objects.client import make_client  # noqa: PLC0415
    from filejobs_dagster.settings import Settings  # noqa: PLC0415
    from filejobs_dagster.settings.secrets import ENVIRON  # noqa: PLC0415

    bucket, jobs = preset.settings(facts)
    document = {
        "installation": preset.name,
        "database": {"url": {"env": DATABASE_VARIABLE}},
        "buckets": {place.entry: {"bucket": place.bucket.bucket, **bucket}},
        "jobs": jobs,
    }
    made = Settings.model_validate(document, context={ENVIRON: {DATABASE_VARIABLE: UNKNOWN}})
    ruled = made.buckets[place.entry]
    client = make_client(place.bucket)
    return BucketAt(place.entry, ruled, client, deletes=True)


def _record(name: str, preset: Preset, place: _Place, fit: Fit) -> dict[str, Any]:
    own = name != preset.name
    elsewhere = {"database": {"url": {"env": place.app_env}}} if place.app_env else {}
    return {
        "name": str(Path(name).absolute()) if own else name,
        "version": preset.version,
        "hash": preset.digest,
        "bucket": place.entry,
        **elsewhere,
        "probed": fit.probes,
    }


def _again(
    name: str, preset: Preset, place: _Place, facts: Mapping[str, Any], record: dict[str, Any]
) -> str:
    """The section `presets:`, and in comments what else the file lacks."""
    from filejobs_dagster.presets.fit import differences  # noqa: PLC0415 (--help is fast)

    if place.settings is None:
        raise typer.BadParameter("it needs a filejobs.yaml: leave --bucket out", param_hint=name)
    others = [
        it.model_dump(mode="json", by_alias=True, exclude_unset=True)
        for it in place.settings.presets
        if not _is(it.name, preset) or it.bucket != place.entry
    ]
    said = place.bucket.model_dump(mode="json", by_alias=True, exclude_unset=True)
    missing = differences(preset, facts, said)
    lines = [f"# The preset says what buckets.{place.entry} does not: {it}\n" for it in missing]
    return "".join(lines) + written({"presets": [*others, record]})


def _answers(
    preset: Preset,
    place: _Place,
    facts: Mapping[str, Any],
    record: dict[str, Any],
    installation: str | None,
) -> Answers:
    """What the file is made of."""
    bucket, jobs = preset.settings(facts, notes=True)
    settings = place.settings
    if installation is None:
        installation = settings.installation if settings is not None else preset.name
    comments = [f"{preset.title}, by the preset {preset.name} {preset.version}: {preset.reason}"]
    if preset.advice != "live":
        comments.append("Its settings are for lists alone: live runs are refused.")
    comments += [f"{name}: {facts[name]!r}" for name in preset.parameters]
    database: dict[str, Any] = {}
    if settings is not None:
        database = settings.database.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if place.app_env is not None:
        _put_elsewhere(bucket, jobs, {"url": {"env": place.app_env}})
    sources = bucket.pop("sources", [])
    rules = {key: bucket.pop(key) for key in ("rewrites", "named_elsewhere") if key in bucket}
    return Answers(
        Journey.ORPHANS,
        installation=installation,
        bucket=place.bucket.bucket,
        sources=[
            Source(
                {key: it for key, it in one.items() if key != "about"},
                (),
                one.get("about", ""),
                usable=True,
                redundant=False,
                unsure=False,
            )
            for one in sources
        ],
        by=f"preset apply {preset.name}",
        entry=place.entry,
        comments=comments,
        reach=place.reach,
        owned=bucket,
        rules=_noted(rules) or {"rewrites": []},
        database=database,
        presets=[record],
        jobs=_noted(jobs),
        variables=(place.app_env,) if place.app_env else (),
    )


def _noted(said: Any) -> Any:
    """The same, with each `about` as a comment."""
    if isinstance(said, Mapping):
        left = {key: _noted(value) for key, value in said.items() if key != "about"}
        return Noted(left, note=said["about"]) if "about" in said else left
    return [_noted(it) for it in said] if isinstance(said, list) else said


def _put_elsewhere(bucket: dict[str, Any], jobs: dict[str, Any], where: dict[str, Any]) -> None:
    """Let sources, tables and statements say where they are."""
    for section in jobs.values():
        for one in (*section.get("tables", ()), *filter(None, [section.get("source")])):
            one["database"] = where
    for one in bucket.get("sources", ()):
        one["database"] = where


def _print(fit: Fit, preset: Preset) -> None:
    out = console()
    out.print(f"{preset.title}: preset {fit.preset} {fit.version}, {fit.advice}", style="bold")
    for name, answer in fit.probes.items():
        out.print(f"  {name}: {answer}")
    for name, it in fit.parameters.items():
        out.print(f"  {name} = {it['value']} ({it['from']})")
    for it in fit.sources:
        seen = "" if "sampled" not in it else (
            f"; of {it['sampled']} keys {it['in_owns']} lie in owns, of {it['looked_for']} looked "
            f"for {it['with_object']} have an object"
        )  # fmt: skip
        out.print(f"  source {it['name']}: {it.get('rows', 'not asked')} {it['names']}{seen}")
    if fit.objects:
        out.print("  objects: " + ", ".join(f"{n} {what}" for what, n in fit.objects.items()))
    for it in fit.unnamed:
        out.print(f"  nothing names {it['objects']} like {it['sample']} ({it['shape']})")
    if fit.fits:
        out.print("It fits.")
