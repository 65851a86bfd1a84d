"""What the server can do: found out once for each bucket, kept, and used by every job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.adoption import check, remember_probe
from filejobs_dagster.door.belonging import place_of
from filejobs_dagster.door.guard import Guard
from filejobs_dagster.door.probe import ProbeFailed, probe

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look


class Server(Guard):
    """The server was tried before anything of the operator's is deleted on it."""

    name = "server"
    protects: frozenset[Touch] = frozenset({"objects"})

    def look(self, at: Look) -> str:  # noqa: ARG002 (nothing is asked)
        """Nothing is tried by looking."""
        return "tried by the first live run, or by `filejobs doctor --probe`"

    def enter(self, at: Look) -> None:
        """Try it when nobody has."""
        for bucket in at.buckets:
            place = place_of(at, bucket)
            if check(place).row.conditional_delete is not None:
                continue
            try:
                found = probe(place.client, place.bucket, place.marker_key)
            except ProbeFailed as error:
                at.log.warning("%s Each object is looked at right before its deletion.", error)
                continue
            remember_probe(place, found)
            if found.leftover is not None:
                at.log.warning("The probe's own object %s could not be removed.", found.leftover)
            at.log.info("This server's answer to a conditional deletion: %s.", found.conditional)
