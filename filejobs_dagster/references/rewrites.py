"""From a derived object to its owner: thumbnails, variants, `.info` files, HLS folders.

An object stays while it, or any owner that the rewrites lead to, is referenced.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

DEPTH = 4
"""How often rewrites are applied to each other's result: a preview of a variant of a file."""

MOST_OWNERS = 64
"""More owners of one key than this are not looked for: the key is then kept, never collected."""


class RewriteOptions(Protocol):
    """An entry of `rewrites` in `filejobs.yaml`."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    @property
    def match(self) -> str:
        """A regular expression that matches a derived object's whole key."""
        ...

    @property
    def owner(self) -> str:
        """The owner's key; `{name}` stands for what the group of that name matched."""
        ...


class RewriteMistaken(Exception):
    """A rewrite is no rewrite: nothing may be concluded from it."""


class TooManyOwners(Exception):
    """A key has more owners than are looked for: it is kept."""


@dataclass(frozen=True)
class _Rewrite:
    name: str
    pattern: re.Pattern[str]
    parts: tuple[tuple[str, str | None], ...]

    def owner(self, key: str) -> str | None:
        """The owner's key, None when the rewrite says nothing about this one."""
        match = self.pattern.fullmatch(key)
        if match is None:
            return None
        return "".join(
            literal + ("" if group is None else match[group] or "") for literal, group in self.parts
        )


class Rewrites:
    """All rewrites of one bucket, compiled once."""

    def __init__(self, rewrites: Sequence[RewriteOptions] = ()) -> None:
        """Compile, and look whether each template fits its expression.

        Raises:
            RewriteMistaken: An expression or a template cannot be used.
        """
        self._rewrites = tuple(_compiled(rewrite) for rewrite in rewrites)

    @property
    def declared(self) -> bool:
        """Whether there is any rewrite."""
        return bool(self._rewrites)

    def owners(self, key: bytes) -> tuple[bytes, ...]:
        """Return the keys of all owners, nearest first, each once; never the key itself.

        A rewrite applies when its expression matches the whole key; what it returns is rewritten
        again, four levels deep at most.

        Raises:
            RewriteMistaken: A rewrite maps a key to itself.
            TooManyOwners: There are more than 64.
        """
        if not self._rewrites:
            return ()
        found: dict[bytes, None] = {}
        level = [key]
        for _ in range(DEPTH):
            further: list[bytes] = []
            for derived in level:
                for owner in self._nearest(derived):
                    if owner != key and owner not in found:
                        found[owner] = None
                        further.append(owner)
            if len(found) > MOST_OWNERS:
                raise TooManyOwners(f"More than {MOST_OWNERS} owners of one key")
            level = further
        return tuple(found)

    def _nearest(self, key: bytes) -> list[bytes]:
        text = key.decode("utf-8", "surrogateescape")
        owners: list[bytes] = []
        for rewrite in self._rewrites:
            owner = rewrite.owner(text)
            if owner == text:
                raise RewriteMistaken(
                    f"The rewrite {rewrite.name!r} maps {text!r} to itself, so it says nothing "
                    "about who owns it. Narrow its `match` to derived objects, or change `owner`."
                )
            if owner:
                owners.append(owner.encode("utf-8", "surrogateescape"))
        return owners


def _compiled(options: RewriteOptions) -> _Rewrite:
    try:
        pattern = re.compile(options.match, re.DOTALL)
        parsed = list(string.Formatter().parse(options.owner))
    except (re.error, ValueError) as error:
        raise _mistaken(options, str(error)) from error
    for _, group, form, conversion in parsed:
        if group is not None and group not in pattern.groupindex:
            raise _mistaken(options, f"no group of its expression is called {group!r}")
        if form or conversion:
            raise _mistaken(options, f"{group!r} has a format or a conversion")
    return _Rewrite(
        options.name, pattern, tuple((literal, group) for literal, group, _, _ in parsed)
    )


def _mistaken(options: RewriteOptions, problem: str) -> RewriteMistaken:
    return RewriteMistaken(
        f"The rewrite {options.name!r} cannot be used: {problem}. `match` is a regular expression "
        "for the whole key, with groups such as (?P<id>…), and in `owner` {id} stands for what "
        "that group matched."
    )
