"""The operating system's account that PostgreSQL runs under: it refuses to run as root."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

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
