"""ETags as servers and what stands in front of them spell them, and the one way to compare two.

`"abc"` in a listing may be `abc` in a row, `&quot;abc&quot;` in one whose writer cut it out of XML,
`ABC` in one that computed the MD5 itself, `W/"abc"` behind a proxy that compresses, and
`"abc-gzip"` behind another. Compared as text they would never come out equal: an object that is
there would be taken for another one, for ever.
"""

from __future__ import annotations

import re
from typing import Literal

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
