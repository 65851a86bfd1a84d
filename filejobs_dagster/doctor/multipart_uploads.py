"""multipart_uploads: whether uploads can be listed, and what aborts them while the job does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.listing import ListingFailed
from filejobs_dagster.objects.multipart import list_uploads
from filejobs_dagster.objects.multipart.backstop import read_backstop, rule_to_add
from filejobs_dagster.objects.targets import apart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.jobs.multipart_uploads.settings import MultipartUploadsSettings
    from filejobs_dagster.settings import BucketSettings


def check_multipart_uploads(
    settings: MultipartUploadsSettings, entry: str, bucket: BucketSettings
) -> Iterator[Finding]:
    """Look at the bucket; nothing is set.

    Args:
        settings: `jobs.multipart_uploads`.
        entry: The bucket's name in the settings.
        bucket: What the settings say of it.
    """
    check = f"multipart_uploads {entry}"
    client = make_client(bucket)
    prefixes = [""] if bucket.owns_whole_bucket else apart(bucket.owns)
    try:
        for prefix in prefixes:
            next(list_uploads(client, bucket.bucket, prefix, page=1), None)
    except ListingFailed as error:
        yield failed(check, str(error), "every run of multipart_uploads fails until then")
        return
    yield ok(check, "the server lists multipart uploads")
    backstop = read_backstop(client, bucket.bucket, prefixes)
    if backstop.state == "there":
        yield ok(f"{check} backstop", backstop.said)
        return
    if backstop.uncovered:
        rule = rule_to_add(backstop.uncovered, settings.idle_for)
        advice = f"add to the rules that the bucket has, and keep those: {rule}"
    else:
        advice = "allow s3:GetLifecycleConfiguration, or see for yourself that there is a rule"
    yield warning(f"{check} backstop", backstop.said, advice)
