"""The rules of table_retention: their tables, their indexes, and what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.jobs.table_retention.retention import Examined, examined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.jobs.table_retention.settings import TableRetentionSettings
    from filejobs_dagster.postgres.connect import Connection, Database

MOST_COUNTED = 1000
"""A look is no count: from here on it says that there are more."""


def check_retention(
    settings: TableRetentionSettings, database: Database, connection: Connection
) -> Iterator[Finding]:
    """Look at every rule; rows are counted and none is changed.

    Args:
        settings: `jobs.table_retention`.
        database: Where the tables are.
        connection: An open connection to it.
    """
    for one in examined(settings.rules, database, connection, MOST_COUNTED):
        yield from _findings(one)


def _findings(one: Examined) -> Iterator[Finding]:
    check = f"retention {one.rule.name}"
    if one.refused is not None:
        yield failed(check, one.refused, one.advice)
        return
    unprivileged = None if one.plan is None else one.plan.target.privileges()
    if unprivileged is not None:
        yield failed(f"{check} privileges", unprivileged.found, unprivileged.advice)
    for missing in one.missing:
        yield failed(f"{check} index", f"{missing.why}; live runs refuse it", missing.statement)
    for words in one.warnings:
        yield warning(check, words, "see that this is meant: docs/table_retention.md")
    if one.look is not None and one.plan is not None:
        scrubs = "" if one.plan.scrub is None else f", {one.look.scrubs} to scrub"
        yield ok(
            f"{check} due",
            f"{one.look.deletes} rows of {one.plan.target.table} are due{scrubs}",
        )
