"""Runs of jobs that something else runs: it says when they begin and how they end.

No process of such a run holds a lock that could be looked at. So its row says until when its end
must have been heard of: a start without an end is a failure from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from filejobs_dagster.ledger.mirror import ENDS_BY, FinishedRun, mirror
from filejobs_dagster.ledger.outcome import EVERYTHING, sanitized_detail
from filejobs_dagster.ledger.progress import Progress
from filejobs_dagster.postgres.connect import database_now

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta
    from typing import Any

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.ledger.progress import RunIdentity
    from filejobs_dagster.postgres.connect import Connection, Database

# A clock that is ahead must write no start of the future.
_BEGIN = """
INSERT INTO job_progress
    (run_id, installation, job, mode, trigger, trigger_name, holder, started_at, detail)
SELECT %(run_id)s, %(installation)s, %(job)s, 'live', %(trigger)s, %(trigger_name)s, %(holder)s,
       began.at,
       %(detail)s || jsonb_build_object(%(ends_by)s::text, began.at + %(within)s::interval)
  FROM (SELECT least(coalesce(%(started_at)s, clock_timestamp()), clock_timestamp())) AS began (at)
ON CONFLICT (run_id) DO NOTHING
"""

_NEWEST_OPEN = """
SELECT run_id
  FROM job_progress
 WHERE installation = %(installation)s
   AND job = %(job)s
   AND trigger_name IS NOT DISTINCT FROM %(trigger_name)s
   AND detail ? %(ends_by)s
   AND outcome IS NULL
   AND closed_at IS NULL
 ORDER BY started_at DESC
 LIMIT 1
"""


def begin(
    database: Database,
    connection: Connection,
    identity: RunIdentity,
    within: timedelta,
    *,
    started_at: datetime | None = None,
    detail: Mapping[str, Any] | None = None,
) -> bool:
    """Write that a run has begun, unless that is written already.

    Args:
        database: Where the ledger is.
        connection: An open connection to it.
        identity: Which run.
        within: In which time its end must be heard of.
        started_at: When it began; now, where nobody says.
        detail: What else is known of it.

    Returns:
        True when this call wrote it.
    """
    values = {
        "run_id": identity.run_id,
        "installation": identity.installation,
        "job": identity.job,
        "trigger": identity.trigger.kind,
        "trigger_name": identity.trigger.name,
        "holder": identity.holder,
        "started_at": started_at,
        "within": within,
        "ends_by": ENDS_BY,
        "detail": Jsonb(
            sanitized_detail({"window": EVERYTHING.as_detail(), **(dict(detail or {}))})
        ),
    }
    with database.transaction(connection) as cursor:
        return cursor.execute(_BEGIN, values).rowcount == 1


def end(
    database: Database,
    connection: Connection,
    identity: RunIdentity,
    outcome: Outcome,
    known_secrets: tuple[str, ...] = (),
) -> bool:
    """Write how a run ended, and its record.

    Returns:
        True when this call wrote the record.

    Raises:
        GivenUp: Its record stands already: it was given up, or somebody has said how it ended.
    """
    with database.transaction(connection) as cursor:
        Progress(identity).finish(cursor, outcome.sanitized(known_secrets))
    return record(database, connection, identity, known_secrets)


def record(
    database: Database,
    connection: Connection,
    identity: RunIdentity,
    known_secrets: tuple[str, ...] = (),
) -> bool:
    """Write the record of a run that has said its final word, if it lacks.

    Returns:
        True when this call wrote it.
    """
    with database.transaction(connection, read_only=True) as cursor:
        now = database_now(cursor)
    run = FinishedRun(
        run_id=identity.run_id,
        installation=identity.installation,
        job=identity.job,
        ended="unseen",
        trigger=identity.trigger,
        created_at=now,
        known_secrets=known_secrets,
    )
    return mirror(database, connection, run)


def newest_open(database: Database, connection: Connection, identity: RunIdentity) -> str | None:
    """The run of the job that the same reporter began last, and whose end is still to come."""
    values = {
        "installation": identity.installation,
        "job": identity.job,
        "trigger_name": identity.trigger.name,
        "ends_by": ENDS_BY,
    }
    with database.transaction(connection, read_only=True) as cursor:
        row = cursor.execute(_NEWEST_OPEN, values).fetchone()
    return None if row is None else str(row[0])
