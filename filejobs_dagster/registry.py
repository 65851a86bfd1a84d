"""The one list of jobs: a line each.

Everything that names jobs reads this module: the settings, the CHECK on `job_run.job` (a test
keeps both equal), the Dagster definitions, `filejobs status`. Names cost nothing; a declaration is
imported when somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from filejobs_dagster.collector import Collector


class Registry(Mapping[str, "Collector[Any, Any]"]):
    """The jobs by name, each imported when it is first asked for.

    Attributes:
        lines: By name, where the declaration is (`module:name`), or the declaration itself.
    """

    def __init__(self, lines: Mapping[str, str | Collector[Any, Any]]) -> None:
        """List jobs."""
        self.lines = dict(lines)

    def __getitem__(self, name: str) -> Collector[Any, Any]:
        line = self.lines[name]
        if isinstance(line, str):
            module, _, declared = line.partition(":")
            line = self.lines[name] = getattr(import_module(module), declared)
        return line

    def __iter__(self) -> Iterator[str]:
        return iter(self.lines)

    def __len__(self) -> int:
        return len(self.lines)

    def __contains__(self, name: object) -> bool:
        return name in self.lines


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
    }
)
JOBS: Collection[Collector[Any, Any]] = BY_NAME.values()
JOB_NAMES: Collection[str] = BY_NAME.keys()
