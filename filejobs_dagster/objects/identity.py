"""Whether two looks at a key saw the same object: judged here, for every job.

A listing, a HEAD and a row each say something of an object, and seldom all of it: an ETag in one
spelling or another, a size, a time that is rounded here and moved there, a version. What can never
come out equal must not be taken for a change, and what was uploaded again must not be taken for
what was there before.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from filejobs_dagster.objects.targets import Expected

# ETags as servers and what stands in front of them spell them, and the one way to compare two.
#
# `"abc"` in a listing may be `abc` in a row, `&quot;abc&quot;` in one whose writer cut it out of
# XML, `ABC` in one that computed the MD5 itself, `W/"abc"` behind a proxy that compresses, and
# `"abc-gzip"` behind another. Compared as text they would never come out equal: an object that is
# there would be taken for another one, for ever.

Agreement = Literal["same", "weakly", "different", "unknown"]
"""What two ETags say of two looks at a key.

`weakly`: they differ in spelling only, but one of them is weak, names a compressed form or has the
other case, so it does not promise the same bytes. That counts as the same object only where the
size is known twice and is the same; otherwise nobody can tell, and nothing may be concluded:
neither that it may go nor that it is another one. `unknown`: one of them is missing.
"""

_CODINGS = ("-gzip", ";gzip", "-br", "-zstd", "-deflate")
"""What proxies append for a compressed form. The number of parts (`-12`) is none of these."""

_MD5 = re.compile(r"[0-9a-fA-F]{32}(-[0-9]+)?")
"""Also of an object of several parts."""


def without_quotes(etag: str) -> str:
    """The ETag as rows and columns hold it: `"abc"` is `abc`, and `W/"abc"` is `W/abc`."""
    return etag.strip().replace("&quot;", "").replace('"', "").strip()


def strong(etag: str) -> str:
    """What all spellings of an ETag have in common, as a condition of a request names it."""
    plain = without_quotes(etag)
    plain = plain[2:] if plain[:2] in ("W/", "w/") else plain
    for coding in _CODINGS:
        if plain.endswith(coding):
            return plain.removesuffix(coding).removesuffix("-")
    return plain


def agreement(one: str | None, other: str | None) -> Agreement:
    """Compare two ETags, each with its quotes or without; None and the empty one are unknown."""
    if not one or not other:
        return "unknown"
    first, second = without_quotes(one), without_quotes(other)
    if _in_one_case(strong(first)) != _in_one_case(strong(second)):
        return "different"
    # The same weak one twice says no more than a weak one and a strong one.
    return "same" if first == second == strong(first) else "weakly"


def _in_one_case(etag: str) -> str:
    """Of an MD5 the case says nothing; of what else an ETag may be, it may say something."""
    return etag.lower() if _MD5.fullmatch(etag) else etag


ROUNDED_BY = 2
"""Seconds by which one server's listing and HEAD may round the time of one object differently."""

OLD = 3600.0
"""Seconds. An object that was written so long ago was seen long after it was written: what is
looked at for the first time is removed within minutes, and what a listing had seen was a day old.
Clocks may be five minutes apart."""

NULL_VERSION = "null"
"""The identifier of a version that was written while the bucket kept none. It names whatever was
written last, so it is no identity."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Seen:
    """What one look says of an object; what it does not say is None.

    Attributes:
        etag: In any spelling; the empty one says nothing.
        size: In bytes.
        modified: When it was written, as this look says it; unix milliseconds.
        version: The identifier of the version.
    """

    etag: str | None
    size: int | None
    modified: int | None = None
    version: str | None = None


class Found(Protocol):
    """An object, or a version of it, as a server describes it."""

    @property
    def etag(self) -> str:
        """Without quotes; empty when the server sent none."""
        ...

    @property
    def size(self) -> int:
        """In bytes."""
        ...

    @property
    def modified(self) -> datetime | None:
        """When it was written; None when the server did not say."""
        ...


def expected(orphan: Expected) -> Seen:
    """What was seen of an object when it was judged."""
    modified = orphan.modified if orphan.modified >= 0 else None
    return Seen(orphan.etag, orphan.size, modified, orphan.version or orphan.seen_as)


def found(it: Found, version: str | None = None) -> Seen:
    """What a server says of an object now."""
    modified = None if it.modified is None else milliseconds(it.modified)
    return Seen(it.etag, it.size, modified, version)


def milliseconds(moment: datetime) -> int:
    """A moment as a listing has it: unix milliseconds, cut."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True)
class Comparison:
    """What two looks at a key say of each other.

    Attributes:
        word: `same`: one object. `another`: somebody has written under the key in between.
            `undecided`: nobody can tell, so nothing may be concluded: neither that it may go nor
            that it is another one.
        why: What differs, or what is not known; empty for `same`.
    """

    word: Literal["same", "another", "undecided"]
    why: str = ""

    @property
    def same(self) -> bool:
        """True when it is one object."""
        return self.word == "same"


def compare(before: Seen, now: Seen, *, only_one: bool = False) -> Comparison:
    """Say whether two looks at one key saw the same object.

    The size speaks first, since a weak ETag is believed only beside it and it alone is no identity.
    Then the ETags, as `agreement` spells them. Of equal ones, the version decides whatever the
    times say: tags, an ACL or a retention move the time of a HEAD on some servers. Where there are
    no versions, the time is the only sign of an object that was written again with the same bytes:
    what rounding explains is the same one, and of anything more nobody can tell.

    Args:
        before: What was seen, or what a row says of it.
        now: What is there.
        only_one: True where only one object was ever to have this key, so that what is not known
            speaks against nothing.
    """
    etags = agreement(before.etag, now.etag)
    if etags == "same" and only_one:
        # A row's size is what its writer has said.
        return Comparison("same")
    differs = _by_size_and_etag(before, now, etags)
    if differs is not None:
        return differs
    if NULL_VERSION not in (before.version, now.version) and before.version and now.version:
        if before.version == now.version:
            return Comparison("same")
        return Comparison("another", f"it is version {now.version} and was {before.version}")
    return _by_time(before, now, etag_known=etags != "unknown", only_one=only_one)


def _by_size_and_etag(before: Seen, now: Seen, etags: Agreement) -> Comparison | None:
    sized = before.size is not None and now.size is not None
    if sized and before.size != now.size:
        sizes = f"its size was {before.size} and is {now.size}"
        if etags in ("same", "weakly"):
            return Comparison(
                "undecided",
                f"{sizes}, with the ETag {now.etag}: something in front of the server rewrites its "
                "answers",
            )
        return Comparison("another", sizes)
    if etags == "different":
        return Comparison("another", f"its ETag was {before.etag} and is {now.etag}")
    if etags == "weakly" and not sized:
        return Comparison(
            "undecided",
            f"its ETag was {before.etag}, the server answers with the weak ETag {now.etag}, and "
            "without its size nobody can tell; something in front of the server rewrites its "
            "answers, so let this client reach the server itself",
        )
    return None


def _by_time(before: Seen, now: Seen, *, etag_known: bool, only_one: bool) -> Comparison:
    if before.modified is None or now.modified is None:
        if etag_known or only_one:
            return Comparison("same")
        return Comparison(
            "undecided", "neither ETag nor time is known of both, so it may be another object"
        )
    apart = now.modified // 1000 - before.modified // 1000
    if apart == 0:
        return Comparison("same")
    late = f"{abs(apart)} seconds {'later' if apart > 0 else 'earlier'} than the one that was seen"
    if not etag_known:
        return Comparison("another", f"it was written {late}")
    if is_same_time(before.modified, now.modified):
        return Comparison("same")
    return Comparison(
        "undecided",
        f"it has the ETag and the size of the one that was seen, and its time is {late}: either "
        "the same bytes were uploaded again, or only its tags, ACL or lock were changed",
    )


def is_same_time(before: int, now: int) -> bool:
    """Whether two times of one key, of the same size and ETag, may be of one object.

    They may in the same second, since some servers list milliseconds and cut them off in HEAD, and
    some round in one of the two. So up to `ROUNDED_BY` is the same time, but only of an object that
    is old. Whoever wrote the same bytes again, after they had been seen and judged, did so long
    after the first time; a second write within two seconds of it was over before anybody looked.
    Of an object that is younger, that cannot be told, and the second counts.

    Args:
        before: Unix milliseconds.
        now: Of the other look.
    """
    apart = abs(now // 1000 - before // 1000)
    return apart == 0 or (apart <= ROUNDED_BY and time.time() - now / 1000 >= OLD)
