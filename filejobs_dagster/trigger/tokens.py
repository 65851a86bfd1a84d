"""Who holds the token of a request."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filejobs_dagster.settings import TriggerSettings

LONGEST_HEADER = 4096
"""Bytes; a longer header is not even hashed."""

_SCHEME = b"bearer"


@dataclass(frozen=True)
class TokenHolder:
    """Whoever may start jobs.

    Attributes:
        name: What records call them.
        jobs: What they may start; None for every job of the settings.
        may_go_live: Whether they may ask for live where the settings say dry.
    """

    name: str
    jobs: frozenset[str] | None
    may_go_live: bool


class KnownTokens:
    """The tokens of the settings, as digests of equal length.

    The time that a comparison takes tells nothing: every digest is compared, each in constant
    time, whether or not one has matched already.
    """

    def __init__(self, settings: TriggerSettings) -> None:
        self._known = tuple(
            (
                _digest(entry.token.reveal().encode()),
                TokenHolder(
                    name, None if entry.jobs is None else frozenset(entry.jobs), entry.may_go_live
                ),
            )
            for name, entry in settings.tokens.items()
        )

    def holder(self, authorization: bytes | None) -> TokenHolder | None:
        """The holder of the token in an `Authorization` header, or None."""
        presented = _digest(_token_of(authorization))
        found: TokenHolder | None = None
        for digest, holder in self._known:
            if hmac.compare_digest(digest, presented):
                found = holder
        return found


def _token_of(authorization: bytes | None) -> bytes:
    """The token, or nothing, which no known token is equal to."""
    if authorization is None or len(authorization) > LONGEST_HEADER:
        return b""
    scheme, _, token = authorization.partition(b" ")
    return token.strip() if scheme.lower() == _SCHEME else b""


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
