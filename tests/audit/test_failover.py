"""Pins and standbys: what a promotion loses is named, and what may be lost is not pinned."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.audit.restore import acknowledge_restore
from filejobs_dagster.postgres.connect import CommitUnconfirmed, Database
from filejobs_dagster.postgres.migrate import migrate
from tests.audit.world import World
from tests.door.test_failover import pair  # noqa: F401 (a fixture)
from tests.jobs.test_commits_that_last import administrate, require_a_standby, waiting
from tests.postgres.backends import wait_until

if TYPE_CHECKING:
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from tests.door.pairs import Pair

pytestmark = pytest.mark.thorough


def test_what_a_promotion_of_an_asynchronous_standby_loses_is_named_and_the_chain_goes_on(
    pair: Pair,  # noqa: F811
) -> None:
    database = Database(pair.primary.url())
    with database.connect("tests") as connection:
        old = World(database, connection)
        old.append(13)
        old.seal()
        pair.promote()
        # The old primary goes on for a while; nothing of this reaches the new one.
        old.append(6)
        old.seal()
    promoted = Database(pair.standby.url())
    with promoted.connect("tests") as connection:
        new = replace(old, database=promoted, connection=connection)
        new.append(6, more="of the new primary")
        found = new.verify()
        assert found.verdict == "rolled back", found
        assert "a standby took over that had not received everything" in found.explanation
        assert found.lost is not None
        assert (found.lost.matched_size, found.lost.to_seq) == (13, 19)
        row = acknowledge_restore(
            promoted, connection, "a", new.seal_policy, actor="operator", reason="failover"
        )
        assert [pin.size for pin in row.lost] == [19]
        new.seal()
        assert new.verify().clean


def cancelled(server: EmbeddedPostgres, world: World) -> None:
    """Seal while no standby answers, and end the waiting of its COMMIT."""
    raised: list[BaseException] = []

    def seal() -> None:
        try:
            world.seal()
        except CommitUnconfirmed as error:
            raised.append(error)

    thread = threading.Thread(target=seal)
    thread.start()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        pid = world.connection.info.backend_pid
        wait_until(lambda: pid in waiting(connection), "the seal's COMMIT waits")
        connection.execute("SELECT pg_cancel_backend(%s)", (pid,))
    thread.join()
    assert raised, "what was not confirmed must be said"


def test_a_seal_that_no_standby_has_taken_is_not_pinned_by_this_run_nor_by_the_next(
    separate_postgres_server: EmbeddedPostgres,
) -> None:
    server = separate_postgres_server
    url = server.create_database("sealed")
    migrate(url)
    database = Database(url)
    with database.connect("tests") as connection:
        world = World(database, connection)
        world.append(3)
        require_a_standby(server)
        cancelled(server, world)
        # CONTROL: the seal stands in this server, which may be the one that is lost.
        assert world.value("SELECT count(*) FROM audit_seal") == 1
        assert world.pins.objects == {}
        cancelled(server, world)
        assert world.pins.objects == {}
        administrate(server, "ALTER SYSTEM RESET synchronous_standby_names")
        assert world.seal().pinned_late == (1,)
        assert len(world.pins.under("/seal/")) == 2
        assert world.verify().clean
