"""deleted_files on real PostgreSQL and a real S3 server over HTTP: what goes, and what stays."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster import run_context
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.deleted_files import statements
from filejobs_dagster.ledger.outcome import Window
from filejobs_dagster.objects.client import make_client
from tests.jobs.deleted_files.collecting import DAY, WINDOW
from tests.jobs.storage_orphans.recording import recording

if TYPE_CHECKING:
    from tests.jobs.deleted_files.collecting import Files

HOUR = timedelta(hours=1)
MOMENT = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
A_MICROSECOND = timedelta(microseconds=1)


def test_a_file_past_its_restore_window_goes_with_its_bytes_and_leaves_audit_events(
    files: Files,
) -> None:
    identity = files.delete("files/gone", body=b"12345", retained=-DAY)

    outcome = files()

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (1, 1)
    assert outcome.detail["bytes_freed"] == 5
    assert outcome.detail["swept"] is True
    assert (files.rows(), files.keys()) == (set(), set())
    row, intent, result = files.events()
    assert (row["kind"], row["file_id"]) == ("deleted_file.collected", str(identity))
    assert row["storage_key"] == "files/gone"
    assert {"deleted_at", "retain_until", "run_id", "job"} <= set(row)
    assert (intent["kind"], intent["keys"]) == ("objects.delete.intent", ["files/gone"])
    assert (result["kind"], result["deleted"]) == ("objects.delete.result", 1)
    [progress] = files.installation.progress()
    assert (progress["acted"], progress["detail"]["objects_left"]) == (1, 0)


def test_what_can_still_be_restored_or_is_retained_stays_whatever_its_state(files: Files) -> None:
    files.delete("files/young", ago=WINDOW - DAY)
    files.delete("files/retained", retained=DAY)
    files.delete("files/held for ever", ago=WINDOW + DAY)
    files.installation.execute(
        "UPDATE file SET retain_until = 'infinity' WHERE storage_key = 'files/held for ever'"
    )
    files.delete("files/ready", state="ready")
    files.delete("files/pending", state="pending")
    files.delete("files/undated", ago=None)

    outcome = files()

    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (0, 0)
    assert (outcome.detail["without_deleted_at"], outcome.detail["oldest_left"]) == (1, None)
    assert len(files.rows()) == len(files.keys()) == 6


def test_a_moment_equal_to_the_cutoff_or_to_the_retention_is_not_past_it(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutoff = MOMENT - WINDOW
    for key, deleted, retained in (
        ("at the cutoff", cutoff, None),
        ("before it", cutoff - A_MICROSECOND, None),
        ("retained until now", cutoff - DAY, MOMENT),
        ("retained until a moment ago", cutoff - DAY, MOMENT - A_MICROSECOND),
    ):
        files.installation.execute(
            "INSERT INTO file (state, storage_key, deleted_at, retain_until)"
            " VALUES ('deleted', %s, %s, %s)",
            (f"files/{key}", deleted, retained),
        )
    monkeypatch.setattr(run_context, "database_now", lambda _: MOMENT)

    outcome = files()

    assert outcome.acted == 2
    assert outcome.detail["cutoff"] == cutoff.isoformat()
    assert files.rows() == {"files/at the cutoff", "files/retained until now"}


@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/Los_Angeles"])
def test_no_time_zone_and_no_clock_change_moves_the_restore_window(
    files: Files, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    # In Los Angeles an hour was skipped within the thirty days before this moment.
    now = datetime(2026, 4, 1, 12, tzinfo=timezone.utc)
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setenv("PGTZ", zone)
    monkeypatch.setattr(run_context, "database_now", lambda _: now)
    for key, deleted in (("due", now - WINDOW - HOUR / 2), ("not due", now - WINDOW + HOUR / 2)):
        files.installation.execute(
            "INSERT INTO file (state, storage_key, deleted_at) VALUES ('deleted', %s, %s)",
            (f"files/{key}", deleted),
        )

    assert files().acted == 1
    assert files.rows() == {"files/not due"}


def test_a_day_takes_what_became_collectable_on_it(files: Files) -> None:
    day = datetime(2026, 3, 5, tzinfo=timezone.utc)
    last = day + DAY - A_MICROSECOND
    long_ago = day - 400 * DAY
    for key, deleted, retained in (
        ("before", day - WINDOW - A_MICROSECOND, None),
        ("first", day - WINDOW, None),
        ("last", last - WINDOW, None),
        ("after", last + A_MICROSECOND - WINDOW, None),
        ("released before", long_ago, day - A_MICROSECOND),
        ("released first", long_ago, day),
        ("released last", long_ago, last),
        ("released after", long_ago, last + A_MICROSECOND),
        ("window over on the day", day - WINDOW, day - DAY),
    ):
        files.installation.execute(
            "INSERT INTO file (state, storage_key, deleted_at, retain_until)"
            " VALUES ('deleted', %s, %s, %s)",
            (f"files/{key}", deleted, retained),
        )
    window = Window(day, day + DAY, "2026-03-05")

    assert files(mode="dry", window=window).detail["would_collect"] == 5
    outcome = files(window=window)

    assert (outcome.scanned, outcome.acted) == (5, 5)
    assert files.rows() == {
        f"files/{name}" for name in ("before", "after", "released before", "released after")
    }
    assert files().acted == 4


def test_the_oldest_go_first_of_both_kinds_and_a_limit_says_that_it_was_hit(files: Files) -> None:
    for n in range(4):
        files.delete(f"files/plain {n}", ago=WINDOW + DAY * (10 - 2 * n), body=None)
        files.delete(f"files/retained {n}", ago=WINDOW * 9, retained=-DAY * (9 - 2 * n), body=None)

    outcome = files(limit=5, batch_size=2)

    assert outcome.acted == 5
    assert (outcome.detail["truncated"], outcome.detail["stopped_reason"]) == (True, "limit")
    assert files.rows() == {"files/plain 3", "files/retained 2", "files/retained 3"}
    oldest = datetime.fromisoformat(outcome.detail["oldest_left"])
    assert abs(datetime.now(timezone.utc) - oldest - 5 * DAY) < HOUR
    rest = files(batch_size=2)
    assert (rest.acted, rest.detail["truncated"], files.rows()) == (3, False, set())


def test_an_object_that_was_missing_has_its_own_count(files: Files) -> None:
    files.delete("files/there")
    files.delete("files/not there", body=None)

    outcome = files()

    assert outcome.acted == 2
    assert outcome.detail["missing"] == 1
    assert "never_arrived" not in outcome.detail
    assert files.events("objects.delete.result")[0]["missing"] == ["files/not there"]


def test_an_object_that_another_table_names_stays_and_its_row_goes(files: Files) -> None:
    files.installation.execute("CREATE TABLE account (avatar_key text)")
    files.installation.execute("INSERT INTO account VALUES ('files/shared')")
    files.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select avatar_key from account"}
    ]
    files.delete("files/shared")
    files.delete("files/alone")

    outcome = files()

    assert (outcome.ok, outcome.acted) == (True, 2)
    assert outcome.detail["classes"]["kept: referenced by avatars"] == 1
    assert (files.keys(), files.rows()) == ({"files/shared"}, set())


def test_rows_outside_the_owned_prefix_or_protected_keep_row_and_bytes(files: Files) -> None:
    for key in ("other/a", "files/brand/logo", "files/ours"):
        files.delete(key)

    outcome = files()

    assert (outcome.acted, outcome.detail["untouched"], outcome.detail["swept"]) == (1, 2, False)
    assert files.rows() == files.keys() == {"other/a", "files/brand/logo"}


def test_a_row_that_a_foreign_key_holds_is_recorded_and_the_others_go_on(files: Files) -> None:
    files.delete_many([f"files/{n}" for n in range(20)])
    files.installation.execute("CREATE TABLE share (file_id uuid REFERENCES file)")
    files.installation.execute(
        "INSERT INTO share SELECT id FROM file WHERE storage_key = 'files/7'"
    )

    outcome = files(batch_size=8)

    assert (outcome.ok, outcome.acted) == (True, 19)
    assert "share" in outcome.detail["samples"]["claim refused"][0]
    assert files.rows() == {"files/7"}
    assert files(batch_size=8).error is None, "one row that others name is no failure of the run"


def test_dates_that_no_calendar_holds_are_counted_and_shown_and_nothing_is_swept(
    files: Files,
) -> None:
    """They were there before the constraints, which are validated later or never."""
    files.installation.execute("ALTER TABLE file DROP CONSTRAINT file_deleted_at_is_a_date")
    files.installation.execute("ALTER TABLE file DROP CONSTRAINT file_retain_until_is_a_date")
    files.delete("files/good")
    for name, deleted, retained in (
        ("a", "-infinity", None),
        ("b", "0001-01-01Z", None),
        ("c", "12000-01-01Z", None),
        ("d", "2020-01-01Z", "-infinity"),
        ("e", "-infinity", "2020-01-01Z"),
    ):
        row = files.delete(f"files/{name}")
        files.installation.execute(
            "UPDATE file SET deleted_at = %s, retain_until = %s WHERE id = %s",
            (deleted, retained, row),
        )

    outcome = files()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 1, "no usable time": 5}
    assert (outcome.detail["untouched"], outcome.detail["swept"]) == (4, False)


def test_storage_that_rejects_a_batch_stops_the_claiming(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.delete_many([f"files/{n}" for n in range(40)])
    for n in range(40):
        files.put(f"files/{n}")

    def fail(**_: Any) -> None:
        raise ConnectionError("storage is down")

    files.client.meta.events.register("before-send.s3.DeleteObjects", fail)
    outcome = files(batch_size=10, count_bytes=False)

    assert not outcome.ok
    assert len(files.rows()) == 30
    assert len(files.keys()) == 40
    assert outcome.detail["objects_left"] == 10


def test_the_claim_repeats_every_predicate_in_its_outer_where() -> None:
    outer = statements.CLAIM.split("FOR UPDATE SKIP LOCKED)")[1]

    for predicate in (
        "state = 'deleted'",
        "deleted_at IS NOT NULL",
        "deleted_at < %(deleted_before)s",
        "retain_until < %(before)s",
        "deleted_at >= %(deleted_from)s OR retain_until >= %(begins)s",
        "RETURNING",
    ):
        assert predicate in outer


def test_a_dry_run_asks_storage_to_change_nothing_and_writes_its_bookkeeping_only(
    files: Files,
) -> None:
    files.with_thumbnails()
    for n in range(5):
        file = files.delete(f"files/{n}", body=b"1234")
        files.thumbnail(file, f"files/thumbnails/{n}", body=b"12")
    files.thumbnail(file, "elsewhere/thumbnail")
    before = files.installation.execute("SELECT * FROM file ORDER BY id")
    keys = files.keys()
    with recording(files.installation.endpoint_url) as server:
        document = files.installation.document["buckets"]["uploads"]
        document["endpoint_url"] = server.url
        files.client = make_client(files.installation.settings().buckets["uploads"])

        outcome = files(mode="dry", batch_size=2)

        assert len(server.asked) > 5
        assert server.writes == []
    assert (outcome.scanned, outcome.acted, outcome.ok) == (5, 0, True)
    assert outcome.detail["would_collect"] == 5
    assert outcome.detail["would_free_bytes"] == 5 * 4 + 5 * 2
    assert outcome.detail["classes"]["derived: would collect"] == 5
    assert outcome.detail["classes"]["derived: kept: not owned"] == 1
    assert files.installation.execute("SELECT * FROM file ORDER BY id") == before
    assert files.keys() == keys
    assert files.events() == []
    assert files.installation.value("SELECT count(*) FROM thumbnail") == 6


def test_no_batch_is_begun_after_the_time_is_over(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.delete_many([f"files/{n}" for n in range(30)])
    remove = Removal.remove

    def then_the_time_is_over(self: Any, keys: Any) -> None:
        remove(self, keys)
        monkeypatch.setattr("time.monotonic", lambda: float("inf"))

    monkeypatch.setattr(Removal, "remove", then_the_time_is_over)

    outcome = files(batch_size=10, count_bytes=False)

    assert (outcome.ok, outcome.acted) == (True, 10)
    assert outcome.detail["stopped_reason"] == "max_runtime"
    assert len(files.rows()) == 20
