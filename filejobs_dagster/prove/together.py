"""Doing a thing in several threads at the same moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

SECONDS_TO_MEET = 30.0


def together(count: int, work: Callable[[int, threading.Barrier], T]) -> list[T]:
    """Run `work` in `count` threads that share a barrier, and return what each gave.

    Raises:
        BaseException: The first failure of a thread that was not caused by another's.
    """
    barrier = threading.Barrier(count, timeout=SECONDS_TO_MEET)

    def guarded(number: int) -> T:
        try:
            return work(number, barrier)
        except BaseException:
            # The others must not wait for a thread that will never come.
            barrier.abort()
            raise

    with ThreadPoolExecutor(count, thread_name_prefix="filejobs-prove") as pool:
        futures = [pool.submit(guarded, number) for number in range(count)]
        wait(futures)
    errors = [error for future in futures if (error := future.exception()) is not None]
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return [future.result() for future in futures]
