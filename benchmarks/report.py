"""The one table: on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks.measurement import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from benchmarks.measurement import Measurement

HEADINGS = ("benchmark", "what", "measured", "compared with", "ratio", "note")


@dataclass
class Report:
    """What a run measured.

    Attributes:
        scale: The name of the scale.
        machine: What it was measured on.
        measurements: The rows.
        failures: Benchmarks that could not be finished, and why.
        not_measured: Benchmarks, or parts of them, that lack something here, and what.
    """

    scale: str
    machine: Mapping[str, str]
    measurements: list[Measurement] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    not_measured: dict[str, str] = field(default_factory=dict)

    def table(self) -> Table:
        """The table for a terminal."""
        table = Table(title=f"Benchmarks, scale {self.scale}", show_lines=True)
        for heading in HEADINGS:
            table.add_column(heading, overflow="fold")
        for row in self.measurements:
            table.add_row(*_cells(row))
        table.caption = "; ".join(f"{name} {value}" for name, value in self.machine.items())
        return table

    def markdown(self) -> str:
        """The table and the machine as Markdown."""
        lines = [
            f"Scale `{self.scale}`.",
            "",
            _line(HEADINGS),
            _line("---" for _ in HEADINGS),
            *(_line(_cells(row)) for row in self.measurements),
            "",
            *(f"`{name}` was not measured: {why}\n" for name, why in self.not_measured.items()),
            "| machine | |",
            "|---|---|",
            *(_line(entry) for entry in self.machine.items()),
        ]
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Everything, for programs."""
        document = {
            "scale": self.scale,
            "machine": dict(self.machine),
            "measurements": [row.as_document() for row in self.measurements],
            "failures": self.failures,
            "not_measured": self.not_measured,
        }
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _cells(row: Measurement) -> tuple[str, ...]:
    return (
        row.benchmark,
        row.what,
        f"{row.measured} ({row.measured.of})",
        f"{row.compared} ({row.compared.of})",
        f"{readable(row.ratio)} {row.reading}",
        row.note,
    )


def _line(cells: Iterable[str]) -> str:
    texts = [cell.replace("|", "\\|") for cell in cells]
    return f"| {' | '.join(texts)} |"
