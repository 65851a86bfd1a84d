"""A private folder for one run's files, which goes with the run, however that ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.streams.room import NotEnoughRoom, require_room
from filejobs_dagster.streams.spool import Spool

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["NotEnoughRoom", "Scratch"]

PREFIX = "filejobs-scratch-"
LOCK = "lock"
UNLOCKED = "lock.new"
SECONDS_TO_LOCK = 3600.0
"""A folder that has no lock for so long belongs to a process that died between two calls."""


class Scratch:
    """A folder of mode 0700 below `parent`; use it as a context manager.

    It is removed at the end. What a killed process left behind is removed when the next one of the
    same user begins in the same parent: a lock on a file inside, which the system lets go when its
    process ends, tells the dead from the living.
    """

    def __init__(self, parent: Path | None, *, needs: int | None = None) -> None:
        """Prepare; nothing is written yet.

        Args:
            parent: An existing folder, None for the system's temporary folder.
            needs: Bytes that must be free, None to begin whatever there is.
        """
        self._parent = Path(tempfile.gettempdir()) if parent is None else parent
        self._needs = needs
        self._folder: Path | None = None
        self._lock = -1
        self._names = 0

    @property
    def folder(self) -> Path:
        """Where the files are.

        Raises:
            RuntimeError: Outside of the `with` block.
        """
        if self._folder is None:
            raise RuntimeError("A Scratch has its folder only inside its `with` block.")
        return self._folder

    def spool(self, name: str) -> Spool:
        """Make an empty spool. The name is for people; the same one may be used again."""
        self._names += 1
        return Spool(self.folder / f"{self._names:06d}-{_file_name(name)}")

    def require(self, needs: int) -> None:
        """Refuse to go on where the disk has less room than is still needed.

        Raises:
            NotEnoughRoom: Fewer than `needs` bytes are free; both numbers are in the message.
        """
        require_room(self.folder, needs)

    def __enter__(self) -> Self:
        """Make the folder.

        Raises:
            NotEnoughRoom: The disk has less room than is needed, or there is no such folder.
        """
        if not self._parent.is_dir():
            raise NotEnoughRoom(
                f"There is no folder {self._parent} to keep temporary files in. Make it, owned by "
                "the user that runs the jobs, or change `scratch_dir`."
            )
        remove_leftovers(self._parent)
        if self._needs is not None:
            require_room(self._parent, self._needs)
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=self._parent))
        self._lock = _lock_inside(self._folder)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Remove the folder with everything in it."""
        if self._folder is not None:
            shutil.rmtree(self._folder)
            os.close(self._lock)
        self._folder = None


def remove_leftovers(parent: Path) -> list[Path]:
    """Remove the folders of processes that are dead; those of the living and of others stay."""
    removed = []
    for folder in sorted(parent.glob(f"{PREFIX}*")):
        if _is_ours(folder) and _is_dead(folder):
            # Two processes that begin together may both be at it.
            shutil.rmtree(folder, ignore_errors=True)
            removed.append(folder)
    return removed


def _lock_inside(folder: Path) -> int:
    """Lock a file before it gets the name by which others find it: there is no moment between."""
    unlocked = folder / UNLOCKED
    descriptor = os.open(unlocked, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unlocked.rename(folder / LOCK)
    return descriptor


def _is_ours(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_dead(folder: Path) -> bool:
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR)
    except FileNotFoundError:
        return _age(folder) > SECONDS_TO_LOCK
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.lstat().st_mtime
    except FileNotFoundError:
        return 0.0


def _file_name(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name)[:60]
