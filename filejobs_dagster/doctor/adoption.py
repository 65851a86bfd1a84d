"""Whose bucket it is, and what the server makes of a deletion with a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, skipped, warning
from filejobs_dagster.door.adoption import Place, inspect, judge, remember_probe
from filejobs_dagster.door.probe import Probe, ProbeFailed, probe
from filejobs_dagster.door.refusals import AdoptionRefused, NotAdopted
from filejobs_dagster.objects.client import BucketUnavailable, make_client
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.door.adoption import Adopted
    from filejobs_dagster.objects.manner import ConditionalDelete
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import Settings


def check_adoption(
    entry: str,
    settings: Settings,
    database: Database,
    connection: Connection,
    *,
    probe: bool,
) -> Iterator[Finding]:
    """Compare the marker with the database, and probe when that is asked for.

    Args:
        entry: The bucket's name in the settings.
        settings: All of them.
        database: Where the other half of the adoption is.
        connection: An open connection to it.
        probe: True to write and delete an object beside the marker.
    """
    name = f"bucket {entry}"
    bucket = settings.buckets[entry]
    try:
        place = Place.of(settings, bucket, make_client(bucket), database, connection)
    except BucketUnavailable as error:
        yield skipped(f"{name} marker", str(error))
        return
    try:
        adopted = judge(place, inspect(place))
    except NotAdopted as error:
        yield _not_adopted(f"{name} marker", str(error), _deleting(entry, settings))
        return
    except AdoptionRefused as error:
        yield failed(
            f"{name} marker",
            str(error),
            "until then no live run deletes anything from it; see "
            f"`filejobs bucket inspect {entry}`",
        )
        return
    yield ok(
        f"{name} marker",
        f"belongs to {adopted.marker.installation}, counter {adopted.marker.counter} (database "
        f"{adopted.row.counter})",
    )
    check = f"{name} conditional delete"
    yield _probe(check, place) if probe else _known(check, adopted)


def _deleting(entry: str, settings: Settings) -> dict[str, str]:
    """The jobs that delete from this bucket, each with its mode."""
    return {
        name: job.mode
        for name, job in settings.jobs.items()
        if BY_NAME[name].deletes_bytes and settings.bucket_of(name)[0] == entry
    }


def _not_adopted(check: str, found: str, deleting: dict[str, str]) -> Finding:
    if not deleting:
        return ok(check, "not adopted, and no job deletes from it")
    advice = f"a live run of {' or '.join(deleting)} refuses until then; a dry one works without"
    live = "live" in deleting.values()
    return failed(check, found, advice) if live else warning(check, found, advice)


def _known(check: str, adopted: Adopted) -> Finding:
    row = adopted.row
    if row.conditional_delete is None or row.probed_at is None:
        return ok(
            check,
            "not probed yet: the first live run does that, or `filejobs doctor --probe`",
        )
    when = f"{row.probed_at:%Y-%m-%d}, server {row.probed_server or 'without a name'}"
    return ok(check, f"{_IN_WORDS[row.conditional_delete]} (probed {when})")


def _probe(check: str, place: Place) -> Finding:
    try:
        found = probe(place.client, place.bucket, place.marker_key)
    except ProbeFailed as error:
        return failed(check, str(error), "grant what the message names, and probe again")
    remember_probe(place, found)
    return _probed(check, found)


def _probed(check: str, found: Probe) -> Finding:
    said = f"{_IN_WORDS[found.conditional]} (server {found.server or 'without a name'})"
    if found.leftover is not None:
        return warning(
            check,
            f"{said}; the probe's object {found.leftover!r} could not be removed",
            "remove it by hand; in a bucket that keeps versions that takes "
            "s3:ListBucketVersions and s3:DeleteObjectVersion",
        )
    return ok(check, said)


_IN_WORDS: dict[ConditionalDelete, str] = {
    "honoured": "the server obeys a deletion that names the ETag",
    "single only": "the server obeys a deletion that names the ETag only in requests for one "
    "object, so every orphan takes a request of its own",
    "batch only": "the server obeys a deletion that names the ETag only in batches",
    "ignored": "the server ignores the ETag that a deletion names; objects are compared right "
    "before each request instead",
    "unsupported": "the server refuses a deletion that names the ETag; objects are compared right "
    "before each request instead",
}
