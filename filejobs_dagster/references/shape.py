"""The known shapes of keys: an owned key of any other shape is kept and reported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class Shape:
    """Regular expressions of which one must match a whole key."""

    def __init__(self, patterns: Sequence[str] = ()) -> None:
        """Compile the patterns; none at all means that every key is known.

        Raises:
            re.error: A pattern is no regular expression; the settings have refused it before.
        """
        # `$` and a lazy `.` must not leave a newline out: keys may hold one.
        self._patterns = tuple(re.compile(pattern, re.DOTALL) for pattern in patterns)

    @property
    def declared(self) -> bool:
        """Whether there is any pattern."""
        return bool(self._patterns)

    def known(self, key: bytes) -> bool:
        """True when one of the patterns matches the whole key, or none is declared.

        Bytes that are no UTF-8 are matched as lone surrogates, which no sane pattern names.
        """
        if not self._patterns:
            return True
        text = key.decode("utf-8", "surrogateescape")
        return any(pattern.fullmatch(text) is not None for pattern in self._patterns)
