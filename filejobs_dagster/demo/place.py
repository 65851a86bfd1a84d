"""The demo's state folder: where everything is, and how it is emptied without harm."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.demo.screen import DemoFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

MARKER_TEXT = "The state of `filejobs demo`. The whole folder may be removed at any time.\n"


@dataclass(frozen=True)
class DemoPlace:
    """The files of one demo.

    Attributes:
        home: The state folder, absolute.
    """

    home: Path

    @classmethod
    def at(cls, home: Path) -> DemoPlace:
        """The place at a path, which need not exist yet."""
        return cls(home.absolute())

    @property
    def marker(self) -> Path:
        """Says that the folder is a demo's; without it nothing in the folder is removed."""
        return self.home / "README"

    @property
    def lock(self) -> Path:
        """Locked by the command that is at work in the folder."""
        return self.home / "lock"

    @property
    def settings(self) -> Path:
        """The installation's settings."""
        return self.home / "filejobs.yaml"

    @property
    def dagster_home(self) -> Path:
        """DAGSTER_HOME."""
        return self.home / "dagster_home"

    @property
    def workspace(self) -> Path:
        """What the webserver and the daemon load."""
        return self.home / "workspace.yaml"

    @property
    def live_config(self) -> Path:
        """The run config that makes a run live."""
        return self.home / "live.yaml"

    @property
    def environment(self) -> Path:
        """Exports for a shell."""
        return self.home / "environment"

    @property
    def logs(self) -> Path:
        """Everything that the processes said."""
        return self.home / "logs"

    @property
    def postgres(self) -> Path:
        """PostgreSQL's files, unless the embedded server has to keep them elsewhere."""
        return self.home / "postgres"

    @property
    def objects(self) -> Path:
        """SeaweedFS's files."""
        return self.home / "objects"

    @property
    def servers(self) -> Path:
        """Which process keeps the servers, and their addresses."""
        return self.home / "servers.json"

    @property
    def web(self) -> Path:
        """The processes of `filejobs dev`."""
        return self.home / "web.json"

    @property
    def loaded(self) -> Path:
        """There when the file feature was loaded to its end."""
        return self.home / "loaded"

    def shown(self) -> str:
        """The folder as a person would type it."""
        return shown(self.home)

    def must_be_ours(self) -> None:
        """Make sure that the folder may be emptied.

        Raises:
            DemoFailed: It holds something and is not a demo's.
        """
        if not self.home.exists() or self.marker.is_file():
            return
        if not self.home.is_dir() or any(self.home.iterdir()):
            raise DemoFailed(
                f"to keep the demo's state in {self.shown()}",
                "it holds something else, and a demo removes what its folder holds",
                "name a folder that does not exist yet: --home DIRECTORY",
            )

    def make_empty(self) -> None:
        """Remove the old state and make the folder; the lock, if it is held, stays held.

        Raises:
            DemoFailed: See `must_be_ours`.
        """
        self.must_be_ours()
        self.home.mkdir(parents=True, exist_ok=True)
        self.home.chmod(0o755)  # PostgreSQL may run under another account and must walk through
        for entry in self.home.iterdir():
            if entry == self.lock:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        self.marker.write_text(MARKER_TEXT)
        self.logs.mkdir()
        self.dagster_home.mkdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other commands out of the folder.

        Raises:
            DemoFailed: Another command is at work in it, or it is not a demo's.
        """
        self.must_be_ours()
        self.home.mkdir(parents=True, exist_ok=True)
        if not self.marker.exists():
            self.marker.write_text(MARKER_TEXT)
        with self.lock.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.seek(0)
                raise DemoFailed(
                    f"to work in {self.shown()}",
                    f"process {file.read().strip() or 'unknown'} is setting up a demo there",
                    "wait for it, stop it, or name another folder: --home DIRECTORY",
                ) from None
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
            yield


def shown(path: Path) -> str:
    """A path as a person would type it: relative to the current directory where that is shorter."""
    try:
        relative = path.relative_to(Path.cwd())
    except (ValueError, FileNotFoundError):
        return str(path)
    return str(relative)
