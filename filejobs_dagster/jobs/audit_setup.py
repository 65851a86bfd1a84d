"""From the section `audit` of the settings to what the library of the chain works with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.audit.keys import TrustedKey, TrustedKeys, read_signer, signer_from_file
from filejobs_dagster.audit.note import read_verifier_key
from filejobs_dagster.audit.pins.folder import FolderPins
from filejobs_dagster.audit.pins.s3 import S3Pins
from filejobs_dagster.audit.seal import SealPolicy
from filejobs_dagster.audit.trim import TrimPolicy
from filejobs_dagster.audit.trim.archive import StoreArchive
from filejobs_dagster.audit.verify import VerifyPolicy
from filejobs_dagster.objects.client import make_client

if TYPE_CHECKING:
    from filejobs_dagster.audit.keys import Ed25519Signer
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
