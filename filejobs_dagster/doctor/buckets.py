"""The buckets: access, versioning, and the server's clock."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, skipped, warning
from filejobs_dagster.objects.client import check_access, make_client, read_versioning
from filejobs_dagster.objects.errors import BucketUnavailable
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import BucketSettings

FURTHEST_APART = timedelta(minutes=5)
"""From here on, jobs that compare the bucket's times with the database's refuse."""

NOTICEABLE = timedelta(minutes=1)


def check_bucket(
    entry: str,
    settings: BucketSettings,
    database: Database,
    connection: Connection | None,
) -> Iterator[Finding]:
    """Look at one bucket.

    Args:
        entry: Its name in the settings.
        settings: What the settings say of it.
        database: Whose clock is compared.
        connection: An open connection to it, or None when it does not answer.
    """
    name = f"bucket {entry}"
    client = make_client(settings)
    try:
        check_access(client, settings.bucket)
    except BucketUnavailable as error:
        yield failed(
            name,
            str(error),
            "change what the message names; the other checks of this bucket follow then",
        )
        return
    yield ok(name, f"{settings.bucket} answers; owned: {', '.join(settings.owned_prefixes) or '-'}")
    if settings.owns_nothing:
        # Pins and archives are never deleted, so what a deletion would free is no matter.
        yield ok(f"{name} versioning", "nothing is ever collected here")
    else:
        yield _versioning(name, client, settings.bucket)
    yield _clock(name, client, settings.bucket, database, connection)


def _versioning(name: str, client: S3Client, bucket: str) -> Finding:
    state = read_versioning(client, bucket)
    if state == "unknown":
        return warning(
            f"{name} versioning",
            "the server does not say whether versioning is on",
            "allow s3:GetBucketVersioning: in a versioned bucket a deletion frees no byte",
        )
    if state != "off":
        return warning(
            f"{name} versioning",
            f"versioning is {state}",
            "a deletion adds a marker and frees no byte; give the bucket a lifecycle rule that "
            "expires noncurrent versions",
        )
    return ok(f"{name} versioning", "versioning is off")


def _clock(
    name: str, client: S3Client, bucket: str, database: Database, connection: Connection | None
) -> Finding:
    check = f"{name} clock"
    if connection is None:
        return skipped(check, "the database does not answer, so there is nothing to compare with")
    headers = client.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"]
    with database.transaction(connection, read_only=True) as cursor:
        ours = database_now(cursor)
    date = headers.get("date")
    if date is None:
        return warning(check, "the server's answer has no Date", "ask its operator why")
    return judged_clock(check, ours, parsedate_to_datetime(date))


def judged_clock(check: str, database: datetime, bucket: datetime) -> Finding:
    """Compare the two clocks; more than five minutes apart is a failure."""
    apart = abs(database - bucket)
    found = (
        f"database {database.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC, bucket "
        f"{bucket.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC, "
        f"{round(apart.total_seconds())}s apart"
    )
    advice = "synchronise both clocks (NTP); beyond five minutes jobs that need both refuse"
    if apart > FURTHEST_APART:
        return failed(check, found, advice)
    if apart > NOTICEABLE:
        return warning(check, found, advice)
    return ok(check, found)
