"""From what a row says to the key it means, by the steps that the settings declare, no others."""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENCODED = re.compile(rb"%([0-9A-Fa-f]{2})")


class TransformOptions(Protocol):
    """An entry of `transforms` in `filejobs.yaml`; exactly one of its fields says something."""

    @property
    def prepend(self) -> str | None:
        """What is put before every value."""
        ...

    @property
    def strip_base(self) -> Sequence[str] | None:
        """Beginnings of which the longest that fits is taken off."""
        ...

    @property
    def drop_query(self) -> bool | None:
        """True to cut the value at its first `?`."""
        ...

    @property
    def percent_decode(self) -> bool | None:
        """True to decode `%XX`, once."""
        ...

    @property
    def strip_suffix(self) -> str | None:
        """An ending that is taken off where it is there."""
        ...


class Step(Protocol):
    """One declared step. Total: it takes every byte string and never raises."""

    def apply(self, value: bytes) -> bytes:
        """Return what the step makes of the value."""
        ...

    def inverse(self, result: bytes) -> tuple[bytes, ...] | None:
        """Return every value that the step makes this result of; None when they are endless."""
        ...


@dataclass(frozen=True)
class Prepend:
    """Puts the same text before every value."""

    text: bytes

    def apply(self, value: bytes) -> bytes:
        """Return the text and the value."""
        return self.text + value

    def inverse(self, result: bytes) -> tuple[bytes, ...]:
        """Return what stands behind the text, or nothing when the result lacks it."""
        return (result[len(self.text) :],) if result.startswith(self.text) else ()


class StripBase:
    """Takes the longest base off that the value begins with; any other value stays as it is."""

    def __init__(self, bases: Sequence[bytes]) -> None:
        """Keep the bases that say something, the longest first."""
        self.bases = tuple(sorted({base for base in bases if base}, key=lambda base: -len(base)))

    def apply(self, value: bytes) -> bytes:
        """Return the value without its base."""
        for base in self.bases:
            if value.startswith(base):
                return value[len(base) :]
        return value

    def inverse(self, result: bytes) -> tuple[bytes, ...]:
        """Return the result with each base, and as it is, where stripping leads back to it."""
        values = (result, *(base + result for base in self.bases))
        return tuple(value for value in values if self.apply(value) == result)


@dataclass(frozen=True)
class StripSuffix:
    """Takes an ending off, once, where it is there."""

    suffix: bytes

    def apply(self, value: bytes) -> bytes:
        """Return the value without the suffix."""
        return value.removesuffix(self.suffix)

    def inverse(self, result: bytes) -> tuple[bytes, ...]:
        """Return the result with the suffix, and as it is unless it ends in one."""
        values = dict.fromkeys((result, result + self.suffix))
        return tuple(value for value in values if self.apply(value) == result)


class DropQuery:
    """Cuts a value at its first `?`, and so takes a fragment behind the query off, too.

    A `#` without a query stays: keys hold it more often than addresses, and a key that is cut
    short would no longer name its object.
    """

    def apply(self, value: bytes) -> bytes:
        """Return what stands before the query."""
        return value.partition(b"?")[0]

    def inverse(self, result: bytes) -> None:  # noqa: ARG002
        """Any query may have stood there."""
        return


class PercentDecode:
    """Decodes `%XX` once. What is no `%XX` stays as it is, and `+` stays a plus."""

    def apply(self, value: bytes) -> bytes:
        """Return the decoded value, which may be any bytes."""
        return percent_decoded(value)

    def inverse(self, result: bytes) -> None:  # noqa: ARG002
        """Each byte may have been encoded or not: too many values to ask for."""
        return


class Transforms:
    """The declared steps of one source, in their order."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        """Keep the steps; no step leaves every value as it is."""
        self.steps = tuple(steps)

    @classmethod
    def of(cls, declared: Sequence[TransformOptions]) -> Transforms:
        """Build from the settings, which have checked that each entry says exactly one thing."""
        return cls([step for options in declared for step in _steps(options)])

    @property
    def invertible(self) -> bool:
        """Whether any key leads back to finitely many values; if not, `recheck_sql` is needed."""
        return not any(isinstance(step, DropQuery | PercentDecode) for step in self.steps)

    def apply(self, value: bytes) -> bytes:
        """Return the key that a row's value means; it may be empty, and then names nothing."""
        for step in self.steps:
            value = step.apply(value)
        return value

    def inverse(self, key: bytes) -> tuple[bytes, ...] | None:
        """Return every value, each once, that `apply` turns into this key.

        None when they cannot be listed. The empty value names nothing and is never among them.
        """
        if not self.invertible:
            return None
        values: dict[bytes, None] = {key: None}
        for step in reversed(self.steps):
            earlier: dict[bytes, None] = {}
            for value in values:
                earlier.update(dict.fromkeys(step.inverse(value) or ()))
            values = earlier
        return tuple(value for value in values if value)


def invertible(declared: Sequence[TransformOptions]) -> bool:
    """True when a source with these transforms can be re-checked without `recheck_sql`."""
    return Transforms.of(declared).invertible


def percent_decoded(value: bytes) -> bytes:
    """Decode `%XX` once, everywhere; anything else stays."""
    if b"%" not in value:
        return value
    return _ENCODED.sub(lambda match: bytes((int(match[1], 16),)), value)


def _steps(options: TransformOptions) -> list[Step]:
    steps: list[Step] = []
    if options.prepend is not None:
        steps.append(Prepend(options.prepend.encode()))
    if options.strip_base is not None:
        steps.append(StripBase([base.encode() for base in options.strip_base]))
    if options.drop_query:
        steps.append(DropQuery())
    if options.percent_decode:
        steps.append(PercentDecode())
    if options.strip_suffix is not None:
        steps.append(StripSuffix(options.strip_suffix.encode()))
    return steps


# From a derived object to its owner: thumbnails, variants, `.info` files, HLS folders.
#
# An object stays while it, or any owner that the rewrites lead to, is referenced.

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
