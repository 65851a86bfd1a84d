"""From a file and an environment to settings, or to every problem at once."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings.document import Document, UnreadableDocumentError, read_document
from filejobs_dagster.settings.model import DIGEST, Settings
from filejobs_dagster.settings.problems import Problem, SettingsError, Steps, at, kind, shown
from filejobs_dagster.settings.secrets import ENVIRON
from filejobs_dagster.settings.values import INSTALLATION

if TYPE_CHECKING:
    from collections.abc import Mapping

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

        BY_NAME.own = declarations(document.value.get("own_jobs"))
        try:
            context = {ENVIRON: environ, DIGEST: digest}
            settings = Settings.model_validate(document.value, context=context)
        except ValidationError as error:
            problems.extend(_problems_of(error, document))
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


def _problems_of(error: ValidationError, document: Document) -> list[Problem]:
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
