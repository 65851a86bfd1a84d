"""The one list of guards, in the order in which a run meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.belonging import Belonging
from filejobs_dagster.door.clocks import Clocks
from filejobs_dagster.door.commits import Commits
from filejobs_dagster.door.databases import Databases
from filejobs_dagster.door.doubt import Doubt
from filejobs_dagster.door.hold import Held
from filejobs_dagster.door.server import Server
from filejobs_dagster.door.sources import Sources
from filejobs_dagster.door.tables import Tables

if TYPE_CHECKING:
    from filejobs_dagster.door.guard import Guard

GUARDS: tuple[Guard, ...] = (
    # Whose bucket and which database come first: in another one everything would look gone.
    Belonging(),
    Databases(),
    # Where a migration lacks, that is the answer, and not what cannot be asked without it.
    Tables(),
    Held(),
    Doubt(),
    Commits(),
    Clocks(),
    Sources(),
    Server(),
)
