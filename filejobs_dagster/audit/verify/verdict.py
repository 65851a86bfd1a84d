"""What a verification says in the end."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from filejobs_dagster.audit.session import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.audit.verify.evidence import Evidence
    from filejobs_dagster.audit.verify.registry import Finding

Word = Literal["matches", "does not match", "rolled back"]

ROLLED_BACK = "ROLLED_BACK"

_OF_AN_OLDER_STATE = frozenset({"PIN_AHEAD_SEAL", "PIN_AHEAD_TRIM", "PIN_TAIL", "SEALING_STOPPED"})
"""What is found when a database is sound and older than what stands outside."""


@dataclass(frozen=True)
class Verification:
    """The result for one chain.

    Attributes:
        chain: Its name.
        mode: Which events were computed again, in words.
        verdict: `rolled back` when the database is sound, older than its pins, and runs on another
            server or timeline than they name. `does not match` speaks of no attack: a broken disk
            gives the same.
        findings: What does not match.
        warnings: What is told and does not make the verdict.
        ranges: First and last event of each range that was computed again.
        rows: How many events those were.
        head_seq: The newest event by the head row; None without one.
        trimmed_to: Up to which event the chain was trimmed.
        sealed_to: How many events the newest seal counts.
        newest_seal: Its number; 0 for none.
        pinned_to: How many events the newest pin counts; None without a place for pins.
        unprotected: How many events stand behind the newest pin (without pins: the newest seal).
            They are linked and nothing else: whoever may write the table may have changed them.
        signatures: Whether signatures were checked.
        pins: Where the pins are, in words; None without.
        explanation: What the verdict means, in a sentence.
        checked_at: The database's time, ISO 8601.
    """

    chain: str
    mode: str
    verdict: Word
    findings: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    ranges: tuple[tuple[int, int], ...]
    rows: int
    head_seq: int | None
    trimmed_to: int
    sealed_to: int
    newest_seal: int
    pinned_to: int | None
    unprotected: int
    signatures: bool
    pins: str | None
    explanation: str
    checked_at: str
    codes: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        """Collect the codes of the findings."""
        object.__setattr__(self, "codes", frozenset(one.code for one in self.findings))

    @property
    def clean(self) -> bool:
        """Whether nothing was found."""
        return self.verdict == "matches"

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        plain = asdict(self)
        plain["codes"] = sorted(self.codes)
        plain["ranges"] = [list(one) for one in self.ranges]
        return plain


def conclude(evidence: Evidence, found: Sequence[Finding]) -> Verification:
    """Put together what was found."""
    findings = tuple(one for one in found if one.severity == "finding")
    head = None if evidence.head is None else evidence.head.head_seq
    sealed_to = evidence.seals[-1].size if evidence.seals else 0
    pinned_to = _pinned_to(evidence)
    protected = sealed_to if pinned_to is None else pinned_to
    unprotected = max(0, evidence.last_seq - protected)
    verdict, explanation = _verdict(evidence, findings, unprotected)
    return Verification(
        chain=evidence.chain,
        mode=str(evidence.mode),
        verdict=verdict,
        findings=findings,
        warnings=tuple(one for one in found if one.severity == "warning"),
        ranges=tuple((scan.start.seq + 1, scan.last.seq) for scan in evidence.scans if scan.count),
        rows=sum(scan.count for scan in evidence.scans),
        head_seq=head,
        trimmed_to=evidence.base.seq,
        sealed_to=sealed_to,
        newest_seal=evidence.seals[-1].seal_no if evidence.seals else 0,
        pinned_to=pinned_to,
        unprotected=unprotected,
        signatures=evidence.policy.trusted.configured,
        pins=None if evidence.policy.pins is None else evidence.policy.pins.description,
        explanation=explanation,
        checked_at=evidence.now.isoformat(),
    )


def _pinned_to(evidence: Evidence) -> int | None:
    if evidence.pinned is None:
        return None
    return max((pin.size for _, pin in evidence.pinned_seals()), default=0)


def _verdict(
    evidence: Evidence, findings: tuple[Finding, ...], unprotected: int
) -> tuple[Word, str]:
    codes = {one.code for one in findings}
    if not codes:
        return "matches", _what_matches(evidence, unprotected)
    if "PIN_AHEAD_SEAL" in codes and codes <= _OF_AN_OLDER_STATE:
        return _older_state(evidence)
    if codes == {"SEALING_STOPPED"}:
        return "does not match", (
            "Every event that was computed matches, but nothing is sealed any more, or never was: "
            f"nobody vouches for the newest {unprotected} event(s). Find out why audit_seal does "
            "not run, and run it."
        )
    return "does not match", (
        "The log does not match what it says of itself or what stands outside. A broken disk and "
        "an attack look alike: keep the database as it is, and compare with a backup."
    )


def _what_matches(evidence: Evidence, unprotected: int) -> str:
    if evidence.policy.pins is None:
        return (
            "Every event that was computed matches. Nothing stands outside of the database, so "
            "whoever may write it could have made it match."
        )
    if not unprotected:
        return "Every event that was computed matches, and so does what stands outside."
    return (
        "Every event that was computed matches, and so does what stands outside; it says nothing "
        f"of the newest {unprotected} event(s), which no pin counts yet."
    )


def _older_state(evidence: Evidence) -> tuple[Word, str]:
    newest = None if evidence.pinned is None else evidence.pinned.newest_seal(
        evidence.pinned.incarnation
    )  # fmt: skip
    pinned = None if newest is None else newest.statement
    here = evidence.identity
    there = None if pinned is None else (pinned.system_id, pinned.timeline)
    if there is not None and any(
        UNKNOWN not in pair and pair[0] != pair[1] for pair in zip(here, there, strict=True)
    ):
        return "rolled back", (
            f"The database is sound and older than its pins, which name server {there[0]} on "
            f"timeline {there[1]}; this is {here[0]} on timeline {here[1]}. It was restored from "
            "a backup, or a standby took over that had not received everything. Acknowledge the "
            "restore with `filejobs audit restore`; until then nothing is sealed or trimmed."
        )
    if evidence.standby:
        return "does not match", (
            "The database is sound and older than its pins, and it is a standby: it may not have "
            "received yet what they count. Verify again when it has caught up, or on the primary."
        )
    return "does not match", (
        "The database is sound and older than its pins, on the server and the timeline that they "
        "name. A restored snapshot of its volume and a deliberate cut look alike: if it was "
        "restored, acknowledge that with `filejobs audit restore`; if not, its newest part was "
        "removed."
    )
