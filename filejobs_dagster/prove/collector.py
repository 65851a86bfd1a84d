"""The project's collector itself, run as every door runs it."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING

from filejobs_dagster.jobs import upload_reservations
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.mirror import FinishedRun, mirror
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.prove.store import INSTALLATION
from filejobs_dagster.references.check import ReferenceCheck

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.prove.stage import Scene
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.run_context import RunContext

BY_PROVE = Trigger("cli", "filejobs prove")

# A run's log is not part of the report; how it ended is in its outcome.
_LOG = logging.getLogger("filejobs_dagster.prove.runs")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False

_RESERVE = """
INSERT INTO file (storage_key, upload_expires_at)
VALUES (%(key)s, clock_timestamp() - interval '1 hour')
RETURNING id
"""


def reserve(scene: Scene, store: Store, key: str, body: bytes) -> uuid.UUID:
    """Add an expired reservation whose bytes have arrived, and return the row's id."""
    store.put(key, body)
    identity: uuid.UUID = scene.value(_RESERVE, {"key": key})
    return identity


def complete(scene: Scene, file_id: uuid.UUID) -> bool:
    """Say on a backend of its own, as the application would, that an upload has finished."""
    return bool(scene.value("SELECT complete_upload(%(id)s)", {"id": file_id}))


def new_run(mode: Mode = "live", job: str = upload_reservations.JOB) -> RunIdentity:
    """A run that nobody has seen yet."""
    return RunIdentity(
        run_id=str(uuid.uuid4()),
        installation=INSTALLATION,
        job=job,
        mode=mode,
        trigger=BY_PROVE,
        holder="filejobs prove",
    )


def collect(
    database: Database,
    store: Store,
    identity: RunIdentity,
    prepare: Callable[[Connection], object] = lambda _: None,
) -> Outcome:
    """Run `upload_reservations` from its locks to its final word.

    Args:
        database: Where the tables are.
        store: Where the bytes are.
        identity: The run.
        prepare: Gets the run's connection before the job works with it.
    """

    def body(context: RunContext) -> Outcome:
        prepare(context.connection)
        references = ReferenceCheck(
            context.connection, store.settings.sources, schema=context.database.schema
        )
        gate = Gate(store.client, store.settings, references)
        storage = upload_reservations.Storage(store.name, store.client, gate, references)
        return upload_reservations.run(
            context, upload_reservations.UploadReservationsRun(), storage
        )

    store.adopt(database)
    return run_job(RunSpec(identity), database, body, _LOG, door=store.door(identity.job))


def conduct_only(scene: Scene, identity: RunIdentity, body: Callable[[], Outcome]) -> Outcome:
    """Run another body than the collector's, with the same life."""
    return run_job(RunSpec(identity), scene.database, lambda _: body(), _LOG, door=None)


def record(scene: Scene, identity: RunIdentity) -> None:
    """Let the project's mirror write the record of a run that is over."""
    with scene.connect("mirror") as connection:
        with scene.database.transaction(connection, read_only=True) as cursor:
            now = database_now(cursor)
        mirror(
            scene.database,
            connection,
            FinishedRun(
                run_id=identity.run_id,
                installation=identity.installation,
                job=identity.job,
                ended="unseen",
                trigger=identity.trigger,
                created_at=now,
            ),
        )
