"""The project's own database: reachable, and migrated as far as this version needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.health.answer import no, yes
from filejobs_dagster.ledger.sanitize import sanitize, sanitize_exception
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding

if TYPE_CHECKING:
    from filejobs_dagster.health.answer import Answer
    from filejobs_dagster.settings import Settings


def database(settings: Settings, secrets: tuple[str, ...] = ()) -> Answer:
    """Ask whether the database answers and every migration is applied."""
    try:
        missing = outstanding(Database.of(settings.database))
    except (DatabaseUnavailable, MigrationRefused) as error:
        return no(" ".join(sanitize(str(error), known=secrets).split()))
    except psycopg.Error as error:
        return no(" ".join(sanitize_exception(error, known=secrets).split()))
    if missing:
        names = ", ".join(migration.name for migration in missing)
        return no(f"the database lacks {names}: run `filejobs migrate`")
    return yes("the database answers, and every migration is applied")
