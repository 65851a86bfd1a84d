"""A run that leaves more alone than the settings say is a success, and no sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.orchestration.config import CollectorConfig, config_of
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

JOB = "upload_reservations"


def standing(code: Code) -> str:
    settings = code.installation.settings()
    reconcile(code.instance, settings)
    database = code.installation.database
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        found = standings(cursor, settings.installation, expectations(settings))
    [word] = [each.word for each in found if each.job == JOB]
    return word


def test_a_longer_grace_by_hand_succeeds_and_does_not_count(code: Code) -> None:
    code.installation.job(stale_after="2h", grace="0s")
    code.installation.reserve("files/due for an hour")

    assert code.run(dry_run=False, grace="2h").success

    assert standing(code) == "stale"
    [record] = code.installation.records()
    assert record["detail"]["window"]["covers"] == "with grace 2h instead of 0s"
    assert code.installation.has_object("files/due for an hour")


@pytest.mark.parametrize("grace", ["30m", "1800s"])
def test_control_a_run_as_patient_as_the_settings_counts(code: Code, grace: str) -> None:
    code.installation.job(stale_after="2h", grace="30m")

    assert code.run(dry_run=False, grace=grace).success

    assert standing(code) == "ok"


def test_a_longer_idle_time_is_narrower_and_the_same_in_other_words_is_not(code: Code) -> None:
    code.installation.document["jobs"] = {"multipart_uploads": {"by_hand": True, "idle_for": "48h"}}
    config: Any = config_of(BY_NAME["multipart_uploads"], code.installation.settings())

    assert config(idle_for="3d").narrower() == "with idle_for 3d instead of 2d"
    assert config(idle_for="48h").narrower() is None
    assert CollectorConfig().narrower() is None
