"""The one list of jobs: a line each.

Everything that names jobs reads this module: the settings, the CHECK on `job_run.job` (a test
keeps both equal), the Dagster definitions, `filejobs status`. Names cost nothing; a declaration is
imported when somebody asks for it.

An operator's own jobs stand behind ours: those of installed packages, and those that the settings
which this process has read last declare. Their names begin with `own_`, which no name of ours does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from filejobs_dagster.collector import Collector

OWN = re.compile(r"own_[a-z0-9][a-z0-9_]{0,58}")
"""What an operator's own job is called; the CHECK on `job_run.job` says the same."""

PACKAGES = "filejobs.jobs"
"""The group of entry points by which an installed package adds jobs: `own_name = module:NAME`."""


class Registry(Mapping[str, "Collector[Any, Any]"]):
    """The jobs by name, each imported when it is first asked for.

    Attributes:
        lines: By name, where the declaration is (`module:name`), or the declaration itself.
        own: Those that the settings declare which were read last.
        left: Those of settings that were read before: a run that is at work goes on by them, and
            so does who still holds such settings. They are no jobs any more where jobs are listed.
        installed: Those of packages, which are looked for once.
    """

    def __init__(self, lines: Mapping[str, str | Collector[Any, Any]], packages: str = "") -> None:
        """List jobs.

        Args:
            lines: Ours.
            packages: The group of entry points that may add more.
        """
        self.lines = dict(lines)
        self.own: dict[str, Collector[Any, Any]] = {}
        self.left: dict[str, Collector[Any, Any]] = {}
        self.installed: dict[str, str | Collector[Any, Any]] | None = None
        self._packages = packages

    def declare(self, own: dict[str, Collector[Any, Any]]) -> None:
        """Take the jobs that settings declare for those that there are."""
        self.left |= self.own
        self.own = own

    def _all(self) -> Mapping[str, str | Collector[Any, Any]]:
        if self.installed is None:
            found = entry_points(group=self._packages) if self._packages else ()
            # Another name could be one of ours, and no record would take it.
            self.installed = {one.name: one.value for one in found if OWN.fullmatch(one.name)}
        return {**self.installed, **self.own, **self.lines}

    def __getitem__(self, name: str) -> Collector[Any, Any]:
        if name in self.lines:
            found = self.lines[name] = _imported(self.lines[name])
            return found
        line = ({**self.left} | {**self._all()})[name]
        if isinstance(line, str) and self.installed is not None:
            line = self.installed[name] = _of_package(name, line)
        return _imported(line)

    def __iter__(self) -> Iterator[str]:
        everything = self._all()
        yield from self.lines
        yield from (name for name in everything if name not in self.lines)

    def __len__(self) -> int:
        return len(self._all())

    def __contains__(self, name: object) -> bool:
        return name in self.lines or name in self._all()

    def may_name(self, name: str) -> bool:
        """True for a job, and for one of the operator's that left the settings."""
        return name in self or OWN.fullmatch(name) is not None


def _imported(line: str | Collector[Any, Any]) -> Collector[Any, Any]:
    if not isinstance(line, str):
        return line
    module, _, declared = line.partition(":")
    found: Collector[Any, Any] = getattr(import_module(module), declared)
    return found


def _of_package(name: str, line: str) -> Collector[Any, Any]:
    """The declaration, or one that says why it cannot be read: a package silences no watchdog."""
    from filejobs_dagster.collector import Collector, unusable  # noqa: PLC0415 (pydantic)

    try:
        found = _imported(line)
    except Exception as error:  # noqa: BLE001 (whatever is wrong with somebody's package)
        return unusable(name, f"{line} cannot be imported: {type(error).__name__}: {error}")
    if not isinstance(found, Collector) or found.name != name:
        said = found.name if isinstance(found, Collector) else type(found).__name__
        return unusable(name, f"{line} is {said!r} and no Collector of this name")
    return found


BY_NAME = Registry(
    {
        "upload_reservations": "filejobs_dagster.jobs.upload_reservations:COLLECTOR",
        "storage_orphans": "filejobs_dagster.jobs.storage_orphans:COLLECTOR",
        "upload_cleanup": "filejobs_dagster.jobs.upload_cleanup:COLLECTOR",
        "multipart_uploads": "filejobs_dagster.jobs.multipart_uploads:COLLECTOR",
        "deleted_files": "filejobs_dagster.jobs.deleted_files:COLLECTOR",
        "table_retention": "filejobs_dagster.jobs.table_retention:COLLECTOR",
        "audit_trim": "filejobs_dagster.jobs.audit:TRIM",
        "audit_seal": "filejobs_dagster.jobs.audit:SEAL",
        "audit_verify": "filejobs_dagster.jobs.audit:VERIFY",
        "run_history": "filejobs_dagster.jobs.run_history:COLLECTOR",
    },
    packages=PACKAGES,
)
JOBS: Collection[Collector[Any, Any]] = BY_NAME.values()
JOB_NAMES: Collection[str] = BY_NAME.keys()
