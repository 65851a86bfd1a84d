"""audit_verify: what it computes, finds, and calls unprotected."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.audit_verify import Reading

if TYPE_CHECKING:
    from tests.jobs.audit.conftest import Auditor


def test_a_clean_chain_is_verified_and_what_is_behind_the_pin_is_unprotected(
    auditor: Auditor,
) -> None:
    auditor.append(5)
    assert auditor.seal().ok
    auditor.append(2)
    before = (auditor.count("audit_seal"), auditor.pins())
    outcome = auditor.verify()
    assert outcome.ok, outcome.error
    detail = outcome.detail
    assert (outcome.scanned, outcome.acted) == (7, 0)
    assert (detail["chains_verified"], detail["verified_events"]) == (1, 7)
    assert detail["unprotected_events"] == 2
    assert detail["chains"] == [
        {
            "chain": "a", "verdict": "matches", "computed": 7, "head": "7", "trimmed to": 0,
            "sealed to": 5, "pinned to": "5", "unprotected": 2,
        }
    ]  # fmt: skip
    assert detail["swept"] is True
    assert (auditor.count("audit_seal"), auditor.pins()) == before


@pytest.mark.parametrize("check", ["full", "incremental", "rolling"])
def test_findings_fail_the_run_with_chain_code_and_first_event(
    auditor: Auditor, check: str
) -> None:
    auditor.append(5)
    assert auditor.seal().ok
    auditor.append(5)
    auditor.append(1, "b")
    auditor.tamper("UPDATE audit_event SET body = '{}' WHERE chain_id = 'a' AND seq >= 7")
    outcome = auditor.verify(check=check)
    assert outcome.error is not None
    assert outcome.error.startswith("a: EV_BODY at event 7: ")
    [finding] = outcome.detail["findings"]
    assert (finding["chain"], finding["code"], finding["first event"], finding["count"]) == (
        "a", "EV_BODY", "7", 4,
    )  # fmt: skip
    assert outcome.detail["swept"] is False
    assert [row["verdict"] for row in outcome.detail["chains"]] == ["does not match", "matches"]


def test_an_incremental_check_does_not_see_what_a_full_one_sees_control(auditor: Auditor) -> None:
    auditor.append(5)
    assert auditor.seal().ok
    auditor.tamper("UPDATE audit_event SET body = '{}' WHERE chain_id = 'a' AND seq = 2")
    assert auditor.verify(check="incremental").ok
    assert not auditor.verify(check="full").ok
    # In one part, what is rolled over is everything.
    assert not auditor.verify(check="rolling", parts=1).ok


def test_a_rolling_check_takes_the_part_that_was_not_read_for_longest_and_records_it(
    auditor: Auditor,
) -> None:
    for _ in range(3):
        auditor.append(5)
        assert auditor.seal().ok
    seen = []
    for _ in range(3):
        outcome = auditor.verify(check="rolling", parts=2)
        assert outcome.ok
        seen.append(outcome.detail["check"])
    assert seen == [f"rolling, part {part} of 2" for part in (1, 2, 1)]
    assert outcome.detail["unread_events"] > 0
    assert "were not read" in outcome.detail["explained"]
    assert outcome.detail["read"]["all_read_since"] is not None
    # Nobody ran it for four days, and two parts are to be read in two.
    reading = Reading(
        datetime.fromisoformat(outcome.detail["read"]["since"]),
        tuple(map(datetime.fromisoformat, outcome.detail["read"]["at"])),
        datetime.now(timezone.utc) + timedelta(days=4),
    )
    assert reading.late
    assert not reading.after(1).after(0).late


def test_a_chain_that_was_wiped_is_still_known_to_the_pins(auditor: Auditor) -> None:
    auditor.append(5)
    assert auditor.seal().ok
    for table in ("event", "seal", "chain"):
        auditor.tamper(f"DELETE FROM audit_{table}")
    outcome = auditor.verify()
    assert outcome.error is not None
    assert "a: CHAIN_MISSING" in outcome.error
    sealing = auditor.seal()
    assert sealing.error is not None
    assert "VERIFY_FAILED" in sealing.error or "ROLLED_BACK" in sealing.error


def test_sealing_that_stopped_is_a_finding_where_a_limit_is_set(auditor: Auditor) -> None:
    auditor.append(1)
    assert auditor.seal().ok
    auditor.audit["max_pin_age"] = "3h"
    assert auditor.verify().ok
    auditor.append(1, "new")
    young = auditor.verify()
    assert young.ok, "a chain that is younger than the limit may not have been sealed yet"
    assert young.detail["unprotected_events"] == 1
    auditor.append(1, "never sealed", age=1)
    outcome = auditor.verify()
    assert outcome.error is not None
    assert outcome.error.startswith("never sealed: SEALING_STOPPED")


def test_a_place_that_does_not_answer_says_nothing_of_any_chain(auditor: Auditor) -> None:
    auditor.append(5)
    auditor.installation.document["buckets"]["pins"]["endpoint_url"] = "http://127.0.0.1:9"
    outcome = auditor.verify()
    assert outcome.error is not None
    assert outcome.error.startswith("PINS_UNUSABLE: ")
    assert (outcome.scanned, outcome.acted) == (None, None)


def test_a_run_whose_time_is_over_does_not_count_as_having_verified(auditor: Auditor) -> None:
    auditor.append(1)
    outcome = auditor.verify(max_runtime=timedelta())
    assert outcome.error is not None
    assert "NOT_FINISHED" in outcome.error


def test_no_chain_is_a_success_that_says_so(auditor: Auditor) -> None:
    outcome = auditor.verify()
    assert outcome.ok
    assert outcome.detail["explained"] == "There is no chain yet."
