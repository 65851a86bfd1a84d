"""Blocks in a file: written once, from one thread, and read from the beginning any number of times.

The format is Python's own marshal, the fastest there is for lists of bytes and numbers. It is not
safe against somebody else's files, and need not be: the file lies in a folder that only this user
can enter, and goes with the process that wrote it.
"""

from __future__ import annotations

import errno
import marshal
import struct
from typing import TYPE_CHECKING, Any

from filejobs_dagster.streams.room import NotEnoughRoom, free_bytes, human_size

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
