"""What `table_retention` can be told: a list of rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, StrictFloat, StrictInt

from filejobs_dagster.settings.conditions import (
    ColumnName,
    Condition,
    TableName,
    TimeZone,
    columns_of,
    name_of,
)
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.section import Asked, Found, JobSettings, OneRun, Run, Section, part
from filejobs_dagster.settings.tables import OtherTableSettings
from filejobs_dagster.settings.values import Duration, Text, between, duration_in

JOB = "table_retention"


class ReferredTableSettings(Section):
    """A table whose rows other rows name."""

    table: TableName = Field(
        description="The table, with its schema; no view, which may hide rows that are there.",
        examples=["public.messages"],
    )
    column: ColumnName = Field(
        default="id",
        description="Its column that is named. Have an index on it.",
        examples=["id"],
    )


class DanglingSettings(Section):
    """Which rows name a row that is not there any more."""

    column: ColumnName = Field(
        description="The column that holds the id of a row of another table. NULL names none, and "
        "keeps the row.",
        examples=["record_id"],
    )
    nowhere_in: list[ReferredTableSettings] = Field(
        min_length=1,
        description="Every table in which that row may be, archives too. While a batch is taken "
        "nobody can write to them (SHARE), so that none comes unseen; a batch waits two seconds "
        "for who writes. The column has the same type there.",
        examples=[[{"table": "public.messages"}]],
    )
    at_most: StrictFloat = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Refuse the rule when a larger share of the newest 1,000 rows dangles: the "
        "other table is being filled, or is another one than you mean.",
        examples=[0.5],
    )


class RetentionRuleSettings(Section):
    """How long the rows of one table are kept."""

    name: Text = Field(
        description="What reports and audit events call this rule. Unique among the rules.",
        examples=["expired sessions"],
    )
    table: TableName = Field(
        description="The table, with its schema: public.session. Without one, the search path of "
        "the role decides.",
        examples=["public.session"],
    )
    time: ColumnName = Field(
        description="The column that a row's age is counted from: timestamptz, timestamp or date. "
        "A row without a time is never taken.",
        examples=["expires_at"],
    )
    time_zone: TimeZone | None = Field(
        default=None,
        description="What a timestamp without time zone is written in; needed for such a column. "
        "Without it, a date is over when it is over everywhere on earth.",
        examples=["UTC"],
    )
    delete_after: Annotated[Duration, between(timedelta(0))] = Field(
        description="The age from which a row is deleted. Exactly this old is kept.",
        examples=["90d"],
    )
    scrub_after: Annotated[Duration, between(timedelta(0))] | None = Field(
        default=None,
        description="The age from which the columns of scrub become NULL; less than delete_after.",
        examples=["30d"],
    )
    scrub: list[ColumnName] = Field(
        default_factory=list,
        description="The columns that become NULL after scrub_after.",
        examples=[["ip_address", "user_agent"]],
    )
    where: Condition | None = Field(
        default=None,
        description="Only rows for which this condition is true. NULL is not true.",
        examples=["status = 'sent'"],
    )
    except_: Condition | None = Field(
        default=None,
        alias="except",
        description="Never rows for which this condition is true, or NULL.",
        examples=["legal_hold"],
    )
    dangling: DanglingSettings | None = Field(
        default=None,
        description="Only rows that name a row which is in none of these tables. Where a second "
        "column says what is named, `where` must fix it: record_type = 'Message'.",
        examples=[{"column": "record_id", "nowhere_in": [{"table": "public.messages"}]}],
    )
    whole_partitions: Literal["drop", "detach"] = Field(
        default="drop",
        description="What becomes of a partition that is past as a whole: it is dropped, or "
        "detached and left as a table of its own. The table's last partition stays either way, and "
        "its rows go one by one.",
        examples=["detach"],
    )
    archive_schema: ColumnName | None = Field(
        default=None,
        description="The schema that a detached partition is moved to. Without it, it stays where "
        "it is. The role may create tables there.",
        examples=["archive"],
    )
    batch_size: StrictInt = Field(
        default=1000,
        ge=1,
        le=10_000,
        description="How many rows one transaction takes.",
        examples=[1000],
    )
    children: list[OtherTableSettings] = Field(
        default_factory=list,
        description="Tables whose rows are deleted first, in the same transaction.",
        examples=[[{"table": "public.notification_delivery", "column": "notification_id"}]],
    )
    warn_over_bytes: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Warn when the table with its indexes is larger than this, whatever is due.",
        examples=[10_000_000_000],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at what is scrubbed: when, and whether the rule still finds its rows afterwards."""
        after, columns = said.get("scrub_after"), said.get("scrub") or []
        if after is not None and not columns:
            yield (
                ("scrub_after",),
                mistake("it says when, and scrub names no column", "write scrub: [column, …]"),
            )
        if columns and after is None:
            yield (
                ("scrub",),
                mistake("it names columns, and scrub_after does not say when", "add scrub_after"),
            )
        if said.get("archive_schema") is not None and said.get("whole_partitions") != "detach":
            yield (
                ("archive_schema",),
                mistake("a dropped partition goes nowhere", "write whole_partitions: detach"),
            )
        if isinstance(columns, list):
            yield from _needed_afterwards(said, [each for each in columns if isinstance(each, str)])
        yield from _too_late(said)


def _needed_afterwards(said: Mapping[str, Any], columns: list[str]) -> Iterator[Found]:
    looked_at = {
        "time": {name_of(str(said.get("time", "")))},
        "dangling": {name_of(str(part(said.get("dangling"), "column")))},
    }
    for key in ("where", "except"):
        condition = said.get(key, said.get(f"{key}_"))
        if isinstance(condition, str):
            try:
                looked_at[key] = columns_of(condition)
            except ValueError:
                continue  # reported at the condition itself
    for index, column in enumerate(columns):
        for key, names in looked_at.items():
            if name_of(column) in names:
                yield (
                    ("scrub", index),
                    mistake(
                        f"{shown(column)} is scrubbed, and `{key}` looks at it: the rule would not "
                        "know the row again",
                        f"let `{key}` look at another column",
                    ),
                )


def _too_late(said: Mapping[str, Any]) -> Iterator[Found]:
    scrub, delete = duration_in(said.get("scrub_after")), duration_in(said.get("delete_after"))
    if scrub is not None and delete is not None and scrub >= delete:
        yield (
            ("scrub_after",),
            mistake("a row would be deleted before it is scrubbed", "write less than delete_after"),
        )


class TableRetentionSettings(JobSettings):
    """What `table_retention` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most rows to delete and scrub in this run, over all rules, {least} to {most}. What is "
            "left is reported as truncated.",
            safer="less",
        ),
    ] = Field(
        default=1_000_000,
        ge=1,
        le=100_000_000,
        description="The most rows one run deletes or scrubs, over all rules. The rest waits for "
        "the next run.",
        examples=[1_000_000],
    )
    rules: list[RetentionRuleSettings] = Field(
        description="What is kept for how long.",
        min_length=1,
        examples=[
            [
                {
                    "name": "expired sessions",
                    "table": "public.session",
                    "time": "expires_at",
                    "delete_after": "1d",
                }
            ]
        ],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Find two rules of one name."""
        yield from super().across(said)
        rules = said.get("rules")
        first: dict[str, int] = {}
        for index, rule in enumerate(rules if isinstance(rules, list) else []):
            name = rule.get("name") if isinstance(rule, Mapping) else getattr(rule, "name", None)
            if not isinstance(name, str):
                continue
            if name in first:
                yield (
                    ("rules", index, "name"),
                    mistake(
                        f"rules[{first[name]}] has the same name {shown(name)}",
                        "give every rule a name of its own",
                    ),
                )
            first.setdefault(name, index)

    def asked(self) -> Iterator[Asked]:
        """The table of each rule, and those below it."""
        for rule in self.rules:
            by = f"rule {rule.name}"
            yield Asked(by, None, table=rule.table, privileges=("SELECT", "UPDATE", "DELETE"))
            for child in rule.children:
                yield Asked(by, None, table=child.table, privileges=("SELECT", "DELETE"))
            for other in rule.dangling.nowhere_in if rule.dangling else ():
                # PostgreSQL lets only who may change a table keep others from changing it.
                yield Asked(by, None, table=other.table, privileges=("SELECT", "UPDATE"))


class TableRetentionRun(OneRun, TableRetentionSettings):
    """Which rules one run carries out, and how far it goes."""

    only: Annotated[
        tuple[str, ...],
        Run(
            "Names of the rules to carry out; empty for all. A run of some of them does not count "
            "as a run of the job.",
            called="rules",
            safer="either",
        ),
    ] = ()
