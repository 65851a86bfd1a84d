"""What the jobs' account needs on a bucket, as a policy of S3: the calls that the code makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.prefixes import MARKERS
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.settings import Settings

MULTIPART = "multipart uploads"


def policy(settings: Settings, entry: str, principal: str | None) -> dict[str, Any]:
    """The policy for one bucket, for the jobs of the settings.

    A job that the settings have as dry gets no right to remove anything.

    Args:
        settings: All of them.
        entry: The bucket's name in them.
        principal: Whom a bucket's policy is about, as an ARN. None makes one for an identity: it
            names nobody, and is given to one.
    """
    bucket = settings.buckets[entry]
    if bucket.owns_nothing:
        statements = list(_pins(bucket.bucket, settings.jobs))
    else:
        statements = list(_collecting(settings, entry))
    if principal is not None:
        statements = [{**one, "Principal": {"AWS": [principal]}} for one in statements]
    return {"Version": "2012-10-17", "Statement": statements}


def _allow(sid: str, actions: Iterable[str], *resources: str) -> dict[str, Any]:
    return _statement(sid, "Allow", actions, {"Resource": list(resources)})


def _statement(
    sid: str, effect: str, actions: Iterable[str], where: dict[str, Any]
) -> dict[str, Any]:
    named = [f"s3:{action}" for action in dict.fromkeys(actions)]
    return {"Sid": sid, "Effect": effect, "Action": named, **where}


def _collecting(settings: Settings, entry: str) -> Iterator[dict[str, Any]]:
    bucket = settings.buckets[entry]
    jobs = [
        BY_NAME[name]
        for name in settings.jobs
        if BY_NAME[name].deletes_bytes and settings.bucket_of(name)[0] == entry
    ]
    live = [job for job in jobs if settings.allow_live and settings.jobs[job.name].mode == "live"]
    deletes = any("objects" in job.touches for job in live)
    aborts = any(MULTIPART in job.touches for job in live)
    purges = bucket.purge_versions
    whole = f"arn:aws:s3:::{bucket.bucket}"
    owned = [f"{whole}/{prefix}*" for prefix in bucket.owned_prefixes]
    markers, probes = f"{whole}/{MARKERS}*", f"{whole}/{MARKERS}/*.probe-*"
    on_bucket = ["ListBucket", "GetBucketVersioning"]
    if purges and deletes:
        on_bucket.append("ListBucketVersions")
    if any(MULTIPART in job.touches for job in jobs):
        on_bucket += ["ListBucketMultipartUploads", "GetLifecycleConfiguration"]
    yield _allow("Look", on_bucket, whole)
    yield _allow("Marker", ["GetObject", *(["PutObject"] if live else [])], markers)
    if not live:
        if any(MULTIPART in job.touches for job in jobs):
            yield _allow("Owned", ["ListMultipartUploadParts"], *owned)
        return
    removes = ["DeleteObject", *(["DeleteObjectVersion"] if purges else [])] if deletes else []
    looks = ["GetObject"]
    if purges and deletes:
        looks += ["GetObjectRetention", "GetObjectLegalHold"]
    if any(MULTIPART in job.touches for job in jobs):
        looks.append("ListMultipartUploadParts")
    yield _allow("Owned", [*looks, *(["AbortMultipartUpload"] if aborts else [])], *owned)
    if removes:
        # A batch is asked for on the bucket by Ceph; on AWS the bucket's own name adds nothing.
        yield _allow("Remove", removes, whole, *owned)
    tries = ["GetObject", "PutObject", "DeleteObject", "AbortMultipartUpload"]
    yield _allow("Probe", [*tries, *(["DeleteObjectVersion"] if purges else [])], probes)
    never = ["DeleteObject", "DeleteObjectVersion", "AbortMultipartUpload"]
    if not bucket.owns_whole_bucket:
        mine = [whole, *owned, probes]
        yield _statement("NothingElseGoes", "Deny", never, {"NotResource": mine})
    if bucket.protect:
        kept = [f"{whole}/{kept}{'*' if kept.endswith('/') else ''}" for kept in bucket.protect]
        yield _statement("ProtectedStays", "Deny", never, {"Resource": kept})


def _pins(name: str, jobs: Iterable[str]) -> Iterator[dict[str, Any]]:
    """A bucket that only keeps pins or archives: nothing in it is ever replaced or removed."""
    whole = f"arn:aws:s3:::{name}"
    yield _allow(
        "Look", ["ListBucket", "ListBucketVersions", "GetBucketObjectLockConfiguration"], whole
    )
    writes = any("chain" in BY_NAME[job].touches for job in jobs)
    puts = ["PutObject", "PutObjectRetention"] if writes else []
    reads = ["GetObject", "GetObjectVersion", "GetObjectRetention"]
    yield _allow("Pins", [*puts, *reads], f"{whole}/*")
    if writes:
        only_new = {"Null": {"s3:if-none-match": "true"}}
        where = {"Resource": [f"{whole}/*"], "Condition": only_new}
        yield _statement("OnlyWhereNothingStands", "Deny", ["PutObject"], where)
    never = [
        "DeleteObject", "DeleteObjectVersion", "BypassGovernanceRetention",
        "PutBucketObjectLockConfiguration", "PutLifecycleConfiguration",
    ]  # fmt: skip
    yield _statement("NothingGoes", "Deny", never, {"Resource": [whole, f"{whole}/*"]})
