"""What settings say about keys: how values become keys, which are known, and what keeps which."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001, TC003
from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictStr, WithJsonSchema

from filejobs_dagster.objects.targets import overlap
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.section import Found, Section, items, part
from filejobs_dagster.settings.values import Text

TRANSFORMS = ("prepend", "strip_base", "drop_query", "percent_decode", "strip_suffix")
"""The kinds of one step from a source's value to a key."""

INVERTIBLE = frozenset({"prepend", "strip_base", "strip_suffix"})
"""The kinds for which the few values that a key can come from can be listed."""

_PLAIN_CHARACTER = re.compile(r"([^\\.^$*+?{}\[\]|()])|\\([^A-Za-z0-9])")
"""A character of a pattern that stands for itself, escaped or not."""

_NO_GROUP = "write a group of the pattern in braces, such as {id} for (?P<id>…); {{ is a brace"


def _regular_expression(value: str) -> str:
    if not value:
        raise mistake("the pattern is empty", "write a regular expression for the whole key")
    try:
        re.compile(value)
    except re.error as error:
        raise mistake(
            f"it is not a regular expression: {error}",
            "write one as Python's module re reads it; in YAML, put it in single quotes",
        ) from None
    if re.fullmatch(value, "") is not None:
        raise mistake(
            "the pattern matches the empty key, so it says nothing",
            "write a pattern that names what the keys have in common",
        )
    return value


Pattern = Annotated[
    StrictStr,
    AfterValidator(_regular_expression),
    WithJsonSchema({"type": "string", "minLength": 1, "format": "regex"}),
]
"""A regular expression of Python's, which must match a key as a whole."""


class TransformSettings(Section):
    """One step from a source's value to a key: exactly one of these keys."""

    prepend: Text | None = Field(
        default=None,
        description="Put this before the value.",
        examples=["files/"],
    )
    strip_base: list[Text] | None = Field(
        default=None,
        description="Take the longest of these beginnings away; a value that has none of them "
        "stays as it is.",
        examples=[["s3://acme-uploads/", "https://cdn.example.com/"]],
    )
    drop_query: StrictBool | None = Field(
        default=None,
        description="Take away the first ? and what follows it.",
        examples=[True],
    )
    percent_decode: StrictBool | None = Field(
        default=None,
        description="Turn %20 and its like into the bytes that they stand for; + stays +.",
        examples=[True],
    )
    strip_suffix: Text | None = Field(
        default=None,
        description="Take this ending away; a value without it stays as it is.",
        examples=["#original"],
    )

    @property
    def kind(self) -> str:
        """Which of the steps it is."""
        return next(kind for kind in TRANSFORMS if getattr(self, kind) is not None)

    @property
    def invertible(self) -> bool:
        """True when the values that become one key can be listed."""
        return self.kind in INVERTIBLE

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether it is exactly one step, and one that does something."""
        given = [kind for kind in TRANSFORMS if said.get(kind) is not None]
        if len(given) != 1:
            found = f"it has {' and '.join(given)}" if given else "it says no step"
            yield (), mistake(found, f"write one of {', '.join(TRANSFORMS)}; a list makes more")
        for kind in given:
            if said[kind] is False:
                yield (kind,), mistake("false does nothing", "leave the step out")
            if said[kind] == []:
                yield (kind,), mistake("it names no beginning", "write a list of beginnings")


def idle_steps(transforms: Any) -> Iterator[Found]:
    """Find steps that can never do anything, because of the steps before them.

    Args:
        transforms: The list as the file has it.
    """
    for index, step in enumerate(items(transforms)):
        before = items(transforms)[:index]
        begins = begins_after(before)
        bases = [base for base in items(part(step, "strip_base")) if isinstance(base, str)]
        if bases and begins and not any(overlap(base, begins) for base in bases):
            yield (
                ("transforms", index, "strip_base"),
                mistake(
                    f"every value begins with {shown(begins)} by then, and none of these does, so "
                    "nothing is ever taken away",
                    "put this step before prepend",
                ),
            )
        suffix = part(step, "strip_suffix")
        asks = part(step, "drop_query") is True or (isinstance(suffix, str) and "?" in suffix)
        if asks and _without_query(before):
            yield (
                ("transforms", index),
                mistake(
                    "drop_query before it has taken every ? away, so it never does anything",
                    "leave the step out, or put it before drop_query",
                ),
            )


def begins_after(transforms: Any) -> str:
    """How every key begins after these steps, as far as that is certain."""
    begins = ""
    for step in items(transforms):
        prepended = part(step, "prepend")
        if isinstance(prepended, str):
            begins = prepended + begins
        elif part(step, "drop_query") is True:
            begins = begins.partition("?")[0]
        elif part(step, "strip_suffix") is None:
            begins = ""
    return begins


def _without_query(transforms: list[Any]) -> bool:
    without = False
    for step in transforms:
        if part(step, "drop_query") is True:
            without = True
        elif part(step, "percent_decode") is True or "?" in str(part(step, "prepend") or ""):
            without = False
    return without


class RewriteSettings(Section):
    """A rule by which an object stays while another key is referenced."""

    name: Text = Field(
        description="What reports call this rule. Unique within the bucket.",
        examples=["thumbnails"],
    )
    match: Pattern = Field(
        description="A regular expression that matches the whole key of the derived object, with "
        "named groups.",
        examples=[r"files/thumbnails/(?P<id>[^/]+)_[0-9]+\.webp"],
    )
    owner: Text = Field(
        description="The key that keeps it; {id} stands for what the group id matched.",
        examples=["files/{id}"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether the template knows its groups, and leads to another key."""
        match, owner = said.get("match"), said.get("owner")
        if not isinstance(match, str) or not isinstance(owner, str):
            return
        try:
            groups = re.compile(match).groupindex
        except re.error:
            return  # reported at match
        try:
            named = [name for _, name, _, _ in string.Formatter().parse(owner) if name is not None]
            plain = all(
                not spec and conversion is None
                for _, name, spec, conversion in string.Formatter().parse(owner)
                if name is not None
            )
        except ValueError:
            yield ("owner",), mistake(f"{shown(owner)} has a brace too many", _NO_GROUP)
            return
        unknown = [name for name in named if name not in groups]
        if unknown:
            known = f"; the pattern has {', '.join(groups)}" if groups else ""
            yield (
                ("owner",),
                mistake(f"no group of the pattern is called {shown(unknown[0])}{known}", _NO_GROUP),
            )
        elif not plain:
            yield ("owner",), mistake("a group has a format or a conversion", _NO_GROUP)
        elif _onto_itself(match, owner):
            yield (
                ("owner",),
                mistake(
                    "it is the key itself: the rule keeps nothing that would not stay anyway",
                    "write the key that the object was derived from",
                ),
            )


def begins_with(pattern: str) -> str:
    """How every key begins that a pattern matches as a whole, as far as that is plain to see.

    Args:
        pattern: A regular expression. What is not read here ends the answer, so that it may be
            shorter than it could be and is never wrong.
    """
    if "|" in pattern or pattern.startswith("(?"):
        return ""
    beginning = ""
    rest = pattern.removeprefix("^")
    while (found := _PLAIN_CHARACTER.match(rest)) is not None:
        rest = rest[found.end() :]
        if rest.startswith(("*", "?", "{", "+")):
            # Once or more often is still once; anything else may be nothing at all.
            return beginning + (found[1] or found[2] if rest[0] == "+" else "")
        beginning += found[1] or found[2]
    return beginning


def _onto_itself(match: str, owner: str) -> bool:
    """Tell whether the template, with each group's own pattern put in, is the pattern again."""
    rebuilt = ""
    for literal, name, _, _ in string.Formatter().parse(owner):
        rebuilt += re.escape(literal)
        if name is not None:
            rebuilt += _group_of(match, name)
    return _without_needless_escapes(rebuilt) == _without_needless_escapes(
        match.removeprefix("^").removesuffix("$")
    )


def _group_of(match: str, name: str) -> str:
    """The source text of a named group, parentheses included."""
    begins = match.find(f"(?P<{name}>")
    depth, position, in_class = 0, begins, False
    while 0 <= position < len(match):
        character = match[position]
        if character == "\\":
            position += 2
            continue
        if in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
            if match[position + 1 : position + 2] in {"]", "^"}:
                position += 1
        elif character in "()":
            depth += 1 if character == "(" else -1
            if depth == 0:
                return match[begins : position + 1]
        position += 1
    return ""


def _without_needless_escapes(pattern: str) -> str:
    return re.sub(r"\\([/_\- #&~])", r"\1", pattern)


def repeated_names(entries: Any, key: str, one: str) -> Iterator[Found]:
    """Find two entries of a list that have the same name.

    Args:
        entries: The list as the file has it.
        key: Where the list stands in its section.
        one: What one entry is, in words.
    """
    first: dict[str, int] = {}
    for index, entry in enumerate(items(entries)):
        name = part(entry, "name")
        if not isinstance(name, str):
            continue
        if name in first:
            yield (
                (key, index, "name"),
                mistake(
                    f"{key}[{first[name]}] has the same name {shown(name)}",
                    f"give every {one} of a bucket a name of its own",
                ),
            )
        first.setdefault(name, index)
