"""What must not keep a later run, or the other objects, from being finished."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from botocore.awsrequest import AWSResponse

from filejobs_dagster.book.outcomes import Fate, ItemOutcome, Outcomes
from filejobs_dagster.book.totals import Totals
from filejobs_dagster.jobs.storage_orphans import marks, removal, statements, supply
from filejobs_dagster.jobs.storage_orphans.detail import note_outcomes
from filejobs_dagster.jobs.storage_orphans.removal import Drain
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.heads import measure
from tests.jobs.storage_orphans.test_sweep_failures import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.storage_orphans.conftest import Sweeper

pytestmark = pytest.mark.thorough

POISON = [f"files/a{number:02d}" for number in range(12)]
HEALTHY = ["files/b1", "files/b2", "files/b3"]


def poison(key: str) -> tuple[str, int] | None:
    return ("AccessDenied", 403) if key in POISON else None


def test_a_dozen_refused_objects_in_a_batch_that_lets_others_go_are_no_rejection(
    sweep: Sweeper,
) -> None:
    sweep.seen_before(*POISON, *HEALTHY)
    refuse(sweep, poison)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["fates"] == {"deleted": 3, "failed": 12}
    assert outcome.detail["objects_left"] == 12
    assert outcome.detail["swept"] is False


def oldest_first(sweep: Sweeper, *keys: str) -> None:
    """Orphans that were written in this order, by a server that tells whole seconds or less."""
    sweep.seen_before(*keys)
    assert list(sweep.candidates()) == sorted(keys)


def pauses_are_over(sweep: Sweeper) -> None:
    sweep.installation.execute("UPDATE setback SET not_before = now()")


def test_what_storage_refused_before_comes_last_and_starves_nobody(sweep: Sweeper) -> None:
    oldest_first(sweep, "files/a00", *HEALTHY)
    asked = refuse(sweep, poison)
    assert sweep(limit=1).error is not None
    assert set(asked) == {"files/a00"}
    asked.clear()
    for number, healthy in enumerate(HEALTHY):
        pauses_are_over(sweep)
        outcome = sweep(limit=1)
        assert outcome.ok, outcome.error
        assert set(asked) == set(HEALTHY[: number + 1]), healthy
    pauses_are_over(sweep)
    last = sweep(limit=1)
    assert set(asked) == {*HEALTHY, "files/a00"}
    assert last.ok, "what fails again says nothing new of the storage"
    assert (last.detail["swept"], last.detail["put_off"]) == (False, {"failed": 1})
    assert "1 failed" in last.detail["finding"]
    assert last.detail["oldest_left"] is not None
    asked.clear()
    assert sweep().ok
    assert not asked, "its pause is not over"


def test_control_in_the_order_of_age_alone_the_refused_object_is_asked_for_in_every_run(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest_first(sweep, "files/a00", *HEALTHY)
    monkeypatch.setattr(
        statements, "NEXT", statements.NEXT.replace("reason IS NOT NULL AS", "false AS")
    )
    asked = refuse(sweep, poison)
    for _ in range(2):
        sweep(limit=1)
        pauses_are_over(sweep)
    assert set(asked) == {"files/a00"}


def test_candidates_are_walked_over_in_steps_that_leave_none_out(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (marks, supply):
        monkeypatch.setattr(module, "MOST_IN_A_STEP", 2)
    orphans = [f"files/{number}" for number in range(7)]
    sweep.seen_before(*orphans)
    # The same keys in another bucket are none of this one's business, and in the way of no walk.
    sweep.installation.execute(
        "INSERT INTO orphan_candidate (bucket, key, etag, size_bytes, last_modified,"
        " first_seen_run, last_seen_run, fingerprint)"
        " SELECT 'zz', key, etag, size_bytes, last_modified, 'r', 'r', 'f' FROM orphan_candidate"
    )
    sweep.refer("files/0", "files/4", "files/6")
    outcome = sweep(limit=3)
    assert outcome.ok, outcome.error
    assert outcome.detail["marks_cleared"] == 3
    assert (outcome.acted, outcome.detail["deferred"], outcome.detail["deferred_bytes"]) == (
        3,
        1,
        5,
    )
    assert outcome.detail["waiting"] == 0
    last = sweep()
    assert (last.acted, last.detail["swept"]) == (1, True)
    others = "SELECT count(*) FROM orphan_candidate WHERE bucket = 'zz'"
    assert sweep.installation.value(others) == 7


def test_with_many_marks_no_statement_of_a_walk_reads_or_sorts_them_all(
    connection: psycopg.Connection,
) -> None:
    connection.execute(
        "INSERT INTO orphan_candidate (bucket, key, etag, size_bytes, last_modified,"
        " first_seen_run, last_seen_run, fingerprint)"
        " SELECT 'uploads', convert_to('files/' || n, 'UTF8'), md5(n::text), 1,"
        " now() - n * interval '1 minute', 'one', 'two', 'f' FROM generate_series(1, 20000) AS n"
    )
    moment = datetime.now(timezone.utc)
    values = {
        "bucket": "uploads", "job": "storage_orphans", "run_id": "two", "fingerprint": "f",
        "confirmed_before": moment,
        "there_before": moment,
        "at": moment, "most": 100, "young_runs": ["three"], "judged_at": [moment],
    }  # fmt: skip
    keys = {"after": b"files/10", "through": b"files/1010"}
    times = {"after": moment, "after_key": b""}
    for analyzed in (False, True):
        if analyzed:
            connection.execute("ANALYZE orphan_candidate")
        for statement, more in (
            (statements.WALK_END, keys),
            (statements.CLEAR, keys),
            (statements.TALLY, keys),
            (statements.NEXT, times),
        ):
            plan = connection.execute(b"EXPLAIN " + statement.encode(), {**values, **more})
            lines = "\n".join(line for (line,) in plan.fetchall())
            assert "Seq Scan" not in lines, lines
        for statement in (statements.INTEND, statements.DUE_AMONG, statements.GONE):
            batch = {**values, "keys": [b"files/%d" % number for number in range(1, 200)]}
            plan = connection.execute(b"EXPLAIN " + statement.encode(), batch)
            lines = "\n".join(line for (line,) in plan.fetchall())
            assert "Seq Scan" not in lines, lines


def test_a_clock_that_was_set_back_between_two_runs_fails_none_of_them(sweep: Sweeper) -> None:
    sweep.seen_before("files/orphan")
    sweep.installation.execute(
        "UPDATE orphan_candidate SET first_seen_at = now() + interval '4 minutes',"
        " last_seen_at = now() + interval '4 minutes'"
    )
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert (outcome.acted, outcome.detail["waiting"]) == (0, 1)


def interrupt(sweep: Sweeper, *keys: str) -> None:
    sweep.installation.execute(
        "UPDATE orphan_candidate SET state = 'deleting', intent_run = 'dead',"
        " intent_at = now() - interval '1 hour'"
        " WHERE key = ANY(SELECT convert_to(key, 'UTF8') FROM unnest(%s::text[]) AS key)",
        (list(keys),),
    )


def test_one_interrupted_object_of_which_storage_does_not_speak_keeps_no_other_from_going(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.seen_before("files/a", "files/b", "files/c")
    interrupt(sweep, "files/a", "files/b")

    def mute(client: Any, bucket: str, keys: Any) -> Any:
        found = measure(client, bucket, keys)
        return found | {"files/a": StorageError("InternalError", "made up")}

    monkeypatch.setattr(removal, "measure", mute)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["recovered"] == {"gone": 0, "there": 1, "not_known": 1}
    assert outcome.acted == 2
    assert outcome.detail["swept"] is False
    assert sweep.candidates() == {"files/a": "deleting"}, "nobody may refer to it yet"
    monkeypatch.setattr(removal, "measure", measure)
    assert sweep().acted == 1


def test_a_deletion_that_was_sent_a_moment_ago_may_still_arrive_and_keeps_its_key_refused(
    sweep: Sweeper,
) -> None:
    sweep.seen_before("files/a", "files/b")
    sweep.installation.execute(
        "UPDATE orphan_candidate SET state = 'deleting', intent_at = now(), intent_run = 'dead'"
        " WHERE key = 'files/a'"
    )
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["recovered"] == {"gone": 0, "there": 0, "too_recent": 1}
    assert (outcome.acted, outcome.detail["swept"]) == (1, False)
    with pytest.raises(Exception, match="is being deleted"):
        sweep.refer("files/a")
    sweep.deletions_have_arrived()
    assert (sweep().acted, sweep.candidates()) == (1, {})


def test_where_storage_speaks_of_no_interrupted_object_the_run_fails(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.seen_before("files/a", "files/b")
    interrupt(sweep, "files/a", "files/b")
    error = StorageError("InternalError", "made up")
    monkeypatch.setattr(
        removal, "measure", lambda _client, _bucket, keys: dict.fromkeys(keys, error)
    )
    assert "does not say of any of them" in str(sweep().error)


def test_intents_of_an_entry_that_was_renamed_are_told_in_every_run(sweep: Sweeper) -> None:
    sweep.seen_before("files/a")
    interrupt(sweep, "files/a")
    sweep.installation.execute("UPDATE orphan_candidate SET bucket = 'former'")
    outcome = sweep("dry")
    assert outcome.detail["interrupted_elsewhere"] == {"former": 1}
    assert any("former (1 objects)" in line for line in sweep.log)


def test_a_run_whose_time_is_over_says_truncated(sweep: Sweeper) -> None:
    sweep.put("files/a")
    outcome = sweep("dry", max_runtime=timedelta(0))
    assert outcome.detail["truncated"] is True
    assert outcome.detail["stopped_reason"] == "max_runtime"
    assert (outcome.scanned, outcome.acted) == (None, None)


def test_a_key_longer_than_s3_allows_is_kept_and_stops_no_mark(sweep: Sweeper) -> None:
    sweep.put("files/" + "x" * 1019, "files/used", "files/orphan")
    sweep.refer("files/used")
    assert sweep("dry").detail["classes"] == {
        "referenced": 1, "unknown shape": 1, "orphan": 1,
    }  # fmt: skip


def test_a_source_with_the_name_of_the_projects_table_is_refused(sweep: Sweeper) -> None:
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "file", "sql": "select storage_key from file", "min_rows": 0}
    ]
    error = str(sweep("dry").error)
    assert "as the project's own table is" in error
    assert "Give it another name" in error


def test_objects_that_stay_with_their_owners_are_counted_under_one_fate() -> None:
    totals = Totals(live=True)
    note_outcomes(
        totals,
        Outcomes(
            tuple(
                ItemOutcome(
                    b"files/small/%d" % number,
                    Fate.KEPT,
                    f"derived from 'files/{number}', which is referenced",
                )
                for number in range(50)
            )
        ),
    )
    assert totals.classes == {"kept: its owner is referenced": 50}
    assert "derived from 'files/0'" in totals.samples["kept: its owner is referenced"][0]


OLD = "files/old"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>made up</Message></Error>"


class Raw(io.BytesIO):
    """The body of an answer, as urllib3 has it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


@pytest.fixture
def late(sweep: Sweeper) -> Callable[[], None]:
    """The server says that it is busy with every request to delete, and then a source is away.

    Returns:
        What the server does in the end with a request of which it only said that it was busy.
    """
    sweep.installation.execute("CREATE TABLE account (avatar_key text)")
    sweep.installation.execute("INSERT INTO account VALUES ('files/used')")
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select avatar_key from account"}
    ]
    sweep.seen_before(OLD)

    requests = []

    def busy(**_: Any) -> Any:
        if sweep.candidates().get(OLD) != "deleting":
            return None  # the probe deletes objects of its own
        requests.append(1)
        if len(requests) == sweep.bucket.max_attempts:
            sweep.installation.execute("ALTER TABLE account RENAME TO away")
        return AWSResponse("http://made.up", 503, {}, Raw(SLOW_DOWN))  # type: ignore[arg-type]

    for name in ("DeleteObject", "DeleteObjects"):
        sweep.client.meta.events.register_last(f"before-send.s3.{name}", busy)

    def arrive() -> None:
        sweep.installation.client.delete_object(Bucket=sweep.installation.bucket, Key=OLD)

    return arrive


def test_what_storage_was_asked_for_stays_intended_when_a_source_fails_before_the_next_try(
    sweep: Sweeper, late: Callable[[], None]
) -> None:
    outcome = sweep()
    assert "avatars" in str(outcome.error)
    assert sweep.candidates() == {OLD: "deleting"}
    with pytest.raises(psycopg.Error, match="is being deleted"):
        sweep.refer(OLD)
    late()
    assert not sweep.installation.has_row(OLD)


def test_control_who_takes_that_intent_back_ends_with_a_row_without_its_object(
    sweep: Sweeper, late: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = Drain._stop
    monkeypatch.setattr(
        Drain,
        "_stop",
        lambda self, intended, stopped, **_: stop(self, intended, stopped, asked=False),
    )
    assert not sweep().ok
    sweep.refer(OLD)
    late()
    assert sweep.installation.has_row(OLD)
    assert not sweep.installation.has_object(OLD)
