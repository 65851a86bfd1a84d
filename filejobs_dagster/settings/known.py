"""The secrets of an installation, as values that must never be shown."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.settings.alerts import AlertsSettings
    from filejobs_dagster.settings.model import DatabaseSettings, Settings
    from filejobs_dagster.settings.secrets import Secret

SHORTEST_PART = 6
"""A part of an alert's URL that is shorter is no token."""

_NO_SECRETS = frozenset({"127.0.0.1", "localhost"})
_NO_WORD = re.compile(r"[0-9A-Z.%]")
"""Tokens and hosts have one of these; a word such as `filejobs` must stay readable elsewhere."""


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
    if settings.trigger is not None:
        values += [entry.token.reveal() for entry in settings.trigger.tokens.values()]
    if settings.audit.signing_key is not None:
        key = settings.audit.signing_key.reveal().strip()
        # PRIVATE+KEY+name+id+key: what stands before the key itself is no secret.
        values += [key, *key.split("+", 4)[4:]]
    for job in settings.jobs.values():
        values += [secret.reveal() for secret in job.secrets()]
    values += alert_secrets(settings.alerts)
    return tuple(dict.fromkeys(value for value in values if value))


def database_secrets(database: DatabaseSettings) -> tuple[str, ...]:
    """The address of the project's database, and the password in it."""
    url = database.url.reveal()
    return (url, *_passwords(url))


def alert_secrets(alerts: AlertsSettings) -> tuple[str, ...]:
    """The URLs under `alerts`, and every part of them that gives access or says where they lead.

    In apprise's URLs each part may be a token: the host, the user, a step of the path.
    """
    urls = [destination.url.reveal().strip() for destination in alerts.to]
    if alerts.heartbeat is not None:
        urls.append(alerts.heartbeat.url.reveal().strip())
    return tuple(dict.fromkeys(part for url in urls for part in (url, *_parts(url))))


def _addresses(settings: Settings) -> Iterator[Secret]:
    yield settings.database.url
    for bucket in settings.buckets.values():
        for source in bucket.sources:
            if source.database is not None:
                yield source.database.url
            if source.read_from is not None:
                yield source.read_from.url
    for preset in settings.presets:
        if preset.database is not None:
            yield preset.database.url
    for job in settings.jobs.values():
        yield from job.addresses()


def _parts(url: str) -> Iterator[str]:
    yield from _passwords(url)
    rest = url.partition("://")[2] or url
    for part in re.split(r"[/?&=@:,;#]+", rest):
        if len(part) >= SHORTEST_PART and part not in _NO_SECRETS and _NO_WORD.search(part):
            yield part
            yield unquote(part)


def _passwords(url: str) -> list[str]:
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [] if not password else [password, unquote(password)]
