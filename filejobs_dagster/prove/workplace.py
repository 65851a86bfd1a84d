"""Any job of the project itself, run as every door runs it, with what a bucket's job needs."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.prove.collector import new_run
from filejobs_dagster.prove.evidence import NotShown
from filejobs_dagster.references.check import ReferenceCheck

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from filejobs_dagster.door.door import Door
    from filejobs_dagster.door.guard import Guard
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.prove.stage import Scene
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.run_context import RunContext

# A run's log is not part of the report; how it ended is in its outcome.
_LOG = logging.getLogger("filejobs_dagster.prove.jobs")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


@dataclass(frozen=True)
class Workplace:
    """What a live run over a bucket works with.

    Attributes:
        context: The run.
        store: Where the bytes are.
        references: The project's own tables, and no other source.
        gate: The only way to delete.
    """

    context: RunContext
    store: Store
    references: ReferenceCheck
    gate: Gate


def run_in_bucket(
    scene: Scene, store: Store, job: str, body: Callable[[Workplace], Outcome]
) -> Outcome:
    """Run a job live, from its locks to its final word.

    Raises:
        NotShown: It failed.
    """
    outcome = _run_in_bucket(scene, store, job, body, store.door(job))
    return _succeeded(job, outcome)


def refused_in_bucket(
    scene: Scene,
    store: Store,
    job: str,
    body: Callable[[Workplace], Outcome],
    guards: Sequence[Guard],
) -> str:
    """As `run_in_bucket`, for a run that its guards refuse; returns what they say.

    Raises:
        NotShown: It succeeded.
    """
    outcome = _run_in_bucket(scene, store, job, body, store.door(job, guards))
    if outcome.error is None:
        raise NotShown(f"the project's {job} was not refused")
    return outcome.error


def _run_in_bucket(
    scene: Scene, store: Store, job: str, body: Callable[[Workplace], Outcome], door: Door
) -> Outcome:
    def work(context: RunContext) -> Outcome:
        with ReferenceCheck(
            context.connection, store.settings.sources, schema=context.database.schema
        ) as references:
            gate = Gate(store.client, store.settings, references)
            return body(Workplace(context, store, references, gate))

    store.adopt(scene.database)
    return _run(scene, job, work, door)


def run_in_database(scene: Scene, job: str, body: Callable[[RunContext], Outcome]) -> Outcome:
    """As `run_in_bucket`, for a job that has to do with the database alone."""
    return _succeeded(job, _run(scene, job, body, None))


def _run(
    scene: Scene, job: str, body: Callable[[RunContext], Outcome], door: Door | None
) -> Outcome:
    return run_job(RunSpec(new_run(job=job)), scene.database, body, _LOG, door=door)


def _succeeded(job: str, outcome: Outcome) -> Outcome:
    if not outcome.ok:
        raise NotShown(f"the project's {job} failed: {outcome.error}")
    return outcome
