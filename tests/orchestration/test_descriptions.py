"""What the web UI says of a job before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from dagster._core.definitions.utils import is_valid_owner

from filejobs_dagster.orchestration.metadata import mode_in_words
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings import SettingsError

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

JOB = "upload_reservations"


def said(code: Code) -> str:
    return code.definitions.resolve_job_def(JOB).description or ""


def test_the_first_words_are_the_summary_since_lists_show_nothing_else(code: Code) -> None:
    assert said(code).startswith(BY_NAME[JOB].summary)


def test_a_live_schedule_and_a_dry_launchpad_are_told_apart(code: Code) -> None:
    assert "runs it **live**; a run that is started here is dry unless" in said(code)


def test_a_veto_is_told_before_somebody_asks_for_a_live_run(code: Code) -> None:
    code.installation.document["allow_live"] = False

    assert "every run is dry, whatever is asked" in said(code)


def test_a_job_that_only_people_start_says_so(code: Code) -> None:
    code.installation.document["jobs"][JOB] = {"by_hand": True}

    assert "Only people start it" in said(code)


def test_mistakes_and_a_job_outside_the_settings_are_told(code: Code) -> None:
    code.installation.document["jobs"] = {}
    assert "a run refuses to start" in mode_in_words(code.installation.loaded(), JOB)

    code.installation.document["typo"] = 1
    assert "has mistakes" in mode_in_words(code.installation.loaded(), JOB)


@pytest.mark.parametrize("owner", ["team:storage", "a.b+c@example.com", "team:a-b_c.d"])
def test_an_owner_of_the_settings_is_shown_beside_the_job(code: Code, owner: str) -> None:
    code.installation.job(owners=[owner])

    assert is_valid_owner(owner)
    job = code.definitions.resolve_job_def(JOB)
    assert job.owners == [owner]


@pytest.mark.parametrize("owner", ["storage", "team:", "someone@", "team:two words", ""])
def test_what_dagster_would_refuse_as_an_owner_is_a_mistake_of_the_settings(
    code: Code, owner: str
) -> None:
    code.installation.job(owners=[owner])

    with pytest.raises(SettingsError, match=r"owners\[0\]"):
        code.installation.settings()


@pytest.mark.parametrize("job", [job.name for job in JOBS])
def test_the_launchpad_says_beside_dry_run_which_runs_change_something(
    code: Code, job: str
) -> None:
    code.installation.document["allow_live"] = False

    [node] = code.definitions.resolve_job_def(job).nodes
    schema: Any = node.definition
    fields = schema.config_schema.as_field().config_type.fields

    assert fields["dry_run"].default_value is True
    assert mode_in_words(code.installation.loaded(), job) in fields["dry_run"].description
