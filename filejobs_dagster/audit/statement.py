"""The texts of the notes: what a seal, a manifest, the receipt of a trim and a restore state.

Every number and time stands in the text as it is compared, so that a row agrees with its note when
the text made from the row is the note's text.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from urllib.parse import quote, unquote

NOTHING_BEFORE = bytes(32)
"""The previous note's hash in the first one of a chain."""

_SEAL = re.compile(
    r"(?P<origin>[^\n]+)\n(?P<size>\d{1,18})\n(?P<root>[^\n]+)\n"
    r"head (?P<head>[^\n]+)\n"
    r"seal (?P<seal_no>\d{1,18}) (?P<sealed_at>[^ \n]+) (?P<previous>[^ \n]+)\n"
    r"sys (?P<system_id>[^/\n]+)/(?P<timeline>[^/\n]+)\n"
)
_TRIM = re.compile(
    r"(?P<origin>[^\n]+)#trim\n"
    r"trim (?P<checkpoint_no>\d{1,18}) (?P<from_seq>\d{1,18}) (?P<to_seq>\d{1,18})"
    r" (?P<events>\d{1,18})\n"
    r"root (?P<root>[^\n]+)\n"
    r"hash (?P<prev_hash>[^ \n]+) (?P<last_hash>[^ \n]+)\n"
    r"time (?P<first_at>[^ \n]+) (?P<last_at>[^ \n]+)\n"
    r"seal (?P<seal_no>\d{1,18}) newest (?P<newest_seal_no>\d{1,18})\n"
    r"policy (?P<cutoff>[^ \n]+) (?P<retention>\d{1,18})\n"
    r"by (?P<actor>[^ \n]+) (?P<run_id>[^ \n]+)\n"
    r"archive (?P<archive>[^ \n]+)\n"
    r"previous (?P<previous>[^ \n]+)\n"
)
_MANIFEST = re.compile(
    r"(?P<origin>[^\n]+)#manifest\n"
    r"chain (?P<chain>[^ \n]+) (?P<incarnation>\d{1,10})\n"
    r"(?P<keys>(key [^ \n]+\n)*)"
    r"first (?P<first_seq>\d{1,18}) (?P<first_at>[^ \n]+) (?P<before>[^ \n]+)\n"
    r"newest (?P<seal_no>\d{1,18}) (?P<size>\d{1,18}) (?P<note>[^ \n]+) (?P<sealed_at>[^ \n]+)\n"
)
_RESTORE = re.compile(
    r"(?P<origin>[^\n]+)#restore\n"
    r"survived (?P<survived_seal>\d{1,18}) (?P<survived_size>\d{1,18}) (?P<survived_head>[^ \n]+)\n"
    r"lost (?P<lost_seal>\d{1,18}) (?P<lost_size>\d{1,18}) (?P<lost_note>[^ \n]+)\n"
    r"at (?P<restored_at>[^ \n]+)\n"
    r"by (?P<actor>[^ \n]+) (?P<reason>[^ \n]+)\n"
    r"(matched \d{1,18} [^ \n]+\n(lost-pin \d{1,18} \d{1,18} [^ \n]+ [^ \n]+\n)+)?"
)


class UnreadableStatement(ValueError):
    """The text is no such statement."""


@dataclass(frozen=True)
class SealStatement:
    """Where a chain has reached.

    Attributes:
        origin: The chain's line, see `Origin.line`.
        size: How many events there ever were, those that were trimmed included.
        root: The RFC 6962 root over the hashes of all of them.
        head: The hash of the newest.
        seal_no: The seal's number, from 1.
        sealed_at: As `moment_text` writes it.
        previous: SHA-256 of the note of the seal before.
        system_id: PostgreSQL's system identifier, or `unknown`.
        timeline: PostgreSQL's timeline, or `unknown`.
    """

    origin: str
    size: int
    root: bytes
    head: bytes
    seal_no: int
    sealed_at: str
    previous: bytes
    system_id: str
    timeline: str

    def text(self) -> str:
        """The text of the note: a C2SP checkpoint with three extension lines."""
        return (
            f"{self.origin}\n{self.size}\n{_encoded(self.root)}\n"
            f"head {_encoded(self.head)}\n"
            f"seal {self.seal_no} {self.sealed_at} {_encoded(self.previous)}\n"
            f"sys {self.system_id}/{self.timeline}\n"
        )

    @classmethod
    def parse(cls, text: str) -> SealStatement:
        """Read what `text` wrote.

        Raises:
            UnreadableStatement: It is no seal.
        """
        found = _matched(_SEAL, text, "seal")
        return cls(
            origin=found["origin"],
            size=int(found["size"]),
            root=_decoded(found["root"]),
            head=_decoded(found["head"]),
            seal_no=int(found["seal_no"]),
            sealed_at=found["sealed_at"],
            previous=_decoded(found["previous"]),
            system_id=found["system_id"],
            timeline=found["timeline"],
        )


@dataclass(frozen=True)
class ManifestStatement:
    """What somebody needs to know who has nothing but the place of the pins.

    Attributes:
        origin: The chain's line.
        chain: Its name in the database.
        incarnation: Which one.
        keys: The public keys that sign, as `keygen` prints them.
        first_seq: The oldest event that was not trimmed.
        first_at: When it was recorded, a hyphen when there is none.
        before: The hash that it names as the one before it; the genesis for the first of all.
        seal_no: The seal that is pinned as the newest.
        size: How many events that counts.
        note: SHA-256 of its note.
        sealed_at: When it was made.
    """

    origin: str
    chain: str
    incarnation: int
    keys: tuple[str, ...]
    first_seq: int
    first_at: str
    before: bytes
    seal_no: int
    size: int
    note: bytes
    sealed_at: str

    def text(self) -> str:
        """The text of the note."""
        keys = "".join(f"key {key}\n" for key in self.keys)
        return (
            f"{self.origin}#manifest\n"
            f"chain {word(self.chain)} {self.incarnation}\n{keys}"
            f"first {self.first_seq} {self.first_at} {_encoded(self.before)}\n"
            f"newest {self.seal_no} {self.size} {_encoded(self.note)} {self.sealed_at}\n"
        )

    @classmethod
    def parse(cls, text: str) -> ManifestStatement:
        """Read what `text` wrote.

        Raises:
            UnreadableStatement: It is no manifest.
        """
        found = _matched(_MANIFEST, text, "manifest")
        return cls(
            origin=found["origin"],
            chain=unquote(found["chain"]),
            incarnation=int(found["incarnation"]),
            keys=tuple(line.removeprefix("key ") for line in found["keys"].splitlines()),
            first_seq=int(found["first_seq"]),
            first_at=found["first_at"],
            before=_decoded(found["before"]),
            seal_no=int(found["seal_no"]),
            size=int(found["size"]),
            note=_decoded(found["note"]),
            sealed_at=found["sealed_at"],
        )

    def is_as_good_as(self, other: ManifestStatement) -> bool:
        """Tell whether another one says the same, but for a newer pin of the same day."""
        return (
            self
            == replace(
                other,
                seal_no=self.seal_no,
                size=self.size,
                note=self.note,
                sealed_at=self.sealed_at,
            )
            and self.sealed_at.split("T")[0] == other.sealed_at.split("T")[0]
        )


@dataclass(frozen=True)
class TrimStatement:
    """What one batch of a trim cut off, and by which right.

    Attributes:
        origin: The chain's line.
        checkpoint_no: Its number, from 1.
        from_seq: The first event that went.
        to_seq: The last one.
        events: How many.
        root: The RFC 6962 root over everything up to the last one.
        prev_hash: The hash before the first one.
        last_hash: The hash of the last one, which the first survivor names.
        first_at: When the first one was recorded.
        last_at: When the last one was.
        seal_no: The seal that covers the range.
        newest_seal_no: The newest seal when it was cut; it decides which key may sign.
        cutoff: What was recorded before this moment was due.
        retention: Seconds that an event is kept.
        actor: Who had it cut.
        run_id: In which run.
        archive: Where the events were kept, or None.
        previous: SHA-256 of the note of the checkpoint before.
    """

    origin: str
    checkpoint_no: int
    from_seq: int
    to_seq: int
    events: int
    root: bytes
    prev_hash: bytes
    last_hash: bytes
    first_at: str
    last_at: str
    seal_no: int
    newest_seal_no: int
    cutoff: str
    retention: int
    actor: str
    run_id: str
    archive: str | None
    previous: bytes

    def text(self) -> str:
        """The text of the note. Its first line can never be taken for a seal's."""
        return (
            f"{self.origin}#trim\n"
            f"trim {self.checkpoint_no} {self.from_seq} {self.to_seq} {self.events}\n"
            f"root {_encoded(self.root)}\n"
            f"hash {_encoded(self.prev_hash)} {_encoded(self.last_hash)}\n"
            f"time {self.first_at} {self.last_at}\n"
            f"seal {self.seal_no} newest {self.newest_seal_no}\n"
            f"policy {self.cutoff} {self.retention}\n"
            f"by {word(self.actor)} {word(self.run_id)}\n"
            f"archive {word(self.archive or '')}\n"
            f"previous {_encoded(self.previous)}\n"
        )


@dataclass(frozen=True)
class TrimFacts:
    """What the pin of a trim says, as far as a verifier needs it without the row.

    Attributes:
        origin: The chain's line.
        checkpoint_no: Its number.
        from_seq: The first event that went.
        to_seq: The last one.
        newest_seal_no: The newest seal when it was cut.
        last_at: When the last one was recorded, None when the text has no such time.
        retention: How long an event is kept.
    """

    origin: str
    checkpoint_no: int
    from_seq: int
    to_seq: int
    newest_seal_no: int
    last_at: datetime | None
    retention: timedelta

    @classmethod
    def parse(cls, text: str) -> TrimFacts:
        """Read the text of a trim's note.

        Raises:
            UnreadableStatement: It is none.
        """
        found = _matched(_TRIM, text, "trim")
        try:
            retention = timedelta(seconds=int(found["retention"]))
        except OverflowError as error:
            raise UnreadableStatement("the retention is longer than any calendar") from error
        return cls(
            origin=found["origin"],
            checkpoint_no=int(found["checkpoint_no"]),
            from_seq=int(found["from_seq"]),
            to_seq=int(found["to_seq"]),
            newest_seal_no=int(found["newest_seal_no"]),
            last_at=moment_of(found["last_at"]),
            retention=retention,
        )


@dataclass(frozen=True)
class LostPin:
    """A pinned seal that a restored database does not have.

    Attributes:
        seal_no: Its number.
        size: How many events it counts.
        head: The hash of the newest of them.
        sha256: Of its note.
    """

    seal_no: int
    size: int
    head: bytes
    sha256: bytes

    def __str__(self) -> str:
        """One line of a note, and of `audit_restore.lost_pins`."""
        return f"{self.seal_no} {self.size} {_encoded(self.head)} {_encoded(self.sha256)}"

    @classmethod
    def parse(cls, line: str) -> LostPin:
        """Read what `str` wrote.

        Raises:
            UnreadableStatement: It is no such line.
        """
        try:
            seal_no, size, head, sha256 = line.split(" ")
            return cls(int(seal_no), int(size), _decoded(head), _decoded(sha256))
        except ValueError as error:
            raise UnreadableStatement("it names no lost pin") from error


@dataclass(frozen=True)
class RestoreStatement:
    """That a database older than its pins was acknowledged, and what was lost by it.

    Attributes:
        origin: The chain's line in the incarnation that begins.
        survived_seal: The newest seal that the restored database has; 0 for none.
        survived_size: How many events it has.
        survived_head: The hash of the newest.
        lost_seal: The newest seal that was pinned.
        lost_size: How many events that one counted.
        lost_note: SHA-256 of its note.
        restored_at: When it was acknowledged.
        actor: Who did.
        reason: Why, in words.
        matched: The size and the head that the newest pin names with which the database agrees;
            None in a note that an earlier version wrote.
        lost_pins: One line for each pin that was lost, see `LostPin`.
    """

    origin: str
    survived_seal: int
    survived_size: int
    survived_head: bytes
    lost_seal: int
    lost_size: int
    lost_note: bytes
    restored_at: str
    actor: str
    reason: str
    matched: tuple[int, bytes] | None = None
    lost_pins: tuple[LostPin, ...] = ()

    def text(self) -> str:
        """The text of the note."""
        more = ""
        if self.matched is not None:
            size, head = self.matched
            lost = "".join(f"lost-pin {pin}\n" for pin in self.lost_pins)
            more = f"matched {size} {_encoded(head)}\n{lost}"
        return (
            f"{self.origin}#restore\n"
            f"survived {self.survived_seal} {self.survived_size} {_encoded(self.survived_head)}\n"
            f"lost {self.lost_seal} {self.lost_size} {_encoded(self.lost_note)}\n"
            f"at {self.restored_at}\n"
            f"by {word(self.actor)} {word(self.reason)}\n{more}"
        )


def sha256_of(note: str) -> bytes:
    """The hash by which the next note, an event and a pin's key name this one."""
    return hashlib.sha256(note.encode()).digest()


def moment_text(moment: datetime) -> str:
    """A time as notes write it: UTC, always with six digits of a second."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment_of(text: str) -> datetime | None:
    """Read a time of a note; None when it is none."""
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def word(text: str) -> str:
    """Any text as one word of a note; a hyphen for an empty one."""
    return quote(text, safe="/:@") or "-"


def _matched(pattern: re.Pattern[str], text: str, kind: str) -> dict[str, str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise UnreadableStatement(f"it is not the text of a {kind}")
    return match.groupdict()


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _decoded(text: str) -> bytes:
    try:
        value = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise UnreadableStatement("a hash is no base64") from error
    if len(value) != len(NOTHING_BEFORE):
        raise UnreadableStatement("a hash has not 32 bytes")
    return value
