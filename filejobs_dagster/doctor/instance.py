"""Dagster's instance: where it keeps runs, events, schedules and sensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.rows import one

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
    yield _reached(path, _address(document["storage"], environ))


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
