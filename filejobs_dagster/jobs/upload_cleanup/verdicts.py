"""What storage's answer says of an uncertain upload."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.heads import Absent, Present
from filejobs_dagster.objects.identity import Seen, compare, found

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.jobs.upload_cleanup.rows import Uncertain
    from filejobs_dagster.jobs.upload_cleanup.settings import Request
    from filejobs_dagster.objects.heads import CloseSighting
    from filejobs_dagster.objects.multipart import Parts

SOON = timedelta(minutes=1)


@dataclass(frozen=True)
class IsStored:
    """The object is there, whole."""

    object: Present


@dataclass(frozen=True)
class IsOver:
    """There is no object, and nobody has written for long enough: it may be cleaned up.

    Attributes:
        why: For the record.
    """

    why: str


@dataclass(frozen=True)
class IsOpen:
    """Nothing can be concluded yet.

    Attributes:
        why: For the record.
        again: When to ask again; None when storage did not say, which is a failure, with the pause
            of all failures.
    """

    why: str
    again: timedelta | None


Verdict: TypeAlias = "IsStored | IsOver | IsOpen"

PartsSeen: TypeAlias = "Parts | StorageError | None"
"""None: there is no such multipart upload, or the row has none."""


def judge(
    row: Uncertain, sighting: CloseSighting, parts: PartsSeen, now: datetime, request: Request
) -> Verdict:
    """Resolve one row, or leave it open.

    An object under the row's key is the row's: the key holds its id. That there is none concludes
    nothing at first, since a server may still complete what it was asked to: `settle_after` must
    have passed since the row became uncertain. With parts somebody was at work, so that since the
    newest `writing_limit` must have passed as well, once, unless the upload was cancelled. Parts
    of which nobody knows the age are young.
    """
    if isinstance(sighting, Present):
        return _judge_object(row, sighting, request)
    if not isinstance(sighting, Absent):
        return IsOpen(f"the object could not be looked at: {sighting}", None)
    if isinstance(parts, StorageError):
        return IsOpen(f"its parts could not be listed: {parts}", None)
    newest = None if parts is None else parts.newest
    quiet_since = row.active if newest is None else max(row.active, newest)
    has_parts = parts is not None and not row.cancelled
    if has_parts and parts is not None and parts.count and newest is None:
        return IsOpen("the server does not say when each of its parts came", request.look_again)
    limit = request.writing_limit if has_parts else request.settle_after
    missing = max(limit - (now - quiet_since), request.settle_after - (now - row.since))
    if missing <= timedelta(0):
        what = "parts and no object" if parts is not None else "no object"
        return IsOver(f"{what}, and nobody has written since {quiet_since.isoformat()}")
    what = "parts, and no object yet" if parts is not None else "no object yet"
    return IsOpen(what, min(max(missing, SOON), request.look_again))


def _judge_object(row: Uncertain, there: Present, request: Request) -> Verdict:
    same = compare(Seen(row.etag, row.size), found(there, there.version), only_one=True)
    if same.same:
        return IsStored(there)
    differs = f"it is not the object that was to be stored: {same.why}"
    if row.cancelled:
        return IsOver(f"{differs}; it was cancelled, and the cleanup keeps what is another object")
    return IsOpen(
        f"{differs}: look at it, and cancel the upload if it is not the one that was to be stored",
        request.look_again,
    )
