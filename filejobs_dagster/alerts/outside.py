"""A round from outside of Dagster: what the command line does, for cron on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.alerts.conditions import look
from filejobs_dagster.alerts.rounds import limits_of, tell_what_is_seen, teller_of
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import known_secrets

if TYPE_CHECKING:
    from datetime import timedelta

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.alerts.conditions import Looked
    from filejobs_dagster.alerts.memory import Memory
    from filejobs_dagster.alerts.rounds import Round
    from filejobs_dagster.settings import Settings


def look_and_tell(settings: Settings, memory: Memory, *, budget: timedelta) -> Round:
    """Look at everything but Dagster's queue, and tell. Never raises an `Exception`.

    Args:
        settings: Whose jobs, and who is told.
        memory: What is remembered while the database is away.
        budget: For everything that is sent.
    """
    secrets = known_secrets(settings)
    limits = limits_of(settings)

    def what_is_wrong(cursor: psycopg.Cursor[TupleRow]) -> Looked:
        found = standings(cursor, settings.installation, expectations(settings))
        return look(cursor, settings.installation, found, limits, from_outside=True, known=secrets)

    who = teller_of(settings.installation, settings.alerts, memory, secrets)
    return tell_what_is_seen(who, Database.of(settings.database), what_is_wrong, budget=budget)
