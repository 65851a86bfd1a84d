"""Running table_retention without Dagster, on tables of the test's own."""

from __future__ import annotations

import logging
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs import table_retention
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.table_retention.due import Plan
from filejobs_dagster.jobs.table_retention.resolving import resolve
from filejobs_dagster.jobs.table_retention.settings import (
    RetentionRuleSettings,
    TableRetentionSettings,
)
from filejobs_dagster.jobs.table_retention.target import reading
from filejobs_dagster.jobs.table_retention.work import Work
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from filejobs_dagster.jobs.table_retention.target import Raw
    from filejobs_dagster.ledger.outcome import Outcome

QUICK = Intervals(heartbeat=timedelta(seconds=0.5), final_word=timedelta(seconds=3))

SESSIONS = """
CREATE TABLE session (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    expires_at timestamptz,
    note       text
);
CREATE INDEX ON session (expires_at, id);
"""


def rule(**said: Any) -> RetentionRuleSettings:
    """A rule as the settings would read it."""
    return RetentionRuleSettings.model_validate(
        {"name": "sessions", "table": "session", "time": "expires_at", "delete_after": "1d", **said}
    )


@dataclass
class Keeper:
    """Runs the job, and asks the database."""

    url: str
    database: Database
    rows_of: dict[str, dict[str, Any]] = field(default_factory=dict)

    def run(
        self,
        *rules: RetentionRuleSettings | Mapping[str, Any],
        mode: Mode = "live",
        **limits: Any,
    ) -> Outcome:
        settings = TableRetentionSettings.model_validate(
            {"by_hand": True, "rules": [
                one if isinstance(one, RetentionRuleSettings) else rule(**one)
                for one in rules or (rule(),)
            ]}
        )  # fmt: skip
        identity = RunIdentity(
            run_id=str(uuid.uuid4()),
            installation="test",
            job="table_retention",
            mode=mode,
            trigger=Trigger("cli"),
            holder="the test",
        )
        request = table_retention.TableRetentionRun.model_construct(rules=settings.rules, **limits)
        outcome = run_job(
            RunSpec(identity, pace=QUICK),
            self.database,
            lambda run: table_retention.run(run, request),
            logging.getLogger("keeper"),
            door=None,
        )
        self.rows_of = {row["rule"]: row for row in outcome.detail.get("rules", [])}
        return outcome

    def execute(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, values: Any = None) -> Any:
        return self.execute(statement, values)[0][0]

    def ids(self, table: str = "session") -> list[Any]:
        return [row[0] for row in self.execute(f"SELECT id FROM {table} ORDER BY id")]

    def events(self) -> list[dict[str, Any]]:
        return [
            row[0]
            for row in self.execute("SELECT body::jsonb FROM audit_event ORDER BY chain_id, seq")
        ]

    def session(self, *ages: str | None) -> None:
        """Sessions that expired so long ago, in this order."""
        for age in ages:
            self.execute("INSERT INTO session (expires_at) VALUES (now() - %s::interval)", (age,))


@pytest.fixture
def keeper(database_url: str) -> Keeper:
    return Keeper(database_url, Database(database_url))


@pytest.fixture
def sessions(keeper: Keeper) -> Keeper:
    keeper.execute(SESSIONS)
    return keeper


@contextmanager
def looking(keeper: Keeper) -> Iterator[Raw]:
    """A transaction that only reads."""
    with (
        keeper.database.connect("test") as connection,
        reading(keeper.database, connection) as cursor,
    ):
        yield cursor


def plan_of(keeper: Keeper, one: RetentionRuleSettings, now: datetime) -> Plan:
    """The rule's plan at a moment that stands still."""
    with looking(keeper) as cursor:
        return Plan.of(resolve(cursor, one), now)


def due(keeper: Keeper, one: RetentionRuleSettings, now: datetime) -> list[str]:
    """The keys of the rows that are due for deletion at that moment, oldest first."""
    with looking(keeper) as cursor:
        plan = Plan.of(resolve(cursor, one), now)
        cursor.execute(plan.delete.page(None, 1000, lock=False))
        return [row[2] for row in cursor.fetchall()]


def between_steps(monkeypatch: pytest.MonkeyPatch, act: Callable[[Work], object]) -> None:
    """Let something happen before each transaction of a live run."""
    step = Work.step

    def hooked(self: Work, *arguments: Any) -> None:
        act(self)
        step(self, *arguments)

    monkeypatch.setattr(Work, "step", hooked)
