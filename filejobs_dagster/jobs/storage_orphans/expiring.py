"""Quarantine as a sweep sees it: whether it is in force, and the end of what it has kept.

Copies are read as the bucket lists them, a page at a time, so a million of them need no more memory
than a thousand. Those that have been kept long enough go by the same gate as everything else, which
asks every source once more: the copy of a key that is named by now is brought back instead. What
cannot go is counted and waits behind the others, as everything that fails.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.book.outcomes import WHY_STOPPED, DeletionStopped, Fate, StorageRejected
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning
from filejobs_dagster.jobs.setbacks import WAITS, Setbacks
from filejobs_dagster.jobs.storage_orphans import statements
from filejobs_dagster.jobs.storage_orphans.detail import (
    COPIES_DEFERRED,
    COPIES_EXPIRED,
    FAILED,
    OF_COPIES,
)
from filejobs_dagster.jobs.storage_orphans.review import named, reasons
from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.quarantine import REQUESTS_EACH, copies_below
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.settings.storage import QuarantineSettings
from filejobs_dagster.text import format_duration

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

MOST_AGAIN = 10_000
"""So many copies that failed before are tried again in one run; the others wait for the next."""


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
        self._deletion_mode = deletion_mode
        self._rewrites = rewrites
        self._ends_at = ends_at
        self._setbacks = Setbacks(context, storage.entry)
        self._again: list[Copy] = []
        self._kept, self._bytes, self._oldest = 0, 0, None
        self._expired = self._brought_back = self._failed = 0

    _oldest: datetime | None
    _keep: timedelta
    _now: datetime

    def run(self, keeps: QuarantineSettings | None, now: datetime) -> None:
        """Take what has been kept long enough, and count what is kept.

        Args:
            keeps: What is in force; None where nothing is kept any more. What an earlier sweep has
                kept is then kept for the usual time.
            now: By the database's clock.

        Raises:
            JobFailed: Storage or a source refused; what is left is written down.
        """
        self._now, self._keep = now, (keeps or QuarantineSettings()).keep
        try:
            for prefix in self._storage.bucket.owned_prefixes:
                for page in copies_below(self._storage.client, self._name, prefix):
                    self._page(page)
        except (ClientError, BotoCoreError) as error:
            why = f"What lies in quarantine could not be listed: {described(error)}."
            if keeps is not None:
                raise JobFailed(f"{why} Nothing of it was deleted.") from error
            self._context.log.info("%s", why)
            return
        again, self._again = self._again, []
        gone = self._work(again, again=True)
        self._count([copy for copy in again if copy.key not in gone])
        if keeps is not None:
            self._drop_left_over(now)
        self._say()

    @property
    def _name(self) -> str:
        return self._storage.bucket.bucket

    def _page(self, page: Sequence[Copy]) -> None:
        """Take what is due and never failed; what did comes after all others, or waits."""
        due = [copy for copy in page if copy.since < self._now - self._keep]
        known = self._setbacks.known([copy.key.encode() for copy in due]) if due else {}
        fresh, later = [], set()
        for copy in due:
            setback = known.get(copy.key.encode())
            if setback is None:
                fresh.append(copy)
            elif setback.not_before > self._now or len(self._again) == MOST_AGAIN:
                why = f"refused {setback.attempts} times, tried again after {setback.not_before}"
                self._leave(OF_COPIES + WAITS, copy, Meaning.PASSED_OVER, why)
            else:
                later.add(copy.key)
                self._again.append(copy)
        counted_elsewhere = self._work(fresh) | later
        self._count([copy for copy in page if copy.key not in counted_elsewhere])

    def _work(self, due: Sequence[Copy], *, again: bool = False) -> set[str]:
        """Batch after batch, while the limits last; the keys of those copies that went."""
        gone: set[str] = set()
        start = 0
        while start < len(due):
            room = self._request.limit - self._expired
            over = time.monotonic() >= self._ends_at
            if room <= 0 or over:
                self._books.stopped = self._books.stopped or (MAX_RUNTIME if over else LIMIT)
                for copy in due[start:]:
                    self._leave(COPIES_DEFERRED, copy, Meaning.PASSED_OVER)
                break
            some = due[start : start + min(self._request.batch_size, room)]
            start += len(some)
            gone |= self._take(some, again=again)
        return gone

    def _count(self, left: Sequence[Copy]) -> None:
        """Count copies that are kept."""
        self._kept += len(left)
        self._bytes += sum(copy.size for copy in left)
        if left:
            oldest = min(copy.since for copy in left)
            self._oldest = oldest if self._oldest is None else min(self._oldest, oldest)

    def _leave(self, fate: str, copy: Copy, means: Meaning, why: str | None = None) -> None:
        """Count a copy that is due and stays: the run did not sweep."""
        # What is left is told by its first sighting, which is confirmed only after a while.
        since = copy.since + self._keep - self._request.confirm_after
        self._books.totals.note(fate, copy.key, means, why=why, since=since)

    def _take(self, copies: Sequence[Copy], *, again: bool) -> set[str]:
        """One batch; the keys of those copies that went."""
        asked = {copy.key: (copy, self._owners(copy.original)) for copy in copies}
        self._books.batch += 1
        self._context.prove_alive()
        going = named("keys", [key.encode() for key in asked])
        self._books.commit(self._event("objects.delete.intent", **going))
        try:
            done = self._storage.gate.expire(asked, self._context.prove_alive, self._deletion_mode)
        except DeletionStopped as stopped:
            self._stop(stopped)
        gone = {*done.of(Fate.DELETED, Fate.MARKED, Fate.ALREADY_GONE)}
        totals, failed = self._books.totals, done.failed
        self._expired += len(gone)
        self._failed += len(failed)
        totals.more[COPIES_EXPIRED] += len(gone)
        for key, why in failed.items():
            self._leave(OF_COPIES + FAILED, asked[key][0], Meaning.LEFT, why)
            totals.more[FAILED_AGAIN] += again
        anew = {} if again else failed
        totals.refused_in_a_row = 0 if done.let_go else totals.refused_in_a_row + len(anew)
        self._books.commit_result(
            self._event(
                "objects.delete.result",
                deleted=len(gone),
                **reasons("failed", {key.encode(): why for key, why in failed.items()}),
                **reasons("kept", {key.encode(): why for key, why in done.kept.items()}),
            ),
            lambda cursor: self._setbacks.write(
                cursor,
                {key.encode(): f"{FAILED}: {why}" for key, why in failed.items()},
                [key.encode() for key in (*gone, *done.kept)] if again else (),
            ),
        )
        self._bring_back([asked[key][0] for key in done.kept])
        refused = self._books.refused_as_a_whole(
            anew,
            len(copies),
            "They are copies in quarantine whose time is over. No further batch was begun. Check "
            "the bucket's permissions below filejobs-quarantine/.",
        )
        if refused is not None:
            self._say()
            raise JobFailed(refused)
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
        for it in ends:
            if it.word == "failed":
                # It is named and not there, so every run tries: no pause.
                self._leave(f"{OF_COPIES}not brought back", newest[it.key], Meaning.LEFT, it.why)
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
    return f"{how} for {format_duration(keeps.keep)}"
