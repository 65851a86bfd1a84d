"""What a key may hold: nearly everything, and so more than XML, a log or a text column can."""

from __future__ import annotations

import re

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
