"""storage_orphans as Dagster runs it: config, tables, metadata, the list for review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.cli.bucket import app as bucket_app  # noqa: F401 (loads with the command)
from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    from tests.installation import Installation
    from tests.orchestration.conftest import Code

JOB = "storage_orphans"


@pytest.fixture(autouse=True)
def configured(installation: Installation) -> None:
    installation.document["jobs"] = {
        JOB: {
            "by_hand": True,
            "report_to": {"folder": str(installation.folder / "lists")},
            "breakers": {"max_orphan_fraction": 1},
        }
    }


def _put(installation: Installation, *keys: str) -> None:
    for key in keys:
        installation.client.put_object(Bucket=installation.bucket, Key=key, Body=b"12345")


def test_a_dry_run_shows_classes_breakers_and_where_its_list_stands(
    code: Code, installation: Installation
) -> None:
    _put(installation, "files/used", "files/dir/", "files/brand/logo")
    installation.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/used')")
    result = code.run(JOB)
    assert result.success, failure_of(result)
    shown = metadata_of(result)
    assert shown["scanned"] == 3
    assert shown["mode"] == "dry"
    classes = {row.data["class"]: row.data["items"] for row in shown["classes"].records}
    assert classes == {"referenced": 1, "protected": 1, "directory marker": 1}
    assert {row.data["breaker"] for row in shown["breakers"].records} >= {"orphan_fraction"}
    assert "deletes nothing" in shown["explained"]
    [written] = (installation.folder / "lists").glob("*.csv")
    assert shown["report"] == str(written)
    assert written.stat().st_mode & 0o777 == 0o600
    assert "deleted" not in shown


def test_a_live_run_over_a_bucket_that_nobody_adopted_is_refused(
    code: Code, installation: Installation
) -> None:
    _put(installation, "files/orphan")
    code.adopted = False
    result = code.run(JOB, dry_run=False)
    assert not result.success
    assert "filejobs bucket adopt" in failure_of(result)
    assert installation.keys() == {"files/orphan"}


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"confirm_after": "59m"}, "confirm_after is 59m; it can be 1h to"),
        ({"parts": 65}, "parts is 65"),
        ({"limit": 0}, "limit is 0"),
        ({"override": {"breakers": ["marker"], "reason": "x"}}, "which is no breaker"),
        ({"override": {"breakers": ["orphans"]}}, "without a reason"),
        ({"reviewed": "/nowhere.csv"}, "could not be read"),
    ],
)
def test_a_config_that_cannot_be_meant_is_refused(
    code: Code, config: dict[str, Any], found: str
) -> None:
    result = code.run(JOB, **config)
    assert not result.success
    assert found in failure_of(result)
