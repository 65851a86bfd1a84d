"""Dagster's instance for a command, opened with words that teach when it cannot be."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.mirror import HOME_VARIABLE
from filejobs_dagster.cli.terminal import Invocation, print_error
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    import dagster as dg


@contextmanager
def opened_instance(invocation: Invocation, needed_for: str) -> Iterator[dg.DagsterInstance]:
    """Open the instance of DAGSTER_HOME, with Dagster's own chatter kept off the terminal.

    Args:
        invocation: Learns what must not be printed.
        needed_for: Why the instance is needed, as the end of a sentence.

    Raises:
        typer.Exit: There is none, or it cannot be opened; standard error says why.
    """
    if not has_home():
        print_error(
            f"{HOME_VARIABLE} is not set, and {needed_for}. Set it to the absolute path of the "
            "directory with dagster.yaml, as the daemon has it. Nothing was done."
        )
        raise typer.Exit(terminal.FAILED)
    with quiet(), _opened(invocation) as instance:
        yield instance


def has_home() -> bool:
    """Whether DAGSTER_HOME says where Dagster keeps its runs."""
    return bool(os.environ.get(HOME_VARIABLE, "").strip())


@contextmanager
def instance_here(invocation: Invocation) -> Iterator[dg.DagsterInstance]:
    """The instance of DAGSTER_HOME for a run in this process; without it one that forgets the run.

    Args:
        invocation: Learns what must not be printed.

    Raises:
        typer.Exit: It cannot be opened; standard error says why.
    """
    if has_home():
        with _opened(invocation) as instance:
            yield instance
        return
    import dagster  # noqa: PLC0415 (seconds, which --help should not take)

    with dagster.DagsterInstance.ephemeral() as instance:
        yield instance


@contextmanager
def _opened(invocation: Invocation) -> Iterator[dg.DagsterInstance]:
    invocation.hide(os.environ.get("FILEJOBS_DAGSTER_URL", ""))
    import dagster  # noqa: PLC0415 (seconds, which --help should not take)

    try:
        opened = dagster.DagsterInstance.get()
    except Exception as error:
        said = sanitize_exception(error, known=invocation.secrets)
        print_error(
            f"Dagster's instance could not be opened ({said}). Check that {HOME_VARIABLE} is "
            "the absolute path of the directory with dagster.yaml, and that the storage that "
            "it names answers; `filejobs doctor` looks closer. Nothing was done."
        )
        raise typer.Exit(terminal.FAILED) from error
    with opened as instance:
        yield instance


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Dagster's deprecation warnings and its log lines out of a command's output."""
    loggers = [logging.getLogger(name) for name in ("dagster", "dagster.daemon")]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
