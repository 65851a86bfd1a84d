"""Measures a source against its bucket: how many of its keys lie in owns, how many have an object.

A source that answers may still say something else than it should: a forgotten transform makes it
name keys that no object has, and the objects that it means look unreferenced.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.references.near import NearMatch, suggestion_for
from filejobs_dagster.references.transforms import percent_decoded
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

LOOKED_FOR = 20
"""Keys of a source whose object is looked for; each takes a request."""

MENDED = 9
"""Keys without an object for which it is tried what else may be meant."""

MOST_TRIED = 24
"""Other keys that are tried for one of them; each takes a request."""

SHOWN = 3

_ADDRESS = re.compile(rb"\A[A-Za-z][A-Za-z0-9+.-]*://[^/]*/")


@dataclass(frozen=True)
class Measured:
    """What was seen of one source's keys in its bucket.

    Attributes:
        source: Its name.
        sampled: Distinct keys that were looked at.
        in_owns: Those of them that lie in an owned prefix.
        looked_for: Those whose object was looked for, and storage answered.
        found: Those that have an object.
        without: A few of those that have none.
        outside: A few of those that lie in no owned prefix.
        hint: What would make the others meet an object, or None.
    """

    source: str
    sampled: int
    in_owns: int
    looked_for: int
    found: int
    without: tuple[str, ...]
    outside: tuple[str, ...]
    hint: str | None

    @property
    def fits(self) -> bool:
        """False when not one key lies in owns, or not one has an object: not the source meant."""
        if not self.sampled:
            return True
        return self.in_owns > 0 and (self.found > 0 or not self.looked_for)

    def __str__(self) -> str:
        """What was seen, without a full stop."""
        if not self.sampled:
            return f"{self.source} names no key"
        said = (
            f"{self.source}: of {self.sampled} keys {self.in_owns} lie in owns, of "
            f"{self.looked_for} looked for {self.found} have an object"
        )
        others = dict.fromkeys((*self.without, *self.outside))
        return f"{said}, not so {', '.join(map(_shown, others))}" if others else said

    def objection(self) -> str:
        """Why such a source is refused."""
        what, which = "has an object", self.without
        if not self.in_owns:
            what, which = "lies in what this bucket entry owns", self.outside
        return (
            f"Source {self.source!r} names keys of which none {what} ({self.sampled} were looked "
            f"at, for example {', '.join(map(_shown, which))}). The objects that it means "
            "would look unreferenced."
        )

    def advice(self) -> str:
        """What to do about it; never something that deletes more."""
        return (
            (f"{self.hint} " if self.hint else "")
            + "Let sql and transforms return the keys exactly as the bucket lists them. If they "
            "are stems, folders or the like that rewrites lead to, write `names: owners`. Only "
            "when you have made sure that the source is right as it is, write "
            "`keys_checked_by_hand: true`."
        )


def measure(
    source: str,
    keys: Mapping[str, bytes],
    *,
    owned: Sequence[str],
    bucket: str,
    fronts: Callable[[], Sequence[str]],
    exists: Callable[[str], bool | None],
) -> Measured:
    """Look for the objects of some of a source's keys.

    Args:
        source: Its name.
        keys: Some of its keys, with the value of the row that each was made of.
        owned: The owned prefixes; the empty one owns the whole bucket.
        bucket: The bucket's name, as it may stand in front of a key.
        fronts: Prefixes under which objects lie, asked for only where no key has an object.
        exists: Whether storage has an object of that key; None when it does not say.
    """
    outside = [key for key in keys if not key.startswith(tuple(owned))]
    looked = list(keys)
    # By chance, because the oldest rows are the most likely to have lost their objects.
    random.shuffle(looked)
    answers = {key: answer for key in looked[:LOOKED_FOR] if (answer := exists(key)) is not None}
    found = sum(answers.values())
    without = [key for key, answer in answers.items() if not answer]
    hint = None
    if without and (found == 0 or len(outside) == len(keys)):
        prefixes = list(dict.fromkeys((*filter(None, owned), *fronts())))
        pairs = [
            NearMatch(other.encode(), keys[key])
            for key in without[:MENDED]
            if (other := _meant(key, keys[key], prefixes, bucket, exists)) is not None
        ]
        hint = suggestion_for(pairs)
    return Measured(
        source=source,
        sampled=len(keys),
        in_owns=len(keys) - len(outside),
        looked_for=len(answers),
        found=found,
        without=tuple(without[:SHOWN]),
        outside=tuple(outside[:SHOWN]),
        hint=hint,
    )


def _meant(
    key: str,
    value: bytes,
    prefixes: Sequence[str],
    bucket: str,
    exists: Callable[[str], bool | None],
) -> str | None:
    """Another key that the row may mean and that has an object."""
    tried = 0
    seen = {key}
    for other in _others(key.encode(), value, prefixes, bucket.encode()):
        try:
            text = other.decode()
        except UnicodeDecodeError:
            continue
        if not text or text in seen or "\x00" in text:
            continue
        seen.add(text)
        tried += 1
        if exists(text):
            return text
        if tried == MOST_TRIED:
            return None
    return None


def _others(key: bytes, value: bytes, prefixes: Sequence[str], bucket: bytes) -> Iterator[bytes]:
    """Keys that the row may mean, the likeliest first."""
    for written in dict.fromkeys((value, key)):
        plain = [written]
        for change in (_without_query, percent_decoded, _without_host):
            plain += [change(one) for one in plain]
        bare = list(dict.fromkeys(one.lstrip(b"/") for one in plain))
        bare += [one.removeprefix(bucket + b"/") for one in bare]
        yield from dict.fromkeys(bare)
        for prefix in prefixes:
            front = prefix.encode()
            for one in dict.fromkeys(bare):
                yield front + one
                # The first folder may be another one there.
                yield front + one.partition(b"/")[2]


def _without_query(value: bytes) -> bytes:
    return value.partition(b"?")[0]


def _without_host(value: bytes) -> bytes:
    return _ADDRESS.sub(b"", value)


def _shown(key: str) -> str:
    return repr(display_key(key))
