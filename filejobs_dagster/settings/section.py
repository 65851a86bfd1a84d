"""What every section of the settings has in common: it reports all its mistakes, in words."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import yaml
from annotated_types import Ge, Le
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    StrictBool,
    StrictInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from typing_extensions import Self

from filejobs_dagster.settings.conditions import TimeZone
from filejobs_dagster.settings.cron import Cron, shortest_pause
from filejobs_dagster.settings.problems import MISTAKE, Steps, kind, mistake, shown
from filejobs_dagster.settings.values import (
    Owner,
    Text,
    Wait,
    between,
    duration_in,
)
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

    from filejobs_dagster.settings.model import Settings
    from filejobs_dagster.settings.secrets import OtherDatabase, Secret
    from filejobs_dagster.settings.tables import RowRuleSettings, TableSettings

Found = tuple[Steps, PydanticCustomError]
"""A mistake, and where it stands below the section that reports it."""


class Section(BaseModel):
    """A mapping of the file. Frozen; unknown keys are refused.

    Checks that look at more than one key belong in `across`. They see what the file says, so that
    they report although some other key is wrong too, and the operator mends everything at once.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )

    not_here: ClassVar[Mapping[str, str]] = {}
    """Keys of sections like this one that it has not, and what to do instead."""

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Find the mistakes that no single key shows.

        Args:
            said: The section as the file has it; nothing about its values is certain.
        """
        del said
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _report_everything(
        cls, said: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        del info
        found = list(cls.across(said)) if isinstance(said, Mapping) else []
        section: Self | None = None
        try:
            section = handler(said)
        except ValidationError as error:
            found = [*_taught(cls, error), *found]
        if found:
            raise failed(cls.__name__, found)
        if section is None:  # pragma: no cover - a ValidationError has at least one error
            raise AssertionError(cls.__name__)
        return section


def failed(title: str, found: Iterable[Found]) -> ValidationError:
    """One error that carries many mistakes, each with its path."""
    return ValidationError.from_exception_data(
        title,
        [InitErrorDetails(type=error, loc=path, input=None) for path, error in found],
        hide_input=True,
    )


def mistakes_in(error: ValidationError) -> list[Found]:
    """The mistakes that an error of a section carries."""
    return [
        (details["loc"], mistake(details["ctx"]["found"], details["ctx"]["expected"]))
        for details in error.errors(include_url=False, include_input=False)
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names was meant, or which there are."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}"


def part(said: Any, key: str) -> Any:
    """A key of a mapping, from a file or from a model that was built in Python; else None."""
    return said.get(key) if isinstance(said, Mapping) else getattr(said, key, None)


def items(said: Any) -> list[Any]:
    """The entries of a list of the file; none where something else stands."""
    return list(said) if isinstance(said, list | tuple) else []


def as_yaml(value: Any) -> str:
    """Write a value on one line, as the file would."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _taught(cls: type[Section], error: ValidationError) -> list[Found]:
    return [
        (details["loc"], _in_words(cls, details)) for details in error.errors(include_url=False)
    ]


def _in_words(cls: type[Section], details: ErrorDetails) -> PydanticCustomError:
    if details["type"] == MISTAKE:
        return mistake(details["ctx"]["found"], details["ctx"]["expected"])
    fields = {field.alias or name: field for name, field in cls.model_fields.items()}
    if not details["loc"]:
        return mistake(
            f"found {kind(details['input'])} where a mapping belongs",
            f"write a mapping with the keys {', '.join(fields)}",
        )
    name = str(details["loc"][0])
    if name not in fields and details["input"] is None and {"sql", "where"} & set(fields):
        return mistake(
            "this is no key, but what a comma cuts from a text without quotes",
            'put the whole text in quotes: sql: "select a, b from c"',
        )
    if name not in fields:
        instead = cls.not_here.get(name)
        return mistake("this key is unknown", instead or nearest(name, fields))
    field = fields[name]
    example = as_yaml({name: field.examples[0]})[1:-1] if field.examples else f"{name}: …"
    if details["type"] == "missing":
        return mistake("it is missing", f"{_first_sentence(field)}; for example {example}")
    return mistake(_wrong_value(details), f"{_right_value(details, field)}, for example {example}")


def _first_sentence(field: FieldInfo) -> str:
    description = field.description or "write it"
    sentence = description.split(". ")[0].removesuffix(".")
    return f"write {sentence[:1].lower()}{sentence[1:]}" if field.description else sentence


def _wrong_value(details: ErrorDetails) -> str:
    value = details["input"]
    if isinstance(value, str) and not details["type"].startswith("literal"):
        return f"found {shown(value)}, a text"
    return f"found {shown(value)}"


_RIGHT: dict[str, str] = {
    "string": "write a text (in quotes if it looks like anything else)",
    "bool": "write true or false, without quotes",
    "list": "write a list",
    "dict": "write a mapping",
    "model": "write a mapping",
}


def _right_value(details: ErrorDetails, field: FieldInfo) -> str:
    family = details["type"].split("_", maxsplit=1)[0]
    if family == "literal":
        return f"write {details['ctx']['expected']}"
    if family in _RIGHT:
        return _RIGHT[family]
    return f"write a whole number{_bounds(field)}"


def _bounds(field: FieldInfo) -> str:
    low = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    if high is None:
        return "" if low is None else f" that is at least {low}"
    return f" from {low} to {high}"


# What every job of `filejobs.yaml` can be told: when it runs, how far it goes, when it is late.
#
# A job's own settings are a subclass that stands beside the job. Each field is said once: its
# type, bounds, default, the words of the file and, with `Run`, the words of the Launchpad where a
# single run may be told something else.

_SECOND = timedelta(seconds=1)
_SAY_WHEN = "say when: give `schedule` or `by_hand: true`"


Safer = Literal["more", "less", "either"]


@dataclass(frozen=True)
class Run:
    """Marks a field, in its `Annotated`, that the config of a single run can set.

    Attributes:
        words: What the Launchpad says of it; `{least}` and `{most}` stand for the field's bounds.
        safer: Whether more or less of it leaves more alone; either, where it takes nothing that the
            settings would leave. A live run that asks for what is less safe than the settings is
            refused. One with a longer time than theirs, where that leaves more alone, is a
            success, and does not count as having swept.
        called: Its name in run config, where that is not the field's.
        otherwise: What it is without run config, where that stands elsewhere in the settings.
        default: How people write the default, where that is another unit: 60s, not 1m.
    """

    words: str
    safer: Safer
    called: str | None = None
    otherwise: Callable[[Settings], Any] | None = None
    default: str | None = None


NO_FURTHER_BATCH = Run(
    "No further batch is begun after this time, with a unit: 30m, 2h; at most {most}.", "less"
)
MaxRuntime = Annotated[Wait, between(_SECOND, timedelta(hours=24))]


@dataclass(frozen=True)
class Around:
    """What stands around a job in the file, for mistakes that no section shows alone.

    Nothing about the values is certain: this is what the file has, not what is right.

    Attributes:
        entry: The entry of `buckets` that the job means, when it exists.
        buckets: All entries.
        audit: The section `audit`.
    """

    entry: str | None
    buckets: Mapping[str, Mapping[str, Any]]
    audit: Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """A statement of the operator's, or a table that a job changes itself.

    Attributes:
        by: What asks, for people: `source avatars`.
        database: Where; None for the project's own database.
        statement: The statement, with its parameters.
        table: Or the table, as the settings spell it.
        privileges: What the job does with the table.
        replica: Where the statement is read besides.
    """

    by: str
    database: OtherDatabase | None
    statement: str | None = None
    table: str | None = None
    privileges: tuple[str, ...] = ()
    replica: OtherDatabase | None = None


class JobSettings(Section):
    """What every job can be told."""

    schedule: Cron | None = Field(
        default=None,
        description="When it runs: five cron fields or a macro such as @daily, in time_zone. "
        "Either this or by_hand: true.",
        examples=["*/15 * * * *"],
    )
    by_hand: StrictBool = Field(
        default=False,
        description="True says that only people start this job. Stands instead of schedule.",
        examples=[True],
    )
    time_zone: TimeZone = Field(
        default="UTC",
        description="By which clock the schedule goes: UTC, or a name of the IANA list. `filejobs "
        "settings check` names the days on which such a clock is moved.",
        examples=["Europe/Berlin"],
    )
    mode: Literal["dry", "live"] = Field(
        default="dry",
        description="Whether scheduled runs only report (dry) or delete (live). allow_live: false "
        "wins over it.",
        examples=["live"],
    )
    limit: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="The most items one run acts on. The rest waits for the next run.",
        examples=[10_000],
    )
    max_runtime: Annotated[MaxRuntime, NO_FURTHER_BATCH] = Field(
        default=timedelta(minutes=30),
        description="How long one run may take before it stops and says so.",
        examples=["30m"],
    )
    stale_after: Annotated[Wait, between(_SECOND)] | None = Field(
        default=None,
        description="The age of the last success from which the job is stale and is raised. "
        "Without it nobody is told that the job stopped.",
        examples=["2h"],
    )

    alert_after: StrictInt = Field(
        default=1,
        ge=1,
        le=100,
        description="How many runs in a row must fail before somebody is told. Until then the "
        "standing says failed and is no alarm. A breaker, a finding of audit_verify and "
        "stale_after wait for nothing.",
        examples=[3],
    )
    owners: tuple[Owner, ...] = Field(
        default=(),
        description="Who answers for the job: shown beside it in the web UI.",
        examples=[["team:storage"]],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether exactly one of `schedule` and `by_hand` is given."""
        scheduled = said.get("schedule") is not None
        by_hand = said.get("by_hand", False) is not False
        if scheduled and by_hand:
            both = "it has both `schedule` and `by_hand: true`"
            yield (), mistake(both, f"{_SAY_WHEN}, not both")
        if not scheduled and not by_hand:
            yield (), mistake("nothing says when it runs", _SAY_WHEN)
        zone = said.get("time_zone", "UTC")
        if zone != "UTC" and not scheduled:
            yield ("time_zone",), mistake("there is no schedule that goes by it", "leave it out")
        elif isinstance(zone, str) and not _is_zone(zone):
            yield (
                ("time_zone",),
                mistake(
                    f"no time zone is called {shown(zone)}",
                    "write UTC, or a name of the IANA list such as Europe/Berlin",
                ),
            )
        yield from _always_stale(said)

    @classmethod
    def beside(cls, said: Mapping[str, Any], around: Around) -> Iterator[Found]:
        """Find what the job's settings and the rest of the file say against each other.

        Args:
            said: The job's section as the file has it.
            around: The rest.

        Yields:
            Mistakes, each with its path from the top of the file.
        """
        del said, around
        yield from ()

    def addresses(self) -> Iterator[Secret]:
        """The connection strings of databases that only this job knows."""
        for table in self.declared():
            if table.database is not None:
                yield table.database.url

    def secrets(self) -> Iterator[Secret]:
        """Secrets that only this job is given, beside addresses of databases."""
        yield from ()

    def declared(self) -> Iterator[TableSettings]:
        """The operator's tables that the job works on: each is a source of the job's bucket."""
        yield from ()

    def asked(self) -> Iterator[Asked]:
        """What it asks of the operator's own tables, beside the sources of its bucket."""
        for table in self.declared():
            yield from asked_of_rows(table)


def asked_of_rows(table: TableSettings | RowRuleSettings) -> Iterator[Asked]:
    """What a table whose rows go asks of the operator's database."""
    by, at = f"table {table.name}", table.database
    change = ("UPDATE",) if table.set is not None else ("UPDATE", "DELETE")
    yield Asked(by, at, table=table.table, privileges=("SELECT", *change))
    for other in table.unless_named_by:
        yield Asked(by, at, table=other.table, privileges=("SELECT",))
    for child in table.also_delete:
        locked = ("UPDATE",) if child.also_delete else ()
        for one in (child, *child.also_delete):
            more = locked if one is child else ()
            yield Asked(by, at, table=one.table, privileges=("SELECT", *more, "DELETE"))
    if table.audit is not None:
        yield Asked(by, at, statement=table.audit)


class OneBucketSettings(JobSettings):
    """What a job can be told that works in one bucket."""

    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that it works in. May be left out where only one owns "
        "anything.",
        examples=["uploads"],
    )


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _always_stale(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find a threshold that passes before the next run can begin: an alarm that always rings."""
    stale, pause = duration_in(said.get("stale_after")), shortest_pause(said.get("schedule"))
    if stale is not None and pause is not None and stale < pause:
        longer = format_duration(pause)
        yield (
            ("stale_after",),
            mistake(
                f"it is {format_duration(stale)}, and the schedule runs every {longer} at most: "
                "the job would be stale between any two runs, also when all is well",
                f"write more than {longer}, by what the longest run takes",
            ),
        )


class OneRun:
    """Beside a job's settings as a base: the same settings with one run's config applied.

    When the job runs is no question any more. Fields that only a run can be told are added here;
    the file knows nothing of them.
    """

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at nothing: the settings were looked at when they were read."""
        del said
        yield from ()
