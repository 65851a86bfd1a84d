"""The project's own tables refuse what they were made to refuse.

Much of what the jobs rely on is kept by the database: with the triggers of `file` off, a client
refers to a key in the moment between a run's intent and its deletion, and loses the object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.postgres.inventory import changes, told
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding_in

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look


class Tables(Guard):
    """Tables, constraints, triggers, rules and functions are as the migrations made them."""

    name = "tables"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Compare the catalog with what a fresh migration leaves."""
        _compare(at, "nothing was touched")
        return "tables, constraints, triggers and rules are as the migrations made them"

    def prove(self, at: Look) -> None:
        """Compare again: triggers are switched off for a bulk load while a run works."""
        _compare(at, "nothing more was touched")


def _compare(at: Look, so_far: str) -> None:
    schema = at.database.schema
    with at.database.transaction(at.connection, read_only=True) as cursor:
        found = changes(cursor, schema)
        if not found:
            return
        try:
            lacking = outstanding_in(cursor)
        except MigrationRefused as error:
            raise Refusal(str(error), f"{so_far.capitalize()}.") from error
    if lacking:
        names = ", ".join(migration.name for migration in lacking)
        raise Refusal(f"The database lacks {names}.", "Run `filejobs migrate`.")
    raise Refusal(
        f"The project's tables in the schema {schema} are not as the migrations made them: "
        f"{told(found)}.",
        f"What they refuse keeps files in use from being deleted, so {so_far}. Find out who "
        "changed it and what was written meanwhile, then mend it.",
    )
