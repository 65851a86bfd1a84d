"""What a verification says in the end, and whether a note was signed by a key that may sign it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from filejobs_dagster.audit.note import NoteError, open_note, text_of
from filejobs_dagster.audit.rows import EV_AHEAD, genesis
from filejobs_dagster.audit.session import UNKNOWN
from filejobs_dagster.audit.statement import LostPin, sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.audit.note import TrustedKeys
    from filejobs_dagster.audit.tables import RestoreRow
    from filejobs_dagster.audit.verify.evidence import ChainFinding, Evidence

Word = Literal["matches", "does not match", "rolled back"]

ROLLED_BACK = "ROLLED_BACK"

_MOST_NAMED = 5
"""A sentence that names more pins is not read; the JSON names all."""

A_CLOCK_WAS_WRONG = frozenset({EV_AHEAD, "PIN_TIME", "SEAL_TIME"})
"""What is left of a clock that was ahead once. It stays a finding, and stops nothing: what it dated
ahead is not due before its time."""

TOLD_ALL_THE_SAME = A_CLOCK_WAS_WRONG | {
    "PIN_AHEAD_TRIM",
    "SEALING_STOPPED",
    "PIN_GONE",
    "PIN_REPLACED",
    "PIN_MARKER",
    "MANIFEST",
}
"""What may be found in a database that is sound up to where it was restored. It stays a finding."""


@dataclass(frozen=True)
class Lost:
    """What pins count that the database does not have.

    Attributes:
        matched_size: How many events the newest pin counts with which the database agrees; 0 when
            it agrees with none.
        matched_head: The hash of the last of them.
        matched_seal: The seal of that pin; 0 for none.
        pins: The pins that are ahead, in order.
        others: What else was found, with these pins left out; a restore is acknowledged only where
            this is empty.
    """

    matched_size: int
    matched_head: bytes
    matched_seal: int
    pins: tuple[LostPin, ...]
    others: tuple[ChainFinding, ...]

    @property
    def to_seq(self) -> int:
        """The last event that was lost."""
        return max((pin.size for pin in self.pins), default=self.matched_size)

    def as_json(self) -> dict[str, Any]:
        """Plain values for `json.dumps`."""
        return {
            "matched_to": self.matched_size,
            "matched_hash": self.matched_head.hex(),
            "matched_seal": self.matched_seal,
            "lost_from": self.matched_size + 1,
            "lost_to": self.to_seq,
            "pins": [
                {"seal": pin.seal_no, "event": pin.size, "hash": pin.head.hex()}
                for pin in self.pins
            ],
        }


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
        unread: How many of the events that are there were not computed again. Nothing is said of
            them: where they are pinned, damage to them is found by a check that reads them.
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
        lost: When pins are ahead of the database: how many events the newest pin counts that still
            matches, and the pins that do not. None otherwise.
        restores: What each declared restore leaves unproven, in words.
    """

    chain: str
    mode: str
    verdict: Word
    findings: tuple[ChainFinding, ...]
    warnings: tuple[ChainFinding, ...]
    ranges: tuple[tuple[int, int], ...]
    rows: int
    unread: int
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
    lost: Lost | None = None
    restores: tuple[str, ...] = ()
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
        plain["lost"] = None if self.lost is None else self.lost.as_json()
        return plain


def conclude(
    evidence: Evidence, found: Sequence[ChainFinding], rest: Sequence[ChainFinding] | None = None
) -> Verification:
    """Put together what was found.

    Args:
        evidence: What was looked at.
        found: By all checks.
        rest: What they find without the pins that are ahead of the database; None when none is.
    """
    lost = None if rest is None else _lost(evidence, rest)
    findings = tuple(one for one in found if one.severity == "finding")
    head = None if evidence.head is None else evidence.head.head_seq
    sealed_to = evidence.seals[-1].size if evidence.seals else 0
    pinned_to = _pinned_to(evidence)
    # Pins that are ahead count other events than those that stand behind the last one that matches.
    protected = sealed_to if pinned_to is None else pinned_to
    if lost is not None:
        protected = lost.matched_size
    unprotected = max(0, evidence.last_seq - protected)
    verdict, explanation = _verdict(evidence, findings, unprotected, lost)
    return Verification(
        chain=evidence.chain,
        mode=str(evidence.mode),
        verdict=verdict,
        findings=findings,
        warnings=tuple(one for one in found if one.severity == "warning"),
        ranges=tuple((scan.start.seq + 1, scan.last.seq) for scan in evidence.scans if scan.count),
        rows=sum(scan.count for scan in evidence.scans),
        unread=_unread(evidence),
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
        lost=lost,
        restores=tuple(_declared(row) for row in evidence.restores),
    )


def _lost(evidence: Evidence, rest: Sequence[ChainFinding]) -> Lost:
    left, ahead = evidence.without_lost_pins()
    size, head, seal_no = 0, genesis(evidence.chain), 0
    for pinned, pin in left.pinned_seals():
        found = evidence.boundaries.get(pin.size)
        # What was not computed is believed of its pin, as everywhere in an incremental look.
        if found is None or found.hash == pin.head:
            size, head, seal_no = pin.size, pin.head, pinned.name.number
    pins = tuple(
        LostPin(pinned.name.number, stated.size, stated.head, sha256_of(pinned.note or ""))
        for pinned in ahead
        if (stated := pinned.statement) is not None
    )
    others = tuple(
        one for one in rest if one.severity == "finding" and one.code not in TOLD_ALL_THE_SAME
    )
    return Lost(size, head, seal_no, pins, others)


def _declared(row: RestoreRow) -> str:
    lost = row.lost
    said = (
        f"Incarnation {row.incarnation} began at {row.restored_at}: {row.actor} declared a restore "
        f"({row.reason})."
    )
    if row.matched_size is None or not lost:
        return f"{said} The newest pin before it counted {row.lost_size} events."
    named = ", ".join(f"{pin.size} as {pin.head.hex()}" for pin in lost)
    said += (
        f" Up to event {row.matched_size} the pins of before agree. The events "
        f"{row.matched_size + 1} to {max(pin.size for pin in lost)} of before are lost; pins name "
        f"{named}."
    )
    if row.survived_size > row.matched_size:
        said += (
            f" The events {row.matched_size + 1} to {row.survived_size} that stand there now are "
            "others, or were not pinned when that was declared: the first seal behind it counts "
            "them, and nothing vouches for the time before that."
        )
    return said


def _pinned_to(evidence: Evidence) -> int | None:
    if evidence.pinned is None:
        return None
    return max((pin.size for _, pin in evidence.pinned_seals()), default=0)


def _verdict(
    evidence: Evidence, findings: tuple[ChainFinding, ...], unprotected: int, lost: Lost | None
) -> tuple[Word, str]:
    codes = {one.code for one in findings}
    if not codes:
        return "matches", _what_matches(evidence, unprotected) + _what_was_not_read(evidence)
    if lost is not None and not lost.others:
        verdict, explanation = _older_state(evidence)
        return verdict, f"{explanation} {_what_is_lost(evidence, lost)}"
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


def _unread(evidence: Evidence) -> int:
    """The events between the base and the last range that no other range has read."""
    if evidence.tail is None:
        return 0
    rolled = sum(min(scan.end, evidence.tail.start.seq) - scan.start.seq
                 for scan in evidence.scans[:-1])  # fmt: skip
    return max(0, evidence.tail.start.seq - evidence.base.seq - rolled)


def _what_was_not_read(evidence: Evidence) -> str:
    unread = _unread(evidence)
    if not unread or evidence.tail is None:
        return ""
    return (
        f" Unchanged since the pin: {unread} older event(s) up to {evidence.tail.start.seq} were "
        "not read, so damage to them would not show here. A full check reads them, and so do all "
        "parts of a rolling one."
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


def _what_is_lost(evidence: Evidence, lost: Lost) -> str:
    named = ", ".join(f"{pin.size} as {pin.head.hex()}" for pin in lost.pins[:_MOST_NAMED])
    more = len(lost.pins) - _MOST_NAMED
    said = (
        f"The newest pin that still matches counts {lost.matched_size} events (seal "
        f"{lost.matched_seal}). The events {lost.matched_size + 1} to {lost.to_seq} that were "
        f"pinned are not here; pins name {named}{f' and {more} more' if more > 0 else ''}."
    )
    if evidence.last_seq > lost.matched_size:
        said += (
            f" The events {lost.matched_size + 1} to {evidence.last_seq} that are here are others, "
            "or were not pinned yet."
        )
    return said


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


# Whether a note was signed by a key that may sign it.


def signature_problem(note: str, seal_no: int, trusted: TrustedKeys) -> str | None:
    """Say what is wrong with a note's signatures, or None.

    Args:
        note: The whole note.
        seal_no: The number of the seal that decides which keys count.
        trusted: The keys that are believed; without any nothing is wrong.
    """
    if not trusted.configured:
        return None
    if seal_no <= trusted.unsigned_through and text_of(note) == note:
        return None
    keys = trusted.for_seal(seal_no)
    if not keys:
        return f"no key that is known may sign seal {seal_no}"
    try:
        open_note(note, keys)
    except NoteError as error:
        return str(error)
    return None
