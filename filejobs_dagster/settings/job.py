"""What every job of `filejobs.yaml` can be told: when it runs, how far it goes, when it is late.

A job's own settings are a subclass that stands beside the job. Each field is said once: its type,
bounds, default, the words of the file and, with `Run`, the words of the Launchpad where a single
run may be told something else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, StrictBool, StrictInt

from filejobs_dagster.settings.conditions import TimeZone
from filejobs_dagster.settings.cron import Cron, shortest_pause
from filejobs_dagster.settings.durations import Wait, duration_in, format_duration
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.section import Found, Section
from filejobs_dagster.settings.values import Owner, between

if TYPE_CHECKING:
    from filejobs_dagster.settings.model import Settings
    from filejobs_dagster.settings.other_database import OtherDatabase
    from filejobs_dagster.settings.secrets import Secret
    from filejobs_dagster.settings.tables import TableSettings

_SECOND = timedelta(seconds=1)
_SAY_WHEN = "say when: give `schedule` or `by_hand: true`"


@dataclass(frozen=True)
class Run:
    """Marks a field, in its `Annotated`, that the config of a single run can set.

    Attributes:
        words: What the Launchpad says of it; `{least}` and `{most}` stand for the field's bounds.
        patient: True when a longer duration leaves more alone. A run that is more patient than the
            settings is a success, and does not count as having swept.
        called: Its name in run config, where that is not the field's.
        otherwise: What it is without run config, where that stands elsewhere in the settings.
        default: How people write the default, where that is another unit: 60s, not 1m.
    """

    words: str
    patient: bool = False
    called: str | None = None
    otherwise: Callable[[Settings], Any] | None = None
    default: str | None = None


NO_FURTHER_BATCH = Run(
    "No further batch is begun after this time, with a unit: 30m, 2h; at most {most}."
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
