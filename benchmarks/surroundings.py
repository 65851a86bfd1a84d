"""The servers that benchmarks work on: each started when it is first needed, all ended together."""

from __future__ import annotations

import os
import tempfile
import uuid
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.canned_process import CannedS3Process
from filejobs_dagster.embedded import EmbeddedPostgres, EmbeddedS3Process, clean_environment
from filejobs_dagster.postgres.migrate import migrate

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

TEMPLATE = "migrated"
CHECKOUT = Path(__file__).parents[1]


class Surroundings:
    """Servers of a run's own; use it as a context manager."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._canned: dict[int, CannedS3Process] = {}

    def __enter__(self) -> Self:
        """Return it; nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop every server that was started."""
        self._open.close()

    @cached_property
    def folder(self) -> Path:
        """An empty folder that goes at the end."""
        return Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="benchmarks-")))

    @cached_property
    def postgres(self) -> EmbeddedPostgres:
        """PostgreSQL as in production: a commit waits for the disk."""
        server = self._open.enter_context(EmbeddedPostgres.start(durable=True))
        migrate(server.create_database(TEMPLATE))
        return server

    @cached_property
    def moto(self) -> EmbeddedS3Process:
        """The S3 server that the tests use, in a process of its own."""
        return self._open.enter_context(EmbeddedS3Process.start())

    def canned(self, milliseconds: int = 0) -> CannedS3Process:
        """The server that costs nothing per key; one for each time that answers are held back."""
        if milliseconds not in self._canned:
            server = CannedS3Process.start(milliseconds=milliseconds)
            self._canned[milliseconds] = self._open.enter_context(server)
        return self._canned[milliseconds]

    def database(self) -> str:
        """The address of a new, migrated, empty database."""
        return self.postgres.create_database(_new_name(), TEMPLATE)

    def empty_database(self) -> str:
        """The address of a new database with nothing in it, for Dagster's storage."""
        return self.postgres.create_database(_new_name())

    def drop(self, database_url: str) -> None:
        """Drop a database of `database` before the end, so that it does not fill the disk."""
        self.postgres.drop_database(database_url.rpartition("?")[0].rpartition("/")[2])

    def environment(self, **variables: str) -> dict[str, str]:
        """What a child process gets: nothing that leads to real systems, and the checkout."""
        return {**clean_environment(os.environ), "PYTHONPATH": str(CHECKOUT), **variables}


def _new_name() -> str:
    return f"benchmark_{uuid.uuid4().hex[:12]}"
