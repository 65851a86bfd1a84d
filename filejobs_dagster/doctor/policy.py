"""What the jobs' account needs on a bucket, as a policy of S3: the calls that the code makes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.targets import MARKERS, QUARANTINE
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from filejobs_dagster.settings import Settings

MULTIPART = "multipart uploads"


def policy(settings: Settings, entry: str, principal: str | None, *, dry: bool) -> dict[str, Any]:
    """The policy for one bucket, for the jobs of the settings.

    Args:
        settings: All of them.
        entry: The bucket's name in them.
        principal: Whom a bucket's policy is about, as an ARN. None makes one for an identity: it
            names nobody, and is given to one.
        dry: Give no right to write or remove anything: enough for dry runs and the doctor.
    """
    bucket = settings.buckets[entry]
    if bucket.owns_nothing:
        aws = bucket.endpoint_url is None
        statements = list(_pins(bucket.bucket, () if dry else settings.jobs, aws=aws))
    else:
        statements = list(_collecting(settings, entry, dry=dry))
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


def _collecting(settings: Settings, entry: str, *, dry: bool) -> Iterator[dict[str, Any]]:
    bucket = settings.buckets[entry]
    jobs = [
        BY_NAME[name]
        for name in settings.jobs
        if BY_NAME[name].deletes_bytes and settings.bucket_of(name)[0] == entry
    ]
    multipart = any(MULTIPART in job.touches for job in jobs)
    deletes = not dry and any("objects" in job.touches for job in jobs)
    purges = deletes and bucket.purge_versions
    keeps = deletes and bucket.delete != "at_once"
    brings_back = keeps and bucket.quarantine is not None and bucket.quarantine.bring_back
    # A row names a version where the bucket keeps any, whatever the settings say of purging.
    exact = any(job.names_versions for job in jobs)
    whole = f"arn:aws:s3:::{bucket.bucket}"
    owned = [f"{whole}/{prefix}*" for prefix in bucket.owned_prefixes]
    marker = f"{whole}/{MARKERS}/{settings.installation}.json"
    # One wildcard, at the end: Ceph does not go back for a second one.
    probes = f"{marker}.probe-*"
    quarantine = f"{whole}/{QUARANTINE}*"
    look = ["ListBucket", "GetBucketVersioning", *_if(purges, "ListBucketVersions")]
    look += _if(multipart or keeps, "ListBucketMultipartUploads")
    # Where the bucket keeps versions, a rule of it alone ends what lies behind a marker.
    look += _if(jobs, "GetLifecycleConfiguration")
    yield _allow("Look", look, whole)
    yield _allow("Markers", ["GetObject"], f"{whole}/{MARKERS}*")
    inside = [
        *_if(not dry, "GetObject"),
        *_if(keeps, "GetObjectTagging"),
        *_if(brings_back, "PutObject", "PutObjectTagging"),
        *_if(exact, "GetObjectVersion"),
        *_if(purges or (exact and not dry), "GetObjectRetention", "GetObjectLegalHold"),
        *_if(multipart, "ListMultipartUploadParts"),
        *_if((multipart and not dry) or brings_back, "AbortMultipartUpload"),
    ]
    if inside:
        yield _allow("Owned", inside, *owned)
    if dry:
        return
    yield _allow("OwnMarker", ["PutObject"], marker)
    removes = ["DeleteObject", *_if(purges or exact, "DeleteObjectVersion")]
    if deletes:
        # A batch is asked for on the bucket by Ceph; on AWS the bucket's own name adds nothing.
        yield _allow("Remove", removes, whole, *owned)
    if keeps:
        tags = ["GetObjectTagging", "PutObjectTagging"]
        # Where versions are suspended, a deletion names the version, or it would leave a marker.
        ends = ["DeleteObject", "DeleteObjectVersion", "AbortMultipartUpload"]
        yield _allow("Quarantine", ["GetObject", "PutObject", *ends, *tags], quarantine)
    yield _allow("Probe", ["GetObject", "PutObject", "AbortMultipartUpload", *removes], probes)
    never = ["DeleteObject", "DeleteObjectVersion", "AbortMultipartUpload"]
    if not bucket.owns_whole_bucket:
        mine = [whole, *owned, probes, *_if(keeps, quarantine)]
        yield _statement("NothingElseGoes", "Deny", never, {"NotResource": mine})
    if bucket.protect:
        kept = [f"{whole}/{kept}{'*' if kept.endswith('/') else ''}" for kept in bucket.protect]
        yield _statement("ProtectedStays", "Deny", never, {"Resource": kept})


def _if(wanted: object, *actions: str) -> tuple[str, ...]:
    return actions if wanted else ()


def _pins(name: str, jobs: Iterable[str], *, aws: bool) -> Iterator[dict[str, Any]]:
    """A bucket that only keeps pins or archives: nothing in it is ever replaced or removed."""
    whole = f"arn:aws:s3:::{name}"
    yield _allow(
        "Look", ["ListBucket", "ListBucketVersions", "GetBucketObjectLockConfiguration"], whole
    )
    writes = any("chain" in BY_NAME[job].touches for job in jobs)
    puts = ["PutObject", "PutObjectRetention"] if writes else []
    reads = ["GetObject", "GetObjectVersion", "GetObjectRetention"]
    yield _allow("Pins", [*puts, *reads], f"{whole}/*")
    if writes and aws:
        # Ceph knows no such condition, and would refuse every pin; its versions keep the old one.
        only_new = {"Null": {"s3:if-none-match": "true"}}
        where = {"Resource": [f"{whole}/*"], "Condition": only_new}
        yield _statement("OnlyWhereNothingStands", "Deny", ["PutObject"], where)
    never = [
        "DeleteObject", "DeleteObjectVersion", "BypassGovernanceRetention",
        "PutBucketObjectLockConfiguration", "PutLifecycleConfiguration",
    ]  # fmt: skip
    yield _statement("NothingGoes", "Deny", never, {"Resource": [whole, f"{whole}/*"]})
