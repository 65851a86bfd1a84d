"""What a verification looks at: everything is read first, and judged afterwards.

The checks are functions from the evidence to what they find; `check` registers them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.audit.note import NO_KEYS, TrustedKeys
from filejobs_dagster.audit.origin import Origin

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.audit.holds import HoldEvent, HoldRow
    from filejobs_dagster.audit.pins.read import Pinned, PinnedChain
    from filejobs_dagster.audit.pins.store import PinStore
    from filejobs_dagster.audit.rows import Boundary, Position, Scan
    from filejobs_dagster.audit.statement import SealStatement
    from filejobs_dagster.audit.tables import ChainRow, CheckpointRow, PutPin, RestoreRow, SealRow
    from filejobs_dagster.postgres.inventory import Change


@dataclass(frozen=True)
class Full:
    """Compute every live event again."""

    def __str__(self) -> str:
        return "full"


@dataclass(frozen=True)
class Incremental:
    """Compute only what came after a seal again; damage below it is not found.

    Attributes:
        since_seal: The number of the seal up to which an earlier run looked, and whose pin is
            believed; None takes the newest pin.
    """

    since_seal: int | None = None

    def __str__(self) -> str:
        return "incremental"


@dataclass(frozen=True)
class Rolling:
    """Incremental, and one part of what lies below: all parts together are everything.

    Attributes:
        parts: In how many parts the live seals are taken.
        part: Which one this time, from 0. `part_of_day` takes one each day.
        since_seal: As in `Incremental`.
    """

    parts: int
    part: int
    since_seal: int | None = None

    def __post_init__(self) -> None:
        """Refuse a part that does not exist: it would look like a check of nothing."""
        if not 0 <= self.part < self.parts:
            raise ValueError(f"There is no part {self.part} of {self.parts}")

    def __str__(self) -> str:
        return f"rolling, part {self.part + 1} of {self.parts}"


@dataclass(frozen=True)
class Sealing:
    """Incremental, and blind for seals and pins before the newest pin: what a new seal must know.

    A chain with hourly seals has thousands of pins after a year, and none of the old ones decides
    whether the chain can be sealed.
    """

    since_seal: None = None

    def __str__(self) -> str:
        return "for sealing"


Mode = Full | Incremental | Rolling | Sealing


def part_of_day(moment: datetime, parts: int) -> int:
    """The part that is due on a day, so that all parts are done in that many days."""
    return moment.toordinal() % parts


@dataclass(frozen=True)
class VerifyPolicy:
    """What a verifier believes. Nothing of it comes from the database.

    Attributes:
        origin: The installation's name in its notes, see `Origin.base`.
        trusted: Public keys. Without any, signatures are not checked.
        pins: Where the copies are; None when there are none, and then the end of the chain and
            its seals are unprotected.
        pin_grace: How long a seal may be without its pin before that is a finding.
        clock_tolerance: How far the clocks of the database and of the pins' place may differ.
        minimum_retention: What every trim must have kept, or None for what its note says.
        seal_max_age: How old the newest pin may be; None for no limit.
    """

    origin: str
    trusted: TrustedKeys = NO_KEYS
    pins: PinStore | None = None
    pin_grace: timedelta = timedelta(minutes=15)
    clock_tolerance: timedelta = timedelta(minutes=5)
    minimum_retention: timedelta | None = None
    seal_max_age: timedelta | None = None

    def origin_of(self, chain: str) -> Origin:
        """The names of one chain."""
        return Origin(self.origin, chain)


@dataclass(frozen=True)
class TrimEvent:
    """A live `audit.trim` event.

    Attributes:
        seq: Its number.
        checkpoint_no: Which checkpoint it names.
        sha256: The hash of that checkpoint's note, in hexadecimal.
    """

    seq: int
    checkpoint_no: str | None
    sha256: str | None


@dataclass(frozen=True)
class StrayTrim:
    """A pinned trim that has no row.

    Attributes:
        pinned: The pin.
        missing: How many events of its range are neither live nor below a checkpoint; None when
            its text cannot be read.
        newest_seal_no: The newest seal when it was cut; None when its text cannot be read.
    """

    pinned: Pinned
    missing: int | None
    newest_seal_no: int | None = None


@dataclass(frozen=True)
class Evidence:
    """One chain at one moment, with what is known of it outside.

    Attributes:
        chain: Its name.
        policy: What the verifier believes.
        origin: Its names outside.
        mode: Which events were computed again.
        now: The database's time in the snapshot.
        identity: The server's system identifier and timeline.
        head: The head row.
        seals: As in the table.
        checkpoints: As in the table.
        restores: As in the table.
        base: Behind which event the live ones begin.
        below_base: How many events stand at or below it, and the first of them.
        scans: The ranges that were computed again.
        boundaries: Head and root at the sizes that somebody claims, where they were computed.
        trim_events: Live events that name a checkpoint.
        holds: Rows of `audit_hold`.
        hold_events: Live events that set or release one.
        pinned: What stands outside; None without a place for pins.
        first_seal: The number from which on seals were read.
        moments: When the events that were computed were recorded, as notes write it: those that
            may be the latest between two claims.
        put_pins: What was ever written down as pinned, by its key.
        stray_trims: Pinned trims without a row.
        began: When the oldest live event was recorded, as notes write it; None without one.
        standby: Whether this is a standby, which may not have received everything yet.
        changes: What of the project's tables is not as the migrations made it.
    """

    chain: str
    policy: VerifyPolicy
    origin: Origin
    mode: Mode
    now: datetime
    identity: tuple[str, str]
    head: ChainRow | None
    seals: list[SealRow]
    checkpoints: list[CheckpointRow]
    restores: list[RestoreRow]
    base: Position
    below_base: tuple[int, int]
    scans: list[Scan]
    boundaries: dict[int, Boundary]
    trim_events: list[TrimEvent]
    holds: list[HoldRow]
    hold_events: list[HoldEvent]
    pinned: PinnedChain | None
    first_seal: int = 1
    moments: dict[int, str] = field(default_factory=dict)
    put_pins: dict[str, PutPin] = field(default_factory=dict)
    stray_trims: list[StrayTrim] = field(default_factory=list)
    began: str | None = None
    standby: bool = False
    changes: list[Change] = field(default_factory=list)

    @property
    def incarnation(self) -> int:
        """As the head row says; 1 where there is none."""
        return 1 if self.head is None else self.head.incarnation

    @property
    def tail(self) -> Scan | None:
        """The scan that goes to the end of the chain."""
        return self.scans[-1] if self.scans else None

    @property
    def last_seq(self) -> int:
        """The newest event that is there."""
        return self.base.seq if self.tail is None else self.tail.last.seq

    def computed(self, size: int) -> bool:
        """Tell whether the events at that size were computed, or should have been there."""
        return size == self.base.seq or any(scan.covers(size) for scan in self.scans)

    def hash_at(self, seq: int) -> bytes | None:
        """The hash of an event, where it was computed or a trim ended there; None elsewhere."""
        found = self.boundaries.get(seq)
        if found is not None:
            return found.hash
        return next((row.last_hash for row in self.checkpoints if row.to_seq == seq), None)

    def survives(self, incarnation: int, seal_no: int) -> bool:
        """Tell whether a seal of an earlier incarnation is part of the chain as it is now.

        An incarnation below this one that no restore began is that of another restored database.
        """
        own = {1, *(restore.incarnation for restore in self.restores)}
        if incarnation < self.incarnation and incarnation not in own:
            return False
        return all(
            seal_no <= restore.survived_seal
            for restore in self.restores
            if restore.incarnation > incarnation
        )

    def without_lost_pins(self) -> tuple[Evidence, list[Pinned]]:
        """The same without the pins that are ahead of the table of seals, and those, in order."""
        if self.pinned is None:
            return self, []
        newest = max((seal.seal_no for seal in self.seals), default=0)
        ahead = {
            key: pin
            for key, pin in sorted(self.pinned.seals.items())
            if key[0] > self.incarnation or (key[0] == self.incarnation and key[1] > newest)
        }
        left = {key: pin for key, pin in self.pinned.seals.items() if key not in ahead}
        manifests = {key: pin for key, pin in self.pinned.manifests.items() if key[:2] not in ahead}
        pinned = replace(self.pinned, seals=left, manifests=manifests)
        return replace(self, pinned=pinned), list(ahead.values())

    def pinned_seals(self) -> list[tuple[Pinned, SealStatement]]:
        """The pinned seals that the chain must agree with and that can be read, in order."""
        if self.pinned is None:
            return []
        found = []
        for (incarnation, number), pinned in sorted(self.pinned.seals.items()):
            statement = pinned.statement
            if statement is not None and self.survives(incarnation, number):
                found.append((pinned, statement))
        return found

    def newest_pin(self) -> Pinned | None:
        """The newest pinned seal of the incarnation."""
        return None if self.pinned is None else self.pinned.newest_seal(self.incarnation)


# The checks: each one is a function from the evidence to what it finds.

Severity = Literal["finding", "warning"]


@dataclass(frozen=True)
class ChainFinding:
    """One thing that does not match.

    Attributes:
        code: Which kind, such as `EV_BODY`.
        message: In words: where, and what was expected.
        seq: The first event that it concerns, or None.
        count: How often.
        severity: A warning is told and does not make the verdict.
    """

    code: str
    message: str
    seq: int | None = None
    count: int = 1
    severity: Severity = "finding"


Check = Callable[[Evidence], Iterable[ChainFinding]]

CHECKS: dict[str, Check] = {}
"""All checks by their names, in the order in which they were defined."""


def check(function: Check) -> Check:
    """Make a function one of the checks."""
    CHECKS[function.__name__] = function
    return function


def first_of(code: str, messages: Iterable[tuple[int | None, str]]) -> Iterable[ChainFinding]:
    """One finding for everything of one kind: the first in words, and how many there are."""
    found = list(messages)
    if found:
        seq, message = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield ChainFinding(code, message + more, seq, len(found))
