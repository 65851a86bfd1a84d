"""From what a row says to the key it means, by the steps that the settings declare, no others."""

from __future__ import annotations

import re
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
