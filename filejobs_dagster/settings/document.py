"""YAML as settings need it: safe, every key once, and every value with its line.

PyYAML alone takes the last of two equal keys without a word, turns the key `on` into a boolean,
and forgets where a value stood.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from filejobs_dagster.settings.problems import Problem, Steps, at

if TYPE_CHECKING:
    from collections.abc import Callable

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
