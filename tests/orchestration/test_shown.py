"""What a run's page shows, when what it shows was written by somebody else."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.orchestration.conftest import metadata_of

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

IMAGE = "![x](/graphql?query=mutation%7B)"


@pytest.mark.parametrize("ticks", ["`", "``", "` ``` `"])
def test_a_key_cannot_write_markdown_into_the_page_of_a_run(code: Code, ticks: str) -> None:
    key = f"files/{ticks}{IMAGE}{ticks}"
    code.installation.reserve_many([key])

    page = str(metadata_of(code.run())["samples"])

    # As CommonMark reads code: from a run of backticks to the next run of the same length.
    outside = re.sub(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", "", page)
    assert key in page
    assert "![" not in outside


def test_the_page_says_what_the_run_set_out_to_cover(code: Code) -> None:
    day = "2026-01-15"

    assert metadata_of(code.run())["window"] == "everything due"
    assert metadata_of(code.run(partition_key=day))["window"] == day


def test_the_page_begins_with_dry_or_live_and_a_dry_one_says_only_what_it_would_do(
    code: Code,
) -> None:
    code.installation.reserve_many(["files/a"])
    code.installation.adopt()

    dry = metadata_of(code.run())
    live = metadata_of(code.run(dry_run=False))

    assert next(iter(dry.items())) == (
        "this run",
        "DRY: it reports what a live run would do, and changed nothing",
    )
    assert dry["would_collect"] == 1
    assert "acted" not in dry
    assert next(iter(live.items())) == ("this run", "LIVE: what it took is gone")
    assert live["acted"] == 1
