"""Whose bucket it is, and what its server can do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, skipped, warning
from filejobs_dagster.door.adoption import Place, inspect, judge
from filejobs_dagster.door.probe import Probe, ProbeFailed
from filejobs_dagster.door.refusals import AdoptionRefused, NotAdopted
from filejobs_dagster.door.server import NOT_TRIED, doubts, in_words, tried
from filejobs_dagster.objects.client import BucketUnavailable, make_client
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.door.adoption import Adopted
    from filejobs_dagster.objects.manner import Abilities
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
    found = inspect(place)
    try:
        adopted = judge(place, found)
    except NotAdopted as error:
        if found.row is not None:
            yield failed(f"{name} marker", str(error), "until then no live run begins")
        else:
            yield _not_adopted(f"{name} marker", str(error), _deleting(entry, settings))
        return
    except AdoptionRefused as error:
        yield failed(
            f"{name} marker",
            str(error),
            f"until then no live run of any job touches anything; see `filejobs bucket inspect "
            f"{entry}`",
        )
        return
    yield ok(
        f"{name} marker",
        f"belongs to {adopted.marker.installation}, counter {adopted.marker.counter} (database "
        f"{adopted.row.counter}), {adopted.server}",
    )
    check = f"{name} server"
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
    if row.abilities is None or row.probed_at is None:
        return ok(check, NOT_TRIED)
    when = f"tried {row.probed_at:%Y-%m-%d}, server {row.probed_server or 'without a name'}"
    return _told(check, row.abilities, when)


def _probe(check: str, place: Place) -> Finding:
    try:
        found = tried(place)
    except ProbeFailed as error:
        return failed(check, str(error), "do what the message says, and probe again")
    return _probed(check, found)


def _probed(check: str, found: Probe) -> Finding:
    name = f"server {found.server or 'without a name'}"
    if found.leftover is not None:
        return warning(
            check,
            f"{in_words(found.abilities)} ({name}); the probe's object {found.leftover!r} could "
            "not be removed",
            "remove it by hand; in a bucket that keeps versions that takes "
            "s3:ListBucketVersions and s3:DeleteObjectVersion",
        )
    return _told(check, found.abilities, name)


def _told(check: str, abilities: Abilities, when: str) -> Finding:
    found = doubts(abilities)
    said = f"{in_words(abilities)} ({when})"
    return warning(check, said, "until then no orphan goes") if found else ok(check, said)
