"""Every rule with what is due now: what `filejobs retention` prints and `doctor` examines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.jobs.table_retention.look import Plan
from filejobs_dagster.jobs.table_retention.refused import RuleRefused, ends_the_run, said
from filejobs_dagster.jobs.table_retention.resolving import resolve
from filejobs_dagster.jobs.table_retention.session import reading
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.jobs.table_retention.indexes import Missing
    from filejobs_dagster.jobs.table_retention.look import Look
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from filejobs_dagster.postgres.connect import Connection, Database


@dataclass(frozen=True)
class Examined:
    """One rule, looked at without a change.

    Attributes:
        rule: As the settings have it.
        plan: Its table and statements, or None when it is refused.
        look: What is due, or None when it could not be counted.
        missing: Indexes that it lacks: a live run refuses it.
        warnings: What somebody should know.
        refused: Why it cannot be carried out, or None.
        advice: What to do about that.
    """

    rule: RetentionRuleSettings
    plan: Plan | None = None
    look: Look | None = None
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    advice: str = ""


def examined(
    rules: Sequence[RetentionRuleSettings], database: Database, connection: Connection, most: int
) -> Iterator[Examined]:
    """Look at each rule, in a transaction of its own that only reads.

    Args:
        rules: Of the settings.
        database: Where the tables are.
        connection: An open connection to it.
        most: Due rows are counted up to here.

    Raises:
        psycopg.Error: The connection broke.
    """
    for rule in rules:
        try:
            yield _examined(rule, database, connection, most)
        except RuleRefused as refused:
            yield Examined(rule, refused=refused.found, advice=refused.advice)
        except psycopg.Error as error:
            if ends_the_run(error, connection):
                raise
            yield Examined(
                rule,
                refused=f"PostgreSQL refused: {said(error)}",
                advice="mend the rule's conditions, or give the table the index that it lacks",
            )


def _examined(
    rule: RetentionRuleSettings, database: Database, connection: Connection, most: int
) -> Examined:
    with reading(database, connection) as cursor:
        plan = Plan.of(resolve(cursor, rule), database_now(cursor))
        missing = tuple(plan.missing_indexes(cursor))
    try:
        with reading(database, connection) as cursor:
            look = plan.look(cursor, most)
    except psycopg.errors.QueryCanceled as error:
        if not missing:
            raise plan.too_slow() from None
        # What is wrong is known: counting without an index takes too long.
        return Examined(rule, plan, missing=missing, warnings=(f"not counted: {said(error)}",))
    return Examined(rule, plan, look, missing, tuple(plan.warnings(look)))
