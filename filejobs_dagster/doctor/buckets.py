"""The buckets: access and versioning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.objects.client import check_access, make_client, read_versioning
from filejobs_dagster.objects.errors import BucketUnavailable
from filejobs_dagster.objects.prefixes import QUARANTINE
from filejobs_dagster.settings.durations import in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.settings import BucketSettings


def check_bucket(entry: str, settings: BucketSettings) -> Iterator[Finding]:
    """Look at one bucket.

    Args:
        entry: Its name in the settings.
        settings: What the settings say of it.
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
        yield _quarantine(name, settings)


def _quarantine(name: str, settings: BucketSettings) -> Finding:
    """What becomes of what goes. The doctor writes nothing, so it cannot try the rights."""
    check = f"{name} quarantine"
    takes = f"without versions it takes s3:PutObject and s3:DeleteObject on {QUARANTINE}*"
    if settings.delete is not None:
        return ok(check, "delete is at_once: nothing that goes is kept")
    if settings.quarantine is not None:
        return ok(
            check, f"what sweeps take is kept for {in_words(settings.quarantine.keep)}; {takes}"
        )
    return ok(
        check,
        "nothing is said: a bucket keeps what sweeps take from its first live sweep on, and one "
        f"where a sweep has deleted at once goes on so; {takes}",
    )


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
