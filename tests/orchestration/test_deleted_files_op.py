"""deleted_files as Dagster runs it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.orchestration.conftest import metadata_of

if TYPE_CHECKING:
    from tests.installation import Installation
    from tests.orchestration.conftest import Code

DeletedFilesConfig: Any = config_of(BY_NAME["deleted_files"], None)

JOB = "deleted_files"


@pytest.fixture
def code(code: Code) -> Code:
    code.installation.document["jobs"][JOB] = {
        "by_hand": True,
        "mode": "live",
        "restore_window": "30d",
        "batch_size": 7,
    }
    return code


def deleted(installation: Installation, key: str, at: datetime) -> None:
    installation.client.put_object(Bucket=installation.bucket, Key=key, Body=b"12345")
    installation.execute(
        "INSERT INTO file (state, storage_key, deleted_at) VALUES ('deleted', %s, %s)", (key, at)
    )


def test_a_run_is_dry_unless_its_config_says_otherwise_and_keeps_the_settings_window(
    code: Code,
) -> None:
    now = datetime.now(timezone.utc)
    deleted(code.installation, "files/due", now - timedelta(days=31))
    deleted(code.installation, "files/young", now - timedelta(days=29))

    dry = code.run(JOB)
    assert dry.success
    assert metadata_of(dry)["would_collect"] == 1
    assert len(code.installation.keys()) == 2

    live = code.run(JOB, dry_run=False)
    assert live.success
    shown = metadata_of(live)
    assert (shown["acted"], shown["bytes_freed"], shown["mode"]) == (1, 5, "live")
    assert code.installation.keys() == {"files/young"}


def test_the_day_of_a_backfill_is_the_day_on_which_the_restore_window_was_over(
    code: Code,
) -> None:
    day = datetime(2026, 3, 5, tzinfo=timezone.utc)
    for key, at in (("before", -1), ("on", 1), ("after", 25)):
        deleted(code.installation, f"files/{key}", day - timedelta(days=30) + timedelta(hours=at))

    result = code.run(JOB, partition_key="2026-03-05", tags={"filejobs/mode": "live"})

    assert result.success
    assert code.installation.keys() == {"files/before", "files/after"}


def test_no_run_config_can_shorten_the_restore_window(code: Code) -> None:
    offered = set(config_of(BY_NAME["deleted_files"], code.installation.settings()).model_fields)

    assert offered == {"dry_run", "limit", "batch_size", "max_runtime", "count_bytes"}


def test_a_value_out_of_bounds_is_a_mistake_in_words() -> None:
    said = " ".join(DeletedFilesConfig(batch_size=0, max_runtime="1w").mistakes())

    assert "batch_size is 0; it can be 1 to 1,000." in said
    assert "max_runtime is 1w" in said
