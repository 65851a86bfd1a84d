from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from filejobs_dagster.ledger.prometheus import WORDS, exposition
from filejobs_dagster.ledger.standing import RunSummary, Standing

ENDED = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


def run(scanned: int | None = 7, acted: int | None = 0) -> RunSummary:
    return RunSummary(
        run_id="r",
        started_at=ENDED - timedelta(minutes=1),
        finished_at=ENDED,
        outcome="ok",
        mode="live",
        scanned=scanned,
        acted=acted,
        detail={},
        error=None,
    )


def standing(**changes: Any) -> Standing:
    described: dict[str, Any] = {
        "job": "upload_reservations",
        "word": "ok",
        "severity": "ok",
        "reason": "because",
        "configured": True,
        "mode": "live",
        "stale_after": timedelta(hours=2),
        "last_run": run(),
        "last_success": run(),
        "last_live_success": None,
        "age": timedelta(minutes=3),
        "consecutive_failures": 0,
        "stale": False,
        "behind": None,
        "running": None,
    }
    return Standing(**described | changes)


def samples(*standings: Standing, installation: str = "acme") -> dict[str, list[Any]]:
    text = exposition(standings, installation)
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def value(found: dict[str, list[Any]], name: str) -> float:
    (sample,) = found[f"filejobs_job_{name}"]
    return float(sample.value)


def test_every_known_number_is_there() -> None:
    found = samples(standing())
    assert value(found, "last_success_timestamp_seconds") == ENDED.timestamp()
    assert value(found, "last_run_timestamp_seconds") == ENDED.timestamp()
    assert value(found, "age_seconds") == 180
    assert value(found, "stale_after_seconds") == 7200
    assert value(found, "stale") == 0
    assert value(found, "last_run_scanned") == 7
    assert value(found, "consecutive_failures") == 0
    assert value(found, "configured") == 1
    assert value(found, "alarming") == 0


def test_zero_is_a_claim_and_is_made() -> None:
    assert value(samples(standing(last_run=run(acted=0))), "last_run_acted") == 0


def test_what_is_not_known_has_no_sample() -> None:
    never = standing(
        word="never run",
        severity="critical",
        last_run=None,
        last_success=None,
        stale_after=None,
        stale=None,
        age=None,
    )
    found = samples(never)
    for name in (
        "last_run_timestamp_seconds",
        "last_success_timestamp_seconds",
        "last_live_success_timestamp_seconds",
        "age_seconds",
        "stale",
        "stale_after_seconds",
        "last_run_scanned",
        "last_run_acted",
    ):
        assert found[f"filejobs_job_{name}"] == []
    assert value(found, "alarming") == 1


def test_counts_of_a_run_that_decided_nothing_are_absent() -> None:
    found = samples(standing(last_run=run(scanned=None, acted=None)))
    assert found["filejobs_job_last_run_scanned"] == []
    assert found["filejobs_job_last_run_acted"] == []
    assert value(found, "last_run_timestamp_seconds") == ENDED.timestamp()


def test_exactly_one_word_is_1() -> None:
    words = samples(standing(word="ok (dry)"))["filejobs_job_standing"]
    assert {sample.labels["standing"] for sample in words} == set(WORDS)
    assert [sample.labels["standing"] for sample in words if sample.value == 1] == ["ok (dry)"]


def test_labels_survive_quotes_and_line_ends() -> None:
    odd = 'acme "east"\nback\\slash'
    (sample,) = samples(standing(), installation=odd)["filejobs_job_configured"]
    assert sample.labels == {"installation": odd, "job_name": "upload_reservations"}


def test_several_jobs_share_one_family() -> None:
    found = samples(standing(), standing(job="audit_seal", stale=True))
    by_job = {each.labels["job_name"]: each.value for each in found["filejobs_job_stale"]}
    assert by_job == {"upload_reservations": 0, "audit_seal": 1}
