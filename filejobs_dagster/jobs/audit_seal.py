"""audit_seal: states where each audit chain has reached, and pins it outside of the database.

`scanned` is the number of chains that were looked at, `acted` the number of seals that were
written. A chain that is refused does not keep the others from being sealed; the run fails all the
same, with the code. A dry run verifies what a live one would, says what it would seal, and writes
neither a seal nor a pin.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.seal import SealPolicy, chains_by_need, seal_chain
from filejobs_dagster.jobs.audit_setup import (
    NOT_FINISHED,
    SHOWN,
    Trouble,
    Troubles,
    teaching,
    where_pins_are,
)
from filejobs_dagster.ledger.outcome import Outcome

if TYPE_CHECKING:
    from datetime import timedelta

    from filejobs_dagster.audit.seal import Sealed
    from filejobs_dagster.jobs.audit import AuditSealRun
    from filejobs_dagster.run_context import RunContext

JOB = "audit_seal"


def run(context: RunContext, request: AuditSealRun, policy: SealPolicy) -> Outcome:
    """Seal every chain, or in a dry run say what would be sealed.

    Args:
        context: The run.
        request: Its limits.
        policy: How chains are sealed.

    Returns:
        The outcome: failed when any chain was refused or could not be pinned.

    Raises:
        JobFailed: The chains could not be listed; nothing was sealed.
        GivenUp: The run's record stands already.
        LeaseLost: Its locks are gone.
    """
    ends_at = time.monotonic() + request.max_runtime.total_seconds()
    with teaching():
        chains = chains_by_need(context.database, context.connection, policy.verify)
        about = where_pins_are(policy.verify)
    sealing = _Sealing(context, policy, about)
    for place, chain in enumerate(chains):
        if time.monotonic() >= ends_at:
            sealing.stop(chains[place:], request.max_runtime)
            break
        sealing.seal(chain)
    return sealing.outcome()


class _Sealing:
    """A run at work."""

    def __init__(self, context: RunContext, policy: SealPolicy, about: dict[str, Any]) -> None:
        self._context = context
        self._policy = policy
        self._about = about
        self._looked_at = 0
        self._sealed: list[Sealed] = []
        self._troubles = Troubles()
        self._truncated = False

    def seal(self, chain: str) -> None:
        context = self._context
        if context.live:
            context.prove_alive()
        with self._troubles.of(chain):
            self._sealed.append(
                seal_chain(
                    context.database,
                    context.connection,
                    chain,
                    self._policy,
                    live=context.live,
                    lease=context.lease,
                )
            )
        self._looked_at += 1
        with context.database.transaction(context.connection) as cursor:
            context.progress.advance(
                cursor, scanned=self._looked_at, acted=self._made(), detail=self._detail()
            )
        did = "sealed" if context.live else "would seal"
        context.log.info(
            "chain %s: %s", chain, f"{did} {self._sealed[-1].size:,} events"
            if self._sealed and self._sealed[-1].chain == chain
            else str(self._troubles.found[-1]),
        )  # fmt: skip

    def stop(self, left: list[str], limit: timedelta) -> None:
        self._truncated = True
        for chain in left:
            message = f"the run's time ({limit}) was over before this chain; give it more"
            self._troubles.add(Trouble(chain, NOT_FINISHED, message))

    def outcome(self) -> Outcome:
        verb = "was not sealed" if self._context.live else "would not be sealed"
        many = len({trouble.chain for trouble in self._troubles.found})
        summary = f"{many} of {self._looked_at or many} chains {verb} as it should be."
        return Outcome(
            scanned=self._looked_at,
            acted=self._made(),
            detail=self._detail(),
            error=self._troubles.error(summary),
        )

    def _made(self) -> int:
        return sum(sealed.made for sealed in self._sealed)

    def _detail(self) -> dict[str, Any]:
        live = self._context.live
        events = sum(sealed.events for sealed in self._sealed)
        return {
            **self._about,
            "sealed_events" if live else "would_seal_events": events,
            "unsigned_seals": sum(not sealed.signed for sealed in self._sealed),
            "unpinned_seals": sum(not sealed.pinned for sealed in self._sealed) if live else None,
            "pinned_late": sum(len(sealed.pinned_late) for sealed in self._sealed),
            "chains": [_row(sealed) for sealed in self._sealed[:SHOWN]],
            "findings": self._troubles.as_rows(),
            "truncated": self._truncated,
            "swept": live and not self._troubles.found,
            "explained": self._explained(),
        }

    def _explained(self) -> str:
        words = []
        if not self._policy.signers:
            words.append("Seals are not signed: the settings name no key.")
        if self._policy.verify.pins is None:
            words.append(
                "Seals are not pinned: the settings name no place outside of the database, so "
                "whoever may write it can make new ones."
            )
        elif not self._policy.verify.pins.protects:
            words.append("The pins' place does not lock what it holds.")
        return " ".join(words)


def _row(sealed: Sealed) -> dict[str, str | int]:
    return {
        "chain": sealed.chain,
        "seal": sealed.seal_no,
        "events": sealed.size,
        "new": sealed.events,
        "written": "yes" if sealed.made else "no",
        "signed": "yes" if sealed.signed else "no",
        "pinned": "yes" if sealed.pinned else "no",
    }
