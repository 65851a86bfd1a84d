"""The last question before bytes go: is it the same object, and does still nothing refer to it?

It is taken right before every request that deletes, and before each further try of it, because
what was true a minute ago, while the server was busy, need not be true any more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.objects.etags import agreement
from filejobs_dagster.objects.heads import Absent, Present, look_at_targets, require_bucket
from filejobs_dagster.objects.targets import Target, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.book.outcomes import Locked
    from filejobs_dagster.objects.heads import CloseSighting
    from filejobs_dagster.objects.pace import Pace
    from filejobs_dagster.objects.targets import Expected

HOLDS = 2.0
"""Seconds for which a look holds, where each object takes a request of its own."""

LOOKED_AT_TOGETHER = 100
"""So many objects are looked at at once, where each takes a request of its own: a source whose
query takes a second would otherwise be asked a thousand times."""

ROUNDED_BY = 2
"""Seconds by which one server's listing and HEAD may round the time of one object differently."""

OLD = 3600.0
"""Seconds. An object that was written so long ago was seen long after it was written: what is
looked at for the first time is removed within minutes, and what a listing had seen was a day old.
Clocks may be five minutes apart."""


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
        self._verdicts: dict[str, Verdict] = {}

    def withdrawn(self, targets: Sequence[Target], *, again: bool) -> Mapping[Target, Verdict]:
        """Look once more at what is about to be sent; see `Supervisor`."""
        keys = list(dict.fromkeys(target.key for target in targets))
        undecided = [key for key in keys if key not in self._verdicts]
        if again or len(targets) > 1:
            self._look(undecided)
        elif undecided and self._is_old(undecided[0]):
            self._look(self._and_those_after(undecided[0]))
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
        kept = self._admit(ready) if ready else {}
        for key in ready:
            if key in kept:
                self._verdicts[key] = Verdict(Fate.KEPT, kept[key])
            self._looked_at[key] = now

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
        pace: Pace,
        respects_locks: bool,
    ) -> None:
        """Prepare; nothing is asked yet.

        Args:
            client: From `make_client`.
            bucket: The bucket's name.
            orphans: Each key as text, and what was seen of it, in the order of the requests.
            admit: As in `LastQuestion`.
            pace: How fast to send.
            respects_locks: True where a deletion would meet the lock of the current version.
        """
        self._expected = dict(orphans)
        super().__init__(list(self._expected), admit=admit)
        self._client = client
        self._bucket = bucket
        self._pace = pace
        self._respects_locks = respects_locks
        self.locks: dict[str, Locked] = {}
        self.versions: dict[str, str | None] = {}

    def pause(self, targets: int) -> None:
        """Wait until so many targets may be sent."""
        self._pace.pause(targets)

    def throttled(self) -> None:
        """The server asked for fewer requests."""
        self._pace.throttled()

    def _the_same(self, keys: Sequence[str]) -> Sequence[str]:
        targets = [Target(key, self._expected[key].version) for key in keys]
        seen = look_at_targets(self._client, self._bucket, targets)
        if any(isinstance(sighting, Absent) for sighting in seen.values()):
            require_bucket(self._client, self._bucket)
        for target, sighting in seen.items():
            verdict = self._judge(target.key, sighting)
            if verdict is not None:
                self._verdicts[target.key] = verdict
        return [key for key in keys if key not in self._verdicts]

    def _judge(self, key: str, sighting: CloseSighting) -> Verdict | None:
        if isinstance(sighting, Absent):
            return Verdict(Fate.ALREADY_GONE)
        if not isinstance(sighting, Present):
            return Verdict(
                Fate.FAILED,
                f"{sighting}; whether it is still the same object could not be seen, which takes "
                "s3:GetObject",
                sighting.code,
            )
        self.versions[key] = sighting.version
        differs = difference(self._expected[key], sighting.etag, sighting.size, sighting.modified)
        if differs is not None:
            return Verdict(Fate.CHANGED, differs)
        meets_lock = self._respects_locks or self._expected[key].version is not None
        if meets_lock and sighting.lock is not None:
            self.locks[key] = sighting.lock
            return Verdict(Fate.LOCKED, str(sighting.lock))
        return None


def difference(expected: Expected, etag: str, size: int, modified: datetime | None) -> str | None:
    """Say in what an object differs from the one that was judged, or None when in nothing.

    ETags may be spelled in several ways, and times rounded in several: see `agreement` and
    `is_same_time`. A size alone is no identity: where neither ETag nor time is known twice, nobody
    can tell. A weak ETag is only believed with the same size, which is asked first.
    """
    etags = agreement(expected.etag, etag)
    if size != expected.size:
        return f"its size was {expected.size} and is {size}" + (
            f", with the ETag {etag}: something in front of the server rewrites its answers"
            if etags == "weakly"
            else ""
        )
    if etags == "different":
        return f"its ETag was {expected.etag} and is {etag}"
    if expected.modified >= 0 and modified is not None:
        apart = int(modified.timestamp()) - expected.modified // 1000
        if apart and (etags == "unknown" or not is_same_time(expected.modified, modified)):
            return f"it was written {apart} seconds later than the one that was seen"
    elif etags == "unknown":
        return "neither ETag nor time is known of both, so it may be another object by now"
    return None


def is_same_time(seen: int, modified: datetime) -> bool:
    """Whether two times of one key, of the same size and ETag, may be of one object.

    They may in the same second, since some servers list milliseconds and cut them off in HEAD, and
    some round in one of the two. So up to `ROUNDED_BY` is the same time, but only of an object that
    is old. Whoever wrote the same bytes again, after they had been seen and judged, did so long
    after the first time; a second write within two seconds of it was over before anybody looked.
    Of an object that is younger, that cannot be told, and the second counts.

    Args:
        seen: Unix milliseconds.
        modified: Of the other look.
    """
    apart = abs(int(modified.timestamp()) - seen // 1000)
    if apart == 0:
        return True
    return apart <= ROUNDED_BY and time.time() - modified.timestamp() >= OLD
