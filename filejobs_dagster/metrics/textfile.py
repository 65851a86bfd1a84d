"""A text file for the node exporter's collector of text files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

READABLE_BY_ALL = 0o644


def write_textfile(path: Path, text: str) -> None:
    """Replace the file as a whole: whoever reads it meanwhile sees the old or the new one.

    Args:
        path: Its name ends in `.prom`, or the node exporter does not see it.
        text: In the text exposition format.

    Raises:
        OSError: It cannot be written; the file is as it was.
    """
    # Without `.prom` at the end the exporter leaves the draft alone.
    handle, draft = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), READABLE_BY_ALL)
            os.fsync(file.fileno())
        Path(draft).replace(path)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
