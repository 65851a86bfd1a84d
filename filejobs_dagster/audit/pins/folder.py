"""Pins in a folder: for trying out. It protects nothing, and says so."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.audit.pins.store import (
    Equivocation,
    PinContent,
    PinEntry,
    PinReceipt,
    PinStoreUnusable,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

_UNFINISHED = ".unfinished-"


class FolderPins:
    """Files in a folder.

    Whoever may write the folder can change or remove every pin without a trace, so nothing is
    proven against that person.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    @property
    def description(self) -> str:
        """Where it is, and that it protects nothing."""
        return f"folder {self._folder}: NO PROTECTION, whoever may write it can change every pin"

    @property
    def protects(self) -> bool:
        """Never."""
        return False

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        """Write a file that does not exist yet; `retain_until` has no effect.

        Raises:
            Equivocation: The file exists with other bytes.
            PinStoreUnusable: The folder cannot be written.
        """
        del retain_until
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            was_there = not _create(path, content)
            if was_there and path.read_bytes() != content:
                raise Equivocation(key, str(self._folder))
        except OSError as error:
            raise self._unusable(error) from error
        return PinReceipt(key, None, None, was_there)

    def list(self, prefix: str) -> list[PinEntry]:
        """List the files whose name begins with the prefix, in order.

        Raises:
            PinStoreUnusable: The folder cannot be read.
        """
        found = []
        try:
            for folder, _, names in os.walk(self._folder, onerror=_raise):
                for name in names:
                    key = (Path(folder) / name).relative_to(self._folder).as_posix()
                    if key.startswith(prefix) and not name.startswith(_UNFINISHED):
                        found.append(PinEntry(key, None, None))
        except FileNotFoundError:
            if self._folder.exists():
                raise PinStoreUnusable(f"{self._folder} changed while it was listed") from None
            return []
        except OSError as error:
            raise self._unusable(error) from error
        return sorted(found, key=lambda entry: entry.key)

    def list_after(self, prefix: str, key: str) -> Sequence[PinEntry]:
        """As `list`, without what does not stand behind the key."""
        return [entry for entry in self.list(prefix) if entry.key > key]

    def words(self, prefix: str) -> set[str]:
        """The folders below a prefix."""
        rests = (entry.key.removeprefix(prefix).partition("/") for entry in self.list(prefix))
        return {word for word, slash, _ in rests if slash}

    def get(self, entry: PinEntry) -> PinContent:
        """Read one file.

        Raises:
            PinStoreUnusable: It cannot be read.
        """
        try:
            return PinContent(self._path(entry.key).read_bytes())
        except OSError as error:
            raise self._unusable(error) from error

    def now(self) -> datetime | None:
        """Nothing: a folder's clock is the writer's own."""
        return None

    def _path(self, key: str) -> Path:
        path = (self._folder / key).resolve()
        if self._folder not in path.parents:
            raise PinStoreUnusable(f"The pin's name {key!r} leads out of {self._folder}")
        return path

    def _unusable(self, error: OSError) -> PinStoreUnusable:
        return PinStoreUnusable(
            f"The folder of pins {self._folder} cannot be used: {error.strerror}. Check that it "
            "exists and that this process may read and write it."
        )


def _create(path: Path, content: bytes) -> bool:
    """Write a whole file or none; False when there is one already."""
    handle, name = tempfile.mkstemp(prefix=_UNFINISHED, dir=path.parent)
    unfinished = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link, unlike a rename, fails where a file exists.
            os.link(unfinished, path)
        except FileExistsError:
            return False
    finally:
        unfinished.unlink()
    return True


def _raise(error: OSError) -> None:
    raise error
