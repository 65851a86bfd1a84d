"""What one deletion is aimed at, what became of it, and what keys and prefixes are made of."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from filejobs_dagster.book.outcomes import Fate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

    from filejobs_dagster.objects.deletion_mode import DeletionMode


@dataclass(frozen=True)
class Expected:
    """An object as it was seen when it was judged.

    Attributes:
        key: Exact bytes.
        etag: Without quotes; empty when the server gave none.
        size: In bytes.
        modified: Unix milliseconds; -1 when the server did not say.
        owners: The keys that the object is derived from: while one of them is referenced, it stays.
        version: Exactly this version is looked at and removed, whatever stands above it; None for
            the current one, in the manner of the bucket.
        seen_as: The version that was the current one when it was looked at; None when nobody knows.
            It tells the same object from another, whatever their times say.
    """

    key: bytes
    etag: str
    size: int
    modified: int
    owners: tuple[str, ...] = ()
    version: str | None = None
    seen_as: str | None = None


@dataclass(frozen=True)
class Target:
    """An object, or one version of it.

    Attributes:
        key: Exact.
        version: The version to remove; None leaves it to the bucket what a deletion means.
        etag: Without quotes: the server is asked to delete nothing else. None asks for nothing.
    """

    key: str
    version: str | None = None
    etag: str | None = None

    def entry(self) -> ObjectIdentifierTypeDef:
        """The target as DeleteObjects names it."""
        entry: ObjectIdentifierTypeDef = {"Key": self.key}
        if self.version is not None:
            entry["VersionId"] = self.version
        if self.etag is not None:
            entry["ETag"] = self.etag
        return entry

    def arguments(self) -> dict[str, Any]:
        """The target as DeleteObject names it."""
        arguments = {"Key": self.key}
        if self.version is not None:
            arguments["VersionId"] = self.version
        if self.etag is not None:
            arguments["IfMatch"] = f'"{self.etag}"'
        return arguments

    def fate_when_gone(self, *, marker: bool) -> Fate:
        """Deleted or marked.

        Args:
            marker: What the server says under DeleteMarker. Of a version, it means that what was
                removed had been a marker itself.
        """
        return Fate.MARKED if marker and self.version is None else Fate.DELETED


@dataclass(frozen=True)
class Verdict:
    """What became of a target, and why.

    Attributes:
        fate: Of the target.
        reason: Without secrets; empty where the fate says it all.
        code: S3's own word for a refusal, if there was one.
        unsettled: True when it was sent, and the server may still carry it out.
        version: Of what is undecided, the version that is there; None without any.
    """

    fate: Fate
    reason: str = ""
    code: str = ""
    unsettled: bool = False
    version: str | None = None


class Supervisor(Protocol):
    """Watches over a deletion while it is sent."""

    @property
    def patient(self) -> bool:
        """True to try a whole request again that the server turned away for being too busy."""
        ...

    def withdrawn(self, targets: Sequence[Target], *, again: bool) -> Mapping[Target, Verdict]:
        """Say which of the targets must not go any more, and why. Asked before each request.

        Args:
            targets: That are about to be sent.
            again: True when they were sent before, so that whatever was known then is old.

        Raises:
            ReferencesUnknown: It cannot be said: nothing of the request may go.
            StorageRejected: Neither can it, because storage does not answer.
        """
        ...

    def pause(self, targets: int) -> None:
        """Wait until so many targets may be sent. Called before `withdrawn`: a pause makes old."""
        ...

    def throttled(self) -> None:
        """Take note that the server asked for fewer requests."""
        ...


class Unsupervised:
    """For callers who have decided for good."""

    patient = False

    def withdrawn(self, targets: Sequence[Target], *, again: bool) -> Mapping[Target, Verdict]:
        """Nothing is."""
        del targets, again
        return {}

    def pause(self, targets: int) -> None:
        """Send at once."""

    def throttled(self) -> None:
        """Leave it to the pauses between tries."""


def as_it_is(
    target: Target,
    verdict: Verdict,
    deletion_mode: DeletionMode,
    versions: Mapping[str, str | None],
) -> Verdict:
    """The verdict, with marked and deleted told apart by what the bucket does, too.

    Some answers leave DeleteMarker out; and where versions are suspended, the marker that an answer
    names takes the place of the bytes.

    Args:
        target: Which.
        verdict: As the server's answer has it.
        deletion_mode: Of the bucket.
        versions: The versions that were current before, by key, as a HEAD named them; without an
            entry where nobody has looked.
    """
    if target.version is not None or verdict.fate not in (Fate.DELETED, Fate.MARKED):
        return verdict
    if deletion_mode.leaves_bytes(versions.get(target.key)):
        return Verdict(Fate.MARKED)
    looked = deletion_mode.versioning == "suspended" and target.key in versions
    return Verdict(Fate.DELETED) if looked else verdict


# Prefixes of keys.

MARKERS = "filejobs-adopted"
"""What the keys of all markers begin with, of every installation and whatever it configures: one
listing finds them all. Nothing that begins so is ever deleted, in any job."""

QUARANTINE = "filejobs-quarantine/"
"""Below it lie the copies of objects that went and can be brought back, of every installation and
whatever it owns: the original's key follows. No sweep sees them as objects of its own."""

OF_THE_HOUSE = (MARKERS, QUARANTINE)
"""What begins so is nobody's to collect."""


def apart(prefixes: Sequence[str]) -> list[str]:
    """The prefixes, each once, without those that lie inside another one."""
    kept: list[str] = []
    # In the order of their bytes, a prefix stands in front of everything that begins with it.
    for prefix in sorted(set(prefixes), key=str.encode):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


def overlap(one: str, other: str) -> bool:
    """Whether a key can lie in both prefixes; the empty one is the whole bucket."""
    return one.startswith(other) or other.startswith(one)


# What a key may hold: nearly everything, and so more than XML, a log or a text column can.

MOST_KEYS_PER_REQUEST = 1000
"""The limit of one DeleteObjects request."""

_NOT_FAITHFUL_IN_XML = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ud800-\udfff]")


def needs_single_delete(key: str) -> bool:
    r"""True for a key that the XML body of DeleteObjects cannot carry faithfully.

    XML 1.0 has no way to write most control characters, and a server answers MalformedXML for the
    whole batch. Worse are those that it can write: a reader turns a bare `\r` into `\n`, so that
    `a\rb` comes to name ANOTHER object, `a\nb`. botocore escapes it in the request; a client that
    does not deletes the wrong object, and a server that does not answers that the wrong one is
    gone. Some readers do the same with U+0085 and U+2028, and some trim white space at the ends.
    In the URL of a single request each byte is percent-encoded: nothing can be read differently.
    """
    return key != key.strip() or _NOT_FAITHFUL_IN_XML.search(key) is not None


def is_folded(key: str) -> bool:
    """True for a key that is another one's where keys are paths: `files//a` or `/files/a`."""
    return key.startswith("/") or "//" in key


def unfolded(key: str) -> list[str]:
    """The most likely other names of an object where keys are paths: each slash, or all, doubled.

    There is no end of such names, so this tells what is there and never what is not.
    """
    others = [f"/{key}", key.replace("/", "//")]
    others += [f"{key[:at]}/{key[at:]}" for at, it in enumerate(key) if it == "/"]
    return [other for other in dict.fromkeys(others) if other != key]
