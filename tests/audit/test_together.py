"""Appenders, a sealer, a trimmer and verifiers at once: no false alarm and no fork.

A few seconds in the quick tests, a longer look in the thorough ones.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.session import Refused
from filejobs_dagster.audit.verify import Full, Incremental, Rolling

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.audit.world import World

pytestmark = pytest.mark.thorough

PAUSE = 0.01
"""Between two events of one appender, so that a small machine has time for the others."""

NOTHING_TO_DO = {"CHAIN_BUSY", "NO_COVERING_SEAL"}


class Together:
    """Workers that go on until the time is over or one of them has failed."""

    def __init__(self, world: World, seconds: float) -> None:
        self.world = world
        self.stop = time.monotonic() + seconds
        self.counts: Counter[str] = Counter()
        self.failures: list[object] = []

    def go_on(self, name: str, work: Callable[[World], object]) -> None:
        with self.world.database.connect(name) as connection:
            world = replace(self.world, connection=connection)
            while time.monotonic() < self.stop and not self.failures:
                self.once(name, work, world)

    def once(self, name: str, work: Callable[[World], object], world: World) -> None:
        try:
            work(world)
        except Refused as refused:
            if refused.code not in NOTHING_TO_DO:
                self.failures.append(refused)
        except Exception as error:  # noqa: BLE001 (told by the main thread)
            self.failures.append(error)
        else:
            self.counts[name] += 1

    def append(self, world: World) -> None:
        with psycopg.connect(world.database.url) as connection:
            for number in range(20):
                with connection.cursor() as cursor:
                    append(cursor, [{"n": number}] * (number % 3 + 1), chain="a")
                if number % 7 == 6:
                    connection.rollback()
                connection.commit()
                time.sleep(PAUSE)

    def verify(self, world: World) -> None:
        for mode in (Full(), Incremental(), Rolling(3, 1)):
            result = world.verify(mode=mode)
            if not result.clean:
                self.failures.append(result.findings)


@pytest.mark.parametrize("seconds", [3, pytest.param(25, marks=pytest.mark.thorough)])
def test_everybody_at_once_raises_no_alarm(empty_world: World, seconds: float) -> None:
    empty_world.grace = timedelta(minutes=15)
    empty_world.append(10)
    everybody = Together(empty_world, seconds)
    works: dict[str, Callable[[World], object]] = {
        "appender 1": everybody.append,
        "appender 2": everybody.append,
        "appender 3": everybody.append,
        "sealer": lambda world: world.seal(),
        "trimmer": lambda world: world.trim(retention=timedelta(milliseconds=300), batch=25),
        "verifier": everybody.verify,
    }
    threads = [threading.Thread(target=everybody.go_on, args=item) for item in works.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert everybody.failures == []
    assert set(everybody.counts) == set(works), "everybody got something done"
    forks = empty_world.connection.execute(
        "SELECT prev_hash FROM audit_event GROUP BY prev_hash HAVING count(*) > 1"
    ).fetchall()
    assert forks == []
    empty_world.seal()
    result = empty_world.verify()
    assert result.clean
    assert result.trimmed_to > 0
    assert result.unprotected == 0
