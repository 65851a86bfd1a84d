"""own_old_drafts: deletes drafts that nobody goes on with."""

# One condition is put into both statements; every value is a parameter.
# ruff: noqa: S608

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, StrictInt

from filejobs_dagster.audit.append import append
from filejobs_dagster.collector import Collector, Resources
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.settings.section import JobSettings, OneRun, Run
from filejobs_dagster.settings.values import (
    Duration,
    between,
)

if TYPE_CHECKING:
    from filejobs_dagster.run_context import RunContext

# The claim is the write: it repeats every condition, whatever a look has seen before.
DUE = "state = 'open' AND abandoned_at < %(before)s"
LOOK = f"SELECT count(*) FROM public.draft WHERE {DUE}"
CLAIM = f"""
DELETE FROM public.draft
 WHERE id IN (SELECT id FROM public.draft WHERE {DUE} ORDER BY abandoned_at, id
               LIMIT %(size)s FOR UPDATE SKIP LOCKED)
   AND {DUE}
"""


class OldDraftsSettings(JobSettings):
    """What the file can tell it."""

    limit: Annotated[StrictInt, Run("Most drafts to remove, {least} to {most}.", safer="less")] = (
        Field(default=1000, ge=1, le=100_000, description="The most drafts one run removes.")
    )
    older_than: Annotated[
        Duration,
        between(timedelta(days=1)),
        Run("How old a draft must be, with a unit: 7d; at least {least}.", safer="more"),
    ] = Field(default=timedelta(days=30), description="How old a draft must be.")


class Request(OneRun, OldDraftsSettings):
    """The same, with the config of one run applied."""


def run(context: RunContext, request: Request, has: Resources) -> Outcome:
    """Delete what is due in batches of 100; in a dry run count it."""
    del has
    before = context.now() - request.older_than
    database, connection = context.database, context.connection
    if not context.live:
        with database.transaction(connection, read_only=True) as cursor:
            (due,) = cursor.execute(LOOK, {"before": before}).fetchone() or (0,)
        return Outcome(scanned=due, acted=0, detail={"would_collect": due, "swept": False})
    done = 0
    while done < request.limit:
        context.prove_alive()
        size = min(100, request.limit - done)
        with database.transaction(connection) as cursor:
            gone = cursor.execute(CLAIM, {"before": before, "size": size}).rowcount
            # Rows, progress and audit event in one transaction: killed anywhere, all or nothing.
            context.progress.advance(cursor, scanned=done + gone, acted=done + gone, detail={})
            if gone:
                event = {"kind": "rows.deleted", "source": "draft", "rows": gone}
                append(cursor, [event | {"run_id": context.identity.run_id}])
        done += gone
        if gone < size:
            break
    truncated = done >= request.limit
    return Outcome(done, done, {"truncated": truncated, "swept": not truncated})


OLD_DRAFTS = Collector(
    name="own_old_drafts",
    summary="Removes drafts that nobody goes on with.",
    touches=frozenset({"rows"}),
    settings=OldDraftsSettings,
    request=Request,
    run=run,
)
