"""The storage server's clock, by which it dates objects."""

from __future__ import annotations

from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.listing.failure import ListingFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_s3 import S3Client


def date_of(headers: Mapping[str, str]) -> datetime | None:
    """The time an answer was given, to the second; None when the server does not say."""
    text = headers.get("date")
    if text is None:
        return None
    try:
        read = parsedate_to_datetime(text)
    except ValueError:
        return None
    # A date in `-0000` has no zone in Python, and means UTC.
    return read if read.tzinfo else read.replace(tzinfo=timezone.utc)


def read_server_date(client: S3Client, bucket: str) -> datetime | None:
    """Ask the server for its time (HEAD of the bucket), before anything is listed.

    Returns:
        None when its answers have no date.

    Raises:
        ListingFailed: It does not answer.
    """
    try:
        answer = client.head_bucket(Bucket=bucket)
    except Exception as error:
        raise ListingFailed(
            f"Bucket {bucket!r} did not say what time it is: {described(error)}. "
            "See what `filejobs doctor` says of the bucket."
        ) from error
    return date_of(answer["ResponseMetadata"]["HTTPHeaders"])
