"""A primary, a standby that streams from it, and the moment in a drain at which it is promoted."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.embedded.postgres import EmbeddedPostgres
from filejobs_dagster.references.replica import catch_up
from filejobs_dagster.run_context import RunContext
from tests.references.test_replica import start_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest


@dataclass
class Pair:
    """A primary, its standby, and the address that everybody is told, as a virtual IP would be."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres
    address: Path

    @property
    def url(self) -> str:
        return self.primary.url().replace(str(self.primary._place.socket), str(self.address))

    def move_address(self) -> None:
        self.address.unlink()
        self.address.symlink_to(self.standby._place.socket)

    def promote(self) -> None:
        """Once the standby has everything: a switch that loses no commit."""
        with (
            psycopg.connect(self.primary.url(), autocommit=True) as primary,
            psycopg.connect(self.standby.url(), autocommit=True) as standby,
        ):
            catch_up(primary, standby, "nothing")
            standby.execute("SELECT pg_promote()")


@contextmanager
def started_pair(prepare: Callable[[str], object]) -> Iterator[Pair]:
    """Both servers.

    Args:
        prepare: Called with the primary's address before the standby is made.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        primary = stack.enter_context(EmbeddedPostgres.start(durable=False))
        prepare(primary.url())
        standby = stack.enter_context(start_replica(primary))
        address = folder / "current"
        address.symlink_to(primary._place.socket)
        yield Pair(primary, standby, address)


def after_first_batch(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do it right before the proof that comes first once some objects are gone."""
    proven = RunContext.prove_alive
    done: list[int] = []

    def prove_alive(self: RunContext) -> None:
        with self.database.transaction(self.connection, read_only=True) as cursor:
            _, acted, _ = self.progress.committed(cursor)
        if acted and not done:
            done.append(acted)
            then()
        proven(self)

    monkeypatch.setattr(RunContext, "prove_alive", prove_alive)
