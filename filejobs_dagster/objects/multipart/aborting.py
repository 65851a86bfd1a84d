"""Aborts one multipart upload, and believes only what ListParts says afterwards.

PRIVATE to the gate: use `Gate.abort`.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError
from tenacity import Retrying, retry_if_result, stop_after_attempt

from filejobs_dagster.book.outcomes import (
    AdmissionFailed,
    DeletionStopped,
    Fate,
    ItemOutcome,
    Outcomes,
    ProofRefused,
    StorageRejected,
)
from filejobs_dagster.objects.errors import (
    TOO_BUSY,
    TRY_AGAIN,
    StorageError,
    concerns_every_request,
    described,
    status_of,
)
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import Absent, look_at_targets, require_bucket
from filejobs_dagster.objects.multipart.parts import (
    NO_SUCH_UPLOAD,
    Aborted,
    AbortFate,
    Part,
    Parts,
    PartsUnknown,
    read_parts,
)
from filejobs_dagster.objects.targets import Target
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

MOST_ABORTS = 5
"""How often an upload is aborted whose parts stay; botocore's own tries come on top. A part that
takes longer to arrive than the pauses between them is left for the next run."""

StoppedT = TypeVar("StoppedT", bound=DeletionStopped)

_EVENT = "before-send.s3.AbortMultipartUpload"


class Aborting:
    """One call of `Gate.abort`."""

    def __init__(
        self,
        client: S3Client,
        bucket: str,
        key: str,
        upload_id: str,
        *,
        keep: Callable[[], str | None],
        before_request: Callable[[], None],
        idle_since: datetime | None,
        wait: wait_base,
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            client: From `make_client`.
            bucket: The bucket's name.
            key: The upload's key.
            upload_id: The server's name for it.
            keep: Why the key must stay, or None, in a fresh snapshot of every source.
            before_request: As in `Gate.delete`.
            idle_since: No part may be younger; None does not ask.
            wait: Between tries.
        """
        self._client = client
        self._bucket = bucket
        self._key = key
        self._upload_id = upload_id
        self._keep = keep
        self._before_request = before_request
        self._idle_since = idle_since
        self._wait = wait
        self._thread = threading.get_ident()
        self._seen: dict[Part, None] = {}
        self._left: tuple[Part, ...] = ()
        self._sent = 0
        self._resent = False
        self._last: StorageError | None = None

    def run(self) -> Aborted:
        """Look, abort, look again; until nothing is listed any more, or the tries are over.

        Raises:
            StorageRejected: No request can succeed.
            ProofRefused: `before_request` raised.
            AdmissionFailed: A source could not be asked.
        """
        try:
            parts = self._look()
        except PartsUnknown as unknown:
            return Aborted(AbortFate.FAILED, str(unknown))
        if parts is None:
            return self._without_upload(AbortFate.ALREADY_GONE)
        active = self._active(parts)
        if active is not None:
            return Aborted(AbortFate.ACTIVE, active)
        with self._proving_each_attempt():
            retrying = Retrying(
                stop=stop_after_attempt(MOST_ABORTS),
                wait=self._wait,
                retry=retry_if_result(lambda aborted: aborted is None),
                retry_error_callback=lambda _state: None,
            )
            aborted: Aborted | None = retrying(self._once)
        return self._gave_up() if aborted is None else aborted

    # Looking ----------------------------------------------------------------------------------

    def _look(self) -> tuple[Part, ...] | None:
        try:
            parts = read_parts(self._client, self._bucket, self._key, self._upload_id)
        except StorageRejected as error:
            raise self._stopped(StorageRejected, error.reason) from error
        self._left = parts or ()
        self._seen.update(dict.fromkeys(self._left))
        return parts

    def _active(self, parts: tuple[Part, ...]) -> str | None:
        """Why the upload is not idle, after all."""
        if self._idle_since is None or not parts:
            return None
        newest = Parts.of(parts).newest
        if newest is None:
            return "the server does not say when each of its parts came"
        if newest >= self._idle_since:
            return f"its newest part came at {newest.isoformat()}"
        return None

    def _came_back(self) -> str | None:
        """Why the upload is not idle any more, before another try of a request that failed."""
        return self._active(self._look() or ())

    def _without_upload(self, when_absent: AbortFate) -> Aborted:
        """No such upload: that never says that there are no bytes, so look at the key."""
        self._left = ()
        target = Target(self._key)
        try:
            sighting = look_at_targets(self._client, self._bucket, [target])[target]
            if isinstance(sighting, Absent):
                require_bucket(self._client, self._bucket)
        except StorageRejected as error:
            raise self._stopped(StorageRejected, error.reason) from error
        if isinstance(sighting, Absent):
            if when_absent is not AbortFate.ABORTED:
                self._seen.clear()
            return self._ended(when_absent)
        # What was listed before is an object by now, or nobody knows: it is not called freed.
        self._seen.clear()
        if isinstance(sighting, Present):
            return replace(
                self._ended(
                    AbortFate.OBJECT_THERE, f"its key has an object of {sighting.size} bytes"
                ),
                object_size=sighting.size,
                object_etag=sighting.etag,
            )
        return self._ended(
            AbortFate.FAILED,
            "there is no such upload any more, and whether its key has an object could not be "
            f"seen: {sighting}",
        )

    # Aborting ---------------------------------------------------------------------------------

    def _once(self) -> Aborted | None:
        """One abort and the look after it; None when it has to be tried again."""
        try:
            active = self._came_back() if self._last is not None else None
        except PartsUnknown as unknown:
            self._last = unknown.error
            return None
        kept = active or self._must_stay()
        if kept is not None:
            return self._ended(AbortFate.KEPT, kept)
        self._last = None
        self._resent = False
        try:
            self._client.abort_multipart_upload(
                Bucket=self._bucket, Key=self._key, UploadId=self._upload_id
            )
        except (ProofRefused, AdmissionFailed):
            raise
        except _Withdrawn as withdrawn:
            return self._ended(AbortFate.KEPT, str(withdrawn))
        except ClientError as error:
            return self._refused(error)
        except Exception as error:
            raise self._rejected(described(error)) from error
        try:
            parts = self._look()
        except PartsUnknown as unknown:
            self._last = unknown.error
            return None
        return None if parts else self._ended(AbortFate.ABORTED)

    def _refused(self, error: ClientError) -> Aborted | None:
        found = described(error)
        if found.code in NO_SUCH_UPLOAD and status_of(error) == HTTPStatus.NOT_FOUND:
            # Behind an abort of our own whose answer was lost, it is our own success.
            mine = self._sent > 1
            return self._without_upload(AbortFate.ABORTED if mine else AbortFate.ALREADY_GONE)
        if found.code in TRY_AGAIN:
            self._last = found
            return None
        if concerns_every_request(error):
            raise self._rejected(found) from error
        return self._ended(AbortFate.FAILED, str(found))

    def _must_stay(self) -> str | None:
        try:
            return self._keep()
        except ReferencesUnknown as error:
            raise self._stopped(AdmissionFailed, str(error)) from error

    @contextmanager
    def _proving_each_attempt(self) -> Iterator[None]:
        """Ask for the proof where botocore sends: its own retries are new requests, too."""
        events: Any = self._client.meta.events
        events.register_first(_EVENT, self._prove)
        try:
            yield
        finally:
            events.unregister(_EVENT, self._prove)

    def _prove(self, **_event: object) -> None:
        if threading.get_ident() != self._thread:
            # Another deletion on the same client: it has its own proof.
            return
        if self._resent:
            # What was sent before may have been turned away, and a client may have gone on since.
            try:
                kept = self._came_back() or self._must_stay()
            except PartsUnknown as unknown:
                kept = str(unknown)
            if kept is not None:
                raise _Withdrawn(kept)
        self._resent = True
        try:
            self._before_request()
        except Exception as error:
            raise self._stopped(
                ProofRefused,
                "Aborting stopped, because what must hold before bytes go was not proven: "
                + sanitize_exception(error),
            ) from error
        self._sent += 1

    # The end ----------------------------------------------------------------------------------

    def _gave_up(self) -> Aborted:
        last = self._last
        if last is None:
            return self._ended(
                AbortFate.PARTS_LEFT, f"parts were still listed after {MOST_ABORTS} aborts"
            )
        if last.code in TOO_BUSY:
            raise self._rejected(last)
        return self._ended(AbortFate.FAILED, f"{last} (after {MOST_ABORTS} tries)")

    def _ended(self, fate: AbortFate, reason: str = "") -> Aborted:
        left = set(self._left)
        freed = [part for part in self._seen if part not in left] if self._sent else []
        return Aborted(
            fate,
            reason,
            parts=len(freed),
            bytes_freed=sum(part.size for part in freed),
            requests=self._sent,
            parts_left=len(left),
            bytes_left=sum(part.size for part in left),
        )

    def _rejected(self, error: StorageError) -> StorageRejected:
        return self._stopped(
            StorageRejected,
            "The request to abort a multipart upload was rejected by storage, in bucket "
            f"{self._bucket!r}: {error}. Whether it was carried out is not known; a later run "
            "looks again. See what `filejobs doctor` says of the bucket.",
        )

    def _stopped(self, kind: type[StoppedT], reason: str) -> StoppedT:
        return kind(reason, Outcomes((ItemOutcome(self._key, Fate.UNANSWERED),)))


class _Withdrawn(Exception):
    """The client was about to send again what must not go any more."""
