"""How much room a disk has, and the refusal when it is too little."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STEP = 1024


class NotEnoughRoom(Exception):
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
