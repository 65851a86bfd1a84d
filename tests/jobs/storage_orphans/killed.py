"""Runs the job in processes that kill themselves at a given step: `killing` starts them.

The program reads one JSON object a line: the installation, and where to be killed. Each is answered
by how the process ended. One process imports everything once, and forks for each.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs.storage_orphans import expiring
from filejobs_dagster.objects import quarantine
from filejobs_dagster.objects.client import make_client
from tests.installation import Installation
from tests.jobs.storage_orphans.conftest import Sweeper

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[3]

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
}

_COPIES = "filejobs_dagster.jobs.storage_orphans.expiring:Copies"

# The first key is referenced again, and the others are due: it comes back before they expire.
SITES_OF_RETURN = {
    "before the way back": f"{_COPIES}._bring_back",
    "between intent and copy back": "filejobs_dagster.objects.gate:Gate.bring_back",
    "between copy back and verification": "filejobs_dagster.objects.quarantine:Copying._differing",
    "between verification and record": "filejobs_dagster.objects.quarantine:Return",
}
SITES_OF_EXPIRY = {
    "between listing and search": f"{_COPIES}._by_rules",
    "between search and intent": f"{_COPIES}._take",
    "between intent and questions": "filejobs_dagster.objects.gate:Gate.expire",
    "between questions and deletion": "filejobs_dagster.objects.sending:Deleting._prove",
    "between deletion of a copy and record": "filejobs_dagster.jobs.setbacks:Setbacks.write",
    "between record and return": f"{_COPIES}._return",
    "between two batches": f"{_COPIES}._drop_left_over",
    "before the final word": "filejobs_dagster.jobs.lifecycle:_finish_once",
}
ALL_SITES = SITES | SITES_OF_QUARANTINE | SITES_OF_RETURN | SITES_OF_EXPIRY


def all_are_due() -> None:
    """Let all copies have been made forty days ago."""

    def older(*arguments: Any) -> Iterator[list[quarantine.Copy]]:
        for page in quarantine.copies_below(*arguments):
            yield [
                quarantine.Copy(
                    it.key, it.original, it.etag, it.size, it.since - timedelta(days=40)
                )
                for it in page
            ]

    vars(expiring)["copies_below"] = older


@contextmanager
def killing() -> Iterator[Callable[..., None]]:
    """Gives what starts a live run of a sweeper that is killed at a site."""
    command = [sys.executable, "-m", "tests.jobs.storage_orphans.killed"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def start(sweep: Sweeper, site: str, environment: dict[str, str] | None = None) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            order = {
                "site": site,
                "folder": str(sweep.installation.folder),
                "database_url": sweep.installation.database_url,
                "bucket": sweep.installation.bucket,
                "endpoint_url": sweep.installation.endpoint_url,
                "keep": (sweep.bucket.quarantine and "30d") or "",
                "environment": environment or {},
            }
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "killed\n", site

        yield start
        process.stdin.close()


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run(order: dict[str, Any]) -> None:
    if order["site"] in SITES_OF_RETURN | SITES_OF_EXPIRY:
        all_are_due()
    module_name, _, path = ALL_SITES[order["site"]].partition(":")
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
    environment = installation.environment | order["environment"]
    os.environ.update(environment)
    installation.client = make_client(installation.settings(environment).buckets["uploads"])
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
