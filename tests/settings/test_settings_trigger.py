from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from filejobs_dagster.settings import known_secrets, read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from filejobs_dagster.settings import Loaded

STRONG = "a-token-of-the-tests-0123456789"
ENVIRONMENT = {
    "URL": "postgresql://role@127.0.0.1/app",
    "STRONG": STRONG,
    "OTHER": STRONG + "x",
    "SHORT": "short-password",
    "SPACED": "a token with spaces of the tests 01234",
}


def loaded(folder: Path, trigger: Any) -> Loaded:
    path = folder / "filejobs.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "installation": "here",
                "database": {"url": {"env": "URL"}},
                "trigger": trigger,
                "jobs": {"audit_seal": {"by_hand": True}},
            }
        )
    )
    return read_settings(path, ENVIRONMENT)


def token(variable: str = "STRONG", **more: Any) -> dict[str, Any]:
    return {"token": {"env": variable}, **more}


def test_named_tokens_with_what_each_may_do(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        {
            "tokens": {
                "cron": token(jobs=["audit_seal"]),
                "ada@desk": token("OTHER", may_go_live=True),
            },
            "starts_per_hour": 60,
        },
    ).require()
    assert settings.trigger is not None
    assert settings.trigger.tokens["cron"].jobs == ["audit_seal"]
    assert settings.trigger.tokens["ada@desk"].may_go_live
    assert (settings.trigger.starts_per_hour, settings.trigger.live_per_minute) == (60, 3)
    assert {STRONG, STRONG + "x"} <= set(known_secrets(settings))


@pytest.mark.parametrize(
    ("trigger", "path", "words"),
    [
        ({}, "trigger.tokens", "missing"),
        ({"tokens": {}}, "trigger.tokens", "no token"),
        ({"tokens": {"a": token("SHORT")}}, "trigger.tokens.a.token", "less than 24"),
        ({"tokens": {"a": token("SPACED")}}, "trigger.tokens.a.token", "characters"),
        ({"tokens": {"a": token(), "b": token()}}, "trigger.tokens.b.token", "same variable"),
        ({"tokens": {"a b": token()}}, "trigger.tokens", "as a name"),
        ({"tokens": {"a": token(jobs=["audit_sael"])}}, "trigger.tokens.a.jobs", "no job"),
        ({"tokens": {"a": token(jobs=["audit_trim"])}}, "trigger.tokens.a.jobs[0]", "not stand in"),
        ({"tokens": {"a": token(jobs=[])}}, "trigger.tokens.a.jobs", "start nothing"),
        ({"tokens": {"a": {"token": STRONG}}}, "trigger.tokens.a.token", "do not stand"),
        ({"tokens": {"a": token()}, "starts_per_hour": 0}, "trigger.starts_per_hour", "0"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_without_the_token(
    tmp_path: Path, trigger: Any, path: str, words: str
) -> None:
    problems = loaded(tmp_path, trigger).problems
    assert len(problems) == 1, problems
    assert problems[0].path.startswith(path)
    assert words in str(problems[0])
    assert STRONG not in str(problems[0])
    assert ENVIRONMENT["SHORT"] not in str(problems[0])
