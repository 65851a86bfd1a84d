"""audit_verify: verifies every audit chain against its seals and its pins.

It changes nothing but the run's own bookkeeping, in any mode: every run of it is a dry one, and
counts as having verified. `scanned` is the number of events that were computed again; `acted` is
always 0. Findings fail the run, with chain, code and first event. What stands behind the newest
pin is `unprotected`, never verified.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.verify import (
    Full,
    Incremental,
    Rolling,
    VerifyPolicy,
    known_chains,
    part_of_day,
    verify_chain,
)
from filejobs_dagster.jobs.audit_setup import (
    NOT_FINISHED,
    NOT_READ,
    OWN_CODES,
    SHOWN,
    Trouble,
    Troubles,
    teaching,
    where_pins_are,
)
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.postgres.connect import database_now

if TYPE_CHECKING:
    from filejobs_dagster.audit.verify import Mode, Verification
    from filejobs_dagster.jobs.audit import AuditVerifyRun, Check
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext

JOB = "audit_verify"


def run(context: RunContext, request: AuditVerifyRun, policy: VerifyPolicy) -> Outcome:
    """Verify every chain that the database or the pins know.

    Args:
        context: The run.
        request: What it computes again.
        policy: What is believed.

    Returns:
        The outcome: failed when anything does not match, or a chain could not be verified.

    Raises:
        JobFailed: The chains could not be listed; nothing is said of any.
    """
    ends_at = time.monotonic() + request.max_runtime.total_seconds()
    with teaching():
        chains = known_chains(context.database, context.connection, policy)
        about = where_pins_are(policy)
    reading = None
    if request.check == "rolling":
        reading = _last_reading(context, request.parts)
        mode: Mode = Rolling(request.parts, reading.next_part())
    else:
        mode = mode_for(request.check, request.parts, context.database, context.connection)
    verifying = _Verifying(context, policy, mode, {"check": str(mode), **about}, reading)
    for place, chain in enumerate(chains):
        if time.monotonic() >= ends_at:
            verifying.stop(chains[place:], request.max_runtime)
            break
        verifying.verify(chain)
    verifying.judge_reading()
    return verifying.outcome()


def mode_for(check: Check, parts: int, database: Database, connection: Connection) -> Mode:
    """What is computed again; a rolling check takes the part of the database's day.

    That is for a check without a record of earlier ones: the job has one, and takes the part that
    was not read for longest.
    """
    if check == "full":
        return Full()
    if check == "incremental":
        return Incremental()
    with database.transaction(connection, read_only=True) as cursor:
        return Rolling(parts, part_of_day(database_now(cursor), parts))


@dataclass(frozen=True)
class Reading:
    """When each part of a rolling check was read, as the record of the last run says.

    Attributes:
        since: When the first of these runs began.
        at: When each part was last read, in order; None for one that was not read yet.
        now: The database's time.
    """

    since: datetime
    at: tuple[datetime | None, ...]
    now: datetime

    def next_part(self) -> int:
        """The part that was not read for longest."""
        return min(range(len(self.at)), key=lambda part: self.at[part] or _NEVER)

    def after(self, part: int) -> Reading:
        """The same, once a part was read now."""
        at = [self.now if one == part else moment for one, moment in enumerate(self.at)]
        return replace(self, at=tuple(at))

    @property
    def oldest(self) -> datetime:
        """Since when everything that was sealed by then has been read."""
        return min(moment or self.since for moment in self.at)

    @property
    def late(self) -> bool:
        """Whether some part was not read for as many days as there are parts, and one more."""
        return self.now - self.oldest > timedelta(days=len(self.at) + 1)

    def as_detail(self) -> dict[str, Any]:
        """What stands in a run's record, for people and for the next run."""
        return {
            "since": self.since.isoformat(),
            "at": [None if moment is None else moment.isoformat() for moment in self.at],
            "all_read_since": self.oldest.isoformat() if None not in self.at else None,
        }


_NEVER = datetime.min.replace(tzinfo=timezone.utc)

_LAST_READING = """
SELECT read ->> 'since', read -> 'at'
  FROM (SELECT installation, job, finished_at, detail -> 'read' AS read FROM job_run
         UNION ALL
        -- A run that ended a moment ago has no record yet.
        SELECT installation, job, finished_at, detail -> 'read' FROM job_progress
         WHERE finished_at IS NOT NULL) AS ended
 WHERE installation = %(installation)s AND job = %(job)s
   AND CASE jsonb_typeof(read) WHEN 'object' THEN jsonb_array_length(read -> 'at') END
       = %(parts)s
 ORDER BY finished_at DESC
 LIMIT 1
"""


def _last_reading(context: RunContext, parts: int) -> Reading:
    identity = context.identity
    with context.database.transaction(context.connection, read_only=True) as cursor:
        now = database_now(cursor)
        cursor.execute(
            _LAST_READING,
            {"installation": identity.installation, "job": identity.job, "parts": parts},
        )
        row = cursor.fetchone()
    if row is None:
        return Reading(now, (None,) * parts, now)
    at = tuple(None if text is None else datetime.fromisoformat(text) for text in row[1])
    return Reading(datetime.fromisoformat(row[0]), at, now)


class _Verifying:
    """A run at work."""

    def __init__(
        self,
        context: RunContext,
        policy: VerifyPolicy,
        mode: Mode,
        about: dict[str, Any],
        reading: Reading | None,
    ) -> None:
        self._reading = reading
        self._context = context
        self._policy = policy
        self._mode = mode
        self._about = about
        self._results: list[Verification] = []
        self._troubles = Troubles()
        self._truncated = False

    def verify(self, chain: str) -> None:
        context = self._context
        with self._troubles.of(chain):
            result = verify_chain(
                context.database, context.connection, chain, self._policy, mode=self._mode
            )
            self._results.append(result)
            for finding in result.findings:
                self._troubles.add(
                    Trouble(chain, finding.code, finding.message, finding.seq, finding.count)
                )
            context.log.info(
                "chain %s: %s; %s events computed, %s unprotected",
                chain, result.verdict, f"{result.rows:,}", f"{result.unprotected:,}",
            )  # fmt: skip
        with context.database.transaction(context.connection) as cursor:
            context.progress.advance(
                cursor, scanned=self._computed(), acted=0, detail=self._detail()
            )

    def judge_reading(self) -> None:
        """Count the part as read, and find that one was not read in time."""
        looked_at = all(trouble.code not in OWN_CODES for trouble in self._troubles.found)
        if self._reading is None or not isinstance(self._mode, Rolling):
            return
        if looked_at:
            self._reading = self._reading.after(self._mode.part)
        if self._reading.late:
            parts = len(self._reading.at)
            message = (
                f"not every part was read since {self._reading.oldest.isoformat()}; audit.rolling "
                f"is {parts}, so all are to be read in {parts} days. Run audit_verify each day, or "
                "once with check: full"
            )
            self._troubles.add(Trouble("all chains", NOT_READ, message))

    def stop(self, left: list[str], limit: timedelta) -> None:
        self._truncated = True
        for chain in left:
            message = f"the run's time ({limit}) was over before this chain; give it more"
            self._troubles.add(Trouble(chain, NOT_FINISHED, message))

    def outcome(self) -> Outcome:
        chains = len({trouble.chain for trouble in self._troubles.found})
        summary = (
            f"{len(self._troubles.found)} findings in {chains} chains."
            if len(self._troubles.found) > 1
            else ""
        )
        error = self._troubles.error(summary)
        return Outcome(
            scanned=self._computed(),
            acted=0,
            detail=self._detail(),
            error=None if error is None else error.strip(),
        )

    def _computed(self) -> int:
        return sum(result.rows for result in self._results)

    def _detail(self) -> dict[str, Any]:
        return {
            **self._about,
            "chains_verified": sum(result.clean for result in self._results),
            "verified_events": sum(result.rows for result in self._results if result.clean),
            "unprotected_events": sum(result.unprotected for result in self._results),
            "chains": [_row(result) for result in self._results[:SHOWN]],
            "findings": self._troubles.as_rows(),
            "warnings": [
                Trouble(result.chain, one.code, one.message, one.seq, one.count).as_row()
                for result in self._results
                for one in result.warnings
            ][:SHOWN],
            "unread_events": sum(result.unread for result in self._results),
            "read": None if self._reading is None else self._reading.as_detail(),
            "truncated": self._truncated,
            "swept": not self._troubles.found,
            "explained": " ".join(
                dict.fromkeys(result.explanation for result in self._results)
            ) or "There is no chain yet.",
        }  # fmt: skip


def _row(result: Verification) -> dict[str, str | int]:
    return {
        "chain": result.chain,
        "verdict": result.verdict,
        "computed": result.rows,
        "head": "-" if result.head_seq is None else str(result.head_seq),
        "trimmed to": result.trimmed_to,
        "sealed to": result.sealed_to,
        "pinned to": "-" if result.pinned_to is None else str(result.pinned_to),
        "unprotected": result.unprotected,
    }
