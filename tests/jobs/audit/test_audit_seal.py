"""audit_seal: what it states, what it pins, and when it fails."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.jobs import audit_seal

if TYPE_CHECKING:
    from tests.jobs.audit.conftest import Auditor


def test_a_dry_run_says_what_it_would_seal_and_writes_neither_seal_nor_pin(
    auditor: Auditor,
) -> None:
    auditor.append(5)
    auditor.append(3, "b")
    outcome = auditor.seal("dry")
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (2, 0)
    assert outcome.detail["would_seal_events"] == 8
    assert outcome.detail["swept"] is False
    assert "sealed_events" not in outcome.detail
    assert (auditor.count("audit_seal"), auditor.count("audit_pin"), auditor.pins()) == (0, 0, [])


def test_a_live_run_seals_signs_and_pins_every_chain(auditor: Auditor) -> None:
    auditor.append(5)
    auditor.append(3, "b")
    outcome = auditor.seal()
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (2, 2)
    detail = outcome.detail
    assert (detail["sealed_events"], detail["unsigned_seals"], detail["unpinned_seals"]) == (
        8,
        0,
        0,
    )
    assert detail["chains"][0] == {
        "chain": "a", "seal": 1, "events": 5, "new": 5, "written": "yes", "signed": "yes",
        "pinned": "yes",
    }  # fmt: skip
    assert detail["swept"] is True
    assert detail["explained"] == ""
    assert "COMPLIANCE" in detail["pins"]
    assert auditor.pins("/seal/") == [
        "pins/test/audit/a/1/seal/000000000001.note",
        "pins/test/audit/b/1/seal/000000000001.note",
    ]
    assert auditor.verify().ok


def test_without_key_and_place_it_seals_and_says_what_that_is_worth(auditor: Auditor) -> None:
    auditor.installation.document["audit"] = {}
    del auditor.installation.document["jobs"]["audit_trim"]
    auditor.append(5)
    outcome = auditor.seal()
    assert outcome.ok, outcome.error
    assert (outcome.acted, outcome.detail["unsigned_seals"], outcome.detail["unpinned_seals"]) == (
        1, 1, 1,
    )  # fmt: skip
    assert "not signed" in outcome.detail["explained"]
    assert "not pinned" in outcome.detail["explained"]
    assert auditor.pins() == []


def test_a_folder_is_said_to_protect_nothing(auditor: Auditor) -> None:
    auditor.audit["pins"] = {"folder": str(auditor.installation.folder / "pins")}
    auditor.append(1)
    outcome = auditor.seal()
    assert outcome.ok, outcome.error
    assert "NO PROTECTION" in outcome.detail["pins"]
    assert "does not lock" in outcome.detail["explained"]


def test_a_chain_that_is_refused_fails_the_run_and_not_the_other_chain(auditor: Auditor) -> None:
    auditor.append(5)
    auditor.append(3, "b")
    auditor.tamper("UPDATE audit_event SET body = '{}' WHERE chain_id = 'a' AND seq = 2")
    outcome = auditor.seal()
    assert outcome.error is not None
    first = outcome.error.splitlines()[0]
    assert first.startswith(
        "1 of 2 chains was not sealed as it should be. a: VERIFY_FAILED: EV_BODY"
    )
    assert (outcome.scanned, outcome.acted, outcome.detail["swept"]) == (2, 1, False)
    assert [row["chain"] for row in outcome.detail["chains"]] == ["b"]
    assert outcome.detail["findings"][0]["code"] == "VERIFY_FAILED"


def test_a_seal_whose_pin_was_not_taken_fails_and_is_pinned_first_next_time(
    auditor: Auditor,
) -> None:
    folder = auditor.installation.folder / "pins"
    auditor.audit["pins"] = {"folder": str(folder)}
    auditor.append(5)
    assert auditor.seal().ok
    auditor.append(2)
    in_the_way = folder / "test/audit/a/1/seal/000000000002.note"
    in_the_way.mkdir()
    outcome = auditor.seal()
    assert outcome.error is not None
    assert "a: NOT_PINNED: Seal 2 of the chain 'a' is written and has no copy" in outcome.error
    in_the_way.rmdir()
    outcome = auditor.seal()
    assert outcome.ok, outcome.error
    assert outcome.detail["pinned_late"] == 1
    assert in_the_way.is_file()
    assert auditor.verify().ok


def test_a_place_that_does_not_answer_fails_before_anything_is_written(auditor: Auditor) -> None:
    auditor.append(5)
    auditor.installation.document["buckets"]["pins"]["endpoint_url"] = "http://127.0.0.1:9"
    outcome = auditor.seal()
    assert outcome.error is not None
    assert outcome.error.startswith("PINS_UNUSABLE: Could not list the chains of the pins")
    assert (outcome.scanned, outcome.acted) == (None, None)
    assert auditor.count("audit_seal") == 0


def test_a_key_file_that_is_open_to_others_is_not_used(auditor: Auditor) -> None:
    path = auditor.installation.folder / "key"
    path.write_text("PRIVATE+KEY+whatever")
    path.chmod(0o644)
    del auditor.audit["signing_key"]
    auditor.audit["key_file"] = str(path)
    auditor.append(1)
    outcome = auditor.seal()
    assert outcome.error is not None
    assert outcome.error.startswith("KEY_UNUSABLE: ")
    assert "chmod 600" in outcome.error
    assert auditor.count("audit_seal") == 0


def test_a_run_whose_time_is_over_fails_with_the_chains_that_it_left(auditor: Auditor) -> None:
    auditor.append(1)
    outcome = auditor.seal(max_runtime=timedelta())
    assert outcome.error is not None
    assert "a: NOT_FINISHED" in outcome.error
    assert outcome.detail["truncated"] is True


def test_an_application_does_not_keep_other_chains_from_being_sealed(auditor: Auditor) -> None:
    """However many chains it makes: the jobs' own is first, and none waits behind younger ones."""
    auditor.append(1, "a", age=3)
    auditor.append(1, "b", age=2)
    auditor.append(1, "collectors")
    for number in range(5):
        auditor.append(1, f"!{number}")
    for chain in auditor.by_need()[:3]:
        auditor.seal_one(chain)
    assert auditor.pins("/seal/") == [
        f"pins/test/audit/{chain}/1/seal/000000000001.note" for chain in ("a", "b", "collectors")
    ]
    # What was just sealed comes last, but for the jobs' own.
    made = [f"!{number}" for number in range(5)]
    assert auditor.by_need() == ["collectors", *made, "a", "b"]
    auditor.seal_one("!0")
    assert auditor.by_need() == ["collectors", *made[1:], "a", "b", "!0"]
    outcome = auditor.seal()
    assert outcome.ok, outcome.error
    assert [row["chain"] for row in outcome.detail["chains"]] == [
        "collectors", *made[1:], "a", "b", "!0",
    ]  # fmt: skip


def test_nothing_appended_yet_is_a_success_with_zero(auditor: Auditor) -> None:
    outcome = auditor.seal()
    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (0, 0)


def test_the_job_has_its_name_of_the_registry() -> None:
    assert audit_seal.JOB == "audit_seal"
