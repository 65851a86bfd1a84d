"""One run: from the cutoff to the outcome. The methods follow the order in which things happen.

`KnownUploads` reads the rows of `upload` that have a multipart upload, or had one lately.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME, Bookkeeping, nothing_worked
from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning, Totals
from filejobs_dagster.door.server import BLIND
from filejobs_dagster.jobs.multipart_uploads.aborts import Aborts, Judge
from filejobs_dagster.jobs.multipart_uploads.detail import (
    ACTIVE,
    AGAIN,
    ENDED,
    GHOSTS_DUE,
    REFERENCED,
    UNDATED,
    WENT,
    WOULD_ABORT,
    as_item,
    came_late,
    comes_back,
    detail_of,
    gone,
)
from filejobs_dagster.jobs.setbacks import GHOST, WAITS, Setbacks
from filejobs_dagster.jobs.storage_orphans.ticker import Ticker
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.objects.deletion_mode import abilities_of
from filejobs_dagster.objects.listing import ListingFailed
from filejobs_dagster.objects.multipart import (
    MultipartUpload,
    PartsUnknown,
    list_parts,
    list_uploads,
)
from filejobs_dagster.objects.multipart.backstop import read_backstop, rule_to_add
from filejobs_dagster.objects.targets import apart
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import display_key, format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.multipart_uploads.aborts import Due
    from filejobs_dagster.jobs.multipart_uploads.settings import MultipartUploadsRun
    from filejobs_dagster.jobs.storage_orphans import Storage
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

# The SQL of the job: rows of `upload` that have a multipart upload, or had one lately.

# Along the index upload_cleaned; rows of single PUTs are few beside what is read anyway.
CLEANED = """
SELECT cleaned_at, id, storage_key, upload_id
  FROM upload
 WHERE state = 'cleaned'
   AND cleaned_at >= %(since)s
   AND cleaned_at < %(until)s
   AND (cleaned_at, id) > (%(after_at)s, %(after_id)s)
   AND upload_id IS NOT NULL
 ORDER BY cleaned_at, id
 LIMIT %(most)s
"""

# Of the uploads that the server lists, those that are asked for by the id of their row.
CLEANED_OF = """
SELECT storage_key, upload_id
  FROM upload
 WHERE storage_key = any(%(keys)s)
   AND state = 'cleaned'
   AND cleaned_at >= %(since)s
   AND cleaned_at < %(until)s
   AND upload_id IS NOT NULL
"""

# Along the small indexes of each state; whoever began last is the likeliest to be there still.
AT_WORK = """
SELECT storage_key, upload_id
  FROM upload
 WHERE state IN ('writing', 'uncertain', 'cleanup')
   AND upload_id IS NOT NULL
 ORDER BY activity_at DESC
 LIMIT %(most)s
"""


# Multipart uploads that are known by the id in their row, whatever the server lists.
#
# A server may forget an upload and keep its parts, and a part may arrive after the abort that
# ended the upload. The row of such an upload is `cleaned`; for some time it is asked for once
# more.

ROWS_AT_ONCE = 500

_FIRST = UUID(int=0)


class KnownUploads:
    """The rows that were cleaned between two moments."""

    def __init__(self, context: RunContext, *, since: datetime, until: datetime) -> None:
        """Nothing is read yet.

        Args:
            context: The run.
            since: Rows that were cleaned before are left to the listing.
            until: The run's own time.
        """
        self._context = context
        self._range = {"since": since, "until": until}

    def each(self) -> Iterator[MultipartUpload]:
        """All of them, a page at a time."""
        after_at, after_id = self._range["since"], _FIRST
        while True:
            values = {"after_at": after_at, "after_id": after_id, "most": ROWS_AT_ONCE}
            with self._context.database.transaction(
                self._context.connection, read_only=True
            ) as cursor:
                rows = cursor.execute(CLEANED, self._range | values).fetchall()
            for after_at, after_id, key, upload_id in rows:  # noqa: B007 (the last one counts)
                yield MultipartUpload(key, upload_id, initiated=None)
            if len(rows) < ROWS_AT_ONCE:
                return

    def at_work(self, most: int) -> list[MultipartUpload]:
        """Some of the uploads whose rows are not done, whoever began last first."""
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            rows = cursor.execute(AT_WORK, {"most": most}).fetchall()
        return [MultipartUpload(key, upload_id, initiated=None) for key, upload_id in rows]

    def among(self, uploads: Sequence[MultipartUpload]) -> set[tuple[str, str]]:
        """Key and id of those uploads that `each` yields, too."""
        # A text column holds neither NUL nor what is no UTF-8, so it cannot name such a key.
        keys = [it.key for it in uploads if "\x00" not in it.key and _encodes(it.key)]
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            rows = cursor.execute(CLEANED_OF, {**self._range, "keys": keys}).fetchall()
        return {(key, upload_id) for key, upload_id in rows}


def _encodes(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


UPLOADS_TO_LOOK_FOR = 20
"""Where nothing is listed, so many uploads are asked for by the ids of rows that are not done."""


MOST_AGAIN = 10_000
"""Uploads that failed before and are tried again at a run's end; more of them wait."""


class Sweep:
    """One run at work."""

    def __init__(self, context: RunContext, request: MultipartUploadsRun, storage: Storage) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        totals = Totals(live=context.live, decided=False)
        self._books = Bookkeeping(context, totals, detail_of, bucket=storage.bucket.bucket)
        self._ticker = Ticker(context, self._books.commit_position)
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()
        self._setbacks = Setbacks(context, storage.entry)
        self._again: list[Due] = []
        self._met: list[bytes] = []
        self._listed = 0
        self._finding: str | None = None

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome.

        Raises:
            JobFailed: Something is not as it must be; what was done before is written down.
        """
        check_access(self._storage.client, self._storage.bucket.bucket)
        now = self._begin()
        try:
            self._read_backstop()
            self._sweep(now)
        except (ListingFailed, ReferencesUnknown, StorageRejected) as error:
            raise JobFailed(f"{error} {self._so_far()}") from error
        return self._outcome()

    # Before anything is listed ------------------------------------------------------------------

    def _begin(self) -> datetime:
        """Fix the cutoff, by the database's clock; parts are dated by the bucket's."""
        now = self._context.now()
        self._cutoff = now - self._request.idle_for
        self._books.facts |= {
            "bucket": self._storage.bucket.bucket,
            "cutoff": self._cutoff.isoformat(),
        }
        return now

    def _read_backstop(self) -> None:
        """Say what would abort uploads if this job did not run; nothing is set."""
        bucket = self._storage.bucket.bucket
        backstop = read_backstop(self._storage.client, bucket, self._prefixes())
        self._books.facts["backstop"] = backstop.said
        self._books.facts["backstop_state"] = backstop.state
        if backstop.state == "there":
            self._context.log.info("%s", backstop.said)
            return
        self._context.log.warning("%s", backstop.said)
        if backstop.uncovered:
            rule = rule_to_add(backstop.uncovered, self._request.idle_for)
            self._books.facts["backstop_rule"] = rule
            self._context.log.warning("The lifecycle rule to add, beside those there are: %s", rule)

    def _prefixes(self) -> list[str]:
        bucket = self._storage.bucket
        found = [""] if bucket.owns_whole_bucket else apart(bucket.owns)
        if not found:
            raise JobFailed(
                f"There is nothing to list in bucket {bucket.bucket!r}: no prefix is owned. Set "
                "`owns`."
            )
        return found

    # The sweep ----------------------------------------------------------------------------------

    def _sweep(self, now: datetime) -> None:
        totals = self._books.totals
        judge = Judge(self._storage, totals, self._cutoff, self._setbacks)
        aborts = Aborts(
            self._context,
            self._storage,
            self._books,
            cutoff=self._cutoff,
            ends_at=self._ends_at,
            setbacks=self._setbacks,
        )
        self._now = now
        known = KnownUploads(self._context, since=now - self._request.ask_again_for, until=now)
        self._ticker.phase("rows", "Asking for the uploads of rows that were cleaned lately.")
        if self._take(known.each(), judge.known, aborts, "rows"):
            for prefix in self._prefixes():
                self._ticker.phase("listing", f"Listing the multipart uploads below {prefix!r}.")
                listed = self._without(known, prefix)
                if not self._take(listed, judge.listed, aborts, "listing"):
                    break
            else:
                self._finding = self._not_listed(known)
        self._take_again(aborts)
        if self._books.stopped is None:
            self._setbacks.forget_old(now, self._met, WENT)

    def _not_listed(self, known: KnownUploads) -> str | None:
        """Why an empty listing says nothing: the server has uploads that it does not list."""
        storage, bucket = self._storage, self._storage.bucket.bucket
        if abilities_of(storage.client, bucket).lists_uploads is False:
            return f"the server {BLIND}"
        if self._listed:
            return None
        for upload in known.at_work(UPLOADS_TO_LOOK_FOR):
            if storage.gate.owned(upload.key) is None and self._is_hidden(upload):
                return (
                    f"the server lists no multipart upload, and has the one of a row (key "
                    f"{display_key(upload.key)}); it {BLIND}"
                )
        return None

    def _is_hidden(self, upload: MultipartUpload) -> bool:
        """True when the upload is there, and a listing taken after that does not show it."""
        client, bucket = self._storage.client, self._storage.bucket.bucket
        try:
            if list_parts(client, bucket, upload.key, upload.upload_id) is None:
                return False
            prefix = next(it for it in self._prefixes() if upload.key.startswith(it))
            listed = list_uploads(client, bucket, prefix)
            if any(it.upload_id == upload.upload_id for it in listed):
                return False
            return list_parts(client, bucket, upload.key, upload.upload_id) is not None
        except PartsUnknown:
            return False

    def _without(self, known: KnownUploads, prefix: str) -> Iterator[MultipartUpload]:
        """The uploads of a listing, without those that are asked for by their ids anyway."""
        client, bucket = self._storage.client, self._storage.bucket.bucket
        listed = list_uploads(client, bucket, prefix)
        while batch := list(islice(listed, self._request.batch_size)):
            self._listed += len(batch)
            rows = known.among(batch)
            yield from (it for it in batch if (it.key, it.upload_id) not in rows)

    def _take(
        self,
        uploads: Iterator[MultipartUpload],
        judge: Callable[[Sequence[MultipartUpload]], list[Due]],
        aborts: Aborts,
        phase: str,
    ) -> bool:
        """Judge and abort, a batch at a time; False when a limit said stop."""
        while batch := list(islice(uploads, self._request.batch_size)):
            if time.monotonic() >= self._ends_at:
                self._books.stopped = MAX_RUNTIME
                return False
            due = judge(batch)
            self._act(self._never_failed(due, aborts), aborts)
            self._books.commit()
            self._say(phase, batch[-1].key)
            if self._books.stopped is not None:
                return False
        return True

    def _never_failed(self, due: Sequence[Due], aborts: Aborts) -> list[Due]:
        """What is tried now; the rest goes to the back, or waits for its pause to end."""
        known = self._setbacks.known([as_item(it.upload) for it in due])
        fresh: list[Due] = []
        for it in due:
            setback = known.get(as_item(it.upload))
            if setback is not None:
                self._met.append(as_item(it.upload))
            if setback is None or came_late(setback):
                fresh.append(it)
            elif setback.not_before <= self._now and len(self._again) < MOST_AGAIN:
                self._again.append(it)
            elif comes_back(setback):
                self._books.totals.more[GHOSTS_DUE] += 1
                aborts.defer([it], GHOST, Meaning.PASSED_OVER)
            else:
                aborts.defer([it], WAITS, Meaning.PASSED_OVER)
        return fresh

    def _take_again(self, aborts: Aborts) -> None:
        """What failed before is tried when all others have had their turn, if there is time."""
        size = self._request.batch_size
        failed_before = self._books.totals.left
        for start in range(0, len(self._again), size):
            if self._books.stopped is None and time.monotonic() >= self._ends_at:
                self._books.stopped = MAX_RUNTIME
            batch = self._again[start : start + size]
            if self._books.stopped is None:
                self._act(batch, aborts)
            else:
                aborts.defer(batch)
        if self._again:
            self._books.totals.more[FAILED_AGAIN] += self._books.totals.left - failed_before
            self._books.commit()

    def _act(self, due: Sequence[Due], aborts: Aborts) -> None:
        """Try until the limit is reached: what could not be aborted does not use it up."""
        totals = self._books.totals
        rest = list(due)
        while rest and self._books.stopped is None:
            room = self._request.limit - (gone(totals) if totals.live else totals.claimed)
            if room <= 0:
                self._books.stopped = LIMIT
                break
            some, rest = rest[:room], rest[room:]
            if self._context.live:
                aborts.run(some)
                continue
            totals.claimed += len(some)
            for it in some:
                totals.note(
                    WOULD_ABORT,
                    it.upload.key,
                    Meaning.WOULD_GO,
                    size=it.parts.size,
                    since=it.active,
                )
        aborts.defer(rest)

    def _say(self, phase: str, key: str) -> None:
        totals = self._books.totals
        did = {"aborted": totals.acted} if totals.live else {"due": totals.classes[WOULD_ABORT]}
        place = key.encode("utf-8", "surrogateescape")
        count = totals.scanned if phase == "listing" else totals.more["asked_by_id"]
        self._ticker.objects(phase, count, place, did)

    # The end ------------------------------------------------------------------------------------

    def _so_far(self) -> str:
        aborted = self._books.totals.acted
        if not aborted:
            return "Nothing was aborted."
        return f"{aborted:,} multipart uploads had been aborted before; nothing more was."

    def _outcome(self) -> Outcome:
        books, totals = self._books, self._books.totals
        if books.stopped == MAX_RUNTIME:
            books.require_begun(format_duration(self._request.max_runtime), "one multipart upload")
        active, explained = totals.oldest_left, self._explained()
        self._context.log.info("%s", explained)
        return books.outcome(
            oldest_left=None if active is None else active + self._request.idle_for,
            went=gone(totals),
            dropped={word: totals.classes[word] for word in (UNDATED, GHOST)},
            finding=self._finding,
            error=self._nothing_worked(),
            explained=explained,
            progress={"phase": "done"},
        )

    def _explained(self) -> str:
        """A sentence for whoever wonders why nothing, or not everything, was aborted."""
        totals = self._books.totals
        if self._context.live:
            did = f"{totals.acted:,} aborted, {totals.freed:,} bytes freed"
        else:
            size = totals.bytes_by_class[WOULD_ABORT]
            did = f"A live run would abort {totals.classes[WOULD_ABORT]:,} ({size:,} bytes)"
        parts = [did]
        if referenced := totals.classes[REFERENCED]:
            parts.append(f"{referenced:,} stay because a row names their key")
        ghosts = totals.more[GHOSTS_DUE]
        if left := totals.left + totals.passed_over - totals.classes[UNDATED] - ghosts:
            parts.append(f"{left:,} are left because storage refused")
        if ghosts:
            parts.append(f"of {ghosts:,} {AGAIN}")
        if self._books.stopped is not None:
            parts.append(f"it stopped because of {self._books.stopped}")
        if self._finding is not None:
            parts.append(self._finding)
        return "; ".join(parts) + "."

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed."""
        totals = self._books.totals
        # Of what has no date nobody knows whether it is due; ghosts are the finding.
        known = totals.classes[WAITS] + totals.classes[UNDATED] + totals.more[GHOSTS_DUE]
        failed = totals.left + totals.passed_over - known
        worked = gone(totals) + totals.classes[WOULD_ABORT]
        if not totals.left:
            # Nothing was to be aborted: that parts were read at all shows that it works.
            worked += sum(totals.classes[fate] for fate in (ACTIVE, UNDATED, ENDED))
        return nothing_worked(
            totals,
            worked=worked,
            failed=failed,
            what=f"Of {failed:,} multipart uploads that were due or could not be judged none could "
            "be aborted",
            advice="the bucket's permissions: s3:ListMultipartUploadParts, "
            "s3:AbortMultipartUpload, s3:GetObject",
        )
