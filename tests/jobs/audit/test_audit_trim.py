"""audit_trim: what goes, what it leaves a receipt of, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.audit.holds import release_hold, set_hold

if TYPE_CHECKING:
    from tests.jobs.audit.conftest import Auditor


def test_a_dry_run_says_what_would_go_and_removes_nothing(auditor: Auditor) -> None:
    auditor.old_chain()
    pins = auditor.pins()
    outcome = auditor.trim("dry")
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (50, 0)
    assert outcome.detail["would_trim_events"] == 50
    assert (auditor.count(), auditor.count("audit_checkpoint"), auditor.pins()) == (60, 0, pins)


def test_a_live_run_removes_in_batches_and_the_chain_still_verifies(auditor: Auditor) -> None:
    auditor.old_chain()
    outcome = auditor.trim(batch_size=20)
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (50, 50)
    detail = outcome.detail
    assert (detail["checkpoints"], detail["truncated"], detail["swept"]) == (3, False, True)
    assert detail["chains"] == [
        {
            "chain": "a", "removed": 50, "stopped by": "RETENTION", "due": "50", "planned": "50",
            "from": "1", "to": "50", "seal": "2", "holds": "0",
        }
    ]  # fmt: skip
    assert auditor.count() == 10 + 3
    assert auditor.verify().ok
    [(actor, run)] = auditor.installation.execute(
        "SELECT DISTINCT actor, run_id FROM audit_checkpoint"
    )
    assert (actor, run) == ("the test", auditor.installation.progress()[-2]["run_id"])


def test_the_limit_holds_over_all_chains_and_what_is_left_is_told(auditor: Auditor) -> None:
    auditor.old_chain()
    auditor.append(5, "b", age=200)
    auditor.append(5, "b")
    assert auditor.seal().ok
    outcome = auditor.trim(limit=25, batch_size=10)
    assert outcome.ok, outcome.error
    assert outcome.acted == 20
    assert (outcome.detail["truncated"], outcome.detail["stopped_reason"]) == (True, "limit")
    assert outcome.detail["swept"] is False
    assert outcome.detail["chains_left_out"] == ["b"]
    # Due since its retention was over, 50 days ago.
    assert outcome.detail["oldest_left"] is not None
    again = auditor.trim()
    assert again.acted == 30, again.error
    # No pinned seal ends where what is due of b ends.
    assert [row["stopped by"] for row in again.detail["chains"]] == ["RETENTION", "SEAL"]


def test_nothing_due_is_a_success_with_zero(auditor: Auditor) -> None:
    auditor.append(5)
    assert auditor.seal().ok
    outcome = auditor.trim()
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted, outcome.detail["swept"]) == (0, 0, True)


def test_a_chain_that_was_never_sealed_is_refused(auditor: Auditor) -> None:
    auditor.append(5, age=200)
    auditor.append(1)
    outcome = auditor.trim()
    assert outcome.error is not None
    assert outcome.error.startswith("1 of 1 chains were not trimmed. a: NO_COVERING_SEAL: ")
    assert "5" in outcome.error
    assert auditor.count() == 6


@pytest.mark.parametrize("seq", [10, 55], ids=["in what would go", "behind the cut"])
def test_damage_anywhere_keeps_everything(auditor: Auditor, seq: int) -> None:
    auditor.old_chain()
    auditor.tamper(f"UPDATE audit_event SET body = '{{}}' WHERE seq = {seq}")
    outcome = auditor.trim()
    assert outcome.error is not None
    assert "a: VERIFY_FAILED: EV_BODY: " in outcome.error
    assert auditor.count() == 60


def test_a_hold_on_the_first_event_is_refused_and_released_lets_go(auditor: Auditor) -> None:
    auditor.old_chain()
    database = auditor.installation.database
    with database.connect("test") as connection:
        with database.transaction(connection) as cursor:
            hold = set_hold(cursor, chain="a", actor="counsel", reason="case 7", from_seq=1)
        outcome = auditor.trim()
        assert outcome.error is not None
        assert "a: LEGAL_HOLD: " in outcome.error
        assert auditor.count("audit_checkpoint") == 0
        with database.transaction(connection) as cursor:
            release_hold(cursor, hold_id=hold.hold_id, actor="counsel")
    assert auditor.trim().acted == 50


def test_a_pin_that_is_not_locked_covers_nothing(auditor: Auditor) -> None:
    for age, count in ((200, 25), (0, 5)):
        auditor.append(count, age=age)
        auditor.audit["pins"].pop("keep_for", None)
        auditor.audit.pop("retention", None)
        del auditor.installation.document["jobs"]["audit_trim"]
        assert auditor.seal().ok
        auditor.installation.document["jobs"]["audit_trim"] = {"by_hand": True}
        auditor.audit["pins"]["keep_for"] = "800d"
        auditor.audit["retention"] = "150d"
    outcome = auditor.trim()
    assert outcome.error is not None
    assert "a: SEAL_UNPINNED: the pin of seal 1" in outcome.error
    assert "not locked" in outcome.error


def test_a_database_that_was_rolled_back_is_neither_sealed_nor_trimmed(auditor: Auditor) -> None:
    auditor.old_chain()
    auditor.tamper("DELETE FROM audit_seal WHERE seal_no = 3")
    for outcome in (auditor.seal(), auditor.trim()):
        assert outcome.error is not None
        assert "a: ROLLED_BACK: " in outcome.error
        assert "acknowledge" in outcome.error
    assert auditor.count() == 60


def test_what_goes_is_kept_in_the_archive_first(auditor: Auditor) -> None:
    auditor.audit["archive"] = {"bucket": "pins", "prefix": "archive/"}
    auditor.old_chain()
    outcome = auditor.trim()
    assert outcome.ok, outcome.error
    assert outcome.detail["archived"] is True
    [key] = [key for key in auditor.pins() if key.startswith("archive/")]
    assert key.startswith("archive/test/audit/a/1/events/000000000001-000000000050-")
