"""From a file and an environment to settings, or to every problem at once.

Of a file with mistakes `salvage` still knows whom to tell of them.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import ValidationError

from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings.alerts import AlertsSettings, DestinationSettings
from filejobs_dagster.settings.model import DIGEST, DatabaseSettings, Settings
from filejobs_dagster.settings.problems import Problem, SettingsError, Steps, at, kind, shown
from filejobs_dagster.settings.secrets import ENVIRON
from filejobs_dagster.settings.section import Section
from filejobs_dagster.settings.values import INSTALLATION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# YAML as settings need it: safe, every key once, and every value with its line.
#
# PyYAML alone takes the last of two equal keys without a word, turns the key `on` into a boolean,
# and forgets where a value stood.

_STANDARD = "tag:yaml.org,2002:"
_TEXTS = frozenset({"str", "value", "merge"})
_SCALARS = frozenset({"int", "float", "bool", "null", "timestamp"}) | _TEXTS
_DEEPEST = 20
_IN_UTF8 = "write it in full, in UTF-8"


@dataclass(frozen=True)
class Document:
    """What a file says.

    Attributes:
        value: Mappings with text keys, lists and scalars; None for an empty file.
        lines: The line of every value by its path, counted from 1.
        problems: What the file says in a way that cannot be taken, with all else still in `value`.
        lost: Where `value` holds None because of one of those problems.
    """

    value: Any
    lines: dict[Steps, int] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    lost: frozenset[Steps] = frozenset()


class UnreadableDocumentError(Exception):
    """The text is not YAML that settings may be written in. Carries the one problem."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem


def read_document(text: str) -> Document:
    """Read one YAML document.

    Raises:
        UnreadableDocumentError: The text is not YAML; the problem names line and column.
    """
    line = 0
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            line = loader.line + 1
    except yaml.MarkedYAMLError as error:
        raise UnreadableDocumentError(_syntax_problem(error)) from None
    except yaml.reader.ReaderError as error:
        raise UnreadableDocumentError(_character_problem(text, error)) from None
    except (ValueError, OverflowError):
        # PyYAML does not check the numbers of escapes ("\UFFFFFFFF") and directives.
        raise UnreadableDocumentError(_impossible_number(line)) from None
    except RecursionError:
        raise UnreadableDocumentError(_too_deep("the file")) from None
    if node is None:
        return Document(None)
    builder = _Builder()
    value = builder.build(node, ())
    return Document(value, builder.lines, tuple(builder.problems), frozenset(builder.lost))


class _AliasError(yaml.MarkedYAMLError):
    """An alias, which says at one place what is meant at another."""


class _Loader(yaml.SafeLoader):
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise _AliasError(problem_mark=event.start_mark)
        return super().compose_node(parent, index)


class _Builder:
    """Turns PyYAML's nodes into values, and notes lines and problems on the way."""

    def __init__(self) -> None:
        self.lines: dict[Steps, int] = {}
        self.problems: list[Problem] = []
        self.lost: set[Steps] = set()
        self._scalars = yaml.constructor.SafeConstructor()
        self._resolver = yaml.resolver.Resolver()

    def build(self, node: yaml.Node, path: Steps) -> Any:
        self.lines[path] = node.start_mark.line + 1
        if len(path) > _DEEPEST:
            self.problems.append(_too_deep(at(path), self.lines[path]))
            self.lost.add(path)
            return None
        if isinstance(node, yaml.MappingNode) and self._has_tag(node, path, {"map"}):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and self._has_tag(node, path, {"seq"}):
            return [self.build(item, (*path, index)) for index, item in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode) and self._has_tag(node, path, _SCALARS):
            return self._scalar(node, path)
        return None

    def _mapping(self, node: yaml.MappingNode, path: Steps) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                self._problem(path, line, "it has a key that is not a text", "write `key: value`")
                continue
            # The key as it is written: `on`, `no` and `1` are names here.
            key = str(key_node.value)
            if not _is_unicode(key):
                self._problem(path, line, "a key holds half a character", _IN_UTF8)
                continue
            if key in mapping:
                self._problem(
                    (*path, key),
                    line,
                    f"this key stands twice, {_on_lines(first_line[key], line)}",
                    "keep one of them",
                )
                continue
            first_line[key] = line
            mapping[key] = self.build(value_node, (*path, key))
            self.lines[(*path, key)] = line
        return mapping

    def _scalar(self, node: yaml.ScalarNode, path: Steps) -> Any:
        value = self._read(node)
        if isinstance(value, str) and not _is_unicode(value):
            self._problem(path, self.lines[path], "it holds half a character", _IN_UTF8)
            self.lost.add(path)
            return None
        return value

    def _read(self, node: yaml.ScalarNode) -> Any:
        if _kind(node) in _TEXTS:
            return str(node.value)
        try:
            return self._scalars.construct_object(node)
        except (ValueError, OverflowError):
            # It looks like a number or a date and is none (2025-02-30); the field says so.
            return str(node.value)

    def _has_tag(self, node: yaml.Node, path: Steps, known: set[str] | frozenset[str]) -> bool:
        if _kind(node) in known and self._looks_like_its_kind(node):
            return True
        self._problem(
            path,
            self.lines[path],
            "it has a tag or a type that is not read here",
            "write a text, a number, true or false, a list or a mapping, without `!`",
        )
        self.lost.add(path)
        return False

    def _looks_like_its_kind(self, node: yaml.Node) -> bool:
        # `!!int x` would crash PyYAML; every value here is what it looks like.
        if not isinstance(node, yaml.ScalarNode) or _kind(node) in _TEXTS:
            return True
        resolved = self._resolver.resolve(  # type: ignore[no-untyped-call]
            yaml.ScalarNode, node.value, (True, False)
        )
        return bool(resolved == node.tag)

    def _problem(self, path: Steps, line: int, found: str, expected: str) -> None:
        self.problems.append(Problem(at(path), found, expected, line))


def _kind(node: yaml.Node) -> str:
    return str(node.tag).removeprefix(_STANDARD)


def _on_lines(first: int, second: int) -> str:
    return f"on line {first}" if first == second else f"on lines {first} and {second}"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _impossible_number(line: int) -> Problem:
    return Problem(
        f"line {line}, column 1",
        "an escape or a directive in this line or just above has a number that nothing stands for",
        "write the character itself, or an escape such as \\u00e9",
    )


def _too_deep(where: str, line: int | None = None) -> Problem:
    return Problem(where, "it is nested too deeply", "settings are a few levels deep", line)


_TEACHING: tuple[tuple[Callable[[yaml.MarkedYAMLError], bool], str, str], ...] = (
    (
        lambda error: isinstance(error, _AliasError),
        "an alias (*name) is not read here",
        "write the value out, so that each place says what holds there",
    ),
    (
        lambda error: error.context == "while scanning an alias",
        "a value that begins with * stands without quotes",
        'put it in quotes: "*/15 * * * *"',
    ),
    (
        lambda error: str(error.problem).startswith(("found character '@'", "found character '`'")),
        "a value that begins with @ or ` stands without quotes",
        'put it in quotes: "@daily"',
    ),
    (
        lambda error: str(error.problem).startswith("found character '\\t'"),
        "a tab stands where YAML wants spaces",
        "indent with spaces",
    ),
    (
        lambda error: str(error.context) == "while parsing a flow mapping",
        "a value between { and } ends before its text does",
        'close the bracket, or put a text with a comma or a quote in quotes, such as sql: "…"',
    ),
    (
        lambda error: str(error.problem).startswith("but found another document"),
        "a second document begins with ---",
        "keep everything in one document",
    ),
)


def _syntax_problem(error: yaml.MarkedYAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "the file"
    for applies, found, expected in _TEACHING:
        if applies(error):
            return Problem(where, found, expected)
    return Problem(
        where,
        f"this is not YAML: {_without_echo(error)}",
        "check the indentation, the quotes and the space after each colon, here and just above",
    )


def _without_echo(error: yaml.MarkedYAMLError) -> str:
    # PyYAML quotes names and tags of the file in some messages; those could hold a secret.
    said = str(error.problem or error.context)
    return re.sub(r",?( but found)? '(?!.'|<[a-z ]+>').*", "", said, flags=re.DOTALL)


def _character_problem(text: str, error: yaml.reader.ReaderError) -> Problem:
    before = text[: error.position]
    line = before.count("\n") + 1
    column = error.position - (before.rfind("\n") + 1) + 1
    return Problem(
        f"line {line}, column {column}",
        "a control character stands here, which YAML does not allow",
        "remove it, or write it as an escape in double quotes",
    )


PATH_VARIABLE = "FILEJOBS_CONFIG"
ALLOW_LIVE_VARIABLE = "FILEJOBS_ALLOW_LIVE"
DEFAULT_PATH = Path("filejobs.yaml")
UNREADABLE_INSTALLATION = "unreadable-settings"
"""Tags the runs of an installation whose file does not even say its name."""

_OFF = frozenset({"0", "false", "no", "off"})
_ON = frozenset({"1", "true", "yes", "on"})
_INSTALLATION_LINE = re.compile(
    rf"^installation:[ \t]+([\"']?)({INSTALLATION.pattern})\1[ \t]*(?:#.*)?\r?$", re.MULTILINE
)


@dataclass(frozen=True)
class Loaded:
    """The settings, or why there are none. Either way the code location has something to show.

    Attributes:
        settings: None when there is any problem.
        problems: Empty when there are settings.
        path: The file that was read, or that should be there.
        installation: The installation's name, taken from a broken file too where it can be read
            there, else `unreadable-settings`.
    """

    settings: Settings | None
    problems: tuple[Problem, ...]
    path: Path
    installation: str

    def require(self) -> Settings:
        """The settings.

        Raises:
            SettingsError: There are problems; it carries them all.
        """
        if self.settings is None:
            raise SettingsError(self.problems, self.path)
        return self.settings


def load_settings(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings.

    Args:
        path: The file; by default what `FILEJOBS_CONFIG` names, else `filejobs.yaml` in the
            current directory.
        environ: Where the secrets' variables, `FILEJOBS_CONFIG` and `FILEJOBS_ALLOW_LIVE` are.

    Raises:
        SettingsError: Carries every problem of the file and of the environment.
    """
    return read_settings(path, environ).require()


def read_settings(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read the settings, and never raise for what the file or the environment says.

    Takes the arguments of `load_settings`.
    """
    named = environ.get(PATH_VARIABLE) or None
    where = path if path is not None else Path(named) if named else DEFAULT_PATH
    try:
        text = where.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        return _broken(where, _unreadable(where, error, named=_who_named(path, named)))
    try:
        document = read_document(text)
    except UnreadableDocumentError as error:
        return _broken(where, error.problem, _salvaged_from_text(text))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return _of_document(where, document, environ, digest)


def _of_document(
    where: Path, document: Document, environ: Mapping[str, str], digest: str
) -> Loaded:
    problems = list(document.problems)
    allow_live, live_problem = _live_allowed(environ)
    settings: Settings | None = None
    if isinstance(document.value, dict):
        # Before the settings are looked at: they name these jobs in several places.
        from filejobs_dagster.jobs.own import declarations  # noqa: PLC0415 (a circle)

        BY_NAME.declare(declarations(document.value.get("own_jobs")))
        try:
            context = {ENVIRON: environ, DIGEST: digest}
            settings = Settings.model_validate(document.value, context=context)
        except ValidationError as error:
            problems.extend(problems_of(error, document))
    else:
        problems.append(_not_a_mapping(document.value))
    problems.sort(key=lambda problem: problem.line or 0)
    if live_problem is not None:
        problems.append(live_problem)
    if problems or settings is None:
        return Loaded(None, tuple(problems), where, _salvaged(document.value))
    if not allow_live:
        settings = settings.model_copy(update={"allow_live": False})
    return Loaded(settings, (), where, settings.installation)


def problems_of(error: ValidationError, document: Document) -> list[Problem]:
    """The mistakes that an error of a section carries, with their lines in the document."""
    problems = []
    for details in error.errors(include_url=False, include_input=False):
        steps, said = details["loc"], details["ctx"]
        # What the file says in a way that cannot be taken was reported as that.
        if not any(steps[: len(lost)] == lost for lost in document.lost):
            line = _line(document, steps)
            problems.append(Problem(at(steps), said["found"], said["expected"], line))
    return problems


def _line(document: Document, path: Steps) -> int | None:
    while path and path not in document.lines:
        path = path[:-1]
    return document.lines[path] if path else None


def _live_allowed(environ: Mapping[str, str]) -> tuple[bool, Problem | None]:
    said = environ.get(ALLOW_LIVE_VARIABLE)
    if said is None or said.strip().lower() in _ON:
        return True, None
    if said.strip().lower() in _OFF:
        return False, None
    problem = Problem(
        ALLOW_LIVE_VARIABLE,
        f"found {shown(said)}",
        "set it to 0, false, no or off to forbid live runs, to 1, true, yes or on to leave that "
        "to the file, or unset it",
    )
    return False, problem


def _not_a_mapping(value: Any) -> Problem:
    found = "it is empty" if value is None else f"it holds {kind(value)}"
    return Problem(
        "the file", found, "write keys and values, beginning with installation: acme-production"
    )


def _who_named(path: Path | None, variable: str | None) -> str:
    if path is not None:
        return "it was asked for, with --config for instance"
    return f"{PATH_VARIABLE} {'names it' if variable else 'is not set'}"


def _unreadable(where: Path, error: OSError | ValueError, *, named: str) -> Problem:
    shown_path = str(where) if str(where).isprintable() else repr(str(where))
    if isinstance(error, FileNotFoundError):
        return Problem(
            shown_path,
            f"there is no such file ({named}; the current directory is {_current_directory()})",
            f"set {PATH_VARIABLE} or --config to the path of your file, or write one there",
        )
    if isinstance(error, OSError):
        return Problem(
            shown_path,
            f"it could not be read ({error.strerror or type(error).__name__})",
            f"make it a file that this user may read, or set {PATH_VARIABLE} to another",
        )
    if isinstance(error, UnicodeDecodeError):
        return Problem(shown_path, "it is not UTF-8 text", "save it as UTF-8")
    return Problem(shown_path, "it is not a path", f"set {PATH_VARIABLE} to the path of a file")


def _current_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return "gone"


def _broken(where: Path, problem: Problem, installation: str = UNREADABLE_INSTALLATION) -> Loaded:
    return Loaded(None, (problem,), where, installation)


def _salvaged(value: Any) -> str:
    name = value.get("installation") if isinstance(value, dict) else None
    if isinstance(name, str) and INSTALLATION.fullmatch(name):
        return name
    return UNREADABLE_INSTALLATION


def _salvaged_from_text(text: str) -> str:
    names = {match[2] for match in _INSTALLATION_LINE.finditer(text)}
    return names.pop() if len(names) == 1 else UNREADABLE_INSTALLATION


# What can still be known from a settings file that has mistakes: whom to tell of them.

Part = TypeVar("Part", bound=Section)


@dataclass(frozen=True)
class Salvaged:
    """The two sections that an alert needs, each as far as it is right by itself.

    Attributes:
        database: None when the file does not say where it is, or its variable is not set.
        alerts: With the destinations that are right; None when none is.
        complete: True when the section `alerts` is right as a whole.
    """

    database: DatabaseSettings | None
    alerts: AlertsSettings | None
    complete: bool = False


def salvage(path: Path, environ: Mapping[str, str] = os.environ) -> Salvaged:
    """Read the sections `database` and `alerts` of a file, whatever the others say.

    Args:
        path: The file.
        environ: Where the secrets' variables are.

    Returns:
        Nothing in it when the file cannot be read, or is not YAML.
    """
    try:
        said = read_document(path.read_bytes().decode("utf-8-sig")).value
    except (OSError, ValueError, UnreadableDocumentError):
        return Salvaged(None, None)
    return _salvaged_job(said if isinstance(said, dict) else {}, environ)


def last_good(settings: Settings) -> dict[str, Any]:
    """The same two sections as they may be kept: secrets by the names of their variables alone."""
    return {
        "database": settings.database.model_dump(mode="json", by_alias=True, exclude_unset=True),
        "alerts": settings.alerts.model_dump(mode="json", by_alias=True, exclude_unset=True),
    }


def recalled(kept: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Salvaged:
    """What `last_good` kept, with the secrets as the environment has them now."""
    return _salvaged_job(kept, environ)


def _salvaged_job(said: Mapping[str, Any], environ: Mapping[str, str]) -> Salvaged:
    alerts = _part(AlertsSettings, said.get("alerts"), environ)
    return Salvaged(
        database=_part(DatabaseSettings, said.get("database"), environ),
        alerts=alerts or _those_that_are_right(said.get("alerts"), environ),
        complete=alerts is not None,
    )


def _part(model: type[Part], said: Any, environ: Mapping[str, str]) -> Part | None:
    try:
        return model.model_validate(said, context={ENVIRON: environ})
    except ValidationError:
        return None


def _those_that_are_right(said: Any, environ: Mapping[str, str]) -> AlertsSettings | None:
    to = said.get("to") if isinstance(said, dict) else None
    right = [
        destination
        for entry in (to if isinstance(to, list) else [])
        if (destination := _part(DestinationSettings, entry, environ)) is not None
    ]
    one_each = {destination.name: destination for destination in right}
    return AlertsSettings(to=list(one_each.values())) if one_each else None
