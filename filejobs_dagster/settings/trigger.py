"""The section `trigger`: who may start jobs over HTTP, and how often (`filejobs serve-trigger`)."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StrictBool, StrictInt

from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.settings.section import Found, Section, nearest
from filejobs_dagster.settings.values import Text

LEAST_TOKEN = 24
"""Characters. A token of random letters and digits of this length cannot be guessed."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}")
# What a header can carry in one word: RFC 6750, section 2.1.
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


def _strong(secret: Secret) -> Secret:
    value = secret.reveal()
    expected = f"set {secret.env} to the output of `openssl rand -hex 32`"
    if len(value) < LEAST_TOKEN:
        raise mistake(
            f"the variable {secret.env} holds a token of less than {LEAST_TOKEN} characters",
            expected,
        )
    if not _TOKEN.fullmatch(value):
        raise mistake(
            f"the variable {secret.env} holds characters that no bearer token has", expected
        )
    return secret


class TokenSettings(Section):
    """One token, and what whoever holds it may do."""

    token: Annotated[Secret, AfterValidator(_strong)] = Field(
        description="The token, by the environment variable that holds it. At least 24 "
        "characters of letters, digits and . _ ~ + / -",
        examples=[{"env": "FILEJOBS_TRIGGER_TOKEN"}],
    )
    jobs: list[Text] | None = Field(
        default=None,
        description="The jobs that it may start; without it, every job of the settings.",
        examples=[["upload_reservations"]],
    )
    may_go_live: StrictBool = Field(
        default=False,
        description="True lets it ask for a live run of a job whose mode is dry. Without it, a "
        "run has the mode of the settings, or is dry.",
        examples=[True],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether the jobs exist."""
        jobs = said.get("jobs")
        for place, job in enumerate(jobs if isinstance(jobs, list) else []):
            if isinstance(job, str) and job.strip() and job not in BY_NAME:
                yield ("jobs", place), mistake("no job has this name", nearest(job, BY_NAME))
        if jobs == []:
            yield (
                ("jobs",),
                mistake("it may start nothing", "name its jobs, or leave jobs out for all"),
            )


class TriggerSettings(Section):
    """Who may start jobs over HTTP, and how often."""

    tokens: dict[str, TokenSettings] = Field(
        description="Whose tokens are known, each by the name that records call its holder.",
        examples=[{"cron": {"token": {"env": "FILEJOBS_TRIGGER_TOKEN"}}}],
    )
    starts_per_hour: StrictInt = Field(
        default=5,
        ge=1,
        le=3600,
        description="How many runs of one job may be started over HTTP within an hour, whoever "
        "asks.",
        examples=[12],
    )
    live_per_minute: StrictInt = Field(
        default=3,
        ge=1,
        le=60,
        description='How many live runs one token may ask for by {"mode": "live"} within a '
        "minute, of all jobs together.",
        examples=[1],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at the names, and at whether two tokens are the same variable."""
        tokens = said.get("tokens")
        if not isinstance(tokens, Mapping):
            return
        if not tokens:
            yield (
                ("tokens",),
                mistake("there is no token", "write one, or leave the section trigger out"),
            )
        variables: dict[str, str] = {}
        for name, entry in tokens.items():
            if not _NAME.fullmatch(name):
                yield (
                    ("tokens", name),
                    mistake(
                        f"{shown(name)} cannot stand in a record as a name",
                        "write letters, digits and . _ @ -, at most 63 of them",
                    ),
                )
            variable = _variable(entry)
            if variable is not None and variable in variables:
                yield (
                    ("tokens", name, "token"),
                    mistake(
                        f"tokens.{variables[variable]} is the same variable",
                        "give each holder a token of its own: records tell them apart by it",
                    ),
                )
            elif variable is not None:
                variables[variable] = name


def _variable(entry: Any) -> str | None:
    """The variable of a token, from a file or from a model that was built in Python."""
    token = entry.get("token") if isinstance(entry, Mapping) else getattr(entry, "token", None)
    if isinstance(token, Secret):
        return token.env
    name = token.get("env") if isinstance(token, Mapping) else None
    return name if isinstance(name, str) else None
