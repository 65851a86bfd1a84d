"""`filejobs doctor`: does everything that the jobs need answer?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, console, print_json

if TYPE_CHECKING:
    from rich.console import Console

    from filejobs_dagster.doctor.finding import Finding

_COLOURS = {"ok": "green", "warning": "yellow", "failed": "bold red", "skipped": "dim"}


class Format(str, Enum):
    """How the findings are printed."""

    TEXT = "text"
    JSON = "json"


def doctor(
    context: typer.Context,
    output: Annotated[
        Format, typer.Option("--format", help="text for people, json for programs.")
    ] = Format.TEXT,
    probe: Annotated[
        bool,
        typer.Option(
            "--probe",
            help="Also write and delete a tiny object beside the marker of each bucket, to learn "
            "what the server can do: delete many at once, obey a condition, tell keys apart.",
        ),
    ] = False,
) -> None:
    """Check everything that the jobs need, and say of each fault what to do.

    Looks at Python and the packages, filejobs.yaml, the jobs in it, the database (version,
    migrations, the role's privileges, whether it is the primary, a pooler in between), each bucket
    (access, versioning), what every live run must prove (markers, tables, commits, clocks, the
    sources of references, the server; see docs/concepts.md), and Dagster's instance (DAGSTER_HOME,
    dagster.yaml and the variables it names).

    Changes nothing: it reads in read-only transactions, and asks the buckets without writing. With
    --probe it writes and deletes one object in each adopted bucket from which a job deletes,
    outside of the owned prefixes, and keeps what it learnt in the database.

    [bold]Examples[/bold]
      filejobs doctor
      filejobs doctor --format json
      filejobs doctor --probe

    [bold]Exit codes[/bold]
      0   nothing failed; warnings are allowed
      1   at least one check failed
    """
    from filejobs_dagster.doctor.examination import examine  # noqa: PLC0415 (--help stays fast)

    report(examine(Invocation.of(context).read(), os.environ, probe=probe), output)


def report(findings: Iterable[Finding], output: Format) -> None:
    """Print findings as they come, and end with the exit code 1 when one of them failed."""
    if output is Format.JSON:
        found = list(findings)
        print_json(
            {
                "verdict": "failed" if _failures(found) else "ok",
                "findings": [
                    {
                        "check": finding.check,
                        "verdict": finding.verdict,
                        "found": finding.found,
                        "advice": finding.advice or None,
                        "see": finding.see or None,
                    }
                    for finding in found
                ],
            }
        )
    else:
        found = []
        out = console()
        for finding in findings:
            found.append(finding)
            _print(out, finding)
        _print_sum(out, found)
    if _failures(found):
        raise typer.Exit(terminal.FAILED)


def _print(out: Console, finding: Finding) -> None:
    line = Text(f"{finding.verdict:<8}", style=_COLOURS[finding.verdict])
    line.append(f"{finding.check}: ", style="bold")
    line.append(finding.found, style="default")
    out.print(line)
    if finding.advice:
        out.print(Text(f"        -> {finding.advice}"))
    if finding.see:
        out.print(Text(f"        See {finding.see}", style="dim"))


def _print_sum(out: Console, found: Sequence[Finding]) -> None:
    counts = {verdict: sum(finding.verdict == verdict for finding in found) for verdict in _COLOURS}
    out.print()
    out.print(Text(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)))


def _failures(found: Sequence[Finding]) -> int:
    return sum(finding.verdict == "failed" for finding in found)
