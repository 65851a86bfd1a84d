"""What one call of `filejobs` knows: the settings file it reads, and what it must not print."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.output import print_error

if TYPE_CHECKING:
    from filejobs_dagster.settings import Loaded, Settings


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
            refuse(loaded, exits.FAILED)
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
