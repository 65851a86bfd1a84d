"""docs/multipart_uploads.md says everything that the job says, and no more."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml

from filejobs_dagster.book.totals import Totals
from filejobs_dagster.jobs.multipart_uploads import aborts
from filejobs_dagster.jobs.multipart_uploads import detail as totals
from filejobs_dagster.jobs.setbacks import GHOST, WAITS
from filejobs_dagster.objects.multipart import AbortFate
from filejobs_dagster.objects.multipart.aborting import MOST_ABORTS
from filejobs_dagster.objects.multipart.backstop import rule_to_add
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES, explained, names_in, page

MultipartUploadsConfig: Any = config_of(BY_NAME["multipart_uploads"], None)

JOB = "multipart_uploads"
PAGE = page("multipart_uploads.md")
CLASSES = {
    totals.YOUNG,
    totals.UNDATED,
    totals.REFERENCED,
    totals.ENDED,
    GHOST,
    totals.UNREADABLE,
    totals.UNANSWERED,
    totals.WOULD_ABORT,
    totals.DEFERRED,
    WAITS,
    *(fate.value for fate in AbortFate),
}


def test_every_class_is_explained_and_no_other() -> None:
    # What the gate keeps is counted with its reason.
    assert names_in(totals.CLASSES) - {"kept: …"} == CLASSES - {AbortFate.KEPT.value}


@pytest.mark.parametrize("live", [True, False])
def test_every_field_of_a_record_is_explained(*, live: bool) -> None:
    facts = {
        *("bucket", "cutoff", "progress", "explained", "swept", "oldest_left"),
        *("backstop", "backstop_state", "backstop_rule", "truncated", "stopped_reason"),
    }
    assert set(totals.detail_of(Totals(live=live))) | facts <= explained(JOB)


def test_the_rule_that_the_page_shows_is_the_one_that_a_run_prints() -> None:
    [block] = [each for each in PAGE.blocks if each.language == "json"]
    assert json.loads(block.text) == json.loads(rule_to_add(["files/"], timedelta(days=7)))


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert MOST_ABORTS == 5
    assert "Five aborts are the most" in PAGE.words
    assert f"when {aborts.MOST_REFUSED_IN_A_ROW} in a row were refused" in PAGE.words


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("multipart_uploads_*.yaml")), ids=lambda path: path.name
)
def test_every_run_config_is_one_that_the_job_takes(path: object) -> None:
    said = yaml.safe_load(path.read_text())["ops"]["multipart_uploads"]["config"]  # type: ignore[attr-defined]
    config = MultipartUploadsConfig(**said)
    assert config.mistakes() == []
    assert config.dry_run == ("live" not in str(path))
