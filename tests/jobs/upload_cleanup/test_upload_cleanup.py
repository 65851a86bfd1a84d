"""upload_cleanup: what it takes, what it keeps, and what it writes down."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.upload_cleanup import removal
from filejobs_dagster.jobs.upload_cleanup.claims import Span, candidates, claim
from filejobs_dagster.jobs.upload_cleanup.looking import look
from filejobs_dagster.jobs.upload_cleanup.settings import UploadCleanupRun
from filejobs_dagster.ledger.outcome import EVERYTHING, Window
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.own_tables import Claim
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads, events

if TYPE_CHECKING:
    from filejobs_dagster.run_context import RunContext
    from tests.installation import Installation

DAY = timedelta(days=1)


def test_a_cancelled_upload_is_cleaned_and_nothing_else_is_touched(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    gone = uploads.cancelled(body=b"seven b")
    stored, published, writing = uploads.stored(), uploads.published(), uploads.begin()
    uploads.put(writing)

    outcome = clean()

    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (1, 1)
    assert outcome.detail["classes"] == {"deleted": 1}
    assert outcome.detail["bytes_freed"] == 7
    assert outcome.detail["swept"] is True
    assert outcome.detail["oldest_left"] is None
    row = uploads.row(gone)
    assert (row["state"], row["outcome"], row["attempts"]) == ("cleaned", "deleted", 1)
    assert row["claimed_by"] is None
    assert installation.keys() == {stored.key, published.key, writing.key}
    assert [uploads.state(it) for it in (stored, published, writing)] == [
        "stored", "ready", "writing",
    ]  # fmt: skip


def test_the_intent_stands_with_the_claim_and_the_result_after_it(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    one = uploads.cancelled()
    assert clean(run_id="the run").ok

    [intent] = events(installation, "objects.delete.intent")
    [result] = events(installation, "objects.delete.result")
    [cleaned] = events(installation, "upload.cleaned")
    assert intent["keys"] == [one.key]
    assert intent["uploads"] == {str(one.id): 1}
    assert (result["deleted"], result["kept"], result["failed"]) == (1, {}, {})
    assert (cleaned["upload"], cleaned["outcome"]) == (str(one.id), "deleted")
    assert {event["run_id"] for event in (intent, result, cleaned)} == {"the run"}


def test_a_missing_object_is_success_and_counted_apart(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    gone = uploads.cancelled()
    installation.client.delete_object(Bucket=installation.bucket, Key=gone.key)
    never = uploads.begin()
    uploads.call("mark_uncertain", never.id, "the connection broke")
    uploads.change(
        never,
        "uncertain_since = clock_timestamp() - interval '2 hours',"
        " activity_at = clock_timestamp() - interval '2 hours'",
    )

    outcome = clean()

    assert outcome.ok
    assert outcome.detail["classes"] == {
        "already gone": 1, "never arrived": 1, "uncertain, resolved: cleanup": 1,
    }  # fmt: skip
    assert uploads.row(gone)["outcome"] == "already gone"
    assert uploads.row(never)["outcome"] == "never arrived"


def test_an_object_that_was_replaced_under_the_same_key_is_superseded_and_kept(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.cancelled()
    uploads.put(upload, b"somebody else's bytes")

    outcome = clean()

    assert outcome.detail["classes"] == {"superseded": 1}
    assert uploads.row(upload)["outcome"] == "superseded"
    assert installation.has_object(upload.key)


@pytest.mark.parametrize("spelled", ["upper(etag)", "'&quot;' || etag || '&quot;'", "'W/' || etag"])
def test_a_row_whose_etag_is_spelled_otherwise_is_not_superseded(
    installation: Installation, uploads: Uploads, clean: Cleaner, spelled: str
) -> None:
    upload = uploads.cancelled()
    uploads.change(upload, f"etag = {spelled}")

    assert clean().detail["classes"] == {"deleted": 1}
    assert not installation.has_object(upload.key)


def test_control_a_cleaner_that_does_not_look_at_the_etag_deletes_the_other_object(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.cancelled()
    uploads.put(upload, b"somebody else's bytes")
    uploads.change(upload, "etag = NULL, size_bytes = NULL")

    assert clean().ok
    assert not installation.has_object(upload.key), "the careless version loses it"


def test_another_row_that_names_the_key_keeps_the_bytes(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    in_file, in_source = uploads.cancelled(), uploads.cancelled()
    installation.execute(
        "INSERT INTO file (state, storage_key) VALUES ('ready', %s)", (in_file.key,)
    )
    installation.execute("CREATE TABLE avatar AS SELECT %s AS key", (in_source.key,))
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select key from avatar"}
    ]

    outcome = clean()

    assert installation.keys() == {in_file.key, in_source.key}
    assert outcome.detail["classes"] == {
        "kept: referenced by file": 1, "kept: referenced by avatars": 1,
    }  # fmt: skip
    assert outcome.ok, "a row that stays for its own sake fails no run"
    assert (outcome.detail["swept"], outcome.detail["untouched"]) == (False, 2)
    assert "1 kept: referenced by avatars" in outcome.detail["finding"]
    row = uploads.row(in_source)
    assert (row["state"], row["last_error"]) == ("cleanup", "kept: referenced by avatars")


def test_an_attachment_keeps_the_bytes_although_the_claim_holds(
    installation: Installation, uploads: Uploads, connection: psycopg.Connection
) -> None:
    """No transition leads there; without its trigger it shows that the gate does not need one."""
    upload = uploads.cancelled()
    claimed = Claim(upload.id, 0)
    with ReferenceCheck(connection) as references:
        assert references.named([upload.key]) == {upload.key: ("upload",)}
        assert references.named([upload.key], claims=[claimed]) == {}
        assert references.named([upload.key], claims=[Claim(upload.id, 1)]) != {}
        installation.execute("ALTER TABLE attachment DISABLE TRIGGER USER")
        installation.execute(
            "INSERT INTO attachment (upload_id, storage_key, subject) VALUES (%s, %s, 'x')",
            (upload.id, upload.key),
        )
        assert references.named([upload.key], claims=[claimed]) == {upload.key: ("attachment",)}


def test_a_claim_that_was_lost_keeps_the_bytes_and_writes_nothing(
    installation: Installation, uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uploads.cancelled()
    lose_the_claim_before_bytes(monkeypatch, lambda: uploads.claimed_by_another(upload))

    outcome = clean()

    assert installation.has_object(upload.key)
    assert outcome.detail["classes"] == {"claim lost": 1}
    row = uploads.row(upload)
    assert (row["state"], row["attempts"], row["claimed_by"]) == ("cleanup", 2, "another run")


def test_control_without_the_fencing_number_the_loser_deletes_and_reports(
    installation: Installation, uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uploads.cancelled()

    def retained_meanwhile() -> None:
        uploads.claimed_by_another(upload)
        uploads.change(upload, "state = 'retained', retained_until = now() + interval '10 days'")

    lose_the_claim_before_bytes(monkeypatch, retained_meanwhile)
    # Careless: whatever the table `upload` says does not count for its own collector.
    monkeypatch.setattr(
        "filejobs_dagster.references.check.without_claimed",
        lambda query: f"{query} AND $2::uuid[] IS NULL AND $3::integer[] IS NULL",
    )

    clean()

    assert not installation.has_object(upload.key), "the careless version loses it"


def test_parts_that_were_begun_while_the_row_was_cleaned_are_not_forgotten(
    installation: Installation, uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uploads.begin()
    uploads.call("mark_uncertain", upload.id, "a timeout")
    uploads.change(upload, "state = 'cleanup'")
    client, bucket = installation.client, installation.bucket

    def the_writer_comes_back(*arguments: Any) -> Any:
        made = client.create_multipart_upload(Bucket=bucket, Key=upload.key)["UploadId"]
        assert uploads.call("record_upload_id", upload.id, made) is False
        return look(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(removal, "look", the_writer_comes_back)
        assert clean().detail["classes"] == {"claim lost": 1}
    assert uploads.state(upload) == "cleanup"

    assert clean().acted == 1
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def lose_the_claim_before_bytes(monkeypatch: pytest.MonkeyPatch, what_happens: Any) -> None:
    """Between the last look and the request that deletes."""
    remove = Gate.remove

    def after_a_pause(self: Gate, *arguments: Any, **named: Any) -> Any:
        what_happens()
        return remove(self, *arguments, **named)

    monkeypatch.setattr(Gate, "remove", after_a_pause)


def test_a_dry_run_changes_nothing_and_says_what_a_live_one_would_do(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    due = uploads.cancelled(body=b"12345")
    superseded = uploads.cancelled()
    uploads.put(superseded, b"other")
    uncertain = uploads.begin()
    uploads.put(uncertain)
    uploads.call("mark_uncertain", uncertain.id, "a timeout")
    silent = uploads.begin()
    uploads.change(silent, "activity_at = clock_timestamp() - interval '8 days'")
    before = installation.execute("SELECT to_jsonb(upload) FROM upload ORDER BY id")

    outcome = clean(mode="dry")

    assert outcome.ok
    assert outcome.acted == 0
    assert outcome.detail["would_collect"] == 1
    assert outcome.detail["would_free_bytes"] == 5
    assert outcome.detail["classes"] == {
        "would collect": 1, "would be: superseded": 1, "uncertain, resolved: stored": 1,
        "silent writer, now uncertain": 1,
    }  # fmt: skip
    assert installation.execute("SELECT to_jsonb(upload) FROM upload ORDER BY id") == before
    assert installation.has_object(due.key)
    assert installation.value("SELECT count(*) FROM audit_event") == 0


def test_a_run_over_one_day_takes_what_became_collectable_on_that_day(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    old, new = uploads.begin(), uploads.cancelled()
    etag = uploads.put(old)
    uploads.call("mark_stored", old.id, etag, 5)
    uploads.change(old, "state = 'cleanup', collectable_at = now() - interval '3 days'")
    day = (datetime.now(timezone.utc) - 3 * DAY).replace(hour=0, minute=0, second=0, microsecond=0)

    outcome = clean(window=Window(begins=day, ends=day + DAY, label="then"))

    assert outcome.acted == 1
    assert outcome.detail["swept"] is True
    assert (uploads.state(old), uploads.state(new)) == ("cleaned", "cleanup")


def test_the_limit_stops_the_run_and_what_is_left_is_said(uploads: Uploads, clean: Cleaner) -> None:
    for _ in range(3):
        uploads.cancelled()

    outcome = clean(limit=2, batch_size=1)

    assert outcome.acted == 2
    assert outcome.detail["stopped_reason"] == "limit"
    assert outcome.detail["swept"] is False
    assert outcome.detail["oldest_left"] is not None
    assert clean().acted == 1


def test_an_upload_outside_of_what_is_owned_is_kept_and_tried_again_later(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    [row] = installation.execute("SELECT id, key FROM begin_upload('files/brand/')")
    installation.client.put_object(Bucket=installation.bucket, Key=row[1], Body=b"logo")
    uploads.call("mark_stored", row[0])
    uploads.call("cancel_upload", row[0])

    outcome = clean()

    assert installation.has_object(row[1])
    assert outcome.detail["classes"] == {"kept: protected": 1}


def test_a_key_whose_decoded_twin_has_the_object_is_reported_and_the_twin_is_kept(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.begin("/Atoms%20for%20Peace.tif")
    uploads.call("mark_stored", upload.id)
    uploads.call("cancel_upload", upload.id)
    twin = upload.key.replace("%20", " ")
    installation.client.put_object(Bucket=installation.bucket, Key=twin, Body=b"the real one")

    outcome = clean()

    assert outcome.detail["classes"] == {"already gone": 1}
    assert outcome.detail["samples"]["an object under the decoded key"] == [twin]
    assert installation.has_object(twin)


def test_two_workers_claim_disjoint_rows_and_a_stale_claim_is_taken_over(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    made = {uploads.cancelled().id for _ in range(10)}
    database = installation.database
    span = Span.of(EVERYTHING, datetime.now(timezone.utc) + timedelta(seconds=1))
    with database.connect("one") as one, database.connect("two") as two:
        with database.transaction(one) as first, database.transaction(two) as second:
            mine = claim(first, span, 6, "one", UploadCleanupRun())
            theirs = claim(second, span, 6, "two", UploadCleanupRun())
        assert len(mine) == 6
        assert len(theirs) == 4
        assert {row.id for row in (*mine, *theirs)} == made
        with database.transaction(one) as cursor:
            assert claim(cursor, span, 6, "one", UploadCleanupRun()) == [], "all are claimed"

    outcome = clean()

    assert outcome.acted == 10
    assert outcome.detail["taken_over"] == 10
    assert {row[0] for row in installation.execute("SELECT attempts FROM upload")} == {2}


def test_control_two_workers_that_read_first_and_claim_by_id_take_the_same_rows(
    installation: Installation, uploads: Uploads
) -> None:
    for _ in range(3):
        uploads.cancelled()
    database = installation.database
    span = Span.of(EVERYTHING, datetime.now(timezone.utc) + timedelta(seconds=1))
    with database.connect("one") as one, database.connect("two") as two:
        with database.transaction(one) as first, database.transaction(two) as second:
            seen = [candidates(cursor, span, 3, None) for cursor in (first, second)]
        taken = []
        for connection, rows in zip((one, two), seen, strict=True):
            with database.transaction(connection) as cursor:
                cursor.execute(
                    "UPDATE upload SET attempts = attempts + 1 WHERE id = any(%s) RETURNING id",
                    ([row.id for row in rows],),
                )
                taken.append({row[0] for row in cursor.fetchall()})
    assert taken[0] & taken[1], "the careless version works on them twice"


def test_a_run_that_lost_its_lock_between_claim_and_bytes_deletes_nothing(
    installation: Installation, uploads: Uploads, clean: Cleaner, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = uploads.cancelled()
    contexts: list[RunContext] = []
    clean.hook = contexts.append

    def given_up() -> None:
        installation.execute("UPDATE job_progress SET closed_at = now()")

    lose_the_claim_before_bytes(monkeypatch, given_up)

    with pytest.raises(Exception, match="given up for dead"):
        clean()

    assert installation.has_object(upload.key)
    assert uploads.state(upload) == "cleanup"
    monkeypatch.undo()
    assert clean().acted == 1


def test_a_cancel_that_is_not_committed_yet_is_left_alone_and_taken_by_the_next_run(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.stored()
    with psycopg.connect(installation.database_url) as application:
        application.execute("SELECT cancel_upload(%s)", (upload.id,))
        assert clean().scanned == 0
        assert installation.has_object(upload.key)

    assert clean().acted == 1
    assert not installation.has_object(upload.key)


def test_a_backlog_above_the_limit_does_not_keep_uncertain_uploads_waiting(
    uploads: Uploads, clean: Cleaner
) -> None:
    for _ in range(2):
        uploads.cancelled()
    uncertain = uploads.begin()
    uploads.put(uncertain)
    uploads.call("mark_uncertain", uncertain.id, "a timeout")

    outcome = clean(limit=1)

    assert outcome.detail["stopped_reason"] == "limit"
    assert uploads.state(uncertain) == "stored"
