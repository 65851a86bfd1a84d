"""The odd keys again, as objects of a server that is listed and as rows that PostgreSQL returns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans.classification import Rules, classify
from filejobs_dagster.objects.listing import list_objects
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.unknown import ReferencesUnknown
from tests.jobs.storage_orphans.classification.worlds import World, kinds_of, rewrites
from tests.jobs.storage_orphans.odd_keys import (
    ODD_KEYS,
    OWNED,
    PROTECT,
    REFERENCED,
    REWRITES,
    ROWS,
    taken_by_moto,
)

if TYPE_CHECKING:
    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.streams import Scratch

FAR_FUTURE = 10_000_000_000_000
STORED = [odd for odd in ODD_KEYS if taken_by_moto(odd)]


@dataclass(frozen=True)
class SourceForTests:
    name: str
    sql: str
    min_rows: int = 1


@pytest.fixture
def stored_bucket(bucket: str, s3_client: S3Client) -> str:
    def put(key: bytes) -> None:
        s3_client.put_object(Bucket=bucket, Key=key.decode(), Body=b"x")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(put, (odd.key for odd in STORED)))
    return bucket


def test_odd_keys_that_are_stored_and_listed_are_in_the_same_classes(
    stored_bucket: str, s3_client: S3Client, connection: psycopg.Connection,
    database_url: str, scratch: Scratch,
) -> None:  # fmt: skip
    connection.execute("CREATE TABLE asset (path text)")
    own, of_source = ROWS[::2], ROWS[1::2]
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO file (storage_key) VALUES (%s)", [(row,) for row in dict.fromkeys(own)]
        )
        cursor.executemany("INSERT INTO asset VALUES (%s)", [(row,) for row in of_source])
    listed = list_objects(s3_client, stored_bucket, [OWNED], parts=4, scratch=scratch)
    references = BulkReferences(
        Database(database_url), [SourceForTests("assets", "select path from asset")],
        scratch=scratch,
    ).read()  # fmt: skip
    rules = Rules(
        owned=(OWNED.encode(),),
        protect=tuple(entry.encode() for entry in PROTECT),
        rewrites=rewrites(*REWRITES),
        bucket=b"bucket",
    )
    found = classify(listed, references, rules, FAR_FUTURE, scratch)
    assert found.objects == len(STORED)
    kinds = kinds_of(found)
    expected = {odd.key: odd.kind for odd in STORED}
    assert {key: kind for key, kind in kinds.items() if kind != REFERENCED} == {
        key: kind for key, kind in expected.items() if kind != REFERENCED
    }
    assert found.classes[REFERENCED].count == list(expected.values()).count(REFERENCED)


THIRD_PAGE = (
    "select case when n < 25000 then 'files/' || n else (1 / (n - 25000))::text end "
    "from generate_series(1, 50000) as n"
)


def test_a_source_that_fails_on_its_third_page_leaves_nothing_to_classify(
    database_url: str, scratch: Scratch
) -> None:
    bulk = BulkReferences(
        Database(database_url), [SourceForTests("assets", THIRD_PAGE)], scratch=scratch
    )
    with pytest.raises(ReferencesUnknown, match="'assets'"):
        bulk.read()


def test_control_a_part_of_the_references_makes_orphans_of_the_rest(scratch: Scratch) -> None:
    """What a reader that takes the failed read for the end of the data would conclude."""
    keys = [f"files/{number:05}" for number in range(500)]
    partial = World.of(keys, keys[:200]).classify(scratch)
    assert partial.classes["orphan"].count == 300
    assert World.of(keys, keys).classify(scratch).classes["orphan"].count == 0
