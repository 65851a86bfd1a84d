"""What `own_jobs` can be told: what each of the operator's jobs does, and by what it is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StrictBool, StrictInt, StrictStr

from filejobs_dagster.collector import Touch
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.settings.section import (
    Asked,
    Found,
    JobSettings,
    OneRun,
    Run,
    asked_of_rows,
    items,
    part,
)
from filejobs_dagster.settings.tables import RowRuleSettings
from filejobs_dagster.settings.values import Duration, Text, between

_PLACE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OURS = ("FILEJOBS_", "DAGSTER_PIPES_")

Said = Literal["rows", "objects", "multipart uploads", "chain", "elsewhere"]
"""What a job of unknown work can say that it touches; of rows elsewhere a declaration knows."""

OwnLimit = Annotated[
    StrictInt,
    Run(
        "The most items to act on in this run, {least} to {most}; it is handed to it.", safer="less"
    ),
]


class OwnJobSettings(JobSettings):
    """What every job of your own can be told."""

    about: Text | None = Field(
        default=None,
        description="One sentence that says what it does, for the web UI.",
        examples=["Makes the thumbnails that are missing."],
    )
    limit: OwnLimit = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="The most items one run acts on. The rest waits for the next run.",
        examples=[10_000],
    )


class OwnRuleSettings(OwnJobSettings):
    """A rule in SQL: rows that are due are deleted, or changed as `set` says."""

    rule: RowRuleSettings = Field(
        description="Which rows, and what becomes of them.",
        examples=[{"table": "public.draft", "due": "abandoned_at", "where": "state = 'open'"}],
    )
    older_than: Annotated[
        Duration,
        between(timedelta(0)),
        Run("How long after its `due` a row goes, with a unit: 7d.", safer="more"),
    ] = Field(
        default=timedelta(0),
        description="How long after the time in `due` a row goes.",
        examples=["30d"],
    )
    batch_size: Annotated[
        StrictInt, Run("How many rows one transaction takes, {least} to {most}.", safer="less")
    ] = Field(
        default=500,
        ge=1,
        le=10_000,
        description="How many rows one transaction takes.",
        examples=[500],
    )

    def addresses(self) -> Iterator[Secret]:
        """The database of its table, where that is another one."""
        if self.rule.database is not None:
            yield self.rule.database.url

    def asked(self) -> Iterator[Asked]:
        """What the rule asks of the operator's tables."""
        yield from super().asked()
        yield from asked_of_rows(self.rule)


class OwnRuleRequest(OneRun, OwnRuleSettings):
    """What one run of a rule does."""


class TouchingSettings(OwnJobSettings):
    """What a job must say whose work is not known here."""

    touches: list[Said] = Field(
        min_length=1,
        description="What a live run changes: rows, objects, multipart uploads, chain; or "
        "elsewhere, for what has nothing to do with them. The guards of the door follow from "
        "it.",
        examples=[["rows"]],
    )
    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that it deletes from. May be left out where there is "
        "one.",
        examples=["uploads"],
    )
    by_day: StrictBool = Field(
        default=False,
        description="True says that a run can be told to take one day, so that a backfill can.",
        examples=[True],
    )


class OwnPythonSettings(TouchingSettings):
    """A Python callable of yours."""

    python: Text = Field(
        description="Where it is: the module, a colon and the name. It is given the run.",
        examples=["acme.jobs:rebuild_thumbnails"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at how the callable is written."""
        yield from super().across(said)
        place = said.get("python")
        if isinstance(place, str) and not _PLACE.fullmatch(place):
            yield (
                ("python",),
                mistake(
                    f"{shown(place)} names no callable", "write module:name, as acme.jobs:rebuild"
                ),
            )


class OwnPythonRequest(OneRun, OwnPythonSettings):
    """What one run of a callable is given."""


class OwnCommandSettings(TouchingSettings):
    """A command of yours; no shell reads it."""

    command: list[StrictStr] = Field(
        min_length=1,
        description="The program and its arguments, each a text of its own.",
        examples=[["/usr/bin/node", "/srv/acme/rebuild.js"]],
    )
    environment: dict[str, Secret | StrictStr] = Field(
        default_factory=dict,
        description="Variables that it is given beside PATH, HOME, LANG, TZ, TMPDIR and those of "
        "the run: texts, or secrets as {env: NAME}. It inherits no other.",
        examples=[{"ACME_TOKEN": {"env": "ACME_TOKEN"}}],
    )
    knows_dry: StrictBool = Field(
        default=False,
        description="True says that it changes nothing where FILEJOBS_MODE is dry. Without it, a "
        "dry run does not start it.",
        examples=[True],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at the words of the command and the names of the variables."""
        yield from super().across(said)
        command = said.get("command")
        for index, word in enumerate(items(command)):
            if isinstance(word, str) and ("\0" in word or (index == 0 and not word.strip())):
                yield ("command", index), mistake("no program can be given this", "write its path")
        environment = said.get("environment")
        for name in environment if isinstance(environment, Mapping) else ():
            if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
                yield (
                    ("environment", name),
                    mistake("it is no name of a variable", "write letters, digits and _"),
                )
            elif name.startswith(_OURS):
                yield (
                    ("environment", name),
                    mistake("the run itself sets such variables", "give it another name"),
                )

    def secrets(self) -> Iterator[Secret]:
        """Those of its environment."""
        yield from (value for value in self.environment.values() if isinstance(value, Secret))


class OwnCommandRequest(OneRun, OwnCommandSettings):
    """What one run of a command is given."""


class WatchedSettings(OwnJobSettings):
    """A job that something else runs."""

    mode: Literal["live"] = Field(
        default="live",
        description="It does what it does: nobody here can ask it to be dry.",
        examples=["live"],
    )


class WatchedReportsSettings(WatchedSettings):
    """A job that says itself when it begins and how it ends."""

    reports: Literal[True] = Field(
        description="True: it is run elsewhere, by a cron for instance, and reports through "
        "`filejobs record` or over HTTP. A start without an end is a failure after max_runtime.",
        examples=[True],
    )


class WatchedDagsterSettings(WatchedSettings):
    """A Dagster job of another code location on the same instance."""

    dagster_job: Text = Field(
        description="The name of the job in its own code location.",
        examples=["nightly_billing"],
    )
    code_location: Text | None = Field(
        default=None,
        description="Which code location it is of. Without it, of any.",
        examples=["billing"],
    )


class WatchedRequest(OneRun, WatchedSettings):
    """Nothing: no run of it is started here."""


KINDS: Mapping[str, tuple[type[OwnJobSettings], type[OwnJobSettings]]] = {
    "rule": (OwnRuleSettings, OwnRuleRequest),
    "python": (OwnPythonSettings, OwnPythonRequest),
    "command": (OwnCommandSettings, OwnCommandRequest),
    "reports": (WatchedReportsSettings, WatchedRequest),
    "dagster_job": (WatchedDagsterSettings, WatchedRequest),
}
"""By the key that says what kind of job it is: its settings, and those of one run."""


def kind_of(said: Any) -> str:
    """The one key of `KINDS` that an entry has.

    Raises:
        PydanticCustomError: It has none, or several.
    """
    if not isinstance(said, Mapping):
        raise mistake("a mapping belongs here", f"write one of {', '.join(KINDS)} into it")
    found = [key for key in KINDS if key in said]
    if len(found) != 1:
        raise mistake(
            "it does not say what it does" if not found else f"it has {' and '.join(found)}",
            f"write one of {', '.join(KINDS)}",
        )
    return found[0]


def touches_of(kind: str, said: Mapping[str, Any]) -> frozenset[Touch]:
    """What a live run changes; of an entry with mistakes, what can be read of it."""
    if kind == "rule":
        away = part(said.get("rule"), "database") is not None
        return frozenset({"rows", "rows elsewhere"} if away else {"rows"})
    known: tuple[Said, ...] = get_args(Said)
    return frozenset(each for each in known if each in items(said.get("touches")))
