"""A sweep keeps what it takes, says before what that costs, and ends it only while nobody asks."""

from __future__ import annotations

import tracemalloc
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.storage_orphans import expiring, statements
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.objects.quarantine import Copy, copies_below, original_of
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.references.elsewhere import search
from filejobs_dagster.settings.storage import QuarantineSettings
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS
from tests.jobs.storage_orphans.killed import all_are_due
from tests.jobs.test_upload_reservations_storage import answer, error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filejobs_dagster.ledger.outcome import Outcome
    from tests.jobs.storage_orphans.conftest import Sweeper

ORPHANS = ("files/a", "files/b")


def kept(sweep: Sweeper) -> list[str]:
    pages = copies_below(sweep.client, sweep.bucket.bucket, "")
    return sorted(it.original for page in pages for it in page)


def live(sweep: Sweeper) -> set[str]:
    keys = sweep.installation.keys()
    return {key for key in keys if not key.startswith(QUARANTINE)}


@pytest.fixture
def much_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let all copies have been made forty days ago."""

    def pass_by() -> None:
        monkeypatch.setattr(expiring, "copies_below", copies_below)
        all_are_due()

    return pass_by


def went(sweep: Sweeper, *orphans: str) -> Outcome:
    sweep.seen_before(*orphans)
    outcome = sweep()
    assert outcome.ok, outcome.error
    return outcome


def test_a_file_that_says_nothing_keeps_what_its_first_sweeps_take(sweep: Sweeper) -> None:
    sweep.installation.keeps(None)
    sweep.seen_before(*ORPHANS)
    dry = sweep("dry")
    assert dry.detail["would_quarantine"] == {
        "objects": 2,
        "bytes": 2 * len(b"bytes"),
        "requests": 8,
        "days": 30,
    }
    assert dry.detail["would_free_bytes"] == 0
    assert "kept in quarantine for" in dry.detail["explained"]
    assert kept(sweep) == []

    outcome = sweep()
    assert outcome.acted == 2
    assert outcome.detail["quarantined"] == 2
    assert outcome.detail["bytes_freed"] == 0
    assert outcome.detail["quarantine"]["because"] == expiring.BY_DEFAULT
    assert outcome.detail["in_quarantine"]["objects"] == 2
    assert outcome.detail["in_quarantine"]["bytes"] == 2 * len(b"bytes")
    assert "2 quarantined (nothing freed)" in outcome.detail["explained"]
    assert live(sweep) == {"files/used"}
    assert kept(sweep) == list(ORPHANS)
    (result,) = [it for it in sweep.events("objects.delete.result") if "quarantined" in it]
    assert result["quarantined"] == 2

    sweep.put("files/c")
    sweep()
    assert sweep().detail["quarantined"] == 1, "it goes on while the file says nothing"


def test_where_a_sweep_has_deleted_at_once_before_that_goes_on(sweep: Sweeper) -> None:
    went(sweep, *ORPHANS)
    sweep.installation.keeps(None)
    sweep.put("files/c")
    sweep()
    outcome = sweep()
    assert (outcome.acted, outcome.detail["deleted"]) == (1, 1)
    assert kept(sweep) == []
    assert "quarantine" not in outcome.detail


def test_what_was_kept_long_enough_goes_and_frees_its_place(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    assert sweep().detail["in_quarantine"]["expired"] == 0, "its time is not over"
    much_later()
    assert sweep("dry").ok
    assert kept(sweep) == list(ORPHANS), "a dry run takes nothing"
    detail = sweep().detail
    assert detail["in_quarantine"]["expired"] == 2
    assert detail["in_quarantine"]["objects"] == 0
    assert kept(sweep) == []
    intents = [it for it in sweep.events("objects.delete.intent") if it.get("quarantine")]
    assert len(intents[0]["keys"]) == 2


@pytest.fixture
def denied(sweep: Sweeper) -> Iterator[set[str]]:
    """Copies of these keys may not be deleted."""
    keys: set[str] = set()

    def before_send(request: Any, **_: Any) -> Any:
        asked = unquote(request.url).split("?")[0].partition(QUARANTINE)
        return (
            answer(403, error("AccessDenied"))
            if original_of(QUARANTINE + asked[2]) in keys
            else None
        )

    # A deletion that names the ETag takes a request of its own.
    events: Any = sweep.client.meta.events
    events.register("before-send.s3.DeleteObject", before_send)
    yield keys
    keys.clear()


def test_copies_that_may_not_go_are_counted_and_wait_behind_all_others(
    sweep: Sweeper, much_later: Callable[[], None], denied: set[str]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    denied.add("files/a")
    much_later()
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["in_quarantine"] | {"bytes": 0, "oldest": ""} == {
        "objects": 1, "bytes": 0, "oldest": "", "expired": 1, "brought_back": 0, "failed": 1,
    }  # fmt: skip
    assert outcome.detail["fates"]["copy in quarantine: failed"] == 1
    assert outcome.detail["swept"] is False, "what is due is still there"
    days = datetime.now(timezone.utc) - datetime.fromisoformat(outcome.detail["oldest_left"])
    assert days.days == 10, "forty days kept, of thirty"

    waits = sweep()
    assert waits.ok, waits.error
    assert waits.detail["fates"] == {"copy in quarantine: waits after a failure": 1}
    assert waits.detail["swept"] is False
    assert waits.detail["oldest_left"] is not None
    assert len(sweep.events("objects.delete.intent")) == 2, "it is not asked for before its time"

    denied.clear()
    sweep.installation.execute("UPDATE setback SET not_before = now()")
    last = sweep()
    assert (last.detail["swept"], last.detail["in_quarantine"]["expired"]) == (True, 1)
    assert kept(sweep) == []
    assert sweep.installation.value("SELECT count(*) FROM setback") == 0


def test_copies_of_which_none_may_go_fail_one_run_and_then_make_the_job_late(
    sweep: Sweeper, much_later: Callable[[], None], denied: set[str]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    denied.update(ORPHANS)
    much_later()
    refused = sweep()
    assert "quarantine" in (refused.error or "")
    assert "Check the bucket's permissions" in (refused.error or "")
    sweep.put("files/c")
    assert sweep().ok
    sweep.installation.execute("UPDATE setback SET not_before = now()")
    again = sweep()
    assert again.ok, again.error
    assert (again.acted, again.detail["in_quarantine"]["expired"]) == (1, 1), "nothing is stopped"
    assert (again.detail["swept"], again.detail["in_quarantine"]["failed"]) == (False, 2)


def test_copies_that_a_limit_leaves_are_due_and_no_sweep(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    much_later()
    outcome = sweep(limit=1)
    assert outcome.detail["in_quarantine"]["expired"] == 1, "the limit counts what went"
    assert outcome.detail["fates"]["copy in quarantine: deferred"] == 1
    assert (outcome.detail["swept"], outcome.detail["truncated"]) == (False, True)
    assert outcome.detail["stopped_reason"] == "limit"
    assert outcome.detail["oldest_left"] is not None
    assert sweep().detail["swept"] is True


@pytest.mark.parametrize("tripped", [False, True])
def test_what_is_referenced_again_comes_back_at_once_and_before_any_breaker(
    sweep: Sweeper, tripped: bool
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    sweep.refer("files/a")
    dry = sweep("dry").detail
    said = {"objects": 1, "in_quarantine": 1, "brought_back": 0, "keys": ["files/a"]}
    assert (dry["missing"], dry["missing_taken"]) == (1, said)
    assert live(sweep) == {"files/used"}, "a dry run says it and does nothing"
    assert "filejobs restore KEY" in "".join(sweep.log)

    limits = {"max_missing_fraction": 0, "tolerated": 0} if tripped else {}
    outcome = sweep(breakers=NEVER_TRIPS.model_copy(update=limits))
    assert outcome.ok is not tripped
    assert (outcome.detail["missing"], outcome.detail["missing_taken"]["brought_back"]) == (0, 1)
    assert live(sweep) == {"files/used", "files/a"}
    (intent,) = sweep.events("objects.restore.intent")
    assert (intent["keys"], intent["because"]) == (["files/a"], expiring.BECAUSE)
    (result,) = sweep.events("objects.restore.result")
    assert (result["keys"], result["restored"]) == (["files/a"], 1)
    assert "missing_taken" not in sweep("dry").detail

    drop(sweep, "files/a")
    assert sweep().detail["missing_taken"]["brought_back"] == 0, "somebody else has deleted it"


def drop(sweep: Sweeper, *keys: str) -> None:
    for key in keys:
        sweep.installation.client.delete_object(Bucket=sweep.installation.bucket, Key=key)


def written_again_and_deleted_by_its_user(sweep: Sweeper) -> Outcome:
    """The old file was an orphan; a new one got its key and a row, and only the row is left."""
    went(sweep, "files/a")
    sweep.put("files/a", body=b"the newer one")
    sweep.refer("files/a")
    assert sweep().acted == 0
    drop(sweep, "files/a")
    outcome = sweep()
    assert outcome.ok, outcome.error
    return outcome


def test_an_old_copy_does_not_come_back_under_a_newer_row_by_itself(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps(bring_back=False)
    taken = written_again_and_deleted_by_its_user(sweep).detail["missing_taken"]
    assert taken == {"objects": 1, "in_quarantine": 1, "brought_back": 0, "keys": ["files/a"]}
    assert "filejobs restore KEY" in "".join(sweep.log)
    much_later()
    written = sweep.installation.value("SELECT count(*) FROM audit_event")
    detail = sweep().detail
    assert detail["fates"] == {"copy in quarantine: referenced": 1}
    assert sweep.installation.value("SELECT count(*) FROM audit_event") == written
    assert live(sweep) == {"files/used"}
    assert kept(sweep) == ["files/a"], "a person may want it, so it stays while it is named"


def test_control_where_somebody_says_that_no_key_is_written_twice_it_does(sweep: Sweeper) -> None:
    sweep.installation.keeps(bring_back=True)
    taken = written_again_and_deleted_by_its_user(sweep).detail["missing_taken"]
    assert taken["brought_back"] == 1
    answered = sweep.client.get_object(Bucket=sweep.bucket.bucket, Key="files/a")
    assert answered["Body"].read() == b"bytes", "not what the row is about"


def test_what_was_kept_twice_or_went_with_a_row_does_not_come_back_by_itself(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps()
    went(sweep, "files/a", "files/b")
    sweep.put("files/a", body=b"the newer one")
    assert sweep().ok
    assert sweep().acted == 1
    assert kept(sweep) == ["files/a", "files/a", "files/b"]
    intent = {"kind": "objects.delete.intent", "job": "deleted_files", "keys": ["files/b"]}
    database = sweep.installation.database
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        append(cursor, [{**intent, "bucket": sweep.bucket.bucket}])
    sweep.refer("files/a", "files/b")
    taken = sweep().detail["missing_taken"]
    assert (taken["objects"], taken["brought_back"]) == (2, 0)
    much_later()
    assert sweep().detail["fates"] == {"copy in quarantine: referenced": 3}
    assert live(sweep) == {"files/used"}


def test_behind_our_delete_markers_a_missing_object_is_named_with_the_way_back(
    sweep: Sweeper,
) -> None:
    sweep.installation.client.put_bucket_versioning(
        Bucket=sweep.installation.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    sweep.installation.keeps()
    sweep.seen_before(*ORPHANS)
    dry = sweep("dry").detail
    assert dry["would_quarantine"]["requests"] == 0
    assert "they are kept behind a delete marker" in dry["explained"]
    assert sweep().detail["marked"] == 2
    sweep.refer("files/a", "files/never")
    outcome = sweep()
    assert outcome.detail["missing"] == 2
    assert outcome.detail["missing_taken"] == {
        "objects": 1, "in_quarantine": 0, "brought_back": 0, "keys": ["files/a"]
    }  # fmt: skip
    assert "filejobs restore KEY" in "".join(sweep.log)


def test_a_role_that_may_not_read_the_log_says_what_quarantine_has_and_returns_nothing(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    sweep.refer("files/a")
    sweep.installation.execute(
        "CREATE FUNCTION refuse() RETURNS text LANGUAGE plpgsql"
        " AS 'BEGIN RAISE insufficient_privilege; END'"
    )
    monkeypatch.setattr(statements, "TAKEN", "SELECT refuse()")
    taken = sweep().detail["missing_taken"]
    assert (taken["in_quarantine"], taken["brought_back"]) == (1, 0)


def test_a_role_that_may_not_write_what_is_owned_says_so_and_fails_no_run(sweep: Sweeper) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    sweep.refer("files/a")
    events: Any = sweep.client.meta.events
    events.register("before-send.s3.CopyObject", lambda **_: answer(403, error("AccessDenied")))
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["swept"] is False
    assert outcome.detail["fates"]["copy in quarantine: not brought back"] == 1
    assert outcome.detail["missing_taken"]["brought_back"] == 0
    assert "filejobs restore KEY" in "".join(sweep.log)


def test_what_a_source_names_only_when_its_time_is_over_comes_back_and_is_not_lost(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    much_later()
    sweep.when["Compared"] = lambda: sweep.refer("files/a")
    outcome = sweep()
    assert "missing_taken" not in outcome.detail, "the pass did not know it"
    assert outcome.detail["in_quarantine"]["brought_back"] == 1
    assert live(sweep) == {"files/used", "files/a"}
    assert sweep.events("objects.restore.intent")[0]["keys"] == ["files/a"]
    assert sweep.events("objects.restore.result")[0]["keys"] == ["files/a"]

    written = sweep.installation.value("SELECT count(*) FROM audit_event")
    assert sweep().detail["fates"] == {"copy in quarantine: referenced": 1}
    again = sweep.installation.value("SELECT count(*) FROM audit_event")
    assert again == written, "its copy stays, and no run says so anew in the log"


def names_elsewhere(sweep: Sweeper, key: str) -> None:
    sweep.installation.execute("CREATE TABLE note (body text)")
    sweep.installation.execute("INSERT INTO note VALUES (%s)", (f"see {key}",))


def test_a_copy_that_a_column_names_by_now_stays(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    names_elsewhere(sweep, "files/a")
    much_later()
    detail = sweep().detail
    assert detail["in_quarantine"]["expired"] == 1
    assert detail["fates"]["copy in quarantine: named elsewhere"] == 1
    assert [it["column"] for it in detail["named_elsewhere"]] == ["public.note.body"]
    assert kept(sweep) == ["files/a"]


def test_a_copy_that_an_earlier_portion_has_found_named_stays_after_the_next_one(
    sweep: Sweeper, much_later: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A page goes over what is searched at once: what is found first is not forgotten for it.
    for module in (expiring, search):
        monkeypatch.setattr(module, "MOST_AT_ONCE", 1)
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    names_elsewhere(sweep, "files/a")
    much_later()
    detail = sweep().detail
    assert detail["fates"]["copy in quarantine: named elsewhere"] == 1
    assert kept(sweep) == ["files/a"]


def test_control_without_the_search_that_copy_is_lost(
    sweep: Sweeper, much_later: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    names_elsewhere(sweep, "files/a")
    much_later()
    monkeypatch.setattr(expiring.Copies, "_by_rules", lambda _, due: due)
    assert sweep().ok
    assert kept(sweep) == []


def test_no_copy_goes_before_all_was_searched(
    sweep: Sweeper, much_later: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    names_elsewhere(sweep, "nothing")
    much_later()
    monkeypatch.setattr(search, "read_in_parts", lambda *_, **__: "nobody may read it")
    assert "nobody may read it" in (sweep().error or "")
    assert kept(sweep) == list(ORPHANS)


def test_a_copy_whose_key_has_no_known_shape_any_more_stays(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    sweep.installation.document["buckets"]["uploads"]["shape"] = ["files/b", "files/used"]
    sweep.installation.write()
    much_later()
    assert sweep().ok, "the first pass by new rules"
    detail = sweep().detail
    assert detail["fates"]["copy in quarantine: unknown shape"] == 1
    assert kept(sweep) == ["files/a"]


def test_control_without_the_question_what_is_named_by_now_is_lost(
    sweep: Sweeper, much_later: Callable[[], None]
) -> None:
    class Careless(Gate):
        def _still_named(self, *_: object) -> dict[str, str]:
            return {}

    sweep.installation.keeps()
    went(sweep, *ORPHANS)
    much_later()
    sweep.when["Compared"] = lambda: sweep.refer("files/a")
    sweep.gate = Careless
    sweep()
    assert kept(sweep) == []
    assert live(sweep) == {"files/used"}, "a row names files/a, and its bytes are nowhere"


def test_a_listing_of_quarantine_needs_no_more_memory_for_more_copies(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.keeps()
    sweep.seen_before("files/a")
    since = datetime.now(timezone.utc)

    def peak(copies: int) -> int:
        def many(*_: object) -> Iterator[list[Copy]]:
            for start in range(0, copies, 1000):
                yield [
                    Copy(f"{QUARANTINE}files/{n}~{n:016x}", f"files/{n}", "e" * 32, 1, since)
                    for n in range(start, start + 1000)
                ]

        monkeypatch.setattr(expiring, "copies_below", many)
        one: Any = sweep
        context = expiring.Copies.__new__(expiring.Copies)
        vars(context).update(
            _storage=type("S", (), {"bucket": one.bucket, "client": None})(),
            _books=type("B", (), {"facts": {}})(),
            _request=type("R", (), {"batch_size": 1000, "limit": 1})(),
            _due=[], _again=[], _setbacks=None, _ends_at=0,
            _kept=0, _bytes=0, _oldest=None, _expired=0, _brought_back=0, _failed=0,
        )  # fmt: skip
        monkeypatch.setattr(expiring.Copies, "_drop_left_over", lambda *_: None)
        tracemalloc.start()
        context.expire(QuarantineSettings(), since, DeletionMode())
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert context._books.facts["in_quarantine"]["objects"] == copies
        return highest

    few, many = peak(5_000), peak(50_000)
    assert many < few * 1.5
