"""What is remembered outside of the project's database, for the time when that is away."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filejobs_dagster.alerts.sending import complain

if TYPE_CHECKING:
    from collections.abc import Mapping

STATE_HOME = "XDG_STATE_HOME"


class Memory(Protocol):
    """A small JSON document that outlives the process."""

    def read(self) -> dict[str, Any]:
        """What was written last; empty when nothing was, or when it cannot be read."""
        ...

    def write(self, value: Mapping[str, Any]) -> None:
        """Remember this from now on. Never raises: forgetting means saying something twice."""
        ...


class FileMemory:
    """A memory in a file of its own."""

    def __init__(self, path: Path) -> None:
        """Remember in this file, which need not exist."""
        self._path = path

    def read(self) -> dict[str, Any]:
        """What the file holds."""
        try:
            return parsed(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            complain(f"{self._path} cannot be read ({type(error).__name__}); it is begun anew")
            return {}

    def write(self, value: Mapping[str, Any]) -> None:
        """Replace the file as a whole."""
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(value), encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            complain(
                f"what was told cannot be remembered in {self._path} ({type(error).__name__}), so "
                "it is told again by the next call; name another file by --state"
            )


def default_path(installation: str) -> Path:
    """Where the command line remembers what it told while the database was away."""
    home = os.environ.get(STATE_HOME, "").strip()
    base = Path(home) if home else Path.home() / ".local" / "state"
    return base / "filejobs" / f"alert-{installation}.json"


def parsed(text: str | None) -> dict[str, Any]:
    """A JSON object, or an empty one for nothing and for anything else."""
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
