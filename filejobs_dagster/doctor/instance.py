"""What is installed and set: Python, packages, the settings and their jobs, Dagster's instance."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from packaging.requirements import Requirement

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.orchestration.draining import pause_at
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable, one
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings.cron import busiest_minute

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from filejobs_dagster.settings import BucketSettings, Loaded, Settings, SourceSettings

CHECK = "dagster"
HOME_VARIABLE = "DAGSTER_HOME"


def check_instance(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Look at DAGSTER_HOME, its dagster.yaml, the variables that it names, and the database."""
    said = environ.get(HOME_VARIABLE, "").strip()
    if not said:
        yield warning(
            CHECK,
            f"{HOME_VARIABLE} is not set",
            "set it for the daemon, the webserver and the command line to the absolute path of the "
            "directory with dagster.yaml; without it Dagster forgets its runs when it ends",
        )
        return
    home = Path(said)
    if not home.is_absolute() or not home.is_dir():
        yield failed(
            CHECK,
            f"{HOME_VARIABLE} is {said!r}, which is not the absolute path of a directory",
            "make the directory, and name it by its absolute path",
        )
        return
    path = home / "dagster.yaml"
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        yield failed(CHECK, f"there is no {path}", "put the project's dagster.yaml there")
        return
    except (OSError, ValueError, yaml.YAMLError) as error:
        yield failed(
            CHECK, f"{path} cannot be read ({type(error).__name__})", "make it readable YAML"
        )
        return
    yield from _storage(path, document if isinstance(document, dict) else {}, environ)


def _storage(
    path: Path, document: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[Finding]:
    unset = sorted(name for name in _variables(document) if not environ.get(name, "").strip())
    if unset:
        yield failed(
            CHECK,
            f"{path} names variables that are not set: {', '.join(unset)}",
            "set them for the daemon, the webserver and the command line",
        )
        return
    if not _in_postgresql(document.get("storage")):
        yield warning(
            CHECK,
            f"{path} does not keep Dagster's storage in PostgreSQL",
            "take the section storage from the project's dagster.yaml; files on one machine are "
            "neither shared nor backed up",
        )
        return
    url = _address(document["storage"], environ)
    found = _reached(path, url)
    yield found
    pause = None if url is None or found.verdict != "ok" else pause_at(url)
    if pause is not None:
        yield warning(CHECK, f"no run begins: {pause}", "filejobs drain --resume lets it go on")


_CAN_WRITE = """
SELECT current_user, pg_is_in_recovery(), to_regclass('runs') IS NOT NULL,
       has_schema_privilege(current_schema(), 'CREATE'), current_schema(), current_database(),
       coalesce(has_table_privilege(to_regclass('runs'), 'INSERT'), false)
"""


def _reached(path: Path, url: str | None) -> Finding:
    """Connect as Dagster will, and look whether it can keep its runs there."""
    if url is None:
        return ok(CHECK, f"{path}: storage in PostgreSQL, at an address that was not tried")
    database = Database(url)
    try:
        with (
            database.connect("doctor") as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            cursor.execute("SET LOCAL search_path TO DEFAULT")
            cursor.execute(_CAN_WRITE)
            role, standby, there, may_create, schema, name, may_write = one(cursor)
    except DatabaseUnavailable as error:
        return failed(
            CHECK,
            f"Dagster's database: {error}",
            "make it (CREATE DATABASE dagster OWNER dagster, as a superuser), or mend the address",
        )
    at = f"{path}: storage in PostgreSQL at {database.address()}"
    if standby:
        return failed(CHECK, f"{at}, which is a standby", "name the primary")
    if not there and not may_create:
        return failed(
            CHECK,
            f"{at}, where Dagster has made no tables yet and {role} may make none",
            f'as the owner of the database {name}: GRANT CREATE ON SCHEMA "{schema or "public"}" '
            f'TO "{role}";',
        )
    if there and not may_write:
        return failed(
            CHECK,
            f"{at}, whose tables {role} may not write",
            "give Dagster a role that owns its tables: it migrates them itself",
        )
    state = "its tables are there" if there else "Dagster makes its tables at its first start"
    return ok(CHECK, f"{at}; {state}")


def _address(storage: Any, environ: Mapping[str, str]) -> str | None:
    """The address in the section, or None where it is spelled in a way that only Dagster reads."""
    own = storage.get("postgres")
    config = own if isinstance(own, Mapping) else storage.get("custom", {}).get("config", {})
    url = config.get("postgres_url") if isinstance(config, Mapping) else None
    if isinstance(url, Mapping):
        url = environ.get(str(url.get("env")), "").strip()
    return url if isinstance(url, str) and url else None


def _in_postgresql(storage: Any) -> bool:
    """Whether the section names Dagster's own class for PostgreSQL, or this project's around it."""
    if not isinstance(storage, Mapping):
        return False
    custom = storage.get("custom")
    ours = isinstance(custom, Mapping) and custom.get("class") == "InstanceStorage"
    return "postgres" in storage or ours


def _variables(document: Any) -> Iterator[str]:
    """Every NAME of an `env: NAME` in the document."""
    if isinstance(document, Mapping):
        for key, value in document.items():
            if key == "env" and isinstance(value, str):
                yield value
            else:
                yield from _variables(value)
    elif isinstance(document, list):
        for value in document:
            yield from _variables(value)


# Python and the packages.

OLDEST_PYTHON = (3, 10)
DISTRIBUTION = "filejobs_dagster"

_INSTALL = "install the versions of constraints.txt: pip install -c constraints.txt ."
_PAIRED = ("dagster-postgres", "dagster-aws")
_LIBRARY_OFFSET = 16
"""dagster 1.N.M is released together with libraries 0.(N+16).M."""


def check_software() -> Iterator[Finding]:
    """Look at the version of Python and at every package that the project requires."""
    yield _python(sys.version_info[:3])
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        yield warning(
            "packages", f"{DISTRIBUTION} is not installed as a package", f"{_INSTALL} (or -e .)"
        )
        return
    problems = [*_unmet(required), *_unpaired()]
    if problems:
        yield failed("packages", "; ".join(problems), _INSTALL)
    else:
        shown = ("dagster", *_PAIRED, "sqlalchemy", "psycopg")
        versions = ", ".join(f"{name} {installed_version(name)}" for name in shown)
        yield ok("packages", versions)


def installed_version(name: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def library_version_for(dagster: str) -> str | None:
    """The version of Dagster's libraries that belongs to a version of dagster itself."""
    parts = dagster.split(".")
    if len(parts) < 3 or parts[0] != "1" or not parts[1].isdigit():  # noqa: PLR2004
        return None
    return ".".join(["0", str(int(parts[1]) + _LIBRARY_OFFSET), *parts[2:]])


def _python(found: tuple[int, ...]) -> Finding:
    shown = ".".join(map(str, found))
    if found[:2] < OLDEST_PYTHON:
        return failed("python", f"Python {shown}", "use Python 3.10 or newer")
    return ok("python", f"Python {shown}")


def _unmet(required: list[str]) -> Iterator[str]:
    for text in required:
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        version = installed_version(requirement.name)
        if version is None:
            yield f"{requirement.name} is not installed"
        elif not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name} is {version} where {requirement.specifier} belongs"


def _unpaired() -> Iterator[str]:
    dagster = installed_version("dagster")
    expected = None if dagster is None else library_version_for(dagster)
    for name in _PAIRED:
        version = installed_version(name)
        if expected is not None and version is not None and version != expected:
            yield f"{name} {version} does not belong to dagster {dagster} ({expected} does)"


# The settings file and the jobs in it.


def check_settings(loaded: Loaded) -> Iterator[Finding]:
    """One finding for a right file, or one for each problem."""
    if loaded.settings is not None:
        yield ok("settings", f"{loaded.path}: installation {loaded.settings.installation}")
    for problem in loaded.problems:
        line = f" (line {problem.line})" if problem.line is not None else ""
        yield failed("settings", f"{problem.path}{line}: {problem.found}", problem.expected)


def check_idle(settings: Settings, today: date) -> Iterator[Finding]:
    """Look for lines that have no effect as things stand; what can never have one is a mistake.

    Args:
        settings: All of them.
        today: By which the first day of the Partitions tab is judged.
    """
    for path, why in (*_idle_in_buckets(settings), *_idle_beside(settings, today)):
        yield warning("settings", f"{path} does nothing: {why}", "leave it out, or do what it says")


def _idle_in_buckets(settings: Settings) -> Iterator[tuple[str, str]]:
    jobs = [name for name in settings.jobs if BY_NAME[name].deletes_bytes]
    swept = {settings.bucket_of(name)[0] for name in jobs}
    places = (settings.audit.pins, settings.audit.archive)
    kept = {place.bucket for place in places if place is not None}
    for entry, bucket in settings.buckets.items():
        path = f"buckets.{entry}"
        if entry not in swept | kept:
            yield path, "no job deletes from it, and the audit keeps nothing there"
            continue
        yield from _unread(path, entry, bucket, settings)
        for first, other in _twins(bucket.sources):
            yield f"{path}.sources[{other}]", f"sources[{first}] asks the same in the same place"


def _unread(
    path: str, entry: str, bucket: BucketSettings, settings: Settings
) -> Iterator[tuple[str, str]]:
    """What a bucket says to a job that does not work on it."""
    said = {line: f"{path}.{line}" for line in ("shape", "rewrites") if getattr(bucket, line)}
    for index, source in enumerate(bucket.sources):
        if source.read_from is not None:
            said.setdefault("read_from", f"{path}.sources[{index}].read_from")
    for line, where in said.items():
        reader = _reader(line)
        if reader not in settings.jobs or settings.bucket_of(reader)[0] != entry:
            yield where, f"only {reader} reads it, which does not work on this bucket"


def _reader(line: str) -> str:
    """The one job that reads a line of the settings outside of its own part."""
    return next(job.name for job in JOBS if line in job.reads)


def _idle_beside(settings: Settings, today: date) -> Iterator[tuple[str, str]]:
    said = {"scratch_dir": settings.scratch_dir, "audit.archive": settings.audit.archive}
    for line, value in said.items():
        if value is not None and _reader(line) not in settings.jobs:
            yield line, f"only {_reader(line)} reads it, which is none of the jobs"
    if settings.alerts.repeat_after is not None and not settings.alerts.to:
        yield "alerts.repeat_after", "alerts.to names nobody who is told"
    if settings.backfill_from > today:
        yield "backfill_from", "it is in the future, so the Partitions tab shows no day"


def _twins(sources: Sequence[SourceSettings]) -> Iterator[tuple[int, int]]:
    """Sources that say nothing which an earlier one does not say."""
    asked = [
        (each.sql.split(), each.database, each.transforms, each.recheck_sql, each.read_from)
        for each in sources
    ]
    for index, question in enumerate(asked):
        if question in asked[:index]:
            yield asked.index(question), index


AT_ONCE = 4
"""Runs at once in the project's dagster.yaml; each start takes seconds of a processor."""


def check_minutes(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Look for a minute on which more schedules begin than runs may work at once."""
    schedules = {
        name: (job.schedule, job.time_zone)
        for name, job in settings.jobs.items()
        if job.schedule is not None
    }
    busiest = busiest_minute(schedules, now)
    if busiest is not None and len(busiest[1]) > AT_ONCE:
        minute, names = busiest
        yield warning(
            "jobs",
            f"{len(names)} schedules begin at {minute:%a %H:%M} UTC ({', '.join(names)}), and "
            f"{AT_ONCE} runs work at once: the last one begins minutes late",
            "give each a minute of its own, such as 3,18,33,48 * * * * instead of */15 * * * *",
        )


def check_jobs(settings: Settings) -> Iterator[Finding]:
    """Look at jobs whose stopping nobody would notice, and at what they are not allowed."""
    if not settings.jobs:
        yield warning("jobs", "the settings name no job", "write at least one under jobs")
        return
    unwatched = [name for name, job in settings.jobs.items() if job.stale_after is None]
    if unwatched:
        yield warning(
            "jobs",
            f"without stale_after: {', '.join(unwatched)}",
            "write stale_after, so that somebody is told when the job stops",
        )
    else:
        yield ok("jobs", ", ".join(f"{name} ({job.mode})" for name, job in settings.jobs.items()))
    if not settings.allow_live and any(job.mode == "live" for job in settings.jobs.values()):
        yield warning(
            "jobs",
            "allow_live is off, so jobs with mode: live run dry, and their standing says so",
            "set allow_live: true (and FILEJOBS_ALLOW_LIVE=1 or unset) when they may delete",
        )
