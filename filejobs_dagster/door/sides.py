"""The two sides of an adoption, as they are: what the bucket says, and what the database says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from filejobs_dagster.door.marker import DatabaseIdentity, Marker, read_marker
from filejobs_dagster.door.refusals import MarkerUnreadable
from filejobs_dagster.objects.manner import Abilities
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg
    from mypy_boto3_s3 import S3Client
    from psycopg.rows import TupleRow
    from typing_extensions import Self

    from filejobs_dagster.objects.manner import ConditionalDelete
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import BucketSettings, Settings

AWS = "AWS"
"""What stands for the endpoint where the settings name none."""

_ROW = """
SELECT installation, environment, counter, adopted_at, adopted_by,
       conditional_delete, probed_at, probed_server, server
  FROM bucket_adoption
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
"""


@dataclass(frozen=True)
class Place:
    """A bucket and a database that may belong together.

    Attributes:
        client: From `make_client`.
        bucket: Its name on the server.
        endpoint: The server's address as the settings have it; None for AWS.
        marker_key: Where the marker is, outside the owned prefixes.
        installation: From the settings.
        environment: From the settings; None when they name none.
        database: Where the project's tables are.
        connection: An open connection to it, outside a transaction.
    """

    client: S3Client
    bucket: str
    endpoint: str | None
    marker_key: str
    installation: str
    environment: str | None
    database: Database
    connection: Connection

    @classmethod
    def of(
        cls,
        settings: Settings,
        bucket: BucketSettings,
        client: S3Client,
        database: Database,
        connection: Connection,
    ) -> Self:
        """What the settings say of one bucket."""
        return cls(
            client=client,
            bucket=bucket.bucket,
            endpoint=bucket.endpoint_url,
            marker_key=bucket.marker,
            installation=settings.installation,
            environment=settings.environment,
            database=database,
            connection=connection,
        )

    @property
    def row_key(self) -> dict[str, str]:
        """What the row of the adoption is found by."""
        return {"endpoint": self.endpoint or AWS, "bucket": self.bucket}


@dataclass(frozen=True)
class Row:
    """What the database says of a bucket.

    Attributes:
        installation: That adopted it.
        environment: At that time.
        counter: See the module.
        adopted_at: With its time zone.
        adopted_by: User and host.
        conditional_delete: What the probe found (see `ConditionalDelete`), or None.
        probed_at: When, or None.
        probed_server: How the server called itself then.
        server: What else the probe found; see `Abilities`.
    """

    installation: str
    environment: str | None
    counter: int
    adopted_at: datetime
    adopted_by: str
    conditional_delete: ConditionalDelete | None
    probed_at: datetime | None
    probed_server: str | None
    server: dict[str, Any] | None = None

    @property
    def abilities(self) -> Abilities | None:
        """What is known of the server; None when nobody has tried it."""
        if self.server is None:
            return None
        return Abilities(conditional=self.conditional_delete, **self.server)


@dataclass(frozen=True)
class Inspection:
    """Both sides, as they are.

    Attributes:
        identity: The database that is connected.
        marker: What the bucket says; None when it says nothing.
        unreadable: Why the marker could not be read, else None.
        row: What the database says; None when it says nothing.
    """

    identity: DatabaseIdentity
    marker: Marker | None
    unreadable: str | None
    row: Row | None


def inspect(place: Place) -> Inspection:
    """Read both sides, and judge nothing.

    The bucket first: a run that counts meanwhile raises the database before the marker, so that
    the marker that was read can be behind the row, and never ahead of it.

    Raises:
        psycopg.Error: The database would not say.
    """
    marker, unreadable = None, None
    try:
        marker = read_marker(place.client, place.bucket, place.marker_key)
    except MarkerUnreadable as error:
        unreadable = str(error)
    with place.database.transaction(place.connection, read_only=True) as cursor:
        identity = _identity(cursor, place.database.schema)
        row = row_of(cursor, place)
    return Inspection(identity, marker, unreadable, row)


def _identity(cursor: psycopg.Cursor[TupleRow], schema: str) -> DatabaseIdentity:
    cursor.execute("SELECT system_identifier::text, current_database() FROM pg_control_system()")
    identifier, name = one(cursor)
    return DatabaseIdentity(identifier, name, schema)


def row_of(cursor: psycopg.Cursor[TupleRow], place: Place) -> Row | None:
    """What the database says of a bucket; None when it says nothing."""
    cursor.execute(_ROW, place.row_key)
    found = cursor.fetchone()
    return None if found is None else Row(*found)
