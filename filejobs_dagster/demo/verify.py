"""What must be true after the live run, looked up in the database and in the bucket."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.demo.configuration import BUCKET
from filejobs_dagster.demo.failure import DemoFailed
from filejobs_dagster.embedded.s3 import S3Endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable
    from uuid import UUID

    from filejobs_dagster.demo.clients import Answers
    from filejobs_dagster.demo.feature import Feature, FileRow
    from filejobs_dagster.demo.servers import Servers


@dataclass(frozen=True)
class Checked:
    """What was looked at; every number is of files or objects that are as they must be.

    Attributes:
        completed: Uploads that were promised to a client: row ready, bytes there.
        refused: Uploads that a client was refused: no row any more.
        others: Rows that no collector may touch, with their bytes where they had any.
        orphans: Objects without a row, which this job leaves alone.
        collected: Expired reservations that are gone, with their bytes.
    """

    completed: int
    refused: int
    others: int
    orphans: int
    collected: int


def verify(servers: Servers, feature: Feature, answers: Answers) -> Checked:
    """Compare database and bucket with what was promised.

    Raises:
        DemoFailed: Something was lost, or is still there and must not be.
    """
    states = _states(servers)
    stored = _stored(servers)
    promised = {row.id for row in answers.completed}
    expired = {row.id for row in feature.expired}
    others = [row for row in feature.rows if row.id not in expired]
    collected = [row for row in feature.expired if row.id not in promised]
    _require(
        "every upload that was promised to a client",
        (
            row
            for row in answers.completed
            if states.get(row.id) != "ready" or stored.get(row.storage_key) != row.size_bytes
        ),
    )
    _require(
        "every file and every live reservation, untouched",
        (
            row
            for row in others
            if states.get(row.id) != row.state
            or stored.get(row.storage_key) != feature.objects.get(row.storage_key)
        ),
    )
    _require(
        "no expired reservation and none of its bytes",
        (row for row in collected if row.id in states or row.storage_key in stored),
    )
    lost_orphans = [key for key in feature.orphans if key not in stored]
    if lost_orphans:
        raise _broken("every orphan, which is another job's work", lost_orphans)
    return Checked(
        completed=len(answers.completed),
        refused=len(answers.refused),
        others=len(others),
        orphans=len(feature.orphans),
        collected=len(collected),
    )


def _states(servers: Servers) -> dict[UUID, str]:
    with psycopg.connect(servers.database_url) as connection:
        return dict(connection.execute("SELECT id, state FROM file").fetchall())


def _stored(servers: Servers) -> dict[str, int]:
    """Every object of the bucket, with its size in bytes."""
    pages = S3Endpoint(servers.s3_endpoint).client().get_paginator("list_objects_v2")
    return {
        entry["Key"]: entry["Size"]
        for page in pages.paginate(Bucket=BUCKET)
        for entry in page.get("Contents", [])
    }


def _require(what: str, wrong: Iterable[FileRow]) -> None:
    keys = [row.storage_key for row in wrong]
    if keys:
        raise _broken(what, keys)


def _broken(what: str, keys: list[str]) -> DemoFailed:
    return DemoFailed(
        f"to find {what}",
        f"{len(keys)} are not as they must be, for example {keys[0]!r}",
        "please report this with the folder `logs`: it is exactly what must never happen",
    )
