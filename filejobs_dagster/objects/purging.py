"""Removes all versions of orphans from a bucket that keeps versions.

PRIVATE to the gate: use `Gate.remove`.

The current version goes last. Killed in between, the object is as it was, without some of its
history, and the next run finds it again; were the current one gone first, an older version would
come back to life as the object.

A version's identifier names that version alone, so that an upload between the last look and the
request survives. The exception is `null` where versions are suspended: an upload takes the place of
that version, and within the moment of one request is lost with it.

A lock or a legal hold is told here from a right that is missing: both answer AccessDenied.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.book.outcomes import DeletionStopped, Fate, Locked
from filejobs_dagster.objects.errors import StorageError, described
from filejobs_dagster.objects.heads import THREADS
from filejobs_dagster.objects.identity import compare, found, is_same_time, milliseconds
from filejobs_dagster.objects.identity import expected as as_expected
from filejobs_dagster.objects.sending import Deleting
from filejobs_dagster.objects.targets import Target, Verdict
from filejobs_dagster.objects.versions import (
    MOST_AT_ONCE,
    Version,
    VersionsOfKey,
    versions_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

    from filejobs_dagster.objects.judgement import KeyOutcomes, LastQuestion
    from filejobs_dagster.objects.targets import Expected

# Tells a lock or a legal hold from a right that is missing: both answer AccessDenied.

_NO_LOCK = frozenset(
    {"NoSuchObjectLockConfiguration", "InvalidRequest", "ObjectLockConfigurationNotFoundError"}
)
"""Codes that say that nothing retains the version, or that the bucket has no locks at all."""


def lock_of(client: S3Client, bucket: str, key: str, version: str) -> Locked | None:
    """Read what retains a version, after it was refused to delete it.

    Returns:
        None when no lock is to be seen: either there is none, so that the refusal was a matter of
        rights, or the right to read locks is missing, too.
    """
    until = _retained_until(client, bucket, key, version)
    held = _held(client, bucket, key, version)
    return Locked.in_force(until=until, legal_hold=held)


def _retained_until(client: S3Client, bucket: str, key: str, version: str) -> datetime | None:
    try:
        answer = client.get_object_retention(Bucket=bucket, Key=key, VersionId=version)
    except (ClientError, BotoCoreError):
        return None
    return answer.get("Retention", {}).get("RetainUntilDate")


def _held(client: S3Client, bucket: str, key: str, version: str) -> bool:
    try:
        answer = client.get_object_legal_hold(Bucket=bucket, Key=key, VersionId=version)
    except (ClientError, BotoCoreError):
        return False
    return answer.get("LegalHold", {}).get("Status") == "ON"


def locks_are_readable(client: S3Client, bucket: str, key: str, version: str) -> bool:
    """False when the right to read locks is missing, so that none being seen says nothing."""
    try:
        client.get_object_retention(Bucket=bucket, Key=key, VersionId=version)
    except ClientError as error:
        return described(error).code in _NO_LOCK
    except BotoCoreError:
        return False
    return True


_GONE = (Fate.DELETED, Fate.ALREADY_GONE)

STILL_THERE = "reported as gone, and still there"

KEYS_AT_ONCE = 50
"""So many keys' versions are in memory at a time."""


@dataclass
class _Key:
    """A key at work."""

    text: str
    expected: Expected
    current: Version
    older: Sequence[Version]
    complete: bool
    removed: int = 0
    spoiled: bool = False


class Purging:
    """Removes older versions of some keys, and then the current ones."""

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        ours: Sequence[tuple[str, Expected]],
        *,
        judgement: LastQuestion,
        before_request: Callable[[], None],
        wait: wait_base,
        fates: KeyOutcomes,
        whole: bool = False,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: From `make_client`.
            bucket: The bucket's name.
            ours: Each key as text, and what was seen of it.
            judgement: Looks once more before each request.
            before_request: Proves that the caller may delete.
            wait: Between tries.
            fates: Where what became of each key is written down.
            whole: True where nothing was seen of the keys, because a row that is gone has named
                them: whatever they hold goes, delete markers and what lies behind them included.
        """
        self._whole = whole
        self._client = client
        self._bucket = bucket
        self._ours = ours
        self._judgement = judgement
        self._before_request = before_request
        self._wait = wait
        self._fates = fates

    def run(self) -> None:
        """Everything, some keys at a time.

        Raises:
            DeletionStopped: It ended early; what is known is written down.
        """
        for start in range(0, len(self._ours), KEYS_AT_ONCE):
            self._run(self._ours[start : start + KEYS_AT_ONCE])

    def _run(self, ours: Sequence[tuple[str, Expected]]) -> None:
        before: dict[str, _Key] = {}
        pending = list(ours)
        ready: list[_Key] = []
        while pending:
            keys = list(self._read(pending))
            for key in keys:
                self._go_on(key, before.get(key.text))
            self._remove_older([key for key in keys if not key.spoiled])
            before = {key.text: key for key in keys}
            ready += [key for key in keys if key.complete and not key.spoiled]
            # Whoever has more versions than fit into memory comes back for the rest.
            pending = [
                (key.text, key.expected) for key in keys if not (key.complete or key.spoiled)
            ]
        self._remove_current(ready)

    def _go_on(self, key: _Key, before: _Key | None) -> None:
        """Count on where the last round ended, unless its versions are there again."""
        if before is None:
            return
        key.removed = before.removed
        again = {version.identifier for version in before.older}
        if any(version.identifier in again for version in key.older):
            # A server that says so for ever would be asked for ever.
            key.spoiled = True
            self._fates.disbelieve(key.expected.key, Verdict(Fate.FAILED, STILL_THERE))

    def _read(self, ours: Sequence[tuple[str, Expected]]) -> Iterator[_Key]:
        with ThreadPoolExecutor(min(THREADS, len(ours))) as pool:
            found = list(pool.map(self._versions_of, ours))
        for (text, expected), versions in zip(ours, found, strict=True):
            verdict = _first_look(None if self._whole else expected, versions)
            if isinstance(verdict, Verdict):
                lock = self._lock_of_undecided(text, verdict, versions)
                if lock is not None:
                    verdict = Verdict(Fate.LOCKED, str(lock))
                self._fates.settle(expected.key, verdict, lock)
                continue
            current, older, complete = verdict
            yield _Key(text, expected, current, older, complete)

    def _lock_of_undecided(
        self, key: str, verdict: Verdict, versions: VersionsOfKey | StorageError
    ) -> Locked | None:
        """What keeps the current version, where nobody can tell whether it is the one expected."""
        if verdict.fate is not Fate.UNDECIDED or isinstance(versions, StorageError):
            return None
        current = next(it for it in versions.versions if it.latest)
        return lock_of(self._client, self._bucket, key, current.identifier)

    def _versions_of(self, orphan: tuple[str, Expected]) -> VersionsOfKey | StorageError:
        return versions_of(self._client, self._bucket, orphan[0], most=MOST_AT_ONCE)

    def _remove_older(self, keys: Sequence[_Key]) -> None:
        by_target = {
            Target(key.text, version.identifier): (key, version)
            for key in keys
            # The oldest first, so that what is left after a kill is the newest.
            for version in reversed(key.older)
        }
        for target, verdict in self._send(list(by_target)):
            key, version = by_target[target]
            if key.spoiled:
                continue
            if self._judgement.of(key.text) is not None or verdict.fate not in _GONE:
                key.spoiled = True
                self._settle_refused(key, version, verdict)
            elif verdict.fate is Fate.DELETED:
                key.removed += 1
                self._fates.free(key.expected.key, version.size)

    def _remove_current(self, keys: Sequence[_Key]) -> None:
        by_target = {Target(key.text, key.current.identifier): key for key in keys}
        for target, verdict in self._send(list(by_target)):
            key = by_target[target]
            if verdict.fate is Fate.DELETED:
                self._fates.free(key.expected.key, key.current.size)
                self._fates.purged(key.expected.key, key.removed + 1)
            else:
                self._settle_refused(key, key.current, verdict)

    def _send(self, targets: Sequence[Target]) -> Iterator[tuple[Target, Verdict]]:
        """Send, and give every verdict, also those from before it stopped."""
        work = Deleting(
            self._client,
            self._bucket,
            targets,
            before_request=self._before_request,
            wait=self._wait,
            supervisor=self._judgement,
        )
        try:
            work.run()
        except DeletionStopped:
            yield from work.verdicts.items()
            raise
        yield from work.verdicts.items()

    def _settle_refused(self, key: _Key, version: Version, verdict: Verdict) -> None:
        lock = self._judgement.locks.get(key.text)
        if verdict.fate is Fate.FAILED and verdict.code == "AccessDenied":
            lock = lock_of(self._client, self._bucket, key.text, version.identifier)
            verdict = (
                Verdict(Fate.LOCKED, str(lock), unsettled=verdict.unsettled)
                if lock is not None
                else self._denied(key, version, verdict)
            )
        self._fates.settle(key.expected.key, verdict, lock)

    def _denied(self, key: _Key, version: Version, verdict: Verdict) -> Verdict:
        advice = "deleting a version takes s3:DeleteObjectVersion"
        if not locks_are_readable(self._client, self._bucket, key.text, version.identifier):
            advice += (
                "; whether a lock is the reason could not be read, which takes "
                "s3:GetObjectRetention and s3:GetObjectLegalHold"
            )
        return replace(verdict, reason=f"{verdict.reason}; {advice}")


def _first_look(
    expected: Expected | None, listed: VersionsOfKey | StorageError
) -> Verdict | tuple[Version, Sequence[Version], bool]:
    """The current version, the older ones, and whether those are all; or why none may go.

    Without what is expected, a delete marker is a current version like any other.
    """
    if isinstance(listed, StorageError):
        advice = "; listing versions takes s3:ListBucketVersions"
        return Verdict(
            Fate.FAILED,
            f"{listed}{advice if listed.code == 'AccessDenied' else ''}",
            listed.code,
        )
    # Each once: pages of some servers overlap, and the current version must not be among the older.
    by_identifier = {version.identifier: version for version in reversed(listed.versions)}
    latest = [version for version in by_identifier.values() if version.latest]
    current = latest[0] if len(latest) == 1 else None
    older = [it for it in reversed(by_identifier.values()) if it is not current]
    if expected is None and current is not None:
        return current, older, listed.complete
    if expected is None or current is None or current.marker:
        return _not_there(hidden=current is not None, any_version=bool(listed.versions))
    changed = _changed(expected, current, older)
    return (current, older, listed.complete) if changed is None else changed


def _changed(expected: Expected, current: Version, older: Sequence[Version]) -> Verdict | None:
    same = compare(as_expected(expected), found(current, current.identifier))
    if same.word == "undecided":
        return Verdict(Fate.UNDECIDED, same.why, version=current.identifier)
    if not same.same:
        return Verdict(Fate.CHANGED, same.why)
    if any(_is_newer(version, expected) for version in older):
        return Verdict(Fate.CHANGED, "a version was written after the one that was seen")
    return None


def _not_there(*, hidden: bool, any_version: bool) -> Verdict:
    if any_version and not hidden:
        return Verdict(Fate.FAILED, "the server does not say which of its versions is the latest")
    return Verdict(Fate.ALREADY_GONE, "a delete marker hides it" if hidden else "")


def _is_newer(version: Version, expected: Expected) -> bool:
    if version.modified is None or expected.modified < 0:
        return False
    written = milliseconds(version.modified)
    later = written // 1000 > expected.modified // 1000
    return later and not is_same_time(expected.modified, written)
