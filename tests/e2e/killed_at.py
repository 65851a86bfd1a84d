"""Runs `dagster …` in this process and kills it with SIGKILL at a chosen point of the job.

usage: python killed_at.py POINT ARGUMENTS-OF-DAGSTER …
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

from dagster._cli import main

from filejobs_dagster.book import bookkeeping
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.upload_reservations.collection import Collection


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


POINTS = {
    "before the claim": lambda: setattr(Collection, "_claim", die),
    "before the commit": lambda: setattr(bookkeeping, "append", die),
    "after the commit": lambda: setattr(Removal, "remove", die),
    "after the bytes": lambda: setattr(Removal, "_record", die),
    "before the final word": lambda: setattr(Collection, "_outcome", die),
}

if __name__ == "__main__":
    POINTS[sys.argv[1]]()
    sys.argv = ["dagster", *sys.argv[2:]]
    main()  # type: ignore[no-untyped-call]
