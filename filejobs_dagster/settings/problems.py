"""What is wrong in the settings, in words that teach."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticCustomError

from filejobs_dagster.text import Teaching

if TYPE_CHECKING:
    from pathlib import Path

MISTAKE = "filejobs_mistake"
"""The error type that pydantic carries for a mistake that already has its final wording."""

Steps = tuple[str | int, ...]
"""A path, key by key; a number is the position in a list, counted from 0."""

_LONGEST_ECHO = 60
_COULD_BE_SECRET = re.compile(
    r"@|passw|secret|token|bearer|credential|signature|BEGIN |key\s*=|\b(AKIA|ASIA)|\S{24}",
    re.IGNORECASE,
)
_ORDINARY_KEY = re.compile(r"[a-z_][a-z0-9_.-]{0,62}|[A-Za-z_][A-Za-z0-9_.-]{0,15}")
_KINDS: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (int, "a whole number"),
    (float, "a decimal number"),
    (str, "a text"),
    (dict, "a mapping"),
    (list, "a list"),
)


@dataclass(frozen=True)
class Problem:
    """One mistake in the settings.

    Attributes:
        path: Where it stands: `buckets.uploads.owns[0]`, the name of an environment variable, or
            the file's own path when the file as a whole could not be read.
        found: What is wrong, without any secret.
        expected: What would be right.
        line: The line of the file, counted from 1, when the mistake stands in one.
    """

    path: str
    found: str
    expected: str
    line: int | None = None

    def __str__(self) -> str:
        """One line: path, what is wrong, what would be right."""
        where = f"{self.path} (line {self.line})" if self.line is not None else self.path
        return f"{where}: {self.found}; {self.expected}"


class SettingsError(Teaching):
    """The settings cannot be used. Carries every problem that was found, not only the first.

    Attributes:
        problems: At least one, in the order of the file where that is known.
        path: The file that was read, if the settings came from one.
    """

    def __init__(self, problems: tuple[Problem, ...], path: Path | None = None) -> None:
        super().__init__(problems, path)
        self.problems = problems
        self.path = path

    def __str__(self) -> str:
        """One line per problem."""
        return "\n".join(str(problem) for problem in self.problems)


def mistake(found: str, expected: str) -> PydanticCustomError:
    """An error for a validator to raise: what is wrong, and what would be right."""
    return PydanticCustomError(
        MISTAKE, "{found}; {expected}", {"found": found, "expected": expected}
    )


def kind(value: Any) -> str:
    """What a value of the file is, without showing it: `a text`, `a list`, `nothing`."""
    if value is None:
        return "nothing"
    return next((name for known, name in _KINDS if isinstance(value, known)), "something else")


def shown(value: Any) -> str:
    """A value of the file as a message may show it, on one line.

    Text that is long, or that could be or hold a secret (somebody may have written one where it
    does not belong), is described instead of shown. So are lists and mappings.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        if len(value) > _LONGEST_ECHO or _COULD_BE_SECRET.search(value):
            return f"a text of {len(value)} characters that is not shown here"
        return repr(value)
    if value is None or isinstance(value, dict | list):
        return kind(value)
    text = str(value)
    return text if len(text) <= _LONGEST_ECHO else kind(value)


def at(path: Steps) -> str:
    """Write a path as a person reads it: `buckets.uploads.owns[0]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
            continue
        name = shown_key(step)
        text += f".{name}" if text else name
    return text or "the file"


def shown_key(key: str) -> str:
    """A key of the file as a message may show it; see `shown`."""
    return key if _ORDINARY_KEY.fullmatch(key) else shown(key)
