"""Runs upload_cleanup, and kills or stops itself at a chosen point.

usage: python killed.py POINT, with the settings in FILEJOBS_CONFIG
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

sys.path.insert(0, str(Path(__file__).parents[3]))

from filejobs_dagster.jobs.upload_cleanup import cleanup, reconciliation, removal
from filejobs_dagster.jobs.upload_cleanup import removal as settling
from filejobs_dagster.ledger.progress import Progress
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.settings import load_settings
from tests.installation import Installation
from tests.jobs.upload_cleanup.uploads import Cleaner

if TYPE_CHECKING:
    from collections.abc import Callable


def die(*_: Any, **__: Any) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL came back")


def before(place: Any, name: str) -> Callable[[], None]:
    return lambda: setattr(place, name, die)


def after(place: Any, name: str) -> Callable[[], None]:
    """Do it, and die before anything else happens."""
    do = getattr(place, name)

    def do_and_die(*arguments: Any, **named: Any) -> NoReturn:
        do(*arguments, **named)
        die()

    return lambda: setattr(place, name, do_and_die)


def stop_before(place: Any, name: str) -> Callable[[], None]:
    """Sleep until somebody continues the process, and then do it."""
    do = getattr(place, name)

    def stop_and_do(*arguments: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGSTOP)
        return do(*arguments, **named)

    return lambda: setattr(place, name, stop_and_do)


POINTS: dict[str, Callable[[], None]] = {
    "before the claim commits": after(cleanup, "claim"),
    "after the claim": before(removal.Batch, "run"),
    "after the abort": before(removal, "look"),
    "between storage and row": before(settling.Settling, "settle"),
    "before the result commits": after(settling, "clean"),
    "before the verdicts commit": after(reconciliation.Reconciliation, "_writes"),
    "before the final word": before(Progress, "finish"),
    "stopped after the claim": stop_before(removal.Batch, "run"),
    "stopped before the gate": stop_before(Gate, "remove"),
}


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
    Cleaner(installation, client)()
