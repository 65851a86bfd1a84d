"""Takes what a rehearsal needs: rows of one snapshot, the listing, settings that lead nowhere else.

Nothing is written to the operator's database or bucket: the transaction is read-only, and of the
bucket only HEAD and the listing are asked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import yaml
from psycopg import sql

from filejobs_dagster.embedded import EmbeddedPostgres, clean_environment
from filejobs_dagster.objects.client import check_access, make_client
from filejobs_dagster.objects.listing import ListingStopped, list_objects
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.references.own_tables import OWN_TABLES
from filejobs_dagster.settings import known_secrets
from filejobs_dagster.streams import Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

BYTES_AN_OBJECT = 4000
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

_SIZE_OF_PARTITIONS = """
SELECT coalesce(sum(pg_total_relation_size(relid)), 0)
  FROM pg_partition_tree(to_regclass(%s))
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

_COLUMNS_THERE = """
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
        object_bytes: Their sizes.
        listing_seconds: How long the listing took.
        seconds_a_request: How long one small request to the real bucket takes.
    """

    tables: dict[str, list[str]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    table_bytes: int = 0
    objects: int = 0
    object_bytes: int = 0
    listing_seconds: float = 0.0
    seconds_a_request: float = 0.0


@dataclass(frozen=True)
class Options:
    """How a rehearsal is made.

    Attributes:
        most_objects: More are refused: the store keeps them in memory.
        all_tables: Copy every table that the role may read, whole.
        mutations: Leave out each rule in turn.
        without: Leave out these rules alone, as the report names them; empty for all.
        folder: Where the copy is kept meanwhile; None for the system's temporary folder.
    """

    most_objects: int = 50_000
    all_tables: bool = False
    mutations: bool = True
    without: tuple[str, ...] = ()
    folder: Path | None = None


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
        folder = Path(
            closing_all.enter_context(
                tempfile.TemporaryDirectory(prefix="filejobs-rehearsal-", dir=options.folder)
            )
        )
        taken = Taken()
        client = make_client(bucket)
        closing_all.callback(client.close)
        _list(client, bucket, folder, options, taken, say)
        server = closing_all.enter_context(EmbeddedPostgres.start(durable=True))
        urls = _copy_all(settings, bucket, server, folder, options, taken, say)
        (folder / "tables.json").write_text(json.dumps(taken.tables))
        derived = derived_settings(settings, entry, bucket, urls)
        text = yaml.safe_dump(derived, sort_keys=False)
        _nothing_leads_back(text, settings, bucket)
        (folder / "filejobs.yaml").write_text(text)
        say("running the jobs on the copy")
        found = _run_there(folder, urls, options, say)
    return {"taken": taken.__dict__, **_with_time(found, taken)}


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
    too_many = (
        f"The bucket holds more than {options.most_objects:,} objects in what is owned, and the "
        f"store of a rehearsal keeps them in memory (about {BYTES_AN_OBJECT // 1000} KB each) and "
        "lists twice as many in four times as long. A part of the listing would say nothing. Where "
        "there is memory and time, give --most-objects; nothing was changed."
    )
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
                out.write(json.dumps([key.decode("utf-8", "surrogateescape"), size, modified]))
                out.write("\n")
    taken.listing_seconds = time.monotonic() - begun
    taken.objects, taken.object_bytes = listed.objects, listed.bytes


# The database -----------------------------------------------------------------------------------


def _copy_all(
    settings: Settings,
    bucket: BucketSettings,
    server: EmbeddedPostgres,
    folder: Path,
    options: Options,
    taken: Taken,
    say: Callable[[str], None],
) -> dict[str, str]:
    """Copy each database that the sources are asked in; its URL there by its URL here."""
    own = Database.of(settings.database)
    asked: dict[str, list[SourceSettings]] = {own.url: []}
    for source in bucket.sources:
        url = own.url if source.database is None else source.database.url.reveal()
        asked.setdefault(url, []).append(source)
    urls = {}
    for number, (url, sources) in enumerate(asked.items()):
        urls[url] = server.create_database(f"rehearsal_{number}")
        there = Database(urls[url], own.schema)
        here = own if url == own.url else own.elsewhere(url)
        if url == own.url:
            migrate(there.url, own.schema)
        _Copy(here, there, sources, folder, options, taken, say).make(with_own=url == own.url)
    return urls


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
    ) -> None:
        self._here = here
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
                relations = self._define(cursor, there)
                wanted = self._wanted(there, relations)
                if with_own:
                    wanted |= self._own(cursor, there)
                self._say_sizes(cursor, wanted, relations)
                for name, columns in wanted.items():
                    self._rows(cursor, there, name, columns)
            there.execute("ANALYZE")

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
        if self._options.all_tables:
            for name, it in relations.items():
                if it.readable:
                    wanted[name] = set(it.columns)
        self._taken.left += [
            str(it) for name, it in relations.items() if it.readable and name not in wanted
        ]
        return {name: sorted(columns) for name, columns in wanted.items()}

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
            cursor.execute(_COLUMNS_THERE.encode(), (name,))
            here = {column for (column,) in cursor.fetchall()}
            columns = [
                column
                for (column,) in there.execute(_COLUMNS_THERE.encode(), (name,)).fetchall()
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
            row = cursor.execute(_SIZE_OF_PARTITIONS.encode(), (identifier,)).fetchone()
            size = max(int(row[0]) if row else 0, relations[name].bytes if name in relations else 0)
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
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
        ) as process,
    ):
        for line in _lines(process):
            say(line)
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
    seconds = taken.listing_seconds + others * taken.seconds_a_request
    return {**found, "estimated_seconds": round(seconds, 1)}
