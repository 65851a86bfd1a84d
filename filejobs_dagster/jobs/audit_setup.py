"""From the section `audit` of the settings to what the library of the chain works with.

What goes wrong with one chain is recorded by its code (`Troubles`), while the other chains go on.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.note import (
    TrustedKey,
    TrustedKeys,
    UnusableKey,
    read_signer,
    read_verifier_key,
    signer_from_file,
)
from filejobs_dagster.audit.pins.places import FolderPins, S3Pins
from filejobs_dagster.audit.pins.store import Equivocation, PinStoreUnusable
from filejobs_dagster.audit.seal import NotPinned, SealPolicy
from filejobs_dagster.audit.session import Refused
from filejobs_dagster.audit.trim import TrimPolicy
from filejobs_dagster.audit.trim.archive import StoreArchive
from filejobs_dagster.audit.verify import VerifyPolicy
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.errors import BucketUnavailable
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.audit.note import Ed25519Signer
    from filejobs_dagster.audit.pins.store import PinStore
    from filejobs_dagster.settings import PlaceSettings, Settings


def origin_of(settings: Settings) -> str:
    """The installation's name in its notes and pins."""
    return settings.audit.origin or f"{settings.installation}/audit"


def signers_of(settings: Settings) -> tuple[Ed25519Signer, ...]:
    """The key that signs, or nothing where the settings name none.

    Raises:
        UnusableKey: It cannot be read.
    """
    audit = settings.audit
    if audit.signing_key is not None:
        where = f"the variable {audit.signing_key.env}"
        return (read_signer(audit.signing_key.reveal(), where),)
    if audit.key_file is not None:
        return (signer_from_file(Path(audit.key_file)),)
    return ()


def store_of(settings: Settings, place: PlaceSettings) -> PinStore:
    """A place outside of the database; nothing is sent yet.

    Raises:
        BucketUnavailable: No client can be made for its bucket.
    """
    if place.folder is not None:
        return FolderPins(Path(place.folder))
    if place.bucket is None or place.prefix is None:  # pragma: no cover - the model decides
        raise TypeError("a place has neither a folder nor a bucket with a prefix")
    bucket = settings.buckets[place.bucket]
    return S3Pins(make_client(bucket), bucket.bucket, prefix=place.prefix)


def trusted_of(settings: Settings) -> TrustedKeys:
    """What the verifier believes."""
    audit = settings.audit
    return TrustedKeys(
        tuple(
            TrustedKey(read_verifier_key(one.key), one.first_seal, one.last_seal)
            for one in audit.public_keys
        ),
        audit.unsigned_through,
    )


def verify_policy(settings: Settings) -> VerifyPolicy:
    """How a chain is verified.

    Raises:
        BucketUnavailable: No client can be made for the bucket of the pins.
    """
    audit = settings.audit
    return VerifyPolicy(
        origin=origin_of(settings),
        trusted=trusted_of(settings),
        pins=None if audit.pins is None else store_of(settings, audit.pins),
        pin_grace=audit.pin_grace,
        minimum_retention=audit.minimum_retention,
        seal_max_age=audit.max_pin_age,
    )


def seal_policy(settings: Settings) -> SealPolicy:
    """How a chain is sealed.

    Raises:
        UnusableKey: The signing key cannot be read.
        BucketUnavailable: No client can be made for the bucket of the pins.
    """
    audit = settings.audit
    return SealPolicy(
        verify_policy(settings),
        signers_of(settings),
        pin_for=None if audit.pins is None else audit.pins.keep_for,
        heartbeat=audit.heartbeat,
    )


def trim_policy(settings: Settings) -> TrimPolicy:
    """How a chain is trimmed.

    Raises:
        UnusableKey: The signing key cannot be read.
        BucketUnavailable: No client can be made for the bucket of the pins or of the archive.
    """
    audit = settings.audit
    if audit.retention is None:  # pragma: no cover - the model decides
        raise TypeError("audit.retention is missing")
    archive = audit.archive
    return TrimPolicy(
        verify_policy(settings),
        audit.retention,
        signers_of(settings),
        pin_for=None if audit.pins is None else audit.pins.keep_for,
        archive=None
        if archive is None
        else StoreArchive(store_of(settings, archive), keep_for=archive.keep_for),
    )


# What goes wrong with one chain: recorded by its code, while the other chains go on.

SHOWN = 200
"""How many rows of each list a run's record holds."""

TOLD = 10
"""How many troubles a run's error names."""

KEY_UNUSABLE = "KEY_UNUSABLE"
NOT_PINNED = "NOT_PINNED"
PINS_UNUSABLE = "PINS_UNUSABLE"
NOT_FINISHED = "NOT_FINISHED"
NOT_READ = "NOT_READ"
OWN_CODES = (KEY_UNUSABLE, NOT_PINNED, PINS_UNUSABLE, NOT_FINISHED, NOT_READ)
"""Codes of the jobs, besides those of the library's findings and refusals."""

_OF_ONE_CHAIN = (Refused, Equivocation, NotPinned, PinStoreUnusable)


@dataclass(frozen=True)
class Trouble:
    """One thing that was refused or found.

    Attributes:
        chain: Of which chain.
        code: Which kind.
        message: In words.
        seq: The first event that it concerns, or None.
        count: How often.
    """

    chain: str
    code: str
    message: str
    seq: int | None = None
    count: int = 1

    def __str__(self) -> str:
        where = "" if self.seq is None else f" at event {self.seq}"
        return f"{self.chain}: {self.code}{where}: {self.message}"

    def as_row(self) -> dict[str, str | int]:
        """One row of a table."""
        return {
            "chain": self.chain,
            "code": self.code,
            "first event": "-" if self.seq is None else str(self.seq),
            "count": self.count,
            "message": self.message,
        }


@dataclass
class Troubles:
    """Everything that went wrong in a run, chain by chain."""

    found: list[Trouble] = field(default_factory=list)

    def add(self, trouble: Trouble) -> None:
        """Take one in."""
        self.found.append(trouble)

    @contextmanager
    def of(self, chain: str) -> Iterator[None]:
        """Take in what the library refuses for one chain; anything else ends the run."""
        try:
            yield
        except _OF_ONE_CHAIN as error:
            code = code_of(error)
            self.add(Trouble(chain, code, str(error).removeprefix(f"{code}: ")))

    def as_rows(self) -> list[dict[str, str | int]]:
        """Rows of a table, the first ones."""
        return [trouble.as_row() for trouble in self.found[:SHOWN]]

    def error(self, summary: str) -> str | None:
        """Why the run failed, or None when nothing went wrong."""
        if not self.found:
            return None
        lines = [str(trouble) for trouble in self.found[:TOLD]]
        more = len(self.found) - TOLD
        if more > 0:
            lines.append(f"and {more:,} more, see `findings` in the record")
        return f"{summary} {lines[0]}" + "".join(f"\n{line}" for line in lines[1:])


def code_of(error: Exception) -> str:
    """The code under which a refusal is recorded."""
    if isinstance(error, Refused):
        return error.code
    if isinstance(error, Equivocation):
        return "EQUIVOCATION"
    if isinstance(error, NotPinned):
        return NOT_PINNED
    return PINS_UNUSABLE


@contextmanager
def teaching() -> Iterator[None]:
    """Turn what keeps a whole run from beginning into a failure with its code.

    Raises:
        JobFailed: The key or the place of the pins cannot be used.
    """
    try:
        yield
    except UnusableKey as error:
        raise JobFailed(f"{KEY_UNUSABLE}: {error}") from None
    except (PinStoreUnusable, BucketUnavailable) as error:
        raise JobFailed(f"{PINS_UNUSABLE}: {error}") from error


def where_pins_are(policy: VerifyPolicy) -> dict[str, Any]:
    """What a run's record says of its witnesses."""
    return {
        "signatures": "checked" if policy.trusted.configured else "not checked: no public key",
        "pins": "none: nothing outside of the database knows better"
        if policy.pins is None
        else policy.pins.description,
    }


def recorded_after(cursor: psycopg.Cursor[TupleRow], chain: str, seq: int) -> Any:
    """When the first event behind a number was recorded; None when there is none."""
    cursor.execute(
        "SELECT recorded_at FROM audit_event WHERE chain_id = %s AND seq > %s ORDER BY seq LIMIT 1",
        (chain, seq),
    )
    row = cursor.fetchone()
    return None if row is None else row[0]
