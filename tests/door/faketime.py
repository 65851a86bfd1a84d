"""A real PostgreSQL whose clock a test sets while it runs, by libfaketime."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.embedded.postgres import EmbeddedPostgres

if TYPE_CHECKING:
    from collections.abc import Iterator

PROMISE = "FILEJOBS_PROMISED_FAKETIME"

# Read here, because the environment is cleaned before the first test starts.
PROMISED = os.environ.get(PROMISE) == "1"

PLACES = ("usr/lib/*", "usr/lib64", "usr/lib", "usr/local/lib")


def require_faketime() -> Path:
    """The library; skip where it is not installed, and fail where it was promised."""
    for place in PLACES:
        for found in Path("/").glob(f"{place}/faketime/libfaketime.so.1"):
            return found
    reason = "libfaketime is not installed. As root: apt-get install faketime"
    if PROMISED:
        pytest.fail(f"{PROMISE}=1 promises libfaketime. {reason}", pytrace=False)
    pytest.skip(reason)


class ServerWithClock:
    """A PostgreSQL, and how far its clock is from this machine's."""

    def __init__(self, server: EmbeddedPostgres, offset: Path) -> None:
        self.server = server
        self._offset = offset

    def jump(self, days: int) -> None:
        """Put the server's clock so many days away from this machine's."""
        write_offset(self._offset, days)


def write_offset(file: Path, days: int) -> None:
    # Replaced as a whole: the server reads it each time it asks what time it is.
    draft = file.with_suffix(".draft")
    draft.write_text(f"{days:+d}d\n")
    draft.chmod(0o644)
    draft.replace(file)


@contextmanager
def server_with_clock() -> Iterator[ServerWithClock]:
    """Start the server with the right time."""
    library = require_faketime()
    # For root the server runs as another user, who must be able to read the file.
    folder = Path(tempfile.mkdtemp(prefix="filejobs-clock-"))
    folder.chmod(0o755)
    offset = folder / "offset"
    write_offset(offset, 0)
    environment = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(offset),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DISABLE_SHM": "1",
    }
    try:
        with EmbeddedPostgres.start(durable=False, environment=environment) as server:
            yield ServerWithClock(server, offset)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
