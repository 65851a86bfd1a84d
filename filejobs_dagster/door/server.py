"""What the server can do: found out once for each bucket, kept, and used by every job."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from filejobs_dagster.door.adoption import remember_probe
from filejobs_dagster.door.belonging import place_of
from filejobs_dagster.door.guard import Guard
from filejobs_dagster.door.probe import Probe, ProbeFailed, name_of_server, probe
from filejobs_dagster.door.sides import row_of
from filejobs_dagster.objects.identity import ROUNDED_BY
from filejobs_dagster.objects.manner import abilities_of, learn
from filejobs_dagster.postgres.clock import database_now
from filejobs_dagster.postgres.locks import LockTaken, try_lock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look
    from filejobs_dagster.door.sides import Place, Row
    from filejobs_dagster.objects.manner import Abilities, ConditionalDelete

TRIED_AGAIN_AFTER = timedelta(days=90)
"""A server changes without a word: an update, another proxy in front of it."""

MOST_WAIT = 60.0
"""Seconds to wait for another run that is trying the same server."""

BLIND = (
    "does not list multipart uploads below a prefix, so that multipart_uploads finds only those "
    "whose id a row knows: set a lifecycle rule that aborts incomplete uploads, or use a server "
    "that lists them"
)

NOT_TRIED = "not tried yet"
BY_HAND = "`filejobs doctor --probe`"


@dataclass(frozen=True)
class _Known:
    row: Row | None
    days: int

    def is_enough(self, server: str) -> bool:
        """Whether what is known was found out on this server, and not too long ago."""
        row = self.row
        return (
            row is not None
            and row.abilities is not None
            and row.probed_server == server[:200]
            and self.days < TRIED_AGAIN_AFTER.days
        )


class Server(Guard):
    """The server was tried before anything of the operator's is deleted on it."""

    name = "server"
    protects: frozenset[Touch] = frozenset({"objects", "multipart uploads"})

    def look(self, at: Look) -> str:
        """Take over what is known; nothing is tried by looking."""
        said: list[str] = []
        for bucket in (each for each in at.buckets if each.deletes):
            place = place_of(at, bucket)
            row = _known(place).row
            abilities = None if row is None else row.abilities
            if row is None or row.probed_at is None or abilities is None:
                said.append(f"{NOT_TRIED}: the first live run does that, or {BY_HAND}")
                continue
            learn(place.client, place.bucket, abilities)
            for doubt in doubts(abilities):
                at.log.warning("Bucket %s: %s.", place.bucket, doubt)
            name = row.probed_server or "without a name"
            said.append(f"{in_words(abilities)} (tried {row.probed_at:%Y-%m-%d}, server {name})")
        return "; ".join(dict.fromkeys(said)) or "nothing is deleted from a bucket"

    def enter(self, at: Look) -> None:
        """Try it when nobody has, or when it may be another one by now."""
        for bucket in (each for each in at.buckets if each.deletes):
            place = place_of(at, bucket)
            try:
                found = _tried_unless_known(place)
            except (ProbeFailed, BotoCoreError) as error:
                at.log.warning("%s Each object is looked at right before its deletion.", error)
                row = _known(place).row
                if row is None or row.abilities is None:
                    # Nobody can tell that `files//a` is not `files/a`, so such keys stay.
                    abilities_of(place.client, place.bucket).folds_slashes = True
                continue
            if found is None:
                continue
            if found.leftover is not None:
                at.log.warning("The probe's own object %s could not be removed.", found.leftover)
            at.log.info("This server was tried: %s.", in_words(found.abilities))
            for doubt in doubts(found.abilities):
                at.log.warning("Bucket %s: %s.", place.bucket, doubt)


def tried(place: Place) -> Probe:
    """Try the server, keep what was found, and go by it from now on. One at a time.

    Args:
        place: Bucket and database.

    Raises:
        ProbeFailed: It could not be tried.
        psycopg.Error: The database refused.
    """
    with _alone(place):
        return _tried(place)


def _tried(place: Place) -> Probe:
    found = probe(place.client, place.bucket, place.marker_key)
    remember_probe(place, found)
    learn(place.client, place.bucket, found.abilities)
    return found


def _tried_unless_known(place: Place) -> Probe | None:
    server = name_of_server(place.client, place.bucket)
    if _known(place).is_enough(server):
        return None
    with _alone(place):
        known = _known(place)
        if not known.is_enough(server):
            return _tried(place)
    # Another run has found it out meanwhile.
    if known.row is not None and known.row.abilities is not None:
        learn(place.client, place.bucket, known.row.abilities)
    return None


@contextmanager
def _alone(place: Place) -> Iterator[None]:
    """Two probes at once would remove each other's object, and draw wrong conclusions.

    The lock is held on the run's own connection: a pool need not have one more for it.
    """
    name = f"{place.database.schema}/probe/{'/'.join(place.row_key.values())}"
    tries = Retrying(
        retry=retry_if_exception_type(LockTaken),
        stop=stop_after_delay(MOST_WAIT),
        wait=wait_random(0.1, 0.5),
        reraise=True,
    )
    with ExitStack() as stack:
        try:
            tries(_locked, place, name, stack)
        except LockTaken as taken:
            raise ProbeFailed(
                f"Another run has been trying the server of bucket {place.bucket!r} for more than "
                f"{MOST_WAIT:.0f} seconds."
            ) from taken
        yield


def _locked(place: Place, name: str, stack: ExitStack) -> None:
    with ExitStack() as until_locked:
        cursor = until_locked.enter_context(place.database.transaction(place.connection))
        if not try_lock(cursor, name):
            raise LockTaken(name)
        stack.push(until_locked.pop_all())


def _known(place: Place) -> _Known:
    with place.database.transaction(place.connection, read_only=True) as cursor:
        row = row_of(cursor, place)
        now = database_now(cursor)
    probed_at = None if row is None else row.probed_at
    return _Known(row, 0 if probed_at is None else (now - probed_at).days)


def in_words(abilities: Abilities) -> str:
    """What is known of a server, for people."""
    said = ["what it makes of a deletion that names the ETag is not known"]
    if abilities.conditional is not None:
        said = [_CONDITIONAL[abilities.conditional]]
    if not abilities.bulk:
        said.append(
            "refuses to delete many objects in one request, so every object takes a request of "
            "its own (`content_md5: true` helps some of these servers)"
        )
    if abilities.folds_slashes:
        said.append("takes files//a and files/a for one object, so such keys are kept")
    return "the server " + "; ".join([*said, *doubts(abilities)])


def doubts(abilities: Abilities) -> list[str]:
    """What keeps objects that were seen from ever being found the same again."""
    found: list[str] = []
    if abilities.seconds_apart is not None and abilities.seconds_apart > ROUNDED_BY:
        found.append(
            f"its listing and its HEAD differ by {abilities.seconds_apart} seconds on the time of "
            "one object, so that no orphan is the one that was seen, and none goes: set its clock "
            "or its time zone right"
        )
    if abilities.etags == "different":
        found.append(
            "its listing and its HEAD name different ETags for one object, so that no orphan is "
            "the one that was seen, and none goes: look at what stands in front of it"
        )
    if abilities.lists_uploads is False:
        found.append(f"it {BLIND}")
    return found


_CONDITIONAL: dict[ConditionalDelete, str] = {
    "honoured": "obeys a deletion that names the ETag",
    "single only": "obeys a deletion that names the ETag only in requests for one object, so every "
    "orphan takes a request of its own",
    "batch only": "obeys a deletion that names the ETag only in batches",
    "ignored": "ignores the ETag that a deletion names; objects are compared right before each "
    "request instead",
    "unsupported": "refuses a deletion that names the ETag; objects are compared right before each "
    "request instead",
}
