"""Runs deleted_files on an installation that exists, and kills itself at a chosen point.

usage: python killed.py POINT, with the settings in FILEJOBS_CONFIG
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[3]))

from filejobs_dagster.book import bookkeeping
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.deleted_files.collection import Collection, FileTable
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.settings import load_settings
from tests.installation import Installation
from tests.jobs.deleted_files.collecting import THUMBNAILS, Files

if TYPE_CHECKING:
    from collections.abc import Callable


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


CLAIM: Any = FileTable.claim
RECORD: Any = Removal._record


def claim_then_die(*arguments: Any, **named: Any) -> NoReturn:
    CLAIM(*arguments, **named)
    die()


def record_then_die(*arguments: Any, **named: Any) -> NoReturn:
    RECORD(*arguments, **named)
    die()


POINTS: dict[str, Callable[[], None]] = {
    "before the lock": lambda: setattr(FileTable, "lock", die),
    "between lock and claim": lambda: setattr(FileTable, "claim", die),
    "after the claim": lambda: setattr(FileTable, "claim", claim_then_die),
    "before the commit": lambda: setattr(bookkeeping, "append", die),
    "after the commit": lambda: setattr(Removal, "remove", die),
    "after the bytes": lambda: setattr(Removal, "_record", die),
    "after the result": lambda: setattr(Removal, "_record", record_then_die),
    "before the final word": lambda: setattr(Collection, "_outcome", die),
}
BEFORE_THE_COMMIT = ("before the lock", "between lock and claim", "after the claim",
                     "before the commit")  # fmt: skip


class FromEnvironment(Installation):
    """The installation that the parent has written down."""

    def settings(self, environment: Any = None) -> Any:
        del environment
        return load_settings(Path(os.environ["FILEJOBS_CONFIG"]), os.environ)


if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    settings = load_settings(Path(os.environ["FILEJOBS_CONFIG"]), os.environ)
    bucket = settings.buckets["uploads"]
    client = make_client(bucket)
    installation = FromEnvironment(
        Path(os.environ["FILEJOBS_CONFIG"]).parent,
        os.environ["FILEJOBS_DATABASE_URL"],
        bucket.bucket,
        client,
        bucket.endpoint_url or "",
        {"unused": True},
    )
    Files(installation, client, [THUMBNAILS])(batch_size=2)
