"""upload_reservations on real PostgreSQL and a real S3 server over HTTP."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster import run_context
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.upload_reservations import collection, file_table, statements
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.ledger.outcome import Window
from filejobs_dagster.objects.client import BucketUnavailable
from filejobs_dagster.postgres.locks import LeaseLost, exclusive_lock, lock_number

if TYPE_CHECKING:
    import uuid

    from tests.installation import Installation
    from tests.jobs.conftest import Collector

HOUR = timedelta(hours=1)
ODD_KEYS = [
    "files/a b",
    "files/a+b",
    "files/a%20b",
    "files/\u00e9",
    "files/e\u0301",
    "files/📦.bin",
    "files//doubled",
    "files/trailing ",
]


def test_an_expired_reservation_goes_with_its_bytes_and_leaves_an_audit_event(
    installation: Installation, collect: Collector
) -> None:
    identity = installation.reserve("files/gone", body=b"12345")

    outcome = collect()

    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (1, 1)
    assert outcome.detail["bytes_freed"] == 5
    assert outcome.detail["truncated"] is False
    assert not installation.has_row("files/gone")
    assert not installation.has_object("files/gone")
    bodies = installation.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")
    kinds = [body[0]["kind"] for body in bodies]
    assert kinds == [
        "upload_reservation.collected",
        "objects.delete.intent",
        "objects.delete.result",
    ]
    assert bodies[0][0]["file_id"] == str(identity)
    assert bodies[1][0]["keys"] == ["files/gone"]
    assert bodies[2][0]["deleted"] == 1


def test_only_expired_pending_rows_are_taken(
    installation: Installation, collect: Collector
) -> None:
    kept = {
        "files/live": installation.reserve("files/live", due_ago=-HOUR),
        "files/ready": installation.reserve("files/ready", state="ready"),
        "files/deleted": installation.reserve("files/deleted", state="deleted"),
        "files/never": installation.reserve("files/never", expires=False),
    }

    outcome = collect()

    assert (outcome.scanned, outcome.acted) == (0, 0)
    assert outcome.detail["without_expiry"] == 1
    assert installation.keys() == set(kept)
    assert installation.value("SELECT count(*) FROM file") == 4


def test_a_dry_run_counts_and_changes_nothing_but_its_bookkeeping(
    installation: Installation, collect: Collector
) -> None:
    keys = {f"files/{n}" for n in range(7)}
    for key in keys:
        installation.reserve(key, body=b"1234")
    before = installation.execute("SELECT * FROM file ORDER BY id")

    outcome = collect(mode="dry", batch_size=3)

    assert (outcome.scanned, outcome.acted) == (7, 0)
    assert outcome.detail["would_collect"] == 7
    assert outcome.detail["would_free_bytes"] == 28
    assert not {"bytes_freed", "claimed", "never_arrived"} & set(outcome.detail)
    assert installation.execute("SELECT * FROM file ORDER BY id") == before
    assert installation.keys() == keys
    assert installation.value("SELECT count(*) FROM audit_event") == 0
    [progress] = installation.progress()
    assert (progress["mode"], progress["outcome"]) == ("dry", "ok")


def test_the_oldest_go_first_and_a_limit_says_that_it_was_hit(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(10)])

    outcome = collect(limit=4, batch_size=3)

    assert outcome.acted == 4
    assert outcome.detail["truncated"] is True
    assert outcome.detail["stopped_reason"] == "limit"
    assert outcome.detail["oldest_left"] is not None
    left = installation.execute("SELECT storage_key FROM file ORDER BY upload_expires_at")
    assert [row[0] for row in left] == [f"files/{n}" for n in range(4, 10)]


def test_a_limit_that_is_just_enough_is_not_called_truncated(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(4)])

    outcome = collect(limit=4, batch_size=2)

    assert outcome.acted == 4
    assert outcome.detail["truncated"] is False
    assert outcome.detail["oldest_left"] is None


def test_no_batch_is_begun_after_the_time_is_over(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(40)])
    remove = Removal.remove

    def then_the_time_is_over(self: Any, keys: Any) -> None:
        remove(self, keys)
        monkeypatch.setattr("time.monotonic", lambda: float("inf"))

    monkeypatch.setattr(Removal, "remove", then_the_time_is_over)

    outcome = collect(batch_size=10)

    assert outcome.ok
    assert outcome.acted == 10
    assert outcome.detail["stopped_reason"] == "max_runtime"
    assert outcome.detail["swept"] is False
    assert installation.value("SELECT count(*) FROM file") == 30


def test_a_run_whose_time_is_over_before_it_looked_at_anything_has_failed(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(4)])

    outcome = collect(max_runtime=timedelta(0))

    assert not outcome.ok
    assert (outcome.scanned, outcome.acted) == (None, None)
    assert "max_runtime" in str(outcome.error)
    assert installation.value("SELECT count(*) FROM file") == 4


def test_a_grace_leaves_young_ones_alone(installation: Installation, collect: Collector) -> None:
    installation.reserve("files/young", due_ago=timedelta(minutes=5))
    installation.reserve("files/old", due_ago=timedelta(minutes=20))

    outcome = collect(grace=timedelta(minutes=10))

    assert outcome.acted == 1
    assert installation.keys() == {"files/young"}


def test_what_is_left_is_overdue_from_the_end_of_its_grace_on(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/1", due_ago=HOUR * 3)
    installation.reserve("files/2", due_ago=HOUR * 2)

    outcome = collect(grace=HOUR, limit=1)

    expired = installation.value("SELECT upload_expires_at FROM file")
    assert datetime.fromisoformat(outcome.detail["oldest_left"]) == expired + HOUR


def test_the_claim_repeats_state_and_expiry_in_its_outer_where() -> None:
    outer = statements.CLAIM.split("FOR UPDATE SKIP LOCKED)")[1]

    for predicate in (
        "state = 'pending'",
        "upload_expires_at IS NOT NULL",
        "upload_expires_at >= %(from)s",
        "upload_expires_at < %(before)s",
        "RETURNING",
    ):
        assert predicate in outer


def test_a_run_that_lost_its_locks_between_two_batches_claims_nothing_more(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(20)])
    remove = Removal.remove

    def then_lose_them(self: Any, keys: Any) -> None:
        remove(self, keys)

        def lost() -> None:
            raise LeaseLost("another run holds the lock")

        monkeypatch.setattr(self._context.lease, "prove", lost)

    monkeypatch.setattr(Removal, "remove", then_lose_them)

    outcome = collect(batch_size=10, count_bytes=False)

    assert not outcome.ok
    assert outcome.acted == 10
    assert installation.value("SELECT count(*) FROM file") == 10


def test_an_expiry_equal_to_the_cutoff_is_not_expired(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)
    for key, due in (
        ("files/at", moment),
        ("files/before", moment - timedelta(microseconds=1)),
    ):
        installation.execute(
            "INSERT INTO file (storage_key, upload_expires_at) VALUES (%s, %s)", (key, due)
        )
    monkeypatch.setattr(file_table, "database_now", lambda _: moment)
    monkeypatch.setattr(run_context, "database_now", lambda _: moment)

    assert collect().acted == 1
    assert installation.has_row("files/at")
    assert not installation.has_row("files/before")


@pytest.mark.parametrize("zone", ["Asia/Seoul", "America/Los_Angeles"])
def test_the_time_zone_of_the_process_changes_nothing(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setenv("PGTZ", zone)
    installation.reserve("files/due", due_ago=timedelta(minutes=1))
    installation.reserve("files/not due", due_ago=-timedelta(minutes=1))

    assert collect().acted == 1
    assert installation.keys() == {"files/not due"}


def test_a_day_of_a_backfill_takes_its_day_only(
    installation: Installation, collect: Collector
) -> None:
    day = datetime(2026, 3, 5, tzinfo=timezone.utc)
    for key, due in (
        ("files/before", day - timedelta(microseconds=1)),
        ("files/first", day),
        ("files/last", day + timedelta(days=1, microseconds=-1)),
        ("files/after", day + timedelta(days=1)),
    ):
        installation.execute(
            "INSERT INTO file (storage_key, upload_expires_at) VALUES (%s, %s)", (key, due)
        )
    window = Window(day, day + timedelta(days=1), "2026-03-05")

    assert collect(mode="dry", window=window).detail["would_collect"] == 2
    outcome = collect(window=window)

    assert (outcome.scanned, outcome.acted) == (2, 2)
    left = installation.execute("SELECT storage_key FROM file ORDER BY 1")
    assert [row[0] for row in left] == ["files/after", "files/before"]
    assert installation.progress()[-1]["detail"]["window"]["covers"] == "2026-03-05"


def test_keys_are_exact(installation: Installation, collect: Collector) -> None:
    for key in ODD_KEYS:
        installation.reserve(key)
    twins = {"files/a&b", "files/E"}
    near = {"files/doubled": "files//doubled", "files/trailing": "files/trailing "}
    twins |= set(near)
    for key in twins:
        installation.reserve(key, state="ready")

    outcome = collect()

    assert outcome.acted == len(ODD_KEYS)
    # What a row names after blanks or slashes that nobody declared is ambiguous: its bytes stay.
    assert installation.keys() == twins | set(near.values())


def test_an_object_that_never_arrived_has_its_own_count(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/arrived", body=b"123")
    installation.reserve("files/never arrived", body=None)

    outcome = collect()

    assert outcome.acted == 2
    assert outcome.detail["never_arrived"] == 1
    assert outcome.detail["bytes_freed"] == 3


def test_rows_outside_the_owned_prefix_or_protected_keep_row_and_bytes(
    installation: Installation, collect: Collector
) -> None:
    kept = {"other/a", "files/brand/logo"}
    for key in kept:
        installation.reserve(key)
    installation.reserve("files/ours")

    outcome = collect()

    assert outcome.acted == 1
    assert installation.keys() == kept
    assert all(installation.has_row(key) for key in kept)
    assert outcome.detail["oldest_left"] is not None


def test_a_run_in_which_nothing_may_be_collected_has_not_swept(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("other/a")

    outcome = collect()

    assert outcome.ok, outcome.error
    assert (outcome.detail["untouched"], outcome.detail["swept"]) == (1, False)


def test_bytes_that_another_table_names_stay(
    installation: Installation, collect: Collector
) -> None:
    installation.execute("CREATE TABLE account (avatar_key text)")
    installation.reserve("files/shared")
    installation.reserve("files/alone")
    installation.execute("INSERT INTO account VALUES ('files/shared')")
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select avatar_key from account -- all of them"}
    ]

    outcome = collect()

    assert outcome.ok
    assert installation.keys() == {"files/shared"}
    assert any("avatars" in fate for fate in outcome.detail["classes"])


def test_a_bucket_that_is_not_there_fails_before_anything_is_claimed(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/a")
    installation.document["buckets"]["uploads"]["bucket"] = "not-there"

    outcome = collect()

    assert not outcome.ok
    assert BucketUnavailable.__name__ in str(outcome.error) or "not-there" in str(outcome.error)
    assert installation.has_row("files/a")
    assert (outcome.scanned, outcome.acted) == (None, None)


# --- races, with real backends ------------------------------------------------------------------


def between_select_and_claim(monkeypatch: pytest.MonkeyPatch, what_happens: Any) -> None:
    """Let something happen after the candidates were read and before they are claimed."""
    read = Collection._read
    state = {"done": False}

    def read_then(self: Any, *arguments: Any) -> Any:
        page = read(self, *arguments)
        if page and not state["done"]:
            state["done"] = True
            what_happens()
        return page

    monkeypatch.setattr(Collection, "_read", read_then)


def test_a_client_that_completes_between_select_and_claim_keeps_its_upload(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = installation.reserve("files/slow client")
    installation.reserve("files/gone client")
    between_select_and_claim(
        monkeypatch,
        lambda: installation.execute("SELECT complete_upload(%s)", (slow,)),
    )

    outcome = collect()

    assert outcome.acted == 1
    assert outcome.detail["classes"]["won by others"] == 1
    assert installation.value("SELECT state FROM file WHERE id = %s", (slow,)) == "ready"
    assert installation.keys() == {"files/slow client"}


def test_control_the_careless_claim_loses_the_completed_upload(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = installation.reserve("files/slow client")
    completed: list[bool] = []
    between_select_and_claim(
        monkeypatch,
        lambda: completed.append(installation.value("SELECT complete_upload(%s)", (slow,))),
    )
    monkeypatch.setattr(
        collection,
        "CLAIM",
        """
        DELETE FROM file
         WHERE id = ANY(%(ids)s) AND (%(from)s, %(before)s) IS NOT NULL
        RETURNING id, storage_key, upload_expires_at, size_bytes
        """,
    )

    collect()

    assert completed == [True], "the client was told that its upload is complete"
    assert not installation.has_row("files/slow client")
    assert not installation.has_object("files/slow client")


def test_a_client_in_the_middle_of_completing_is_not_waited_for_and_wins(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = installation.reserve("files/slow client")
    client = psycopg.connect(installation.database_url)
    between_select_and_claim(
        monkeypatch, lambda: client.execute("SELECT complete_upload(%s)", (slow,))
    )

    outcome = collect()
    client.commit()
    client.close()

    assert outcome.ok
    assert outcome.acted == 0
    assert installation.has_object("files/slow client")
    assert installation.value("SELECT state FROM file") == "ready"


def test_a_client_that_extends_its_reservation_keeps_it(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = installation.reserve("files/slow client")
    between_select_and_claim(
        monkeypatch,
        lambda: installation.execute(
            "UPDATE file SET upload_expires_at = now() + interval '1 hour' WHERE id = %s", (slow,)
        ),
    )

    assert collect().acted == 0
    assert installation.has_row("files/slow client")
    assert installation.has_object("files/slow client")


def test_a_row_that_an_admin_deletes_in_between_is_not_counted_as_ours(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = installation.reserve("files/admin")
    between_select_and_claim(
        monkeypatch, lambda: installation.execute("DELETE FROM file WHERE id = %s", (row,))
    )

    outcome = collect()

    assert outcome.ok
    assert outcome.acted == 0
    assert outcome.detail["classes"]["won by others"] == 1
    assert installation.has_object("files/admin"), "the bytes belong to whoever removed the row"


def test_a_key_that_is_referenced_again_before_the_bytes_go_stays(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/again")
    sizes = Removal.sizes

    def reference_it(self: Any, keys: Any) -> Any:
        installation.execute(
            "INSERT INTO file (state, storage_key) VALUES ('ready', 'files/again')"
        )
        return sizes(self, keys)

    monkeypatch.setattr(Removal, "sizes", reference_it)

    outcome = collect()

    assert outcome.ok
    assert installation.has_object("files/again")
    assert outcome.detail["bytes_freed"] == 0


def test_two_live_runs_at_once_one_works_and_the_other_fails_at_once(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/a")
    outcomes: list[Any] = []
    between_select_and_claim(monkeypatch, lambda: outcomes.append(collect(run_id="the second")))

    first = collect(run_id="the first")

    [second] = outcomes
    assert first.ok
    assert first.acted == 1
    assert not second.ok
    assert "the first" in second.error
    assert "the test" in second.error
    assert second.scanned is None


def test_two_collectors_whose_lock_fails_still_take_each_row_once(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even without the exclusive lock, the claim alone keeps them apart."""
    monkeypatch.setattr("filejobs_dagster.jobs.lifecycle._claim_exclusive", lambda _: None)
    installation.reserve_many([f"files/{n}" for n in range(400)])
    barrier = threading.Barrier(2)
    outcomes: list[Any] = []

    def work() -> None:
        barrier.wait()
        outcomes.append(collect(batch_size=20, count_bytes=False))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [outcome.error for outcome in outcomes] == [None, None]
    claimed = sum(outcome.detail["claimed"] for outcome in outcomes)
    assert claimed == 400 - installation.value("SELECT count(*) FROM file")
    collected = installation.execute(
        "SELECT body::jsonb->>'file_id' FROM audit_event"
        " WHERE body::jsonb->>'kind' = 'upload_reservation.collected'"
    )
    assert len(collected) == len(set(collected)) == claimed


def test_the_application_inserts_and_completes_while_batches_run(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(600)])
    stop = threading.Event()
    completed: list[uuid.UUID] = []
    problems: list[Exception] = []

    def application() -> None:
        try:
            with psycopg.connect(installation.database_url, autocommit=True) as connection:
                while not stop.is_set():
                    row = connection.execute(
                        "INSERT INTO file (storage_key, upload_expires_at)"
                        " VALUES ('files/new-' || gen_random_uuid(), now() - interval '1 s')"
                        " RETURNING id"
                    ).fetchone()
                    assert row is not None
                    done = connection.execute("SELECT complete_upload(%s)", row).fetchone()
                    if done == (True,):
                        completed.append(row[0])
        except Exception as error:  # noqa: BLE001 (shown by the assertion below)
            problems.append(error)

    thread = threading.Thread(target=application)
    thread.start()
    outcome = collect(batch_size=25, count_bytes=False)
    stop.set()
    thread.join()

    assert not problems
    assert outcome.ok
    assert len(completed) > 10
    ready = installation.value(
        "SELECT count(*) FROM file WHERE id = ANY(%s) AND state = 'ready'", (completed,)
    )
    assert ready == len(completed)


# --- poison, bounded, restartable ---------------------------------------------------------------


def test_a_row_that_a_foreign_key_holds_is_recorded_and_the_others_go_on(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(20)])
    installation.execute("CREATE TABLE share (file_id uuid REFERENCES file)")
    installation.execute("INSERT INTO share SELECT id FROM file WHERE storage_key = 'files/7'")

    outcome = collect(batch_size=8)

    assert outcome.ok
    assert outcome.acted == 19
    assert outcome.detail["classes"]["claim refused"] == 1
    assert "share" in outcome.detail["samples"]["claim refused"][0]
    assert [row[0] for row in installation.execute("SELECT storage_key FROM file")] == ["files/7"]


def test_a_row_that_a_trigger_refuses_is_recorded_whatever_its_error_code(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(6)])
    installation.execute(
        """
        CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF old.storage_key = 'files/0' THEN
                RAISE EXCEPTION 'on legal hold' USING ERRCODE = 'insufficient_privilege';
            END IF;
            RETURN old;
        END $$
        """
    )
    installation.execute(
        "CREATE TRIGGER hold BEFORE DELETE ON file FOR EACH ROW EXECUTE FUNCTION hold()"
    )

    outcome = collect()

    assert outcome.ok
    assert outcome.acted == 5
    assert outcome.detail["samples"]["claim refused"] == ["files/0: on legal hold"]


def test_a_key_with_dot_segments_is_kept_because_a_proxy_may_resolve_it(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/u/../../files/brand/logo.png", body=None)
    installation.reserve("files/a")

    outcome = collect()

    assert outcome.acted == 1
    assert outcome.detail["classes"]["kept: ambiguous path"] == 1
    assert outcome.detail["swept"] is False


def test_rows_that_may_not_go_cost_whole_pages_however_little_the_limit_leaves(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve_many([f"other/{n}" for n in range(950)], due_ago=HOUR * 2)
    installation.reserve("files/a")
    reads: list[int] = []
    read = Collection._read

    def count(self: Any, *arguments: Any) -> Any:
        reads.append(1)
        return read(self, *arguments)

    monkeypatch.setattr(Collection, "_read", count)

    outcome = collect(limit=1, batch_size=500)

    assert outcome.acted == 1
    assert len(reads) <= 3


def test_a_second_run_finds_nothing_left_to_do(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/a")
    assert collect().acted == 1

    again = collect()

    assert again.ok
    assert (again.scanned, again.acted) == (0, 0)


def test_nothing_due_is_a_success_with_zero(collect: Collector) -> None:
    outcome = collect()

    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (0, 0)
    assert outcome.detail["oldest_left"] is None


def test_a_run_that_was_given_up_claims_nothing_more(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/a")
    between_select_and_claim(
        monkeypatch,
        lambda: installation.execute("UPDATE job_progress SET closed_at = now()"),
    )

    with pytest.raises(Exception, match="given up for dead"):
        collect()

    assert installation.has_row("files/a")
    assert installation.has_object("files/a")


def test_a_run_that_was_given_up_between_commit_and_bytes_deletes_no_bytes(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/a")
    delete_bytes = Removal.remove

    def give_up(self: Any, won: Any) -> None:
        installation.execute("UPDATE job_progress SET closed_at = now()")
        delete_bytes(self, won)

    monkeypatch.setattr(Removal, "remove", give_up)

    with pytest.raises(Exception, match="given up for dead"):
        collect()

    assert not installation.has_row("files/a")
    assert installation.has_object("files/a")


def test_a_run_whose_locks_were_taken_over_deletes_no_bytes(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/a")
    delete_bytes = Removal.remove
    thief = psycopg.connect(installation.database_url)

    def steal(self: Any, won: Any) -> None:
        number = lock_number(exclusive_lock("public", "upload_reservations"))
        with self._context.lease._guard:
            installation.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name LIKE 'filejobs/upload_reservations lock%%'"
                " AND datname = current_database()"
            )
            thief.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
        delete_bytes(self, won)

    monkeypatch.setattr(Removal, "remove", steal)

    outcome = collect()
    thief.close()

    assert not outcome.ok
    assert "LeaseLost" in str(outcome.error)
    assert installation.has_object("files/a")


def test_the_candidate_query_uses_the_partial_index(installation: Installation) -> None:
    installation.execute(
        "INSERT INTO file (state, storage_key) "
        "SELECT 'ready', 'files/' || n FROM generate_series(1, 20000) AS n"
    )
    installation.execute("ANALYZE file")
    values = {
        "before": datetime.now(timezone.utc),
        "after": statements.BEGINNING,
        "after_id": statements.LAST_ID,
        "size": 500,
    }

    plan = installation.execute("EXPLAIN " + statements.CANDIDATES, values)
    oldest = installation.execute("EXPLAIN " + statements.OLDEST_LEFT, {"cutoff": values["before"]})

    assert "file_reservation_due" in str(plan)
    assert "Sort" not in str(plan)
    assert "file_reservation_due" in str(oldest)
