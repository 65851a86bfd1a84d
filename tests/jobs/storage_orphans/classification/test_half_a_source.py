"""What was read of the references before a source failed is no base for a judgement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.operator import ReferencesUnknown
from tests.jobs.storage_orphans.classification.worlds import World

if TYPE_CHECKING:
    from filejobs_dagster.streams import Scratch


@dataclass(frozen=True)
class SourceForTests:
    name: str
    sql: str
    min_rows: int = 1


THIRD_PAGE = (
    "select case when n < 25000 then 'files/' || n else (1 / (n - 25000))::text end "
    "from generate_series(1, 50000) as n"
)


def test_a_source_that_fails_on_its_third_page_leaves_nothing_to_classify(
    database_url: str, scratch: Scratch
) -> None:
    bulk = BulkReferences(
        Database(database_url), [SourceForTests("assets", THIRD_PAGE)], scratch=scratch
    )
    with pytest.raises(ReferencesUnknown, match="'assets'"):
        bulk.read()


def test_control_a_part_of_the_references_makes_orphans_of_the_rest(scratch: Scratch) -> None:
    """What a reader that takes the failed read for the end of the data would conclude."""
    keys = [f"files/{number:05}" for number in range(500)]
    partial = World.of(keys, keys[:200]).classify(scratch)
    assert partial.classes["orphan"].count == 300
    assert World.of(keys, keys).classify(scratch).classes["orphan"].count == 0
