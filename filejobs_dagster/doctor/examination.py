"""All checks, in the order in which one depends on another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.doctor.configuration import check_idle, check_jobs, check_settings
from filejobs_dagster.doctor.database import check_database, check_standbys
from filejobs_dagster.doctor.finding import Finding, failed, skipped
from filejobs_dagster.doctor.instance import check_instance
from filejobs_dagster.doctor.software import check_software
from filejobs_dagster.ledger.sanitize import sanitize, sanitize_exception
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import known_secrets

if TYPE_CHECKING:
    from filejobs_dagster.collector import Examination
    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.settings import BucketSettings, Loaded, Settings

Checks = Callable[[], Iterable[Finding]]

_NEED_DATABASE = ("migrations", "privileges", "primary", "standbys", "pooler")


def examine(
    loaded: Loaded, environ: Mapping[str, str], *, probe: bool = False
) -> Iterator[Finding]:
    """Make every check, and yield each finding as soon as it is there.

    A check that breaks is a finding of its own and does not hide the others. Nothing is changed:
    transactions are read-only, and the bucket is only asked; except by the probe.

    Args:
        loaded: The settings, or their problems.
        environ: Where DAGSTER_HOME and the variables of dagster.yaml are.
        probe: Try with a tiny object of its own what each adopted bucket makes of a deletion with
            a condition, and keep the result in the database.
    """
    secrets = () if loaded.settings is None else known_secrets(loaded.settings)
    yield from check_software()
    yield from check_settings(loaded)
    if loaded.settings is not None:
        yield from _installation(loaded.settings, secrets, probe=probe)
    else:
        for name in ("jobs", "database", *_NEED_DATABASE, "buckets", "door"):
            yield skipped(name, "the settings have mistakes")
    yield from _each("dagster", lambda: check_instance(environ), secrets)


def _installation(
    settings: Settings, secrets: tuple[str, ...], *, probe: bool
) -> Iterator[Finding]:
    yield from check_jobs(settings)
    yield from check_idle(settings, datetime.now(timezone.utc).date())
    yield from _each("alerts", lambda: _alerts(settings), secrets)
    database = Database.of(settings.database)
    with _connected(database, secrets) as (connection, refusal):
        if connection is None:
            yield failed("database", refusal, "start with this: most other checks need it")
            for name in _NEED_DATABASE:
                yield skipped(name, "the database does not answer")
        else:
            reached = connection
            yield from _each(
                "database",
                lambda: check_database(database, reached, settings),
                secrets,
            )
        yield from _buckets(settings, database, secrets)
        yield from _standbys(settings, database, secrets)
        yield from _door(settings, database, connection, secrets, probe=probe)
        yield from _jobs(settings, database, connection, secrets)
        yield from _audit(settings, secrets)


def _alerts(settings: Settings) -> Iterable[Finding]:
    # A third of a second of imports that broken settings should not wait for.
    from filejobs_dagster.doctor.alerts import check_alerts  # noqa: PLC0415

    return check_alerts(settings.alerts)


def _buckets(settings: Settings, database: Database, secrets: tuple[str, ...]) -> Iterator[Finding]:
    # Half a second of imports that broken settings should not wait for.
    from filejobs_dagster.doctor.buckets import check_bucket  # noqa: PLC0415
    from filejobs_dagster.doctor.elsewhere import check_elsewhere  # noqa: PLC0415

    for entry, bucket in settings.buckets.items():

        def access(entry: str = entry, bucket: BucketSettings = bucket) -> Iterable[Finding]:
            return check_bucket(entry, bucket)

        yield from _each(f"bucket {entry}", access, secrets)
        if bucket.owns_nothing:
            continue

        def elsewhere(entry: str = entry, bucket: BucketSettings = bucket) -> Iterable[Finding]:
            return check_elsewhere(entry, bucket, database)

        yield from _each(f"named elsewhere {entry}", elsewhere, secrets)


def _standbys(
    settings: Settings, database: Database, secrets: tuple[str, ...]
) -> Iterator[Finding]:
    """What a promotion can lose of the operator's own databases."""
    from filejobs_dagster.door.databases import operators  # noqa: PLC0415 (boto3)

    for name, other in operators(settings, settings.buckets, database).items():
        check = f"standbys {name}"

        def look(check: str = check, other: Database = other) -> Iterable[Finding]:
            with (
                other.connect("doctor") as reached,
                other.transaction(reached, read_only=True) as cursor,
            ):
                yield check_standbys(check, cursor)

        yield from _each(check, look, secrets)


def _door(
    settings: Settings,
    database: Database,
    connection: Connection | None,
    secrets: tuple[str, ...],
    *,
    probe: bool,
) -> Iterator[Finding]:
    if connection is None:
        yield skipped("door", "the database does not answer")
        return
    reached = connection
    from filejobs_dagster.doctor.door import check_door  # noqa: PLC0415 (boto3)

    yield from _each("door", lambda: check_door(settings, database, reached, probe=probe), secrets)


def _jobs(
    settings: Settings,
    database: Database,
    connection: Connection | None,
    secrets: tuple[str, ...],
) -> Iterator[Finding]:
    """What each job of the settings declares to be looked at."""
    for name, configured in settings.jobs.items():
        declared = BY_NAME[name].examine
        examination = None if declared is None else declared(settings, configured)
        if examination is None:
            continue
        if connection is None and examination.needs_database:
            yield skipped(examination.name, "the database does not answer")
            continue

        def look(one: Examination = examination) -> Iterable[Finding]:
            return one.look(database, connection)

        yield from _each(examination.name, look, secrets)


def _audit(settings: Settings, secrets: tuple[str, ...]) -> Iterator[Finding]:
    from filejobs_dagster.doctor.audit import check_audit  # noqa: PLC0415 (cryptography, boto3)

    yield from _each("audit", lambda: check_audit(settings), secrets)


def _each(
    name: str, checks: Checks, secrets: tuple[str, ...], *, advice: str = ""
) -> Iterator[Finding]:
    """Make the checks; one that raises becomes a finding."""
    try:
        for finding in checks():
            yield replace(
                finding,
                found=_not_here(sanitize(finding.found, known=secrets)),
                advice=_not_here(finding.advice),
            )
    except Exception as error:  # noqa: BLE001 (one broken check must not hide the others)
        yield failed(
            name,
            _not_here(sanitize_exception(error, known=secrets)),
            advice or "the check itself could not be finished; the message says why",
        )


_ITSELF = re.compile(r"\s*[^.;]*`filejobs doctor`[^.;]*[.;]?")


def _not_here(text: str) -> str:
    """The same without the clauses of other messages that send their reader to the doctor."""
    return _ITSELF.sub("", text).strip() or text


@contextmanager
def _connected(
    database: Database, secrets: tuple[str, ...]
) -> Iterator[tuple[Connection | None, str]]:
    try:
        connection = database.connect("doctor")
    except DatabaseUnavailable as error:
        yield None, sanitize(str(error), known=secrets)
        return
    with connection:
        yield connection, ""
