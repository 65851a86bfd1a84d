"""Trying the claims one after the other, and the findings, for a sceptical reader and programs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.prove.evidence import Claim, Observation
from filejobs_dagster.prove.stage import SchemaLeftBehind, StageUnavailable
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console

    from filejobs_dagster.prove.evidence import FactValue, Side
    from filejobs_dagster.prove.stage import Stage

MOST_LINES = 24
"""Longer statements are cut in the text; the JSON has them whole."""

_INDENT = (0, 0, 0, 3)
_DEEPER = (0, 0, 0, 6)


@dataclass(frozen=True)
class Summary:
    """All findings of one call.

    Attributes:
        server: What the claims were tried on.
        findings: In the order in which they were tried.
        seconds: From the start of the server to its end.
    """

    server: str
    findings: Sequence[Observation]
    seconds: float

    @property
    def held(self) -> bool:
        """True when every claim held."""
        return all(finding.held for finding in self.findings)

    @property
    def sentence(self) -> str:
        """The last line."""
        count = len(self.findings)
        claims = "claim" if count == 1 else "claims"
        failed = [finding.claim.name for finding in self.findings if not finding.held]
        where = f"on {self.server}, in {self.seconds:.1f} s"
        if not failed:
            return f"{count} of {count} {claims} held {where}; every careless version really lost."
        return f"{count - len(failed)} of {count} {claims} held {where}. Not proven: " + ", ".join(
            failed
        )


def print_finding(out: Console, finding: Observation, number: int) -> None:
    """Print one block: the claim, what each version executed and did, and the verdict."""
    out.print()
    heading = Text.assemble((f"{number}. {finding.claim.sentence}", "bold"))
    out.print(heading)
    out.print(Padding(Text(f"--only {finding.claim.name}", style="dim"), _INDENT, expand=False))
    if finding.evidence is not None:
        _print_side(out, "careless", finding.evidence.careless)
        _print_side(out, "guarded", finding.evidence.guarded)
    style = "bold green" if finding.held else "bold red"
    verdict = Text(f"{finding.verdict} ({finding.seconds:.1f} s)", style=style)
    out.print()
    out.print(Padding(verdict, _INDENT, expand=False))


def print_summary(out: Console, summary: Summary) -> None:
    """Print the one line at the end."""
    out.print(Text(summary.sentence, style="bold green" if summary.held else "bold red"))


def as_document(summary: Summary) -> dict[str, Any]:
    """The findings as JSON values."""
    return {
        "held": summary.held,
        "server": summary.server,
        "seconds": round(summary.seconds, 3),
        "claims": [_finding_as_document(finding) for finding in summary.findings],
    }


def list_as_document(claims: Sequence[Claim]) -> list[dict[str, str]]:
    """The claims as JSON values, without trying them."""
    return [{"name": claim.name, "claim": claim.sentence} for claim in claims]


def list_as_text(claims: Sequence[Claim]) -> str:
    """The claims, one a line, without trying them."""
    width = max(len(claim.name) for claim in claims)
    return "".join(f"{claim.name.ljust(width)}  {claim.sentence}\n" for claim in claims)


def _print_side(out: Console, word: str, side: Side) -> None:
    out.print()
    heading = Text.assemble((word, "bold red" if side.lost else "bold green"), f": {side.title}")
    out.print(Padding(heading, _INDENT, expand=False))
    out.print(Padding(Text(_shortened(side.statement), style="cyan"), _DEEPER, expand=False))
    out.print()
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    # Folding takes from the value, never from its label.
    facts.add_column(overflow="fold")
    for label, value in side.facts:
        facts.add_row(label, Text(_shown(value)))
    outcome = Text("LOST", style="bold red") if side.lost else Text("kept", style="bold green")
    facts.add_row("what the claim protects", outcome)
    out.print(Padding(facts, _DEEPER, expand=False))


def _shortened(statement: str) -> str:
    lines = statement.splitlines()
    if len(lines) <= MOST_LINES:
        return statement
    left = len(lines) - MOST_LINES + 1
    return "\n".join([*lines[: MOST_LINES - 1], f"-- … {left} more lines (--format json)"])


def _shown(value: FactValue) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def _finding_as_document(finding: Observation) -> dict[str, Any]:
    evidence = finding.evidence
    return {
        "name": finding.claim.name,
        "claim": finding.claim.sentence,
        "held": finding.held,
        "verdict": finding.verdict,
        "seconds": round(finding.seconds, 3),
        "careless": None if evidence is None else _side_as_document(evidence.careless),
        "guarded": None if evidence is None else _side_as_document(evidence.guarded),
    }


def _side_as_document(side: Side) -> dict[str, Any]:
    return {
        "title": side.title,
        "statement": side.statement,
        "facts": [{"label": label, "value": value} for label, value in side.facts],
        "lost": side.lost,
    }


# Trying the claims, one after the other.

_STAGE_IS_GONE = (DatabaseUnavailable, StageUnavailable, SchemaLeftBehind)


def prove(claims: Iterable[Claim], stage: Stage) -> Iterator[Observation]:
    """Demonstrate each claim, and yield what was found as soon as it is known.

    Raises:
        DatabaseUnavailable: The server went away.
        StageUnavailable: The server cannot be used.
        SchemaLeftBehind: A schema could not be dropped.
    """
    for claim in claims:
        yield _try(claim, stage)


def _try(claim: Claim, stage: Stage) -> Observation:
    begun = time.monotonic()
    evidence = error = None
    try:
        evidence = claim.demonstrate(stage)
    except _STAGE_IS_GONE:
        raise
    except Exception as broken:  # noqa: BLE001 (not proven; and the other claims are still tried)
        error = sanitize(f"{type(broken).__name__}: {broken}", known=[stage.url])
    return Observation(claim, evidence, error, time.monotonic() - begun)
