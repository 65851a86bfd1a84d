"""The secrets of an installation, as values that must never be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from filejobs_dagster.settings.jobs import UploadReservationsSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.settings.model import Settings
    from filejobs_dagster.settings.secrets import Secret


def known_secrets(settings: Settings) -> tuple[str, ...]:
    """Return every secret value of the settings, and the passwords inside databases' URLs.

    For the redaction of errors only: whatever text contains one of them is cleaned of it.
    """
    values: list[str] = []
    for address in _addresses(settings):
        url = address.reveal()
        values += [url, *_passwords(url)]
    for bucket in settings.buckets.values():
        secrets = (bucket.access_key_id, bucket.secret_access_key, bucket.session_token)
        values.extend(secret.reveal() for secret in secrets if secret is not None)
    if settings.audit.signing_key is not None:
        key = settings.audit.signing_key.reveal().strip()
        # PRIVATE+KEY+name+id+key: what stands before the key itself is no secret.
        values += [key, *key.split("+", 4)[4:]]
    return tuple(dict.fromkeys(value for value in values if value))


def _addresses(settings: Settings) -> Iterator[Secret]:
    yield settings.database.url
    for bucket in settings.buckets.values():
        for source in bucket.sources:
            if source.database is not None:
                yield source.database.url
            if source.read_from is not None:
                yield source.read_from.url
    for job in settings.jobs.values():
        own_tables = job.source if isinstance(job, UploadReservationsSettings) else None
        if own_tables is not None and own_tables.database is not None:
            yield own_tables.database.url


def _passwords(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [] if not password else [password, unquote(password)]
