"""A process that is killed in the middle: SIGKILL, with no chance to tidy up.

`python -m filejobs_dagster.prove.victim careless|guarded` works up to the moment in question, says
so in one line, and waits there until it is killed. Where it works stands in its environment.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from filejobs_dagster.prove.evidence import NotShown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filejobs_dagster.postgres.connect import Database
    from filejobs_dagster.prove.store import Store

Order = Literal["careless", "guarded"]

SECONDS_TO_REACH = 60.0


class Victim:
    """The process, seen from outside."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Internal: use `start`."""
        self._process = process

    def wait_for_the_moment(self) -> list[str]:
        """Wait until the process says that it is there.

        Returns:
            The statements that it had executed.

        Raises:
            NotShown: It ended instead, or stayed silent.
        """
        timer = threading.Timer(SECONDS_TO_REACH, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline() if self._process.stdout else ""
        finally:
            timer.cancel()
        if not line:
            said = self._process.stderr.read() if self._process.stderr else ""
            last = " ".join(said.splitlines()[-1:]) or "nothing"
            raise NotShown(f"the process that was to be killed ended before; it said: {last}")
        statements: list[str] = json.loads(line)
        return statements

    def kill(self) -> str:
        """Kill it with SIGKILL, and say how it ended."""
        self._process.kill()
        return signal.Signals(-self._process.wait()).name


@contextmanager
def start(order: Order, environment: Mapping[str, str]) -> Iterator[Victim]:
    """Start the process; nothing of it is left at the end."""
    with subprocess.Popen(
        [sys.executable, "-m", "filejobs_dagster.prove.victim", order],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(environment),
        start_new_session=True,
    ) as process:
        try:
            yield Victim(process)
        finally:
            process.kill()


def _here(statements: list[str]) -> NoReturn:
    """Say that the moment has come, and wait for the end."""
    sys.stdout.write(json.dumps(statements) + "\n")
    sys.stdout.flush()
    # Closed when the owner dies: then there is nobody left to do the killing.
    sys.stdin.read()
    os._exit(1)


def _bytes_first(database: Database, store: Store) -> None:
    """The careless order: the object goes inside the transaction that removes the row."""
    from filejobs_dagster.jobs.upload_reservations.statements import (  # noqa: PLC0415
        BEGINNING,
        CANDIDATES,
        CLAIM,
        LAST_ID,
    )
    from filejobs_dagster.postgres.connect import database_now  # noqa: PLC0415
    from filejobs_dagster.prove.stage import watch  # noqa: PLC0415

    with database.connect("prove victim") as connection:
        statements = watch(connection)
        with database.transaction(connection) as cursor:
            now = database_now(cursor)
            page = {"before": now, "after": BEGINNING, "after_id": LAST_ID, "size": 10}
            cursor.execute(CANDIDATES, page)
            ids = [row[0] for row in cursor.fetchall()]
            cursor.execute(CLAIM, {"ids": ids, "from": BEGINNING, "before": now})
            for _, key, *_ in cursor.fetchall():
                store.client.delete_object(Bucket=store.name, Key=key)
            _here(statements)


def _collector(database: Database, store: Store) -> None:
    """The project's collector, stopped where it is about to delete the bytes."""
    from filejobs_dagster.prove.collector import collect, new_run  # noqa: PLC0415
    from filejobs_dagster.prove.stage import watch  # noqa: PLC0415

    statements: list[str] = []

    def prepare(connection: Any) -> None:
        nonlocal statements
        statements = watch(connection)
        # Only now: before the job begins, the door tries the server with an object of its own.
        for call in ("DeleteObjects", "DeleteObject"):
            store.client.meta.events.register(f"before-call.s3.{call}", before_the_bytes)

    def before_the_bytes(**_: object) -> None:
        _here(statements)

    outcome = collect(database, store, new_run(), prepare)
    raise NotShown(f"the collector finished without deleting anything: {outcome}")


def main() -> None:
    """Work up to the moment."""
    from filejobs_dagster.embedded.s3 import S3Endpoint  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415
    from filejobs_dagster.prove.store import Store  # noqa: PLC0415

    environment = os.environ
    database = Database(
        environment["FILEJOBS_PROVE_DATABASE_URL"], environment["FILEJOBS_PROVE_SCHEMA"]
    )
    server = S3Endpoint(environment["AWS_ENDPOINT_URL_S3"])
    store = Store.open(server, environment["FILEJOBS_PROVE_BUCKET"])
    orders = {"careless": _bytes_first, "guarded": _collector}
    orders[sys.argv[1]](database, store)


if __name__ == "__main__":
    main()
