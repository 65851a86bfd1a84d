"""Uncertain uploads are asked of storage; silent writers become uncertain; locks retain."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.upload_cleanup import reconciliation, removal, statements
from filejobs_dagster.jobs.upload_cleanup.claims import count_due
from filejobs_dagster.jobs.upload_cleanup.looking import look
from filejobs_dagster.objects.heads import look_at_targets
from filejobs_dagster.objects.multipart import list_parts
from tests.jobs.upload_cleanup.uploads import Begun, Cleaner, Uploads, events

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from tests.installation import Installation

HOURS = timedelta(hours=1)


def uncertain(uploads: Uploads, upload: Begun, *, silent: timedelta = 2 * HOURS) -> Begun:
    uploads.call("mark_uncertain", upload.id, "the answer was lost")
    uploads.change(
        upload,
        "uncertain_since = clock_timestamp() - %s, activity_at = clock_timestamp() - %s",
        silent,
        silent,
    )
    return upload


def test_an_uncertain_upload_whose_object_is_there_is_stored_with_what_storage_says(
    uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.begin()
    etag = uploads.put(upload, b"seven b")
    uncertain(uploads, upload)

    assert clean().detail["classes"] == {"uncertain, resolved: stored": 1}

    row = uploads.row(upload)
    assert (row["state"], row["etag"], row["size_bytes"]) == ("stored", etag, 7)
    assert uploads.call("publish_upload", upload.id, "message 17") is not None


def test_a_cancel_that_was_remembered_is_honoured_once_it_is_known(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.begin()
    uploads.put(upload)
    uncertain(uploads, upload)
    assert uploads.call("cancel_upload", upload.id) == "uncertain"

    outcome = clean()

    assert outcome.detail["classes"] == {"uncertain, resolved: cleanup": 1, "deleted": 1}
    assert not installation.has_object(upload.key)


def test_without_an_object_it_stays_uncertain_until_the_storage_had_its_time(
    uploads: Uploads, clean: Cleaner
) -> None:
    fresh = uncertain(uploads, uploads.begin(), silent=timedelta(minutes=10))
    old = uncertain(uploads, uploads.begin())

    outcome = clean()

    assert outcome.detail["classes"] == {
        "still uncertain": 1, "uncertain, resolved: cleanup": 1, "never arrived": 1,
    }  # fmt: skip
    assert uploads.state(fresh) == "uncertain"
    assert uploads.state(old) == "cleaned"
    assert clean().scanned == 0, "it is not asked again before its time"


def test_a_silent_writer_becomes_uncertain_and_never_cleanup_directly(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    silent, alive = uploads.begin(), uploads.begin()
    uploads.put(silent)
    uploads.change(silent, "activity_at = clock_timestamp() - interval '8 days'")
    uploads.change(alive, "activity_at = clock_timestamp() - interval '6 days'")

    outcome = clean(limit=1)

    assert uploads.state(alive) == "writing"
    assert outcome.detail["classes"]["silent writer, now uncertain"] == 1
    [event] = events(installation, "upload.uncertain")
    assert event["upload"] == str(silent.id)
    assert uploads.state(silent) == "stored", "its object was there after all"
    assert installation.has_object(silent.key)


def test_parts_that_came_lately_keep_an_upload_open_unless_it_was_cancelled(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    slow, slow_id = uploads.multipart(b"p" * 10)
    cancelled, _ = uploads.multipart(b"p" * 100)
    for upload in (slow, cancelled):
        uncertain(uploads, upload, silent=timedelta(days=9))
    uploads.call("cancel_upload", cancelled.id)

    outcome = clean(settle_after=timedelta(0))

    assert (uploads.state(slow), uploads.state(cancelled)) == ("uncertain", "cleaned")
    listed = installation.client.list_multipart_uploads(Bucket=installation.bucket)["Uploads"]
    assert [it["UploadId"] for it in listed] == [slow_id]
    assert outcome.detail["bytes_freed"] == 100


@pytest.mark.parametrize(
    ("quiet", "state"), [(48 * HOURS + HOURS / 60, "cleaned"), (47 * HOURS, "uncertain")]
)
def test_parts_wait_one_limit_by_the_newest_of_them_and_not_a_second_one(
    uploads: Uploads, clean: Cleaner, quiet: timedelta, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer has been silent for one limit when it becomes uncertain."""
    upload, _ = uploads.multipart(b"p" * 10)
    uploads.change(upload, "activity_at = clock_timestamp() - %s", timedelta(days=9))

    def long_ago(*arguments: Any) -> Any:
        found = list_parts(*arguments)
        assert found is not None
        assert found.newest is not None
        return replace(found, newest=found.newest - quiet)

    monkeypatch.setattr(reconciliation, "list_parts", long_ago)

    clean(settle_after=timedelta(0), writing_limit=48 * HOURS)
    uploads.due_now()
    clean(settle_after=timedelta(0), writing_limit=48 * HOURS)

    assert uploads.state(upload) == state


def test_an_object_that_is_not_the_announced_one_is_left_to_people(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.begin()
    uploads.put(upload)
    uncertain(uploads, upload)
    uploads.change(upload, "etag = 'another'")

    assert clean().detail["classes"] == {"still uncertain": 1}
    assert installation.has_object(upload.key)
    assert "its ETag was another" in uploads.row(upload)["last_error"]

    assert uploads.call("cancel_upload", upload.id) == "uncertain"
    uploads.due_now()
    assert clean().detail["classes"] == {"uncertain, resolved: cleanup": 1, "superseded": 1}
    assert installation.has_object(upload.key)


def test_a_row_that_an_application_holds_locked_keeps_no_other_waiting(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    held, other = [uncertain(uploads, uploads.begin()) for _ in range(2)]
    abandoned, cancelled = uploads.cancelled(), uploads.cancelled()
    uploads.claimed_by_another(abandoned)
    with psycopg.connect(installation.database_url) as application:
        application.execute("SELECT cancel_upload(%s)", (held.id,))
        application.execute("SELECT FROM upload WHERE id = %s FOR UPDATE", (abandoned.id,))
        outcome = clean()
        assert outcome.ok
        assert [uploads.state(it) for it in (held, other, abandoned, cancelled)] == [
            "uncertain", "cleaned", "cleanup", "cleaned",
        ]  # fmt: skip

    assert clean().ok
    assert [uploads.state(it) for it in (held, abandoned)] == ["cleaned", "cleaned"]


def test_a_writer_that_comes_back_while_storage_is_asked_wins(
    uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uncertain(uploads, uploads.begin())
    ends_meanwhile(monkeypatch, uploads, upload)

    outcome = clean()

    assert uploads.state(upload) == "stored"
    assert outcome.detail["samples"]["still uncertain"] == [
        f"{upload.key}: its writer came back, or a transaction holds its row"
    ]


def test_control_a_resolution_by_id_alone_would_take_the_finished_upload_away(
    installation: Installation, uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uncertain(uploads, uploads.begin())
    ends_meanwhile(monkeypatch, uploads, upload)
    careless = statements.RESOLVE_CLEANUP.partition("AND upload.state")[0]
    monkeypatch.setattr(
        statements,
        "RESOLVE_CLEANUP",
        f"{careless} RETURNING upload.id, upload.state",
    )

    clean()

    assert not installation.has_object(upload.key), "the careless version loses it"


def ends_meanwhile(monkeypatch: pytest.MonkeyPatch, uploads: Uploads, upload: Begun) -> None:
    """Its writer ends between the look at storage and the write of the verdict."""

    def then_the_writer_ends(*arguments: Any) -> Any:
        seen = look_at_targets(*arguments)
        uploads.call("mark_stored", upload.id, uploads.put(upload), 5)
        return seen

    where = "filejobs_dagster.jobs.upload_cleanup.reconciliation.look_at_targets"
    monkeypatch.setattr(where, then_the_writer_ends)


# Locks --------------------------------------------------------------------------------------------


@pytest.fixture
def locking(installation: Installation, s3_client: S3Client) -> Callable[[bytes], Begun]:
    """Make cancelled uploads in a bucket that knows locks; each row knows its version."""
    name = f"{installation.bucket}-locks"
    s3_client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    installation.bucket = name
    installation.document["buckets"]["uploads"]["bucket"] = name
    uploads = Uploads(installation)

    def make(body: bytes) -> Begun:
        upload = uploads.begin()
        answer = s3_client.put_object(Bucket=name, Key=upload.key, Body=body)
        uploads.call("mark_stored", upload.id, answer["ETag"], len(body), answer["VersionId"])
        uploads.call("cancel_upload", upload.id)
        return upload

    return make


def test_a_locked_object_is_retained_until_its_date_and_the_others_go(
    installation: Installation,
    uploads: Uploads,
    clean: Cleaner,
    locking: Callable[[bytes], Begun],
) -> None:
    _, locked, _ = [locking(body) for body in (b"1", b"22", b"333")]
    until = (datetime.now(timezone.utc) + timedelta(days=10)).replace(microsecond=0)
    installation.client.put_object_retention(
        Bucket=installation.bucket,
        Key=locked.key,
        VersionId=uploads.row(locked)["version_id"],
        Retention={"Mode": "COMPLIANCE", "RetainUntilDate": until},
    )

    outcome = clean()

    assert outcome.ok
    assert outcome.detail["classes"] == {"deleted": 2, "retained": 1}
    assert outcome.detail["bytes_freed"] == 4
    assert outcome.detail["swept"] is True, "what a lock keeps is not left"
    row = uploads.row(locked)
    assert row["state"] == "retained"
    assert datetime.fromisoformat(row["retained_until"]) == until
    assert row["forgiven"] == 1
    assert installation.keys() == {locked.key}
    versions = installation.client.list_object_versions(Bucket=installation.bucket)
    assert len(versions["Versions"]) == 1, "the others' versions are gone, not hidden"
    assert not versions.get("DeleteMarkers")

    assert clean().scanned == 0, "nobody asks before its date"


def test_a_legal_hold_is_looked_at_again_and_released(
    installation: Installation,
    uploads: Uploads,
    clean: Cleaner,
    locking: Callable[[bytes], Begun],
) -> None:
    held = locking(b"held")
    version = uploads.row(held)["version_id"]

    def hold(status: Any) -> None:
        installation.client.put_object_legal_hold(
            Bucket=installation.bucket, Key=held.key, VersionId=version,
            LegalHold={"Status": status},
        )  # fmt: skip

    hold("ON")
    assert clean().detail["classes"] == {"retained": 1}
    uploads.due_now()
    assert clean().detail["classes"] == {"still retained": 1}
    assert uploads.row(held)["attempts"] == 1, "a look is no attempt"

    hold("OFF")
    uploads.due_now()
    assert clean().detail["classes"] == {"lock over": 1, "deleted": 1}
    assert uploads.state(held) == "cleaned"


@pytest.mark.parametrize(
    "hold", ["legal_hold = true", "retained_until = clock_timestamp() + interval '1 day'"]
)
def test_a_hold_that_somebody_wrote_into_the_row_keeps_the_object(
    installation: Installation, uploads: Uploads, clean: Cleaner, hold: str
) -> None:
    held, retained, other = [uploads.cancelled() for _ in range(3)]
    uploads.change(held, hold)
    uploads.change(
        retained, "state = 'retained', retained_until = clock_timestamp() + interval '1 day'"
    )

    with psycopg.connect(installation.database_url) as connection, connection.cursor() as cursor:
        assert (count_due(cursor, timedelta(days=7)).cleanup) == 1
    assert clean(mode="dry").detail["would_collect"] == 1
    outcome = clean()

    assert outcome.detail["classes"] == {"deleted": 1}
    assert outcome.detail["swept"] is True, "what a hold keeps is not left"
    assert installation.keys() == {held.key, retained.key}
    assert uploads.state(other) == "cleaned"
    with psycopg.connect(installation.database_url) as connection, connection.cursor() as cursor:
        assert not count_due(cursor, timedelta(days=7)).anything, "or the sensor never rests"

    for upload in (held, retained):
        over = "legal_hold = false, retained_until = clock_timestamp() - interval '1 second'"
        uploads.change(upload, over)
    assert clean().acted == 2
    assert installation.keys() == set()


def test_a_hold_that_comes_after_the_claim_keeps_the_object_too(
    installation: Installation, uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uploads.cancelled()

    def look_and_hold(*arguments: Any) -> Any:
        uploads.change(upload, "legal_hold = true")
        return look(*arguments)

    monkeypatch.setattr(removal, "look", look_and_hold)
    assert clean().detail["classes"] == {"kept: referenced by upload": 1}
    assert installation.has_object(upload.key)


def test_in_a_versioned_bucket_only_the_version_of_the_row_goes(
    installation: Installation, uploads: Uploads, clean: Cleaner, locking: Callable[[bytes], Begun]
) -> None:
    upload = locking(b"the row's")
    uploads.put(upload, b"written over it")

    assert clean().detail["classes"] == {"deleted": 1}

    body = installation.client.get_object(Bucket=installation.bucket, Key=upload.key)["Body"]
    assert body.read() == b"written over it"
    versions = installation.client.list_object_versions(Bucket=installation.bucket)["Versions"]
    assert len(versions) == 1
