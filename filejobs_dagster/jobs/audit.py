"""The three jobs of the audit chain: what they can be told, and what they are.

What they sign with, where pins go and whom they believe stands in the section `audit`.

The words of their records are here as well: the reference is made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StrictInt

from filejobs_dagster.collector import Collector
from filejobs_dagster.settings.audit import RollingParts
from filejobs_dagster.settings.cron import shortest_pause
from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Around, Found, JobSettings, MaxRuntime, OneRun, Run
from filejobs_dagster.settings.values import duration_in
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from filejobs_dagster.collector import Resources
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

Check = Literal["full", "incremental", "rolling"]

LongestChain = Annotated[
    MaxRuntime,
    Run(
        "No further chain is begun after this time, and the run fails, with a unit: 30m, 2h; at "
        "most {most}.",
        safer="less",
    ),
]


class AuditSealSettings(JobSettings):
    """What `audit_seal` can be told; what it signs with and where pins go stands in `audit`."""

    max_runtime: LongestChain = Field(
        default=timedelta(minutes=30),
        description="How long one run may take before it stops and says so.",
        examples=["30m"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Refuse a limit: a chain left out would look sealed."""
        yield from super().across(said)
        yield from _every_chain(said)

    @classmethod
    def beside(cls, said: Mapping[str, Any], around: Around) -> Iterator[Found]:
        """Find an age of pins that each of them reaches before the next is made."""
        most = duration_in(around.audit.get("max_pin_age"))
        pause = shortest_pause(said.get("schedule"))
        if most is None or pause is None or around.audit.get("pins") is None or most >= pause:
            return
        yield (
            ("audit", "max_pin_age"),
            mistake(
                f"it is {format_duration(most)}, and audit_seal makes a pin every "
                f"{format_duration(pause)}: sealing would read stopped in between",
                f"write more than {format_duration(pause)}",
            ),
        )


class AuditTrimSettings(JobSettings):
    """What `audit_trim` can be told; how long events are kept stands in `audit`."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most events to remove in this run, over all chains, {least} to {most}. What is left "
            "is reported as truncated.",
            safer="less",
        ),
    ] = Field(
        default=1_000_000,
        ge=1,
        le=100_000_000,
        description="The most events one run removes, over all chains. The rest waits for the "
        "next run.",
        examples=[1_000_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run(
            "Events in one transaction, each with a receipt of its own, {least} to {most}.",
            safer="less",
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="How many events one transaction removes; each has a receipt of its own.",
        examples=[10_000],
    )

    @classmethod
    def beside(cls, said: Mapping[str, Any], around: Around) -> Iterator[Found]:
        """Find what `audit` must say before anything is removed."""
        del said
        if around.audit.get("retention") is None:
            yield (
                ("audit", "retention"),
                mistake(
                    "it is missing, and audit_trim removes events that are older",
                    "write how long an event is kept, with a unit, such as 400d",
                ),
            )
        if around.audit.get("pins") is None:
            yield (
                ("audit", "pins"),
                mistake(
                    "it is missing, and audit_trim removes only what a copy outside of the "
                    "database covers",
                    "write bucket and prefix, or a folder to try it out",
                ),
            )


class AuditVerifySettings(JobSettings):
    """What `audit_verify` can be told; whom it believes stands in `audit`."""

    mode: Literal["dry"] = Field(
        default="dry",
        description="Always dry: verifying changes nothing, so there is no live mode.",
        examples=["dry"],
    )
    check: Annotated[
        Check,
        Run(
            "full: every event. incremental: those behind the newest pin. rolling: those, and the "
            "part of the others that was not read for longest.",
            safer="either",
        ),
    ] = Field(
        default="full",
        description="Which events are computed again: all, those behind the newest pin, or those "
        "and the part that was not read for longest.",
        examples=["rolling"],
    )
    max_runtime: LongestChain = Field(
        default=timedelta(minutes=30),
        description="How long one run may take before it stops and says so.",
        examples=["30m"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Refuse a limit: a chain left out would look verified."""
        yield from super().across(said)
        yield from _every_chain(said)


def _every_chain(said: Mapping[str, Any]) -> Iterator[Found]:
    if said.get("limit") is not None:
        yield ("limit",), mistake("it takes every chain, whole", "leave limit out")


class AuditSealRun(OneRun, AuditSealSettings):
    """What one run does. No further chain is begun after `max_runtime`; then the run fails."""


class AuditTrimRun(OneRun, AuditTrimSettings):
    """What one run does."""


class AuditVerifyRun(OneRun, AuditVerifySettings):
    """What one run computes again. After `max_runtime` no further chain is begun: it fails."""

    parts: Annotated[
        RollingParts,
        Run(
            "In how many parts a rolling check takes what is sealed, {least} to {most}.",
            otherwise=lambda settings: settings.audit.rolling,
            safer="either",
        ),
    ] = 7


def _seal(run: RunContext, request: AuditSealRun, has: Resources) -> Outcome:
    from filejobs_dagster.jobs import audit_seal, audit_setup  # noqa: PLC0415 (heavy)
    from filejobs_dagster.jobs.audit_setup import teaching  # noqa: PLC0415 (heavy)

    with teaching():
        policy = audit_setup.seal_policy(has.settings)
    return audit_seal.run(run, request, policy)


def _trim(run: RunContext, request: AuditTrimRun, has: Resources) -> Outcome:
    from filejobs_dagster.jobs import audit_setup, audit_trim  # noqa: PLC0415 (heavy)
    from filejobs_dagster.jobs.audit_setup import teaching  # noqa: PLC0415 (heavy)

    with teaching():
        policy = audit_setup.trim_policy(has.settings)
    return audit_trim.run(run, request, policy)


def _verify(run: RunContext, request: AuditVerifyRun, has: Resources) -> Outcome:
    from filejobs_dagster.jobs import audit_setup, audit_verify  # noqa: PLC0415 (heavy)
    from filejobs_dagster.jobs.audit_setup import teaching  # noqa: PLC0415 (heavy)

    with teaching():
        policy = audit_setup.verify_policy(has.settings)
    return audit_verify.run(run, request, policy)


# SELECT … FOR UPDATE needs UPDATE as well.
_READS = tuple(
    (table, "SELECT")
    for table in (
        "audit_event", "audit_seal", "audit_checkpoint", "audit_restore", "audit_hold", "audit_pin",
    )
)  # fmt: skip

SEAL = Collector(
    name="audit_seal",
    summary="States where each audit chain has reached, and pins it outside.",
    touches=frozenset({"chain"}),
    settings=AuditSealSettings,
    request=AuditSealRun,
    run=_seal,
    states_now=True,
    dry_run="true: verify, say what would be sealed, write neither seal nor pin. false: seal. "
    "(`allow_live: false` in filejobs.yaml forbids false.)",
    privileges=(
        *_READS,
        ("audit_seal", "INSERT"),
        ("audit_pin", "INSERT"),
    ),
)

TRIM = Collector(
    name="audit_trim",
    summary="Cuts a sealed and pinned prefix of the audit log.",
    touches=frozenset({"chain"}),
    settings=AuditTrimSettings,
    request=AuditTrimRun,
    run=_trim,
    dry_run="true: verify, say what would go or be refused, remove nothing. false: remove. "
    "(`allow_live: false` in filejobs.yaml forbids false.)",
    privileges=(
        *_READS,
        ("audit_event", "DELETE"),
        ("audit_checkpoint", "INSERT"),
        ("audit_pin", "INSERT"),
    ),
    reads=frozenset({"audit.archive"}),
)

VERIFY = Collector(
    name="audit_verify",
    summary="Verifies the audit chains against seals and pins.",
    touches=frozenset(),
    settings=AuditVerifySettings,
    request=AuditVerifyRun,
    run=_verify,
    states_now=True,
    dry_run="Verifying changes nothing, so every run of it is a dry one, whatever stands here, and "
    "counts as having verified.",
    privileges=_READS,
)

JOBS: tuple[Collector[Any, Any], ...] = (SEAL, TRIM, VERIFY)


# What records of the audit jobs say, in words: the reference is made of it.

SEAL_FIELDS: Mapping[str, str] = {
    "scanned; acted": "chains looked at; seals written. A dry run writes none and pins none",
    "sealed_events; would_seal_events": "events that no earlier seal counted, live and dry",
    "unsigned_seals; unpinned_seals": (
        "seals of this run without a signature, without a copy outside"
    ),
    "pinned_late": "older seals that were pinned first",
    "chains": "one row per chain",
    "findings": (
        "what was refused, by chain and code; any of it fails the run. The other chains are sealed"
    ),
    "signatures; pins; explained": (
        "what the seals are worth: the place of the pins, and what is missing"
    ),
}
"""Fields of a run of `audit_seal`."""

TRIM_FIELDS: Mapping[str, str] = {
    "scanned; acted": "events that are older than the retention; events removed",
    "would_trim_events": "in a dry run: what a live one would remove",
    "checkpoints": "receipts, one per batch",
    "retention_seconds; archived": "the rule of this run",
    "chains": (
        "one row per chain: what is due, what was planned, and what stopped it: `RETENTION` "
        "(everything that is due goes), `SEAL` (up to the last boundary of a pinned seal), "
        "`LEGAL_HOLD` (up to the first hold), `WOULD_EMPTY` (all but the newest event), "
        "`refused`"
    ),
    "chains_left_out": "chains that were not looked at, because limit or time was over",
    "truncated; stopped_reason; oldest_left": (
        "`limit` or `max_runtime` ended the run; since when the oldest event that could have "
        "gone is due"
    ),
    "swept": "live, nothing refused, nothing left that could have gone",
}
"""Fields of a run of `audit_trim`."""

VERIFY_FIELDS: Mapping[str, str] = {
    "scanned; acted": "events computed again; always 0",
    "check": "which check, and which part",
    "chains_verified; verified_events": (
        "chains without a finding, and how many of their events were computed"
    ),
    "unread_events": "events that this run did not compute",
    "read": (
        "of a rolling check: when each part was read last, and since when all were "
        "(`all_read_since`)"
    ),
    "unprotected_events": (
        "events behind the newest pin. They are linked, and never called verified"
    ),
    "chains": "one row per chain: verdict, head, trimmed, sealed and pinned to, unprotected",
    "findings; warnings": "chain, code, first event, how often, in words. Findings fail the run",
    "truncated": "the time was over before every chain was looked at; such a run fails",
}
"""Fields of a run of `audit_verify`."""
