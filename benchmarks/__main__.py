"""`python -m benchmarks`, which `make bench` calls: run benchmarks and print one table."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from benchmarks.machine import describe
from benchmarks.measurement import NotMeasured
from benchmarks.registry import MODULES, benchmark
from benchmarks.report import Report
from benchmarks.scale import FULL, QUICK, TINY
from benchmarks.surroundings import Surroundings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.scale import Scale

SCALES = {scale.name: scale for scale in (TINY, QUICK, FULL)}
WIDTH_OF_A_FILE = 200


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks that were named, or all of them.

    Returns:
        0, or 1 when one of them could not be finished.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in MODULES]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}; there are: {', '.join(MODULES)}")
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH_OF_A_FILE)
    report = measure(options.names or list(MODULES), SCALES[options.scale], console)
    console.print(report.table())
    for name, why in report.failures.items():
        console.print(f"{name} could not be finished: {why}", style="bold red", markup=False)
    for name, why in report.not_measured.items():
        console.print(f"{name} was not measured: {why}", style="yellow", markup=False)
    if options.markdown is not None:
        options.markdown.write_text(report.markdown(), encoding="utf-8")
    if options.json is not None:
        options.json.write_text(report.json(), encoding="utf-8")
    return 1 if report.failures else 0


def measure(names: Sequence[str], scale: Scale, console: Console) -> Report:
    """Run benchmarks one after the other, each on data of its own.

    One that fails does not keep the others from being measured; it stands in the report.
    """
    with Surroundings() as surroundings:
        report = Report(scale.name, describe(surroundings))
        for name in names:
            begun = time.monotonic()
            console.print(f"{name}: {benchmark(name).SUMMARY} …", markup=False)
            try:
                for row in benchmark(name).run(surroundings, scale):
                    report.measurements.append(row)
                    console.print(f"  {row.what}: {row.ratio:.2f} {row.reading}", markup=False)
            except NotMeasured as lack:
                report.not_measured[name] = str(lack)
            except Exception as error:  # noqa: BLE001 (the report says it, and the exit code)
                report.failures[name] = f"{type(error).__name__}: {error}"
            console.print(f"  {time.monotonic() - begun:.0f} s", markup=False)
    return report


def _parser() -> argparse.ArgumentParser:
    described = "\n".join(f"  {name:23}{benchmark(name).SUMMARY}" for name in MODULES)
    parser = argparse.ArgumentParser(
        prog="make bench",
        description="Measure what the project costs and gains, both sides of each comparison on "
        "the same data in one run, and print one table.",
        epilog=f"benchmarks:\n{described}\n\n"
        'example:\n  make bench ARGS="memory --full --markdown memory.md"',
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="benchmarks to run; none means all"
    )
    scales = parser.add_mutually_exclusive_group()
    scales.add_argument("--scale", choices=SCALES, default=QUICK.name, help="how much data")
    scales.add_argument(
        "--full", dest="scale", action="store_const", const=FULL.name, help="as --scale full"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there, too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything there, too")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
