"""Runs the jobs in processes that kill themselves at a given step, for `test_audit_killed`.

Reads one JSON object a line: the installation, and where to be killed. Each is answered by how
the process ended. One process imports everything once, and forks for each.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from filejobs_dagster.audit.note import read_signer
from tests.installation import Installation
from tests.jobs.audit import conftest
from tests.jobs.audit.conftest import Auditor

SEAL_SITES = {
    "before the seal is written": "filejobs_dagster.audit.seal:_write",
    "before it is pinned": "filejobs_dagster.audit.pins.bookkeeping:put",
    "before the pin is written down": "filejobs_dagster.audit.pins.bookkeeping:write_down",
    "before the final word": "filejobs_dagster.jobs.lifecycle:_finish_once",
}
TRIM_SITES = {
    "before the first batch": "filejobs_dagster.audit.trim:remove_batch",
    "before the archive is written": "filejobs_dagster.audit.trim.archive:StoreArchive.keep",
    "before the events go": "filejobs_dagster.audit.trim.batch:_delete",
    "before the receipt is pinned": "filejobs_dagster.audit.pins.bookkeeping:put",
    "after the receipt is pinned": "filejobs_dagster.audit.pins.bookkeeping:write_down",
    "before the batch is recorded": "filejobs_dagster.jobs.audit_trim:_Trimming._advance",
    "between two batches": "filejobs_dagster.jobs.audit_trim:_Trimming._committed",
    "before the final word": "filejobs_dagster.jobs.lifecycle:_finish_once",
}


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(order: dict[str, Any]) -> None:
    sites = SEAL_SITES if order["job"] == "seal" else TRIM_SITES
    module_name, _, path = sites[order["site"]].partition(":")
    place: Any = import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        place = getattr(place, part)
    setattr(place, name, die)
    conftest.SIGNER = read_signer(order["key"], "the order")
    installation = Installation(
        Path(order["folder"]), order["database_url"], order["bucket"], None,  # type: ignore[arg-type]
        order["endpoint_url"], order["document"],
    )  # fmt: skip
    os.environ.update(installation.environment)
    auditor = Auditor(installation, order["pins_bucket"])
    if order["job"] == "seal":
        auditor.seal()
    else:
        auditor.trim(batch_size=20)


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run(json.loads(line))
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        sys.stdout.write("killed\n" if killed else "ended by itself\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
