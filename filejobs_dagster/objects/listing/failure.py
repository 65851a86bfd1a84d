"""How a listing ends that is not complete: nothing may be concluded from any part of it."""

from __future__ import annotations

from filejobs_dagster.ledger.sanitize import display_key


class ListingFailed(Exception):
    """The bucket was not listed completely; the message says what was found and what to do."""


class ListingStopped(Exception):
    """The caller asked to stop: its time was over. What was listed is not the whole."""


class Disorder(Exception):
    """Internal: the server does not list in the order of the bytes, so ranges mean nothing."""


def shown(key: bytes) -> str:
    """A key for messages: on one line, printable, bounded."""
    return repr(display_key(key.decode("utf-8", "backslashreplace")))
