"""docs/multipart_uploads.md says everything that the job says, and no more."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
import yaml

from filejobs_dagster.book.totals import Totals
from filejobs_dagster.jobs.multipart_uploads import aborts
from filejobs_dagster.jobs.multipart_uploads import detail as totals
from filejobs_dagster.objects.multipart import AbortFate
from filejobs_dagster.objects.multipart.aborting import MOST_ABORTS
from filejobs_dagster.objects.multipart.backstop import rule_to_add
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES, page

MultipartUploadsConfig: Any = config_of(BY_NAME["multipart_uploads"], None)

PAGE = page("multipart_uploads.md")
CLASSES = {
    totals.YOUNG,
    totals.UNDATED,
    totals.REFERENCED,
    totals.ENDED,
    totals.UNREADABLE,
    totals.UNANSWERED,
    totals.WOULD_ABORT,
    totals.DEFERRED,
    *(fate.value for fate in AbortFate),
}


def test_every_class_is_explained() -> None:
    table = PAGE.text.split("| Class | Means |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
    explained = {word for row in rows for word in re.findall(r"`([^`]+)`", row)}
    # What the gate keeps is counted with its reason.
    assert explained - {"kept: …"} == CLASSES - {AbortFate.KEPT.value}


@pytest.mark.parametrize("live", [True, False])
def test_every_field_of_a_record_is_explained(*, live: bool) -> None:
    cells = re.findall(r"^\| ([^|]+) \|", PAGE.text, re.MULTILINE)
    explained = {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    facts = {
        *("bucket", "cutoff", "progress", "explained", "swept", "oldest_left"),
        *("backstop", "backstop_state", "backstop_rule", "truncated", "stopped_reason"),
    }
    assert set(totals.detail_of(Totals(live=live))) | facts <= explained


def test_the_rule_that_the_page_shows_is_the_one_that_a_run_prints() -> None:
    [block] = [each for each in PAGE.blocks if each.language == "json"]
    assert json.loads(block.text) == json.loads(rule_to_add(["files/"], timedelta(days=7)))


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert MOST_ABORTS == 5
    assert "Five aborts are the most" in PAGE.text
    assert f"when {aborts.MOST_REFUSED_IN_A_ROW} in a row were refused" in PAGE.text


def test_the_page_has_a_row_for_every_field_of_the_config_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", PAGE.text, re.MULTILINE))
    for name, field in MultipartUploadsConfig.model_fields.items():
        said = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
        assert said in rows[name], name


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("multipart_uploads_*.yaml")), ids=lambda path: path.name
)
def test_every_run_config_is_one_that_the_job_takes(path: object) -> None:
    said = yaml.safe_load(path.read_text())["ops"]["multipart_uploads"]["config"]  # type: ignore[attr-defined]
    config = MultipartUploadsConfig(**said)
    assert config.mistakes() == []
    assert config.dry_run == ("live" not in str(path))
