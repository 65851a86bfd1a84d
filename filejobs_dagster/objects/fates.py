"""Keeps the outcome of each orphan while a removal goes on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import Fate, ItemOutcome, Outcomes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.book.outcomes import Locked
    from filejobs_dagster.objects.targets import Verdict


class Fates:
    """One outcome a key; those that nothing is known of stand behind the others."""

    def __init__(self) -> None:
        self._known: dict[bytes, ItemOutcome[bytes]] = {}
        self._freed: dict[bytes, int] = {}

    def settle(self, key: bytes, verdict: Verdict, lock: Locked | None = None) -> None:
        """Write down what became of a key; the last word counts."""
        self._known[key] = ItemOutcome(
            key,
            verdict.fate,
            verdict.reason,
            lock=lock,
            unsettled=verdict.unsettled,
            version=verdict.version,
        )

    def disbelieve(self, key: bytes, verdict: Verdict) -> None:
        """Take back that a key is gone, and that its bytes are."""
        self.settle(key, verdict)
        self._freed.pop(key, None)

    def purged(self, key: bytes, versions: int) -> None:
        """Every version of the key is gone."""
        self._known[key] = ItemOutcome(key, Fate.PURGED, versions=versions)

    def free(self, key: bytes, size: int) -> None:
        """So many more bytes of a key are gone, whatever becomes of the rest of it."""
        self._freed[key] = self._freed.get(key, 0) + size

    def knows(self, key: bytes) -> bool:
        """True when it is known what became of the key."""
        return key in self._known

    def outcomes(self, keys: Sequence[bytes]) -> Outcomes[bytes]:
        """What became of each of the keys so far."""
        rest = (ItemOutcome(key, Fate.UNANSWERED) for key in keys if key not in self._known)
        return Outcomes(
            tuple(
                replace(it, freed=self._freed.get(it.key, 0))
                for it in (*self._known.values(), *rest)
            )
        )
