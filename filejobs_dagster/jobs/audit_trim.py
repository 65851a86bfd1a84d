"""audit_trim: removes the oldest events of each audit chain, with a receipt, or refuses by code.

`scanned` is the number of events that are older than the retention, `acted` the number of those
that were removed. What keeps a chain from being trimmed is recorded by its code and fails the run;
the other chains go on. A dry run verifies as a live one does, says what would go, and writes
nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.trim import Batch, TrimPlan, TrimPolicy, trim_chain
from filejobs_dagster.audit.verify import known_chains
from filejobs_dagster.jobs.audit_setup import (
    SHOWN,
    Troubles,
    recorded_after,
    teaching,
    where_pins_are,
)
from filejobs_dagster.ledger.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.audit import AuditTrimRun
    from filejobs_dagster.run_context import RunContext

JOB = "audit_trim"


def run(context: RunContext, request: AuditTrimRun, policy: TrimPolicy) -> Outcome:
    """Trim every chain, or in a dry run say what would go.

    Args:
        context: The run.
        request: Its limits.
        policy: How chains are trimmed; its `batch` is the request's.

    Returns:
        The outcome: failed when any chain was refused.

    Raises:
        JobFailed: The chains could not be listed; nothing was removed.
        GivenUp: The run's record stands already; batches before stay, with their receipts.
        LeaseLost: Its locks are gone.
    """
    with teaching():
        chains = known_chains(context.database, context.connection, policy.verify)
        about = where_pins_are(policy.verify)
    trimming = _Trimming(context, request, policy, about)
    for chain in chains:
        if trimming.may_go_on():
            trimming.trim(chain)
        else:
            trimming.left_out.append(chain)
    return trimming.outcome()


@dataclass
class _Work:
    """What was done to one chain.

    Attributes:
        chain: Which.
        plan: How far it was to go; None when that was refused.
        removed: Events.
        batches: Transactions.
        reached: The last event that went.
        oldest_left: Since when the oldest event that was due and is left is due.
    """

    chain: str
    plan: TrimPlan | None = None
    removed: int = 0
    batches: int = 0
    reached: int = 0
    oldest_left: datetime | None = None

    def take(self, batch: Batch) -> None:
        self.removed += batch.to_seq - batch.from_seq + 1
        self.batches += 1
        self.reached = batch.to_seq


@dataclass
class _Trimming:
    """A run at work."""

    context: RunContext
    request: AuditTrimRun
    policy: TrimPolicy
    about: dict[str, Any]
    works: list[_Work] = field(default_factory=list)
    troubles: Troubles = field(default_factory=Troubles)
    left_out: list[str] = field(default_factory=list)
    stopped: str | None = None
    began: float = field(default_factory=time.monotonic)

    def may_go_on(self, batch: int = 1) -> bool:
        """Whether time and limit leave room for one more batch; else `stopped` says which."""
        if _removed(self.works) + batch > self.request.limit:
            self.stopped = "limit"
        elif time.monotonic() - self.began >= self.request.max_runtime.total_seconds():
            self.stopped = "max_runtime"
        return self.stopped is None

    def trim(self, chain: str) -> None:
        context, work = self.context, _Work(chain)
        self.works.append(work)
        size = min(self.request.batch_size, self.request.limit - _removed(self.works))

        def go_on(before: Batch | None) -> bool:
            if before is not None:
                self._committed(work, before)
            context.prove_alive()
            return self.may_go_on(size)

        def record(cursor: psycopg.Cursor[TupleRow], plan: TrimPlan, batch: Batch) -> None:
            after = replace(work, plan=plan)
            after.take(batch)
            self._advance(cursor, [*self.works[:-1], after])

        with self.troubles.of(chain):
            trimmed = trim_chain(
                context.database,
                context.connection,
                chain,
                replace(self.policy, batch=size),
                live=context.live,
                actor=context.identity.holder,
                run_id=context.identity.run_id,
                go_on=go_on,
                record=record,
                lease=context.lease,
            )
            work.plan = trimmed.plan
            for batch in trimmed.batches[work.batches :]:
                self._committed(work, batch)
            work.oldest_left = self._left(trimmed.plan, work)
        self._commit()

    def _committed(self, work: _Work, batch: Batch) -> None:
        work.take(batch)
        self.context.log.info("chain %s: removed up to event %s", work.chain, f"{work.reached:,}")

    def outcome(self) -> Outcome:
        verb = "were not trimmed" if self.context.live else "would not be trimmed"
        many = len({trouble.chain for trouble in self.troubles.found})
        return Outcome(
            scanned=_due(self.works),
            acted=_removed(self.works),
            detail=self._detail(self.works),
            error=self.troubles.error(f"{many} of {len(self.works)} chains {verb}."),
        )

    def _left(self, plan: TrimPlan, work: _Work) -> datetime | None:
        """Since when the first event that could have gone and did not is due."""
        if not self.context.live or max(work.reached, plan.base) >= plan.to_seq:
            return None
        database, connection = self.context.database, self.context.connection
        with database.transaction(connection, read_only=True) as cursor:
            recorded = recorded_after(cursor, work.chain, max(work.reached, plan.base))
        return None if recorded is None else recorded + self.policy.retention

    def _commit(self) -> None:
        context = self.context
        with context.database.transaction(context.connection) as cursor:
            self._advance(cursor, self.works)

    def _advance(self, cursor: psycopg.Cursor[TupleRow], works: Sequence[_Work]) -> None:
        self.context.progress.advance(
            cursor, scanned=_due(works), acted=_removed(works), detail=self._detail(works)
        )

    def _detail(self, works: Sequence[_Work]) -> dict[str, Any]:
        live = self.context.live
        planned = sum(work.plan.events for work in works if work.plan is not None)
        oldest = min((one.oldest_left for one in works if one.oldest_left), default=None)
        truncated = self.stopped is not None
        return {
            **self.about,
            **({} if live else {"would_trim_events": min(planned, self.request.limit)}),
            "retention_seconds": round(self.policy.retention.total_seconds()),
            "archived": self.policy.archive is not None,
            "checkpoints": sum(work.batches for work in works),
            "chains": [_row(work) for work in works[:SHOWN]],
            "chains_left_out": self.left_out[:SHOWN],
            "findings": self.troubles.as_rows(),
            "truncated": truncated,
            "stopped_reason": self.stopped,
            "oldest_left": None if oldest is None else oldest.isoformat(),
            "swept": live and not truncated and not self.troubles.found,
        }


def _removed(works: Sequence[_Work]) -> int:
    return sum(work.removed for work in works)


def _due(works: Sequence[_Work]) -> int:
    return sum(
        work.removed if work.plan is None else work.plan.due_to - work.plan.base for work in works
    )


def _row(work: _Work) -> dict[str, str | int]:
    plan = work.plan
    if plan is None:
        what = dict.fromkeys(("due", "planned", "from", "to", "seal", "holds"), "-")
        return {"chain": work.chain, "removed": work.removed, "stopped by": "refused", **what}
    return {
        "chain": work.chain,
        "removed": work.removed,
        "stopped by": plan.stopped_by,
        "due": str(plan.due_to - plan.base),
        "planned": str(plan.events),
        "from": str(plan.base + 1) if plan.events else "-",
        "to": str(plan.to_seq) if plan.events else "-",
        "seal": str(plan.covering_seal) if plan.events else "-",
        "holds": str(len(plan.holds)),
    }
