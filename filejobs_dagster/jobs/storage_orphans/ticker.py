"""Progress while a run works: a line every few seconds, and the same in its progress row."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from filejobs_dagster.run_context import RunContext

BETWEEN_LINES = 5.0
"""Seconds. A run of six hours says fewer than 5000 lines."""


class Ticker:
    """Says how far a phase is; may be called as often as one likes, and from any thread."""

    def __init__(
        self,
        context: RunContext,
        write: Callable[[Mapping[str, Any]], None],
        *,
        between: float = BETWEEN_LINES,
    ) -> None:
        """Speak for one run.

        Args:
            context: The run.
            write: Writes facts into the run's progress row.
            between: Seconds between two lines.
        """
        self._context = context
        self._write = write
        self._between = between
        self._guard = threading.Lock()
        self._said_at = time.monotonic()
        self._phase_since = time.monotonic()

    def phase(self, name: str, words: str) -> None:
        """A phase begins: this is always said."""
        with self._guard:
            self._phase_since = self._said_at = time.monotonic()
            self._context.log.info("%s", words)
            self._write({"progress": {"phase": name}})

    def objects(
        self, name: str, count: int, position: bytes = b"", facts: Mapping[str, int] | None = None
    ) -> None:
        """Objects (or keys) of the phase so far.

        Args:
            name: The phase.
            count: How many so far.
            position: Where it is, as a key.
            facts: Counts so far, by class.
        """
        with self._guard:
            now = time.monotonic()
            if now - self._said_at < self._between:
                return
            self._said_at = now
            rate = count / max(now - self._phase_since, 0.001)
            shown = display_key(position.decode("utf-8", "backslashreplace"), limit=80)
            classes = "".join(f", {number:,} {what}" for what, number in (facts or {}).items())
            at = f", at {shown}" if position else ""
            self._context.log.info(
                "%s: %s so far, %s a second%s%s", name, f"{count:,}", f"{rate:,.0f}", at, classes
            )
            self._write(
                {
                    "progress": {
                        "phase": name,
                        "count": count,
                        "per_second": round(rate),
                        "position": shown,
                        **(facts or {}),
                    }
                }
            )
