"""Keys that are made of another object's key: variants, thumbnails, previews.

A shape is learnt from keys that nothing names and that hold the key, the name or the stem of one
object that something names, and of no other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.scan.learning import bare

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Form = Literal["key", "path", "name", "stem"]
"""What of the owner's key stands in the derived one: all, without extension, the last segment,
that without extension."""

MOST_SHAPES = 20
_SHORTEST = 5
_CUTS = re.compile(r"[/._\- ]+")
_MOST_CUTS = 24
_UNIQUE = re.compile(
    r"(?P<uuid>[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})"
    r"|(?P<hex>(?<![0-9A-Za-z])(?=[0-9a-f]*[0-9])[0-9a-f]{16,}(?![0-9A-Za-z]))"
    r"|(?P<short>(?<![0-9A-Za-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8}(?![0-9A-Za-z-]))"
    r"|(?P<number>[0-9]+)"
)
_LAST_EXTENSION = re.compile(r"(?<=.)\\\.[A-Za-z0-9]{2,5}\Z")


def forms(key: str) -> Iterator[tuple[Form, str]]:
    """What of an owner's key may stand in another key, the longest first."""
    name = key.rpartition("/")[2]
    yield "key", key
    yield "path", _bare(key)
    yield "name", name
    yield "stem", _bare(name)


def form_of(key: str, form: Form) -> str:
    """One of them."""
    return dict(forms(key))[form]


def general(text: str) -> str:
    """A regular expression for texts like this one: numbers, digests and uuids may be others."""
    out, at = [], 0
    for match in _UNIQUE.finditer(text):
        out.append(_escaped(text[at : match.start()]))
        if match["uuid"]:
            out.append("[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
        elif match["number"]:
            out.append("[0-9]+")
        else:
            out.append(f"[0-9a-f]{{{len(match[0])}}}")
        at = match.end()
    return "".join(out) + _escaped(text[at:])


def _escaped(text: str) -> str:
    return re.escape(text).replace(r"\-", "-").replace(r"\ ", " ").replace("/", "/")


def _bare(name: str) -> str:
    return bare(name.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


@dataclass
class Learnt:
    """A shape.

    Attributes:
        match: The regular expression for whole keys; its group `owner` holds the owner's form.
        form: Which of its forms.
        keys: Places of the sampled keys that have it.
        owners: Keys of their owners.
        unsure: Why it may be an accident; None when it is believed.
    """

    match: str
    form: Form
    keys: set[int] = field(default_factory=set)
    owners: set[str] = field(default_factory=set)
    unsure: str | None = None

    def pattern(self) -> re.Pattern[str]:
        """Compiled."""
        return re.compile(self.match, re.DOTALL)


class Spans:
    """The parts of keys that nothing names, each of which may be an owner's form."""

    def __init__(self, unnamed: Mapping[int, str]) -> None:
        """Cut the keys.

        Args:
            unnamed: A sample, by place.
        """
        self._unnamed = unnamed
        self._owners: dict[str, tuple[Form, str] | None] = {}
        for key in unnamed.values():
            for start, end in _spans(key):
                self._owners[key[start:end]] = None
        self._several: set[str] = set()

    def look_at(self, owner: str) -> None:
        """Note a key that something names."""
        known = self._owners
        for form, text in forms(owner):
            if text in known:
                if known[text] is None:
                    known[text] = form, owner
                elif known[text] != (form, owner) and known[text][1] != owner:  # type: ignore[index]
                    self._several.add(text)

    def learn(self, own_shapes: set[str]) -> list[Learnt]:
        """The shapes, the believed ones first, the most frequent of them first.

        Args:
            own_shapes: `general` of keys that are named themselves.
        """
        found: dict[tuple[str, Form], Learnt] = {}
        kinds: dict[tuple[str, Form], set[str]] = defaultdict(set)
        for place, key in self._unnamed.items():
            best = self._longest(key)
            if best is None:
                continue
            start, end, (form, owner) = best
            tail = _LAST_EXTENSION.sub(r"\\.[A-Za-z0-9]+", general(key[end:]))
            match = f"{general(key[:start])}(?P<owner>.+){tail}"
            learnt = found.setdefault((match, form), Learnt(match, form))
            learnt.keys.add(place)
            learnt.owners.add(owner)
            kinds[match, form].add(general(key))
        for which, learnt in found.items():
            if len(learnt.owners) == 1:
                learnt.unsure = "only one object is an owner by this shape: it may be an accident"
            if kinds[which] <= own_shapes:
                learnt.unsure = "keys that rows name look the same: they need no owner"
        ordered = sorted(found.values(), key=lambda it: (it.unsure is not None, -len(it.keys)))
        return ordered[:MOST_SHAPES]

    def _longest(self, key: str) -> tuple[int, int, tuple[Form, str]] | None:
        for start, end in _spans(key):
            owner = self._owners.get(key[start:end])
            # A name of several objects says nothing of any.
            if owner is not None and key[start:end] not in self._several:
                return start, end, owner
        return None


def _spans(key: str) -> list[tuple[int, int]]:
    """(start, end) of every part that may be an owner's form, the longest first."""
    cuts = list(_CUTS.finditer(key))[:_MOST_CUTS]
    starts = [0, *(cut.end() for cut in cuts)]
    ends = [*(cut.start() for cut in cuts), len(key)]
    spans = [
        (start, end)
        for start in starts
        for end in ends
        if _SHORTEST <= end - start < len(key) and not key[start:end].isdigit()
    ]
    return sorted(spans, key=lambda span: span[0] - span[1])
