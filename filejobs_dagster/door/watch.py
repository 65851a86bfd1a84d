"""Whether an address still leads to the server that a run began on."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.postgres.primary import ServerState, in_the_log, server_state

if TYPE_CHECKING:
    from filejobs_dagster.postgres.connect import Connection, Database

FRESH_FOR = 5.0
"""Seconds for which a look at where an address leads is good: so long, at most, can a run delete
after the address has moved to a promoted server of which nobody has written anything down yet."""


class Watch:
    """One database, the project's or one of the operator's, for as long as a run works.

    A connection stays with the server that it was made to, also when a standby of that one was
    promoted and everybody else has moved. So now and then somebody looks with a fresh one.
    """

    def __init__(self, address: str, database: Database, began: ServerState) -> None:
        """Begin to watch.

        Args:
            address: Which one it is, for messages.
            database: Where it leads.
            began: The server that the run began on.
        """
        self._address = address
        self._database = database
        self.began = began
        self._seen: tuple[float, ServerState] | None = None

    def leads_from(self, url: str) -> bool:
        """True of the watch over that address."""
        return self._database.url == url

    def tell(self, fresh: Connection) -> None:
        """Look with a connection that was made a moment ago; any thread may.

        Raises:
            psycopg.Error: The server would not say.
        """
        with self._database.transaction(fresh, read_only=True) as cursor:
            self._seen = (time.monotonic(), server_state(cursor))

    def prove(self, here: ServerState | None = None) -> ServerState:
        """Compare a server that answers the run with that to which the address leads now.

        Args:
            here: What the run's own connection has just said; None where it has none at hand.

        Returns:
            What the address leads to.

        Raises:
            Refusal: They are two, or another one than the run began on, or none.
        """
        there = self._fresh(FRESH_FOR)
        if here is not None and here != there:
            # A server that was restarted behind a pooler looks like another one for a moment.
            there = self._fresh(0.0)
        if here not in (None, there) or not self._goes_on(there):
            works = "" if here is None else f", works on {_started(here)}"
            raise Refusal(
                f"This run began on {_started(self.began)}{works}, and {self._address} leads to "
                f"{_started(there)} by now: a standby was promoted, the database was restored, or "
                "the address leads to several servers.",
                "What this run had not deleted yet it leaves alone. The next one begins on the "
                "new primary; see docs/failover.md.",
            )
        return there

    def _goes_on(self, there: ServerState) -> bool:
        """Whether it has the same history, and no less of it."""
        began = self.began
        same = (there.system_identifier, there.database, there.in_recovery, there.timeline) == (
            began.system_identifier,
            began.database,
            began.in_recovery,
            began.timeline,
        )
        return same and (there.position or 0) >= (began.position or 0)

    def _fresh(self, good_for: float) -> ServerState:
        seen = self._seen
        if seen is not None and time.monotonic() - seen[0] < good_for:
            return seen[1]
        try:
            with self._database.connect("look at the primary") as fresh:
                self.tell(fresh)
        except (psycopg.Error, DatabaseUnavailable) as error:
            raise Refusal(
                f"Whether {self._address} still leads to the server that this run began on could "
                f"not be seen: {type(error).__name__}.",
                "What this run had not deleted yet it leaves alone; the next one begins anew.",
            ) from error
        return self._fresh(float("inf"))


def _started(state: ServerState) -> str:
    log = "" if state.position is None else f", log at {in_the_log(state.position)}"
    return f"{state} (server started at {state.started_at:%H:%M:%S}{log})"
