"""One reading: everything from one snapshot of the database, or the word that there is none."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.alerts.mutes import Mute, active
from filejobs_dagster.alerts.outbox import Undelivered, open_conditions, undelivered
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.settings import known_secrets, read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from filejobs_dagster.alerts.words import Severity
    from filejobs_dagster.settings import Settings

_MIRROR_LOOKED_AT = "SELECT read_until FROM mirror_watermark WHERE installation = %(installation)s"

PATIENCE = timedelta(seconds=5)
"""For the database to connect and to answer: a scrape is given up after ten seconds."""


@dataclass(frozen=True)
class Reading:
    """What was read, or why nothing could be.

    Attributes:
        installation: Whose jobs.
        taken_at: When, in seconds since 1970, by this machine's clock.
        standings: Where the jobs stand; None when nothing could be read.
        alerts_open: How many conditions are open, by their severity.
        waiting: What each destination has not been told yet; with one entry for each that the
            settings name.
        mirror_looked_at: When the mirror of finished runs last looked, in seconds since 1970, or
            None when it never did.
        mutes: What nobody is told of.
        trouble: Why nothing could be read, without secrets, or None.
    """

    installation: str
    taken_at: float
    standings: tuple[Standing, ...] | None = None
    alerts_open: Mapping[Severity, int] | None = None
    waiting: Mapping[str, int] | None = None
    mirror_looked_at: float | None = None
    mutes: tuple[Mute, ...] = ()
    trouble: str | None = None


def read(config: Path | None = None) -> Reading:
    """Read the settings and the database anew.

    Args:
        config: The settings file, or None for what FILEJOBS_CONFIG names.

    Returns:
        What was read. Never raises: settings that are wrong and a database that is away are
        readings, too.
    """
    loaded = read_settings(config)
    now = time.time()
    if loaded.settings is None:
        mistakes = "; ".join(map(str, loaded.problems))
        return Reading(loaded.installation, now, trouble=f"{loaded.path} has mistakes: {mistakes}")
    settings = loaded.settings
    try:
        return _read(settings, now)
    except (psycopg.Error, DatabaseUnavailable) as error:
        said = sanitize_exception(error, known=known_secrets(settings))
        return Reading(settings.installation, now, trouble=said)


def _read(settings: Settings, now: float) -> Reading:
    database = Database.of(settings.database)
    database = replace(
        database,
        connect_timeout=min(database.connect_timeout, PATIENCE),
        statement_timeout=min(database.statement_timeout, PATIENCE),
    )
    with (
        database.connect("metrics") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        found = standings(cursor, settings.installation, expectations(settings))
        lasting = open_conditions(cursor, settings.installation)
        unsaid = undelivered(cursor, settings.installation)
        cursor.execute(_MIRROR_LOOKED_AT, {"installation": settings.installation})
        row = cursor.fetchone()
        mutes = tuple(active(cursor, settings.installation))
    looked = None if row is None else row[0].timestamp()
    counts: dict[Severity, int] = {"critical": 0, "warning": 0}
    for notice in lasting:
        counts[notice.severity] += 1
    return Reading(
        settings.installation, now, tuple(found), counts, _waiting(settings, unsaid), looked, mutes
    )


def _waiting(settings: Settings, unsaid: list[Undelivered]) -> dict[str, int]:
    named = {destination.name: 0 for destination in settings.alerts.to}
    return named | {each.destination: each.notices for each in unsaid}
