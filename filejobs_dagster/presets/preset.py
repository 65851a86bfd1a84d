"""A preset as types: read, checked, asked, and made into plain settings."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import psycopg
from pydantic import Field, StrictBool, StrictInt, ValidationError

from filejobs_dagster.postgres.connect import Connection, Database
from filejobs_dagster.postgres.inventory import expected
from filejobs_dagster.settings.load import UnreadableDocumentError, problems_of, read_document
from filejobs_dagster.settings.model import Settings
from filejobs_dagster.settings.problems import Problem, SettingsError, mistake, shown
from filejobs_dagster.settings.secrets import ENVIRON
from filejobs_dagster.settings.section import Found, Section, items, mistakes_in, nearest
from filejobs_dagster.settings.values import Text
from filejobs_dagster.text import Teaching, sanitize_exception

URL = "FILEJOBS_DATABASE_URL"
PLAIN = r"[A-Za-z0-9 _./:@%+~-]+"
"""What a parameter's value may be that says no pattern: nothing that ends a text of SQL."""

LONGEST_ANSWER = 60
"""Characters of an answer that stands in the settings as it is; of a longer one, its digest."""

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PLACE = re.compile(r"@([a-z][a-z0-9_]*)@")
_NEVER = re.compile(r"['\";\\$\x00-\x1f{}]")
_LITERAL = ("match", "shape")
_EXTRA = ("about", "when")

# A table is watched by the columns that it has, whoever may read them.
_WATCHED = """
SELECT nspname || '.' || relname,
       string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attname)
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
  JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
 WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
   AND nspname !~ '^pg_' AND nspname <> 'information_schema'
   AND NOT (nspname = %(schema)s AND relname = ANY (%(own)s))
   AND nspname || '.' || relname LIKE ANY (%(patterns)s)
 GROUP BY 1 ORDER BY 1
"""


class Proof(Section):
    """What the preset was tried on."""

    on: Text = Field(description="Version of application or schema.", examples=["Rails 6.1"])
    how: Literal["run", "published schema"] = Field(
        description="`run` where the application itself was run.", examples=["run"]
    )
    fixture: Text | None = Field(
        default=None, description="A folder of tests/applications.", examples=["rails"]
    )


class Probe(Section):
    """One question to the application's database."""

    name: Text = Field(description="For `when`: letters, digits, _.", examples=["tracked"])
    asks: Text = Field(description="For people.", examples=["Are variants tracked?"])
    sql: Text = Field(description="One SELECT of one value.", examples=["select 'yes'"])
    must_be: list[str] | None = Field(
        default=None, description="Answers of this application.", examples=[["yes"]]
    )

    def fits(self, answer: str) -> bool:
        """Whether this application answers so."""
        return self.must_be is None or answer in self.must_be


class Parameter(Section):
    """What differs from one installation of the application to another."""

    description: Text = Field(description="For people.", examples=["The service's name."])
    suggest: Text | None = Field(
        default=None, description="A SELECT of the answer.", examples=["select 'amazon'"]
    )
    default: Any = Field(default=None, description="Without an answer.", examples=["amazon"])
    example: Any = Field(description="Checks the file.", examples=["amazon"])
    many: StrictBool = Field(default=False, description="It is a list.", examples=[False])
    pattern: Text = Field(default=PLAIN, description="Of one value, whole.", examples=["[a-z]+"])

    def taken(self, name: str, value: Any) -> str | tuple[str, ...]:
        """The value, checked.

        Raises:
            PresetError: It is another kind of value.
        """
        found = tuple(map(str, value if isinstance(value, list | tuple) else [value]))
        for one in found:
            if re.fullmatch(self.pattern, one) is None or _NEVER.search(one):
                raise PresetError(
                    f"The parameter {name} cannot be {shown(one)}: a value matches {self.pattern} "
                    "and has no quote, ;, \\, $, brace or line break."
                )
        if self.many:
            return found
        if len(found) != 1:
            raise PresetError(f"The parameter {name} has one value; {len(found)} were given.")
        return found[0]


class NotCaught(Section):
    """A rule whose loss no guard stops."""

    kind: Literal["source", "transform", "rewrite", "protection"] = Field(
        description="Of rule.", examples=["rewrite"]
    )
    name: Text = Field(description="As `filejobs rehearse` names it.", examples=["variants"])
    why: Text = Field(description="In a sentence.", examples=["no row names them"])


class PresetError(Teaching):
    """A preset cannot be used so; the message says why and what to do."""


class Preset(Section):
    """A file of this folder, or one of an operator's own; the package's docstring says its form."""

    name: Text = Field(description="As the file is called.", examples=["rails"])
    title: Text = Field(description="For people.", examples=["Rails Active Storage"])
    version: StrictInt = Field(ge=1, description="Counted up.", examples=[1])
    advice: Literal["live", "list only", "refused"] = Field(
        description="What may become of its settings.", examples=["live"]
    )
    reason: Text = Field(description="Why.", examples=["Every file has a row."])
    proven: list[Proof] = Field(
        min_length=1,
        description="What it was tried on.",
        examples=[[{"on": "Rails 6.1", "how": "run"}]],
    )
    probes: list[Probe] = Field(default_factory=list, description="Questions.", examples=[[]])
    watches: list[Text] = Field(default_factory=list, description="Tables.", examples=[["a.b_*"]])
    parameters: dict[str, Parameter] = Field(
        default_factory=dict, description="What differs.", examples=[{}]
    )
    script: Text | None = Field(
        default=None,
        description="A script of this folder that prints a preset of one's own.",
        examples=["django_fields.py"],
    )
    bucket: dict[str, Any] = Field(
        default_factory=dict, description="Of a bucket.", examples=[{"owns": ["files/"]}]
    )
    jobs: dict[str, Any] = Field(
        default_factory=dict, description="Of jobs.", examples=[{"storage_orphans": {}}]
    )
    cleans_itself: list[Text] = Field(default_factory=list, description="And when.", examples=[[]])
    never_seen: list[Text] = Field(default_factory=list, description="No row.", examples=[[]])
    traps: list[Text] = Field(default_factory=list, description="Mistakes.", examples=[[]])
    not_caught: list[NotCaught] = Field(
        default_factory=list, description="What no guard stops.", examples=[[]]
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at names, at conditions and at what the settings would be."""
        parameters = said.get("parameters") or {}
        names = [one.get("name") for one in items(said.get("probes")) if isinstance(one, dict)]
        known = [*names, *parameters]
        for name in known:
            if not isinstance(name, str) or not _NAME.fullmatch(name) or known.count(name) > 1:
                yield (
                    ("probes" if name in names else "parameters",),
                    mistake(
                        f"{shown(name)} is no name, or a second one",
                        "write lowercase letters, digits and _, each name once",
                    ),
                )
        for place in ("bucket", "jobs"):
            yield from _strangers(said.get(place), (place,), known, parameters)
        if said.get("advice") == "refused" or said.get("script"):
            if said.get("bucket") or said.get("jobs"):
                words = mistake("it is refused, or a script's, and has settings", "leave them out")
                yield ("bucket" if said.get("bucket") else "jobs",), words
            return
        for job, section in (said.get("jobs") or {}).items():
            if isinstance(section, Mapping) and "mode" in section:
                yield ("jobs", job, "mode"), mistake("a preset is dry", "leave it out")
        yield from _mistaken(said)

    @property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that tell one text of a preset from another."""
        return _digest(json.dumps(self.model_dump(mode="json"), sort_keys=True))

    def settings(
        self, facts: Mapping[str, Any] | None, *, notes: bool = False
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """What it says of bucket and jobs.

        Args:
            facts: Answers of probes and values of parameters, by name; None for the examples, as if
                every `when` held.
            notes: Keep `about`.
        """
        values = {name: it.example for name, it in self.parameters.items()} if facts is None else {}
        made = _Made(facts or values, every=facts is None, notes=notes)
        bucket = made.of(self.bucket) if self.bucket else {}
        jobs: dict[str, Any] = {}
        for name, said in self.jobs.items():
            section = made.of(said)
            # Without the tables that it is for, a job would go to this project's own.
            if section is not _GONE and not _lost_a_list(said, section):
                start = {} if "schedule" in section else {"by_hand": True}
                jobs[name] = {**start, "mode": "dry", **section}
        return bucket, jobs


_GONE = object()


class _Made:
    """Settings that are made of a preset's."""

    def __init__(self, facts: Mapping[str, Any], *, every: bool, notes: bool) -> None:
        self._facts, self._every, self._notes = facts, every, notes

    def of(self, said: Any, key: str = "") -> Any:
        if isinstance(said, Mapping):
            if not self._every and not holds(said.get("when"), self._facts):
                return _GONE
            left = {k: self.of(v, k) for k, v in said.items() if k not in _EXTRA}
            about = {"about": said["about"]} if self._notes and "about" in said else {}
            return {**about, **{k: v for k, v in left.items() if v is not _GONE}}
        if isinstance(said, list):
            made = [it for one in said for it in self._items(one, key)]
            return made if made or not said else _GONE
        return self._text(said, key) if isinstance(said, str) else said

    def _items(self, one: Any, key: str) -> Iterator[Any]:
        place = _PLACE.fullmatch(one) if isinstance(one, str) else None
        value = self._facts.get(place[1]) if place else None
        if isinstance(value, list | tuple):
            yield from value
        elif (made := self.of(one, key)) is not _GONE:
            yield made

    def _text(self, said: str, key: str) -> str:
        def value(place: re.Match[str]) -> str:
            found = str(self._facts.get(place[1], place[0]))
            return re.escape(found).replace(r"\-", "-") if key in _LITERAL else found

        return _PLACE.sub(value, said)


def holds(when: Mapping[str, Any] | None, facts: Mapping[str, Any]) -> bool:
    """Whether every probe and parameter of a condition has answered as it says."""
    return all(
        str(facts.get(name)) in map(str, value if isinstance(value, list) else [value])
        for name, value in (when or {}).items()
    )


def _lost_a_list(said: Mapping[str, Any], made: Mapping[str, Any]) -> bool:
    return any(key not in made for key in said if key not in _EXTRA)


def _strangers(
    said: Any, path: tuple[str | int, ...], known: Sequence[Any], parameters: Mapping[str, Any]
) -> Iterator[Found]:
    """Find conditions on what nothing answers, and places that no parameter fills."""
    if isinstance(said, Mapping):
        for name in said.get("when") or {}:
            if name not in known:
                yield (*path, "when", name), mistake("nothing answers this", nearest(name, known))
        for key, value in said.items():
            yield from _strangers(value, (*path, key), known, parameters)
    elif isinstance(said, list):
        for number, value in enumerate(said):
            yield from _strangers(value, (*path, number), known, parameters)
    elif isinstance(said, str):
        for name in _PLACE.findall(said):
            if name not in parameters:
                yield path, mistake(f"@{name}@ is no parameter", nearest(name, parameters))


def _mistaken(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find what the settings refuse, with each parameter's example."""
    examples = {
        name: it.get("example")
        for name, it in (said.get("parameters") or {}).items()
        if isinstance(it, Mapping)
    }
    made = _Made(examples, every=True, notes=False)
    jobs = {
        name: {"by_hand": "schedule" not in section, **section}
        for name, section in (made.of(said.get("jobs") or {})).items()
        if isinstance(section, Mapping)
    }
    entry = {"bucket": "acme", **made.of(said.get("bucket") or {"owns_nothing": True})}
    document = {
        "installation": "acme",
        "database": {"url": {"env": URL}},
        "buckets": {"uploads": entry},
        "jobs": jobs,
    }
    try:
        Settings.model_validate(document, context={ENVIRON: {URL: "postgresql://"}})
    except ValidationError as error:
        for path, words in mistakes_in(error):
            yield (("bucket", *path[2:]) if path[0] == "buckets" else path), words


# Which there are ------------------------------------------------------------------------------

_FOLDER = files("filejobs_dagster") / "presets"


def names() -> list[str]:
    """The presets that come with the package."""
    return sorted(it.name[:-5] for it in _FOLDER.iterdir() if it.name.endswith(".yaml"))


def load(name: str) -> Preset:
    """Read a preset.

    Args:
        name: One of `names`, or the path of a file (with a `/` or ending in .yaml).

    Raises:
        PresetError: There is none, or it has mistakes; all of them are named.
    """
    return _read(name, own=True) if "/" in name or name.endswith(".yaml") else _of_package(name)


@cache
def _of_package(name: str) -> Preset:
    """Read once: a live run asks before each of its requests, and the package stays as it is."""
    return _read(name, own=False)


def _read(name: str, *, own: bool) -> Preset:
    if not own and name not in names():
        raise PresetError(f"There is no preset {shown(name)}; {nearest(name, names())}.")
    try:
        place = Path(name) if own else _FOLDER / f"{name}.yaml"
        text = place.read_text(encoding="utf-8")
        document = read_document(text)
    except (OSError, ValueError) as error:
        raise PresetError(f"The preset {name} cannot be read: {error}.") from None
    except UnreadableDocumentError as error:
        raise PresetError(f"The preset {name} is not YAML: {error.problem}") from None
    problems: list[Problem] = list(document.problems)
    preset: Preset | None = None
    try:
        preset = Preset.model_validate(document.value)
    except ValidationError as error:
        problems += problems_of(error, document)
    if problems or preset is None:
        raise PresetError(str(SettingsError(tuple(problems), Path(name))))
    if not own and preset.name != name:
        raise PresetError(f"The preset {name} calls itself {preset.name}.")
    return preset


def page(preset: Preset) -> str:
    """A preset for people, in Markdown."""
    bucket, jobs = preset.settings(None) if preset.bucket else ({}, {})
    owns = bucket.get("owns") or (["the whole bucket"] if bucket.get("owns_whole_bucket") else [])
    how = {"run": "the application was run", "published schema": "made from its published schema"}
    parts = [
        f"# {preset.title}\n",
        (
            f"Preset `{preset.name}`, version {preset.version}. **{preset.advice.capitalize()}**: "
            f"{preset.reason}\n"
        ),
        _listed("Proven on", (f"{it.on} ({how[it.how]})" for it in preset.proven)),
        _listed(
            "What it asks of the database", (f"`{it.name}`: {it.asks}" for it in preset.probes)
        ),
        _listed("Watched for upgrades", (f"`{it}`" for it in preset.watches)),
        _listed(
            "Parameters", (f"`{name}`: {it.description}" for name, it in preset.parameters.items())
        ),
        _listed("May collect in", (f"`{it}`" for it in owns)),
        _listed("Never touches", (f"`{it}`" for it in bucket.get("protect", ()))),
        _listed("Keeps what these name", map(_rule, bucket.get("sources", ()))),
        _listed("Keeps what is made of it", map(_rule, bucket.get("rewrites", ()))),
        _listed("Jobs", (f"`{name}`" for name in jobs)),
        _listed("What the application cleans itself", preset.cleans_itself),
        _listed("Never seen", preset.never_seen),
        _listed("Traps", preset.traps),
        _listed(
            "What no guard would stop",
            (f"without the {it.kind} `{it.name}`: {it.why}" for it in preset.not_caught),
        ),
    ]
    return "\n".join(filter(None, parts))


def _rule(said: Mapping[str, Any]) -> str:
    return f"{said['name']}: `{said.get('sql') or said['match']}`".replace("\n", " ")


def _listed(title: str, lines: Iterable[str]) -> str:
    text = "".join(f"- {line}\n" for line in lines)
    return f"## {title}\n\n{text}" if text else ""


def script_of(preset: Preset) -> str:
    """The text of its script.

    Raises:
        PresetError: It has none.
    """
    if preset.script is None:
        raise PresetError(f"The preset {preset.name} has no script: it is complete as it is.")
    return (_FOLDER / preset.script).read_text(encoding="utf-8")


# What the database says -----------------------------------------------------------------------


@dataclass(frozen=True)
class Probed:
    """What a database has answered.

    Attributes:
        answers: By the name of the probe, and `columns of TABLE` of what is watched.
        objection: Why it is not this application's database; empty when it is.
    """

    answers: dict[str, str]
    objection: str

    @property
    def recorded(self) -> dict[str, str]:
        """The answers as settings keep them: long ones as their digest."""
        return {
            name: it if len(it) <= LONGEST_ANSWER and it.isprintable() else f"sha256:{_digest(it)}"
            for name, it in self.answers.items()
        }


def probe(preset: Preset, database: Database, connection: Connection) -> Probed:
    """Ask every probe, and look at what is watched; nothing is written.

    Args:
        preset: Whose.
        database: The application's, or one with its limits.
        connection: An open connection to it.

    Raises:
        psycopg.Error: A statement failed.
    """
    answers: dict[str, str] = {}
    for one in preset.probes:
        rows = _asked(database, connection, one.sql)
        answer = answers[one.name] = rows[0] if rows else ""
        if not one.fits(answer):
            wanted = " or ".join(repr(it) for it in one.must_be or ())
            return Probed(answers, f"{one.asks} The database says {answer!r}, not {wanted}.")
    if preset.watches:
        patterns = [
            it.replace("\\", "\\\\").replace("_", "\\_").replace("%", "\\%").replace("*", "%")
            for it in preset.watches
        ]
        own = sorted({it.table for it in expected() if it.table})
        said = {"patterns": patterns, "own": own, "schema": database.schema}
        with database.transaction(connection, read_only=True) as cursor:
            cursor.execute(_WATCHED, said)
            found = cursor.fetchall()
        answers["tables"] = ", ".join(table for table, _ in found)
        answers |= {f"columns of {table}": columns for table, columns in found}
    return Probed(answers, "")


def _asked(database: Database, connection: Connection, statement: str) -> list[str]:
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute(statement.encode())
        return ["" if row[0] is None else str(row[0]) for row in cursor.fetchall()]


def parameters_of(
    preset: Preset, database: Database, connection: Connection, said: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """A value for each parameter: what was said, else what the database suggests, else the default.

    Args:
        preset: Whose.
        database: As for `probe`.
        connection: As for `probe`.
        said: By name.

    Returns:
        The values, and from where each comes, in words.

    Raises:
        PresetError: One has no value or a wrong one, or there is no such parameter.
    """
    for name in said:
        if name not in preset.parameters:
            raise PresetError(
                f"There is no parameter {name}; {nearest(name, preset.parameters) or 'none'}."
            )
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, it in preset.parameters.items():
        value, origin = said.get(name), "given"
        if value is None and it.suggest is not None:
            try:
                rows = list(dict.fromkeys(filter(None, _asked(database, connection, it.suggest))))
            except psycopg.Error as error:
                rows, origin = [], f"default; no suggestion: {sanitize_exception(error, limit=200)}"
            if rows:
                value, origin = (rows if it.many else rows[0]), "suggested by the database"
                if len(rows) > 1 and not it.many:
                    origin += f"; others are {', '.join(rows[1:5])}"
        if value is None:
            value = it.default
            origin = origin if origin.startswith("default") else "default"
        if value is None:
            raise PresetError(
                f"The parameter {name} has no value: {it.description} Give --set {name}=VALUE, for "
                f"instance --set {name}={it.example}."
            )
        values[name], origins[name] = it.taken(name, value), origin
    return values, origins


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
