"""The secrets of an installation, as values that must never be shown."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from filejobs_dagster.settings.model import Settings


def known_secrets(settings: Settings) -> tuple[str, ...]:
    """Return every secret value of the settings, and the password inside the database's URL.

    For the redaction of errors only: whatever text contains one of them is cleaned of it.
    """
    url = settings.database.url.reveal()
    values = [url, *_passwords(url)]
    for bucket in settings.buckets.values():
        secrets = (bucket.access_key_id, bucket.secret_access_key, bucket.session_token)
        values.extend(secret.reveal() for secret in secrets if secret is not None)
    return tuple(dict.fromkeys(value for value in values if value))


def _passwords(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [] if not password else [password, unquote(password)]
