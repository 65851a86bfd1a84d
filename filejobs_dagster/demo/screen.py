"""What the demo shares with its terminal: console, progress, how it fails, how it is ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding

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


# How the demo says that something went wrong.


class DemoFailed(Exception):
    """A step could not be done.

    Attributes:
        tried: What was tried.
        found: What was found instead.
        advice: What to do next.
    """

    def __init__(self, tried: str, found: str, advice: str) -> None:
        super().__init__(f"Tried: {tried}\nFound: {found}\nDo:    {advice}")
        self.tried = tried
        self.found = found
        self.advice = advice


# Progress: one heading per step, what it found, and how long it took.

INDENT = 5


class Progress:
    """Numbers the steps of a command and prints them."""

    def __init__(self, console: Console, *, steps: int) -> None:
        """Begin.

        Args:
            console: Where to print.
            steps: How many there will be.
        """
        self.console = console
        self._steps = steps
        self._step = 0
        self._began = time.monotonic()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Print a step's title, and its time when it is done."""
        self._step += 1
        self.console.print(f"[bold]{self._step}/{self._steps}  {escape(title)}[/bold]")
        began = time.monotonic()
        yield
        self.console.print(f"     [green]done[/green] in {time.monotonic() - began:.1f} s")

    def say(self, text: str) -> None:
        """Print one finding of the current step, wrapped where a person reads it."""
        if self.console.is_terminal:
            self.console.print(Padding(escape(text), (0, 0, 0, INDENT)))
        else:
            self.console.print(f"{' ' * INDENT}{escape(text)}", soft_wrap=True)

    def detail(self, text: str) -> None:
        """Print one line that may be skipped by the eye."""
        self.console.print(f"     [dim]{escape(text)}[/dim]", soft_wrap=True)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began
