"""Through which door a run came, as Dagster's tags tell it."""

from __future__ import annotations

import pytest

from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.orchestration.tags import trigger_of

SCHEDULED = {"dagster/schedule_name": "nightly", "dagster/tick": "7"}


@pytest.mark.parametrize(
    ("tags", "trigger"),
    [
        ({}, Trigger("cli")),
        ({"filejobs/mode": "live", "dagster/partition": "2026-03-01"}, Trigger("cli")),
        ({"dagster/from_ui": "true"}, Trigger("ui")),
        ({"dagster/from_ui": "true", "user": "ada@example.com"}, Trigger("ui", "ada@example.com")),
        (SCHEDULED, Trigger("schedule", "nightly")),
        ({"dagster/sensor_name": "backlog"}, Trigger("sensor", "backlog")),
        ({"dagster/backfill": "abc", "dagster/partition": "x"}, Trigger("backfill", "abc")),
        (
            SCHEDULED | {"dagster/retry_number": "1", "dagster/parent_run_id": "first"},
            Trigger("retry", "first"),
        ),
        (SCHEDULED | {"dagster/parent_run_id": "first"}, Trigger("ui")),
        ({"dagster/backfill": "abc", "dagster/parent_run_id": "first"}, Trigger("ui")),
        (SCHEDULED | {"filejobs/submitted": "web"}, Trigger("ui")),
        ({"filejobs/trigger": "http", "filejobs/submitted": "web"}, Trigger("ui")),
        ({"dagster/backfill": "abc", "filejobs/submitted": "web"}, Trigger("backfill", "abc")),
    ],
)
def test_the_tags_of_a_run_tell_its_door_and_copied_ones_do_not_mislead(
    tags: dict[str, str], trigger: Trigger
) -> None:
    assert trigger_of(tags) == trigger
