"""Takes what a rehearsal needs: rows of one snapshot, the listing, settings that lead nowhere else.

Nothing is written to the operator's database or bucket: the transaction is read-only, and of the
bucket only HEAD and the listing are asked. A dump and a listing in files may stand for both.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import yaml
from dateutil.parser import isoparse
from psycopg import sql

from filejobs_dagster.door.adoption_target import AWS
from filejobs_dagster.embedded import EmbeddedPostgres, clean_environment
from filejobs_dagster.jobs.storage_orphans.judging import fingerprint
from filejobs_dagster.jobs.storage_orphans.review import (
    OF_A_DUMP,
    Expectation,
    Rehearsed,
    of_a_dump,
    unescape_key,
)
from filejobs_dagster.jobs.storage_orphans.statements import ADOPTED_AT
from filejobs_dagster.objects.client import check_access, make_client
from filejobs_dagster.objects.listing import ListingStopped, list_objects
from filejobs_dagster.objects.listing.inventory import (
    Entry,
    InventoryUnusable,
    entries_of,
    inventory,
)
from filejobs_dagster.objects.targets import OF_THE_HOUSE
from filejobs_dagster.postgres.connect import Database, one
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.postgres.primary import server_state
from filejobs_dagster.references.own_tables import OWN_TABLES
from filejobs_dagster.settings import SettingsError, known_secrets
from filejobs_dagster.settings.tables import CollectingSettings
from filejobs_dagster.streams import Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.settings import BucketSettings, Settings
    from filejobs_dagster.settings.storage import SourceSettings

JOB = "storage_orphans"
INSTALLATION = "rehearsal"
BUCKET = "rehearsal"
URL = "FILEJOBS_REHEARSAL_DATABASE_URL"
ACCESS_KEY = "FILEJOBS_REHEARSAL_ACCESS_KEY_ID"
SECRET_KEY = "FILEJOBS_REHEARSAL_SECRET_ACCESS_KEY"  # noqa: S105 (a variable's name)
ENDPOINT = "http://127.0.0.1:9"
"""Stands in the derived settings until the store is there; nothing listens on that port."""

BYTES_AN_OBJECT = 400
"""Of memory, about, in the store."""

OF_A_BUCKET = (
    "owns",
    "owns_whole_bucket",
    "protect",
    "min_age",
    "sources",
    "shape",
    "rewrites",
    "named_elsewhere",
)
"""What the derived settings keep of a bucket. A list of what stays cannot forget what must go."""

OF_A_SOURCE = (
    "name",
    "sql",
    "min_rows",
    "transforms",
    "recheck_sql",
    "names",
    "keys_checked_by_hand",
    "rows_checked_by_hand",
)

_RELATIONS = """
SELECT n.nspname, c.relname, pg_total_relation_size(c.oid),
       c.relkind IN ('r', 'p', 'm') AND has_table_privilege(c.oid, 'SELECT'),
       array_agg(a.attname::text ORDER BY a.attnum),
       array_agg(format_type(a.atttypid, CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace
                                              THEN a.atttypmod END) ORDER BY a.attnum)
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type AS t ON t.oid = a.atttypid
 WHERE c.relkind IN ('r', 'p', 'm', 'v', 'f') AND NOT c.relispartition
   AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_t'
 GROUP BY n.nspname, c.relname, c.oid, c.relkind
"""

_RELATIONS_THERE = """
SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
"""

# A table without partitions has no tree, and one with them has no bytes of its own.
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(relid)), pg_total_relation_size(to_regclass(%(table)s)))
  FROM pg_partition_tree(to_regclass(%(table)s))
"""

# An array's element is made, and the array comes with it.
_TYPES = """
WITH RECURSIVE used AS (
    SELECT DISTINCT a.atttypid AS oid
      FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid
     WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'm', 'v', 'f')
    UNION
    SELECT t.typelem FROM pg_type AS t JOIN used ON used.oid = t.oid WHERE t.typelem <> 0
)
SELECT n.nspname, t.typname,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
          FROM pg_enum AS e WHERE e.enumtypid = t.oid),
       CASE WHEN t.typtype = 'd' AND b.typnamespace = 'pg_catalog'::regnamespace
            THEN format_type(t.typbasetype, t.typtypmod) ELSE 'text' END
  FROM used JOIN pg_type AS t USING (oid)
  JOIN pg_namespace AS n ON n.oid = t.typnamespace
  LEFT JOIN pg_type AS b ON b.oid = t.typbasetype
 WHERE n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
   AND t.typcategory <> 'A'
"""

_NEEDED = """
SELECT n.nspname, c.relname, array_agg(DISTINCT a.attname::text)
  FROM pg_depend AS d
  JOIN pg_rewrite AS r ON r.oid = d.objid AND r.ev_class = to_regclass(%s)
  JOIN pg_class AS c ON c.oid = d.refobjid AND c.oid <> r.ev_class
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
  LEFT JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid AND a.attnum > 0
 WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass
   AND n.nspname <> 'pg_catalog'
 GROUP BY n.nspname, c.relname
"""

NAMED = """
SELECT n.nspname, c.relname FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.oid = to_regclass(%s)
"""

# Keys that foreign keys point at come first.
_KEYS = """
SELECT made.of::text, made.what, made.definition
  FROM (SELECT conrelid::regclass AS of, contype = 'f' AS late, conname::text AS what,
               format('ALTER TABLE %%s ADD CONSTRAINT %%I %%s', conrelid::regclass, conname,
                      pg_get_constraintdef(oid)) AS definition
          FROM pg_constraint
         WHERE contype IN ('p', 'u', 'f')
           AND conrelid = ANY(%(tables)s::text[]::regclass[])
           AND conparentid = 0
           AND (confrelid = 0 OR confrelid = ANY(%(tables)s::text[]::regclass[]))
        UNION ALL
        SELECT indrelid::regclass, false, indexrelid::regclass::text, pg_get_indexdef(indexrelid)
          FROM pg_index
         WHERE indisunique AND indrelid = ANY(%(tables)s::text[]::regclass[])
           AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)) AS made
 ORDER BY made.late, made.what
"""

COLUMNS_THERE = """
SELECT attname::text FROM pg_attribute
 WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
"""


class CannotRehearse(Exception):
    """The copy cannot be made; the message says why, and what to do. Nothing was changed."""


@dataclass(frozen=True)
class Relation:
    """A table, or a view, which the copy holds as a table.

    Attributes:
        schema: Where it is.
        name: What it is called.
        bytes: What it takes on disk with its indexes.
        readable: A table that the role may read.
        columns: Type by name.
    """

    schema: str
    name: str
    bytes: int
    readable: bool
    columns: dict[str, str]

    @property
    def identifier(self) -> sql.Identifier:
        """For statements."""
        return sql.Identifier(self.schema, self.name)

    def __str__(self) -> str:
        """For people."""
        return f"{self.schema}.{self.name}"


@dataclass
class Taken:
    """What was taken, as the report says it.

    Attributes:
        tables: Columns that were copied, by table.
        left: Tables of which nothing was copied.
        table_bytes: What the tables take in the operator's database.
        objects: How many were listed.
        of_the_house: How many were left out: markers and copies in quarantine, no sweep's objects.
        object_bytes: Their sizes.
        listing_seconds: How long the listing took; None where a file was read instead.
        seconds_a_request: How long one small request to the real bucket takes.
        database: The identity of the database, or `of_a_dump`.
        at: When its snapshot was taken.
        missing: What the dump holds and this server could not make.
        doubt: Why nobody knows of which database the dump is; empty otherwise.
        newest_run: When the newest run ended that the dump knows of; empty where it knows none.
    """

    tables: dict[str, list[str]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    table_bytes: int = 0
    objects: int = 0
    of_the_house: int = 0
    object_bytes: int = 0
    listing_seconds: float | None = None
    seconds_a_request: float = 0.0
    database: str = OF_A_DUMP
    at: str = ""
    missing: list[str] = field(default_factory=list)
    doubt: str = ""
    newest_run: str = ""


@dataclass(frozen=True)
class Options:
    """How a rehearsal is made.

    Attributes:
        most_objects: More are refused: the store keeps them in memory.
        all_tables: Copy every table that the role may read, whole.
        mutations: Leave out each rule in turn.
        without: Leave out these rules alone, as the report names them; empty for all.
        folder: Where the copy is kept meanwhile; None for the system's temporary folder.
        dump: By pg_dump, in any format; the database is then not asked.
        listing: A CSV, or the manifest.json of an S3 Inventory; the bucket is then not asked.
    """

    most_objects: int = 250_000
    all_tables: bool = False
    mutations: bool = True
    without: tuple[str, ...] = ()
    folder: Path | None = None
    dump: Path | None = None
    listing: Path | None = None


def held(found: Mapping[str, Any]) -> bool:
    """True when the runs succeeded and every planted file fared as it must."""
    return all(it["ok"] for it in found["runs"]) and all(it["held"] for it in found["canaries"])


def rehearse(settings: Settings, options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Copy, run the jobs there in a process of its own, and return its report.

    Args:
        settings: The operator's.
        options: How.
        say: Told what is being done.

    Raises:
        CannotRehearse: Something is in the way; nothing was changed anywhere.
    """
    if JOB not in settings.jobs:
        raise CannotRehearse(
            f"{JOB} does not stand under `jobs:`, and it is the job that is rehearsed. Add it with "
            "by_hand: true and mode: dry."
        )
    entry, bucket = settings.bucket_of(JOB)
    with ExitStack() as closing_all:
        # What a killed rehearsal left is removed by the next one.
        folder = closing_all.enter_context(Scratch(options.folder)).folder
        taken = Taken(at=f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}")
        if options.listing is None:
            client = make_client(bucket)
            closing_all.callback(client.close)
            _list(client, bucket, folder, options, taken, say)
        else:
            _read_listing(options.listing, bucket, folder, options, taken, say)
        server = closing_all.enter_context(EmbeddedPostgres.start(durable=True))
        others = collecting(settings, entry)
        whole = _tables_of(others.values())
        urls = _copy_all(settings, bucket, server, folder, options, taken, say, whole)
        (folder / "others.json").write_text(json.dumps(_sections(others)))
        (folder / "tables.json").write_text(json.dumps(taken.tables))
        derived = derived_settings(settings, entry, bucket, urls)
        text = yaml.safe_dump(derived, sort_keys=False)
        _nothing_leads_back(text, settings, bucket)
        (folder / "filejobs.yaml").write_text(text)
        say("running the jobs on the copy")
        found = _run_there(folder, urls, options, say)
    about = _about(settings, bucket, others)
    said = {"taken": taken.__dict__, **_with_time(found, taken), **about}
    good = held(said) and not taken.doubt
    return {**said, "hash": _hash(said, settings, bucket, taken) if good else None}


def collecting(settings: Settings, entry: str) -> dict[str, CollectingSettings]:
    """The other jobs that can be rehearsed: they take rows, and what those name in this bucket.

    Left out are those whose rows are in another database.
    """
    found = {}
    for name, section in settings.jobs.items():
        if not isinstance(section, CollectingSettings):
            continue
        source = getattr(section, "source", None)
        rows = [*section.declared(), *([source] if source is not None else [])]
        try:
            here = settings.bucket_of(name)[0] == entry
        except SettingsError:
            continue
        if here and all(it.database is None for it in rows):
            found[name] = section
    return found


def _sections(others: Mapping[str, CollectingSettings]) -> dict[str, Any]:
    """What the settings say of these jobs, but for what starts them and what keeps copies."""
    apart = {"schedule", "quarantine", "leave_out", "backlog_over"}
    return {
        name: {
            **section.model_dump(mode="json", exclude_unset=True, exclude=apart),
            "by_hand": True,
            "mode": "live",
        }
        for name, section in others.items()
    }


@dataclass
class _Whole:
    """What the other jobs work on: these rows come with every column, and with their keys.

    Attributes:
        tables: As the settings write them.
        queries: By what they are called.
    """

    tables: list[str] = field(default_factory=list)
    queries: dict[str, str] = field(default_factory=dict)


def _tables_of(sections: Iterable[CollectingSettings]) -> _Whole:
    found = _Whole()
    for section in sections:
        for table in section.declared():
            below = [it for gone in table.also_delete for it in (gone, *gone.also_delete)]
            found.tables += [table.table]
            found.tables += [it.table for it in (*table.unless_named_by, *below)]
        source = getattr(section, "source", None)
        if source is not None:
            found.queries[source.name] = str(source.candidates)
        for derived in getattr(section, "derived", ()):
            found.queries[derived.name] = str(derived.sql)
    return found


def _about(
    settings: Settings, bucket: BucketSettings, others: Mapping[str, CollectingSettings]
) -> dict[str, Any]:
    """Of what it was a rehearsal, and what it was none of."""
    return {
        "installation": settings.installation,
        "bucket": bucket.bucket,
        "endpoint": bucket.endpoint_url or AWS,
        "fingerprint": fingerprint(bucket),
        "not_rehearsed": sorted(set(settings.jobs) - {JOB, *others}),
    }


def _hash(
    found: Mapping[str, Any], settings: Settings, bucket: BucketSettings, taken: Taken
) -> str:
    """The line that the first live run asks for."""
    at = isoparse(taken.at)
    place = Expectation(
        settings.installation, bucket.bucket, bucket.endpoint_url or AWS, found["fingerprint"], at
    )
    made = Rehearsed(found["fingerprint"], at, found["gone"]["objects"], found["references"])
    return made.as_hash(place, taken.database, bucket)


# The bucket -------------------------------------------------------------------------------------


def _list(
    client: S3Client,
    bucket: BucketSettings,
    folder: Path,
    options: Options,
    taken: Taken,
    say: Callable[[str], None],
) -> None:
    begun = time.monotonic()
    check_access(client, bucket.bucket)
    taken.seconds_a_request = time.monotonic() - begun
    seen = 0

    def look(progress: Any) -> None:
        nonlocal seen
        seen = progress.objects
        say(f"listing the bucket: {seen:,} objects")

    begun = time.monotonic()
    too_many = _too_many(options)
    with Scratch(folder) as scratch, (folder / "listing.jsonl").open("w") as out:
        try:
            listed = list_objects(
                client,
                bucket.bucket,
                bucket.owned_prefixes,
                parts=4,
                scratch=scratch,
                on_progress=look,
                should_stop=lambda: seen > options.most_objects,
            )
        except ListingStopped:
            raise CannotRehearse(too_many) from None
        if listed.objects > options.most_objects:
            raise CannotRehearse(too_many)
        for page in listed.pages():
            for key, size, modified, _ in page.rows():
                if key.startswith(_OF_THE_HOUSE):
                    taken.of_the_house += 1
                    continue
                out.write(json.dumps([key.decode("utf-8", "surrogateescape"), size, modified]))
                out.write("\n")
    taken.listing_seconds = time.monotonic() - begun
    taken.objects = listed.objects - taken.of_the_house
    taken.object_bytes = listed.bytes


# An empty object under the key of a marker would be a marker that nobody can read.
_OF_THE_HOUSE = tuple(it.encode() for it in OF_THE_HOUSE)


def _too_many(options: Options) -> str:
    return (
        f"The bucket holds more than {options.most_objects:,} objects in what is owned, and the "
        f"store of a rehearsal keeps them in memory (about {BYTES_AN_OBJECT / 1000} KB each), anew "
        "for each rule that is left out. A part of the listing would say nothing. Where there is "
        "memory and time, give --most-objects, and perhaps --no-mutations; nothing was changed."
    )


# A listing in files. A line of it is a key, its size, and when it was written.

_COLUMNS = ("key", "size", "last_modified")


def _read_listing(
    path: Path,
    bucket: BucketSettings,
    folder: Path,
    options: Options,
    taken: Taken,
    say: Callable[[str], None],
) -> None:
    """Take a listing out of a CSV or an S3 Inventory; nothing is asked of the bucket.

    Raises:
        CannotRehearse: It is none, or not all of it is there.
    """
    owned = tuple(prefix.encode() for prefix in bucket.owned_prefixes)
    say(f"reading the listing {path}")
    seen: set[bytes] = set()
    try:
        with (folder / "listing.jsonl").open("w") as out:
            for key, size, modified in _listed(path, bucket):
                if not key.startswith(owned):
                    continue
                if key.startswith(_OF_THE_HOUSE):
                    taken.of_the_house += 1
                    continue
                if key in seen:
                    raise CannotRehearse(
                        f"The listing {path} names {key!r} twice: it is not one listing of the "
                        "objects of now. Nothing was changed."
                    )
                seen.add(key)
                if len(seen) > options.most_objects:
                    raise CannotRehearse(_too_many(options))
                at = round(modified.timestamp() * 1000)
                out.write(json.dumps([key.decode("utf-8", "surrogateescape"), size, at]) + "\n")
                taken.object_bytes += size
    except InventoryUnusable as error:
        raise CannotRehearse(f"{error} Nothing was changed.") from error
    except (OSError, csv.Error, EOFError) as error:
        raise CannotRehearse(
            f"The listing {path} cannot be read: {error}. Nothing was changed."
        ) from error
    taken.objects = len(seen)
    say(f"{taken.objects:,} objects of what is owned stand there, {taken.object_bytes:,} bytes")


def _listed(path: Path, bucket: BucketSettings) -> Iterator[Entry]:
    if path.suffix == ".json":
        yield from inventory(path, bucket.bucket)
        return
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        columns = [name.strip().lower() for name in next(rows, [])]
        escaped = "key_percent_encoded" in columns
        wanted = ["key_percent_encoded" if escaped else "key", *_COLUMNS[1:]]
        if not set(wanted) <= set(columns):
            raise CannotRehearse(
                f"The first line of {path} must name the columns key (or key_percent_encoded), "
                f"size and last_modified; it names {', '.join(columns) or 'nothing'}."
            )
        places = [columns.index(name) for name in wanted]
        yield from entries_of(path, rows, places, unescape_key if escaped else str.encode)


# The database -----------------------------------------------------------------------------------


def _copy_all(
    settings: Settings,
    bucket: BucketSettings,
    server: EmbeddedPostgres,
    folder: Path,
    options: Options,
    taken: Taken,
    say: Callable[[str], None],
    whole: _Whole,
) -> dict[str, str]:
    """Copy each database that the sources are asked in; its URL there by its URL here."""
    own = Database.of(settings.database)
    restored = None if options.dump is None else _restore(options.dump, server, taken, say)
    if restored is not None:
        _of_whom(Database(restored, own.schema), settings, bucket, taken)
    elsewhere = [it.name for it in bucket.sources if it.database is not None]
    if restored is not None and elsewhere:
        raise CannotRehearse(
            f"A dump holds one database, and {', '.join(elsewhere)} is asked in another. Rehearse "
            "without --dump. Nothing was changed."
        )
    asked: dict[str, list[SourceSettings]] = {own.url: []}
    for source in bucket.sources:
        url = own.url if source.database is None else source.database.url.reveal()
        asked.setdefault(url, []).append(source)
    urls = {}
    for number, (url, sources) in enumerate(asked.items()):
        urls[url] = server.create_database(f"rehearsal_{number}")
        there = Database(urls[url], own.schema)
        here = own if url == own.url else own.elsewhere(url)
        if restored is not None:
            here = Database(restored, own.schema)
        if url == own.url:
            migrate(there.url, own.schema)
        of_jobs = whole if url == own.url else _Whole()
        copy = _Copy(here, there, sources, folder, options, taken, say, of_jobs)
        copy.make(with_own=url == own.url)
    return urls


# By its own record, where it has one: nothing else in a dump says whose it is.
_OF_WHOM = """
SELECT (SELECT array_agg(DISTINCT installation) FROM job_run),
       (SELECT max(finished_at) FROM job_run WHERE installation = %(installation)s),
       (SELECT array_agg(DISTINCT installation) FROM bucket_adoption
         WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s)
"""


def _of_whom(dump: Database, settings: Settings, bucket: BucketSettings, taken: Taken) -> None:
    """Find out of which database a dump is, as far as it says that.

    Raises:
        CannotRehearse: It is another installation's.
    """
    ours = settings.installation
    place = {
        "installation": ours,
        "endpoint": bucket.endpoint_url or AWS,
        "bucket": bucket.bucket,
    }
    with closing(dump.connect("rehearse")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('job_run'), to_regclass('bucket_adoption')")
        if None in one(cursor):
            taken.doubt = "it holds no table of this project"
            return
        runs, newest, adopters = one(cursor.execute(_OF_WHOM, place))
        others = sorted({*(adopters or ()), *(runs or ())} - {ours})
        if others and ours not in {*(adopters or ()), *(runs or ())}:
            raise CannotRehearse(
                f"The dump is of the installation {', '.join(others)}, and these settings are of "
                f"{ours}. Take a dump of the database that the jobs of {ours} work on. Nothing was "
                "changed."
            )
        adopted_at = one(cursor.execute(ADOPTED_AT, place))[0]
    taken.newest_run = (
        "" if newest is None else f"{newest.astimezone(timezone.utc):%Y-%m-%dT%H:%MZ}"
    )
    if adopted_at is None:
        taken.doubt = f"it was taken before {ours} has adopted the bucket, or of another database"
    else:
        taken.database = of_a_dump(adopted_at)


_EXTENSION = re.compile(r'extension "([^"]+)" is not available')
_ERROR = re.compile(r"error: |ERROR: ")


def _restore(path: Path, server: EmbeddedPostgres, taken: Taken, say: Callable[[str], None]) -> str:
    """Restore a dump into a database of its own; its URL.

    Raises:
        CannotRehearse: It is no dump, or rows of a table of it could not be restored.
    """
    url = server.create_database("rehearsal_dump")
    say(f"restoring the dump {path}")
    plain = path.is_file() and path.read_bytes()[:5] != b"PGDMP"
    if plain:
        command = ["psql", "--no-psqlrc", "--quiet", "--output=/dev/null", f"--file={path}", url]
    else:
        command = [
            "pg_restore", "--no-owner", "--no-privileges", "--no-subscriptions",
            "--no-publications", f"--dbname={url}", str(path),
        ]  # fmt: skip
    done = subprocess.run(
        [str(server.program(command[0])), *command[1:]],
        env=clean_environment(os.environ),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    errors = [line for line in done.stderr.splitlines() if _ERROR.search(line)]
    lost = [line for line in errors if "COPY failed" in line or "invalid input" in line]
    with psycopg.connect(url) as connection:
        tables = one(connection.execute(_TABLES_THERE.encode()))[0]
    if lost or not tables or (done.returncode and not errors):
        said = (lost or errors or done.stderr.splitlines() or ["no table is in it"])[0]
        raise CannotRehearse(
            f"The dump {path} could not be restored: {said}. Take one by pg_dump, whole, of a "
            "version that is not newer than this machine's. Nothing was changed."
        )
    missing = sorted({it[1] for line in errors if (it := _EXTENSION.search(line))})
    taken.missing = [f"extension {name}" for name in missing]
    others = len(errors) - sum(bool(_EXTENSION.search(line)) for line in errors)
    if missing:
        say(f"this server lacks the extensions {', '.join(missing)}: what needs them is not there")
    if others:
        taken.missing.append(f"{others} statements, the first: {errors[0]}")
        say(f"{others} statements of the dump failed, for instance: {errors[0]}")
    return url


_TABLES_THERE = """
SELECT count(*) FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema')
"""


class _Copy:
    """One database's."""

    def __init__(
        self,
        here: Database,
        there: Database,
        sources: Sequence[SourceSettings],
        folder: Path,
        options: Options,
        taken: Taken,
        say: Callable[[str], None],
        whole: _Whole,
    ) -> None:
        self._here = here
        self._whole = whole
        self._there = replace(there, connect_timeout=here.connect_timeout)
        self._sources = sources
        self._folder = folder
        self._options = options
        self._taken = taken
        self._say = say

    def make(self, *, with_own: bool) -> None:
        with (
            closing(self._here.connect("rehearse")) as connection,
            closing(self._there.connect("rehearse")) as there,
        ):
            # One snapshot for the catalogue and all rows; PostgreSQL refuses every write.
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.read_only = True
            with self._here.transaction(connection, unlimited=True) as cursor:
                # What the role may not see must fail, and never look like a row that is not there.
                cursor.execute("SET LOCAL row_security = off")
                cursor.execute("SET LOCAL search_path = ''")
                if with_own and self._options.dump is None:
                    self._taken.database = server_state(cursor).identity
                    at = one(cursor.execute(b"SELECT now()"))[0].astimezone(timezone.utc)
                    self._taken.at = f"{at:%Y-%m-%dT%H:%M:%SZ}"
                relations = self._define(cursor, there)
                wanted = self._wanted(there, relations)
                if with_own:
                    wanted |= self._own(cursor, there)
                self._say_sizes(cursor, wanted, relations)
                for name, columns in wanted.items():
                    self._rows(cursor, there, name, columns)
                self._keys(
                    cursor,
                    there,
                    [it for it in wanted if it in relations
                     and set(wanted[it]) == set(relations[it].columns)],
                )  # fmt: skip
            there.execute("ANALYZE")

    def _keys(
        self,
        cursor: psycopg.Cursor[Any],
        there: Connection,
        whole: Sequence[tuple[str, str]],
    ) -> None:
        """Make primary, unique and foreign keys of tables whose rows came whole."""
        names = [sql.Identifier(*name).as_string(cursor) for name in whole]
        for table, what, definition in cursor.execute(_KEYS.encode(), {"tables": names}).fetchall():
            try:
                there.execute(definition.encode())
            except psycopg.Error as error:
                lacks = f"{what} of {table} ({error.diag.message_primary})"
                self._taken.missing.append(lacks)

    def _define(
        self, cursor: psycopg.Cursor[Any], there: Connection
    ) -> dict[tuple[str, str], Relation]:
        """Make every type and every table of the database there, without rows."""
        types = cursor.execute(_TYPES.encode()).fetchall()
        # A rehearsal begins its own record: of the project's tables only those that name keys come.
        ours = set(there.execute(_RELATIONS_THERE.encode()).fetchall())
        found = [
            Relation(schema, name, size, readable, dict(zip(columns, kinds, strict=True)))
            for schema, name, size, readable, columns, kinds in cursor.execute(
                _RELATIONS.encode()
            ).fetchall()
            if (schema, name) not in ours
        ]
        for schema in sorted({it.schema for it in found} | {schema for schema, *_ in types}):
            there.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
        for schema, name, labels, base in types:
            kind = sql.Identifier(schema, name)
            if labels:
                made = sql.SQL("CREATE TYPE {} AS ENUM ({})").format(
                    kind, sql.SQL(", ").join(map(sql.Literal, labels))
                )
            else:
                made = sql.SQL("CREATE DOMAIN {} AS {}").format(kind, sql.SQL(base))
            _unless_there(there, made)
        for it in found:
            columns = sql.SQL(", ").join(
                sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind))
                for name, kind in it.columns.items()
            )
            # Neither keys nor checks: what is not copied of a row is null.
            _unless_there(there, sql.SQL("CREATE TABLE {} ({})").format(it.identifier, columns))
        return {(it.schema, it.name): it for it in found}

    def _wanted(
        self, there: Connection, relations: dict[tuple[str, str], Relation]
    ) -> dict[tuple[str, str], list[str]]:
        """The columns that the sources read, by table; PostgreSQL itself says which."""
        wanted: dict[tuple[str, str], set[str]] = {}
        for source in self._sources:
            for query in filter(None, (source.sql, source.recheck_sql)):
                for name, columns in self._reads(there, source.name, query):
                    if name in relations:
                        known = [column for column in columns if column is not None]
                        wanted.setdefault(name, set()).update(known or relations[name].columns)
        for name in self._of_jobs(there):
            if name in relations:
                wanted[name] = set(relations[name].columns)
        if self._options.all_tables:
            for name, it in relations.items():
                if it.readable:
                    wanted[name] = set(it.columns)
        self._taken.left += [
            str(it) for name, it in relations.items() if it.readable and name not in wanted
        ]
        return {name: sorted(columns) for name, columns in wanted.items()}

    def _of_jobs(self, there: Connection) -> Iterator[tuple[str, str]]:
        """The tables that the other jobs work on."""
        for label, query in self._whole.queries.items():
            yield from (name for name, _ in self._reads(there, label, query))
        for written in self._whole.tables:
            row = there.execute(NAMED.encode(), (written,)).fetchone()
            if row is not None:
                yield row[0], row[1]

    def _reads(
        self, there: Connection, source: str, query: str
    ) -> list[tuple[tuple[str, str], list[str | None]]]:
        asked = re.sub(r"\$1\b", "NULL", query)
        view = "filejobs_rehearsal_reads"
        try:
            with self._there.transaction(there) as cursor:
                made = f"CREATE VIEW {view} AS SELECT 1 AS one FROM (\n{asked}\n) AS it"  # noqa: S608
                cursor.execute(made.encode())
                cursor.execute(_NEEDED.encode(), (view,))
                found = [((row[0], row[1]), list(row[2])) for row in cursor.fetchall()]
                cursor.execute(f"DROP VIEW {view}".encode())
        except psycopg.Error as error:
            raise CannotRehearse(
                f"Source {source!r} cannot be asked in a copy: {error.diag.message_primary}. "
                "Tables and views are copied; functions and extensions of your own are not. Write "
                "the query without them, or rehearse on a restored backup. Nothing was changed."
            ) from error
        return found

    def _own(
        self, cursor: psycopg.Cursor[Any], there: Connection
    ) -> dict[tuple[str, str], list[str]]:
        """The project's own tables that name keys, where they are made already."""
        wanted = {}
        for table in OWN_TABLES:
            name = sql.Identifier(self._here.schema, table.table).as_string(there)
            cursor.execute(COLUMNS_THERE.encode(), (name,))
            here = {column for (column,) in cursor.fetchall()}
            columns = [
                column
                for (column,) in there.execute(COLUMNS_THERE.encode(), (name,)).fetchall()
                if column in here
            ]
            if columns:
                wanted[self._here.schema, table.table] = columns
        return wanted

    def _say_sizes(
        self,
        cursor: psycopg.Cursor[Any],
        wanted: dict[tuple[str, str], list[str]],
        relations: dict[tuple[str, str], Relation],
    ) -> None:
        total = 0
        for name, columns in wanted.items():
            identifier = sql.Identifier(*name).as_string(cursor)
            size = int(one(cursor.execute(_SIZE.encode(), {"table": identifier}))[0] or 0)
            size = max(size, relations[name].bytes if name in relations else 0)
            total += size
            self._taken.tables[".".join(name)] = columns
            self._say(f"{'.'.join(name)}: {size / 1e6:,.1f} MB, of it {', '.join(columns)}")
        self._taken.table_bytes += total
        free = shutil.disk_usage(self._folder).free
        if total > free:
            raise CannotRehearse(
                f"The tables take {total / 1e9:,.1f} GB, and the disk of {self._folder} has "
                f"{free / 1e9:,.1f} GB. Give another folder by --scratch-dir. Nothing was changed."
            )

    def _rows(
        self,
        cursor: psycopg.Cursor[Any],
        there: Connection,
        name: tuple[str, str],
        columns: list[str],
    ) -> None:
        self._say(f"copying {'.'.join(name)}")
        table = sql.Identifier(*name)
        listed = sql.SQL(", ").join(map(sql.Identifier, columns))
        out = sql.SQL("COPY (SELECT {} FROM {}) TO STDOUT").format(listed, table)
        into = sql.SQL("COPY {} ({}) FROM STDIN").format(table, listed)
        try:
            with there.transaction(), there.cursor() as target:
                # The project's own triggers have seen these rows already.
                target.execute("SET LOCAL session_replication_role = replica")
                with cursor.copy(out) as reading, target.copy(into) as writing:
                    for block in reading:
                        writing.write(block)
        except psycopg.errors.InsufficientPrivilege as error:
            raise CannotRehearse(
                f"The rows of {'.'.join(name)} cannot be read: {error.diag.message_primary}. The "
                f"sources read them: GRANT SELECT ({', '.join(columns)}) ON {'.'.join(name)} TO "
                "the role. Nothing was changed."
            ) from error


def _unless_there(there: Connection, statement: sql.Composed) -> None:
    try:
        there.execute(statement)
    except (psycopg.errors.DuplicateTable, psycopg.errors.DuplicateObject):
        return


# The settings -----------------------------------------------------------------------------------


def derived_settings(
    settings: Settings, entry: str, bucket: BucketSettings, urls: dict[str, str]
) -> dict[str, Any]:
    """The document by which the jobs work on the copy: what is not named here is left out."""
    own = settings.database
    numbers = {url: number for number, url in enumerate(urls)}
    said = bucket.model_dump(mode="json", exclude_unset=True)
    kept = {name: said[name] for name in OF_A_BUCKET if name in said}
    kept["sources"] = [
        {
            **{name: it[name] for name in OF_A_SOURCE if name in it},
            **(
                {"database": {"url": {"env": f"{URL}_{numbers[source.database.url.reveal()]}"}}}
                if source.database is not None and source.database.url != own.url
                else {}
            ),
        }
        for it, source in zip(said.get("sources", []), bucket.sources, strict=True)
    ]
    kept.get("named_elsewhere", {}).pop("databases", None)
    job = settings.jobs[JOB].model_dump(mode="json", exclude_unset=True)
    for name in ("report", "schedule"):
        job.pop(name, None)
    return {
        "installation": INSTALLATION,
        "database": {"url": {"env": f"{URL}_0"}, "schema": own.schema_name},
        "buckets": {
            entry: {
                "bucket": BUCKET,
                "endpoint_url": ENDPOINT,
                "region": "us-east-1",
                "addressing": "path",
                "access_key_id": {"env": ACCESS_KEY},
                "secret_access_key": {"env": SECRET_KEY},
                # Empty objects of a size that they have not cannot be copied and compared.
                "delete": "at_once",
                **kept,
            }
        },
        "jobs": {JOB: {**job, "by_hand": True, "mode": "live"}},
    }


def _nothing_leads_back(text: str, settings: Settings, bucket: BucketSettings) -> None:
    """Refuse settings in which anything stands that leads to the real bucket or database.

    A transform may cut an address off what the rows say; as such it is compared with text alone.
    """
    said = yaml.safe_load(text)
    for it in said["buckets"].values():
        if it["bucket"] != BUCKET or it["endpoint_url"] != ENDPOINT:
            raise CannotRehearse("The derived settings name another bucket. Nothing was run.")
    secrets = {*known_secrets(settings), bucket.marker or ""} - {""}
    if any(secret in text for secret in secrets):
        raise CannotRehearse(
            "A secret stands in the text of a source, a transform or a rule, and would reach the "
            "copy. Take it out of filejobs.yaml. Nothing was run."
        )


# The process ------------------------------------------------------------------------------------


def _run_there(
    folder: Path, urls: dict[str, str], options: Options, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the jobs where nothing leads back: another process, an environment without our own."""
    environment = {
        **clean_environment(os.environ),
        **{f"{URL}_{number}": url for number, url in enumerate(urls.values())},
        ACCESS_KEY: "rehearsal",
        SECRET_KEY: "rehearsal",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    # Its imports take twice as long without bytecode.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    wanted = json.dumps(options.without if options.mutations else None)
    command = [sys.executable, "-m", "filejobs_dagster.rehearse.there", str(folder), wanted]
    log = folder / "errors"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command,
            # It ends when this pipe closes: with this process, however that ends.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        try:
            for line in _lines(process):
                say(line)
        except BaseException:
            # Ctrl-C too: what it works on is removed next.
            process.kill()
            raise
    if process.returncode != 0:
        last = "\n".join(log.read_text().splitlines()[-5:])
        raise CannotRehearse(
            f"The process that ran the jobs on the copy ended with {process.returncode}: {last}\n"
            "Your database and your bucket were only read."
        )
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


def _lines(process: subprocess.Popen[str]) -> Iterator[str]:
    for line in process.stdout or ():
        yield line.rstrip("\n")


def _with_time(found: dict[str, Any], taken: Taken) -> dict[str, Any]:
    """Add how long the live run would take on the real bucket, by what was measured there."""
    requests: dict[str, int] = found.get("requests", {})
    others = sum(count for name, count in requests.items() if not name.startswith("List"))
    if taken.listing_seconds is None:
        # Nothing was asked of the bucket, so nobody knows how fast it answers.
        return {**found, "estimated_seconds": None}
    seconds = taken.listing_seconds + others * taken.seconds_a_request
    return {**found, "estimated_seconds": round(seconds, 1)}
