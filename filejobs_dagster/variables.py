"""What an environment variable holds, or the file that it names: secrets of Docker and systemd."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE = "_FILE"
"""With this at the end, a variable's name holds the path of a file with the value."""


class VariableUnusable(Exception):
    """A variable and its file contradict each other, or the file cannot be read.

    Attributes:
        found: What was found, without any value.
        right: What would be right.
    """

    def __init__(self, found: str, right: str) -> None:
        self.found = found
        self.right = right
        super().__init__(f"{found}: {right}")


def variable(name: str, environ: Mapping[str, str]) -> str | None:
    """The value of NAME, else the text of the file that NAME_FILE names, else None.

    Args:
        name: Of the variable, without `_FILE`.
        environ: Where both stand.

    Raises:
        VariableUnusable: Both are set, or the file cannot be read.
    """
    own, path = environ.get(name), environ.get(f"{name}{FILE}", "").strip()
    if not path:
        return own
    if own and own.strip():
        raise VariableUnusable(
            f"{name} and {name}{FILE} are both set", "set one of them; two could contradict"
        )
    try:
        # An editor ends the line; no secret of ours ends with one.
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise VariableUnusable(
            f"{name}{FILE} names {path}, which cannot be read ({why})",
            "name a file that holds the value alone and that this user may read",
        ) from None
