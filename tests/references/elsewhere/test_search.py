"""The search over every column, on a real database."""

from __future__ import annotations

import json
import math
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.storage_orphans.supply import require_searched
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.inventory import COLUMN, expected
from filejobs_dagster.references.elsewhere import search as searching
from filejobs_dagster.references.elsewhere.columns import HIDDEN_ROWS, NESTED, NO_RIGHT, Table
from filejobs_dagster.references.elsewhere.search import OVER_BUDGET, Elsewhere
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.settings.storage import BucketSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg


def bucket_settings(**elsewhere: object) -> BucketSettings:
    return BucketSettings.model_validate(
        {
            "bucket": "acme-uploads",
            "owns": ["files/"],
            "min_age": "48h",
            "named_elsewhere": elsewhere,
        }
    )


def search(url: str, keys: Sequence[str], **elsewhere: object) -> Elsewhere:
    one = Elsewhere(Database(url), bucket_settings(**elsewhere))
    one.search([key.encode() for key in keys])
    return one


def named(url: str, keys: Sequence[str], **elsewhere: object) -> dict[str, str]:
    found = search(url, keys, **elsewhere).found
    return {key.decode(): naming.column for key, naming in found.named.items()}


TOKEN = "0b0f7c1a-53f3-4a7e-9d38-6d1f7a6c0d11"
DIGEST = "5f2b" * 16

PLACES = {
    # column's type: (what stands there, the key that it names)
    "text": ("see /media/files/pasted%200.png here", "files/pasted 0.png"),
    "varchar(99)": ("files/exact.bin", "files/exact.bin"),
    "json": (json.dumps({"a": "files/bänner_1.jpg"}), "files/bänner_1.jpg"),
    "jsonb": (json.dumps({"a": json.dumps({"src": "files/bøard.jpg"})}), "files/bøard.jpg"),
    "text[]": ('{"a","files/in an \\"array\\".png"}', 'files/in an "array".png'),
    "uuid": (TOKEN, f"files/avatars/{TOKEN.upper()}_large.webp"),
    "uuid[]": (f"{{{TOKEN.replace('0b', 'ab')}}}", f"files/{TOKEN.replace('0b', 'ab')}/x"),
    "citext": ("FILES/UPPER.PNG", "files/upper.png"),
    "hstore": (r'"k"=>"files/h \"q\".png"', 'files/h "q".png'),
    "key_domain": ("https://cdn.example.com/files/domain%2Bname.png?x=1", "files/domain+name.png"),
    "bytea": ("\\x" + DIGEST, f"files/{DIGEST[:2]}/{DIGEST[2:4]}/{DIGEST[4:]}"),
    "pair": ('("files/in a ""row"".png",x)', 'files/in a "row".png'),
    "name": ("files/name.png", "files/name.png"),
}


def make_places(connection: psycopg.Connection) -> None:
    connection.execute("CREATE EXTENSION hstore; CREATE EXTENSION citext")
    connection.execute("CREATE DOMAIN key_domain AS text; CREATE TYPE pair AS (a text, b text)")
    columns = ", ".join(f'"{kind}" {kind}' for kind in PLACES)
    connection.execute(f"CREATE SCHEMA app; CREATE TABLE app.place ({columns}, other int)")
    for kind, (value, _) in PLACES.items():
        connection.execute(f'INSERT INTO app.place ("{kind}") VALUES (%s::text::{kind})', (value,))


def test_a_name_is_found_in_a_column_of_every_kind_and_what_nobody_names_is_not(
    connection: psycopg.Connection, database_url: str
) -> None:
    make_places(connection)
    keys = {key: f"app.place.{kind}" for kind, (_, key) in PLACES.items()}
    dead = [f"files/{uuid.uuid4()}.png", "files/dead one.png", f"files/{'e1' * 32}"]
    assert named(database_url, [*keys, *dead]) == keys
    # CONTROL: as one looks who compares whole keys, most of them are not seen.
    [(seen,)] = connection.execute(
        "SELECT count(*) FROM app.place, jsonb_each_text(to_jsonb(place)) WHERE value = ANY(%s)",
        (list(keys),),
    )
    assert seen == 2


def test_only_what_can_be_read_counts_as_searched(
    connection: psycopg.Connection, database_url: str
) -> None:
    key = "files/hidden name.png"
    for statement in (
        "CREATE ROLE clerk",
        "CREATE TABLE open (a text, b text); GRANT SELECT (a) ON open TO clerk",
        "CREATE TABLE closed (a text, n int)",
        "CREATE TABLE empty_one (a text)",
        "CREATE TABLE policed (a text); ALTER TABLE policed ENABLE ROW LEVEL SECURITY",
        "GRANT SELECT ON policed TO clerk",
        "CREATE SCHEMA vault; CREATE TABLE vault.safe (a text)",
        "GRANT SELECT ON vault.safe TO clerk",
        # Rights on a whole are rights on what is read through it.
        "CREATE TABLE parts (a text) PARTITION BY LIST (a); GRANT SELECT ON parts TO clerk",
        "CREATE TABLE a_part PARTITION OF parts DEFAULT",
        "INSERT INTO parts VALUES ('files/in a part.png')",
        "CREATE TABLE numbers (n int, at timestamptz, ok bool)",
        "INSERT INTO numbers VALUES (1, now(), true)",
    ):
        connection.execute(statement)
    for table in ("open (a)", "closed (a)", "policed (a)", "vault.safe (a)"):
        connection.execute(f"INSERT INTO {table} VALUES (%s)", (key,))
    try:
        keys = [key, "files/in a part.png"]
        found = search(f"{database_url}&options=-crole%3Dclerk", keys).found
        assert [found.named[each.encode()].column for each in keys] == [
            "public.open.a",
            "public.parts.a",
        ]
        assert {one.column: one.why for one in found.unsearched} == {
            "public.open.b": NO_RIGHT,
            "public.closed.a": NO_RIGHT,
            "public.policed.a": HIDDEN_ROWS,
            "vault.safe.a": NO_RIGHT,
        }
        ignored = [{"column": name, "reason": "x"} for name in ("vault.*", "*.policed.a", "nope.*")]
        found = search(f"{database_url}&options=-crole%3Dclerk", [key], ignore=ignored).found
        assert {one.column for one in found.unsearched} == {"public.open.b", "public.closed.a"}
        assert found.idle == ("nope.*",)
    finally:
        connection.execute("DROP OWNED BY clerk; DROP ROLE clerk")


def test_a_large_table_is_read_in_parts_and_to_its_last_page_and_partitions_as_one_table(
    connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute("CREATE TABLE long (a text) WITH (fillfactor = 10)")
    connection.execute(
        "INSERT INTO long SELECT 'files/name-' || n || '.png' FROM generate_series(1, 500) n"
    )
    connection.execute(
        "CREATE TABLE year (at int, a text) PARTITION BY RANGE (at);"
        "CREATE TABLE year_1 PARTITION OF year FOR VALUES FROM (1) TO (2);"
        "CREATE TABLE year_2 PARTITION OF year FOR VALUES FROM (2) TO (3);"
        "INSERT INTO year VALUES (1, 'files/one year.png'), (2, 'files/two years.png')"
    )
    keys = [f"files/name-{n}.png" for n in range(1, 501)]
    years = ["files/one year.png", "files/two years.png"]
    read: list[str] = []
    one = Elsewhere(
        Database(database_url),
        bucket_settings(),
        pages_at_once=2,
        on_progress=lambda table, _size: read.append(table),
    )
    one.search([key.encode() for key in (*keys, *years, "files/dead name.png")])
    assert read.count("public.long") > 5
    columns = {naming.column for key, naming in one.found.named.items() if b"year" in key}
    assert columns == {"public.year.a"}
    assert len(one.found.named) == 502
    # Whoever stops before the last part has not seen its names.
    assert one.found.unsearched == ()


def test_what_the_time_did_not_suffice_for_is_not_searched(
    connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute("CREATE TABLE small (a text); INSERT INTO small VALUES ('x')")
    one = Elsewhere(Database(database_url), bucket_settings(), ends_at=0.0)
    one.search([b"files/a name.png"])
    assert [(each.column, each.why) for each in one.found.unsearched] == [
        ("public.small.*", OVER_BUDGET)
    ]
    elsewhere = Elsewhere(Database("postgresql://127.0.0.1:1/none"), bucket_settings())
    elsewhere.search([b"files/a name.png"])
    assert "could not be searched" in str(elsewhere.found.unsearched[0])


def test_of_very_many_tables_and_candidates_a_part_is_held_and_what_is_left_is_said(
    connection: psycopg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute(
        "DO $$ BEGIN FOR n IN 1..120 LOOP"
        " EXECUTE format('CREATE TABLE many_%s AS SELECT 1 AS id, ''a name''::text AS name', n);"
        " END LOOP; END $$"
    )
    monkeypatch.setattr(searching, "MOST_AT_ONCE", 20)
    parts: list[object] = []
    monkeypatch.setattr(searching, "read_part", lambda *said: parts.append(said))
    blocks = [[f"files/{n:03}-{m}.png".encode() for m in range(5)] for n in range(90)]

    def look(ends_at: float, **said: object) -> searching.Found:
        parts.clear()
        one = Elsewhere(Database(database_url), bucket_settings(**said), ends_at=ends_at)
        assert one.look_for(iter(blocks), iter(())) == {}
        return one.found

    found = look(0.0)
    assert (found.candidates, parts) == (450, [])
    assert 10 <= len(found.asked) <= 20
    assert len(found.unsearched) == 120
    detail = found.as_detail()
    assert len(detail["unsearched"]) == searching.MOST_SHOWN
    assert detail["search"]["columns_not_searched"] == 120
    assert "and 115 more" in searching.unsearched_in_words(found.unsearched)
    with pytest.raises(JobFailed, match="raise named_elsewhere"):
        require_searched(found)

    # The explicit word; and one that was given time.
    ignored = look(0.0, ignore=[{"column": "public.many_*", "reason": "names of people"}])
    require_searched(ignored)
    assert parts == []
    assert (look(math.inf).unsearched, len(parts)) == ((), 120)


def test_what_the_project_and_dagster_wrote_themselves_names_nothing(
    connection: psycopg.Connection, database_url: str
) -> None:
    key = "files/ours only.png"
    connection.execute("CREATE TABLE event_logs (dagster_event_type text, event text)")
    connection.execute("CREATE TABLE runs (run_body text)")
    connection.execute("INSERT INTO event_logs VALUES (%s, %s)", (key, key))
    connection.execute("INSERT INTO runs VALUES (%s)", (key,))
    connection.execute(
        "INSERT INTO file (state, storage_key) VALUES ('ready', %s)", (f"{key}/original",)
    )
    assert named(database_url, [key]) == {}
    # CONTROL: of tables that only have such a name, every one counts.
    connection.execute("ALTER TABLE event_logs RENAME dagster_event_type TO kind")
    assert named(database_url, [key]).keys() == {key}


def searched_while(
    connection: psycopg.Connection, url: str, key: bytes, *, part: int, happens: str
) -> Elsewhere:
    """A search, page by page, during which something happens before one of its parts."""
    parts = 0

    def on_progress(*_: object) -> None:
        nonlocal parts
        parts += 1
        if parts == part:
            connection.execute(happens.encode())

    one = Elsewhere(Database(url), bucket_settings(), on_progress=on_progress, pages_at_once=1)
    one.search([key])
    return one


@pytest.mark.parametrize("level", ["REPEATABLE READ", "READ COMMITTED"], ids=["", "CONTROL"])
def test_a_row_that_moves_to_a_part_that_was_read_is_found(
    connection: psycopg.Connection,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    level: str,
) -> None:
    key = b"files/contract-of-2024-signed.pdf"
    connection.execute("CREATE TABLE post (id int, body text) WITH (autovacuum_enabled = off)")
    connection.execute(
        "INSERT INTO post SELECT i, CASE i WHEN 300 THEN %s ELSE '' END || repeat('x', 700)"
        "  FROM generate_series(1, 400) i",
        (key.decode() + " ",),
    )
    connection.execute("DELETE FROM post WHERE id < 30")
    connection.execute("VACUUM post")
    as_level = f"SET TRANSACTION ISOLATION LEVEL {level}"
    monkeypatch.setattr(searching, "keep_open", lambda cursor: cursor.execute(as_level))
    one = searched_while(
        connection,
        database_url,
        key,
        part=10,
        happens="UPDATE post SET body = body || ' edited' WHERE id = 300",
    )
    assert bool(one.found.named) is (level == "REPEATABLE READ")
    assert one.found.unsearched == ()
    moved = connection.execute("SELECT ctid < '(9,0)' FROM post WHERE id = 300").fetchone()
    assert moved == (True,)


@pytest.mark.parametrize(
    "happens", ["ALTER TABLE post RENAME TO article", "DROP TABLE post"], ids=["renamed", "dropped"]
)
def test_a_table_that_is_gone_when_its_turn_comes_is_not_searched(
    connection: psycopg.Connection, database_url: str, happens: str
) -> None:
    connection.execute("CREATE TABLE post (body text)")
    connection.execute("INSERT INTO post VALUES ('files/contract-of-2024-signed.pdf')")
    key = b"files/contract-of-2024-signed.pdf"
    one = searched_while(connection, database_url, key, part=1, happens=happens)
    assert [(it.column, it.why) for it in one.found.unsearched] == [
        ("public.post.*", "there is no table of that name any more: it was dropped or renamed")
    ]


def test_a_search_keeps_no_lock_on_a_table_that_it_has_read(
    connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute("CREATE TABLE post (body text); CREATE TABLE second (body text)")
    connection.execute("INSERT INTO post VALUES ('x'); INSERT INTO second VALUES ('x')")
    connection.execute("SET lock_timeout = '1s'")
    one = searched_while(
        connection,
        database_url,
        b"files/a name.png",
        part=2,
        happens="BEGIN; LOCK TABLE post; COMMIT",
    )
    assert (one.found.tables, one.found.unsearched) == (2, ())


def test_of_our_own_tables_only_the_columns_that_were_added_are_searched(
    connection: psycopg.Connection, database_url: str
) -> None:
    key = "files/preview-of-a-contract.png"
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/c.pdf')")
    assert search(database_url, [key]).found.columns == 0
    connection.execute(f"ALTER TABLE file ADD COLUMN preview_key text DEFAULT '{key}'")
    found = search(database_url, [key]).found
    assert found.columns == 1
    assert [naming.column for naming in found.named.values()] == ["public.file.preview_key"]


@pytest.mark.parametrize("table", ["file", "upload", "attachment"])
def test_no_column_of_a_fresh_file_feature_is_searched(
    connection: psycopg.Connection, table: str
) -> None:
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
    there = {name for (name,) in connection.execute(columns, (table,))}
    assert there == {it.name for it in expected() if (it.kind, it.table) == (COLUMN, table)}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("bytea[]", "ARRAY[convert_to('files/in \"a\" row.pdf', 'UTF8')]"),
        ("pair", "ROW(convert_to('files/in \"a\" row.pdf', 'UTF8'), 1)"),
        ("folder[]", "ARRAY[ROW('x', ARRAY['files/in \"a\" row.pdf'])::folder]"),
    ],
    ids=["bytes in a list", "bytes in a row", "a list in rows in a list"],
)
def test_what_is_packed_in_a_row_or_a_list_is_not_searched(
    connection: psycopg.Connection, database_url: str, column: str, value: str
) -> None:
    connection.execute(
        "CREATE TYPE pair AS (k bytea, n int); CREATE TYPE folder AS (a text, b text[])"
    )
    connection.execute(f"CREATE TABLE doc (packed {column}); INSERT INTO doc VALUES ({value})")
    found = search(database_url, ['files/in "a" row.pdf']).found
    assert [(it.column, it.why) for it in found.unsearched] == [("public.doc.packed", NESTED)]
    ignored = [{"column": "public.doc.packed", "reason": "names no files"}]
    assert search(database_url, ["files/a name.pdf"], ignore=ignored).found.unsearched == ()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("tsvector", "$$'files/it''s \"a\" row.pdf'$$"),
        ("place[]", "ARRAY[ROW('files/it''s \"a\" row.pdf', 1)::place]"),
        ("names", "ARRAY['files/it''s \"a\" row.pdf']"),
        ("span", "span('files/it''s \"a\" row.pdf', 'z')"),
    ],
    ids=["lexemes", "rows in a list", "a domain over a list of a domain", "a range"],
)
def test_a_name_with_quotes_is_found_in_types_that_escape_them(
    connection: psycopg.Connection, database_url: str, column: str, value: str
) -> None:
    connection.execute(
        "CREATE TYPE place AS (k text, n int); CREATE TYPE span AS RANGE (subtype = text)"
    )
    connection.execute("CREATE DOMAIN name_of AS text; CREATE DOMAIN names AS name_of[]")
    connection.execute(f"CREATE TABLE doc (it {column}); INSERT INTO doc VALUES ({value})")
    found = search(database_url, ['files/it\'s "a" row.pdf']).found
    assert [naming.column for naming in found.named.values()] == ["public.doc.it"]
    assert found.unsearched == ()


@pytest.mark.parametrize("pages_in_a_second", [400, 20_000, 10_000_000])
def test_a_statement_takes_about_a_quarter_of_a_second_however_fast_the_rows_are_worked_on(
    monkeypatch: pytest.MonkeyPatch, pages_in_a_second: int
) -> None:
    clock, parts = SimpleNamespace(now=0.0), list[tuple[int, int]]()

    def read_part(_connection: object, _read: object, pages: tuple[int, int], _: object) -> None:
        parts.append(pages)
        clock.now += (min(pages[1], 200_000) - pages[0]) / pages_in_a_second

    monkeypatch.setattr(searching, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(searching, "read_part", read_part)
    table = Table("public", "t", ("public", "t"), (), 200_000, 200_000 * 8192, True, False)
    connection: Any = SimpleNamespace(info=SimpleNamespace(server_version=180_000))
    assert searching.read_in_parts(connection, table, lambda *_: None, ends_at=1e9) is None
    assert [start for start, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert parts[-1][1] == 0xFFFFFFFF
    best = min(searching.PAGES_AT_ONCE, pages_in_a_second // 4)
    # The first are larger or smaller: what a page costs is not known before.
    assert all(best * 0.9 <= end - start <= best * 1.1 for start, end in parts[8:-1])


def test_what_is_looked_for_portion_by_portion_is_counted_whole_and_only_the_last_remembered(
    connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute(
        "CREATE TABLE named (a text); INSERT INTO named "
        "SELECT 'files/name-' || n || '.png' FROM generate_series(1, 300, 3) AS n"
    )
    one = Elsewhere(Database(database_url), bucket_settings())
    keys = [f"files/name-{n}.png".encode() for n in range(1, 301)]
    of_pass, later = keys[:30], [keys[start : start + 90] for start in range(30, 300, 90)]
    one.look_for(iter([of_pass]), iter([]))
    for portion in later:
        one.search(portion)
        # Whoever deletes asks right after: also of what the pass has found.
        assert {key for key in (*of_pass, *portion) if key in one.found.named} == {
            key for key in keys[::3] if key in of_pass or key in portion
        }
        assert one.found.asked == {*of_pass, *portion}
    said = one.found.as_detail()
    assert (said["search"]["looked_for"], said["search"]["found"]) == (300, 100)
    [column] = said["named_elsewhere"]
    assert (column["column"], column["candidates"]) == ("public.named.a", 100)
    # What is known already is not looked for again.
    one.search(portion)
    assert one.found.looked_for == 300
