"""The last question before bytes go: is it the same object, and does still nothing refer to it?

It is taken right before every request that deletes, and before each further try of it, because
what was true a minute ago, while the server was busy, need not be true any more.

`KeyOutcomes` keeps what became of each orphan while a removal goes on.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import Fate, ItemOutcome, Outcomes
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import THREADS, Absent, look_at_targets, require_bucket
from filejobs_dagster.objects.identity import (
    NULL_VERSION,
    Comparison,
    compare,
    expected,
    found,
)
from filejobs_dagster.objects.targets import Target, Verdict
from filejobs_dagster.objects.versions import versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.book.outcomes import Locked
    from filejobs_dagster.objects.adaptive_rate import AdaptiveRate
    from filejobs_dagster.objects.heads import CloseSighting
    from filejobs_dagster.objects.targets import Expected

HOLDS = 2.0
"""Seconds for which a look at objects holds, where each takes a request of its own; and, at most,
what the sources said: that holds for as long as they took to say it, and is no older for that."""

LOOKED_AT_TOGETHER = 100
"""So many objects are looked at at once, where each takes a request of its own, and for so many the
sources are asked: one whose query takes a second would otherwise be asked a thousand times. Of one
that answers at once the answer is old after a request or two, and it is asked for no more than
twice as many keys as the last answer has served."""


class LastQuestion:
    """Asks, right before each request and each further try of it, whether its keys must stay."""

    patient = False

    def __init__(
        self, keys: Sequence[str], *, admit: Callable[[Sequence[str]], Mapping[str, str]]
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            keys: In the order of the requests.
            admit: Which of them must stay, and why, in a fresh snapshot of the database.
        """
        self._order = list(keys)
        self._place = {key: place for place, key in enumerate(self._order)}
        self._admit = admit
        self._looked_at: dict[str, float] = {}
        self._answer_holds_until: dict[str, float] = {}
        self._served = LOOKED_AT_TOGETHER
        self.locks: dict[str, Locked] = {}
        self._verdicts: dict[str, Verdict] = {}

    def withdrawn(self, targets: Sequence[Target], *, again: bool) -> Mapping[Target, Verdict]:
        """Look once more at what is about to be sent; see `Supervisor`."""
        keys = list(dict.fromkeys(target.key for target in targets))
        undecided = [key for key in keys if key not in self._verdicts]
        if again or len(targets) > 1:
            self._look(undecided)
        elif undecided and self._is_old(undecided[0]):
            self._look(self._and_those_after(undecided[0]))
        elif undecided and time.monotonic() >= self._answer_holds_until[undecided[0]]:
            following = self._and_those_after(undecided[0])[: max(1, 2 * self._served)]
            self._served = 0
            self._ask([key for key in following if not self._is_old(key)])
        self._served += 1
        for key in keys:
            # A look serves one request: between two of them the older versions may have gone.
            self._looked_at.pop(key, None)
        return {it: self._verdicts[it.key] for it in targets if it.key in self._verdicts}

    def of(self, key: str) -> Verdict | None:
        """What was decided about a key, or None while it may go."""
        return self._verdicts.get(key)

    def pause(self, targets: int) -> None:
        """Send at once."""

    def throttled(self) -> None:
        """Leave it to the pauses between tries."""

    def _is_old(self, key: str) -> bool:
        looked_at = self._looked_at.get(key)
        return looked_at is None or time.monotonic() - looked_at >= HOLDS

    def _and_those_after(self, key: str) -> list[str]:
        place = self._place[key]
        following = self._order[place : place + LOOKED_AT_TOGETHER]
        return [each for each in following if each not in self._verdicts]

    def _look(self, keys: Sequence[str]) -> None:
        """The objects first, the references last: theirs is the answer that must be the newest."""
        # The age counts from before the first request: what a slow one takes counts, too.
        now = time.monotonic()
        ready = self._the_same(keys)
        self._ask(ready)
        self._looked_at.update(dict.fromkeys(ready, now))

    def _ask(self, keys: Sequence[str]) -> None:
        began = time.monotonic()
        kept = self._admit(keys) if keys else {}
        answered = time.monotonic()
        until = answered + min(HOLDS, answered - began)
        for key in keys:
            self._answer_holds_until[key] = until
            if key in kept:
                self._verdicts[key] = Verdict(Fate.KEPT, kept[key])

    def _the_same(self, keys: Sequence[str]) -> Sequence[str]:
        """Those of the keys whose object is what it was; here nobody has looked at one."""
        return keys


class Judgement(LastQuestion):
    """Looks at each object besides, until the moment in which its deletion is sent."""

    patient = True

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        orphans: Sequence[tuple[str, Expected]],
        *,
        admit: Callable[[Sequence[str]], Mapping[str, str]],
        pace: AdaptiveRate,
        respects_locks: bool,
        without_versions: bool = False,
        by_listing: bool = False,
        seen: dict[str, Present] | None = None,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            client: From `make_client`.
            bucket: The bucket's name.
            orphans: Each key as text, and what was seen of it, in the order of the requests.
            admit: As in `LastQuestion`.
            pace: How fast to send.
            respects_locks: True where a deletion would meet the lock of the current version.
            without_versions: As `look_at_targets` takes it.
            by_listing: The same.
            seen: Where the last look at each object is kept.
        """
        self._expected = dict(orphans)
        super().__init__(list(self._expected), admit=admit)
        self._client = client
        self._bucket = bucket
        self._pace = pace
        self._respects_locks = respects_locks
        self._without_versions = without_versions
        self._by_listing = by_listing
        self.seen = {} if seen is None else seen

    def pause(self, targets: int) -> None:
        """Wait until so many targets may be sent."""
        self._pace.pause(targets)

    def throttled(self) -> None:
        """The server asked for fewer requests."""
        self._pace.throttled()

    def _the_same(self, keys: Sequence[str]) -> Sequence[str]:
        targets = [Target(key, self._expected[key].version) for key in keys]
        seen = look_at_targets(
            self._client,
            self._bucket,
            targets,
            without_versions=self._without_versions,
            by_listing=self._by_listing,
        )
        if any(isinstance(sighting, Absent) for sighting in seen.values()):
            require_bucket(self._client, self._bucket)
        for target, sighting in seen.items():
            verdict = self._judge(target.key, sighting)
            if verdict is not None:
                self._verdicts[target.key] = verdict
        self._decide_by_version(keys)
        return [key for key in keys if key not in self._verdicts]

    def _judge(self, key: str, sighting: CloseSighting) -> Verdict | None:
        if isinstance(sighting, Absent):
            return Verdict(Fate.ALREADY_GONE)
        if not isinstance(sighting, Present):
            return Verdict(
                Fate.UNSEEN,
                f"{sighting}; whether it is still the same object could not be seen, which takes "
                "s3:GetObject, and of an encrypted one its key",
                sighting.code,
            )
        self.seen[key] = sighting
        orphan = self._expected[key]
        return self._verdict(key, compare(expected(orphan), found(sighting, sighting.version)))

    def _verdict(self, key: str, same: Comparison) -> Verdict | None:
        """What a lock keeps is locked, also where nobody can tell whether it is the same object.

        Some servers date an object anew when it is locked after its upload.
        """
        locked = None if same.word == "another" else self._locked(key)
        if locked is not None or same.same:
            return locked
        version = self.seen[key].version if same.word == "undecided" else None
        return Verdict(_FATES[same.word], same.why, version=version)

    def _locked(self, key: str) -> Verdict | None:
        sighting = self.seen[key]
        meets_lock = self._respects_locks or self._expected[key].version is not None
        if meets_lock and sighting.lock is not None:
            self.locks[key] = sighting.lock
            return Verdict(Fate.LOCKED, str(sighting.lock))
        return None

    def _decide_by_version(self, keys: Sequence[str]) -> None:
        """Of what only its time makes doubtful, let the listing of its versions decide.

        A listing dates an object as the listing did that had seen it, and names the version that
        the HEAD has named.
        """
        doubtful = [key for key in keys if self._has_version(key)]
        if not doubtful:
            return
        with ThreadPoolExecutor(min(THREADS, len(doubtful))) as pool:
            compared = dict(zip(doubtful, pool.map(self._as_listed, doubtful), strict=True))
        for key, same in compared.items():
            del self._verdicts[key]
            verdict = self._verdict(key, same)
            if verdict is not None:
                self._verdicts[key] = verdict

    def _has_version(self, key: str) -> bool:
        verdict, sighting = self._verdicts.get(key), self.seen.get(key)
        return (
            verdict is not None
            and verdict.fate is Fate.UNDECIDED
            and sighting is not None
            and sighting.version not in (None, "", NULL_VERSION)
        )

    def _as_listed(self, key: str) -> Comparison:
        doubt = self._verdicts[key].reason
        version = self.seen[key].version
        listed = versions_of(self._client, self._bucket, key)
        if isinstance(listed, StorageError):
            return Comparison(
                "undecided",
                f"{doubt}; its versions would tell, which takes s3:ListBucketVersions: {listed}",
            )
        for it in listed.versions:
            if it.latest and it.identifier == version and not it.marker:
                return compare(expected(self._expected[key]), found(it))
        return Comparison("undecided", f"{doubt}; its versions do not tell")


_FATES = {"another": Fate.CHANGED, "undecided": Fate.UNDECIDED}


# Keeps the outcome of each orphan while a removal goes on.


class KeyOutcomes:
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
