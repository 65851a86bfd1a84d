"""Where the commands print: colours and folding for people, plain long lines for programs."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console

if TYPE_CHECKING:
    from rich.table import Table

NEVER_FOLDED = 100_000
"""Columns of an output that is no terminal: wide enough that nothing is folded or cut."""


def console() -> Console:
    """Standard output. NO_COLOR is respected; what is no terminal is neither coloured nor cut."""
    return Console(
        width=None if sys.stdout.isatty() else NEVER_FOLDED,
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
