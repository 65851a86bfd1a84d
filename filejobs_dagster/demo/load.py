"""Loading the file feature: rows with COPY, objects with threads, audit events in one call."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.audit.append import append
from filejobs_dagster.demo.configuration import BUCKET
from filejobs_dagster.demo.feature import invent
from filejobs_dagster.door.adoption import Place, adopt
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.clock import database_now
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.demo.feature import Amounts, Feature
    from filejobs_dagster.demo.servers import Servers
    from filejobs_dagster.settings import Settings

APPLICATION_CHAIN = "files"
THREADS = 4
"""More are no faster: the S3 server is one process."""

OBJECTS_BETWEEN_NEWS = 500

COPY = """
COPY file (id, state, storage_key, size_bytes, created_at, upload_expires_at, completed_at,
           deleted_at, retain_until)
FROM STDIN
"""


def load_rows(servers: Servers, amounts: Amounts) -> Feature:
    """Make up the file feature, store its rows and its audit events.

    Args:
        servers: Where.
        amounts: How many of each.

    Raises:
        psycopg.Error: The tables are not there, or not empty.
    """
    with psycopg.connect(servers.database_url) as connection, connection.cursor() as cursor:
        feature = invent(database_now(cursor), amounts)
        with cursor.copy(COPY) as copy:
            for row in feature.rows:
                copy.write_row(astuple(row))
        append(cursor, feature.events, chain=APPLICATION_CHAIN)
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    return feature


def adopt_bucket(settings: Settings) -> None:
    """As `filejobs bucket adopt` does: the marker, and its other half in the database."""
    database = Database.of(settings.database)
    bucket = settings.buckets["uploads"]
    with database.connect("demo") as connection:
        adopt(
            Place.of(settings, bucket, make_client(bucket), database, connection),
            by="filejobs demo",
        )


def store_objects(servers: Servers, feature: Feature, news: Callable[[int], None]) -> None:
    """Store the objects, each with its size in bytes of the same letter.

    Args:
        servers: Where.
        feature: Which.
        news: Called with how many are stored, now and then.

    Raises:
        botocore.exceptions.ClientError: The server refused one.
    """
    client = S3Endpoint(servers.s3_endpoint).client()
    client.create_bucket(Bucket=BUCKET)

    def store(entry: tuple[str, int]) -> None:
        key, size = entry
        client.put_object(Bucket=BUCKET, Key=key, Body=b"x" * size)

    with ThreadPoolExecutor(THREADS) as threads:
        for count, _ in enumerate(threads.map(store, feature.objects.items()), start=1):
            if count % OBJECTS_BETWEEN_NEWS == 0:
                news(count)
