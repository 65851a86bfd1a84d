"""The operator's buckets as Dagster resources.

They take no run config, unlike dagster-aws's S3Resource. Whatever the Launchpad can set, somebody
sets: another bucket's name, or a secret that Dagster then stores and shows.
"""

import re
from typing import TYPE_CHECKING

import dagster as dg

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.settings import BucketSettings, Settings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def resource_key(entry: str) -> str:
    """The key under which Dagster knows a bucket of the settings."""
    return "bucket_" + re.sub(r"\W", "_", entry)


def bucket_resources(settings: Settings) -> dict[str, dg.ResourceDefinition]:
    """One resource for each bucket of the settings: an S3 client."""
    return {
        resource_key(entry): _bucket_resource(entry, bucket)
        for entry, bucket in settings.buckets.items()
    }


def _bucket_resource(entry: str, bucket: BucketSettings) -> dg.ResourceDefinition:
    def client(_: dg.InitResourceContext) -> "S3Client":
        return make_client(bucket)

    return dg.ResourceDefinition(
        resource_fn=client, config_schema={}, description=_description(entry, bucket)
    )


def _description(entry: str, bucket: BucketSettings) -> str:
    """Where the bucket is and where its keys come from: names of variables, never values."""
    secrets = (bucket.access_key_id, bucket.secret_access_key, bucket.session_token)
    variables = [secret.env for secret in secrets if secret is not None]
    credentials = ", ".join(variables) or "botocore's own credential chain"
    owned = "the whole bucket" if bucket.owns_whole_bucket else ", ".join(bucket.owns)
    return (
        f"S3 client for `buckets.{entry}` of filejobs.yaml: bucket {bucket.bucket} at "
        f"{bucket.endpoint_url or 'AWS'}, credentials from {credentials}. Owned: {owned}."
    )
