"""The marker on a real server: its conditions, its rights, and what a policy hides."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door.adoption import AdoptionTarget, adopt, check, raise_counter
from filejobs_dagster.door.guard import MarkerNotWritten, MarkerTaken, MarkerUnreadable, NotAdopted
from filejobs_dagster.door.marker import read_marker, replace_marker, write_new_marker
from filejobs_dagster.postgres.connect import Database
from tests.conformance.gateway import listed, set_policy, statement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

KEY = "filejobs-adopted/acme.json"


@pytest.fixture
def place(owner: S3Client, bucket: str, database_url: str) -> Iterator[AdoptionTarget]:
    database = Database(database_url)
    with database.connect("test") as connection:
        yield AdoptionTarget(
            owner, bucket, "http://ceph", "acme", None, ("files/",), database, connection
        )


def test_a_bucket_is_adopted_and_every_live_run_counts(place: AdoptionTarget) -> None:
    with pytest.raises(NotAdopted):
        check(place)
    adopted = adopt(place, by="ada@desk")
    assert adopt(place, by="bob@laptop") == adopted
    assert raise_counter(place, adopted).marker.counter == 2
    assert check(place).row.counter == 2
    assert listed(place.client, place.bucket) == [KEY]


def test_a_marker_is_not_written_over_another_that_was_not_read(place: AdoptionTarget) -> None:
    adopted = adopt(place, by="ada@desk").marker
    other = replace(adopted, installation="globex")
    with pytest.raises(MarkerTaken):
        write_new_marker(place.client, place.bucket, KEY, other)
    with pytest.raises(MarkerTaken):
        replace_marker(place.client, place.bucket, KEY, other, replace(adopted, etag="0" * 32))
    assert read_marker(place.client, place.bucket, KEY) == adopted


def test_a_marker_that_a_policy_hides_is_not_taken_for_none(
    place: AdoptionTarget, guest: S3Client
) -> None:
    there = replace(place, client=guest)
    for allowed in ([], ["GetObject"]):
        if allowed:
            set_policy(
                place.client,
                place.bucket,
                statement(place.bucket, "Allow", allowed, ["/*"]),
            )
        # Without the right to list, absent and forbidden look alike.
        with pytest.raises(MarkerUnreadable, match="s3:ListBucket"):
            adopt(there, by="eve")
    adopt(place, by="ada@desk")
    with pytest.raises(MarkerUnreadable, match="s3:ListBucket"):
        check(there)
    set_policy(
        place.client,
        place.bucket,
        statement(place.bucket, "Allow", ["GetObject", "ListBucket"], ["", "/*"]),
    )
    assert check(there).marker.installation == "acme"


def test_whoever_may_not_write_the_marker_is_told_so(
    place: AdoptionTarget, guest: S3Client
) -> None:
    set_policy(
        place.client,
        place.bucket,
        statement(place.bucket, "Allow", ["GetObject", "ListBucket"], ["", "/*"]),
    )
    with pytest.raises(MarkerNotWritten, match="s3:PutObject"):
        adopt(replace(place, client=guest), by="eve")
