"""One run after the other: what goes, what stays, and what each run says of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from filejobs_dagster.jobs.storage_orphans import Override, ReportSettings, marks
from filejobs_dagster.jobs.storage_orphans.breakers import BREAKERS
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS
from tests.jobs.storage_orphans.odd_keys import ODD_KEYS, ORPHAN, PROTECT, REWRITES

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.jobs.storage_orphans.conftest import Sweeper

MARKER = "filejobs-adopted/test.json"


def test_an_orphan_goes_in_the_second_live_run_and_nothing_else_does(sweep: Sweeper) -> None:
    sweep.put("files/used", "files/orphan", "other/stranger", "files/brand/logo")
    sweep.refer("files/used")

    first = sweep()
    assert first.ok, first.error
    assert (first.scanned, first.acted) == (3, 0)
    assert first.detail["first_pass"] is True
    assert first.detail["swept"] is True
    assert "deletes nothing" in first.detail["explained"]
    assert sweep.candidates() == {"files/orphan": "seen"}

    second = sweep()
    assert second.ok, second.error
    assert second.acted == 1
    assert second.detail["deleted"] == 1
    assert second.detail["bytes_freed"] == 5
    assert second.detail["swept"] is True
    assert second.detail["oldest_left"] is None
    assert sweep.candidates() == {}
    assert sweep.installation.keys() == {
        "files/used", "other/stranger", "files/brand/logo",
    }  # fmt: skip


def test_intent_with_its_keys_and_result_are_on_the_audit_chain(sweep: Sweeper) -> None:
    sweep.put("files/a", "files/b", "files/used")
    sweep.refer("files/used")
    sweep()
    run_id = "0f0e0d0c-0b0a-4908-8706-050403020100"
    assert sweep(run_id=run_id).ok
    [intent] = sweep.events("objects.delete.intent")
    [result] = sweep.events("objects.delete.result")
    assert intent["keys"] == ["files/a", "files/b"]
    assert intent["run_id"] == result["run_id"] == run_id
    assert (result["deleted"], result["batch"]) == (2, 1)


def test_dry_runs_mark_and_say_would_and_change_nothing_in_the_bucket(sweep: Sweeper) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    before = sweep.installation.keys()
    first = sweep("dry")
    assert (first.acted, first.detail["would_collect"]) == (0, 0)
    second = sweep("dry")
    assert second.ok, second.error
    assert second.detail["would_collect"] == 1
    assert second.detail["would_free_bytes"] == 5
    assert (first.detail["first_pass"], second.detail["first_pass"]) == (True, False)
    said = "A live run would remove 1 orphan (5 bytes) and leave 0."
    assert second.detail["explained"].startswith(said)
    assert "filejobs bucket adopt" in second.detail["explained"]
    assert (second.detail["truncated"], second.detail["stopped_reason"]) == (False, None)
    assert not {"deleted", "bytes_freed", "fates", "deferred"} & set(second.detail)
    assert sweep.candidates() == {"files/orphan": "seen"}
    assert sweep.installation.keys() == before
    assert sweep.installation.value("SELECT count(*) FROM audit_event") == 0
    assert sweep.installation.value("SELECT count(*) FROM bucket_adoption") == 0


def test_sightings_by_dry_runs_count_for_a_live_one(sweep: Sweeper) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    assert sweep("dry").ok
    assert sweep("live").acted == 1


def test_an_orphan_waits_until_it_was_seen_long_enough_ago(sweep: Sweeper) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    sweep()
    waiting = sweep(confirm_after=timedelta(hours=1))
    assert waiting.ok
    assert waiting.acted == 0
    assert waiting.detail["waiting"] == 1
    assert waiting.detail["waiting_until"] is not None
    explained = waiting.detail["explained"]
    assert "1 orphan must wait until an earlier run has seen them for 1h" in explained
    assert re.search(r"the first of them is due 20\d\d-\d\d-\d\d \d\d:\d\d UTC", explained)
    assert waiting.detail["swept"] is True, "what was due was swept: nothing"
    sweep.installation.execute(
        "UPDATE orphan_candidate SET first_seen_at = now() - interval '61 minutes'"
    )
    assert sweep(confirm_after=timedelta(hours=1)).acted == 0, "its rules were judged by just now"
    sweep.installation.execute("UPDATE orphan_pass SET at = at - interval '61 minutes'")
    assert sweep(confirm_after=timedelta(hours=1)).acted == 1


def test_an_object_that_was_written_anew_begins_to_be_seen_anew(sweep: Sweeper) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    sweep()
    sweep.put("files/orphan", body=b"something else")
    again = sweep()
    assert (again.acted, again.detail["waiting"]) == (0, 1)
    assert sweep().acted == 1


def test_other_sources_or_rules_make_the_next_run_a_first_one(sweep: Sweeper) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    sweep()
    sweep.installation.document["buckets"]["uploads"]["protect"] = ["files/other/"]
    changed = sweep()
    assert changed.detail["first_pass"] is True
    assert changed.acted == 0
    assert sweep().acted == 1


def test_an_object_that_found_its_row_is_no_candidate_any_more(sweep: Sweeper) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    sweep()
    sweep.refer("files/orphan")
    kept = sweep()
    assert kept.acted == 0
    assert kept.detail["marks_cleared"] == 1
    assert sweep.candidates() == {}


def test_an_upload_whose_row_has_been_pending_for_a_week_is_referenced(sweep: Sweeper) -> None:
    sweep.put("files/stored")
    sweep.installation.execute(
        "INSERT INTO file (state, storage_key, upload_expires_at, created_at)"
        " VALUES ('pending', 'files/stored', now() - interval '6 days', now() - interval '7 days')"
    )
    sweep()
    assert sweep().detail["classes"] == {"referenced": 1}
    assert sweep.installation.has_object("files/stored")


def test_young_objects_are_never_marked(sweep: Sweeper) -> None:
    sweep.min_age = timedelta(hours=48)
    sweep.put("files/new")
    seen = sweep()
    assert seen.ok, seen.error
    assert seen.detail["classes"] == {"young": 1}
    assert sweep.candidates() == {}


def test_the_cap_drains_oldest_first_and_reports_the_deferred_rest(sweep: Sweeper) -> None:
    sweep.put(*(f"files/{number}" for number in range(12)), "files/used")
    sweep.refer("files/used")
    sweep()
    sweep.installation.execute(
        "UPDATE orphan_candidate SET first_seen_at = first_seen_at - interval '1 hour'"
    )
    acted, deferred = [], []
    for _ in range(3):
        outcome = sweep(limit=5, batch_size=2)
        assert outcome.ok, outcome.error
        acted.append(outcome.acted)
        deferred.append(outcome.detail["deferred"])
        if outcome.detail["deferred"]:
            assert outcome.detail["truncated"] is True
            assert outcome.detail["stopped_reason"] == "limit"
            assert outcome.detail["swept"] is False
            assert outcome.detail["oldest_left"] is not None
            left = outcome.detail["deferred"]
            assert outcome.detail["explained"] == (
                "5 removed, 25 bytes freed; it stopped because of limit; "
                f"{left} orphans with {5 * left} bytes are due and left."
            )
    assert (acted, deferred) == ([5, 5, 2], [7, 2, 0])
    assert outcome.detail["swept"] is True
    assert sweep.installation.keys() == {"files/used"}


def test_a_dry_run_over_its_limit_says_truncated_and_what_a_live_run_would_leave(
    sweep: Sweeper,
) -> None:
    sweep.seen_before(*(f"files/{number}" for number in range(12)))
    outcome = sweep("dry", limit=5)
    assert outcome.ok, outcome.error
    assert (outcome.detail["would_collect"], outcome.detail["would_defer"]) == (5, 7)
    assert (outcome.detail["truncated"], outcome.detail["stopped_reason"]) == (True, "limit")
    assert outcome.detail["explained"] == (
        "A live run would remove 5 orphans and leave 7 because of the limit "
        "(12 with 60 bytes are due)."
    )
    assert sweep.log[-1] == outcome.detail["explained"]


def test_a_blocked_run_names_its_list_and_the_source_with_no_key_in_owns(
    sweep: Sweeper, tmp_path: Path
) -> None:
    sweep.put(*(f"files/{number}" for number in range(9)), "files/used")
    sweep.refer("files/used")
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "posters", "sql": "SELECT 'https://cdn.test/p%20 1.png?width=200'::text"}
    ]
    place = ReportSettings(folder=str(tmp_path / "lists"))
    outcome = sweep("dry", breakers=BreakersSettings(), report_to=place)
    [path] = (tmp_path / "lists").iterdir()
    assert f"Read the samples and the list {path}." in str(outcome.error)
    assert "Source posters: its only key does not lie in owns, https://" in str(outcome.error)
    sources = {row["source"]: (row["keys"], row["in_owns"]) for row in outcome.detail["sources"]}
    assert (sources["file"], sources["posters"]) == ((1, 1), (1, 0))


def test_every_class_is_shown_by_prefix_and_by_age_the_orphans_first(sweep: Sweeper) -> None:
    sweep.put(*(f"files/{number}/x" for number in range(8)), "files/orphan/x")
    sweep.refer(*(f"files/{number}/x" for number in range(8)))
    detail = sweep("dry").detail
    rows = detail["by_prefix"]
    assert rows[0] == {"class": "orphan", "prefix": "files/orphan/", "objects": 1, "bytes": 5}
    referenced = [row for row in rows if row["class"] == "referenced"]
    assert [row["prefix"] for row in referenced][-1] == "(others)"
    assert (len(referenced), sum(row["objects"] for row in referenced)) == (6, 8)
    assert {row["class"]: row["objects"] for row in detail["by_age"]} == {
        "orphan": 1,
        "referenced": 8,
    }


def test_a_tripped_breaker_marks_nothing_fails_the_run_and_prints_every_number(
    sweep: Sweeper,
) -> None:
    sweep.put(*(f"files/{number}" for number in range(9)), "files/used")
    sweep.refer("files/used")
    for mode, words in (("dry", "A live run would be blocked"), ("live", "This run is blocked")):
        outcome = sweep(mode, breakers=BreakersSettings())  # type: ignore[arg-type]
        assert not outcome.ok
        first_line, *_, last_line = str(outcome.error).splitlines()
        assert first_line == (
            f"{words} by orphan_fraction, so nothing was marked and nothing deleted."
        )
        assert "let one run pass over this breaker" in last_line
        assert outcome.detail["first_pass"] is True
        assert "9 orphans of 10 owned objects, 90 %; limit: 10 %" in str(outcome.error)
        assert outcome.detail["stopped_reason"] == "breakers: orphan_fraction"
        assert len(outcome.detail["breakers"]) == len(BREAKERS)
    assert sweep.candidates() == {}
    assert sum(line.startswith("breaker ") for line in sweep.log) == 2 * len(BREAKERS)
    assert sweep.installation.value("SELECT count(*) FROM orphan_pass") == 0


def test_an_override_passes_over_one_breaker_for_one_run_and_its_reason_is_recorded(
    sweep: Sweeper,
) -> None:
    sweep.put(*(f"files/{number}" for number in range(9)), "files/used")
    sweep.refer("files/used")
    override = Override(
        breakers=("orphan_fraction",), reason="ten years of leftovers, looked through by hand"
    )
    for _ in range(2):
        outcome = sweep(breakers=BreakersSettings(), override=override)
        assert outcome.ok, outcome.error
    assert outcome.acted == 9
    assert outcome.detail["override"] == {
        "breakers": ["orphan_fraction", "unrehearsed"],
        "reason": override.reason,
    }
    [event, _] = sweep.events("storage_orphans.breakers.overridden")
    assert event["reason"] == override.reason
    assert event["tripped"][0]["breaker"] == "orphan_fraction"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (Override(breakers=("marker",), reason="please"), "which is no breaker"),
        (Override(breakers=("orphan_fraction",), reason=" "), "without a reason"),
    ],
)
def test_an_override_of_the_marker_or_without_a_reason_is_refused(
    sweep: Sweeper, override: Override, words: str
) -> None:
    sweep.put("files/a")
    assert words in str(sweep(override=override).error)


def _configure_for_odd_keys(bucket: dict[str, Any]) -> None:
    bucket["protect"] = list(PROTECT)
    bucket["rewrites"] = [
        {"name": name, "match": match, "owner": owner} for name, match, owner in REWRITES
    ]


def _kept_by_moto(sweep: Sweeper, key: bytes) -> bool:
    """Put an object; moto answers 404 to a key with a line feed at its end, and to a few others."""
    try:
        sweep.put(key.decode())
    except ClientError as error:
        if error.response["ResponseMetadata"]["HTTPStatusCode"] != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def test_of_a_table_of_odd_keys_exactly_the_right_ones_go(sweep: Sweeper) -> None:
    _configure_for_odd_keys(sweep.installation.document["buckets"]["uploads"])
    candidates = [odd for odd in ODD_KEYS if not odd.only_in_memory]
    with ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda odd: _kept_by_moto(sweep, odd.key), candidates))
    there = [odd for odd, kept in zip(candidates, stored, strict=True) if kept]
    assert len(there) >= 60
    sweep.refer(*dict.fromkeys(row for odd in ODD_KEYS for row in odd.rows))
    before = sweep.installation.keys()

    assert sweep().ok
    outcome = sweep()
    assert outcome.ok, outcome.error
    gone = before - sweep.installation.keys()
    assert gone == {odd.key.decode() for odd in there if odd.kind == ORPHAN}
    kinds = Counter(odd.kind for odd in there)
    assert outcome.detail["classes"] == dict(kinds)
    [intent] = sweep.events("objects.delete.intent")
    assert set(intent["keys"]) == gone
    json.dumps(outcome.detail)


def test_an_empty_bucket_without_rows_is_a_success_with_zero(sweep: Sweeper) -> None:
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (0, 0)


def test_a_record_of_a_long_phase_says_where_it_is(sweep: Sweeper) -> None:
    sweep.put("files/a")
    sweep.refer("files/a")
    assert sweep("dry").detail["progress"] == {"phase": "done"}
    lines = " ".join(sweep.log)
    assert "Listing files/." in lines
    assert "Listed 1 objects" in lines
    assert "Compared 1 objects: 1 referenced" in lines


def test_only_the_newest_passes_of_a_bucket_are_kept(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "PASSES_KEPT", 3)
    sweep.put("files/used")
    sweep.refer("files/used")
    runs = [f"run {number}" for number in range(5)]
    for run_id in runs:
        assert sweep("dry", run_id).ok
    kept = sweep.installation.execute("SELECT run_id FROM orphan_pass ORDER BY at")
    assert [run_id for (run_id,) in kept] == runs[-3:]


def test_open_reservations_make_no_listing_look_cut_off(sweep: Sweeper) -> None:
    used = [f"files/{number}" for number in range(10)]
    sweep.put(*used)
    sweep.refer(*used)
    sweep.installation.execute(
        "INSERT INTO file (storage_key, upload_expires_at)"
        " SELECT 'files/open/' || n, now() + interval '1 hour' FROM generate_series(1, 30) AS n"
    )
    strict = NEVER_TRIPS.model_copy(update={"max_missing_fraction": 0.02})
    outcome = sweep("dry", breakers=strict)
    assert outcome.ok, outcome.error
    assert (outcome.detail["missing"], outcome.detail["awaited"]) == (0, 30)
    # CONTROL: as many rows that are ready and have no object do trip.
    sweep.installation.execute("UPDATE file SET state = 'ready'")
    outcome = sweep("dry", breakers=strict)
    assert "missing_fraction" in str(outcome.error)
    assert "deleted objects by hand" in str(outcome.error)
    assert (outcome.detail["missing"], outcome.detail["awaited"]) == (30, 0)
