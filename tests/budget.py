"""Where the tests' time goes: `--budget` prints it at the end of a run, and asserts nothing.

Seconds of processor time, not of the clock: a busy machine changes them little. They hold what a
test's own process used and what the processes that it started used: PostgreSQL's among them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

SLOWEST = 15
OPTION = "--budget"
TICKS = os.sysconf("SC_CLK_TCK")


class Budget:
    """Measures each phase of each test where it runs, and adds up where the results arrive."""

    def __init__(self) -> None:
        self._before = 0.0
        self._by_test: dict[str, float] = defaultdict(float)
        self._by_folder: dict[str, dict[str, float]] = {}
        self._tests: dict[str, int] = defaultdict(int)

    def pytest_collection_finish(self) -> None:
        """What imports and collection took belongs to no test."""
        self._before = processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Say in the report what was used since the one before it; xdist carries it on."""
        report = yield
        now = processor_seconds()
        # A process that is about to end is at times not listed, and is back in the next look: what
        # seems to have been given back was not used a second time.
        vars(report)["processor_seconds"] = max(0.0, now - self._before)
        self._before = max(self._before, now)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        used = getattr(report, "processor_seconds", 0.0)
        self._by_test[report.nodeid] += used
        folder = str(Path(report.nodeid.partition("::")[0]).parent)
        phases = self._by_folder.setdefault(folder, {"setup": 0.0, "call": 0.0, "teardown": 0.0})
        phases[report.when] += used
        self._tests[folder] += report.when == "setup"

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        terminalreporter.section("processor seconds by directory")
        write(f"{'total':>8} {'setup':>8} {'call':>8} {'teardown':>8} {'tests':>6}")
        rows = sorted(self._by_folder.items(), key=lambda row: -sum(row[1].values()))
        for folder, phases in rows:
            numbers = "".join(f"{phases[when]:9.1f}" for when in ("setup", "call", "teardown"))
            write(f"{sum(phases.values()):8.1f}{numbers} {self._tests[folder]:6} {folder}")
        write(f"{sum(self._by_test.values()):8.1f} altogether")
        terminalreporter.section(f"the {SLOWEST} tests that took most")
        for name, used in sorted(self._by_test.items(), key=lambda row: -row[1])[:SLOWEST]:
            write(f"{used:8.2f} {name}")


def processor_seconds() -> float:
    """What this process and all that it started have used so far, in seconds."""
    own = os.times()
    return sum(own[:4]) + sum(map(_used, _started_by(os.getpid())))


def _started_by(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 (see _read)
        lists = [_read(f"/proc/{pid}/task/{thread}/children") for thread in threads]
    except OSError:  # It has ended, or this system keeps no such lists.
        return
    for child in " ".join(lists).split():
        yield int(child)
        yield from _started_by(int(child))


def _read(path: str) -> str:
    # Asked three times a test and for each process of PostgreSQL: pathlib would take twice as long.
    with open(path) as file:  # noqa: PTH123
        return file.read()


def _used(pid: int) -> float:
    try:
        # What follows the name, which may hold anything: user, system, and both of the children
        # that it has waited for.
        fields = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()[11:15]
    except OSError:
        return 0.0
    return sum(map(int, fields)) / TICKS
