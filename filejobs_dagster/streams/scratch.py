"""A private folder for one run's files, which goes with the run, and the spools in it.

A spool is a file of blocks; what a block holds and how large it may become is said here. Where a
disk has too little room, it is refused before anything is written.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import shutil
import stat
import struct
import sys
import tempfile
import time
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from filejobs_dagster.text import Teaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

    from typing_extensions import Self

# How much room a disk has, and the refusal when it is too little.

STEP = 1024


class NotEnoughRoom(Teaching):
    """The scratch folder's disk has too little room; the message has the numbers."""


def free_bytes(folder: Path) -> int:
    """How many bytes this user may still write there."""
    return shutil.disk_usage(folder).free


def require_room(folder: Path, needs: int) -> None:
    """Refuse to begin what the disk could not hold.

    Raises:
        NotEnoughRoom: Fewer than `needs` bytes are free.
    """
    free = free_bytes(folder)
    if free < needs:
        raise NotEnoughRoom(
            f"About {human_size(needs)} are needed in {folder}, and {human_size(free)} are free. "
            "Make room there, or set `scratch_dir` to a folder on a larger disk."
        )


def human_size(count: int) -> str:
    """Bytes for people, in powers of 1024."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < STEP:
            return f"{count} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= STEP
    return f"{size:.1f} TiB"


# Blocks in a file: written once, from one thread, and read from the beginning any number of
# times.
#
# The format is Python's own marshal, the fastest there is for lists of bytes and numbers. It is
# not safe against somebody else's files, and need not be: the file lies in a folder that only
# this user can enter, and goes with the process that wrote it.

_LENGTH = struct.Struct("<Q")
BUFFER = 256 * 1024


class SpoolDamaged(Exception):
    """A spool does not hold what was written to it: nothing may be concluded from it."""


class Spool:
    """Blocks on disk, in the order in which they were appended.

    Attributes:
        count: Items appended so far, in all blocks.
        bytes_on_disk: The file's size.
    """

    def __init__(self, path: Path) -> None:
        """Make an empty spool; use `Scratch.spool`."""
        self._path = path
        self._file = path.open("xb", buffering=BUFFER)
        self._blocks = 0
        self.count = 0
        self.bytes_on_disk = 0

    def append(self, block: Any, *, items: int | None = None) -> None:
        """Write one block.

        Args:
            block: A list, or any nesting of tuples, lists, bytes, text, numbers and None.
            items: How many items it holds, when that is not its length.

        Raises:
            NotEnoughRoom: The disk is full.
            ValueError: The block holds something else, or the spool is closed.
        """
        data = marshal.dumps(block)
        try:
            self._file.write(_LENGTH.pack(len(data)))
            self._file.write(data)
        except OSError as error:
            raise self._explained(error) from error
        self._blocks += 1
        self.count += len(block) if items is None else items
        self.bytes_on_disk += _LENGTH.size + len(data)

    def blocks(self) -> Iterator[Any]:
        """Read every block that was appended before this call, from the beginning.

        Raises:
            NotEnoughRoom: What was appended could not be written.
            SpoolDamaged: The file is shorter than what was written to it, or was changed.
        """
        self._flush()
        return self._read(self._blocks)

    def finish(self) -> None:
        """Write what is left, and give the file handle back; nothing more can be appended."""
        self._flush()
        self._file.close()

    def remove(self) -> None:
        """Give the room on disk back before the scratch folder goes."""
        self._file.close()
        self._path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._file.closed:
            return
        try:
            self._file.flush()
        except OSError as error:
            raise self._explained(error) from error

    def _read(self, blocks: int) -> Iterator[Any]:
        with self._path.open("rb", buffering=BUFFER) as file:
            for number in range(blocks):
                head = file.read(_LENGTH.size)
                length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
                # A damaged length must not ask for more memory than the file could fill.
                data = file.read(min(length, self.bytes_on_disk))
                if not data or len(data) != length:
                    raise self._damaged(number, blocks)
                try:
                    block = marshal.loads(data)  # noqa: S302 (our own file, see above)
                except (EOFError, ValueError, TypeError) as error:
                    raise self._damaged(number, blocks) from error
                yield block

    def _damaged(self, number: int, blocks: int) -> SpoolDamaged:
        return SpoolDamaged(
            f"{self._path} should hold {blocks} blocks, and block {number + 1} cannot be read: "
            "something else changed the file while this run was using it. Run the job again; "
            "`scratch_dir` should be a folder that nothing else cleans up."
        )

    def _explained(self, error: OSError) -> Exception:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            return error
        folder = self._path.parent
        return NotEnoughRoom(
            f"The disk is full: {human_size(self.bytes_on_disk)} were written to {self._path}, and "
            f"{human_size(free_bytes(folder))} are free. Set `scratch_dir` to a folder with more "
            "room; what this run wrote goes when it ends."
        )


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


# What a block holds, and how large one may become.

Block: TypeAlias = list[bytes]
"""Sorted keys."""

Item = TypeVar("Item")
"""A key (`bytes`), or a tuple whose first element is one."""

first: Callable[[Any], bytes] = itemgetter(0)
"""The key of a tuple; keys that are their own need none."""

MOST_ITEMS = 10_000
BYTES_PER_BLOCK = 256 * 1024
"""About this much memory is one block; keys of a kilobyte make blocks of few items."""

SAMPLE = 32
POINTER = 8


def key_of(item: object) -> Callable[[Any], bytes] | None:
    """How items of this kind are compared: tuples by their first element, keys by themselves."""
    return first if isinstance(item, tuple) else None


def weight(items: Sequence[Any]) -> int:
    """About how many bytes of memory the items occupy: keys exactly, the rest by a sample."""
    if not items:
        return 0
    if not isinstance(items[0], tuple):
        return sum(map(len, items)) + len(items) * (sys.getsizeof(b"") + POINTER)
    sampled = items[:: max(len(items) // SAMPLE, 1)]
    besides = sum(_besides_the_key(item) for item in sampled) / len(sampled)
    return sum(map(len, map(first, items))) + int(len(items) * besides)


def cut(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Cut sorted items into blocks of bounded size."""
    if not items:
        return
    each = max(weight(items) // len(items), 1)
    at_once = min(max(BYTES_PER_BLOCK // each, 1), MOST_ITEMS)
    left = iter(items)
    while block := list(islice(left, at_once)):
        yield block


def _besides_the_key(item: tuple[Any, ...]) -> int:
    parts = sys.getsizeof(item) + sum(map(sys.getsizeof, item))
    return parts - len(first(item)) + POINTER
