"""Declared tables of the operator's: candidate query, claim and source from one `where`."""

from __future__ import annotations

import logging
import re
import uuid
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import psycopg
import pytest
import yaml

from filejobs_dagster.collector import Resources
from filejobs_dagster.door.door import Door
from filejobs_dagster.jobs.collecting.declared import Statements, _Writing, statements_of
from filejobs_dagster.jobs.deleted_files.settings import DeletedFilesSettings
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.jobs.upload_reservations import collection as reservations_collection
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.references.elsewhere import search as searching
from filejobs_dagster.references.elsewhere.search import Elsewhere
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import read_settings
from filejobs_dagster.settings.storage import BucketSettings, SourceSettings
from filejobs_dagster.settings.tables import sources_of
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import Files
from tests.own_tables import OwnTables, declared, schema

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Mode, Outcome

DOCUMENTS = """
CREATE TABLE documents (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    status text NOT NULL DEFAULT 'reserved',
    storage_key text UNIQUE,
    size_bytes bigint,
    expires_at timestamptz DEFAULT now() - interval '1 hour'
)"""

SET = declared()["set"]
DECLARED = {key: value for key, value in declared().items() if key != "set"}


class World(OwnTables):
    """An application's table beside the project's, and runs over it."""

    def declare(self, *tables: dict[str, Any]) -> None:
        self.document["jobs"]["upload_reservations"]["tables"] = list(tables)

    def put(self, *keys: str) -> None:
        for key in keys:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=b"bytes")

    def rows(self, **statuses: str) -> None:
        """Documents by their name, each with its object."""
        for name, status in statuses.items():
            self.put(f"files/{name}")
            self.app(
                "INSERT INTO documents (status, storage_key) VALUES (%s, %s)",
                (status, f"files/{name}"),
            )

    def collect(self, **limits: Any) -> Outcome:
        return Collector(self, make_client(self.settings().buckets["uploads"]))(**limits)


@pytest.fixture
def world(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> World:
    """An empty world; its application's database is the project's unless a test says otherwise."""
    elsewhere = getattr(request, "param", "one database") != "one database"
    app = request.getfixturevalue("empty_database_url") if elsewhere else database_url
    return World(tmp_path, database_url, bucket, s3_client, s3_server.endpoint_url, {}, app)


BOTH = pytest.mark.parametrize(
    "world",
    ["one database", pytest.param("two databases", marks=pytest.mark.thorough)],
    indirect=True,
)


def in_its_database(world: World, **declared: Any) -> dict[str, Any]:
    """A declaration that says where the table is."""
    if world.app_url != world.database_url:
        declared["database"] = {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}
    return declared


def between_look_and_claim(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Any]) -> None:
    """Let something happen once, after candidates were read and before they are claimed."""
    read = Collection._read
    done: list[bool] = []

    def read_then(self: Collection, *arguments: Any) -> Any:
        page = read(self, *arguments)
        if page and not done:
            done.append(True)
            happens()
        return page

    monkeypatch.setattr(Collection, "_read", read_then)


# --- one `where` for look and claim ---------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("claims_by", ["delete", "set"])
def test_a_row_whose_condition_changes_between_look_and_claim_stays_with_its_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch, claims_by: str
) -> None:
    world.create(DOCUMENTS)
    world.rows(slow="reserved", gone="reserved", kept="complete")
    more = {"set": SET} if claims_by == "set" else {}
    world.declare(in_its_database(world, **DECLARED, **more))
    complete = "UPDATE documents SET status = 'complete' WHERE storage_key = 'files/slow'"
    between_look_and_claim(monkeypatch, lambda: world.app(complete))

    outcome = world.collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 1, "won by others": 1}
    left = {"files/slow": "complete", "files/kept": "complete"}
    assert world.statuses() == (left | {"files/gone": "expired"} if more else left)
    assert world.keys() == {"files/slow", "files/kept"}
    (collected,) = world.events("upload_reservation.collected")
    assert collected["source"] == "documents"


@BOTH
def test_control_a_claim_without_the_condition_loses_the_row_that_came_into_use(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(DOCUMENTS)
    world.rows(slow="reserved", kept="complete")
    world.declare(in_its_database(world, **DECLARED))
    complete = "UPDATE documents SET status = 'complete' WHERE storage_key = 'files/slow'"
    between_look_and_claim(monkeypatch, lambda: world.app(complete))
    monkeypatch.setattr(
        OperatorTable,
        "_claim_sql",
        lambda *_: (
            "DELETE FROM documents WHERE id = ANY($1) AND $2 > '-infinity'::timestamptz"
            " RETURNING storage_key"
        ),
    )

    world.collect()

    assert world.statuses() == {"files/kept": "complete"}
    assert world.keys() == {"files/kept"}, "the bytes of a completed upload are gone"


def test_a_row_that_another_row_still_names_keeps_its_object_by_the_table_alone(
    world: World,
) -> None:
    world.create(DOCUMENTS.replace("text UNIQUE", "text"))
    world.rows(shared="reserved", gone="reserved")
    # Another row of the table, neither due nor a reservation, names the same object.
    world.app("INSERT INTO documents (status, storage_key) VALUES ('complete', 'files/shared')")
    world.declare(DECLARED)

    outcome = world.collect()

    assert outcome.detail["classes"] == {
        "deleted": 1,
        "kept: referenced by public.documents.storage_key": 1,
    }
    assert world.keys() == {"files/shared"}


def test_control_without_its_own_source_the_object_that_another_row_names_is_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(DOCUMENTS.replace("text UNIQUE", "text"))
    world.rows(shared="reserved")
    world.app("INSERT INTO documents (status, storage_key) VALUES ('complete', 'files/shared')")
    world.declare(DECLARED)
    monkeypatch.setattr("filejobs_dagster.settings.model.sources_of", lambda *_: [])

    world.collect()

    assert world.statuses() == {"files/shared": "complete"}
    assert world.keys() == set()


def test_two_declarations_of_one_table_are_one_source_that_leaves_out_what_each_has_set(
    world: World,
) -> None:
    first = {**DECLARED, "set": {"status": "expired"}}
    second = {**first, "name": "more", "where": "status = 'sent'", "set": {"status": "it's"}}
    world.declare(first, second)

    (source,) = world.settings().buckets["uploads"].sources

    assert source.name == "public.documents.storage_key"
    assert source.sql == (
        'SELECT "storage_key" FROM "public"."documents"'
        " WHERE NOT (\"status\" IS NOT DISTINCT FROM 'expired'"
        " AND nullif(\"expires_at\", 'infinity') IS NOT NULL)"
        " AND NOT (\"status\" IS NOT DISTINCT FROM 'it''s'"
        " AND nullif(\"expires_at\", 'infinity') IS NOT NULL)"
    )


@pytest.mark.thorough
def test_rows_of_another_bucket_are_neither_taken_nor_missing(world: World) -> None:
    world.create(DOCUMENTS)
    world.rows(ours="reserved", kept="complete")
    world.app("ALTER TABLE documents ADD service text NOT NULL DEFAULT 'amazon'")
    world.app(
        "INSERT INTO documents (storage_key, service)"
        " SELECT 'files/d' || n, 'disk' FROM generate_series(1, 9) AS n"
    )
    world.declare({**DECLARED, "in_bucket": "service = 'amazon'"})

    outcome = world.collect()

    assert outcome.detail["classes"] == {"deleted": 1}
    assert len(world.statuses()) == 10
    (source,) = world.settings().buckets["uploads"].sources
    assert world.app(source.sql) == [("files/kept",)]


# --- the shapes of tables ------------------------------------------------------------------------

HOUR_AGO = "extract(epoch FROM now() - interval '1 hour')"
IN_AN_HOUR = "extract(epoch FROM now() + interval '1 hour')"


def uuid_v7(moment: str) -> str:
    return (
        f"(lpad(to_hex((({moment}) * 1000)::bigint), 12, '0') || '7' || left(md5('a'), 3)"
        " || '8' || left(md5(random()::text), 15))::uuid"
    )


def iso(moment: str, form: str = 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') -> str:
    return f"to_char(to_timestamp({moment}) AT TIME ZONE 'UTC', '{form}')"


SHAPES: dict[str, tuple[str, Callable[[str], str], dict[str, Any], list[str]]] = {
    "timestamptz": ("timestamptz", lambda at: f"to_timestamp({at})", {}, ["'-infinity'"]),
    "timestamp": (
        "timestamp",
        lambda at: f"to_timestamp({at}) AT TIME ZONE 'UTC'",
        {"time_zone": "UTC"},
        [],
    ),
    "a domain": ("moment", lambda at: f"to_timestamp({at})", {}, []),
    "epoch seconds": (
        "bigint", lambda at: f"({at})::bigint", {"due_as": "epoch_seconds"},
        ["0", "-1", f"({HOUR_AGO} * 1000)::bigint", "9223372036854775807"],
    ),
    "epoch milliseconds": (
        "bigint", lambda at: f"(({at}) * 1000)::bigint", {"due_as": "epoch_milliseconds"},
        ["0", f"({HOUR_AGO})::bigint", f"({HOUR_AGO} * 1000000)::bigint"],
    ),
    "epoch microseconds": (
        "numeric", lambda at: f"({at}) * 1000000", {"due_as": "epoch_microseconds"}, ["'NaN'"],
    ),
    "epoch as float": (
        "float8", lambda at: f"({at})", {"due_as": "epoch_seconds"}, ["'NaN'", "'Infinity'"],
    ),
    "uuid v7": ("uuid", uuid_v7, {"due_as": "uuid_v7"}, ["gen_random_uuid()"]),
    "uuid v7 as text": (
        "text", lambda at: f"({uuid_v7(at)})::text", {"due_as": "uuid_v7"}, ["'x'", "''"],
    ),
    "text": (
        "text", iso, {"due_as": "text"},
        ["'2023-02-29T00:00:00Z'", "'2020-01-01 00:00:00'", "'never'", "'2020-13-01T00:00:00Z'"],
    ),
    "text without offset": (
        "varchar(40)",
        lambda at: iso(at, "YYYY-MM-DD HH24:MI:SS"),
        {"due_as": "text", "time_zone": "UTC"},
        ["'2020-01-01 24:30:00'", "'2020-04-31 00:00:00'"],
    ),
}  # fmt: skip


@pytest.mark.thorough
def test_a_time_of_each_form_makes_due_what_is_due_and_what_is_no_time_is_never_due(
    world: World,
) -> None:
    world.create("CREATE DOMAIN moment AS timestamptz")
    for number, (shape, (column, written, said, no_times)) in enumerate(SHAPES.items()):
        world.create(f"DROP TABLE IF EXISTS documents; {DOCUMENTS}")
        world.app(f"ALTER TABLE documents DROP expires_at, ADD made_at {column}")
        world.declare({**DECLARED, **said, "due": "made_at", "after": "30m"})
        front = f"files/{number}/"
        times = {
            f"{front}due": written(HOUR_AGO),
            f"{front}young": written(f"{HOUR_AGO} + 2400"),
            f"{front}later": written(IN_AN_HOUR),
            f"{front}null": "NULL",
            **{f"{front}odd{n}": odd for n, odd in enumerate(no_times)},
        }
        for key, at in times.items():
            world.put(key)
            world.app(f"INSERT INTO documents (storage_key, made_at) VALUES (%s, {at})", (key,))
        stays = set(times) - {f"{front}due"}

        dry, live = world.collect(mode="dry"), world.collect()

        assert dry.detail["would_collect"] == 1, (shape, dry.error)
        assert live.ok, (shape, live.error)
        assert live.acted == 1, shape
        listed = world.keys()
        there = {key for key in listed if key.startswith(front)}
        assert set(world.statuses()) == stays == there, shape
        assert live.detail["oldest_left"] is None, shape


def test_control_seconds_that_are_read_as_milliseconds_would_all_be_due(world: World) -> None:
    ((as_milliseconds,),) = world.app(f"SELECT to_timestamp(({IN_AN_HOUR}) / 1000) < now()")

    assert as_milliseconds, "a deadline in an hour is one of January 1970"


ODD_NAMES = """
CREATE SCHEMA "Odd Schema";
CREATE TABLE "Odd Schema"."Up""loads" (
    "tenantId" integer, "number" bigint, "storageKey" varchar(200), "dueAt" timestamptz,
    "order" text NOT NULL, PRIMARY KEY ("tenantId", "number"));
INSERT INTO "Odd Schema"."Up""loads"
SELECT n % 2, n, 'a/' || n, now() - interval '1 hour' * n,
       CASE WHEN n < 5 THEN 'open' ELSE 'done' END
  FROM generate_series(1, 6) AS n"""


@pytest.mark.thorough
@BOTH
def test_names_in_mixed_case_another_schema_a_composite_id_and_a_key_with_something_in_front(
    world: World,
) -> None:
    world.create(ODD_NAMES)
    world.put(*(f"files/a/{n}" for n in range(1, 7)))
    world.declare(
        in_its_database(
            world,
            name="odd",
            table='"Odd Schema"."Up""loads"',
            id=['"tenantId"', "number"],
            key='"storageKey"',
            transforms=[{"prepend": "files/"}],
            due='"dueAt"',
            after="0s",
            where="\"order\" = 'open'",
            audit="select $1::text[], $2::text[], $3::text",
        )
    )

    first = world.collect(limit=3, batch_size=2)
    second = world.collect(batch_size=2)

    assert first.ok, first.error
    assert (first.acted, second.acted) == (3, 1)
    assert world.keys() == {"files/a/5", "files/a/6"}
    assert world.app('SELECT count(*) FROM "Odd Schema"."Up""loads"') == [(2,)]
    rows = {one["row_id"] for one in world.events("upload_reservation.collected")}
    assert rows == {'["1", "1"]', '["0", "2"]', '["1", "3"]', '["0", "4"]'}


@pytest.mark.thorough
def test_an_empty_key_with_something_in_front_is_no_folder(world: World) -> None:
    world.create(DOCUMENTS)
    world.put("files/", "files/kept")
    world.app("INSERT INTO documents (storage_key) VALUES ('')")
    world.app("INSERT INTO documents (status, storage_key) VALUES ('complete', 'kept')")
    world.declare({**DECLARED, "transforms": [{"prepend": "files/"}]})

    outcome = world.collect()

    assert outcome.detail["classes"] == {"no key": 1}
    assert world.keys() == {"files/", "files/kept"}


# --- what is refused ----------------------------------------------------------------------------

INJECTIONS: list[dict[str, Any]] = [
    {"table": "documents; DROP TABLE documents"},
    {"table": 'documents" WHERE true --'},
    {"table": '"a;b"'},
    {"key": "storage_key, pg_sleep(1)"},
    {"due": "now()"},
    {"id": "id) OR (true"},
    {"where": "true) OR (true"},
    {"where": "status = 'reserved' --"},
    {"where": "status = 'reserved' /* */"},
    {"where": "status = $1"},
    {"where": "status = 'a'; DROP TABLE documents"},
    {"where": "id IN (SELECT id FROM documents)"},
    {"where": "status = 'reserved' OR true RETURNING 1"},
    {"in_bucket": "status = '$1'"},
    {"set": {"status = 'x' --": "y"}},
    {"set": {"status": "a;b"}},
    {"set": {"status": ["x"]}},
    {"set": {"storage_key": "x"}},
    {"set": {"size_bytes": 0}},
    {"set": {"expires_at": None}},
    {"set": {"expires_at": "2020-01-01Z"}},
    {"set": {"status": None}},
    {"time_zone": "UTC' --"},
    {"transforms": [{"percent_decode": True}]},
    {"unless_named_by": [{"table": "a", "column": "b"}], "set": {"status": "expired"}},
    {"also_delete": [{"table": "a", "column": "b", "where": "true) OR (true"}]},
    {"id": ["id", "status"], "also_delete": [{"table": "a", "column": "b"}]},
    {"due_as": "epoch_seconds", "time_zone": "UTC"},
]


def test_what_would_be_read_as_more_than_a_name_or_a_condition_never_gets_past_the_settings(
    world: World,
) -> None:
    for changes in INJECTIONS:
        world.declare({**DECLARED, **changes})
        found = read_settings(world.write(), world.environment).problems
        paths = [problem.path for problem in found]
        assert any(f"tables[0].{key}" in path for path in paths for key in changes), changes


CONTRADICTED: list[tuple[dict[str, Any], str]] = [
    ({"table": "public.nothing"}, "no table public.nothing"),
    ({"table": "public.seen"}, "is a view"),
    ({"table": "file"}, "a table of this project's"),
    ({"key": "no_such"}, "no column no_such"),
    ({"id": "status"}, "nothing makes status"),
    ({"id": "storage_key"}, "may be NULL"),
    ({"key": "size_bytes"}, "is of type int8"),
    ({"due": "size_bytes"}, "is of type int8, and due_as is time"),
    ({"due_as": "epoch_seconds"}, "is of type timestamptz, and due_as is epoch_seconds"),
    ({"time_zone": "UTC"}, "Leave time_zone out"),
    ({"where": "no_such = 1"}, "no_such"),
    ({"unless_named_by": [{"table": "public.notes", "column": "loose"}]}, "no foreign key"),
    ({"unless_named_by": [{"table": "public.notes", "column": "follows"}]}, "changes its rows"),
    ({"also_delete": [{"table": "documents", "column": "id"}]}, "of the rows themselves"),
]


@pytest.mark.thorough
def test_a_declaration_that_the_catalog_contradicts_is_refused_in_words_and_nothing_goes(
    world: World,
) -> None:
    world.create(
        f"{DOCUMENTS}; CREATE VIEW seen AS SELECT * FROM documents;"
        " CREATE TABLE notes (loose uuid, follows uuid REFERENCES documents ON DELETE CASCADE)"
    )
    world.rows(due="reserved")
    modes: tuple[Mode, ...] = ("dry", "live")
    for changes, said in CONTRADICTED:
        world.declare({**DECLARED, **changes})
        for mode in modes:
            outcome = world.collect(mode=mode)
            assert not outcome.ok, changes
            assert said in str(outcome.error), outcome.error

    assert world.statuses() == {"files/due": "reserved"}
    assert world.has_object("files/due")


# --- children, other tables, several tables -------------------------------------------------------

BLOBS = """
CREATE TABLE blobs (id bigserial PRIMARY KEY, key varchar NOT NULL UNIQUE,
    service_name varchar NOT NULL DEFAULT 'amazon', made_at timestamp NOT NULL);
CREATE TABLE variant_records (id bigserial PRIMARY KEY, digest text,
    blob_id bigint NOT NULL REFERENCES blobs (id));
CREATE TABLE attachments (id bigserial PRIMARY KEY, record_type varchar NOT NULL,
    record_id bigint NOT NULL, blob_id bigint NOT NULL REFERENCES blobs (id))"""

UNATTACHED: dict[str, Any] = {
    "name": "unattached blobs",
    "table": "public.blobs",
    "key": "key",
    "due": "made_at",
    "time_zone": "UTC",
    "after": "2d",
    "in_bucket": "service_name = 'amazon'",
    "unless_named_by": [{"table": "public.attachments", "column": "blob_id"}],
    "also_delete": [
        {
            "table": "public.variant_records",
            "column": "blob_id",
            "also_delete": [
                {
                    "table": "public.attachments",
                    "column": "record_id",
                    "where": "record_type = 'Variant'",
                }
            ],
        }
    ],
}


ATTACH = (
    "INSERT INTO attachments (record_type, record_id, blob_id)"
    " SELECT 'Letter', 2, id FROM blobs WHERE key = 'files/dead'"
)


def blob(world: World, key: str, *, of: str | None = None, attached: bool = False) -> None:
    """A blob of three days ago; `of` another one it is a variant, with its record."""
    world.put(f"files/{key}")
    ((number,),) = world.app(
        "INSERT INTO blobs (key, made_at) VALUES (%s, now() AT TIME ZONE 'UTC' - interval '3 d')"
        " RETURNING id",
        (f"files/{key}",),
    )
    attach = "INSERT INTO attachments (record_type, record_id, blob_id) VALUES (%s, %s, %s)"
    if attached:
        world.app(attach, ("Letter", 1, number))
    if of is not None:
        ((record,),) = world.app(
            "INSERT INTO variant_records (blob_id) SELECT id FROM blobs WHERE key = %s"
            " RETURNING id",
            (f"files/{of}",),
        )
        world.app(attach, ("Variant", record, number))


@pytest.fixture
def blobs(world: World) -> World:
    world.create(BLOBS)
    blob(world, "living", attached=True)
    blob(world, "living_variant", of="living")
    blob(world, "dead")
    blob(world, "dead_variant", of="dead")
    world.declare(in_its_database(world, **UNATTACHED))
    return world


@BOTH
def test_rows_that_a_foreign_key_keeps_go_with_their_row_and_are_counted(blobs: World) -> None:
    first, second = blobs.collect(), blobs.collect()

    assert first.ok, first.error
    assert first.detail["also_deleted"] == {"public.variant_records": 1, "public.attachments": 1}
    (event,) = blobs.events("rows.also_deleted")
    assert event["rows"] == first.detail["also_deleted"]
    # The variant of the dead one was attached until then: it is a candidate of the next run.
    assert (first.acted, second.acted) == (1, 1)
    assert blobs.keys() == {"files/living", "files/living_variant"}
    assert blobs.app("SELECT count(*) FROM variant_records") == [(1,)]


def test_what_belongs_to_a_row_that_is_attached_between_look_and_claim_stays(
    blobs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_look_and_claim(monkeypatch, lambda: blobs.app(ATTACH))

    outcome = blobs.collect()

    assert outcome.detail["classes"] == {"won by others": 1}
    assert "also_deleted" not in outcome.detail
    assert blobs.app("SELECT count(*) FROM variant_records") == [(2,)]
    assert len(blobs.keys()) == 4


@pytest.mark.thorough
def test_what_belongs_to_a_row_that_is_attached_while_the_claim_locks_it_stays(
    blobs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock's statement has begun to look, and then an attachment is committed."""
    looked = OperatorTable._with_what_belongs_to_them

    def attached_meanwhile(self: OperatorTable, cursor: Any, statements: Any, *rest: Any) -> Any:
        # Stands for the snapshot of a statement that began before the attachment was committed.
        blind = statements.lock.replace("NOT EXISTS", "true OR NOT EXISTS")
        executed: list[bool] = []

        class Once:
            def __getattr__(self, name: str) -> Any:
                return getattr(cursor, name)

            def execute(self, query: str, values: Any = None) -> Any:
                if query == statements.lock and not executed:
                    executed.append(True)
                    return cursor.execute(blind, values)
                return cursor.execute(query, values)

        return looked(self, Once(), statements, *rest)  # type: ignore[arg-type]

    between_look_and_claim(monkeypatch, lambda: blobs.app(ATTACH))
    monkeypatch.setattr(OperatorTable, "_with_what_belongs_to_them", attached_meanwhile)

    outcome = blobs.collect()

    assert outcome.detail["classes"] == {"won by others": 1}
    assert blobs.app("SELECT count(*) FROM variant_records") == [(2,)]


def test_control_without_the_second_look_a_living_row_loses_what_belongs_to_it(
    blobs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    between_look_and_claim(monkeypatch, lambda: blobs.app(ATTACH))

    def careless(self: OperatorTable, cursor: Any, statements: Any, wanted: Any, _: Any) -> Any:
        for each in statements.also_deleted:
            cursor.execute(each.sql, (wanted,))
        return type(wanted)(())

    monkeypatch.setattr(OperatorTable, "_with_what_belongs_to_them", careless)

    blobs.collect()

    assert blobs.app("SELECT count(*) FROM variant_records") == [(1,)]
    assert blobs.app("SELECT count(*) FROM blobs WHERE key = 'files/dead'") == [(1,)]


@pytest.mark.thorough
def test_a_trigger_that_keeps_a_row_rolls_back_what_was_deleted_with_it(blobs: World) -> None:
    blobs.create(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        " CREATE TRIGGER keep BEFORE DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION keep()"
    )

    outcome = blobs.collect()

    assert not outcome.ok
    assert "won 0 of 1 rows" in str(outcome.error)
    assert blobs.app("SELECT count(*) FROM variant_records") == [(2,)]
    assert len(blobs.keys()) == 4


@pytest.mark.thorough
def test_several_tables_are_collected_in_one_run_each_under_its_name(
    world: World, empty_database_url: str
) -> None:
    world.create(DOCUMENTS)
    world.rows(one="reserved", two="reserved", kept="complete")
    world.app_url = empty_database_url
    world.create(BLOBS)
    blob(world, "blob", attached=False)
    blob(world, "living", attached=True)
    elsewhere = {"database": {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}}
    world.declare(DECLARED, {**UNATTACHED, **elsewhere})

    first = world.collect(limit=1)
    second = world.collect()

    assert first.ok, first.error
    # The blob has waited for a day, the documents for an hour.
    assert first.detail["by_table"] == {
        "unattached blobs": {"scanned": 1, "claimed": 1},
        "documents": {"scanned": 0, "claimed": 0},
    }
    assert first.detail["stopped_reason"] == "limit"
    assert second.detail["by_table"]["documents"] == {"scanned": 2, "claimed": 2}
    assert {one["source"] for one in world.events("upload_reservation.collected")} == {
        "documents",
        "unattached blobs",
    }
    assert world.keys() == {"files/kept", "files/living"}


# --- soft-deleted rows ---------------------------------------------------------------------------

PHOTOS: dict[str, Any] = {
    "name": "photos",
    "table": "photos",
    "key": "path",
    "transforms": [{"prepend": "files/"}],
    "due": "deleted_at",
    "due_as": "epoch_milliseconds",
    "where": "NOT legal_hold",
}


@pytest.fixture
def photos(world: World) -> World:
    """Photos of which some were deleted; 0 stands for none, as in applications that count so."""
    world.create(
        "CREATE TABLE photos (id bigserial PRIMARY KEY, path text NOT NULL,"
        " legal_hold boolean NOT NULL DEFAULT false, purged boolean NOT NULL DEFAULT false,"
        " deleted_at bigint NOT NULL DEFAULT 0)"
    )
    for name, days in (("kept", None), ("young", 29), ("old", 31), ("older", 32), ("held", 40)):
        world.put(f"files/{name}")
        world.app(
            "INSERT INTO photos (path, legal_hold, deleted_at)"
            " VALUES (%s, %s, coalesce(extract(epoch FROM now() - %s * interval '1 d') * 1000, 0))",
            (name, name == "held", days),
        )
    return world


def deleted_files(world: World, **changes: Any) -> None:
    declared = in_its_database(world, **{**PHOTOS, **changes})
    world.document["jobs"] = {
        "deleted_files": {"by_hand": True, "restore_window": "30d", "tables": [declared]}
    }


def collect_deleted(world: World, mode: Mode = "live") -> Outcome:
    configured = world.settings().jobs["deleted_files"]
    assert isinstance(configured, DeletedFilesSettings)
    client = make_client(world.settings().buckets["uploads"])
    return Files(world, client)(mode=mode, tables=configured.tables)


RESTORE = "UPDATE photos SET deleted_at = 0 WHERE path = 'old'"


@BOTH
@pytest.mark.parametrize("claims_by", ["delete", "set"])
def test_a_soft_deleted_row_goes_after_the_window_and_one_that_is_restored_meanwhile_stays(
    photos: World, monkeypatch: pytest.MonkeyPatch, claims_by: str
) -> None:
    sets = {"set": {"purged": True}, "where": "NOT legal_hold AND NOT purged"}
    deleted_files(photos, **(sets if claims_by == "set" else {}))
    dry = collect_deleted(photos, "dry")
    between_look_and_claim(monkeypatch, lambda: photos.app(RESTORE))

    live = collect_deleted(photos)

    assert dry.detail["would_collect"] == 2, dry.error
    assert live.ok, live.error
    assert live.detail["classes"] == {"deleted": 1, "won by others": 1}
    assert live.detail["restore_window_seconds"] == 30 * 86_400
    assert photos.keys() == {"files/kept", "files/young", "files/old", "files/held"}
    left = {name for (name,) in photos.app("SELECT path FROM photos WHERE NOT purged")}
    assert left == {"kept", "young", "old", "held"}
    (event,) = photos.events("deleted_file.collected")
    assert (event["source"], event["storage_key"]) == ("photos", "files/older")
    assert collect_deleted(photos).acted == 0


@BOTH
def test_control_a_claim_by_id_alone_takes_the_photo_that_was_restored(
    photos: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted_files(photos)
    between_look_and_claim(monkeypatch, lambda: photos.app(RESTORE))
    monkeypatch.setattr(
        OperatorTable,
        "_claim_sql",
        lambda *_: (
            "DELETE FROM photos WHERE id = ANY($1) AND $2 > '-infinity'::timestamptz RETURNING path"
        ),
    )

    collect_deleted(photos)

    assert not photos.has_object("files/old"), "restored by its user, and gone"


def test_a_window_that_is_shorter_than_the_promise_is_refused(photos: World) -> None:
    deleted_files(photos, after="29d")

    (problem,) = read_settings(photos.write(), photos.environment).problems

    assert problem.path == "jobs.deleted_files.tables[0].after"
    assert "restore_window" in problem.found


# --- what only seems to be claimed, of another bucket, or the row's own ---------------------------

SHARED = DOCUMENTS.replace("text UNIQUE", "text")
LIVING = "INSERT INTO documents (status, storage_key, expires_at) VALUES "


def careless_sources(monkeypatch: pytest.MonkeyPatch, part: str, instead: str = "") -> None:
    """Let the sources of declared tables lack a part of their SQL."""

    def careless(*arguments: Any) -> list[SourceSettings]:
        return [
            one.model_copy(update={"sql": one.sql.replace(part, instead)})
            for one in sources_of(*arguments)
        ]

    monkeypatch.setattr("filejobs_dagster.settings.model.sources_of", careless)


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_row_that_was_brought_back_to_life_names_its_object_whatever_a_claim_has_set(
    photos: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    deleted_files(photos, set={"purged": True}, where="NOT legal_hold AND NOT purged")
    # Restored by an application that knows of deleted_at alone, and given its bytes again.
    photos.app("UPDATE photos SET purged = true, deleted_at = 0 WHERE path = 'kept'")
    photos.app("INSERT INTO photos (path, deleted_at) SELECT 'kept', min(deleted_at) FROM photos"
               " WHERE deleted_at > 0")  # fmt: skip
    if not careful:
        careless_sources(monkeypatch, ' AND nullif("deleted_at", 0) IS NOT NULL')

    outcome = collect_deleted(photos)

    assert outcome.ok, outcome.error
    assert photos.has_object("files/kept") is careful


def test_control_a_claim_that_sets_what_living_rows_have_would_lose_what_they_name(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a `set` is refused, see `INJECTIONS`."""
    world.create(SHARED)
    world.rows(shared="reserved", other="reserved")
    world.app(f"{LIVING} ('complete', 'files/shared', NULL), ('x', 'files/x', now() + '1 d')")
    monkeypatch.setattr("filejobs_dagster.settings.tables._of_the_claim", lambda _: ())
    world.declare({**DECLARED, "set": {"expires_at": None}})

    world.collect()

    assert not world.has_object("files/shared"), "a complete row names it"


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_row_of_which_nobody_says_the_bucket_keeps_its_object(
    world: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    world.create(f"{SHARED}; ALTER TABLE documents ADD service text DEFAULT 'amazon'")
    world.rows(shared="reserved", kept="complete")
    world.app(
        "INSERT INTO documents (status, storage_key, service)"
        " VALUES ('complete', 'files/shared', NULL)"
    )
    world.declare({**DECLARED, "in_bucket": "service = 'amazon'"})
    if not careful:
        careless_sources(monkeypatch, " IS NOT FALSE")

    outcome = world.collect()

    assert outcome.acted == 1, outcome.error
    assert world.has_object("files/shared") is careful


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_source_with_the_same_query_in_another_database_stands_for_no_declared_table(
    world: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    world.declare({**DECLARED, "database": {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}})
    same = {"name": "here", "sql": 'SELECT "storage_key" FROM "public"."documents"'}
    world.document["buckets"]["uploads"]["sources"] = [same]
    if not careful:
        monkeypatch.setattr("filejobs_dagster.settings.model._asked", lambda source: source.sql)

    settings = world.settings()

    there = [source for source in settings.buckets["uploads"].sources if source.database]
    assert bool(there) is careful
    again = type(settings)(**dict(settings))
    assert again.buckets["uploads"].sources == settings.buckets["uploads"].sources


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_table_keeps_what_it_names_below_the_prefix_of_another_entry_of_its_bucket(
    photos: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    deleted_files(photos)
    job = photos.document["jobs"]["deleted_files"]
    own = photos.document["buckets"]["uploads"]
    photos.document["buckets"]["media"] = {
        **deepcopy(own), "owns": ["media/"], "protect": ["media/brand/"]
    }  # fmt: skip
    photos.document["jobs"] = {
        "deleted_files": {**job, "bucket": "media"},
        "upload_reservations": {"by_hand": True, "bucket": "uploads"},
    }
    photos.create(DOCUMENTS)
    photos.rows(kept="reserved", gone="reserved")
    photos.declare({**DECLARED, "min_rows": 0})
    if not careful:
        alone = property(lambda bucket: tuple(bucket.owns))
        monkeypatch.setattr(BucketSettings, "server_and_name", alone)

    outcome = photos.collect()

    assert outcome.ok, outcome.error
    assert not photos.has_object("files/gone")
    assert photos.has_object("files/kept") is careful, "a photo is named so"


NOTES = """
CREATE TABLE notes (document uuid);
CREATE FUNCTION unused(uuid) RETURNS boolean STABLE LANGUAGE plpgsql
    AS 'BEGIN RETURN NOT EXISTS (SELECT FROM notes WHERE document = $1); END'"""


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_condition_does_not_look_at_other_rows_through_a_function(
    world: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    world.create(f"{DOCUMENTS}; {NOTES}")
    world.rows(due="reserved", kept="complete")
    world.declare({**DECLARED, "where": "status = 'reserved' AND unused(id)"})
    if not careful:
        monkeypatch.setattr(_Writing, "_refuse_hidden_looks", lambda *_: None)
    with psycopg.connect(world.app_url) as client:
        client.execute("INSERT INTO notes SELECT id FROM documents WHERE storage_key = 'files/due'")
        # Nobody sees yet that it came into use.
        outcome = world.collect()

    assert outcome.ok is not careful
    assert world.has_object("files/due") is careful
    if careful:
        assert "calls the function public.unused" in str(outcome.error)


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_partition_is_not_declared_for_the_whole_table(
    world: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    world.create(
        "CREATE TABLE documents (id bigserial, status text DEFAULT 'reserved', storage_key text,"
        " size_bytes bigint, expires_at timestamptz DEFAULT now() - interval '1 h',"
        " PRIMARY KEY (id, status)) PARTITION BY LIST (status);"
        " CREATE TABLE open_ones PARTITION OF documents FOR VALUES IN ('reserved');"
        " CREATE TABLE done PARTITION OF documents DEFAULT"
    )
    world.rows(shared="reserved", other="reserved")
    world.app("INSERT INTO documents (status, storage_key) VALUES ('complete', 'files/shared')")
    declared = {**DECLARED, "id": ["id", "status"]}
    world.declare({**declared, "table": "open_ones", "min_rows": 0})
    if not careful:
        monkeypatch.setattr(_Writing, "_refuse_a_part", lambda _: None)
        monkeypatch.setattr(Collection, "_search_of_names", lambda _: None)

    outcome = world.collect()

    assert outcome.ok is not careful, outcome.error
    assert world.has_object("files/shared") is careful
    if careful:
        assert "partition of documents" in str(outcome.error)
        world.declare(declared)
        assert world.collect().acted == 2
        assert world.keys() == {"files/shared"}


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_an_id_that_may_be_one_of_another_table_takes_no_rows_along(
    blobs: World, careful: bool
) -> None:
    """Attachments hold ids of letters and blobs in one column, and no foreign key tells."""
    living = "SELECT count(*) FROM attachments WHERE record_type = 'Letter'"
    blobs.app("UPDATE attachments SET record_id = (SELECT id FROM blobs WHERE key = 'files/dead')"
              " WHERE record_type = 'Letter'")  # fmt: skip
    also = {"table": "public.attachments", "column": "record_id"}
    blobs.declare({**UNATTACHED, "also_delete": [
        *UNATTACHED["also_delete"], also if careful else {**also, "where": "record_id > 0"},
    ]})  # fmt: skip

    outcome = blobs.collect()

    assert outcome.ok is not careful, outcome.error
    assert blobs.app(living) == [(1 if careful else 0,)]
    if careful:
        assert "no foreign key leads from public.attachments.record_id" in str(outcome.error)


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_table_that_a_migration_replaces_between_look_and_claim_is_looked_up_again(
    world: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    world.create(SHARED)
    world.rows(shared="reserved", other="complete")
    world.app("INSERT INTO documents (status, storage_key) VALUES ('complete', 'files/shared')")
    world.declare({**DECLARED, "min_rows": 0})
    migration = (
        "ALTER TABLE documents RENAME TO all_documents;"
        " CREATE VIEW documents AS SELECT * FROM all_documents WHERE status = 'reserved'"
    )
    between_look_and_claim(monkeypatch, lambda: world.create(migration))
    if not careful:
        known: list[Statements] = []

        def once(*arguments: Any) -> Statements:
            known[:] = known or [statements_of(*arguments)]
            return known[0]

        module = "filejobs_dagster.jobs.upload_reservations.operator_table"
        monkeypatch.setattr(f"{module}.statements_of", once)

    outcome = world.collect()

    assert outcome.ok is not careful
    assert world.has_object("files/shared") is careful
    if careful:
        assert "is a view" in str(outcome.error)
        assert world.app("SELECT count(*) FROM all_documents") == [(3,)]


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
@pytest.mark.parametrize("of", ["blobs", "attachments"])
def test_a_foreign_key_that_a_load_has_left_switched_off_refuses_nothing(
    blobs: World, of: str, careful: bool
) -> None:
    blobs.create(f"ALTER TABLE {of} DISABLE TRIGGER ALL")
    if not careful:
        if of == "blobs":
            blobs.app("DELETE FROM blobs WHERE key = 'files/living_variant'")
        else:
            blobs.app("INSERT INTO attachments VALUES (9, 'Letter', 1, 99)")
        named = "SELECT count(*) FROM attachments WHERE blob_id NOT IN (SELECT id FROM blobs)"
        assert blobs.app(named) == [(1,)]
        return

    outcome = blobs.collect()

    assert "is off" in str(outcome.error)
    assert len(blobs.keys()) == 4


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_a_foreign_key_beside_one_that_takes_its_rows_along_refuses_nothing(
    blobs: World, careful: bool
) -> None:
    blobs.create(
        "ALTER TABLE attachments ADD FOREIGN KEY (blob_id) REFERENCES blobs ON DELETE CASCADE;"
        # The one that is older speaks first.
        " ALTER TABLE attachments DROP CONSTRAINT attachments_blob_id_fkey;"
        " ALTER TABLE attachments ADD FOREIGN KEY (blob_id) REFERENCES blobs"
    )
    if not careful:
        attached = "SELECT count(*) FROM attachments"
        before = blobs.app(attached)
        blobs.app("DELETE FROM blobs WHERE key = 'files/living_variant'")
        assert (before, blobs.app(attached)) == ([(3,)], [(2,)])
        return

    outcome = blobs.collect()

    assert "changes its rows" in str(outcome.error)
    assert len(blobs.keys()) == 4


@pytest.mark.thorough
@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
def test_what_is_given_to_a_living_row_while_it_is_claimed_keeps_what_belongs_to_it(
    blobs: World, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    def without_lock(*arguments: Any) -> Statements:
        written = statements_of(*arguments)
        cut = [
            replace(one, sql=one.sql.replace(" FOR UPDATE OF middle", ""))
            for one in written.also_deleted
        ]
        return replace(written, also_deleted=tuple(cut))

    if not careful:
        module = "filejobs_dagster.jobs.upload_reservations.operator_table"
        monkeypatch.setattr(f"{module}.statements_of", without_lock)
    with psycopg.connect(blobs.app_url) as client:
        client.execute(
            "UPDATE variant_records SET blob_id = (SELECT id FROM blobs WHERE key = 'files/living')"
            " WHERE blob_id = (SELECT id FROM blobs WHERE key = 'files/dead')"
        )
        with ThreadPoolExecutor(1) as thread:
            run = thread.submit(blobs.collect)
            while not run.done() and blobs.app(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            ) == [(0,)]:
                pass
            client.commit()
            outcome = run.result()

    assert outcome.ok, outcome.error
    assert blobs.app("SELECT count(*) FROM variant_records") == [(2,)]
    kept = blobs.app("SELECT count(*) FROM attachments WHERE record_type = 'Variant'")
    assert kept == [(2 if careful else 1,)], "of a variant that a living blob has now"


# --- the examples --------------------------------------------------------------------------------

EXAMPLES = Path(__file__).parents[2] / "examples"


def of_example(world: World, name: str) -> None:
    """Take over the bucket's rules and the jobs of an example; the bucket stays the test's."""
    example = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    (bucket,) = example["buckets"].values()
    own = world.document["buckets"]["uploads"]
    del own["owns"], own["protect"]
    own.update({key: value for key, value in bucket.items() if key != "bucket"})
    world.document["jobs"] = example["jobs"]


@pytest.mark.thorough
def test_the_example_of_rails_takes_dead_blobs_with_their_variants_and_no_living_one(
    world: World,
) -> None:
    of_example(world, "filejobs.rails.yaml")
    world.create(schema("CREATE TABLE active_storage_blobs"))
    blobs = {
        "living": ("amazon", 9), "living_variant": ("amazon", 9), "dead": ("amazon", 9),
        "dead_variant": ("amazon", 9), "preview": ("amazon", 9), "young": ("amazon", 1),
        "elsewhere": ("local", 9),
    }  # fmt: skip
    for key, (service, days) in blobs.items():
        world.put(key)
        world.app(
            "INSERT INTO active_storage_blobs (key, filename, service_name, byte_size, created_at)"
            " VALUES (%s, 'a', %s, 5, now() AT TIME ZONE 'UTC' - %s * interval '1 d')",
            (key, service, days),
        )
    ids = dict(world.app("SELECT key, id FROM active_storage_blobs"))
    records = {}
    for key in ("living", "dead"):
        ((records[key],),) = world.app(
            "INSERT INTO active_storage_variant_records (blob_id, variation_digest)"
            " VALUES (%s, 'd') RETURNING id",
            (ids[key],),
        )
    for kind, of, key in (
        ("Letter", 1, "living"),
        ("ActiveStorage::VariantRecord", records["living"], "living_variant"),
        ("ActiveStorage::VariantRecord", records["dead"], "dead_variant"),
        ("ActiveStorage::Blob", ids["dead"], "preview"),
    ):
        world.app(
            "INSERT INTO active_storage_attachments"
            " (name, record_type, record_id, blob_id, created_at) VALUES ('a', %s, %s, %s, now())",
            (kind, of, ids[key]),
        )

    first, second = world.collect(), world.collect()

    assert first.ok, first.error
    assert (first.acted, second.acted) == (1, 2)
    assert world.keys() == {"living", "living_variant", "young", "elsewhere"}
    assert first.detail["also_deleted"] == {
        "public.active_storage_variant_records": 1,
        "public.active_storage_attachments": 2,
    }
    bucket = world.settings().buckets["uploads"]
    (blobs_source,) = bucket.sources
    named = {key for (key,) in world.app(blobs_source.sql)}
    assert named == {"living", "living_variant", "young"}, "another service's rows name nothing"
    (rewrite,) = bucket.rewrites
    untracked = re.fullmatch(rewrite.match, f"variants/living/{'a' * 64}")
    assert untracked is not None
    assert rewrite.owner.format(**untracked.groupdict()) == "living"


@pytest.mark.thorough
def test_the_example_of_django_takes_what_was_deleted_softly_and_what_belongs_to_it(
    world: World,
) -> None:
    of_example(world, "filejobs.django.yaml")
    world.create(
        "CREATE TABLE shop_attachment (id bigserial PRIMARY KEY, file varchar(100) NOT NULL,"
        " deleted timestamptz);"
        " CREATE TABLE shop_attachment_tags (id bigserial PRIMARY KEY,"
        " attachment_id bigint NOT NULL REFERENCES shop_attachment (id))"
    )
    for name, days in (("here.pdf", None), ("young.pdf", 3), ("old.pdf", 31)):
        world.put(f"media/{name}")
        world.app(
            "WITH one AS (INSERT INTO shop_attachment (file, deleted)"
            " VALUES (%s, now() - %s * interval '1 d') RETURNING id)"
            " INSERT INTO shop_attachment_tags (attachment_id) SELECT id FROM one",
            (name, days),
        )
    del world.document["buckets"]["uploads"]["sources"]

    outcome = collect_deleted(world)

    assert outcome.ok, outcome.error
    assert outcome.detail["also_deleted"] == {"public.shop_attachment_tags": 1}
    assert world.keys() == {"media/here.pdf", "media/young.pdf"}


# --- an upload table of the operator's ------------------------------------------------------------

CANCELLED: dict[str, Any] = {
    "name": "cancelled uploads",
    "table": "media_upload",
    "key": "object_key",
    "due": "changed_at",
    "after": "1d",
    "where": "state IN ('cancelled', 'failed')",
    "set": {"state": "cleaned"},
}
SILENT = {
    **deepcopy(CANCELLED),
    "name": "silent uploads",
    "where": "state = 'writing'",
    "after": "7d",
}


def test_cancelled_and_silent_uploads_of_an_own_table_go_and_no_other_state(world: World) -> None:
    world.create(
        "CREATE TABLE media_upload (id bigserial PRIMARY KEY, object_key text NOT NULL,"
        " state text, changed_at timestamptz)"
    )
    dead = {"cancelled 2", "failed 2", "writing 8"}
    living = {
        "cancelled 0", "writing 2", "stored 99", "completed 99", "uncertain 99", "Cancelled 99",
    }  # fmt: skip
    for name in dead | living:
        world.put(f"files/{name}")
        world.app(
            "INSERT INTO media_upload (object_key, state, changed_at)"
            " VALUES (%s, %s, now() - %s * interval '1 d')",
            (f"files/{name}", *name.split(" ")),
        )
    world.put("files/no state")
    world.app(
        "INSERT INTO media_upload (object_key, state, changed_at)"
        " VALUES ('files/no state', NULL, now() - interval '99 d'),"
        " ('files/cancelled 0', 'cancelled', NULL)"
    )
    world.document["jobs"]["upload_reservations"].pop("source", None)
    world.declare(CANCELLED, SILENT)

    outcome = world.collect()

    assert outcome.ok, outcome.error
    assert outcome.acted == len(dead)
    assert world.keys() == {f"files/{name}" for name in living} | {"files/no state"}
    cleaned = world.app("SELECT object_key FROM media_upload WHERE state = 'cleaned'")
    assert {key for (key,) in cleaned} == {f"files/{name}" for name in dead}
    assert world.collect().acted == 0


@pytest.mark.parametrize("key", ["tables", "states"])
def test_the_job_of_the_table_upload_names_the_one_for_a_table_of_ones_own(
    world: World, key: str
) -> None:
    world.document["jobs"]["upload_cleanup"] = {"by_hand": True, key: [{}]}

    (problem,) = read_settings(world.write(), world.environment).problems

    assert problem.path == f"jobs.upload_cleanup.{key}"
    assert "upload_reservations: tables:" in problem.expected


# --- through the door ----------------------------------------------------------------------------


def live(world: World, job: str) -> Outcome:
    """A live run of a job that proves what every live run proves."""
    settings, collector = world.settings(), BY_NAME[job]
    has = Resources(settings, world.client, cast("Any", None))
    request = collector.request.model_construct(**dict(settings.jobs[job]))
    identity = RunIdentity(str(uuid.uuid4()), "test", job, "live", Trigger("cli"), "the test")
    door = Door(collector, settings, world.client)
    return run_job(
        RunSpec(identity),
        world.database,
        lambda run: collector.run(run, request, has),
        logging.getLogger("declared"),
        door=door,
    )


@pytest.mark.thorough
@pytest.mark.parametrize("world", ["two databases"], indirect=True)
def test_the_door_lets_a_declared_table_in_and_refuses_one_that_lacks_what_its_keys_begin_with(
    photos: World,
) -> None:
    deleted_files(photos, transforms=[])
    photos.adopt()
    before = photos.keys()

    forgotten = live(photos, "deleted_files")

    assert not forgotten.ok
    assert "none lies in" in str(forgotten.error)
    assert "{prepend: " in str(forgotten.error)
    assert photos.keys() == before
    assert photos.app("SELECT count(*) FROM photos") == [(5,)]

    deleted_files(photos)
    mended = live(photos, "deleted_files")

    assert mended.ok, mended.error
    assert mended.acted == 2
    assert photos.keys() == {"files/kept", "files/young", "files/held"}


# --- a key that stands anywhere else --------------------------------------------------------------

MAY_BE_EMPTY = {**DECLARED, "min_rows": 0}
NAMED = "files/2024/pasted 0.png"


@pytest.mark.parametrize("careful", [True, False], ids=["careful", "control"])
@pytest.mark.parametrize(
    "elsewhere",
    [
        "CREATE TABLE post AS SELECT '<img src=\"/m/files/2024/pasted%200.png\">'::text AS body",
        "CREATE TABLE draft AS SELECT jsonb_build_object('cover', 'files/2024/pasted 0.png') AS it",
        """ALTER TABLE documents ADD poster text;
        INSERT INTO documents (status, poster) VALUES ('complete', 'files/2024/pasted 0.png')""",
        "CREATE TABLE album AS SELECT 'files/2024/'::text AS folder",
    ],
    ids=["rich text", "JSON", "another row of the table", "a folder"],
)
def test_a_row_whose_object_stands_in_a_column_that_nobody_declared_stays_with_its_bytes(
    world: World, monkeypatch: pytest.MonkeyPatch, elsewhere: str, careful: bool
) -> None:
    world.create(f"{DOCUMENTS}; ALTER TABLE documents ADD COLUMN url text")
    world.rows(**{"2024/pasted 0.png": "reserved", "plain.png": "reserved"})
    # What a row says of its own object holds nothing back.
    world.app("UPDATE documents SET url = 'https://cdn.example.com/' || storage_key")
    world.create(elsewhere)
    world.declare(MAY_BE_EMPTY)
    if not careful:
        monkeypatch.setattr(Collection, "_search_of_names", lambda _: None)

    dry, live = world.collect(mode="dry"), world.collect()

    assert live.ok, live.error
    assert not world.has_object("files/plain.png")
    assert world.has_object(NAMED) is careful
    left = world.app("SELECT storage_key FROM documents WHERE status = 'reserved'")
    assert left == ([(NAMED,)] if careful else [])
    if careful:
        assert live.detail["classes"] == {"deleted": 1, "named elsewhere": 1}
        assert dry.detail["classes"] == {"would collect": 1, "named elsewhere": 1}
        (column,) = live.detail["named_elsewhere"]
        assert column["candidates"] == 1
        assert not live.detail["swept"]


def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many candidates each search looks for."""
    search, asked = Elsewhere.search, list[int]()

    def counted(self: Elsewhere, keys: Any) -> None:
        asked.append(len(keys))
        search(self, keys)

    monkeypatch.setattr(Elsewhere, "search", counted)
    return asked


def test_a_search_that_found_nothing_holds_for_a_day_by_the_same_rules(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(f"{DOCUMENTS}; CREATE TABLE post (body text)")
    world.declare(MAY_BE_EMPTY)
    asked = searches(monkeypatch)

    def collect(*names: str, **limits: Any) -> list[int]:
        asked.clear()
        world.rows(**dict.fromkeys(names, "reserved"))
        outcome = world.collect(**limits)
        assert outcome.ok, outcome.error
        return list(asked)

    assert collect("dry.png", mode="dry") == [1]  # shows nothing to a live run
    assert collect("a.png", "b.png", limit=2) == [3]
    assert collect("c.png") == []
    world.declare({**MAY_BE_EMPTY, "where": "status IN ('reserved', 'again')"})
    assert collect("d.png") == [1]
    assert collect("e.png") == []
    monkeypatch.setattr(reservations_collection, "SEARCH_HOLDS_FOR", timedelta(0))
    assert collect("f.png") == [1]
    # What was found is looked for again, however short ago that was.
    monkeypatch.undo()
    asked = searches(monkeypatch)
    world.app("INSERT INTO post VALUES ('see files/named.png')")
    world.declare(MAY_BE_EMPTY | {"where": "status = 'reserved' AND true"})
    assert [collect("named.png"), collect(), collect("g.png")] == [[1], [1], [2]]
    assert world.keys() == {"files/named.png"}


@pytest.mark.parametrize("portion", [1, 2, 3, 20_000])
def test_what_a_first_portion_has_found_is_still_known_after_the_second(
    world: World, monkeypatch: pytest.MonkeyPatch, portion: int
) -> None:
    for module in (reservations_collection, searching):
        monkeypatch.setattr(module, "MOST_AT_ONCE", portion)
    world.create(DOCUMENTS)
    world.create("CREATE TABLE thumb (document uuid REFERENCES documents, key text)")
    world.create("CREATE TABLE post AS SELECT 'see files/a.png and files/t/b.webp'::text AS body")
    names = [f"{letter}.png" for letter in "abcdef"]
    world.rows(**dict.fromkeys(names, "reserved"))
    world.put("files/t/b.webp")
    world.app(
        "INSERT INTO thumb SELECT id, 'files/t/b.webp' FROM documents"
        " WHERE storage_key = 'files/b.png'"
    )
    below = {"table": "public.thumb", "column": "document", "key": "key", "min_rows": 0}
    world.declare({**MAY_BE_EMPTY, "also_delete": [below]})

    outcome = world.collect()

    assert outcome.ok, outcome.error
    assert world.keys() == {"files/a.png", "files/b.png", "files/t/b.webp"}
    assert outcome.detail["classes"]["named elsewhere"] == 2
    assert outcome.detail["search"]["looked_for"] == len(names) + 1


@pytest.mark.parametrize("says_so", [True, False])
def test_no_row_goes_before_what_may_name_its_object_was_searched_or_is_declared(
    world: World, says_so: bool
) -> None:
    world.create(f"{DOCUMENTS}; CREATE TABLE vault AS SELECT 'x'::bytea AS sealed")
    world.rows(**{"a.png": "reserved"})
    world.declare(MAY_BE_EMPTY)
    ignored = [{"column": "public.vault.sealed", "reason": "keys of cars"}]
    if says_so:
        world.document["buckets"]["uploads"]["named_elsewhere"] = {"ignore": ignored}

    dry, live = world.collect(mode="dry"), world.collect()

    assert dry.ok
    assert [one["column"] for one in dry.detail["unsearched"]] == (
        [] if says_so else ["public.vault.sealed"]
    )
    assert live.ok is says_so
    assert world.has_object("files/a.png") is not says_so
    if not says_so:
        assert "public.vault.sealed" in str(live.error)
        assert "ignore" in str(live.error)


def test_the_number_of_a_row_in_other_tables_and_a_source_hold_no_row_back(world: World) -> None:
    world.create(f"{DOCUMENTS}; CREATE TABLE comment (document uuid, name text)")
    world.create("CREATE TABLE page (picture text)")
    world.document["buckets"]["uploads"]["sources"] = [
        {"name": "pages", "sql": "select picture from page", "min_rows": 0}
    ]
    number = uuid.uuid4()
    world.rows(**{str(number): "reserved", f"{number}/photo.png": "reserved"})
    world.app("INSERT INTO comment VALUES (%s, 'photo.png')", (number,))
    world.app("INSERT INTO page VALUES (%s)", (f"files/{number}",))
    world.declare(MAY_BE_EMPTY)

    outcome = world.collect()

    assert outcome.ok, outcome.error
    # The source keeps its bytes, as ever.
    assert outcome.detail["classes"] == {"deleted": 1, "kept: referenced by pages": 1}
    assert world.app("SELECT count(*) FROM documents WHERE status = 'reserved'") == [(0,)]


def test_a_row_stays_whose_dependent_row_names_an_object_that_stands_elsewhere(
    world: World,
) -> None:
    world.create(DOCUMENTS)
    world.create("CREATE TABLE thumb (document uuid REFERENCES documents, key text)")
    world.create("CREATE TABLE post AS SELECT 'see files/t/b.webp'::text AS body")
    world.rows(**{"a.png": "reserved", "b.png": "reserved"})
    world.put("files/t/a.webp", "files/t/b.webp")
    world.app(
        "INSERT INTO thumb SELECT id, replace(replace(storage_key, 'files/', 'files/t/'), '.png',"
        " '.webp') FROM documents"
    )
    below = {"table": "public.thumb", "column": "document", "key": "key", "min_rows": 0}
    world.declare({**MAY_BE_EMPTY, "also_delete": [below]})

    outcome = world.collect()

    assert outcome.ok, outcome.error
    assert world.keys() == {"files/b.png", "files/t/b.webp"}
    assert world.app("SELECT key FROM thumb") == [("files/t/b.webp",)]


def test_a_row_that_names_a_folder_loses_nothing_below_and_keeps_what_others_name_there(
    world: World,
) -> None:
    world.create(DOCUMENTS)
    world.put(*(f"files/album{n}/1.png" for n in (7, 8, 9)))
    world.app(
        "INSERT INTO documents (status, storage_key) VALUES ('complete', 'files/album7/'),"
        " ('reserved', 'files/album7/1.png'), ('reserved', 'files/album8/'),"
        " ('reserved', 'files/album9')"
    )
    world.declare(MAY_BE_EMPTY)

    outcome = world.collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {
        "kept: directory marker": 1,
        "kept: ambiguous: near public.documents.storage_key (below a referenced folder)": 1,
        "never arrived": 1,
    }
    assert world.keys() == {f"files/album{n}/1.png" for n in (7, 8, 9)}


def test_a_partitioned_table_with_an_id_of_two_columns_is_declared_as_a_whole(
    world: World,
) -> None:
    world.create(
        "CREATE TABLE documents (tenant int, id int, storage_key text, url text, status text,"
        " expires_at timestamptz DEFAULT now() - interval '1 h', PRIMARY KEY (tenant, id))"
        " PARTITION BY LIST (tenant);"
        "CREATE TABLE first PARTITION OF documents FOR VALUES IN (1);"
        "CREATE TABLE second PARTITION OF documents FOR VALUES IN (2)"
    )
    world.put("files/a.png", "files/b.png", "files/c.png")
    world.app(
        "INSERT INTO documents VALUES (1, 1, 'files/a.png', '/files/a.png', 'reserved'),"
        " (2, 1, 'files/b.png', NULL, 'reserved'), (2, 2, 'files/c.png', NULL, 'reserved'),"
        # Of another partition than the row whose object it names.
        " (1, 2, NULL, 'https://cdn.example.com/files/b.png', 'complete')"
    )
    world.declare({**MAY_BE_EMPTY, "id": ["tenant", "id"], "size": None})

    outcome = world.collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 2, "named elsewhere": 1}
    assert outcome.detail["named_elsewhere"][0]["column"] == "public.documents.url"
    assert world.keys() == {"files/b.png"}
