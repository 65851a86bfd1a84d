"""The operator's database and buckets as Dagster resources.

A resource shows the name of the environment variable that holds a secret, never its value.
"""

import re
from typing import Any

import dagster as dg
from dagster_aws.s3 import S3Resource
from pydantic import Field

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.settings import BucketSettings, Secret, Settings


class BucketResource(S3Resource):
    """One bucket of `filejobs.yaml`.

    dagster-aws brings the configuration and how it is shown; the client is the project's own,
    with its retries, time limits and checksums.
    """

    bucket: str = Field(description="The bucket's name.")
    entry: str = Field(description="The name that filejobs.yaml gives it.")

    _settings: BucketSettings | None = None

    def get_client(self) -> Any:
        """A client for the bucket, made from the settings."""
        if self._settings is None:
            return super().get_client()
        return make_client(self._settings)


def resource_key(entry: str) -> str:
    """The key under which Dagster knows a bucket of the settings."""
    return "bucket_" + re.sub(r"\W", "_", entry)


def bucket_resources(settings: Settings) -> dict[str, BucketResource]:
    """One resource for each bucket of the settings."""
    resources = {}
    for entry, bucket in settings.buckets.items():
        resource = BucketResource(
            entry=entry,
            bucket=bucket.bucket,
            endpoint_url=bucket.endpoint_url,
            region_name=bucket.region,
            max_attempts=bucket.max_attempts,
            aws_access_key_id=_variable(bucket.access_key_id),
            aws_secret_access_key=_variable(bucket.secret_access_key),
            aws_session_token=_variable(bucket.session_token),
        )
        resource._settings = bucket  # noqa: SLF001 (kept out of the config that Dagster shows)
        resources[resource_key(entry)] = resource
    return resources


def _variable(secret: Secret | None) -> Any:
    return None if secret is None else dg.EnvVar(secret.env)
