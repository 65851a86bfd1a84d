"""All checks, in the order in which one depends on another.

The checks of alerts, of the buckets and of what cannot be searched for names are here too. Nothing
is sent, and nothing is changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, get_args

import psycopg

from filejobs_dagster.alerts import sending
from filejobs_dagster.alerts import sending as heartbeat
from filejobs_dagster.alerts.digest import Severity
from filejobs_dagster.alerts.sending import destinations_of
from filejobs_dagster.doctor.database import check_database, check_standbys
from filejobs_dagster.doctor.finding import Finding, failed, ok, skipped, warning
from filejobs_dagster.doctor.instance import (
    check_idle,
    check_instance,
    check_jobs,
    check_minutes,
    check_settings,
    check_software,
)
from filejobs_dagster.objects.client import check_access, make_client, read_versioning
from filejobs_dagster.objects.errors import BucketUnavailable
from filejobs_dagster.objects.lifecycle import LifecycleUnknown, judge_ending, read_rules
from filejobs_dagster.objects.quarantine import REQUESTS_EACH
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.references.elsewhere.columns import fingerprint
from filejobs_dagster.references.elsewhere.search import Elsewhere, unsearched_in_words
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import known_secrets
from filejobs_dagster.settings.storage import QuarantineSettings
from filejobs_dagster.text import format_duration, sanitize, sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.alerts.sending import Destination
    from filejobs_dagster.collector import Examination
    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.settings import AlertsSettings, BucketSettings, Loaded, Settings

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
    now = datetime.now(timezone.utc)
    yield from check_minutes(settings, now)
    yield from check_idle(settings, now.date())
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

    return check_alerts(settings.alerts)


def _buckets(settings: Settings, database: Database, secrets: tuple[str, ...]) -> Iterator[Finding]:
    # Half a second of imports that broken settings should not wait for.

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


# Whether anybody is told when a job needs somebody. Nothing is sent.


def check_alerts(alerts: AlertsSettings) -> Iterator[Finding]:
    """Look at who is told of what, and at the dead man's switch.

    Args:
        alerts: The section `alerts`. No finding shows a part of a URL.
    """
    destinations = destinations_of(alerts)
    if not destinations:
        yield warning(
            "alerts",
            "the settings name nobody who is told: a failed tick of job_freshness is seen by "
            "whoever looks at the web UI, and Dagster sends nobody a message about it",
            "name somebody under alerts.to and try it with `filejobs alert --test`, or let "
            "`filejobs status --check` run from outside",
        )
    else:
        yield from _destinations(destinations)
    yield from _heartbeat(alerts)


def _destinations(destinations: Sequence[Destination]) -> Iterator[Finding]:
    wrong = [(each, sending.mistake_in(each.url)) for each in destinations]
    for destination, mistake in wrong:
        if mistake is not None:
            yield failed(
                "alerts",
                f"{destination.name} can be told nothing: {mistake}",
                "set the variable that alerts.to names for it to one URL of apprise",
            )
    told = {severity for each in destinations for severity in each.severities}
    for severity in get_args(Severity):
        if severity not in told:
            yield warning(
                "alerts",
                f"nobody is told what is {severity}",
                f"write {severity} into the severities of somebody under alerts.to",
            )
    if len(told) == len(get_args(Severity)) and not any(mistake for _, mistake in wrong):
        names = ", ".join(each.name for each in destinations)
        yield ok("alerts", f"{names}; `filejobs alert --test` sends each a message")


def _heartbeat(alerts: AlertsSettings) -> Iterator[Finding]:
    if alerts.heartbeat is None:
        yield warning(
            "heartbeat",
            "there is none: when Dagster's daemon dies, its watchdog and its alerts die with it",
            "write alerts.heartbeat, or let `filejobs alert` or `filejobs status --check` run on "
            "another machine",
        )
        return
    mistake = heartbeat.mistake_in_heartbeat(alerts.heartbeat.url.reveal().strip())
    if mistake is not None:
        yield failed("heartbeat", mistake, "set the variable that alerts.heartbeat names")
    else:
        yield ok("heartbeat", "asked for after each healthy tick of job_freshness")


# The buckets: access and versioning.


def check_bucket(entry: str, settings: BucketSettings) -> Iterator[Finding]:
    """Look at one bucket.

    Args:
        entry: Its name in the settings.
        settings: What the settings say of it.
    """
    name = f"bucket {entry}"
    client = make_client(settings)
    try:
        check_access(client, settings.bucket)
    except BucketUnavailable as error:
        yield failed(
            name,
            str(error),
            "change what the message names; the other checks of this bucket follow then",
        )
        return
    yield ok(name, f"{settings.bucket} answers; owned: {', '.join(settings.owned_prefixes) or '-'}")
    if settings.owns_nothing:
        # Pins and archives are never deleted, so what a deletion would free is no matter.
        yield ok(f"{name} versioning", "nothing is ever collected here")
    else:
        yield _versioning(name, client, settings)
        yield _quarantine(name, settings)


def _quarantine(name: str, settings: BucketSettings) -> Finding:
    """What becomes of what goes. The doctor writes nothing, so it cannot try the rights."""
    check = f"{name} quarantine"
    takes = (
        f"without versions it takes s3:PutObject and s3:DeleteObject on {QUARANTINE}*, room for "
        f"the bytes as long, and {REQUESTS_EACH} requests more for each object"
    )
    if settings.delete is not None:
        return ok(check, "delete is at_once: nothing that goes is kept")
    if settings.quarantine is not None:
        brings_back = settings.quarantine.bring_back
        return ok(
            check,
            f"what sweeps take is kept for {format_duration(settings.quarantine.keep)}; {takes}"
            + ("; bring_back takes s3:PutObject on what is owned" if brings_back else ""),
        )
    return ok(
        check,
        "nothing is said: a bucket keeps what sweeps take from its first live sweep on, and one "
        f"where a sweep has deleted at once goes on so; {takes}",
    )


def _versioning(name: str, client: S3Client, settings: BucketSettings) -> Finding:
    check = f"{name} versioning"
    state = read_versioning(client, settings.bucket)
    if state == "unknown":
        return warning(
            check,
            "the server does not say whether versioning is on",
            "allow s3:GetBucketVersioning: in a versioned bucket a deletion frees no byte",
        )
    if state == "off":
        return ok(check, "versioning is off")
    purges = settings.delete is not None and settings.purge_versions
    said = f"versioning is {state}: " + (
        "storage_orphans removes all versions of an orphan, and nothing else does"
        if purges
        else "a deletion adds a marker and frees no byte"
    )
    keep = (settings.quarantine or QuarantineSettings()).keep
    try:
        ending = judge_ending(
            read_rules(client, settings.bucket),
            settings.owned_prefixes,
            timedelta(0) if settings.delete is not None else keep,
        )
    except LifecycleUnknown as error:
        return warning(
            check,
            f"{said}; whether a lifecycle rule ends what is behind it is not known: {error}",
            "allow s3:GetLifecycleConfiguration, or see for yourself that a rule expires "
            "noncurrent versions: without one they stay for ever",
        )
    if ending.good:
        return ok(check, f"{said}; {ending.said}")
    return warning(
        check,
        f"{said}; {ending.said}",
        f"add to the rules that the bucket has, and keep those: {ending.rules}",
    )


# Where else in the database a name of an object may stand, and what cannot be searched.


_LAST_SEARCH = """
SELECT to_char(finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), run_id,
       detail #>> '{search,fingerprint}'
  FROM job_run
 WHERE job = 'storage_orphans' AND detail ->> 'bucket' = %s
   AND coalesce(detail #>> '{search,columns}', '0') <> '0'
 ORDER BY id DESC
 LIMIT 1
"""


def _last_search(bucket: str, database: Database, fingerprint_now: str) -> str:
    """When a run last looked for names, and whether it looked at what there is now."""
    try:
        with closing(database.connect("doctor")) as connection:
            row = connection.execute(_LAST_SEARCH, (bucket,)).fetchone()
    except (psycopg.Error, DatabaseUnavailable):
        return ""  # said by the check of the database
    if row is None:
        return "; no run has searched yet"
    at, run_id, of_then = row
    said = f"; last searched {at} UTC (run {run_id})"
    if of_then not in {None, fingerprint_now}:
        said += (
            ", when there were other columns: the next run, as each, searches all that there are"
        )
    return said


def check_elsewhere(entry: str, settings: BucketSettings, database: Database) -> Iterator[Finding]:
    """Look at what is searched for the names of orphans; nothing of it is read."""
    name = f"named elsewhere {entry}"
    places = Elsewhere(database, settings).look()
    known = [found for found in places.values() if not isinstance(found, str)]
    last = _last_search(settings.bucket, database, fingerprint(known))
    for place, found in places.items():
        if isinstance(found, str):
            yield warning(
                name,
                f"{place} could not be looked into: {found}",
                "no live run of storage_orphans deletes an orphan before it can be searched",
            )
            continue
        said = (
            f"{found.columns:,} columns of {len(found.tables):,} tables and partitions in {place}, "
            f"{found.size:,} bytes, are searched for the names of orphans"
        )
        if found.ignored:
            said += f"; {len(found.ignored):,} columns are ignored"
        said += last
        if found.unsearched:
            yield warning(
                name,
                f"{said}. {unsearched_in_words(found.unsearched)}",
                "a live run of storage_orphans deletes nothing, and one over tables of yours takes "
                "no row, until this role may read them, or named_elsewhere.ignore of the bucket "
                "says why they need not be searched",
            )
            continue
        yield ok(name, said)
