"""The audit chain: the key, whom the verifier believes, and the place of the pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.note import UnusableKey
from filejobs_dagster.audit.pins.store import PinStoreUnusable
from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.jobs.audit import JOBS
from filejobs_dagster.jobs.audit_setup import origin_of, signers_of, store_of, trusted_of
from filejobs_dagster.objects.errors import BucketUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.audit.note import Ed25519Signer
    from filejobs_dagster.settings import PlaceSettings, Settings


def check_audit(settings: Settings) -> Iterator[Finding]:
    """Look at what sealing, trimming and verifying need. Nothing is written.

    Args:
        settings: All of them.
    """
    if not any(job.name in settings.jobs for job in JOBS):
        yield warning(
            "audit",
            "no job seals the audit chains, so whoever may write the database can change them "
            "unseen",
            "put audit_seal and audit_verify under jobs (docs/audit.md)",
        )
        return
    yield from _keys(settings)
    yield from _place("pins", settings, settings.audit.pins)
    if settings.audit.archive is not None:
        yield from _place("archive", settings, settings.audit.archive)


def _keys(settings: Settings) -> Iterator[Finding]:
    origin = f"origin {origin_of(settings)}"
    try:
        signers = signers_of(settings)
    except UnusableKey as error:
        yield failed("audit key", str(error), "audit_seal and audit_trim refuse until then")
        return
    trusted = trusted_of(settings)
    if not signers:
        yield warning(
            "audit key",
            f"{origin}; no key signs here",
            "where audit_seal runs, make one with `filejobs audit keygen`; on a machine that only "
            "verifies, this is as it should be",
        )
    else:
        yield from _signing(signers[0], origin, settings)
    if not trusted.configured:
        yield warning(
            "audit public keys",
            "none, so signatures are not checked",
            "write audit.public_keys",
        )
    else:
        names = ", ".join(f"{one.key.name} ({one.key.key_id.hex()})" for one in trusted.keys)
        yield ok("audit public keys", names)


def _signing(signer: Ed25519Signer, origin: str, settings: Settings) -> Iterator[Finding]:
    said = f"{origin}; {signer.name} ({signer.key_id.hex()}) signs"
    trusted = trusted_of(settings)
    in_use = [one.key for one in trusted.keys if one.last_seal is None]
    if trusted.configured and signer.verifier not in in_use:
        yield failed(
            "audit key",
            f"{said}, and is none of the public keys without last_seal",
            "write its public key under audit.public_keys with first_seal, or new seals are "
            "refused with KEY_UNKNOWN",
        )
    else:
        yield ok("audit key", said)


def _place(name: str, settings: Settings, place: PlaceSettings | None) -> Iterator[Finding]:
    check = f"audit {name}"
    if place is None:
        yield warning(
            check,
            "there is no place outside of the database: whoever may write it can make new seals",
            "write audit.pins, best a bucket of another account with Object Lock",
        )
        return
    try:
        store = store_of(settings, place)
        store.words(f"{origin_of(settings)}/")
        protects = store.protects
    except (PinStoreUnusable, BucketUnavailable) as error:
        yield failed(check, str(error), "nothing is sealed, trimmed or verified until it answers")
        return
    if protects:
        yield ok(check, store.description)
    else:
        yield warning(
            check,
            store.description,
            "use a bucket that was made with Object Lock, in an account that the database's "
            "administrators cannot enter",
        )
