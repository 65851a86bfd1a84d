"""The calls of an application: what they answer, and what odd arguments come to."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.rows import dict_row

from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.own_tables import OWN_TABLES
from filejobs_dagster.streams import Scratch
from filejobs_dagster.uploads import NoSuchUpload, Uploads
from tests.uploads.rows import STATES, attachments, change, column, in_state

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client


# Endings


def test_three_endings_leave_one_visible_attachment_and_a_row_for_every_object(
    connection: psycopg.Connection, s3_client: S3Client, bucket: str
) -> None:
    uploads = Uploads(connection)
    published, cancelled, lost = (uploads.begin("files/", ".txt") for _ in range(3))
    for begun in (published, cancelled, lost):
        put = s3_client.put_object(Bucket=bucket, Key=begun.key, Body=b"what I wrote")
        if begun is not lost:
            assert uploads.mark_stored(begun.id, etag=put["ETag"], size_bytes=12) == "stored"
    attachment = uploads.publish(published.id, "message 1")
    assert uploads.cancel(cancelled.id) == "cleanup"
    assert uploads.mark_uncertain(lost.id, "read timed out") == "uncertain"

    assert attachments(connection) == [published.id]
    assert [uploads.state(begun.id) for begun in (published, cancelled, lost)] == [
        "ready",
        "cleanup",
        "uncertain",
    ]
    # What was stored is stored as it was: the row has the identity of the object.
    head = s3_client.head_object(Bucket=bucket, Key=published.key)
    assert column(connection, published.id, "etag") == head["ETag"].strip('"')
    assert column(connection, published.id, "size_bytes") == head["ContentLength"] == 12
    # Nobody but the collector forgets an object: each is still named.
    listed = s3_client.list_objects_v2(Bucket=bucket)["Contents"]
    assert set(ReferenceCheck(connection).named([each["Key"] for each in listed])) == {
        begun.key for begun in (published, cancelled, lost)
    }
    # An ending that came too late changes nothing, and says so.
    assert uploads.cancel(published.id) == "ready"
    assert uploads.publish(cancelled.id, "message 1") is None
    assert uploads.publish(lost.id, "message 1") is None
    assert attachments(connection) == [published.id]

    assert attachment is not None
    assert uploads.remove_attachment(attachment) is True
    assert uploads.remove_attachment(attachment) is False
    assert uploads.state(published.id) == "cleanup"
    assert attachments(connection) == []


def test_a_cancel_while_writing_is_remembered_and_honoured_when_the_writer_ends(
    connection: psycopg.Connection,
) -> None:
    uploads = Uploads(connection)
    begun = uploads.begin("files/")
    assert uploads.touch(begun.id) is True
    assert uploads.cancel(begun.id) == "writing"
    first = column(connection, begun.id, "cancel_requested_at")
    assert uploads.cancel(begun.id) == "writing"
    assert column(connection, begun.id, "cancel_requested_at") == first
    # The writer hears of it, and what it began at the storage is noted all the same.
    assert uploads.touch(begun.id) is False
    assert uploads.record_upload_id(begun.id, "multipart 1") is False
    assert column(connection, begun.id, "upload_id") == "multipart 1"
    assert uploads.mark_stored(begun.id, etag="e", version_id="v", size_bytes=1) == "cleanup"
    assert column(connection, begun.id, "(etag, version_id, size_bytes)::text") == "(e,v,1)"
    assert uploads.publish(begun.id, "message 1") is None
    assert uploads.mark_stored(begun.id, etag="e") == "cleanup"


def test_a_cancel_while_uncertain_is_remembered_and_a_writer_may_still_end_it(
    connection: psycopg.Connection,
) -> None:
    uploads = Uploads(connection)
    cancelled, kept = in_state(connection, "uncertain"), in_state(connection, "uncertain")
    assert uploads.cancel(cancelled) == "uncertain"
    assert uploads.mark_stored(cancelled) == "cleanup"
    assert uploads.touch(kept) is False
    assert uploads.mark_uncertain(kept, "another reason") == "uncertain"
    assert column(connection, kept, "uncertain_reason") == "the connection broke"
    assert uploads.mark_stored(kept) == "stored"


def test_every_call_may_be_repeated_after_a_lost_answer(connection: psycopg.Connection) -> None:
    uploads = Uploads(connection)
    begun = uploads.begin("files/")
    assert uploads.record_upload_id(begun.id, "multipart 1") is True
    assert uploads.record_upload_id(begun.id, "multipart 1") is True
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="already has") as no:
        uploads.record_upload_id(begun.id, "multipart 2")
    assert "Abort the new one" in str(no.value.diag.message_hint)
    assert uploads.mark_stored(begun.id, etag='"first"') == "stored"
    assert uploads.mark_stored(begun.id, etag='"second"') == "stored"
    assert column(connection, begun.id, "etag") == "first"
    attachment = uploads.publish(begun.id, "message 1")
    assert attachment is not None
    assert uploads.publish(begun.id, "message 1") == attachment
    assert uploads.publish(begun.id, "message 2") is None
    assert uploads.mark_stored(begun.id) == uploads.cancel(begun.id) == "ready"
    assert attachments(connection) == [begun.id]


def test_uploads_that_nobody_published_are_found_and_publish_still_wins(
    connection: psycopg.Connection,
) -> None:
    uploads = Uploads(connection)
    forgotten, late, _fresh = (in_state(connection, "stored") for _ in range(3))
    change(connection, forgotten, "stored_at = stored_at - interval '3 days'")
    change(connection, late, "stored_at = stored_at - interval '2 days'")
    found = uploads.left_stored(longer_than=timedelta(days=1))
    assert [each.id for each in found] == [forgotten, late]
    assert found[0].key == f"files/{forgotten}"
    assert uploads.left_stored(longer_than=timedelta(days=1), limit=1) == found[:1]
    assert uploads.publish(late, "message 1")
    assert [uploads.cancel(each.id) for each in found] == ["cleanup", "ready"]


# Arguments


PREFIXES = (
    "", "/", "files", "/files/", "files//", "a//b/", "./", "../", "a/./", "a/../b/", "a\n/",
    "a\x7f/", None, "f" * 988 + "/", "\u00e9" * 494 + "/",
)  # fmt: skip
SUFFIXES = ("/", "a/", "//a", "/.", "/..", "/../a", "a\r", None, "s" * 983)


def test_what_makes_no_lasting_key_is_refused_with_a_word_on_what_does(
    connection: psycopg.Connection,
) -> None:
    pairs: list[tuple[Any, Any]] = [(prefix, "") for prefix in PREFIXES]
    pairs += [("files/", suffix) for suffix in SUFFIXES]
    for prefix, suffix in pairs:
        with pytest.raises(psycopg.errors.InvalidParameterValue) as no:
            Uploads(connection).begin(prefix, suffix)
        assert no.value.diag.message_hint
        # Not by the function alone.
        with pytest.raises(psycopg.IntegrityError):
            connection.execute(
                "INSERT INTO upload (key_prefix, key_suffix) VALUES (%s, %s)", (prefix, suffix)
            )
    assert connection.execute("SELECT count(*) FROM upload").fetchone() == (0,)


KEPT = (
    ("files/", ""), ("a/b c/.d/", ".pdf"), ("\u00e9/", "/r\u00e9sum\u00e9.pdf"), (".../", "."),
    ("a+b/%2F/", "/a/b"), ("f" * 987 + "/", ""), ("files/", "s" * 982),
)  # fmt: skip


def test_a_key_is_prefix_id_and_suffix_byte_for_byte(
    connection: psycopg.Connection, s3_client: S3Client, bucket: str
) -> None:
    begun = {Uploads(connection).begin(*pair): pair for pair in KEPT}
    for upload, (prefix, suffix) in begun.items():
        assert upload.key == f"{prefix}{upload.id}{suffix}"
        assert column(connection, upload.id, "storage_key") == upload.key
        assert len(upload.key.encode()) <= 1024
        s3_client.put_object(Bucket=bucket, Key=upload.key, Body=b"x")
    listed = [each["Key"] for each in s3_client.list_objects_v2(Bucket=bucket)["Contents"]]
    assert set(ReferenceCheck(connection).named(listed)) == {upload.key for upload in begun}
    assert len(listed) == len(KEPT)


def test_an_upload_that_is_not_there_is_said_so(connection: psycopg.Connection) -> None:
    uploads = Uploads(connection)
    for upload in (uuid.uuid4(), None):
        nobody: Any = upload
        for call in (
            lambda nobody=nobody: uploads.mark_stored(nobody),
            lambda nobody=nobody: uploads.mark_uncertain(nobody, "why"),
            lambda nobody=nobody: uploads.cancel(nobody),
            lambda nobody=nobody: uploads.touch(nobody),
            lambda nobody=nobody: uploads.record_upload_id(nobody, "multipart 1"),
            lambda nobody=nobody: uploads.state(nobody),
        ):
            with pytest.raises(NoSuchUpload, match="There is no upload"):
                call()
        assert uploads.publish(nobody, "message 1") is None
        assert uploads.remove_attachment(nobody) is False


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_where_a_name_belongs_is_refused_and_changes_nothing(
    connection: psycopg.Connection, nothing: Any
) -> None:
    uploads = Uploads(connection)
    stored, writing = in_state(connection, "stored"), in_state(connection, "writing")
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="belongs to is missing"):
        uploads.publish(stored, nothing)
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is missing"):
        uploads.record_upload_id(writing, nothing)
    assert (uploads.state(stored), uploads.state(writing)) == ("stored", "writing")
    # Here it does no harm.
    assert uploads.mark_uncertain(writing, nothing) == "uncertain"
    assert column(connection, writing, "uncertain_reason") == "no reason given"
    assert uploads.mark_stored(writing, etag=nothing, version_id=nothing) == "stored"
    assert column(connection, writing, "etag IS NULL AND version_id IS NULL") is True


def test_any_schema_and_any_row_factory_will_do_and_nothing_is_committed(
    empty_database_url: str,
) -> None:
    migrate(empty_database_url, "file jobs")
    with psycopg.connect(empty_database_url, row_factory=dict_row) as connection:
        uploads = Uploads(connection.cursor(), schema="file jobs")
        begun = uploads.begin("files/")
        connection.rollback()
        with pytest.raises(NoSuchUpload):
            uploads.state(begun.id)
        begun = uploads.begin("files/")
        connection.commit()
        uploads.mark_stored(begun.id)
        connection.rollback()
        assert uploads.state(begun.id) == "writing"


# The gate and the sweep


def test_a_row_names_its_object_in_every_state_but_cleaned(
    connection: psycopg.Connection, database_url: str, tmp_path: Path
) -> None:
    keys = {state: f"files/{in_state(connection, state)}" for state in STATES}
    named = ReferenceCheck(connection).named(list(keys.values()))
    expected = dict.fromkeys(keys.values(), ("upload",)) | {keys["ready"]: ("upload", "attachment")}
    del expected[keys["cleaned"]]
    assert named == expected

    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    with Scratch(tmp_path) as scratch:
        references = BulkReferences(Database(database_url), scratch=scratch).read()
        assert references.per_source["upload"].rows == len(STATES) - 1
        assert references.per_source["attachment"].rows == 1
        awaited = {key.decode() for block in references.awaited() for key in block}
    assert awaited == {keys[state] for state in ("writing", "uncertain", "cleanup")}


def test_the_gate_asks_by_the_index_of_the_keys(connection: psycopg.Connection) -> None:
    connection.execute("ALTER TABLE upload DISABLE TRIGGER USER")
    connection.execute("ALTER TABLE attachment DISABLE TRIGGER USER")
    connection.execute(
        """
        INSERT INTO upload (id, key_prefix, state, stored_at)
        SELECT gen_random_uuid(), 'files/', 'ready', now() FROM generate_series(1, 5000)
        """
    )
    connection.execute(
        "INSERT INTO attachment (upload_id, storage_key, subject)"
        " SELECT id, storage_key, 'message' FROM upload"
    )
    connection.execute("ANALYZE upload, attachment")
    found = connection.execute("SELECT storage_key FROM upload LIMIT 10").fetchall()
    keys = [key for (key,) in found]
    for own in OWN_TABLES[1:]:
        plan = psycopg.RawCursor(connection).execute(
            f"EXPLAIN (FORMAT JSON) {own.query('public')}", (keys,)
        )
        text = json.dumps(plan.fetchall())
        assert f"{own.table}_storage_key_unique" in text
        assert "Seq Scan" not in text
