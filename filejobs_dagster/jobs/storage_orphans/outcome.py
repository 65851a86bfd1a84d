"""The final word of a run: what it did, what is left, and why.

The run's list is written here too, where the settings say.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.book.bookkeeping import LIMIT, nothing_worked
from filejobs_dagster.book.totals import KEPT
from filejobs_dagster.jobs.setbacks import GHOST
from filejobs_dagster.jobs.storage_orphans import detail
from filejobs_dagster.jobs.storage_orphans.classification.records import (
    AMBIGUOUS,
    NAMED_ELSEWHERE,
    ORPHAN,
)
from filejobs_dagster.jobs.storage_orphans.detail import (
    ALREADY_GONE,
    CHANGED,
    COPIES_DEFERRED,
    COPIES_EXPIRED,
    FAILED,
    LOCKED,
    UNDECIDED,
    UNSEEN,
    WON_BY_OTHERS,
)
from filejobs_dagster.jobs.storage_orphans.expiring import cost, in_short
from filejobs_dagster.jobs.storage_orphans.marks import etag_text, in_statements
from filejobs_dagster.jobs.storage_orphans.one_pass import written_list
from filejobs_dagster.jobs.storage_orphans.review import (
    KEEP,
    MISSING,
    REMOVE,
    Heading,
    Line,
    ListWriter,
)
from filejobs_dagster.jobs.storage_orphans.tables import shown
from filejobs_dagster.ledger.outcome import REFUSALS
from filejobs_dagster.references.elsewhere.search import unsearched_in_words
from filejobs_dagster.text import display_key, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.storage_orphans.classification import Classification, Kept, Orphan
    from filejobs_dagster.jobs.storage_orphans.marks import Due, Marks, PutOff, Waiting
    from filejobs_dagster.jobs.storage_orphans.settings import ReportSettings, StorageOrphansRun
    from filejobs_dagster.jobs.storage_orphans.supply import Supply
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.references.elsewhere.search import Elsewhere
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings.storage import QuarantineSettings


@dataclass(frozen=True)
class SweepKind:
    """What kind of run it was.

    Attributes:
        confirmed_before: Orphans that an earlier run saw until then are due.
        first: True for the first complete pass by these sources and rules.
        reviewed: True when only a reviewed list could go.
        supply: What could go.
        elsewhere: Says what could not be searched for names.
        keeps: How long what goes is kept; None when it goes at once.
        deletion_mode: How it would be kept, of a dry run.
    """

    confirmed_before: datetime
    first: bool
    reviewed: bool
    supply: Supply
    elsewhere: Elsewhere
    keeps: QuarantineSettings | None = None
    deletion_mode: DeletionMode | None = None


class SweepOutcome:
    """Puts the final word together."""

    def __init__(
        self,
        context: RunContext,
        request: StorageOrphansRun,
        books: Bookkeeping,
        marks: Marks,
        how: SweepKind,
    ) -> None:
        self._context = context
        self._request = request
        self._books = books
        self._marks = marks
        self._how = how

    def outcome(self, *, marked: bool) -> Outcome:
        """The final word, from what is left in the marks.

        Args:
            marked: False when the marks were left to another run.
        """
        books, totals, how = self._books, self._books.totals, self._how
        due, waiting = self._marks.tally(how.confirmed_before)
        put_off = self._marks.put_off()
        if books.stopped == LIMIT and not (due.count or totals.classes[COPIES_DEFERRED]):
            books.stopped = None
        would = self._would(due) if marked and not self._context.live else None
        if would is not None and would["would_defer"]:
            # The same word as of a live run: what it counts is a floor.
            books.stopped = LIMIT
        facts: dict[str, Any] = {
            "waiting": waiting.count,
            "waiting_bytes": waiting.bytes,
            "waiting_until": as_text(
                None if waiting.since is None else waiting.since + self._request.confirm_after
            ),
        }
        oldest: datetime | None = None
        # Nobody has decided that these may stay.
        open_ones = [it for kind, it in put_off.items() if kind in (UNDECIDED, UNSEEN, FAILED)]
        if self._context.live:
            since = (due.since, totals.oldest_left, waiting.seen_since)
            oldest = min(
                [*(it for it in since if it is not None), *(it.since for it in open_ones)],
                default=None,
            )
            facts |= {
                "deferred": due.count,
                "deferred_bytes": due.bytes,
                "deferred_oldest": as_text(due.oldest),
                "put_off": {kind: it.count for kind, it in put_off.items()},
            }
        facts |= would or {}
        facts["progress"] = {"phase": "done"}
        facts["explained"] = self._explained(due, waiting, would, put_off)
        self._context.log.info("%s", facts["explained"])
        return books.outcome(
            oldest_left=None if oldest is None else oldest + self._request.confirm_after,
            unswept=how.reviewed or bool(due.count or open_ones or waiting.by_other_rules),
            went=totals.acted,
            dropped={} if due.count else self._dropped(put_off),
            finding=self._alternation(waiting),
            error=self._nothing_worked(),
            **facts,
        )

    def _alternation(self, waiting: Waiting) -> str | None:
        """Why orphans wait anew for ever; None when they do not."""
        if not waiting.by_other_rules:
            return None
        alternate = self._marks.alternation()
        if alternate is None:
            return None
        return f"{counted(waiting.by_other_rules)} wait anew: {alternate}"

    def _dropped(self, put_off: Mapping[str, PutOff]) -> dict[str, int]:
        """Candidates that dropped out, in this run and in those before it, by the reason."""
        fates = self._books.totals.classes
        found = {
            fate: count
            for fate, count in fates.items()
            if fate in (CHANGED, WON_BY_OTHERS) or fate.startswith(KEPT)
        }
        for kind in (UNDECIDED, UNSEEN, FAILED, GHOST):
            if kind in put_off:
                found[kind] = put_off[kind].count
        if GHOST in found:
            # What was gone for the first time is a ghost only when it is listed once more.
            found[GHOST] -= fates[ALREADY_GONE]
        return found

    def _would(self, due: Due) -> dict[str, Any]:
        """What a live run would have removed at this moment."""
        if self._how.first:
            return {"would_collect": 0, "would_free_bytes": 0, "would_defer": 0}
        count, size = due.count, due.bytes
        if self._how.reviewed:
            count, size = 0, -1
            while keys := self._how.supply.take(self._request.batch_size):
                count += len(keys)
        unsearched = self._how.elsewhere.found.unsearched
        if count and unsearched:
            return {
                "would_collect": 0,
                "would_free_bytes": 0,
                "would_defer": 0,
                REFUSALS: [unsearched_in_words(unsearched)],
            }
        taken = min(count, self._request.limit)
        facts: dict[str, Any] = {"would_collect": taken, "would_defer": count - taken}
        keeps = self._how.keeps
        known = taken == count and size >= 0
        if keeps is not None and taken:
            mode = self._how.deletion_mode
            facts["would_quarantine"] = cost(keeps, taken, size if known else None, mode)
        if known:
            facts["would_free_bytes"] = size if keeps is None else 0
        return facts

    def _explained(
        self,
        due: Due,
        waiting: Waiting,
        would: Mapping[str, Any] | None,
        put_off: Mapping[str, PutOff],
    ) -> str:
        """A sentence or two for whoever wonders why nothing, or not everything, was removed."""
        if self._how.first:
            did = (
                "This was the first complete pass over this bucket by these sources and rules: it "
                "marks what it sees and deletes nothing, whatever the mode"
            )
        elif self._context.live:
            did = self._did(due)
        elif would is None:
            did = "A live run at work keeps the marks, so what another would remove is not known"
        else:
            did = self._would_do(would, due)
        parts = [did]
        if (keeps := self._how.keeps) is not None and would and "would_quarantine" in would:
            requests = would["would_quarantine"]["requests"]
            parts.append(
                f"they are kept {in_short(keeps, self._how.deletion_mode)}, for which the bucket "
                f"needs their bytes as long, and about {requests:,} requests; `delete: at_once` of "
                "the bucket keeps nothing"
            )
        if waiting.count and waiting.since is not None:
            first_due = minute_in_words(waiting.since + self._request.confirm_after)
            parts.append(
                f"{counted(waiting.count)} must wait until an earlier run has seen them for "
                f"{format_duration(self._request.confirm_after)}: the first of them is due "
                f"{first_due}"
            )
        if late := self._books.facts.get("late_landing"):
            parts.append(f"{counted(late)} came after their row was collected")
        if locked := self._books.totals.classes[LOCKED]:
            parts.append(f"{locked:,} are locked")
        parts += [f"{it.count:,} are put off: {kind}" for kind, it in put_off.items()]
        return "; ".join(part.removesuffix(".") for part in parts) + "."

    def _did(self, due: Due) -> str:
        done, stopped = detail.in_words(self._books.totals), self._books.stopped
        because = f"; it stopped because of {stopped}" if stopped else ""
        if not due.count:
            return done + because
        return f"{done}{because}; {counted(due.count)} with {due.bytes:,} bytes are due and left"

    def _would_do(self, would: Mapping[str, Any], due: Due) -> str:
        """What a live run would do; bytes stand where they are known without reading every mark."""
        if refused := would.get(REFUSALS):
            due_ones = counted(due.count)
            return f"A live run would remove none of what is due ({due_ones}): {refused[0]}"
        taken, left = would["would_collect"], would["would_defer"]
        of_list = " of the reviewed list" if self._how.reviewed else ""
        said = f"A live run would remove {counted(taken)}{of_list}"
        if not left:
            size = due.bytes if "would_free_bytes" in would else None
            return f"{said}{'' if size is None else f' ({size:,} bytes)'} and leave 0"
        all_due = "" if self._how.reviewed else f" ({due.count:,} with {due.bytes:,} bytes are due)"
        return f"{said} and leave {left:,} because of the limit{all_due}"

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed."""
        totals = self._books.totals
        if not self._context.live:
            return None
        return nothing_worked(
            totals,
            worked=totals.acted + totals.more[COPIES_EXPIRED],
            failed=totals.left,
            what=f"Of {totals.left:,} objects that were due none could be removed",
            advice="the bucket's permissions",
        )


def counted(orphans: int) -> str:
    """A number of orphans, in words."""
    return f"{orphans:,} orphan{'' if orphans == 1 else 's'}"


def as_text(at: datetime | None) -> str | None:
    """A moment as the record holds it."""
    return None if at is None else at.isoformat()


def minute_in_words(at: datetime) -> str:
    """A moment for people, in UTC; the next full minute, so that it is never too early."""
    up = at.astimezone(timezone.utc) + timedelta(minutes=1) - timedelta.resolution
    return f"{up:%Y-%m-%d %H:%M} UTC"


# The list of a run, written where the settings say.

_SAID = {AMBIGUOUS: "a row says ", NAMED_ELSEWHERE: "a row names it in "}


def write_report(
    place: ReportSettings,
    heading: Heading,
    found: Classification,
    marks: Marks,
    scratch: Path,
    client: S3Client,
    owners: FormerOwners,
    past: PastRetention | None = None,
) -> str:
    """Write every orphan, and everything that is kept and that a person should look at.

    Args:
        place: Where it goes.
        heading: Whose list it is.
        found: The pass.
        marks: For since when each orphan has been seen.
        scratch: A private folder.
        client: Of the bucket.
        owners: For whom each belonged to.
        past: What is said of orphans older than the retention of personal data.

    Returns:
        Where it stands.

    Raises:
        JobFailed: It could not be written.
    """
    name = f"storage_orphans-{heading.written_at:%Y%m%dT%H%M%SZ}-{heading.run_id[:8]}.csv"
    with written_list(place, name, scratch, client, heading.bucket) as (file, where):
        writer = ListWriter(file, heading)
        for portion in in_statements(found.orphans()):
            keys = [orphan.key for orphan in portion]
            writer.write(_orphans(portion, marks.first_seen(keys), owners.of(keys), past))
        for kept in found.kept():
            writer.write(_kept(kept, owners.of([one.key for one in kept])))
        writer.write(_missing(found, owners))
    return where


def _orphans(
    orphans: list[Orphan],
    seen: Mapping[bytes, datetime],
    owners: Mapping[bytes, str],
    past: PastRetention | None,
) -> Iterator[Line]:
    for orphan in orphans:
        late = "" if past is None or not past.covers(orphan) else f"; {past}"
        yield Line(
            decision=REMOVE,
            key=orphan.key,
            size=orphan.size,
            modified=orphan.modified,
            etag=etag_text(orphan.etag),
            of_class=ORPHAN,
            reason=f"nothing refers to it{late}",
            first_seen=seen.get(orphan.key),
            belonged_to=owners.get(orphan.key, ""),
        )


def _kept(objects: list[Kept], owners: Mapping[bytes, str]) -> Iterator[Line]:
    for one in objects:
        because = shown(one.because)
        yield Line(
            decision=KEEP,
            key=one.key,
            size=one.size,
            modified=one.modified,
            etag="",
            of_class=one.kind,
            reason=_SAID.get(one.kind, "") + because,
            belonged_to=owners.get(one.key, ""),
        )


def _missing(found: Classification, owners: FormerOwners) -> Iterator[Line]:
    """References without an object: somebody's file does not open."""
    keys = list(found.missing_keys)
    more = found.missing - len(keys)
    reason = "a source names it, and no object is there"
    if more:
        reason += f" (and {more:,} more that are not listed)"
    for at in range(0, len(keys), OWNERS_AT_ONCE):
        portion = keys[at : at + OWNERS_AT_ONCE]
        of = owners.of(portion)
        for key in portion:
            yield Line(KEEP, key, 0, -1, "", MISSING, reason, belonged_to=of.get(key, ""))


@dataclass(frozen=True)
class PastRetention:
    """The published retention of personal data, and since when an object is past it.

    Attributes:
        kept_for: As the settings say it.
        since: Objects from before this moment are past it.
    """

    kept_for: timedelta
    since: datetime

    def covers(self, orphan: Orphan) -> bool:
        """Whether the object is older; one without a time is."""
        return orphan.modified < self.since.timestamp() * 1000

    def __str__(self) -> str:
        """What stands beside such an orphan."""
        return (
            f"older than the retention of personal data ({format_duration(self.kept_for)}), and no "
            "erasure that goes by rows reaches it"
        )


OWNERS_AT_ONCE = 500
MOST_ASKED = 20_000
"""For so many lines of a list the audit log is asked; the others have what their path tells."""

_ID = r"[0-9]{1,18}|[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_OF_SOMEBODY = re.compile(rf"(?:^|/)([A-Za-z][A-Za-z_-]{{0,39}})[/=]({_ID})(?=/)")
_UUID = re.compile(r"(?<![0-9a-fA-F-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_PERSON = re.compile(r"user|owner|account|customer|tenant|member|person", re.IGNORECASE)

_ROWS = """
SELECT id::text, 'file ' || state FROM file WHERE id = ANY(%(ids)s::uuid[])
 UNION ALL
SELECT id::text, 'upload ' || state FROM upload WHERE id = ANY(%(ids)s::uuid[])
"""

_EVENTS = """
SELECT wanted.name, event.recorded_at, event.body
  FROM unnest(%(ids)s::text[]) AS wanted (name)
 CROSS JOIN LATERAL (
        SELECT recorded_at, body
          FROM audit_event
         WHERE body LIKE '%%"file_id"%%'
           AND left(body::jsonb ->> 'file_id', 200) = wanted.name
         ORDER BY recorded_at DESC
         LIMIT 1) AS event
 UNION ALL
SELECT wanted.name, event.recorded_at, event.body
  FROM unnest(%(keys)s::text[]) AS wanted (name)
 CROSS JOIN LATERAL (
        SELECT recorded_at, body
          FROM audit_event
         WHERE body LIKE '%%"keys"%%'
           AND body::jsonb -> 'keys' @> to_jsonb(ARRAY[wanted.name])
         ORDER BY recorded_at DESC
         LIMIT 1) AS event
"""


class FormerOwners:
    """Whom objects belonged to, as far as rows, audit events or their paths tell."""

    def __init__(self, database: Database, connection: Connection) -> None:
        """Ask on this connection, in read-only transactions."""
        self._database = database
        self._connection = connection
        self._asked = 0
        self._silent = False
        """True once the log may not be read: that is a right that no job needs."""

    def of(self, keys: Sequence[bytes]) -> Mapping[bytes, str]:
        """What is known of each key; nothing is left out because something else cannot be asked."""
        texts = {key: text for key in keys if (text := _as_text(key)) is not None}
        ids = {key: found.lower() for key, text in texts.items() for found in _UUID.findall(text)}
        told: dict[str, list[str]] = {}
        if self._asked < MOST_ASKED:
            self._asked += len(texts)
            for name, said in self._rows(sorted(set(ids.values()))):
                told.setdefault(name, []).append(said)
            for name, said in self._events(sorted(set(ids.values())), list(texts.values())):
                told.setdefault(name, []).append(said)
        found = {}
        for key, text in texts.items():
            path = _OF_SOMEBODY.search(text)
            parts = [] if path is None else [f"by its path {path[1]} {path[2]}"]
            parts += told.get(ids.get(key, ""), [])
            parts += told.get(text, [])
            if parts:
                found[key] = "; ".join(dict.fromkeys(parts))
        return found

    def _rows(self, ids: list[str]) -> Iterator[tuple[str, str]]:
        if ids:
            with self._database.transaction(self._connection, read_only=True) as cursor:
                cursor.execute(_ROWS, {"ids": ids})
                for name, what in cursor.fetchall():
                    yield name, f"by a row of its id: {what}"

    def _events(self, ids: list[str], keys: list[str]) -> Iterator[tuple[str, str]]:
        if self._silent:
            return
        try:
            with self._database.transaction(self._connection, read_only=True) as cursor:
                cursor.execute(_EVENTS, {"ids": ids, "keys": keys})
                rows = cursor.fetchall()
        except psycopg.errors.InsufficientPrivilege:
            self._silent = True
            return
        for name, at, body in rows:
            yield name, _event_in_words(at, json.loads(body))


def _event_in_words(at: datetime, body: Mapping[str, Any]) -> str:
    people = [
        f"{name} {display_key(str(value))}"
        for name, value in body.items()
        if _PERSON.search(name) and isinstance(value, str | int)
    ]
    of = "" if body.get("file_id") is None else f" of file {display_key(str(body['file_id']))}"
    whom = f" ({', '.join(people)})" if people else ""
    return f"by the audit log {body.get('kind', 'an event')}{of}{whom} at {at:%Y-%m-%d %H:%M} UTC"


def _as_text(key: bytes) -> str | None:
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
