"""The two sides of an adoption, as they are: what the bucket says, and what the database says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from filejobs_dagster.door.guard import MarkerUnreadable
from filejobs_dagster.door.marker import (
    FOLDER,
    OLDER_KEY,
    DatabaseIdentity,
    Marker,
    list_markers,
    read_marker,
)
from filejobs_dagster.objects.deletion_mode import Abilities
from filejobs_dagster.objects.targets import apart
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.postgres.primary import ServerState, server_state

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg
    from mypy_boto3_s3 import S3Client
    from psycopg.rows import TupleRow
    from typing_extensions import Self

    from filejobs_dagster.objects.deletion_mode import ConditionalDelete
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import BucketSettings, Settings

AWS = "AWS"
"""What stands for the endpoint where the settings name none."""

_ROW = """
SELECT installation, environment, counter, adopted_at, adopted_by, timeline,
       conditional_delete, probed_at, probed_server, server
  FROM bucket_adoption
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
"""


@dataclass(frozen=True)
class AdoptionTarget:
    """A bucket and a database that may belong together.

    Attributes:
        client: From `make_client`.
        bucket: Its name on the server.
        endpoint: The server's address as the settings have it; None for AWS.
        installation: From the settings.
        environment: From the settings; None when they name none.
        owns: The prefixes of the bucket that they own, by all entries that lead to it; the empty
            one is the whole bucket.
        older_keys: Where an older version may have kept the marker.
        database: Where the project's tables are.
        connection: An open connection to it, outside a transaction.
    """

    client: S3Client
    bucket: str
    endpoint: str | None
    installation: str
    environment: str | None
    owns: tuple[str, ...]
    database: Database
    connection: Connection
    older_keys: tuple[str, ...] = (OLDER_KEY,)

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
        entries = [
            entry
            for entry in settings.buckets.values()
            if entry.server_and_name == bucket.server_and_name
        ]
        older = {entry.marker for entry in entries if entry.marker is not None}
        return cls(
            client=client,
            bucket=bucket.bucket,
            endpoint=bucket.endpoint_url,
            installation=settings.installation,
            environment=settings.environment,
            owns=tuple(apart([prefix for entry in entries for prefix in entry.owned_prefixes])),
            database=database,
            connection=connection,
            older_keys=(*sorted(older - {OLDER_KEY}), OLDER_KEY),
        )

    @property
    def marker_key(self) -> str:
        """Where this installation's marker is, whatever is configured."""
        return f"{FOLDER}{self.installation}.json"

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
        timeline: On which it counted last; None where that is not known.
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
    timeline: int | None
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
        server: The server that it is on.
        marker: What the bucket says of this installation; None when it says nothing.
        others: The markers of other installations.
        unreadable: Why a marker could not be read, else None.
        row: What the database says; None when it says nothing.
    """

    identity: DatabaseIdentity
    server: ServerState
    marker: Marker | None
    others: tuple[Marker, ...]
    unreadable: str | None
    row: Row | None


def inspect(place: AdoptionTarget) -> Inspection:
    """Read both sides, and judge nothing.

    The bucket first: a run that counts meanwhile raises the database before the marker, so that
    the marker that was read can be behind the row, and never ahead of it.

    Raises:
        psycopg.Error: The database would not say.
    """
    markers: tuple[Marker | None, tuple[Marker, ...]] = (None, ())
    unreadable = None
    try:
        markers = _markers(place)
    except MarkerUnreadable as error:
        unreadable = str(error)
    with place.database.transaction(place.connection, read_only=True) as cursor:
        server = server_state(cursor)
        (name,) = one(cursor.execute("SELECT current_database()"))
        row = row_of(cursor, place)
    identity = DatabaseIdentity(server.system_identifier, name, place.database.schema)
    return Inspection(identity, server, *markers, unreadable, row)


def _markers(place: AdoptionTarget) -> tuple[Marker | None, tuple[Marker, ...]]:
    """This installation's marker, and those of all others.

    One that an older version wrote counts until its installation has one at the fixed place.

    Raises:
        MarkerUnreadable: One of them could not be read, whosever it is.
    """
    listed = list_markers(place.client, place.bucket)
    found = [
        marker
        # A key of the operator's own choice is not found by a listing.
        for key in (*listed, *(key for key in place.older_keys if key != OLDER_KEY))
        if (marker := read_marker(place.client, place.bucket, key)) is not None
    ]
    moved = {marker.installation for marker in found if marker.key.startswith(FOLDER)}
    valid = [
        marker
        for marker in found
        if marker.key not in place.older_keys or marker.installation not in moved
    ]
    ours = [
        marker
        for marker in valid
        if marker.key == place.marker_key
        or (marker.key in place.older_keys and marker.installation == place.installation)
    ]
    others = tuple(marker for marker in valid if marker not in ours)
    return max(ours, key=lambda marker: marker.counter, default=None), others


def row_of(cursor: psycopg.Cursor[TupleRow], place: AdoptionTarget) -> Row | None:
    """What the database says of a bucket; None when it says nothing."""
    cursor.execute(_ROW, place.row_key)
    found = cursor.fetchone()
    return None if found is None else Row(*found)
