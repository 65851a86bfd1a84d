"""All keys in use are read, in one snapshot and to the end, or nothing is known."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.copying import ROWS_PER_BLOCK
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.streams import Scratch
from tests.references.declared import TransformForTests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from filejobs_dagster.references.reference_set import ReferenceSet
    from filejobs_dagster.settings.storage import SourceSettings

COMPOSED, DECOMPOSED = "files/caf\u00e9", "files/cafe\u0301"
ODD = (
    "files/new\nline", "files/tab\t", "files/back\\slash\\N", "files/\\x41", "files/\\.", " ",
    COMPOSED, DECOMPOSED, "files/\U0001f600", "files/\ufffe", "files/%41", "k" * 5000, "\x7f",
    "\\N",
)  # fmt: skip


@dataclass(frozen=True)
class AddressForTests:
    address: str

    @property
    def url(self) -> AddressForTests:
        return self

    def reveal(self) -> str:
        return self.address


@dataclass(frozen=True)
class SourceForTests:
    name: str
    sql: str
    min_rows: int = 0
    transforms: Sequence[TransformForTests] = ()
    database: AddressForTests | None = None
    read_from: AddressForTests | None = None


def from_settings(database: Database, sources: list[SourceSettings], scratch: Scratch) -> None:
    """Type-checked: the settings are what the bulk read asks for."""
    BulkReferences(database, sources, scratch=scratch)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as scratch:
        yield scratch


@dataclass
class Reader:
    database_url: str
    scratch: Scratch

    def __call__(self, *sources: SourceForTests, **limits: Any) -> ReferenceSet:
        database = Database(self.database_url)
        return BulkReferences(database, sources, scratch=self.scratch, **limits).read()

    def keys(self, *sources: SourceForTests) -> list[bytes]:
        return keys_of(self(*sources))


@pytest.fixture
def read(database_url: str, scratch: Scratch) -> Reader:
    return Reader(database_url, scratch)


def keys_of(references: ReferenceSet) -> list[bytes]:
    return [key for block in references.blocks() for key in block]


def avatars(sql: str = "select avatar_key from account", **more: Any) -> SourceForTests:
    return SourceForTests("avatars", sql, **more)


def insert(connection: psycopg.Connection, *keys: str) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO file (storage_key) VALUES (%s)", [(key,) for key in keys])


def accounts(connection: psycopg.Connection, *keys: str | None, type_name: str = "text") -> None:
    connection.execute(f"CREATE TABLE account (avatar_key {type_name})")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO account VALUES (%s)", [(key,) for key in keys])


# What is read


def test_the_own_table_is_read_in_every_state(read: Reader, connection: psycopg.Connection) -> None:
    for state in ("pending", "ready", "deleted"):
        connection.execute(
            "INSERT INTO file (state, storage_key) VALUES (%s, %s)", (state, f"files/{state}")
        )
    references = read()
    assert keys_of(references) == [b"files/deleted", b"files/pending", b"files/ready"]
    assert references.keys == 3
    assert references.per_source["file"].rows == references.per_source["file"].keys == 3


def test_pending_rows_of_the_own_table_are_references_that_may_lack_an_object(
    read: Reader, connection: psycopg.Connection
) -> None:
    for number, state in enumerate(("pending", "ready", "deleted", "pending")):
        connection.execute(
            "INSERT INTO file (state, storage_key) VALUES (%s, %s)", (state, f"files/{number}")
        )
    accounts(connection, "files/of-an-operator")
    references = read(avatars())
    assert references.keys == 5
    awaited = [key for block in references.awaited() for key in block]
    assert awaited == [b"files/0", b"files/3"]
    assert references.per_source["file"].rows == 4


def test_sources_add_their_keys_and_equal_ones_come_once(
    read: Reader, connection: psycopg.Connection
) -> None:
    insert(connection, "files/a", "files/b")
    accounts(connection, "files/b", "files/c", "files/c", None, "", None)
    references = read(avatars())
    assert keys_of(references) == [b"files/a", b"files/b", b"files/c"]
    count = references.per_source["avatars"]
    assert (count.rows, count.keys, count.null_or_empty) == (6, 3, 3)
    assert count.samples == (b"files/b", b"files/c", b"files/c")


def test_keys_come_as_their_exact_bytes_in_byte_order(
    read: Reader, connection: psycopg.Connection
) -> None:
    accounts(connection, *ODD)
    assert read.keys(avatars()) == sorted(key.encode() for key in ODD)


def test_bytea_is_read_as_bytes_that_no_text_could_hold(
    read: Reader, connection: psycopg.Connection
) -> None:
    connection.execute(r"CREATE TABLE account AS SELECT '\x00ff0a'::bytea AS avatar_key")
    assert read.keys(avatars()) == [b"\x00\xff\n"]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=30))
def test_whatever_the_rows_are_all_of_them_are_read(
    read: Reader, connection: psycopg.Connection, values: list[bytes | None]
) -> None:
    connection.execute("DROP TABLE IF EXISTS account")
    connection.execute("CREATE TABLE account (avatar_key bytea)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO account VALUES (%s)", [(value,) for value in values])
    references = read(avatars())
    assert keys_of(references) == sorted({value for value in values if value})
    assert references.per_source["avatars"].rows == len(values)


@pytest.mark.parametrize("rows", [0, 1, ROWS_PER_BLOCK - 1, ROWS_PER_BLOCK, ROWS_PER_BLOCK + 1])
def test_no_row_is_lost_where_a_block_ends(read: Reader, rows: int) -> None:
    references = read(
        avatars(f"select 'files/' || lpad(n::text, 6, '0') from generate_series(1, {rows}) n")
    )
    assert references.keys == references.per_source["avatars"].rows == rows
    assert keys_of(references) == [b"files/%06d" % number for number in range(1, rows + 1)]


def test_the_operator_s_sql_may_end_in_a_comment_and_hold_percent_signs(
    read: Reader, connection: psycopg.Connection
) -> None:
    accounts(connection, "files/100%", "other/x")
    sql = "select avatar_key from account where avatar_key like 'files/%' -- %s of $ them"
    assert read.keys(avatars(sql)) == [b"files/100%"]


def test_transforms_make_keys_of_values_and_the_changed_values_are_kept(
    read: Reader, connection: psycopg.Connection
) -> None:
    accounts(connection, "s3://b/files/a", "files/b", "s3://b/", None)
    source = avatars(transforms=[TransformForTests(strip_base=["s3://b/"])])
    references = read(source)
    assert keys_of(references) == [b"files/a", b"files/b"]
    assert list(references.written()) == [[b"s3://b/files/a"]]
    count = references.per_source["avatars"]
    assert (count.rows, count.keys, count.null_or_empty) == (4, 2, 2)


def test_a_source_in_a_database_of_its_own_is_read_there(
    read: Reader, connection: psycopg.Connection, empty_database_url: str
) -> None:
    insert(connection, "files/a")
    with psycopg.connect(empty_database_url, autocommit=True) as elsewhere:
        accounts(elsewhere, "files/b")
    source = avatars(database=AddressForTests(empty_database_url))
    references = read(source)
    assert keys_of(references) == [b"files/a", b"files/b"]
    assert set(references.read_at) == {"file, upload, attachment", "avatars"}


def test_a_source_cannot_write(read: Reader, connection: psycopg.Connection) -> None:
    connection.execute("CREATE SEQUENCE made_up")
    with pytest.raises(ReferencesUnknown, match="ReadOnlySqlTransaction"):
        read(avatars("select nextval('made_up')::text"))


def test_all_sources_of_a_database_are_read_in_one_snapshot(
    read: Reader, connection: psycopg.Connection
) -> None:
    """A key moves from the second source to the first while the first is read."""
    insert(connection, "files/first")
    accounts(connection, "files/moved")

    def move(source: str, _: int) -> None:
        if source == "file" and connection.execute("DELETE FROM account").rowcount:
            insert(connection, "files/moved")

    references = read(avatars(), on_rows=move)
    assert connection.execute("SELECT count(*) FROM account").fetchone() == (0,)
    assert b"files/moved" in keys_of(references)


def test_control_a_snapshot_for_each_source_misses_a_key_that_moves(
    connection: psycopg.Connection,
) -> None:
    accounts(connection, "files/moved")
    seen = connection.execute("SELECT storage_key FROM file").fetchall()
    connection.execute("DELETE FROM account")
    insert(connection, "files/moved")
    seen += connection.execute("SELECT avatar_key FROM account").fetchall()
    assert ("files/moved",) not in seen


# From a failure nothing is concluded


THIRD_PAGE = (
    "select case when n < 25000 then 'files/' || n else (1 / (n - 25000))::text end "
    "from generate_series(1, 50000) as n"
)


def test_a_source_that_fails_on_its_third_page_is_a_failure(read: Reader) -> None:
    rows: list[int] = []
    with pytest.raises(ReferencesUnknown, match="'avatars' could not be read to its end") as caught:
        read(avatars(THIRD_PAGE), on_rows=lambda _, count: rows.append(count))
    assert isinstance(caught.value.__cause__, psycopg.errors.DivisionByZero)
    assert max(rows) == 20_000, "two pages had come"


def test_control_a_reader_that_takes_the_failure_for_the_end_loses_references(
    connection: psycopg.Connection,
) -> None:
    keys: set[str] = set()
    try:
        with (
            connection.cursor() as cursor,
            cursor.copy(f"COPY ({THIRD_PAGE}) TO STDOUT".encode()) as copy,
        ):
            keys.update(key for (key,) in copy.rows())
    except psycopg.Error:
        pass
    objects = {f"files/{number}" for number in range(1, 25_000)} | {"files/49999"}
    assert objects - keys == {"files/49999"}, "an object whose row was never reached: an orphan"


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("select 'a', 'b'", "2 columns"),
        ("select", "0 columns"),
        ("select 1", "int4"),
        ("select 'a'::char(20)", "bpchar"),
        ("select gen_random_uuid()", "uuid"),
        ("select array['a']", "_text"),
        ("select nothing from nowhere", "UndefinedTable"),
        ("select ('a'", "SyntaxError"),
        ("select 'a' /* and", "SyntaxError"),
        ("delete from file returning storage_key", "SyntaxError"),
    ],
)
def test_a_source_that_is_none_is_refused(read: Reader, sql: str, why: str) -> None:
    with pytest.raises(ReferencesUnknown, match=why) as caught:
        read(avatars(sql))
    assert "'avatars'" in str(caught.value)


def test_a_source_whose_type_has_changed_since_is_refused(
    read: Reader, connection: psycopg.Connection
) -> None:
    accounts(connection, "7")
    assert read.keys(avatars()) == [b"7"]
    connection.execute("ALTER TABLE account ALTER avatar_key TYPE int USING avatar_key::int")
    with pytest.raises(ReferencesUnknown, match="int4"):
        read(avatars())


def test_fewer_keys_than_expected_are_a_failure(
    read: Reader, connection: psycopg.Connection
) -> None:
    accounts(connection, "files/a", "", None, None)
    with pytest.raises(ReferencesUnknown, match="returned 1 keys in 4 rows, and at least 2"):
        read(avatars(min_rows=2))
    assert read(avatars(min_rows=1)).keys == 1


def test_a_timeout_is_a_failure(read: Reader) -> None:
    with pytest.raises(ReferencesUnknown, match="statement timeout"):
        read(
            avatars("select 'files/a' from pg_sleep(5)"),
            statement_timeout=timedelta(milliseconds=100),
        )


def test_a_query_that_somebody_cancels_is_a_failure(
    read: Reader, connection: psycopg.Connection
) -> None:
    def cancel(source: str, rows: int) -> None:
        if source == "avatars" and rows:
            connection.execute(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'filejobs/read%' AND state = 'active'"
            )

    with pytest.raises(ReferencesUnknown, match="canceling statement"):
        read(
            avatars("select repeat('x', 500) || n from generate_series(1, 1000000) as n"),
            on_rows=cancel,
        )


def test_a_connection_that_breaks_in_the_middle_is_a_failure(
    read: Reader, connection: psycopg.Connection
) -> None:
    def terminate(source: str, rows: int) -> None:
        if source == "avatars" and rows:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'filejobs/read%'"
            )

    with pytest.raises(ReferencesUnknown, match="'avatars' could not be read"):
        read(
            avatars("select repeat('x', 500) || n from generate_series(1, 1000000) as n"),
            on_rows=terminate,
        )


def test_a_database_that_cannot_be_reached_is_a_failure(read: Reader) -> None:
    nobody = AddressForTests("postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1")
    with pytest.raises(ReferencesUnknown, match=r"127\.0\.0\.1"):
        read(avatars("select 'a'", database=nobody))


def test_rows_that_a_policy_hides_are_a_failure_and_not_an_absence(
    read: Reader, connection: psycopg.Connection, database_url: str
) -> None:
    accounts(connection, "files/a")
    connection.execute("ALTER TABLE account ENABLE ROW LEVEL SECURITY")
    connection.execute("CREATE ROLE bulk_reader LOGIN")
    connection.execute("GRANT SELECT ON account, file, upload, attachment TO bulk_reader")
    try:
        read.database_url = psycopg.conninfo.make_conninfo(database_url, user="bulk_reader")
        with pytest.raises(ReferencesUnknown, match="row-level security"):
            read(avatars())
    finally:
        connection.execute("DROP OWNED BY bulk_reader")
        connection.execute("DROP ROLE bulk_reader")


def test_whoever_follows_the_progress_can_stop_the_read(read: Reader) -> None:
    class Stopped(Exception):
        pass

    def stop(_: str, rows: int) -> None:
        if rows:
            raise Stopped

    with pytest.raises(Stopped):
        read(avatars("select 'files/' || n from generate_series(1, 100000) as n"), on_rows=stop)


def test_many_threads_share_nothing(read: Reader, connection: psycopg.Connection) -> None:
    """Two buckets may be read side by side, each with its own scratch space."""
    insert(connection, "files/a")
    found: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: found.append(read.keys())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[b"files/a"], [b"files/a"]]


def test_what_a_source_reads_is_known_by_its_tables_through_views_and_partitions(
    read: Reader, connection: psycopg.Connection
) -> None:
    connection.execute(
        "CREATE TABLE post (day date, picture text) PARTITION BY RANGE (day);"
        "CREATE TABLE post_old PARTITION OF post FOR VALUES FROM (MINVALUE) TO ('2020-01-01');"
        "CREATE TABLE note (picture text);"
        "CREATE VIEW pictures AS SELECT picture FROM post UNION ALL SELECT picture FROM note"
    )
    per_source = read(SourceForTests("all", "SELECT picture FROM pictures")).per_source
    assert per_source["all"].tables == {"public.post", "public.post_old", "public.note"}
    assert per_source["file"].tables == {"file"}


def test_rows_that_were_made_before_a_moment_are_counted_beside_all(
    read: Reader, connection: psycopg.Connection
) -> None:
    connection.execute(
        "INSERT INTO file (storage_key, created_at) VALUES ('old', '2020-01-01Z'), ('new', now())"
    )
    counted = read(made_before=datetime(2024, 1, 1, tzinfo=timezone.utc)).per_source
    assert (counted["file"].keys, counted["file"].older) == (2, 1)
    # An application takes these by itself, so that fewer of them are no loss.
    assert counted["attachment"].older is None
