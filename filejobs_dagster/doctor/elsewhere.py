"""Where else in the database a name of an object may stand, and what cannot be searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, ok, warning
from filejobs_dagster.references.elsewhere.search import Elsewhere, unsearched_in_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.postgres.connect import Database
    from filejobs_dagster.settings import BucketSettings


def check_elsewhere(entry: str, settings: BucketSettings, database: Database) -> Iterator[Finding]:
    """Look at what is searched for the names of orphans; nothing of it is read."""
    name = f"named elsewhere {entry}"
    for place, found in Elsewhere(database, settings).look().items():
        if isinstance(found, str):
            yield warning(
                name,
                f"{place} could not be looked into: {found}",
                "no live run of storage_orphans deletes an orphan before it can be searched",
            )
            continue
        said = (
            f"{found.columns:,} columns of {len(found.tables):,} tables and partitions in {place}, "
            f"{found.size:,} bytes, are searched for the names of orphans"
        )
        if found.ignored:
            said += f"; {len(found.ignored):,} columns are ignored"
        if found.unsearched:
            yield warning(
                name,
                f"{said}. {unsearched_in_words(found.unsearched)}",
                "a live run of storage_orphans deletes nothing until this role may read them, or "
                "named_elsewhere.ignore of the bucket says why they need not be searched",
            )
            continue
        yield ok(name, said)
