"""What keeps a claim from a row that another table has just come to need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.doctor.reservations import check_guard
from tests.own_tables import example, schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.doctor.finding import Finding

SOURCE = example("active_storage_blobs")["jobs"]["upload_reservations"]["source"]
ATTACHMENTS = "public.active_storage_attachments"
KEY = "active_storage_attachments_blob_id_fkey"


@pytest.fixture
def rails(empty_database_url: str) -> Iterator[psycopg.Cursor]:
    with psycopg.connect(empty_database_url) as connection, connection.cursor() as cursor:
        cursor.execute(schema("CREATE TABLE active_storage_blobs").encode())
        yield cursor


def guard(cursor: psycopg.Cursor, claim: str = SOURCE["claim"]) -> Finding:
    finding = check_guard("rails", SOURCE["candidates"], claim, cursor)
    assert finding is not None
    return finding


def test_the_foreign_keys_of_rails_are_found(rails: psycopg.Cursor) -> None:
    finding = guard(rails)
    assert (finding.check, finding.verdict) == ("rails guard", "ok")
    assert ATTACHMENTS in finding.found


def test_a_table_without_its_foreign_key_is_named(rails: psycopg.Cursor) -> None:
    rails.execute(f"ALTER TABLE {ATTACHMENTS} DROP CONSTRAINT {KEY}".encode())
    finding = guard(rails)
    assert finding.verdict == "warning"
    assert f"{ATTACHMENTS} (no foreign key)" in finding.found
    assert "variant" not in finding.found


@pytest.mark.parametrize("action", ["CASCADE", "SET NULL"])
def test_a_foreign_key_that_gives_way_is_no_guard(rails: psycopg.Cursor, action: str) -> None:
    rails.execute(
        f"ALTER TABLE {ATTACHMENTS} DROP CONSTRAINT {KEY}, ADD FOREIGN KEY (blob_id)"
        f" REFERENCES active_storage_blobs ON DELETE {action}".encode()
    )
    assert "deletes or changes its rows" in guard(rails).found


def test_a_foreign_key_does_not_refuse_an_update(rails: psycopg.Cursor) -> None:
    claim = (
        "update public.active_storage_blobs set service_name = 'gone' where id = any($1)"
        " returning key"
    )
    finding = guard(rails, claim)
    assert finding.verdict == "warning"
    assert "UPDATE" in finding.found


def test_predicates_about_the_row_alone_need_no_guard(rails: psycopg.Cursor) -> None:
    source = example("public.documents")["jobs"]["upload_reservations"]["source"]
    assert check_guard("documents", source["candidates"], source["claim"], rails) is None
