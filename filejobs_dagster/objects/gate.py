"""The one gate: whatever deletes bytes passes here.

A key passes when it is owned, not protected, no directory marker, and no source names it or comes
so near to it that it may be meant (`ReferenceForms`). The project's own tables are sources that
cannot be removed, so the row that named an object must be gone, by a committed transaction, before
the gate lets the object go.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from filejobs_dagster.book.outcomes import (
    DeletionStopped,
    Fate,
    ItemOutcome,
    Outcomes,
    StorageRejected,
)
from filejobs_dagster.objects import identity, targets
from filejobs_dagster.objects.adaptive_rate import AdaptiveRate
from filejobs_dagster.objects.deletion_mode import DeletionMode, abilities_of
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import Absent, look_at_targets, require_bucket
from filejobs_dagster.objects.identity import strong
from filejobs_dagster.objects.judgement import KeyOutcomes, LastQuestion
from filejobs_dagster.objects.multipart.aborting import Aborting
from filejobs_dagster.objects.multipart.parts import Aborted, AbortFate
from filejobs_dagster.objects.purging import Purging
from filejobs_dagster.objects.quarantine import Copying, Return
from filejobs_dagster.objects.removing import Removing
from filejobs_dagster.objects.sending import BACK_OFF, Deleting
from filejobs_dagster.objects.targets import Expected, Target, as_it_is, is_folded, unfolded
from filejobs_dagster.objects.versions import versions_of
from filejobs_dagster.references.near import ReferenceForms

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

    from filejobs_dagster.objects.quarantine import Copy
    from filejobs_dagster.references.check import ReferenceCheck
    from filejobs_dagster.references.own_tables import Claim


NOT_OWNED = "not owned"
PROTECTED = "protected"
DIRECTORY_MARKER = "directory marker"
AMBIGUOUS_PATH = "ambiguous path"
NOT_UTF8 = "not UTF-8"
"""No S3 server has such a key, and no text column can name it, so nothing could be proven."""


NO_OWNERS: Mapping[str, Sequence[str]] = {}


_RESOLVABLE = frozenset({".", ".."})
"""Segments that S3 takes as they are, and that a proxy or a file-backed server may resolve: the
request would then delete another object, outside the owned prefix or inside a protected one."""


class BucketOwnership(Protocol):
    """What this installation may collect: part of what `filejobs.yaml` says under `buckets`."""

    @property
    def bucket(self) -> str:
        """The bucket's name on the server."""
        ...

    @property
    def owns(self) -> Sequence[str]:
        """Prefixes that end in a slash."""
        ...

    @property
    def owns_whole_bucket(self) -> bool:
        """True to own every key."""
        ...

    @property
    def protect(self) -> Sequence[str]:
        """Prefixes and keys that nothing may delete."""
        ...

    @property
    def marker(self) -> str | None:
        """Where an older version kept the marker; nothing may delete that either."""
        ...


@dataclass(frozen=True)
class Admission:
    """Which keys may go.

    Attributes:
        admitted: Keys that passed, in the order given, each once.
        kept: Key to reason: `not owned`, `protected`, `ambiguous path`, `directory marker`,
            `not UTF-8`, or what `ReferenceCheck.judged` says: `referenced by NAMES` or
            `ambiguous: near NAME (WHAT DIFFERS)`.
    """

    admitted: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)


class Gate:
    """Decides about every deletion in one bucket, and carries it out."""

    def __init__(
        self,
        client: S3Client,
        bucket: BucketOwnership,
        references: ReferenceCheck,
        *,
        wait: wait_base = BACK_OFF,
        pace: AdaptiveRate | None = None,
    ) -> None:
        """Guard one bucket.

        Args:
            client: From `make_client`.
            bucket: What is owned and what is protected.
            references: The sources; its connection must not be inside a transaction.
            wait: Between tries of keys whose failure may pass.
            pace: How fast orphans go, from one call to the next.
        """
        self._client = client
        self._bucket = bucket
        self._references = references
        owned = [b""] if bucket.owns_whole_bucket else [prefix.encode() for prefix in bucket.owns]
        self._forms = ReferenceForms(owned, bucket.bucket.encode())
        self._wait = wait
        self._pace = pace or AdaptiveRate()
        self._copying = Copying(client, bucket.bucket)

    def owned(self, key: str) -> str | None:
        """Say why the key is none of ours to delete, or None when it is; asks nobody.

        An entry of `protect` that ends in a slash protects everything that begins with it. Any
        other entry protects the key of exactly that name and everything below it: `files/brand`
        keeps `files/brand` and `files/brand/logo.png`, and not `files/brand-new`.
        """
        if not _is_utf8(key):
            return NOT_UTF8
        if not key or not (self._bucket.owns_whole_bucket or self._in_owned_prefix(key)):
            return NOT_OWNED
        if any(_protects(entry, key) for entry in self._bucket.protect):
            return PROTECTED
        if key.startswith(targets.OF_THE_HOUSE) or key == self._bucket.marker:
            # The markers, the probe's objects, which stand beside them for a moment, and copies.
            return PROTECTED
        if not _RESOLVABLE.isdisjoint(key.split("/")) or (is_folded(key) and self._folds_slashes()):
            return AMBIGUOUS_PATH
        return DIRECTORY_MARKER if key.endswith("/") else None

    def admit(
        self,
        keys: Sequence[str],
        *,
        claims: Sequence[Claim] = (),
        owners: Mapping[str, Sequence[str]] = NO_OWNERS,
    ) -> Admission:
        """Decide about each key, by the settings and by every source, in a fresh snapshot.

        Args:
            keys: Exact keys.
            claims: Rows of `upload` that do not count while the caller's claim on them holds.
            owners: Of a key, those that it is derived from: while one is named, it stays.

        Raises:
            ReferencesUnknown: A source could not be asked. Nothing is admitted.
        """
        distinct = tuple(dict.fromkeys(keys))
        kept = {key: reason for key in distinct if (reason := self.owned(key)) is not None}
        ours = [key for key in distinct if key not in kept]
        kept.update(self._staying({key: owners.get(key, ()) for key in ours}, claims))
        return Admission(
            admitted=tuple(key for key in distinct if key not in kept),
            kept={key: kept[key] for key in distinct if key in kept},
        )

    def delete(
        self,
        keys: Sequence[str],
        before_bytes: Callable[[], None],
        deletion_mode: DeletionMode | None = None,
        *,
        claims: Sequence[Claim] = (),
        owners: Mapping[str, Sequence[str]] = NO_OWNERS,
    ) -> Outcomes[str]:
        """Delete those of the keys that pass, up to a thousand at a time.

        As in `remove`, every source is asked in a fresh snapshot right before each request, and
        before each further try of it, the client's own included.

        Args:
            keys: Exact keys whose rows are gone by a committed transaction.
            before_bytes: Proves that the caller may still delete: that its lock is held and its
                run was not given up for dead. Called right before every request that deletes;
                an exception of it means no.
            deletion_mode: How this bucket removes, from `deletion_mode_of`; without it, nothing
                special. Where all versions are to go, those behind a delete marker go, too.
            claims: As in `admit`.
            owners: As in `admit`.

        Raises:
            StorageRejected: Storage refused a whole request.
            ProofRefused: `before_bytes` raised.
            AdmissionFailed: A source could not be asked, from `ReferencesUnknown`.

        Each of them is a `DeletionStopped`, which says what was already deleted.
        """
        whys = {key: self.owned(key) for key in keys}
        kept = [ItemOutcome(key, Fate.KEPT, why) for key, why in whys.items() if why is not None]
        ours = [key for key, why in whys.items() if why is None]
        question = LastQuestion(
            ours, admit=lambda asked: self.admit(asked, claims=claims, owners=owners).kept
        )
        how = deletion_mode or DeletionMode()
        try:
            if how.copies:
                done = self._set_aside(ours, before_bytes, how, claims, owners)
            elif how.purges:
                done = self._purge(ours, before_bytes, question)
            else:
                done = self._delete(ours, before_bytes, question, how)
        except DeletionStopped as stopped:
            stopped.so_far = Outcomes((*kept, *stopped.so_far))
            raise
        return Outcomes((*kept, *done))

    def _set_aside(
        self,
        keys: Sequence[str],
        before_bytes: Callable[[], None],
        deletion_mode: DeletionMode,
        claims: Sequence[Claim],
        owners: Mapping[str, Sequence[str]],
    ) -> Outcomes[str]:
        """Look at each, and remove it as what it was then: what was copied is what may go."""
        try:
            seen = look_at_targets(self._client, self._bucket.bucket, [Target(key) for key in keys])
            if any(isinstance(it, Absent) for it in seen.values()):
                require_bucket(self._client, self._bucket.bucket)
        except StorageRejected as rejected:
            rejected.so_far = Outcomes(tuple(ItemOutcome(key, Fate.UNANSWERED) for key in keys))
            raise
        there = [
            Expected(
                target.key.encode(),
                it.etag,
                it.size,
                -1 if it.modified is None else identity.milliseconds(it.modified),
                owners=tuple(owners.get(target.key, ())),
                seen_as=it.version,
            )
            for target, it in seen.items()
            if isinstance(it, Present)
        ]
        others = [
            ItemOutcome(target.key, Fate.ALREADY_GONE)
            if isinstance(it, Absent)
            else ItemOutcome(target.key, Fate.UNSEEN, str(it))
            for target, it in seen.items()
            if not isinstance(it, Present)
        ]
        try:
            done = self.remove(there, before_bytes, deletion_mode, claims=claims).as_text()
        except DeletionStopped as stopped:
            stopped.so_far = Outcomes((*others, *stopped.so_far.as_text()))
            raise
        return Outcomes((*others, *done))

    def _delete(
        self,
        keys: Sequence[str],
        before_bytes: Callable[[], None],
        question: LastQuestion,
        deletion_mode: DeletionMode,
    ) -> Outcomes[str]:
        """One deletion for each key."""
        versions = self._versions(keys, deletion_mode)
        work = Deleting(
            self._client,
            self._bucket.bucket,
            [Target(key) for key in keys],
            before_request=before_bytes,
            wait=self._wait,
            supervisor=question,
        )

        def so_far() -> Outcomes[str]:
            for target, verdict in work.verdicts.items():
                work.verdicts[target] = as_it_is(target, verdict, deletion_mode, versions)
            return work.outcomes()

        try:
            work.run()
        except DeletionStopped as stopped:
            stopped.so_far = so_far()
            raise
        return so_far()

    def _versions(self, keys: Sequence[str], deletion_mode: DeletionMode) -> dict[str, str | None]:
        """The current version of each key, where only that tells what a deletion does to it.

        Raises:
            StorageRejected: No request can succeed; nothing was deleted.
        """
        if deletion_mode.versioning in ("off", "enabled"):
            return {}
        try:
            seen = look_at_targets(self._client, self._bucket.bucket, [Target(key) for key in keys])
        except StorageRejected as rejected:
            rejected.so_far = Outcomes(tuple(ItemOutcome(key, Fate.UNANSWERED) for key in keys))
            raise
        return {target.key: it.version for target, it in seen.items() if isinstance(it, Present)}

    def _purge(
        self, keys: Sequence[str], before_bytes: Callable[[], None], question: LastQuestion
    ) -> Outcomes[str]:
        """Remove every version of keys whose rows are gone."""
        fates = KeyOutcomes()
        whole = [(key, Expected(key.encode(), "", 0, -1)) for key in keys]
        purging = Purging(
            self._client,
            self._bucket.bucket,
            whole,
            judgement=question,
            before_request=before_bytes,
            wait=self._wait,
            fates=fates,
            whole=True,
        )

        def so_far() -> Outcomes[str]:
            return fates.outcomes([key.encode() for key in keys]).as_text()

        try:
            purging.run()
        except DeletionStopped as stopped:
            stopped.so_far = so_far()
            raise
        return so_far()

    def remove(
        self,
        orphans: Sequence[Expected],
        before_bytes: Callable[[], None],
        deletion_mode: DeletionMode | None = None,
        *,
        claims: Sequence[Claim] = (),
    ) -> Outcomes[bytes]:
        """Remove orphans whose intent is committed, up to a thousand at a time.

        Right before each request, and before each further try of it, every object is looked at
        (ETag, size, time) and every source is asked in a fresh snapshot, for the key and for the
        keys that it is derived from. What has changed, or is referenced by now, stays.

        Args:
            orphans: As they were seen when they were judged.
            before_bytes: As in `delete`.
            deletion_mode: What the server can do, from `deletion_mode_of`; without it, nothing
                special.
            claims: As in `admit`.

        Raises:
            DeletionStopped: As in `delete`, or `Disproven`: what was reported as gone is there.
        """
        return Removing(
            self._client,
            self._bucket.bucket,
            orphans,
            owned=self.owned,
            admit=lambda expected: self._still_named(expected, claims),
            before_request=before_bytes,
            deletion_mode=deletion_mode or DeletionMode(),
            wait=self._wait,
            pace=self._pace,
        ).run()

    def bring_back(self, copies: Sequence[Copy]) -> list[Return]:
        """Copy some back from quarantine to where nothing is now; their copies stay.

        Args:
            copies: One for each original.

        Raises:
            StorageRejected: No request can succeed.
        """
        return self._copying.bring_back(copies)

    def uncover(self, key: str, before_bytes: Callable[[], None]) -> Return:
        """Remove the delete markers above the newest version of a key.

        What is written meanwhile stays on top of it.

        Args:
            key: Exact.
            before_bytes: As in `delete`.

        Raises:
            DeletionStopped: As in `delete`.
        """
        listed = versions_of(self._client, self._bucket.bucket, key)
        if isinstance(listed, StorageError):
            return Return(key, "failed", f"{listed}; it takes s3:ListBucketVersions")
        if any(it.latest and not it.marker for it in listed.versions):
            return Return(key, "is there")
        times = {it.identifier: it.modified.timestamp() for it in listed.versions if it.modified}
        with_bytes = [it for it in listed.versions if not it.marker and it.identifier in times]
        if not with_bytes:
            return Return(key, "gone")
        version = max(with_bytes, key=lambda it: times[it.identifier])
        # One of the same moment that lies below hides nothing.
        since = times[version.identifier]
        markers = [it for it in listed.versions if it.marker and times[it.identifier] >= since]
        work = Deleting(
            self._client,
            self._bucket.bucket,
            [Target(key, it.identifier) for it in markers],
            before_request=before_bytes,
            wait=self._wait,
        )
        for verdict in work.run().values():
            if verdict.fate not in (Fate.DELETED, Fate.ALREADY_GONE):
                return Return(key, "failed", f"{verdict.reason}; it takes s3:DeleteObjectVersion")
        return Return(key, "restored", size=version.size)

    def drop_unfinished_copies(self, before: datetime) -> int:
        """Abort copies in parts into quarantine that began before a moment; how many there were.

        Raises:
            ClientError, BotoCoreError: Storage would not say, or not do it.
        """
        prefixes_of_ours = [""] if self._bucket.owns_whole_bucket else self._bucket.owns
        return sum(self._copying.drop_unfinished(prefix, before) for prefix in prefixes_of_ours)

    def expire(
        self,
        copies: Mapping[str, tuple[Copy, Sequence[str]]],
        before_bytes: Callable[[], None],
        deletion_mode: DeletionMode,
    ) -> Outcomes[str]:
        """Delete copies whose time is over, unless a source names their original by now.

        Args:
            copies: By the copy's key; with the keys that its original is derived from.
            before_bytes: As in `delete`.
            deletion_mode: Of the bucket.

        Returns:
            What became of each copy; `kept` are those whose original is named or none of ours.

        Raises:
            DeletionStopped: As in `delete`.
        """
        foreign = {
            key: why
            for key, (copy, _) in copies.items()
            if (why := self.owned(copy.original)) is not None
        }
        ours = {key: pair for key, pair in copies.items() if key not in foreign}

        def admit(keys: Sequence[str]) -> Mapping[str, str]:
            asked = [ours[key] for key in keys]
            orphans = {copy.original: owners for copy, owners in asked}
            named = self._still_named(
                [
                    Expected(original.encode(), "", 0, -1, owners=tuple(owners))
                    for original, owners in orphans.items()
                ],
                (),
            )
            return {copy.key: named[copy.original] for copy, _ in asked if copy.original in named}

        work = Deleting(
            self._client,
            self._bucket.bucket,
            [
                # Where versions are suspended, a deletion without one would leave a marker.
                Target(
                    key, identity.NULL_VERSION if deletion_mode.versioning == "suspended" else None
                )
                if deletion_mode.versioning == "suspended" or not deletion_mode.names_etag_of(key)
                else Target(key, None, strong(copy.etag))
                for key, (copy, _) in ours.items()
            ],
            before_request=before_bytes,
            wait=self._wait,
            supervisor=LastQuestion(list(ours), admit=admit),
        )
        kept = tuple(ItemOutcome(key, Fate.KEPT, why) for key, why in foreign.items())
        try:
            work.run(one_by_one=deletion_mode.one_by_one)
        except DeletionStopped as stopped:
            stopped.so_far = Outcomes((*kept, *work.outcomes()))
            raise
        return Outcomes((*kept, *work.outcomes()))

    def abort(
        self,
        key: str,
        upload_id: str,
        before_bytes: Callable[[], None],
        *,
        claims: Sequence[Claim] = (),
        idle_since: datetime | None = None,
    ) -> Aborted:
        """Abort a multipart upload and see that none of its parts is listed any more.

        Its parts are listed, it is aborted, they are listed again; until there are none, or the
        tries are over. Every source is asked for its key in a fresh snapshot before each abort,
        the client's own further tries included.

        Args:
            key: Exact.
            upload_id: The server's name for it.
            before_bytes: As in `delete`.
            claims: As in `admit`.
            idle_since: Without parts that came since then; None does not ask.

        Raises:
            StorageRejected, ProofRefused, AdmissionFailed: As in `delete`, with the key under
                `unanswered`. Whether a request that was sent is carried out is not known.
        """

        def keep() -> str | None:
            return self.admit([key], claims=claims).kept.get(key)

        reason = self.owned(key)
        if reason is not None:
            return Aborted(AbortFate.KEPT, reason)
        return Aborting(
            self._client,
            self._bucket.bucket,
            key,
            upload_id,
            keep=keep,
            before_request=before_bytes,
            idle_since=idle_since,
            wait=self._wait,
        ).run()

    def _judged(self, keys: Sequence[str], claims: Sequence[Claim]) -> Mapping[str, str]:
        """The one judgement of keys for all that deletes; see `ReferenceCheck.judged`."""
        judged = self._references.judged(keys, self._forms, claims=claims)
        return {**self._named_otherwise(keys), **judged}

    def _still_named(self, orphans: Sequence[Expected], claims: Sequence[Claim]) -> dict[str, str]:
        """Which of the orphans must stay, and why: they or their owners are named.

        Raises:
            ReferencesUnknown: A source could not be asked.
        """
        return self._staying({it.key.decode("utf-8"): it.owners for it in orphans}, claims)

    def _staying(
        self, owners: Mapping[str, Sequence[str]], claims: Sequence[Claim]
    ) -> dict[str, str]:
        """The same of keys, each with its owners."""
        named = self._judged(
            [*owners, *(owner for each in owners.values() for owner in each)], claims
        )
        kept: dict[str, str] = {}
        for key, of in owners.items():
            if key in named:
                kept[key] = named[key]
                continue
            for owner in of:
                if not _is_utf8(owner):
                    kept[key] = f"derived from {owner!r}, which no source can be asked for"
                    break
                if owner in named:
                    kept[key] = f"derived from {owner!r}, which is {named[owner]}"
                    break
        return kept

    def _folds_slashes(self) -> bool:
        return abilities_of(self._client, self._bucket.bucket).folds_slashes

    def _named_otherwise(self, keys: Sequence[str]) -> dict[str, str]:
        """Which objects a source names by another key that is the same one on this server.

        Raises:
            ReferencesUnknown: A source could not be asked.
        """
        if not self._folds_slashes():
            return {}
        twins = {twin: key for key in keys for twin in unfolded(key)}
        return {
            twins[twin]: f"the same object as {twin!r} here, referenced by {', '.join(names)}"
            for twin, names in self._references.named(list(twins)).items()
        }

    def _in_owned_prefix(self, key: str) -> bool:
        # An entry without its slash would also own `files-of-somebody-else/`.
        return any(prefix.endswith("/") and key.startswith(prefix) for prefix in self._bucket.owns)


def _is_utf8(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _protects(entry: str, key: str) -> bool:
    if entry.endswith("/"):
        return key.startswith(entry)
    return key == entry or key.startswith(f"{entry}/")
