"""What every command shares: printing, exit codes, what one call knows, and errors in words.

Times, durations and counts are written and read here. An exception becomes what a person is told,
without a traceback and without a secret.
"""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

    from filejobs_dagster.settings import Loaded, Settings

NEVER_FOLDED = 100_000
"""Columns of an output that is no terminal: wide enough that nothing is folded or cut."""


def console() -> Console:
    """Standard output. NO_COLOR is respected; what is no terminal is neither coloured nor cut.

    COLUMNS folds it there, too: a mail wants 100.
    """
    return Console(
        width=None if sys.stdout.isatty() or os.environ.get("COLUMNS") else NEVER_FOLDED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def is_folded(out: Console) -> bool:
    """True for a terminal, whose lines have an end."""
    return out.width != NEVER_FOLDED


def print_table(out: Console, table: Table) -> None:
    """Print a table, without the spaces that fill the last column where no terminal folds it."""
    if is_folded(out):
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_json(document: Any) -> None:
    """Print a JSON document on standard output, in UTF-8 with two spaces of indentation."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_error(text: str) -> None:
    """Print on standard error. The caller has taken the secrets out."""
    sys.stderr.write(text.rstrip("\n") + "\n")


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


# What the exit codes of `filejobs` mean.

OK = 0
FAILED = 1
"""The command could not do what it was asked, and said why."""

WARNING = 1
CRITICAL = 2
UNKNOWN = 3
"""The three of `status --check`, as monitoring plugins use them."""

USAGE = 64
"""The command was called in a way that it does not understand (EX_USAGE)."""

INTERNAL = 70
"""A fault of the program itself (EX_SOFTWARE)."""

INTERRUPTED = 130


# What one call of `filejobs` knows: the settings file it reads, and what it must not print.


@dataclass
class Invocation:
    """One call of the command.

    Attributes:
        config: From `--config`; None leaves it to FILEJOBS_CONFIG.
        secrets: Values that must not be printed; known once the settings are loaded.
    """

    config: Path | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, context: typer.Context) -> Invocation:
        """The invocation that a command's context belongs to."""
        found: Invocation = context.ensure_object(cls)
        return found

    def hide(self, *values: str) -> None:
        """Keep values out of everything that is printed from now on."""
        self.secrets = (*self.secrets, *values)

    def read(self) -> Loaded:
        """Read the settings, whatever they hold."""
        from filejobs_dagster.settings import (  # noqa: PLC0415 (--help works without pydantic)
            known_secrets,
            read_settings,
        )

        loaded = read_settings(self.config)
        if loaded.settings is not None:
            self.hide(*known_secrets(loaded.settings))
        return loaded

    def require(self) -> Settings:
        """The settings; with mistakes in them, name each on standard error and exit with 1."""
        loaded = self.read()
        if loaded.settings is None:
            refuse(loaded, FAILED)
        return loaded.settings


def refuse(loaded: Loaded, exit_code: int) -> NoReturn:
    """Name every problem of the settings on standard error, and exit."""
    print_error(problems_text(loaded))
    raise typer.Exit(exit_code)


def problems_text(loaded: Loaded) -> str:
    """Every problem of the settings: where it stands, what was found, what would be right."""
    count = len(loaded.problems)
    lines = [f"{loaded.path} has {count} mistake{'s' if count != 1 else ''}:"]
    for problem in loaded.problems:
        where = f" (line {problem.line})" if problem.line is not None else ""
        lines += [f"  {problem.path}{where}", f"    found: {problem.found}"]
        lines += [f"    right: {problem.expected}"]
    return "\n".join(lines)


# Who types: for records that must name a person.


def operator_name() -> str:
    """The user and the machine, as `ada@desk`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user id has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
