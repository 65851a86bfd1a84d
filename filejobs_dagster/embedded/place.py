"""Where an embedded PostgreSQL keeps its files.

Two limits shape this. As root the server runs under another account, which must be able to walk to
its files, and root's home is closed to it; opening that to everybody would be a poor trade, so the
files move to the system's temporary folder instead. And the path of a Unix socket ends at about a
hundred bytes, which a deep checkout exceeds.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filejobs_dagster.embedded.environment import ServerAccount

SOCKET_NAME = ".s.PGSQL.5432"
LONGEST_SOCKET_PATH = 100
"""Bytes. `sun_path` holds 108 on Linux and 104 on macOS, with the closing zero."""


class UnsafePlaceError(Exception):
    """A directory in the temporary folder has the expected name and another owner."""


@dataclass(frozen=True)
class ServerPlace:
    """The directories of one server.

    Attributes:
        root: Holds everything else.
        socket: Holds the Unix socket; the same as `root` unless that path is too long.
        temporary: Whether `root` goes when the server stops.
    """

    root: Path
    socket: Path
    temporary: bool

    @property
    def data(self) -> Path:
        """PostgreSQL's data directory."""
        return self.root / "data"

    @property
    def unfinished_data(self) -> Path:
        """Where `initdb` works until it is done, so that a killed one leaves no half database."""
        return self.root / "data.unfinished"

    @property
    def log(self) -> Path:
        """What the server writes to its standard output and standard error."""
        return self.root / "log"

    @property
    def lock(self) -> Path:
        """Locked by the process that runs the server."""
        return self.root / "lock"

    @property
    def software(self) -> Path:
        """A copy of PostgreSQL's programs, when the account cannot reach the installed ones."""
        return self.root / "software"

    def remove(self) -> None:
        """Remove what only a running server needs, and everything when the place is temporary."""
        if self.socket != self.root:
            shutil.rmtree(self.socket, ignore_errors=True)
        if self.temporary:
            shutil.rmtree(self.root, ignore_errors=True)


def prepare(directory: Path | None, account: ServerAccount) -> ServerPlace:
    """Make the directories of a server.

    Args:
        directory: Where the caller wants the files, or None for a new temporary directory. When
            `account` cannot walk to it, a directory in the temporary folder stands in for it,
            always the same one.
        account: Who the server runs as; becomes the owner of the directories.

    Raises:
        UnsafePlaceError: Somebody else owns a directory that would be used.
    """
    if directory is None:
        root = Path(tempfile.mkdtemp(prefix="filejobs-")).resolve()
    else:
        wanted = directory.absolute()
        wanted.mkdir(parents=True, exist_ok=True)
        wanted = wanted.resolve()
        root = wanted if account.can_pass_to(wanted) else _stand_in(wanted, "data")
    socket = root
    if len(os.fsencode(root / SOCKET_NAME)) > LONGEST_SOCKET_PATH:
        socket = _stand_in(root, "socket")
    for path in {root, socket}:
        _make_private(path, account)
    return ServerPlace(root=root, socket=socket, temporary=directory is None)


def _stand_in(path: Path, purpose: str) -> Path:
    digest = hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()).resolve()
    return folder / f"filejobs-{os.geteuid()}-{digest}-{purpose}"


def _make_private(path: Path, account: ServerAccount) -> None:
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or not account.owns(status):
        raise UnsafePlaceError(
            f"{path} belongs to user {status.st_uid} or is no directory, so no server is started "
            "in it. Remove it, or set TMPDIR to a folder of your own."
        )
    if account.user is not None and account.group is not None:
        os.chown(path, account.user, account.group)
    path.chmod(0o700)
