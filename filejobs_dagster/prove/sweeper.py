"""The project's storage_orphans itself, run as every door runs it, with a client beside it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.jobs import storage_orphans
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.jobs.storage_orphans.settings import UNREHEARSED, BreakersSettings
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.prove.collector import new_run
from filejobs_dagster.prove.evidence import NotShown
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.settings.storage import IgnoredColumn, NamedElsewhereSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.prove.stage import Scene
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import SourceSettings

BEFORE_DELETING = "were seen by an earlier run"

_NOTHING_ELSEWHERE = NamedElsewhereSettings(
    ignore=[IgnoredColumn(column="*", reason="whoever lends a database has nothing of ours in it")]
)
"""A proof reads no table of others, and none keeps what the careless version would lose."""

_ALL_MAY_GO = BreakersSettings(
    max_orphan_fraction=1,
    max_missing_fraction=1,
    max_named_elsewhere_fraction=1,
    max_ambiguous_fraction=1,
    max_reference_shrink=1,
    max_newer=1_000_000,
)
"""Breakers would end a demonstration with three objects before it shows anything."""


@dataclass(frozen=True)
class Moment:
    """When a client acts: as soon as the run logs a line with this text."""

    text: str
    act: Callable[[], object]


def sweep(
    scene: Scene,
    store: Store,
    moment: Moment | None = None,
    sources: tuple[SourceSettings, ...] = (),
) -> Outcome:
    """Run `storage_orphans` live from its locks to its final word, objects of any age.

    Args:
        scene: Where the tables are.
        store: Where the bytes are; adopted on the way.
        moment: What a client does meanwhile.
        sources: In addition to the project's own tables.

    Raises:
        NotShown: The run never came to the moment.
    """
    bucket = store.settings.model_copy(
        update={
            "min_age": timedelta(0),
            "sources": list(sources),
            "named_elsewhere": _NOTHING_ELSEWHERE,
        }
    )
    log = logging.Logger("filejobs_dagster.prove.sweeps", logging.INFO)  # noqa: LOG001 (one run's)
    waiting = _Waiting(moment)
    log.addHandler(waiting)

    def body(context: RunContext) -> Outcome:
        with ReferenceCheck(
            context.connection, bucket.sources, schema=context.database.schema
        ) as references:
            storage = storage_orphans.Storage(
                entry="prove",
                bucket=bucket,
                client=store.client,
                gate=Gate(store.client, bucket, references),
                references=references,
            )
            request = storage_orphans.StorageOrphansRun.model_construct(
                confirm_after=timedelta(0),
                breakers=_ALL_MAY_GO,
                parts=1,
                override=storage_orphans.Override(
                    breakers=(UNREHEARSED,), reason="a proof's bucket, made for it"
                ),
            )
            return storage_orphans.run(context, request, storage)

    store.adopt(scene.database)
    job = storage_orphans.JOB
    outcome = run_job(RunSpec(new_run(job=job)), scene.database, body, log, door=store.door(job))
    if moment is not None and not waiting.came:
        raise NotShown(f"the sweep never came to {moment.text!r}: {outcome.error}")
    return outcome


class _Waiting(logging.Handler):
    """Lets the client act in the run's own thread, at one line of its log."""

    def __init__(self, moment: Moment | None) -> None:
        super().__init__()
        self._moment = moment
        self.came = False

    def handle(self, record: logging.LogRecord) -> bool:
        """Errors of the client are raised, which `emit` would swallow."""
        moment = self._moment
        if moment is not None and not self.came and moment.text in record.getMessage():
            self.came = True
            moment.act()
        return True
