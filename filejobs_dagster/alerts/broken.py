"""Telling of a settings file with mistakes, by what of it can still be read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.alerts.conditions import Condition, Looked, reason_of
from filejobs_dagster.alerts.rounds import (
    Round,
    patient,
    tell_what_is_seen,
    tell_without_database,
    teller_of,
)
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import alert_secrets, database_secrets

if TYPE_CHECKING:
    from filejobs_dagster.alerts.memory import Memory
    from filejobs_dagster.settings import Loaded, Salvaged

LONGEST_WAIT = timedelta(seconds=5)


def tell_of_broken_settings(
    loaded: Loaded, found: Salvaged, memory: Memory, *, budget: timedelta
) -> Round:
    """Tell those who are known of the mistakes. Never raises an `Exception`.

    Args:
        loaded: The settings that have mistakes.
        found: What of them is right, or was when the file was.
        memory: For when the database is not known or away.
        budget: For everything that is sent.
    """
    try:
        return _tell(loaded, found, memory, budget)
    except Exception as error:  # noqa: BLE001 (the mistake itself is raised, whatever this does)
        return Round(trouble=sanitize_exception(error, known=_secrets(found)))


def _tell(loaded: Loaded, found: Salvaged, memory: Memory, budget: timedelta) -> Round:
    if found.alerts is None:
        return Round()
    known = _secrets(found)
    mistakes = "; ".join(str(problem) for problem in loaded.problems)
    broken = Condition("settings", None, reason_of(mistakes, known))
    who = teller_of(loaded.installation, found.alerts, memory, known, all_known=found.complete)
    if found.database is None:
        return tell_without_database(who, (broken,), budget=budget)
    looked = Looked((broken,), frozenset({"settings"}))
    database = patient(Database.of(found.database), LONGEST_WAIT)
    return tell_what_is_seen(who, database, lambda _: looked, budget=budget, besides=(broken,))


def _secrets(found: Salvaged) -> tuple[str, ...]:
    of_alerts = () if found.alerts is None else alert_secrets(found.alerts)
    return of_alerts if found.database is None else of_alerts + database_secrets(found.database)
