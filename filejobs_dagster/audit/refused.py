"""Refusals of seal, trim and restore: a code that says which, and a sentence that says why."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.audit.keys import TrustedKeys
    from filejobs_dagster.audit.note import Signer
    from filejobs_dagster.audit.verify.evidence import VerifyPolicy
    from filejobs_dagster.audit.verify.registry import Finding
    from filejobs_dagster.postgres.connect import Connection, Database

_OLDER_DATABASE = frozenset({"PIN_AHEAD_SEAL", "PIN_TAIL"})
_TWO_HISTORIES = frozenset({"EQUIVOCATION", "SEAL_PIN_MISMATCH"})

WHAT_AFTER_ROLLBACK = (
    "The database is older than its pins: it was restored from a backup, or its newest part was "
    "removed. Verify the chain; if it was restored, acknowledge that with `filejobs audit "
    "restore`, and the chain goes on."
)


class Refused(Exception):
    """Nothing was sealed or removed.

    Attributes:
        code: Which refusal, such as `SEAL_GAP`.
    """

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code


class SealRefused(Refused):
    """A chain was not sealed."""


class TrimRefused(Refused):
    """A chain was not trimmed; batches that were committed before stay."""


class RestoreRefused(Refused):
    """A restore was not acknowledged."""


def code_for(findings: list[Finding], *, gap: str) -> tuple[str, str]:
    """The code and the sentence of a refusal because of what was found.

    Args:
        findings: At least one.
        gap: The code when a number is missing.
    """
    codes = {finding.code for finding in findings}
    told = "; ".join(f"{finding.code}: {finding.message}" for finding in findings[:5])
    if codes & _TWO_HISTORIES and not codes & {"PIN_AHEAD_SEAL"}:
        return "EQUIVOCATION", told
    if codes & _OLDER_DATABASE:
        return "ROLLED_BACK", f"{told} {WHAT_AFTER_ROLLBACK}"
    if codes & {"EV_SEQ"}:
        return gap, told
    return "VERIFY_FAILED", told


def must_be_trusted(
    trusted: TrustedKeys, signers: Sequence[Signer], seal_no: int, refused: type[Refused]
) -> None:
    """Refuse to write what the verifier would not believe.

    Args:
        trusted: What the verifier believes.
        signers: Whoever signs.
        seal_no: The number of the seal that decides which keys count.
        refused: The class of the refusal.

    Raises:
        Refused: KEY_UNKNOWN.
    """
    if not trusted.configured or (not signers and seal_no <= trusted.unsigned_through):
        return
    known = {(key.name, key.key_id) for key in trusted.for_seal(seal_no)}
    if not any((signer.name, signer.key_id) in known for signer in signers):
        raise refused(
            "KEY_UNKNOWN",
            f"no key that signs here is one that the verifier believes for seal {seal_no}: add the "
            "public key to the verifier's settings, with the number of its first seal.",
        )


def must_have_the_right_time(
    database: Database, connection: Connection, policy: VerifyPolicy, refused: type[Refused]
) -> None:
    """Refuse to write under a clock that jumped: what it dates would stand for ever.

    The witness is the clock of the pins' place; where that has none, this machine's. Once both
    agree again, nothing that was written meanwhile holds anything up.

    Args:
        database: Whose clock it is.
        connection: One without an open transaction.
        policy: Where the pins are, and how far clocks may differ.
        refused: The class of the refusal.

    Raises:
        Refused: CLOCK_WRONG.
        PinStoreUnusable: The place does not answer.
    """
    before = _now(database, connection)
    place = None if policy.pins is None else policy.pins.now()
    witness = place or datetime.now(timezone.utc)
    tolerance = policy.clock_tolerance
    # The place may have taken its time to answer.
    if not before - tolerance <= witness <= _now(database, connection) + tolerance:
        whose = "this machine's" if place is None else "that of the pins' place"
        raise refused(
            "CLOCK_WRONG",
            f"the database's clock says {before.isoformat()}, {whose} {witness.isoformat()}: more "
            f"than {tolerance} apart. Set the one that is wrong.",
        )


def _now(database: Database, connection: Connection) -> datetime:
    with database.transaction(connection, read_only=True) as cursor:
        return database_now(cursor)
