"""Running the main job as its operator would: `dagster job execute`, in a process of its own."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.demo.failure import DemoFailed
from filejobs_dagster.demo.place import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from filejobs_dagster.demo.place import DemoPlace

JOB = "upload_reservations"

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_JOBS_OWN_LINE = re.compile(
    rf" - dagster - (?:INFO|WARNING|ERROR|CRITICAL) - {JOB} - [0-9a-f-]{{36}} - {JOB} - "
    r"(?P<said>.*)"
)
"""Dagster's own lines have no op in this place, or a level of DEBUG."""


def command(config: Path | None = None) -> list[str]:
    """The words of the command, without the directory of the program."""
    words = ["dagster", "job", "execute", "-m", "filejobs_dagster.definitions", "-j", JOB]
    return words if config is None else [*words, "-c", str(config)]


def command_as_typed(config: Path | None = None) -> str:
    """The command as a person would type it after sourcing the environment."""
    return shlex.join(command(None if config is None else Path(shown(config))))


def execute(
    place: DemoPlace,
    environment: Mapping[str, str],
    log: Path,
    *,
    config: Path | None,
    say: Callable[[str], None],
) -> None:
    """Run the job to its end.

    Args:
        place: The demo.
        environment: Of the process.
        log: Gets everything that it says.
        config: A file of run config, or None for none at all.
        say: Called with each progress line of the job's own.

    Raises:
        DemoFailed: It ended with another exit code than 0; the message has all that it said.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", *command(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=place.home,
        env=environment,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    try:
        for said in _job_lines(process, log):
            say(said)
        result = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if result != 0:
        raise DemoFailed(
            f"to run {command_as_typed(config)}",
            f"it ended with exit code {result} and said:\n{log.read_text(errors='replace')}",
            f"mend what it names; all of it stands in {shown(log)}",
        )


def _job_lines(process: subprocess.Popen[str], log: Path) -> Iterator[str]:
    """Write down every line, and yield what the job itself says."""
    with log.open("w", encoding="utf-8") as file:
        for line in process.stdout or ():
            plain = _COLOURS.sub("", line)
            file.write(plain)
            match = _JOBS_OWN_LINE.search(plain)
            if match and "Started execution" not in plain:
                yield match["said"].strip()
