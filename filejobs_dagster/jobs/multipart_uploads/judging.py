"""Which uploads are due: owned, named by no source, and idle by their newest part."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning
from filejobs_dagster.jobs.multipart_uploads.detail import (
    ACTIVE,
    ENDED,
    UNDATED,
    UNREADABLE,
    YOUNG,
    as_item,
    note_kept,
)
from filejobs_dagster.jobs.setbacks import GHOST
from filejobs_dagster.objects.heads import THREADS
from filejobs_dagster.objects.multipart import MultipartUpload, Parts, PartsUnknown, list_parts
from filejobs_dagster.objects.multipart.bodies import leave_out_echoes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.storage_orphans import Storage


@dataclass(frozen=True)
class Due:
    """An upload that may be aborted.

    Attributes:
        upload: Which.
        parts: As they were listed.
        active: The last sign of whoever sent it; None when only its id is known.
        must_be_idle: True when a part that came meanwhile keeps it: a client may be at work.
    """

    upload: MultipartUpload
    parts: Parts
    active: datetime | None
    must_be_idle: bool


class Judge:
    """Decides about a batch of uploads, and counts those that stay."""

    def __init__(
        self, storage: Storage, totals: Totals, cutoff: datetime, setbacks: Setbacks
    ) -> None:
        """Judge for one run.

        Args:
            storage: Where the uploads are.
            totals: Where those are counted that stay.
            cutoff: Whoever was active since then is not idle.
            setbacks: Where it is remembered whose parts could not be read.
        """
        self._storage = storage
        self._totals = totals
        self._cutoff = cutoff
        self._setbacks = setbacks
        # Before the threads that ask for parts share the client.
        leave_out_echoes(storage.client)

    def listed(self, uploads: Sequence[MultipartUpload]) -> list[Due]:
        """Those of the uploads of a listing that are due.

        Raises:
            ReferencesUnknown: A source could not be asked.
            StorageRejected: No request can succeed.
        """
        self._totals.scanned += len(uploads)
        old = [upload for upload in uploads if not self._is_young(upload)]
        due: list[Due] = []
        for upload, parts in self._with_parts(self._admitted(old)):
            active = upload.initiated if parts.count == 0 else parts.newest
            if active is None:
                # Without a date nobody can say that it is old.
                self._totals.note(UNDATED, upload.key, Meaning.PASSED_OVER, size=parts.size)
            elif active >= self._cutoff:
                self._totals.note(ACTIVE, upload.key, Meaning.STAYS, size=parts.size)
            else:
                due.append(Due(upload, parts, active, must_be_idle=True))
        return due

    def known(self, uploads: Sequence[MultipartUpload]) -> list[Due]:
        """Those of the uploads of cleaned rows that are there once more.

        Their rows say that nobody wants them, and their keys are never used again: they are due
        however young their parts are. Those that are not there are what is to be expected, and are
        not counted as looked at.

        Raises:
            ReferencesUnknown: A source could not be asked.
            StorageRejected: No request can succeed.
        """
        self._totals.decided = True
        self._totals.more["asked_by_id"] += len(uploads)
        ours = [upload for upload in uploads if self._storage.gate.owned(upload.key) is None]
        unreadable = self._totals.passed_over
        found = dict(self._with_parts(ours, ended_counts=False))
        self._totals.scanned += len(found) + self._totals.passed_over - unreadable
        return [
            Due(upload, found[upload], found[upload].newest, must_be_idle=False)
            for upload in self._admitted(list(found))
        ]

    def _is_young(self, upload: MultipartUpload) -> bool:
        """A part cannot be older than its upload, so some need not be asked for their parts."""
        young = upload.initiated is not None and upload.initiated >= self._cutoff
        if young:
            self._totals.note(YOUNG, upload.key, Meaning.STAYS)
        return young

    def _admitted(self, uploads: Sequence[MultipartUpload]) -> list[MultipartUpload]:
        admission = self._storage.gate.admit([upload.key for upload in uploads])
        admitted: list[MultipartUpload] = []
        for upload in uploads:
            reason = admission.kept.get(upload.key)
            if reason is None:
                admitted.append(upload)
            else:
                note_kept(self._totals, upload.key, reason)
        return admitted

    def _with_parts(
        self, uploads: Sequence[MultipartUpload], *, ended_counts: bool = True
    ) -> list[tuple[MultipartUpload, Parts]]:
        found: list[tuple[MultipartUpload, Parts]] = []
        failed: dict[bytes, str] = {}
        answers = dict(zip(uploads, self._ask(uploads), strict=True))
        known = self._setbacks.known(
            [as_item(upload) for upload, parts in answers.items() if not isinstance(parts, Parts)]
        )
        for upload, parts in answers.items():
            before = known.get(as_item(upload))
            if isinstance(parts, Parts):
                found.append((upload, parts))
            elif isinstance(parts, PartsUnknown):
                failed[as_item(upload)] = str(parts.error)
                self._totals.more[FAILED_AGAIN] += before is not None
                self._totals.note(
                    UNREADABLE,
                    upload.key,
                    Meaning.PASSED_OVER,
                    why=str(parts.error),
                    since=upload.initiated,
                )
            elif ended_counts:
                failed[as_item(upload)] = f"{GHOST}: it is listed, and has no list of parts"
                again = before is not None and before.ghost
                self._totals.note(GHOST if again else ENDED, upload.key, Meaning.STAYS)
        self._setbacks.settle(failed, ())
        return found

    def _ask(self, uploads: Sequence[MultipartUpload]) -> list[Parts | PartsUnknown | None]:
        """Ask for the parts of each, some at a time."""
        if not uploads:
            return []
        with ThreadPoolExecutor(min(THREADS, len(uploads))) as pool:
            try:
                return list(pool.map(self._ask_one, uploads))
            except StorageRejected:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _ask_one(self, upload: MultipartUpload) -> Parts | PartsUnknown | None:
        bucket = self._storage.bucket.bucket
        try:
            return list_parts(self._storage.client, bucket, upload.key, upload.upload_id)
        except PartsUnknown as unknown:
            return unknown
