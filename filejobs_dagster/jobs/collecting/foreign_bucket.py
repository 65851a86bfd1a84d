"""Refuses a bucket whose marker says that it belongs to somebody else.

The jobs that remove what a row names need no marker: their rows say what is theirs. But a copy of
the database, pointed at the bucket of the original, has the same rows, and the original may have
gone on using what the copy has given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.objects.adoption import Place, check
from filejobs_dagster.objects.refusals import (
    AdoptionRefused,
    BucketOfAnotherInstallation,
    MarkerUnreadable,
    WrongBucket,
    WrongDatabase,
    WrongEnvironment,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.settings.storage import BucketSettings

SOMEBODY_ELSES = (BucketOfAnotherInstallation, WrongBucket, WrongDatabase, WrongEnvironment)


def refuse_foreign_bucket(
    context: RunContext, client: S3Client, bucket: BucketSettings, environment: str | None
) -> None:
    """Refuse a live run when the bucket's marker names another owner; a dry one is warned.

    A bucket without a marker is nobody else's. Where the marker, or the database's own identity,
    may not be read, that is said in the log and the run goes on: these jobs work without those
    rights.

    Args:
        context: The run.
        client: Of the bucket.
        bucket: What the settings say of it.
        environment: What the settings say of the installation.

    Raises:
        JobFailed: A live run, and the bucket belongs to another installation, environment or
            database.
    """
    place = Place(
        client=client,
        bucket=bucket.bucket,
        endpoint=bucket.endpoint_url,
        marker_key=bucket.marker,
        installation=context.identity.installation,
        environment=environment,
        database=context.database,
        connection=context.connection,
    )
    try:
        check(place)
    except SOMEBODY_ELSES as refused:
        if context.live:
            raise JobFailed(f"{refused} Nothing was touched.") from refused
        context.log.warning("%s A live run would refuse.", refused)
    except MarkerUnreadable as unknown:
        context.log.warning("Whose bucket it is could not be read: %s", unknown)
    except AdoptionRefused as unadopted:
        context.log.debug("%s", unadopted)
    except psycopg.errors.InsufficientPrivilege:
        context.log.warning(
            "Whose bucket it is could not be compared: the role may not read pg_control_system() "
            "or the table bucket_adoption. See the grants in docs/first-day.md."
        )
