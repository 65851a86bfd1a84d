"""Removes orphans that have passed everything else.

PRIVATE to the gate: use `Gate.remove`.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NoReturn

from filejobs_dagster.book.outcomes import DeletionStopped, Disproven, Fate, StorageRejected
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import THREADS, look_at_targets
from filejobs_dagster.objects.identity import compare, expected, found, strong
from filejobs_dagster.objects.judgement import Judgement, KeyOutcomes
from filejobs_dagster.objects.purging import STILL_THERE, Purging, lock_of
from filejobs_dagster.objects.quarantine import COPIED_TOGETHER, Copying
from filejobs_dagster.objects.sending import Deleting, proof_refused
from filejobs_dagster.objects.targets import MOST_KEYS_PER_REQUEST, Target, Verdict, as_it_is
from filejobs_dagster.objects.versions import versions_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

    from filejobs_dagster.book.outcomes import Locked, Outcomes
    from filejobs_dagster.objects.adaptive_rate import AdaptiveRate
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.objects.targets import Expected
    from filejobs_dagster.objects.versions import VersionsOfKey

SPOT_CHECKED = 20
"""So many of each thousand that were reported gone are looked for again."""

SECONDS_UNTIL_SECOND_LOOK = 1.0
"""A server that deletes in two places is given this long before it is called a liar."""


class Removing:
    """One call of `Gate.remove`."""

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        orphans: Sequence[Expected],
        *,
        owned: Callable[[str], str | None],
        admit: Callable[[Sequence[Expected]], Mapping[str, str]],
        before_request: Callable[[], None],
        deletion_mode: DeletionMode,
        wait: wait_base,
        pace: AdaptiveRate,
    ) -> None:
        """Prepare; nothing is sent yet. For the arguments see `Gate.remove`."""
        self._client = client
        self._bucket = bucket
        self._orphans = list({orphan.key: orphan for orphan in orphans}.values())
        self._owned = owned
        self._admit = admit
        self._before_request = before_request
        self._deletion_mode = deletion_mode
        self._wait = wait
        self._pace = pace
        self._copying = Copying(client, bucket)
        self._fates = KeyOutcomes()
        # As each was when its deletion was sent: what comes after is compared with that.
        self._seen: dict[str, Present] = {}

    def run(self) -> Outcomes[bytes]:
        """Everything, a thousand at a time.

        Raises:
            DeletionStopped: It ended early.
        """
        for start in range(0, len(self._orphans), MOST_KEYS_PER_REQUEST):
            chunk = self._orphans[start : start + MOST_KEYS_PER_REQUEST]
            ours = list(self._ours(chunk))
            if not ours:
                continue
            exact = [one for one in ours if one[1].version is not None]
            others = [one for one in ours if one[1].version is None]
            above = self._above_others(exact)
            if self._deletion_mode.purges:
                self._purge([*others, *above])
            else:
                self._hide(above)
                self._delete(self._set_aside(others) if self._deletion_mode.copies else others)
                self._delete([one for one in above if not self._fates.knows(one[1].key)])
            self._delete([one for one in exact if one not in above])
            self._spot_check(dict(ours))
        return self._so_far()

    def _ours(self, chunk: Sequence[Expected]) -> Iterator[tuple[str, Expected]]:
        """What the settings alone let go; nobody is asked about the rest."""
        for orphan in chunk:
            # What is no UTF-8 becomes text that is none either, and is kept for that.
            key = orphan.key.decode("utf-8", "surrogateescape")
            reason = self._owned(key)
            if reason is None:
                yield key, orphan
            else:
                self._fates.settle(orphan.key, Verdict(Fate.KEPT, reason))

    def _set_aside(self, ours: Sequence[tuple[str, Expected]]) -> list[tuple[str, Expected]]:
        """Copy what is about to be deleted into quarantine; those that have a verified copy.

        The copy comes before the last questions, which must be the newest: between them and the
        deletion nothing else is done.
        """
        safe: list[tuple[str, Expected]] = []
        for start in range(0, len(ours), COPIED_TOGETHER):
            some = ours[start : start + COPIED_TOGETHER]
            self._pace.pause(len(some))
            try:
                self._before_request()
            except Exception as error:
                raise proof_refused(error, self._so_far()) from error
            try:
                unsafe = self._copying.set_aside(some)
            except StorageRejected as error:
                self._stop(error)
            for key, orphan in some:
                if key in unsafe:
                    self._fates.settle(orphan.key, unsafe[key])
                else:
                    safe.append((key, orphan))
        return safe

    def _judgement(self, ours: Sequence[tuple[str, Expected]]) -> Judgement:
        orphans = dict(ours)
        return Judgement(
            self._client,
            self._bucket,
            ours,
            admit=lambda keys: self._admit([orphans[key] for key in keys]),
            pace=self._pace,
            respects_locks=self._deletion_mode.purges,
            without_versions=self._deletion_mode.versioning == "off",
            by_listing=self._deletion_mode.names_etag,
            seen=self._seen,
        )

    def _delete(self, ours: Sequence[tuple[str, Expected]]) -> None:
        """One deletion for each key; without a version, a bucket that keeps some adds markers."""
        if not ours:
            return
        orphans = dict(ours)
        judgement = self._judgement(ours)
        work = Deleting(
            self._client,
            self._bucket,
            [Target(key, orphan.version, self._condition(key, orphan)) for key, orphan in ours],
            before_request=self._before_request,
            wait=self._wait,
            supervisor=judgement,
        )
        stopped: DeletionStopped | None = None
        try:
            work.run(one_by_one=self._deletion_mode.one_by_one)
        except DeletionStopped as error:
            stopped = error
        for target, verdict in work.verdicts.items():
            orphan = orphans[target.key]
            final, lock = self._as_it_is(target, verdict, judgement)
            if final.fate is Fate.DELETED and self._deletion_mode.copies and orphan.version is None:
                final = Verdict(Fate.QUARANTINED)
            self._fates.settle(orphan.key, final, lock)
            if final.fate is Fate.DELETED:
                self._fates.free(orphan.key, orphan.size)
        if stopped is not None:
            self._stop(stopped)

    def _above_others(self, exact: Sequence[tuple[str, Expected]]) -> list[tuple[str, Expected]]:
        """Those of the versions that are current, with older ones behind them.

        Were such a version deleted by itself, the older one would come back to life as the object.
        Where the versions cannot be listed, none is taken for alone.
        """
        if not exact:
            return []
        with ThreadPoolExecutor(min(THREADS, len(exact))) as pool:
            try:
                listed = list(
                    pool.map(lambda one: versions_of(self._client, self._bucket, one[0]), exact)
                )
            except StorageRejected as error:
                self._stop(error)
        return [one for one, it in zip(exact, listed, strict=True) if _is_above(one[1], it)]

    def _hide(self, ours: Sequence[tuple[str, Expected]]) -> None:
        """Put a delete marker above current versions, so that no older one follows them."""
        if not ours:
            return
        judgement = self._judgement(ours)
        work = Deleting(
            self._client,
            self._bucket,
            [Target(key) for key, _ in ours],
            before_request=self._before_request,
            wait=self._wait,
            supervisor=judgement,
        )
        try:
            work.run()
        except DeletionStopped as error:
            self._stop(error)
        orphans = dict(ours)
        for target, verdict in work.verdicts.items():
            if verdict.fate not in (Fate.DELETED, Fate.MARKED):
                key = orphans[target.key].key
                self._fates.settle(key, verdict, judgement.locks.get(target.key))

    def _condition(self, key: str, orphan: Expected) -> str | None:
        # A version's identifier names its bytes more closely than any ETag.
        conditional = orphan.version is None and self._deletion_mode.names_etag_of(key)
        return strong(orphan.etag) if orphan.etag and conditional else None

    def _as_it_is(
        self, target: Target, verdict: Verdict, judgement: Judgement
    ) -> tuple[Verdict, Locked | None]:
        """Tell marked from deleted, and a lock from a right that is missing."""
        lock = judgement.locks.get(target.key)
        if target.version is not None:
            if verdict.fate is Fate.FAILED and verdict.code == "AccessDenied":
                lock = lock_of(self._client, self._bucket, target.key, target.version)
                if lock is not None:
                    return Verdict(Fate.LOCKED, str(lock), unsettled=verdict.unsettled), lock
            return verdict, lock
        before = judgement.seen.get(target.key)
        versions = {} if before is None else {target.key: before.version}
        return as_it_is(target, verdict, self._deletion_mode, versions), lock

    def _purge(self, ours: Sequence[tuple[str, Expected]]) -> None:
        if not ours:
            return
        purging = Purging(
            self._client,
            self._bucket,
            ours,
            judgement=self._judgement(ours),
            before_request=self._before_request,
            wait=self._wait,
            fates=self._fates,
        )
        try:
            purging.run()
        except DeletionStopped as error:
            self._stop(error)

    # The end ----------------------------------------------------------------------------------

    def _spot_check(self, ours: Mapping[str, Expected]) -> None:
        """Look again for some of what was reported gone."""
        removed = set(self._so_far().removed())
        gone = [key for key, orphan in ours.items() if orphan.key in removed]
        sample = gone[:: max(1, -(-len(gone) // SPOT_CHECKED))]
        standing = self._standing(sample, ours)
        if standing:
            time.sleep(SECONDS_UNTIL_SECOND_LOOK)
            standing = self._standing(standing, ours)
        if not standing:
            return
        for key in standing:
            self._fates.disbelieve(ours[key].key, Verdict(Fate.FAILED, STILL_THERE, unsettled=True))
        raise Disproven(
            f"The server of bucket {self._bucket!r} reported {len(gone)} objects as gone. "
            f"{len(sample)} of them were looked for again, and {len(standing)} are still there: "
            "the object that was seen, or an older version of it. The server's answers cannot be "
            "believed, so nothing more was deleted: look at the server, at a cache or a proxy in "
            "front of it, and at replication that brings objects back.",
            self._so_far(),
        )

    def _standing(self, keys: Sequence[str], ours: Mapping[str, Expected]) -> list[str]:
        try:
            seen = look_at_targets(
                self._client, self._bucket, [Target(key, ours[key].version) for key in keys]
            )
        except StorageRejected as error:
            self._stop(error)
        return [
            target.key
            for target, it in seen.items()
            if isinstance(it, Present)
            and self._is_what_was_removed(target.key, ours[target.key], it)
        ]

    def _is_what_was_removed(self, key: str, orphan: Expected, now: Present) -> bool:
        before = self._seen.get(key)
        seen = expected(orphan) if before is None else found(before, before.version)
        if compare(seen, found(now, now.version)).same:
            return True
        # Of a purged key, whatever is older than what was seen has come back to life.
        return (
            self._deletion_mode.purges
            and now.modified is not None
            and int(now.modified.timestamp()) < orphan.modified // 1000
        )

    def _so_far(self) -> Outcomes[bytes]:
        return self._fates.outcomes([orphan.key for orphan in self._orphans])

    def _stop(self, error: DeletionStopped) -> NoReturn:
        raise type(error)(error.reason, self._so_far()) from (error.__cause__ or error)


def _is_above(orphan: Expected, listed: VersionsOfKey | StorageError) -> bool:
    if isinstance(listed, StorageError):
        return True
    latest = any(it.latest and it.identifier == orphan.version for it in listed.versions)
    others = [it for it in listed.versions if it.identifier != orphan.version]
    return latest and not all(it.marker for it in others)
