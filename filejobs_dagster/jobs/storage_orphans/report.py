"""The list of a run, written where the settings say."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.jobs.storage_orphans.classification.words import (
    AMBIGUOUS,
    NAMED_ELSEWHERE,
    ORPHAN,
)
from filejobs_dagster.jobs.storage_orphans.listed_csv import (
    KEEP,
    MISSING,
    REMOVE,
    Heading,
    Line,
    ListWriter,
)
from filejobs_dagster.jobs.storage_orphans.marks import etag_text, in_statements
from filejobs_dagster.jobs.storage_orphans.places import written_list
from filejobs_dagster.jobs.storage_orphans.tables import shown
from filejobs_dagster.ledger.sanitize import display_key
from filejobs_dagster.settings.durations import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime, timedelta
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.storage_orphans.classification import (
        Classification,
        Kept,
        Orphan,
    )
    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.settings import ReportSettings
    from filejobs_dagster.postgres.connect import Connection, Database


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
