"""Limits, refusals, adoption, and what is left when a run ends early."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door import clocks
from filejobs_dagster.jobs.multipart_uploads import aborts
from filejobs_dagster.run_context import RunContext
from tests.objects.multipart.server import NOW, MultipartServer, is_abort, is_listing
from tests.objects.multipart.server import is_listing_of_parts as is_parts
from tests.objects.scripted import Answer, Request, errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.jobs.multipart_uploads.conftest import Sweeper
    from tests.objects.scripted import ScriptedS3

DENIED = Answer(403, errors("AccessDenied"))


def of(request: Request, key: str) -> bool:
    return request.path.split("?")[0].endswith(key)


def writes(scripted: ScriptedS3) -> list[str]:
    return [
        request.method for request in scripted.requests if request.method not in {"GET", "HEAD"}
    ]


# Dry


def test_a_dry_run_says_what_a_live_one_would_do_and_changes_nothing(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    key, upload_id = sweep.row("cleaned")
    sweep.server.begin(key, 5, upload_id=upload_id)
    for number in range(3):
        sweep.server.begin(f"files/{number}", 5, 7)
    before = sweep.there

    outcome = sweep("dry")

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (4, 0)
    assert outcome.detail["classes"] == {"would abort": 4}
    assert (outcome.detail["would_collect"], outcome.detail["would_free_bytes"]) == (4, 41)
    assert outcome.detail["swept"] is False
    assert "bytes_freed" not in outcome.detail
    assert "would be refused" in outcome.detail["door"]["marker"]
    assert sweep.there == before
    assert writes(scripted) == []
    assert sweep.installation.value("SELECT count(*) FROM audit_event") == 0
    assert sweep.installation.value("SELECT count(*) FROM bucket_adoption") == 0

    live = sweep()
    assert (live.acted, live.detail["bytes_freed"]) == (4, 41), "what the dry run had said"


# Limits


def test_a_limit_leaves_the_rest_to_the_next_run_and_says_how_old_it_is(sweep: Sweeper) -> None:
    for number in range(5):
        sweep.server.begin(f"files/{number}", 1, idle=timedelta(days=30 - number))

    first = sweep(limit=2, batch_size=2)
    assert first.ok, first.error
    assert (first.acted, first.detail["stopped_reason"]) == (2, "limit")
    assert (first.detail["truncated"], first.detail["swept"]) == (True, False)
    assert first.detail["deferred"] == 2
    left = NOW - timedelta(days=28) + timedelta(days=7)
    assert first.detail["oldest_left"] == left.isoformat()
    dry = sweep("dry", limit=2)
    assert dry.detail["would_collect"] == 2
    assert dry.detail["oldest_left"] == left.isoformat(), "a dry run leaves everything"

    second = sweep(limit=3)
    assert (second.acted, second.detail["truncated"], second.detail["swept"]) == (3, False, True)
    assert second.detail["oldest_left"] is None


def test_a_run_whose_time_is_over_ends_between_two_uploads_and_says_so(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        sweep.server.begin(f"files/{number}", 1)
    over: list[float] = []
    clock = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: clock() + sum(over))

    def take_long(request: Request) -> Answer | None:
        if is_abort(request):
            over.append(1e6)
        return None

    sweep.server.hooks = [take_long]
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert (outcome.acted, outcome.detail["stopped_reason"]) == (1, "max_runtime")
    assert outcome.detail["classes"] == {"aborted": 1, "deferred": 2}
    assert len(sweep.there) == 2
    assert len(sweep.events("multipart.abort.result")) == 1


def test_a_run_without_any_time_fails_and_decides_nothing(sweep: Sweeper) -> None:
    sweep.server.begin("files/a", 1)
    outcome = sweep(max_runtime=timedelta(0))
    assert not outcome.ok
    assert "before it had looked at one multipart upload" in str(outcome.error)
    assert (outcome.scanned, outcome.acted) == (None, None)


# Poison items, and refusals that are none


def test_poison_uploads_are_recorded_and_skipped_and_the_others_go(sweep: Sweeper) -> None:
    for name in ("a", "held", "hidden", "z"):
        sweep.server.begin(f"files/{name}", 5)
    sweep.server.hooks = [
        lambda request: DENIED if is_abort(request) and of(request, "held") else None,
        lambda request: DENIED if is_parts(request) and of(request, "hidden") else None,
    ]
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"aborted": 2, "failed": 1, "parts not readable": 1}
    assert (outcome.detail["uploads_left"], outcome.detail["swept"]) == (2, False)
    assert "AccessDenied" in outcome.detail["samples"]["failed"][0]
    assert "AccessDenied" in outcome.detail["samples"]["parts not readable"][0]
    [result] = sweep.events("multipart.abort.result")
    assert [it["key"] for it in result["others"]] == ["files/held"]


@pytest.mark.parametrize(
    "refused", [is_abort, is_parts], ids=["s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"]
)
def test_a_run_in_which_every_upload_failed_has_failed(sweep: Sweeper, refused: object) -> None:
    for number in range(3):
        sweep.server.begin(f"files/{number}", 5)
    sweep.server.hooks = [lambda request: DENIED if refused(request) else None]  # type: ignore[operator]
    outcome = sweep()
    assert not outcome.ok
    assert "Of 3 multipart uploads" in str(outcome.error)
    assert "s3:AbortMultipartUpload" in str(outcome.error)
    assert (outcome.scanned, outcome.acted) == (3, 0)
    assert len(sweep.there) == 3


def test_many_refusals_in_a_row_are_no_poison_items_and_stop_the_run(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch, scripted: ScriptedS3
) -> None:
    monkeypatch.setattr(aborts, "MOST_REFUSED_IN_A_ROW", 3)
    for number in range(8):
        sweep.server.begin(f"files/{number}", 5)
    sweep.server.hooks = [
        lambda request: DENIED if is_abort(request) and not of(request, "0") else None
    ]
    outcome = sweep()
    assert not outcome.ok
    assert "3 multipart uploads in a row" in str(outcome.error)
    assert outcome.detail["classes"] == {"aborted": 1, "failed": 3, "deferred": 4}
    assert sum(map(is_abort, scripted.requests)) == 4


def denied_below(prefix: str) -> Callable[[Request], Answer | None]:
    return lambda request: DENIED if is_abort(request) and f"/{prefix}" in request.path else None


def test_uploads_that_may_not_be_aborted_use_up_no_limit_and_stop_nobody(sweep: Sweeper) -> None:
    """Fifty sort before the others, and the limit is three."""
    for number in range(50):
        sweep.server.begin(f"files/denied/{number:02}", 5)
    for number in range(5):
        sweep.server.begin(f"files/good/{number}", 5)
    sweep.server.hooks = [denied_below("files/denied/")]

    first, second = sweep(limit=3), sweep(limit=3)

    assert first.ok, first.error
    assert (first.acted, first.detail["stopped_reason"]) == (3, "limit")
    assert first.detail["classes"]["failed"] == 50
    assert second.ok, second.error
    assert second.acted == 2
    assert second.detail["classes"] == {"aborted": 2, "waits after a failure": 50}
    assert (second.detail["swept"], second.detail["truncated"]) == (False, False)
    assert second.detail["oldest_left"] is not None


def test_an_upload_that_failed_is_tried_again_after_its_pause_and_behind_all_others(
    sweep: Sweeper,
) -> None:
    sweep.server.begin("files/a", 5, upload_id="failed")
    sweep.server.hooks = [denied_below("files/a")]
    assert not sweep().ok, "whatever was due has failed"
    assert sweep().ok, "the failure is known, and says nothing of this run"
    for name in "bcd":
        sweep.server.begin(f"files/{name}", 5)
    sweep.installation.execute("UPDATE setback SET not_before = now()")
    limited = sweep(limit=2, batch_size=1)
    assert limited.detail["classes"] == {"aborted": 2, "deferred": 2}, "its turn did not come"

    again = sweep(batch_size=1)

    assert again.detail["classes"] == {"aborted": 1, "failed": 1}
    [*_, last] = sweep.events("multipart.abort.intent")
    assert last["uploads"][0]["upload_id"] == "failed"
    [(attempts, waits)] = sweep.installation.execute(
        "SELECT attempts, not_before > now() + interval '4 min' FROM setback"
        " WHERE reason NOT LIKE '%it is a ghost'"
    )
    assert (attempts, waits) == (2, True)
    sweep.server.hooks = []
    sweep.installation.execute("UPDATE setback SET not_before = now()")
    assert sweep().detail["swept"] is True
    assert sweep().detail["swept"] is True
    assert sweep.installation.value("SELECT count(*) FROM setback") == 0


@pytest.mark.parametrize(
    ("when", "first"), [(is_abort, "already gone"), (is_parts, "ended meanwhile")]
)
def test_an_upload_that_is_listed_again_after_it_had_ended_is_a_ghost_and_a_finding(
    sweep: Sweeper, when: Callable[[Request], bool], first: str
) -> None:
    sweep.server.begin("files/a", 5)
    ended = Answer(404, errors("NoSuchUpload"))
    sweep.server.hooks = [lambda request: ended if when(request) else None]
    outcome = sweep()
    assert (outcome.ok, outcome.detail["classes"]) == (True, {first: 1})
    sweep.installation.execute("UPDATE setback SET not_before = now()")
    again = sweep()
    assert (again.ok, again.detail["classes"]) == (True, {"ghost": 1})
    assert again.detail["swept"] is False
    assert "1 ghost" in again.detail["finding"]
    sweep.server.hooks = []
    sweep.installation.execute("UPDATE setback SET not_before = now()")
    assert sweep().detail["swept"] is True, "what is there after all goes"


def test_parts_that_stay_after_each_abort_are_tried_later_and_later(sweep: Sweeper) -> None:
    sweep.server.uploads[sweep.server.begin("files/a", 5)].stubborn = 1000
    sweep.server.begin("files/used", 5, idle=timedelta(0))
    words = [list(sweep().detail["classes"])[-1] for _ in range(3)]
    assert words == ["parts left", "parts left", "waits after a failure"]


def test_an_upload_that_storage_says_is_aborted_and_lists_again_is_a_ghost(
    sweep: Sweeper,
) -> None:
    """Its parts too: a look after the abort finds none, and the next listing has all of it."""
    ghost = sweep.server.begin("files/ghost", 5)
    kept = sweep.server.uploads[ghost]
    for _ in range(2):
        # Once a part may have been on its way.
        assert sweep().detail["classes"] == {"aborted": 1}
        sweep.server.uploads[ghost] = kept

    sweep.server.begin("files/fine", 5)
    second = sweep()
    assert second.ok
    assert second.detail["classes"] == {"aborted": 1, "ghost": 1}
    assert (second.acted, second.detail["swept"]) == (1, False)
    assert ghost in sweep.server.uploads, "it is not aborted without end"

    for attempts in (3, 4):
        sweep.installation.execute("UPDATE setback SET not_before = now()")
        tried = sweep()
        assert tried.detail["classes"] == {"ghost": 1}
        assert (tried.ok, tried.acted, tried.detail["bytes_freed"]) == (True, 0, 0)
        assert (tried.detail["swept"], "1 ghost" in tried.detail["finding"]) == (False, True)
        assert "lists it again" in tried.detail["explained"]
        assert sweep.installation.value("SELECT attempts FROM setback") == attempts
        assert ghost not in sweep.server.uploads
        sweep.server.uploads[ghost] = kept

    del sweep.server.uploads[ghost]
    assert sweep().detail["swept"] is True
    assert sweep.installation.value("SELECT count(*) FROM setback") == 0


@pytest.mark.parametrize("when", [is_abort, is_parts], ids=["abort", "parts"])
def test_a_refusal_of_every_request_stops_the_run_and_keeps_what_was_done(
    sweep: Sweeper, when: object
) -> None:
    for number in range(5):
        sweep.server.begin(f"files/{number}", 5)
    expired = Answer(403, errors("ExpiredToken"))
    sweep.server.hooks = [
        lambda request: (
            expired if when(request) and of(request, "3") else None  # type: ignore[operator]
        )
    ]
    outcome = sweep(batch_size=2)
    assert not outcome.ok
    assert "ExpiredToken" in str(outcome.error)
    assert outcome.acted == 5 - len(sweep.there)
    assert outcome.detail["bytes_freed"] == 5 * outcome.acted
    assert {"id-0000003", "id-0000004"} <= sweep.there
    results = sweep.events("multipart.abort.result")
    assert sum(result["aborted"] for result in results) == outcome.acted


def test_a_page_of_the_listing_that_is_missing_fails_the_run(sweep: Sweeper) -> None:
    sweep.server.most = 2
    for number in range(4):
        sweep.server.begin(f"files/{number}", 5)
    sweep.server.hooks = [
        lambda request: DENIED if is_listing(request) and "key-marker" in request.path else None
    ]
    outcome = sweep(batch_size=2)
    assert not outcome.ok
    assert "s3:ListBucketMultipartUploads" in str(outcome.error)
    assert "2 multipart uploads had been aborted before" in str(outcome.error)
    assert outcome.acted == 2
    assert len(sweep.there) == 2


def test_a_source_that_cannot_be_read_fails_the_run_with_nothing_aborted(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    sweep.server.begin("files/a", 5)
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select no_such_column from file"}
    ]
    outcome = sweep()
    assert not outcome.ok
    assert "avatars" in str(outcome.error)
    assert "Nothing was touched" in str(outcome.error)
    assert not any(map(is_abort, scripted.requests))


def test_a_run_that_was_given_up_for_dead_aborts_nothing_more(sweep: Sweeper) -> None:
    for number in range(3):
        sweep.server.begin(f"files/{number}", 5)

    def close(request: Request) -> Answer | None:
        if is_abort(request):
            sweep.installation.execute("UPDATE job_progress SET closed_at = now()")
        return None

    sweep.server.hooks = [close]
    with pytest.raises(Exception, match="given up for dead"):
        sweep()
    assert len(sweep.there) == 2
    [result] = sweep.events("multipart.abort.result")
    assert result["aborted"] == 1
    assert "stopped" in result


def test_a_run_that_ended_between_intent_and_result_is_made_good_by_the_next(
    sweep: Sweeper,
) -> None:
    for number in range(3):
        sweep.server.begin(f"files/{number}", 5)

    def die(request: Request) -> Answer | None:
        if is_abort(request) and of(request, "1"):
            # As after a kill: the sessions are gone, and nobody writes a word any more.
            sweep.installation.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        return None

    sweep.server.hooks = [die]
    with pytest.MonkeyPatch.context() as killed:
        killed.setattr(RunContext, "connected", lambda self: self.connection)
        assert not sweep().ok
    assert len(sweep.events("multipart.abort.intent")) == 1
    sweep.server.hooks = []
    again = sweep()
    assert again.ok, again.error
    assert again.detail["swept"] is True
    assert sweep.there == set()


# Whose bucket it is, and what time it is there


def test_a_bucket_that_nobody_adopted_is_refused_with_nothing_touched(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    sweep.adopted = False
    sweep.server.begin("files/a", 5)
    outcome = sweep()
    assert not outcome.ok
    assert "filejobs bucket adopt" in str(outcome.error)
    assert writes(scripted) == []
    assert len(sweep.there) == 1


def test_a_live_run_counts_itself_once_also_when_nothing_is_due(sweep: Sweeper) -> None:
    def counter() -> int:
        marker = json.loads(sweep.server.objects["filejobs-adopted/test.json"])
        row = sweep.installation.value("SELECT counter FROM bucket_adoption")
        assert row == marker["counter"]
        return int(row)

    sweep.adopt()
    before = counter()
    assert sweep().ok
    assert counter() == before + 1, "nothing was due"
    for number in range(4):
        sweep.server.begin(f"files/{number}", 5)
    assert sweep(batch_size=2).acted == 4
    assert counter() == before + 2


def test_another_job_that_counted_itself_meanwhile_does_not_stand_in_the_way(
    sweep: Sweeper,
) -> None:
    sweep.server.begin("files/a", 5)
    before: list[object] = []

    def count(request: Request) -> Answer | None:
        if is_parts(request) and not before:
            before.append(True)
            other = type(sweep)(sweep.installation, sweep.client, MultipartServer())
            marker = json.loads(sweep.server.objects["filejobs-adopted/test.json"])
            marker["counter"] += 1
            sweep.server.objects["filejobs-adopted/test.json"] = json.dumps(marker).encode()
            other.installation.execute("UPDATE bucket_adoption SET counter = counter + 1")
        return None

    sweep.server.hooks = [count]
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1


def test_clocks_that_are_six_minutes_apart_are_refused(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.server.begin("files/a", 5)
    other = datetime.now(timezone.utc) - timedelta(minutes=6)
    monkeypatch.setattr(clocks, "read_server_date", lambda *_: other)
    outcome = sweep()
    assert not outcome.ok
    assert f"{other:%Y-%m-%d %H:%M:%S}" in str(outcome.error)
    assert len(sweep.there) == 1


def test_a_second_live_run_is_refused_and_says_who_works(sweep: Sweeper) -> None:
    sweep.server.begin("files/a", 5)
    refused: list[str] = []

    def try_another(_run: RunContext) -> None:
        sweep.hook = None
        refused.append(str(sweep().error))

    sweep.hook = try_another
    assert sweep(run_id="the-first").ok
    assert "the-first" in refused[0]


# The backstop


def test_a_bucket_without_a_lifecycle_rule_is_told_and_the_rule_is_printed_and_never_set(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    outcome = sweep(idle_for=timedelta(days=10))
    assert outcome.ok, outcome.error
    assert outcome.detail["backstop_state"] == "missing"
    assert "'files/'" in outcome.detail["backstop"]
    [rule] = json.loads(outcome.detail["backstop_rule"])["Rules"]
    assert rule["Filter"] == {"Prefix": "files/"}
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 17}
    assert any(outcome.detail["backstop_rule"] in line for line in sweep.log)
    assert not any("lifecycle" in it.path for it in scripted.requests if it.method != "GET")


def test_a_lifecycle_that_must_not_be_read_is_unknown_and_fails_nothing(sweep: Sweeper) -> None:
    sweep.server.hooks = [lambda request: DENIED if request.path.endswith("?lifecycle") else None]
    sweep.server.begin("files/a", 5)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1
    assert outcome.detail["backstop_state"] == "unknown"
    assert "s3:GetLifecycleConfiguration" in outcome.detail["backstop"]
    assert "backstop_rule" not in outcome.detail
