"""What the Launchpad offers of every job, compared with what it has always offered.

`launchpad.json` beside this file holds the config schema of every job: names, types, defaults,
words, nested fields. People have run config of theirs in files and in tickets; a field that
vanishes or takes another value is a break. Where a change is meant, write the file anew with
`python -m tests.orchestration.test_launchpad`, and let the difference be read.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.config import choices, config_of
from filejobs_dagster.postgres.locks import Lease, exclusive_lock
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import Loaded, read_settings
from filejobs_dagster.text import format_duration
from tests.orchestration.conftest import failure_of

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("launchpad.json")

OTHER_LIMITS = """
installation: other
database: {url: {env: URL}}
buckets: {uploads: {bucket: acme, owns: ["files/"], min_age: 48h}}
audit: {retention: 400d, pins: {folder: /pins}, rolling: 9}
jobs:
  upload_reservations:
    {by_hand: true, limit: 11, batch_size: 12, grace: 13m, max_runtime: 14m}
  storage_orphans:
    {by_hand: true, limit: 21, batch_size: 22, max_runtime: 23m, confirm_after: 24h, parts: 25,
     wait_for_transactions: 26s}
  upload_cleanup:
    {by_hand: true, limit: 31, batch_size: 32, writing_limit: 33h, max_runtime: 34m}
  multipart_uploads:
    {by_hand: true, limit: 41, batch_size: 42, idle_for: 43h, ask_again_for: 44h, max_runtime: 45m}
  deleted_files:
    {by_hand: true, restore_window: 30d, limit: 51, batch_size: 52, max_runtime: 53m}
  table_retention:
    {by_hand: true, limit: 61, max_runtime: 62m,
     rules: [{name: s, table: public.session, time: expires_at, delete_after: 1d}]}
  audit_trim: {by_hand: true, limit: 71, batch_size: 72, max_runtime: 73m}
  audit_seal: {by_hand: true, max_runtime: 81m}
  audit_verify: {by_hand: true, check: rolling, max_runtime: 91m}
  run_history: {by_hand: true, keep: 90d, limit: 101, batch_size: 102, max_runtime: 103m}
"""
"""Every limit that the settings and the Launchpad share, each with a number of its own."""


class _EveryVariable(dict[str, str]):
    """An environment in which every variable is set, and none names a file."""

    def __contains__(self, name: object) -> bool:
        return not str(name).startswith("FILEJOBS_ALLOW") and not str(name).endswith("_FILE")

    def __missing__(self, name: str) -> str:
        return "postgresql://app@db.example.com/app" if name.endswith("URL") else "x" * 40

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401 (it is `get` itself)


def _loaded(which: str, folder: Path) -> Loaded:
    if which == "broken":
        return read_settings(folder / "nothing.yaml", {})
    if which == "other limits":
        path = folder / "filejobs.yaml"
        path.write_text(OTHER_LIMITS, encoding="utf-8")
        return read_settings(path, _EveryVariable())
    return read_settings(ROOT / which, _EveryVariable())


CASES = ("broken", "other limits", "filejobs.yaml", "examples/filejobs.production.yaml")


def offered(which: str, folder: Path) -> dict[str, Any]:
    """The config schema of each job."""
    loaded = _loaded(which, folder)
    assert (loaded.settings is None) == (which == "broken"), loaded.problems
    definitions = build_definitions(loaded)
    found = {}
    for name in BY_NAME.lines:
        [node] = definitions.resolve_job_def(name).nodes
        schema: Any = node.definition.config_schema
        found[name] = _type_of(schema.as_field().config_type)
    return found


def _type_of(config_type: Any) -> Any:
    fields = getattr(config_type, "fields", None)
    if fields is None:
        return config_type.key
    return {
        name: {
            "type": _type_of(field.config_type),
            "required": field.is_required,
            "default": field.default_value if field.default_provided else "none",
            "description": field.description,
        }
        for name, field in fields.items()
    }


@pytest.mark.parametrize("which", CASES)
def test_the_launchpad_offers_what_it_has_always_offered(which: str, tmp_path: Path) -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))

    assert offered(which, tmp_path) == kept[which]


def test_what_is_kept_knows_every_job_and_the_operators_numbers() -> None:
    kept = json.loads(KEPT.read_text(encoding="utf-8"))

    for which in CASES:
        assert set(kept[which]) == set(BY_NAME.lines)
    assert kept["broken"]["storage_orphans"]["max_runtime"]["default"] == "6h"
    assert kept["other limits"]["storage_orphans"]["max_runtime"]["default"] == "23m"
    assert kept["other limits"]["audit_verify"]["parts"]["default"] == 9


NOT_FOR_A_RUN = (
    "allow_live", "mode", "bucket", "buckets", "min_age", "owns", "protect", "sources", "shape",
    "rewrites", "purge_versions", "quarantine", "delete", "breakers", "keep", "retention",
    "restore_window", "personal_data_kept_for", "schedule", "stale_after", "reservations",
    "report_to",
)  # fmt: skip
"""What decides which bytes may go, how old they are, and who is told: the file's alone."""


def test_what_keeps_files_is_not_offered_and_refused_when_it_is_asked_for(tmp_path: Path) -> None:
    definitions = build_definitions(_loaded("other limits", tmp_path))
    for name in BY_NAME.lines:
        job = definitions.resolve_job_def(name)
        dg.validate_run_config(job, {"ops": {name: {"config": {"dry_run": False}}}})
        for key in NOT_FOR_A_RUN:
            with pytest.raises(dg.DagsterInvalidConfigError, match=key):
                dg.validate_run_config(job, {"ops": {name: {"config": {key: "1h"}}}})


def test_every_number_and_every_duration_has_a_floor_and_a_ceiling(tmp_path: Path) -> None:
    settings = _loaded("other limits", tmp_path).settings
    tried = 0
    for name in BY_NAME.lines:
        config: Any = config_of(BY_NAME[name], settings)
        for choice in config.asks_for:
            if choice.numbers is not None:
                least, most = choice.numbers
                inside, outside = [least, most], [least - 1, most + 1, -1]
            elif choice.bounds is not None:
                least, most = choice.bounds.least, choice.bounds.most
                inside = [format_duration(least), format_duration(most)]
                outside = [format_duration(most + timedelta(seconds=1)), "-1s", "90", "for ever"]
                if least:
                    outside.append(format_duration(least - timedelta(seconds=1)))
            else:
                continue
            tried += 1
            for value in inside:
                assert config(**{choice.name: value}).mistakes() == [], (name, choice.name, value)
            for value in outside:
                assert config(**{choice.name: value}).mistakes(), (name, choice.name, value)
    assert tried > 20


TAKES_NO_MORE = {
    "count_bytes": "it looks, and chooses nothing",
    "rules": "some of the settings' rules, and no other",
    "reviewed": "some of what is due, and nothing else",
    "rehearsed": "no more than went in a rehearsal",
    "override": "by name and with a reason, which the audit log keeps",
    "breakers": "see override",
    "reason": "see override",
    "check": "nothing is changed",
    "parts": "nothing is changed",
}
"""Fields that have no safer direction; `parts` only those of audit_verify."""


def test_each_field_of_each_job_is_safer_in_one_direction_or_says_why_in_none() -> None:
    fields = [
        (job, each.name, each.run.safer)
        for job in BY_NAME.lines
        for asked in choices(BY_NAME[job].request)
        for each in (asked, *asked.inside())
    ]
    assert {name for _, name, safer in fields if safer == "either"} == set(TAKES_NO_MORE)
    with_both = [
        (job, name) for job, name, safer in fields if name in TAKES_NO_MORE and safer != "either"
    ]
    assert with_both == [("storage_orphans", "parts")]


def test_a_live_run_cannot_be_less_patient_than_the_settings_in_any_field_of_any_job(
    tmp_path: Path,
) -> None:
    settings = _loaded("other limits", tmp_path).settings
    assert settings is not None
    tried = set()
    for job in BY_NAME.lines:
        config: Any = config_of(BY_NAME[job], settings)
        assert config().beyond(settings, job) == []
        for choice in config.asks_for:
            if choice.run.safer == "either":
                continue
            said = choice.configured(settings, job)
            step = 1 if choice.bounds is None else timedelta(seconds=1)
            worse, better = (said + step, said - step)
            if choice.run.safer == "more":
                worse, better = better, worse
            _, written = choice.offered()
            [refused] = config(**{choice.name: written(worse)}).beyond(settings, job)
            assert (
                f"{choice.name} is {written(worse)}; filejobs.yaml says {written(said)}" in refused
            )
            assert config(**{choice.name: written(better)}).beyond(settings, job) == []
            tried.add((job, choice.name))

            # The file was changed after the config was made: the stricter of both counts.
            changed = settings.jobs[job].model_copy(update={choice.field: better})
            newer = settings.model_copy(update={"jobs": {**settings.jobs, job: changed}})
            assert config().beyond(newer, job) == []
            request = config().request(BY_NAME[job], newer, live=True)
            assert getattr(request, choice.field) == better
            # CONTROL: what the config says is what a dry run shows.
            request = config().request(BY_NAME[job], newer, live=False)
            assert getattr(request, choice.field) == said
    assert {("upload_reservations", "grace"), ("storage_orphans", "confirm_after"),
            ("multipart_uploads", "idle_for"), ("audit_trim", "limit")} < tried  # fmt: skip


def test_a_live_run_that_asks_for_more_than_the_file_is_refused_and_a_dry_one_shows_it(
    code: Code,
) -> None:
    code.installation.job(grace="2h", limit=5)
    code.installation.reserve("files/due for an hour")
    asked: Any = {"grace": "0s", "limit": 6}
    result = code.run(dry_run=False, **asked)
    assert not result.success
    assert "- limit is 6; filejobs.yaml says 5, and a live run can only ask for less" in (
        failure_of(result)
    )
    assert "- grace is 0s; filejobs.yaml says 2h" in failure_of(result)
    assert code.installation.has_object("files/due for an hour")

    assert code.run(dry_run=True, **asked).success
    [dry] = code.installation.progress()
    assert dry["detail"]["would_collect"] == 1


def test_tags_that_somebody_changes_let_no_second_live_run_in(code: Code) -> None:
    """The queue goes by the tag; the lock in PostgreSQL does not."""
    tags = {
        "filejobs/mode": "live",
        "filejobs/exclusive": "another",
        "filejobs/installation": "another",
        "filejobs/trigger": "schedule",
        "dagster/max_runtime": "999999",
    }
    code.installation.reserve("files/due")
    lease = Lease(code.installation.database, "another run")
    lease.take(exclusive_lock("public", "upload_reservations"))
    try:
        result = code.run(tags=tags, dry_run=False)
        assert not result.success
        assert code.installation.has_object("files/due")
    finally:
        lease.release()
    # Control: without the other one it would have gone.
    assert code.run(tags=tags, dry_run=False).success
    assert not code.installation.has_object("files/due")


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"breakers": ["orphan_fraction"], "reason": " "}, "reason"),
        ({"breakers": ["min_age"], "reason": "I know"}, "min_age, which is no breaker"),
    ],
)
def test_a_breaker_is_passed_over_only_by_its_name_and_with_a_reason(
    code: Code, override: dict[str, Any], said: str
) -> None:
    code.installation.document["jobs"]["storage_orphans"] = {"by_hand": True, "mode": "live"}
    result = code.run("storage_orphans", dry_run=False, override=override)
    assert not result.success
    assert said in failure_of(result)


if __name__ == "__main__":
    written = {which: offered(which, Path(sys.argv[1])) for which in CASES}
    KEPT.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
