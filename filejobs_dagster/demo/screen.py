"""What the demo's commands share with their terminal: the console, and how they are told to end."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType

    Handler = Callable[[int, FrameType | None], None]

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Told to end by another process, or by the terminal that was closed."""

COLUMNS_WITHOUT_TERMINAL = 150
"""Wide enough for the tables in a log of a continuous integration."""


def screen() -> Console:
    """Standard output, line by line also where it is a file or a pipe."""
    wide = None if sys.stdout.isatty() or "COLUMNS" in os.environ else COLUMNS_WITHOUT_TERMINAL
    return Console(highlight=False, width=wide)


@contextmanager
def handling(signals: Sequence[signal.Signals], handler: Handler) -> Iterator[None]:
    """Handle signals for a while. SIGHUP stays ignored where it is: that is what nohup asks for."""
    before = {}
    for one in signals:
        if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN:
            before[one] = signal.signal(one, handler)
    try:
        yield
    finally:
        for one, earlier in before.items():
            signal.signal(one, earlier)


@contextmanager
def ending_like_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the command by an exception, after which servers are stopped."""

    def interrupt(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 (signal()'s call)
        raise KeyboardInterrupt

    with handling(ENDING, interrupt):
        yield
