"""The numbers for Prometheus: one reading, its families, an endpoint, and a text file.

A reading is one snapshot of the database, or the word that there is none. `filejobs_up` is always
there.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from filejobs_dagster.alerts.mutes import Mute, active
from filejobs_dagster.alerts.outbox import Undelivered, open_conditions, undelivered
from filejobs_dagster.door.hold import Hold, open_holds
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.prometheus import StandingsCollector
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.settings import known_secrets, read_settings
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from wsgiref.simple_server import WSGIServer

    from filejobs_dagster.alerts.digest import Severity
    from filejobs_dagster.settings import Settings


class ReadingCollector(Collector):
    """Takes a reading for each scrape, and shows nothing of an older one."""

    def __init__(self, take: Callable[[], Reading]) -> None:
        """Show what `take` returns, which must not raise."""
        self._take = take

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families of one reading."""
        reading = self._take()
        yield _gauge(
            reading,
            "filejobs_up",
            "1 when settings and database could be read. With 0 there is nothing else.",
            float(reading.standings is not None),
        )
        yield _gauge(
            reading,
            "filejobs_metrics_timestamp_seconds",
            "When these numbers were read: old in a text file that nobody writes any more.",
            reading.taken_at,
        )
        if reading.standings is None:
            return
        yield _gauge(
            reading,
            "filejobs_mirror_timestamp_seconds",
            "When the mirror of finished runs last looked: old when Dagster's daemon is gone. "
            "Absent: it never did.",
            reading.mirror_looked_at,
        )
        yield from StandingsCollector(
            reading.standings, reading.installation, reading.mutes
        ).collect()
        yield from _of_alerts(reading)


def text_of(reading: Reading) -> str:
    """One reading in the text exposition format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingCollector(lambda: reading))
    return generate_latest(registry).decode()


def _gauge(reading: Reading, name: str, meaning: str, value: float | None) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, meaning, labels=("installation",))
    if value is not None:
        gauge.add_metric([reading.installation], value)
    return gauge


def _of_alerts(reading: Reading) -> Iterator[GaugeMetricFamily]:
    opened = GaugeMetricFamily(
        "filejobs_alerts_open",
        "Conditions that somebody must be told of and that are not over.",
        labels=("installation", "severity"),
    )
    for severity, count in (reading.alerts_open or {}).items():
        opened.add_metric([reading.installation, severity], float(count))
    yield opened
    unsaid = GaugeMetricFamily(
        "filejobs_alerts_undelivered",
        "Notices in the outbox that the destination has not taken yet.",
        labels=("installation", "destination"),
    )
    for destination, count in (reading.waiting or {}).items():
        unsaid.add_metric([reading.installation, destination], float(count))
    yield unsaid
    held = GaugeMetricFamily(
        "filejobs_held_since_timestamp_seconds",
        "Since when somebody holds the job with `filejobs hold`; an empty label stands for every "
        "job. Absent: nothing is held.",
        labels=("installation", "job_name"),
    )
    for hold in reading.holds:
        held.add_metric([reading.installation, hold.job or ""], hold.since.timestamp())
    yield held


# One reading: everything from one snapshot of the database, or the word that there is none.

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
        holds: What somebody holds.
        trouble: Why nothing could be read, without secrets, or None.
    """

    installation: str
    taken_at: float
    standings: tuple[Standing, ...] | None = None
    alerts_open: Mapping[Severity, int] | None = None
    waiting: Mapping[str, int] | None = None
    mirror_looked_at: float | None = None
    mutes: tuple[Mute, ...] = ()
    holds: tuple[Hold, ...] = ()
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
        holds = tuple(open_holds(cursor, settings.installation))
    looked = None if row is None else row[0].timestamp()
    counts: dict[Severity, int] = {"critical": 0, "warning": 0}
    for notice in lasting:
        counts[notice.severity] += 1
    return Reading(
        settings.installation,
        now,
        standings=tuple(found),
        alerts_open=counts,
        waiting=_waiting(settings, unsaid),
        mirror_looked_at=looked,
        mutes=mutes,
        holds=holds,
    )


def _waiting(settings: Settings, unsaid: list[Undelivered]) -> dict[str, int]:
    named = {destination.name: 0 for destination in settings.alerts.to}
    return named | {each.destination: each.notices for each in unsaid}


# An endpoint to scrape.


def serve(take: Callable[[], Reading], host: str, port: int) -> tuple[WSGIServer, threading.Thread]:
    """Answer scrapes from a thread of its own.

    Args:
        take: Takes one reading; must not raise. Called by one scrape at a time, so that scrapers
            in a hurry do not take the database's connections.
        host: The address to listen on.
        port: The port; 0 for a free one.

    Returns:
        The server, of which `shutdown` and `server_close` end it, and its thread.

    Raises:
        OSError: Nobody can listen there.
    """
    alone = threading.Lock()

    def one_at_a_time() -> Reading:
        with alone:
            return take()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingCollector(one_at_a_time))
    return start_http_server(port, addr=host, registry=registry)


# A text file for the node exporter's collector of text files.

READABLE_BY_ALL = 0o644


def write_textfile(path: Path, text: str) -> None:
    """Replace the file as a whole: whoever reads it meanwhile sees the old or the new one.

    Args:
        path: Its name ends in `.prom`, or the node exporter does not see it.
        text: In the text exposition format.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    # Without `.prom` at the end the exporter leaves the draft alone.
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), READABLE_BY_ALL)
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
