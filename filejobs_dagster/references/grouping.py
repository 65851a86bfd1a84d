"""Which sources are read over which connection: one for each database, or replica of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.references.operator import OperatorQuery, Source
    from filejobs_dagster.references.own_tables import OwnTable


@dataclass
class SourceGroup:
    """Sources that are read over one connection, in one snapshot.

    Attributes:
        database: Where they are read.
        own: The project's own tables among them.
        queries: The operator's queries among them.
        replica_of: The primary, where they are read from a replica of it.
    """

    database: Database
    own: Sequence[OwnTable]
    queries: list[OperatorQuery]
    replica_of: Database | None = None

    @property
    def whom(self) -> str:
        """Their names, for messages and connections."""
        return ", ".join([table.name for table in self.own] + [it.name for it in self.queries])


def grouped(
    primary: Database, own: Sequence[OwnTable], queries: Sequence[OperatorQuery]
) -> list[SourceGroup]:
    """Sort the sources by the database that they are read from; the project's own comes first."""
    first = SourceGroup(primary, own, [])
    groups: dict[tuple[str | None, str | None], SourceGroup] = {(None, None): first}
    for query in queries:
        replica = _address(query.source, "read_from")
        place = (query.url, replica)
        if place not in groups:
            home = primary if query.url is None else Database(query.url)
            groups[place] = (
                SourceGroup(home, (), [])
                if replica is None
                else SourceGroup(Database(replica), (), [], home)
            )
        groups[place].queries.append(query)
    return list(groups.values())


def _address(source: Source, which: str) -> str | None:
    database = getattr(source, which, None)
    return None if database is None else str(database.url.reveal())
