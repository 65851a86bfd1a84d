"""The one list of guards, in the order in which a run meets them.

The small guards are written here: commits that last, sources that know their own keys, tables as
the migrations made them, applications as their presets knew them.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.door.belonging import Belonging
from filejobs_dagster.door.clocks import Clocks
from filejobs_dagster.door.databases import Databases, claimed_in
from filejobs_dagster.door.doubt import Doubt
from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.door.hold import Held
from filejobs_dagster.door.server import Server
from filejobs_dagster.objects.errors import status_of
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.postgres.inventory import changes, told
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding_in
from filejobs_dagster.presets.preset import PresetError, load, probe
from filejobs_dagster.references.check import ReferenceCheck, ReferencesUnknown
from filejobs_dagster.references.measured import Measured, measure
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings.model import PresetSettings

# Commits that last: bytes that are gone do not come back, so what lets them go must not either.
#
# Every transaction of the project asks for a durable commit by itself (`Database.transaction`).
# This guard proves that the server heeds it, and says what else decides whether a commit lasts.

DURABLE = ("on", "remote_apply")
"""Values of `synchronous_commit` with which no commit is reported before it is safe."""

PAGE = "See docs/failover.md."

# reset_val is what role, database and server give a session; setting is what holds in this
# transaction. A server that only speaks PostgreSQL's protocol may lack any of the names.
_SETTINGS = """
SELECT current_setting('synchronous_commit', true),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       coalesce(current_setting('fsync', true), 'unknown'),
       coalesce(current_setting('full_page_writes', true), 'unknown'),
       coalesce(current_setting('synchronous_standby_names', true), '')
"""

# What ALTER ROLE and ALTER DATABASE have set for whoever connects here.
_ASYNCHRONOUS = """
SELECT DISTINCT coalesce('role ' || rolname, 'every role')
  FROM pg_db_role_setting
  LEFT JOIN pg_roles ON pg_roles.oid = setrole
 CROSS JOIN unnest(setconfig) AS entry
 WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND entry ~* '^synchronous_commit=(off|local|remote_write|false|no|0)$'
 ORDER BY 1
"""


class Commits(Guard):
    """A commit is on the disk before anything is concluded from it."""

    name = "commits"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Ask each server from which rows go what it makes of a transaction of ours."""
        said = [_asked(at, at.database, at.connection, "The server")]
        entries = [bucket.entry for bucket in at.buckets if bucket.deletes]
        for name, other in claimed_in(at.settings, entries, at.database, at.job).items():
            with other.connect("look at its commits") as connection:
                said.append(f"{name}: {_asked(at, other, connection, f'The server of {name}')}")
        return "; ".join(said)


def _asked(at: Look, database: Database, connection: Connection, whose: str) -> str:
    """What one server says.

    Raises:
        Refusal: Its commits do not last.
    """
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute(_SETTINGS)
        effective, usual, fsync, full_pages, standbys = one(cursor)
        cursor.execute(_ASYNCHRONOUS)
        asynchronous = [row[0] for row in cursor.fetchall()]
    if effective not in DURABLE:
        raise Refusal(
            f"{whose} commits asynchronously although it was asked not to: in a transaction of "
            f"ours synchronous_commit is {effective or 'unknown'}. After a crash rows would be "
            "back whose bytes are gone.",
            f"Nothing was touched. {PAGE}",
        )
    said = [f"synchronous_commit is {effective} in our transactions"]
    if usual != effective:
        said[0] += f", whatever the session's own {usual}"
    said.append(f"fsync {fsync}, full_page_writes {full_pages}")
    said.append(f"synchronous standbys: {standbys or 'none'}")
    if asynchronous:
        said.append(
            f"{', '.join(asynchronous)} commits asynchronously here: an upload that such an "
            "application completes right before a crash is a reservation again"
        )
    if fsync == "off":
        said.append("with fsync off no commit outlives a loss of power")
        at.log.warning(
            "%s runs with fsync off: after a loss of power rows may be back whose bytes are gone, "
            "whatever waits for a commit. %s",
            whose,
            PAGE,
        )
    return "; ".join(said)


# What keeps objects alive: sources that know their own keys, and protection that protects.

MOST_FOLDERS = 10
"""So many are tried in front of keys that have no object."""

MOST_ANSWERS = 3
"""So many of those that differ are named."""

MOST_LOOKED_FOR = 100
"""Entries of `protect`: each takes a request or two."""


class Sources(Guard):
    """Every source answers, shows every row, knows its own keys, and means this bucket.

    An entry of `protect` under which no object lies refuses nothing: there may be none yet. It is
    named each time, because it is more often a slip of the pen.
    """

    name = "sources"
    protects: frozenset[Touch] = frozenset({"objects", "multipart uploads"})

    def look(self, at: Look) -> str:
        """Ask every source, and look for what is protected."""
        swept = [bucket for bucket in at.buckets if bucket.deletes]
        return "; ".join(said for bucket in swept for said in _looked_at(at, bucket))


def _looked_at(at: Look, bucket: BucketAt) -> Iterator[str]:
    settings = bucket.settings
    try:
        with ReferenceCheck(
            at.connection, settings.sources, schema=at.database.schema
        ) as references:
            remarks = [*references.examine()]
            samples = references.samples
    except ReferencesUnknown as unknown:
        raise Refusal(str(unknown), "Nothing was touched.") from unknown
    measured = [
        measured_in(bucket, source.name, samples.get(source.name, {}))
        for source in settings.sources
        if source.names == "keys"
    ]
    checked = {source.name for source in settings.sources if source.keys_checked_by_hand}
    for seen in measured:
        if not seen.fits and seen.source not in checked:
            raise Refusal(seen.objection(), seen.advice())
    remarks += _without_object(bucket)
    for remark in remarks:
        at.log.warning("Bucket %s: %s.", bucket.entry, remark)
    names = ["the project's own tables", *(source.name for source in settings.sources)]
    yield f"{bucket.entry}: {', '.join(names)} answer and know their own keys"
    for seen in measured:
        yield f"{seen}{'' if seen.fits else ': checked by hand'}"
    yield from remarks


def measured_in(bucket: BucketAt, source: str, keys: Mapping[str, bytes]) -> Measured:
    """Look for the objects of some of a source's keys: each with the value that it was made of."""
    settings = bucket.settings
    return measure(
        source,
        keys,
        owned=settings.owned_prefixes,
        bucket=settings.bucket,
        fronts=lambda: _folders(bucket),
        exists=lambda key: _has_object(bucket, key),
    )


def _has_object(bucket: BucketAt, key: str) -> bool | None:
    """Whether there is an object; None when storage answers neither yes nor no."""
    try:
        bucket.client.head_object(Bucket=bucket.settings.bucket, Key=key)
    except ClientError as error:
        # Encrypted with a customer's key, or no right: something may well lie there.
        return False if status_of(error) == HTTPStatus.NOT_FOUND else None
    except (BotoCoreError, UnicodeError):
        return None
    return True


def _folders(bucket: BucketAt) -> list[str]:
    """Prefixes of what lies first under each owned prefix, those with the most objects first."""
    counts: Counter[str] = Counter()
    for prefix in bucket.settings.owned_prefixes:
        try:
            page = bucket.client.list_objects_v2(Bucket=bucket.settings.bucket, Prefix=prefix)
        except (ClientError, BotoCoreError):
            # Only a hint is lost: the source is refused with or without it.
            continue
        for shown in page.get("Contents", []):
            parts = shown["Key"].split("/")[:-1]
            counts.update("/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1))
    return [folder for folder, _ in counts.most_common(MOST_FOLDERS)]


def _without_object(bucket: BucketAt) -> Iterator[str]:
    """What protects nothing at the moment, in sentences without a full stop."""
    entries = bucket.settings.protect
    try:
        empty = [entry for entry in entries[:MOST_LOOKED_FOR] if not _lies_there(bucket, entry)]
    except (ClientError, BotoCoreError) as error:
        yield (
            "whether anything lies under protect could not be looked at: "
            f"{sanitize_exception(error, limit=300)}"
        )
        return
    for entry in empty:
        yield (
            f"no object lies under the entry {entry!r} of protect, so it protects nothing: if "
            "something should lie there, look how the bucket lists its key"
        )
    if len(entries) > MOST_LOOKED_FOR:
        yield f"of {len(entries)} entries of protect the first {MOST_LOOKED_FOR} were looked for"


def _lies_there(bucket: BucketAt, entry: str) -> bool:
    """True when an object is protected by the entry, as the gate reads it."""
    below = entry if entry.endswith("/") else f"{entry}/"
    # In the order of a listing the key itself comes before everything that it begins.
    return any(
        key == entry or key.startswith(below)
        for prefix in dict.fromkeys((entry, below))
        for key in _first_key(bucket, prefix)
    )


def _first_key(bucket: BucketAt, prefix: str) -> list[str]:
    page = bucket.client.list_objects_v2(Bucket=bucket.settings.bucket, Prefix=prefix, MaxKeys=1)
    return [one["Key"] for one in page.get("Contents", [])]


# The project's own tables refuse what they were made to refuse.
#
# Much of what the jobs rely on is kept by the database: with the triggers of `file` off, a client
# refers to a key in the moment between a run's intent and its deletion, and loses the object.


class Tables(Guard):
    """Tables, constraints, triggers, rules and functions are as the migrations made them."""

    name = "tables"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Compare the catalog with what a fresh migration leaves."""
        _compare(at, "nothing was touched")
        return "tables, constraints, triggers and rules are as the migrations made them"

    def prove(self, at: Look) -> None:
        """Compare again: triggers are switched off for a bulk load while a run works."""
        _compare(at, "nothing more was touched")


def _compare(at: Look, so_far: str) -> None:
    schema = at.database.schema
    with at.database.transaction(at.connection, read_only=True) as cursor:
        found = changes(cursor, schema)
        if not found:
            return
        try:
            lacking = outstanding_in(cursor)
        except MigrationRefused as error:
            raise Refusal(str(error), f"{so_far.capitalize()}.") from error
    if lacking:
        names = ", ".join(migration.name for migration in lacking)
        raise Refusal(f"The database lacks {names}.", "Run `filejobs migrate`.")
    raise Refusal(
        f"The project's tables in the schema {schema} are not as the migrations made them: "
        f"{told(found)}.",
        f"What they refuse keeps files in use from being deleted, so {so_far}. Find out who "
        "changed it and what was written meanwhile, then mend it.",
    )


# An application is the one whose tables its preset knew.
#
# A release may keep keys in a column or a table more. What is there alone looks unreferenced, and
# no source notices: each still answers, and still names what has an object.


class Presets(Guard):
    """Each application answers its preset's probes as when the settings were written."""

    name = "presets"
    protects: frozenset[Touch] = frozenset(
        {"rows", "rows elsewhere", "objects", "multipart uploads"}
    )

    def look(self, at: Look) -> str:
        """Ask the probes of every preset that the run's bucket has; of all, where it has none."""
        said = [_known_to(at, preset, "Nothing was touched.") for preset in _covered(at)]
        return "; ".join(said) or "no preset stands in the settings"

    def prove(self, at: Look) -> None:
        """Ask again: an upgrade migrates while a run works."""
        for preset in _covered(at):
            _known_to(at, preset, "What this run had not deleted yet it leaves alone.")


def _covered(at: Look) -> list[PresetSettings]:
    entries = {bucket.entry for bucket in at.buckets if bucket.deletes}
    return [it for it in at.settings.presets if not entries or it.bucket in entries]


def _known_to(at: Look, said: PresetSettings, so_far: str) -> str:
    """What is to be said of one preset.

    Raises:
        Refusal: The application answers differently, or its settings are for lists alone.
    """
    try:
        preset = load(said.name)
    except PresetError as error:
        raise Refusal(str(error), f"The settings were written by it. {so_far}") from error
    if preset.advice != "live":
        raise Refusal(
            f"Settings by the preset {said.name} are never live: {preset.reason}",
            so_far,
            doubts=False,
        )
    with ExitStack() as until_asked:
        database, connection = at.database, at.connection
        if said.database is not None:
            database = database.elsewhere(said.database.url.reveal())
            connection = until_asked.enter_context(database.connect("look at a preset"))
        found = probe(preset, database, connection)
    was, now = said.probed, found.recorded
    others = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
    if found.objection or others:
        shown = "; ".join(
            f"{name}: {was.get(name, 'not asked')}, now {now.get(name, 'not asked')}"
            for name in others[:MOST_ANSWERS]
        )
        more = f" and {len(others) - MOST_ANSWERS} more" if len(others) > MOST_ANSWERS else ""
        raise Refusal(
            f"The application of the preset {said.name} answers differently than when the settings "
            f"of bucket {said.bucket} were written ({found.objection or shown}{more}). It was "
            "upgraded, or this is another database: files in use may be named where no source "
            "looks.",
            f"Run `filejobs preset check {said.name}`. When it fits, `filejobs preset apply "
            f"{said.name} --again` prints what belongs into the settings now. {so_far}",
        )
    if preset.digest != said.hash:
        at.log.warning(
            "The preset %s is another text than the settings were written by (version %d, now %d): "
            "`filejobs preset apply %s` prints what it says now.",
            said.name, said.version, preset.version, said.name,
        )  # fmt: skip
    return f"{said.bucket}: {said.name} answers as when its settings were written"


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
    Presets(),
    Sources(),
    Server(),
)
