"""Keeps the fate of each orphan while a removal goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.objects.removal import Removal
from filejobs_dagster.objects.targets import Fate, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.objects.removal import Locked


class Fates:
    """One entry a key: none can come to stand in two groups."""

    def __init__(self) -> None:
        self._verdicts: dict[bytes, Verdict] = {}
        self._locks: dict[bytes, Locked] = {}
        self._purged: dict[bytes, int] = {}
        self._freed: dict[bytes, int] = {}

    def settle(self, key: bytes, verdict: Verdict, lock: Locked | None = None) -> None:
        """Write down what became of a key; the last word counts."""
        self._verdicts[key] = verdict
        self._purged.pop(key, None)
        if lock is not None:
            self._locks[key] = lock

    def disbelieve(self, key: bytes, verdict: Verdict) -> None:
        """Take back that a key is gone, and that its bytes are."""
        self.settle(key, verdict)
        self._freed.pop(key, None)

    def purged(self, key: bytes, versions: int) -> None:
        """Every version of the key is gone."""
        self._verdicts[key] = Verdict(Fate.DELETED)
        self._purged[key] = versions

    def free(self, key: bytes, size: int) -> None:
        """So many more bytes of a key are gone."""
        self._freed[key] = self._freed.get(key, 0) + size

    def freed_of(self, key: bytes) -> int:
        """Bytes of a key that are gone."""
        return self._freed.get(key, 0)

    def unanswered(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those of the keys that nothing is known of."""
        return [key for key in keys if key not in self._verdicts]

    def removal(self) -> Removal:
        """Everything so far."""

        def of(*fates: Fate) -> dict[bytes, str]:
            return {key: it.reason for key, it in self._verdicts.items() if it.fate in fates}

        return Removal(
            deleted=tuple(key for key in of(Fate.DELETED) if key not in self._purged),
            marked=tuple(of(Fate.MARKED)),
            purged=dict(self._purged),
            already_gone=tuple(of(Fate.ALREADY_GONE)),
            changed=of(Fate.CHANGED),
            undecided=of(Fate.UNDECIDED),
            unseen=of(Fate.UNSEEN),
            locked={key: self._locks[key] for key in of(Fate.LOCKED)},
            failed=of(Fate.FAILED),
            kept=of(Fate.KEPT),
            freed=sum(self._freed.values()),
            unsettled=frozenset(key for key, it in self._verdicts.items() if it.unsettled),
        )
