"""The operator's own databases: not restored, and not left behind by a promotion.

What a source there does not name looks unreferenced, and what a table there calls a reservation is
collected. So each of them is told from an older one of itself, as our own is by the marker: what
the last live runs have seen of it stands in our database.

What nobody notices here:

- A server that was restored, or promoted without its last commits, and has written as much log
  since as it had lost. Both often begin with another identity or an end of log that is behind.
- Rows that were restored into the same database, by `pg_restore --clean` for one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.audit.append import append
from filejobs_dagster.collector import BYTES
from filejobs_dagster.door.adoption import AGAIN
from filejobs_dagster.door.belonging import NOTHING_MORE, UNTOUCHED, Watch
from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.postgres.primary import ASKED_OF_SERVERS, in_the_log, server_state
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    from psycopg.rows import TupleRow

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.postgres.primary import ServerState
    from filejobs_dagster.settings import Settings

_KNOWN = """
SELECT name, system_identifier, database_oid, timeline, log_position, seen_at
  FROM watched_database
 WHERE installation = %(installation)s AND name = ANY(%(names)s)
"""

# Of two runs that came in at once, the one that saw more is right.
_REMEMBER = """
INSERT INTO watched_database AS known
       (installation, name, system_identifier, database_oid, timeline, log_position)
VALUES (%(installation)s, %(name)s, %(identifier)s, %(oid)s, %(timeline)s, %(position)s)
    ON CONFLICT (installation, name) DO UPDATE
   SET system_identifier = excluded.system_identifier,
       database_oid      = excluded.database_oid,
       timeline          = excluded.timeline,
       log_position      = excluded.log_position,
       seen_at           = excluded.seen_at
 WHERE %(again)s
    OR ((known.system_identifier, known.database_oid)
        = (excluded.system_identifier, excluded.database_oid)
        AND (coalesce(known.timeline, 0), coalesce(known.log_position, 0))
            <= (coalesce(excluded.timeline, 0), coalesce(excluded.log_position, 0)))
"""


@dataclass(frozen=True)
class Known:
    """What live runs have seen of a database.

    Attributes:
        system_identifier: As of `ServerState`, and so `database`, `timeline` and `position`.
        seen_at: When, by our database's clock.
    """

    system_identifier: str
    database: int
    timeline: int | None
    position: int | None
    seen_at: datetime


class Databases(Guard):
    """Each database of the operator's is the one that it was, and knows what it knew."""

    name = "databases"
    protects: frozenset[Touch] = BYTES | {"rows elsewhere"}

    def look(self, at: Look) -> str:
        """Compare each with what the last live runs have seen of it."""
        installation = at.settings.installation
        entries = [bucket.entry for bucket in at.buckets if bucket.deletes]
        watched = operators(at.settings, entries, at.database, at.job)
        known = _known(at.database, at.connection, installation, watched)
        watches: dict[str, Watch] = {}
        at.kept[self.name] = watches
        said: list[str] = []
        for name, database in watched.items():
            state = _asked(name, database)
            _judge(name, state, known.get(name), UNTOUCHED)
            watches[name] = Watch(f"the address in {name}", database, state)
            said.append(f"{name} leads to {state}")
            if state.position is None:
                at.log.warning(
                    "The server of %s does not say on which timeline it is and where its log "
                    "ends, so that it was restored, or left behind by a promotion, cannot be seen.",
                    name,
                )
        return "; ".join(said) or "no database of the operator's stands in the settings"

    def enter(self, at: Look) -> None:
        """Remember what this run has seen."""
        watches = _watches(at)
        if watches:
            with at.database.transaction(at.connection) as cursor:
                for name, watch in watches.items():
                    _remember(cursor, at.settings.installation, name, watch.began)

    def prove(self, at: Look) -> None:
        """Look where the addresses lead, and whether another live run has seen a promotion."""
        watches = _watches(at)
        if not watches:
            return
        known = _known(at.database, at.connection, at.settings.installation, watches)
        for name, watch in watches.items():
            # Another run may have seen more log than the look that is a moment old.
            _judge(name, watch.prove(), known.get(name), NOTHING_MORE, by_log=False)


def recognise(at: Look, url: str, here: ServerState) -> None:
    """Make sure that a server which has just answered about references is the one to ask.

    Args:
        at: What the run's guards have looked at.
        url: The address at which it was reached; a secret.
        here: What it says of itself, in the transaction in which it answered.

    Raises:
        Refusal: It is not, so what it said is no answer.
    """
    for watch in _watches(at).values():
        if watch.leads_from(url):
            watch.prove(here)


def take_over(
    settings: Settings,
    entry: str,
    database: Database,
    connection: Connection,
    *,
    by: str,
    again: str | None,
) -> list[str]:
    """Remember of the databases that a bucket's jobs use what they are now.

    Args:
        settings: All of them.
        entry: The bucket's name in them.
        database: The project's own.
        connection: An open connection to it.
        by: User and host.
        again: Why a database that was moved or restored on purpose, or an old primary, is right;
            recorded in the audit log.

    Returns:
        What was found of each, in sentences without a full stop.

    Raises:
        Refusal: One is refused, and nobody said that it is right.
        DatabaseUnavailable: One could not be reached.
        psycopg.Error: The project's database refused.
    """
    watched = operators(settings, [entry], database)
    known = _known(database, connection, settings.installation, watched)
    said: list[str] = []
    for name, other in watched.items():
        state, before = _asked(name, other), known.get(name)
        event = None
        try:
            _judge(name, state, before, UNTOUCHED)
        except Refusal as refusal:
            if again is None or state.in_recovery:
                raise
            event = {
                "kind": "database.taken_again",
                "installation": settings.installation,
                "name": name,
                "found": refusal.found,
                "reason": again,
                "by": by,
            }
        with database.transaction(connection) as cursor:
            _remember(cursor, settings.installation, name, state, again=event is not None)
            if event is not None:
                append(cursor, [event])
        said.append(f"{name} leads to {state}" + (", taken over" if event is not None else ""))
    return said


def operators(
    settings: Settings, entries: Collection[str], database: Database, job: str | None = None
) -> dict[str, Database]:
    """The databases of the operator's that a run asks, searches or claims in.

    A replica of `read_from` is compared with its primary whenever it is read, and decides nothing.

    Args:
        settings: All of them.
        entries: Names of buckets in them: what their jobs ask, search or claim in.
        database: The project's own, for its limits.
        job: Whose rows go without bytes: where they are; None for those of every such job.

    Returns:
        Each by the environment variable that holds its address.
    """
    addresses = [
        source.database.url
        for entry in entries
        for source in settings.buckets[entry].sources
        if source.database is not None
    ]
    for entry in entries:
        addresses += [other.url for other in settings.buckets[entry].named_elsewhere.databases]
    addresses += [
        preset.database.url
        for preset in settings.presets
        if preset.database is not None and preset.bucket in entries
    ]
    asked = {address.env: database.elsewhere(address.reveal()) for address in addresses}
    return asked | claimed_in(settings, entries, database, job)


def claimed_in(
    settings: Settings, entries: Collection[str], database: Database, job: str | None
) -> dict[str, Database]:
    """The databases of the operator's from which rows go.

    Args:
        settings: As for `operators`, and so the others.
        entries: Names of buckets in them, with whose objects rows go.
        database: The project's own, for its limits.
        job: As for `operators`.

    Returns:
        Each by the environment variable that holds its address.
    """

    def is_meant(name: str) -> bool:
        if BY_NAME[name].deletes_bytes:
            return bool(entries) and settings.bucket_of(name)[0] in entries
        return "rows elsewhere" in BY_NAME[name].touches and job in (None, name)

    return {
        address.env: database.elsewhere(address.reveal())
        for name, section in settings.jobs.items()
        if is_meant(name)
        for address in section.addresses()
    }


def _watches(at: Look) -> dict[str, Watch]:
    watches = at.kept.get(Databases.name)
    return watches if isinstance(watches, dict) else {}


def _asked(name: str, database: Database) -> ServerState:
    """What the server says of itself.

    Raises:
        Refusal: It does not tell this role.
        DatabaseUnavailable: It could not be reached.
    """
    with database.connect("look at the primary") as connection:
        try:
            with database.transaction(connection, read_only=True) as cursor:
                return server_state(cursor)
        except psycopg.errors.InsufficientPrivilege as error:
            raise Refusal(
                f"The server of {name} does not tell this role which one it is "
                f"({error.diag.message_primary}), so a restored one and an old primary could not "
                "be told from it.",
                "As its superuser: GRANT EXECUTE ON FUNCTION "
                f"{', '.join(ASKED_OF_SERVERS)} TO {connection.info.user}. {UNTOUCHED}",
            ) from error


def _known(
    database: Database, connection: Connection, installation: str, names: Collection[str]
) -> Mapping[str, Known]:
    if not names:
        return {}
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute(_KNOWN, {"installation": installation, "names": list(names)})
        return {name: Known(*row) for name, *row in cursor.fetchall()}


def _remember(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    name: str,
    state: ServerState,
    *,
    again: bool = False,
) -> None:
    cursor.execute(
        _REMEMBER,
        {
            "installation": installation,
            "name": name,
            "identifier": state.system_identifier,
            "oid": state.database,
            "timeline": state.timeline,
            "position": state.position,
            "again": again,
        },
    )


def _judge(
    name: str, state: ServerState, known: Known | None, so_far: str, *, by_log: bool = True
) -> None:
    """Compare a database with what live runs have seen of it.

    Raises:
        Refusal: It is a standby, another database, an old primary, or it went back.
    """
    whose = f"The address in {name}"
    if state.in_recovery:
        raise Refusal(
            f"{whose} leads to a standby, which may lack rows that the primary has.",
            f"Connect to the primary (`target_session_attrs=read-write`). {so_far}",
        )
    if known is None:
        return
    seen = f"a live run saw it at {known.seen_at:%Y-%m-%d %H:%M:%S} UTC"
    if (state.system_identifier, state.database) != (known.system_identifier, known.database):
        raise Refusal(
            f"{whose} leads to database {state.database} of cluster {state.system_identifier}; "
            f"when {seen}, it was database {known.database} of cluster {known.system_identifier}. "
            "A copy, and one that was restored from a dump, does not know what the other one "
            "refers to since.",
            f"{AGAIN} {so_far}",
        )
    if (state.timeline or 0) < (known.timeline or 0) and state.timeline is not None:
        raise Refusal(
            f"{whose} leads to a server on timeline {state.timeline}, and {seen} on timeline "
            f"{known.timeline}: a standby of it was promoted, and this is the old primary, which "
            "does not know what the new one refers to.",
            f"Let the address lead to the new one. Only when that one is gone for good: {AGAIN} "
            f"{so_far}",
        )
    if by_log and state.position is not None and state.position < (known.position or 0):
        raise Refusal(
            f"{whose} leads to a server whose log ends at {in_the_log(state.position)} "
            f"({state}); when {seen}, it had reached {in_the_log(known.position or 0)} (timeline "
            f"{known.timeline}). It was restored from a backup or a snapshot, or an asynchronous "
            "standby was promoted that had not got the last commits. It does not know what has "
            "been referred to since, so objects in use would look unreferenced.",
            f"{AGAIN} {so_far}",
        )
