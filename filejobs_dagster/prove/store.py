"""A bucket whose objects can be seen with the claims' own eyes."""

from __future__ import annotations

import uuid
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guard import DatabaseRestored
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import BucketSettings, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.door.guard import Guard
    from filejobs_dagster.embedded.s3 import S3Endpoint
    from filejobs_dagster.postgres.connect import Database

INSTALLATION = "prove"
PREFIX = "files/"
MIN_AGE = timedelta(days=2)


@dataclass(frozen=True)
class Store:
    """One bucket.

    Attributes:
        name: The bucket.
        client: A client of its server.
        settings: The bucket as `filejobs.yaml` would describe it.
    """

    name: str
    client: S3Client
    settings: BucketSettings

    @classmethod
    def create(cls, server: S3Endpoint) -> Store:
        """Make a new bucket."""
        store = cls.open(server, f"prove-{uuid.uuid4().hex[:12]}")
        store.client.create_bucket(Bucket=store.name)
        return store

    @classmethod
    def open(cls, server: S3Endpoint, name: str) -> Store:
        """Use a bucket that is there already."""
        settings = BucketSettings(
            bucket=name,
            endpoint_url=server.endpoint_url,
            owns=[PREFIX],
            min_age=MIN_AGE,
            delete="at_once",
        )
        return cls(name, server.client(), settings)

    def door(self, job: str, guards: Sequence[Guard] | None = None) -> Door:
        """What a live run of a job must prove before it deletes from this bucket.

        Args:
            job: Its name.
            guards: All there are; None for those of the house.
        """
        return Door(BY_NAME[job], self._all, self.client, entry="prove", guards=guards)

    @property
    def _all(self) -> Settings:
        settings: Settings = Settings.model_construct(
            installation=INSTALLATION, environment=None, buckets={"prove": self.settings}
        )  # type: ignore[call-arg]  # the door asks for nothing else
        return settings

    def adopt(self, database: Database) -> None:
        """Write the marker that lets runs on this database delete from the bucket.

        Where bucket and database do not belong together any more, that is left for the run to say.
        """
        with database.connect("adopt") as connection, suppress(DatabaseRestored):
            adopt(
                AdoptionTarget.of(self._all, self.settings, self.client, database, connection),
                by="filejobs prove",
            )

    @contextmanager
    def dated_by(self, date: Callable[[], str]) -> Iterator[None]:
        """Let the server say another time of day than its own (`Date`)."""

        def say(parsed: dict[str, Any], **_event: object) -> None:
            parsed["ResponseMetadata"]["HTTPHeaders"]["date"] = date()

        events = self.client.meta.events
        events.register("after-call.s3.HeadBucket", say)
        try:
            yield
        finally:
            events.unregister("after-call.s3.HeadBucket", say)

    def put(self, key: str, body: bytes) -> None:
        """Upload an object."""
        self.client.put_object(Bucket=self.name, Key=key, Body=body)

    def head(self, key: str) -> str:
        """What HeadObject says: `200, 11 bytes` or `404`."""
        try:
            found = self.client.head_object(Bucket=self.name, Key=key)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status != 404:  # noqa: PLR2004 (an absent object, as HTTP says it)
                raise
            return "404, gone"
        return f"200, {found['ContentLength']} bytes"

    def has(self, key: str) -> bool:
        """Whether the object is there."""
        return self.head(key).startswith("200")
