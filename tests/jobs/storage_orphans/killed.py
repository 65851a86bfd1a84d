"""Runs the job in processes that kill themselves at a given step, for `test_sweep_killed`.

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

from filejobs_dagster.objects.client import make_client
from tests.installation import Installation
from tests.jobs.storage_orphans.conftest import Sweeper

SITES = {
    "while the references are read": "filejobs_dagster.references.bulk:BulkReferences.read",
    "between marking and clearing": (
        "filejobs_dagster.jobs.storage_orphans.marks:Marks.clear_unseen"
    ),
    "between the two counters": "filejobs_dagster.door.adoption:replace_marker",
    "before the intent": "filejobs_dagster.jobs.storage_orphans.marks:Marks.intend",
    "after the intent": "filejobs_dagster.postgres.fence:Fence.now",
    "after the wait": "filejobs_dagster.objects.gate:Gate.remove",
    "after the deletion": "filejobs_dagster.jobs.storage_orphans.removal:Drain._settle",
    "before the final word": "filejobs_dagster.jobs.lifecycle:_finish_once",
}

SITES_OF_QUARANTINE = {
    "before the copy": "filejobs_dagster.objects.quarantine:Copying._copy_all",
    "between copy and verification": "filejobs_dagster.objects.quarantine:Copying._differing",
    "between verification and deletion": "filejobs_dagster.objects.removing:Removing._delete",
    "between deletion and record": "filejobs_dagster.jobs.storage_orphans.removal:Drain._settle",
    "before copies expire": "filejobs_dagster.jobs.storage_orphans.expiring:Expiring._take",
}


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(order: dict[str, str]) -> None:
    module_name, _, path = (SITES | SITES_OF_QUARANTINE)[order["site"]].partition(":")
    place: Any = import_module(module_name)
    *outer, name = path.split(".")
    for part in outer:
        place = getattr(place, part)
    setattr(place, name, die)
    installation = Installation(
        Path(order["folder"]), order["database_url"], order["bucket"], None, order["endpoint_url"]  # type: ignore[arg-type]
    )  # fmt: skip
    if order["keep"]:
        installation.keeps(order["keep"])
    os.environ.update(installation.environment)
    installation.client = make_client(installation.settings().buckets["uploads"])
    Sweeper(installation, installation.client, adopted=False)(batch_size=2)


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
