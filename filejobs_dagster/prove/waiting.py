"""Seeing that one backend has to wait for another."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from filejobs_dagster.prove.evidence import NotShown

if TYPE_CHECKING:
    from concurrent.futures import Future

    from filejobs_dagster.prove.stage import Scene

SECONDS_TO_BLOCK = 20.0

_WAITS = "SELECT cardinality(pg_blocking_pids(%(pid)s)) > 0"


def has_to_wait(scene: Scene, process: Future[int], working: Future[Any]) -> bool:
    """Look until a backend waits for another one, or has done its work without waiting.

    Args:
        scene: Where it works.
        process: Its process id, as soon as it is known.
        working: Its work.

    Raises:
        NotShown: It did neither for long.
    """
    deadline = time.monotonic() + SECONDS_TO_BLOCK
    while not working.done():
        if time.monotonic() > deadline:
            raise NotShown("the second backend neither waited nor finished")
        if process.done() and scene.value(_WAITS, {"pid": process.result()}):
            return True
        time.sleep(0.01)
    return False
