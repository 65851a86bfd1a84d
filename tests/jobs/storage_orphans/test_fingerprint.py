"""Whatever decides which object is an orphan has a part in the name of the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.jobs.storage_orphans.judging import fingerprint
from filejobs_dagster.settings.storage import BucketSettings, SourceSettings

if TYPE_CHECKING:
    from tests.installation import Installation

CHANGES: dict[str, Any] = {
    "bucket": "another-bucket",
    "endpoint_url": "http://127.0.0.1:9",
    "owns": ["files/", "more/"],
    "protect": ["files/other/"],
    "shape": ["files/[0-9]+"],
    "rewrites": [{"name": "thumb", "match": "files/small/(?P<id>.+)", "owner": "files/{id}"}],
    "marker": "another-marker.json",
    "sources": [],
}
OF_A_SOURCE: dict[str, Any] = {
    "name": "other",
    "sql": "select 'files/b'",
    "database": {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}},
    "transforms": [{"prepend": "files/"}],
    "recheck_sql": "select key from unnest($1::text[]) as key",
    "names": "owners",
}

# How to reach the bucket, what to do with an orphan once it is one, and what every pass looks at
# anew: an orphan by a lower min_age, or without a name elsewhere, begins to be seen by it.
NO_PART = {
    "region", "access_key_id", "secret_access_key", "session_token", "addressing", "content_md5",
    "max_attempts", "min_age", "named_elsewhere", "purge_versions", "owns_whole_bucket",
    "owns_nothing", "quarantine", "delete",
}  # fmt: skip
# The first only refuses. The second must be a replica of the same database, or is refused.
NO_PART_OF_A_SOURCE = {"min_rows", "read_from", "rows_checked_by_hand", "keys_checked_by_hand"}


def named(installation: Installation, app: str = "postgresql://me:secret@one/app") -> str:
    environment = installation.environment | {"FILEJOBS_APP_DATABASE_URL": app}
    return fingerprint(installation.settings(environment).buckets["uploads"])


@pytest.fixture
def with_source(installation: Installation) -> Installation:
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select 'files/a'"}
    ]
    return installation


@pytest.mark.parametrize("key", CHANGES)
def test_a_change_of_the_bucket_is_another_name(with_source: Installation, key: str) -> None:
    before = named(with_source)
    assert named(with_source) == before
    with_source.document["buckets"]["uploads"][key] = CHANGES[key]
    assert named(with_source) != before


@pytest.mark.parametrize("key", OF_A_SOURCE)
def test_a_change_of_a_source_is_another_name(with_source: Installation, key: str) -> None:
    # Without any, no source may name owners.
    with_source.document["buckets"]["uploads"]["rewrites"] = CHANGES["rewrites"]
    before = named(with_source)
    with_source.document["buckets"]["uploads"]["sources"][0][key] = OF_A_SOURCE[key]
    assert named(with_source) != before


def test_another_server_under_the_same_variable_is_another_name_and_another_password_is_not(
    with_source: Installation,
) -> None:
    [source] = with_source.document["buckets"]["uploads"]["sources"]
    source["database"] = OF_A_SOURCE["database"]
    before = named(with_source)
    assert named(with_source, "postgresql://me:other@one/app") == before
    assert named(with_source, "postgresql://me:secret@two/app") != before
    assert named(with_source, "postgresql://me:secret@one/copy") != before


def test_every_setting_was_thought_of() -> None:
    assert set(BucketSettings.model_fields) == {*CHANGES, *NO_PART}
    assert set(SourceSettings.model_fields) == {*OF_A_SOURCE, *NO_PART_OF_A_SOURCE}
