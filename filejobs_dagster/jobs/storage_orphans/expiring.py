"""Quarantine as a sweep sees it: whether it is in force, and the end of what it has kept.

Copies are read as the bucket lists them, a page at a time, so a million of them need no more memory
than a thousand. Those that have been kept long enough go by the same gate as everything else, which
asks every source once more: the copy of a key that is named by now is brought back instead.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.book.outcomes import WHY_STOPPED, DeletionStopped, Fate, StorageRejected
from filejobs_dagster.jobs.storage_orphans import statements
from filejobs_dagster.jobs.storage_orphans.review import named, reasons
from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.quarantine import REQUESTS_EACH, copies_below
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.settings.storage import QuarantineSettings
from filejobs_dagster.settings.values import in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.storage_orphans import Storage, StorageOrphansRun
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.objects.quarantine import Copy
    from filejobs_dagster.references.transforms import Rewrites
    from filejobs_dagster.run_context import RunContext

BY_DEFAULT = "nothing is said in the settings, and no sweep has deleted here at once before"

_LEFT_OVER = timedelta(days=1)
"""An upload of parts below the prefix that is older than this is nobody's any more."""


def in_force(context: RunContext, storage: Storage) -> tuple[QuarantineSettings, str] | None:
    """What keeps the orphans of this sweep, and why; None when they go at once.

    Where the file says nothing, the first sweep of a bucket keeps what it takes, and every one
    after it. Where one has deleted at once before, as all did that knew no quarantine, that goes
    on: its role may have no right to copy, and its owner has planned no room for it.
    """
    bucket = storage.bucket
    if bucket.delete is not None:
        return None
    if bucket.quarantine is not None:
        return bucket.quarantine, "settings"
    values = {
        "bucket": bucket.bucket,
        "job": context.identity.job,
        "installation": context.identity.installation,
    }
    with context.database.transaction(context.connection, read_only=True) as cursor:
        cursor.execute(statements.DELETED_AT_ONCE, values)
        at_once = bool(one(cursor)[0])
    return None if at_once else (QuarantineSettings(), BY_DEFAULT)


def cost(keeps: QuarantineSettings, objects: int, size: int | None) -> dict[str, Any]:
    """What keeping so many objects costs, as the record says it."""
    return {
        "objects": objects,
        "bytes": size,
        "requests": objects * REQUESTS_EACH,
        "days": keeps.keep.days,
    }


class Expiring:
    """The end of a sweep: copies whose time is over."""

    def __init__(
        self,
        context: RunContext,
        request: StorageOrphansRun,
        storage: Storage,
        books: Bookkeeping,
        *,
        deletion_mode: DeletionMode,
        rewrites: Rewrites,
        ends_at: float,
    ) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._books = books
        self._manner = deletion_mode
        self._rewrites = rewrites
        self._ends_at = ends_at
        self._kept, self._bytes, self._oldest = 0, 0, None
        self._expired = self._brought_back = self._failed = 0

    _oldest: datetime | None

    def run(self, keeps: QuarantineSettings | None, now: datetime) -> None:
        """Take what has been kept long enough, and count what is kept.

        Args:
            keeps: What is in force; None where nothing is kept any more. What an earlier sweep has
                kept is then kept for the usual time.
            now: By the database's clock.

        Raises:
            JobFailed: Storage or a source refused; what is left is written down.
        """
        before = now - (keeps or QuarantineSettings()).keep
        try:
            for prefix in self._storage.bucket.owned_prefixes:
                for page in copies_below(self._storage.client, self._name, prefix):
                    self._page(page, before)
        except (ClientError, BotoCoreError) as error:
            why = f"What lies in quarantine could not be listed: {described(error)}."
            if keeps is not None:
                raise JobFailed(f"{why} Nothing of it was deleted.") from error
            self._context.log.info("%s", why)
            return
        if keeps is not None:
            self._drop_left_over(now)
        self._say()

    @property
    def _name(self) -> str:
        return self._storage.bucket.bucket

    def _page(self, page: Sequence[Copy], before: datetime) -> None:
        due = [copy for copy in page if copy.since < before]
        gone: set[str] = set()
        for start in range(0, len(due), self._request.batch_size):
            room = self._request.limit - self._expired
            over = time.monotonic() >= self._ends_at
            if room <= 0 or over:
                self._books.stopped = self._books.stopped or (MAX_RUNTIME if over else LIMIT)
                break
            some = due[start : start + min(self._request.batch_size, room)]
            gone |= self._take(some)
        left = [copy for copy in page if copy.key not in gone]
        self._kept += len(left)
        self._bytes += sum(copy.size for copy in left)
        if left:
            oldest = min(copy.since for copy in left)
            self._oldest = oldest if self._oldest is None else min(self._oldest, oldest)

    def _take(self, copies: Sequence[Copy]) -> set[str]:
        """One batch; the keys of those copies that went."""
        asked = {copy.key: (copy, self._owners(copy.original)) for copy in copies}
        self._books.batch += 1
        self._context.prove_alive()
        going = named("keys", [key.encode() for key in asked])
        self._books.commit(self._event("objects.delete.intent", **going))
        try:
            done = self._storage.gate.expire(asked, self._context.prove_alive, self._manner)
        except DeletionStopped as stopped:
            self._stop(stopped)
        gone = {*done.of(Fate.DELETED, Fate.MARKED, Fate.ALREADY_GONE)}
        self._expired += len(gone)
        self._failed += len(done.failed)
        self._books.commit_result(
            self._event(
                "objects.delete.result",
                deleted=len(gone),
                **reasons("failed", {key.encode(): why for key, why in done.failed.items()}),
                **reasons("kept", {key.encode(): why for key, why in done.kept.items()}),
            )
        )
        self._bring_back([asked[key][0] for key in done.kept])
        return gone

    def _bring_back(self, copies: Sequence[Copy]) -> None:
        """A source names these by now: where their object is not there, it comes back."""
        newest = {copy.original: copy for copy in sorted(copies, key=lambda it: it.since)}
        wanted = [
            copy for copy in newest.values() if self._storage.gate.owned(copy.original) is None
        ]
        if not wanted:
            return
        keys = named("keys", [copy.original.encode() for copy in wanted])
        self._books.commit(self._event("objects.restore.intent", **keys))
        self._context.prove_alive()
        try:
            ends = self._storage.gate.bring_back(wanted)
        except StorageRejected as rejected:
            self._stop(rejected)
        back = [it.key for it in ends if it.word == "restored"]
        failed = {it.key.encode(): it.why for it in ends if it.word == "failed"}
        self._brought_back += len(back)
        self._failed += len(failed)
        result = {**named("restored", [key.encode() for key in back]), **reasons("failed", failed)}
        self._books.commit_result(self._event("objects.restore.result", **result))
        if back:
            self._context.log.warning(
                "%s objects were in quarantine and are referenced by now: they are back, such as "
                "%r. The source that names them came after the sweep that took them.",
                f"{len(back):,}",
                back[0],
            )

    def _owners(self, key: str) -> tuple[str, ...]:
        owners = self._rewrites.owners(key.encode())
        return tuple(owner.decode("utf-8", "surrogateescape") for owner in owners)

    def _event(self, kind: str, **facts: Any) -> dict[str, Any]:
        return self._books.event_of_batch(kind, quarantine=True, **facts)

    def _stop(self, stopped: DeletionStopped) -> NoReturn:
        result = self._event("objects.delete.result", stopped=stopped.reason)
        self._books.hand_over(stopped, result)
        self._books.stopped = WHY_STOPPED.get(stopped.kind, stopped.kind)
        self._say()
        unwritten = self._books.try_result(result)
        raise JobFailed(
            f"{stopped.reason} This happened while copies in quarantine expired; a later run goes "
            f"on.{unwritten}"
        ) from stopped

    def _drop_left_over(self, now: datetime) -> None:
        """Uploads of parts that a killed run has begun and nobody ends."""
        try:
            left = self._storage.gate.drop_unfinished_copies(now - _LEFT_OVER)
        except (ClientError, BotoCoreError) as error:
            self._context.log.info(
                "Whether parts of unfinished copies lie in quarantine is not known: %s",
                described(error),
            )
            return
        if left:
            self._context.log.info("%d unfinished copies were dropped.", left)

    def _say(self) -> None:
        facts: Mapping[str, Any] = {
            "objects": self._kept,
            "bytes": self._bytes,
            "oldest": None if self._oldest is None else self._oldest.isoformat(),
            "expired": self._expired,
            "brought_back": self._brought_back,
            "failed": self._failed,
        }
        if any(facts.values()):
            self._books.facts["in_quarantine"] = facts


def in_short(keeps: QuarantineSettings, deletion_mode: DeletionMode | None = None) -> str:
    """How long it is kept, for a sentence."""
    how = (
        "behind a delete marker"
        if deletion_mode is not None and not deletion_mode.copies
        else "in quarantine"
    )
    return f"{how} for {in_words(keeps.keep)}"
