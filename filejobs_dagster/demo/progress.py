"""Progress: one heading per step, what it found, and how long it took."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.padding import Padding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console


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
