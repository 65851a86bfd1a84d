"""A short name for the rules that a pass judges by: sources, transforms, rewrites, ownership."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from filejobs_dagster.objects.prefixes import MARKERS
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from filejobs_dagster.settings.secrets import Secret
    from filejobs_dagster.settings.storage import BucketSettings, SourceSettings

_RULES = 1
"""Raise it when this version of the code judges differently from the one before."""


def fingerprint(bucket: BucketSettings) -> str:
    """Name the rules; another name means that every object has to be seen twice again.

    What only says how to reach a server or how long to wait takes no part: it changes nothing
    about which object is an orphan.
    """
    rules = {
        "rules": _RULES,
        "bucket": bucket.bucket,
        "endpoint": bucket.endpoint_url,
        "owns": sorted(bucket.owned_prefixes),
        "protect": sorted(bucket.protect),
        "shape": sorted(bucket.shape),
        "marker": bucket.marker or f"{MARKERS}.json",
        "rewrites": [[rewrite.match, rewrite.owner] for rewrite in bucket.rewrites],
        "sources": sorted(
            (_of_source(source) for source in bucket.sources), key=lambda one: str(one["name"])
        ),
    }
    text = json.dumps(rules, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _place(url: Secret) -> list[str]:
    """The variable and, without the password, where it leads: another server has other rows."""
    return [url.env, Database(url.reveal()).address()]


def _of_source(source: SourceSettings) -> dict[str, Any]:
    # As before it could be said, where it is not said: an upgrade is no change of the rules.
    owners = {"names": source.names} if source.names != "keys" else {}
    return owners | {
        "name": source.name,
        "sql": source.sql,
        "database": None if source.database is None else _place(source.database.url),
        "transforms": [step.model_dump(exclude_none=True) for step in source.transforms],
        "recheck_sql": source.recheck_sql,
    }
