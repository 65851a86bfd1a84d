"""A key is referenced by its exact bytes, and a source that fails never means "no reference"."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from filejobs_dagster.references.check import ReferenceCheck, ReferencesUnknown
from filejobs_dagster.references.own_tables import OWN_TABLES
from tests.references.sources import SourceForTests

if TYPE_CHECKING:
    from filejobs_dagster.settings.storage import SourceSettings

COMPOSED, DECOMPOSED = "files/caf\u00e9", "files/cafe\u0301"


def from_settings(connection: psycopg.Connection, source: SourceSettings) -> ReferenceCheck:
    """Type-checked: the settings are what the check asks for."""
    return ReferenceCheck(connection, [source])


def source(sql: str, min_rows: int = 0) -> SourceForTests:
    return SourceForTests("avatars", sql, min_rows)


def check(connection: psycopg.Connection, sql: str, min_rows: int = 0) -> ReferenceCheck:
    return ReferenceCheck(connection, [source(sql, min_rows)])


def insert(connection: psycopg.Connection, *keys: str) -> None:
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO file (storage_key) VALUES (%s)", [(key,) for key in keys])


# The project's own tables


def test_the_project_s_own_table_names_its_keys_in_every_state(
    connection: psycopg.Connection,
) -> None:
    for state in ("pending", "ready", "deleted"):
        connection.execute(
            "INSERT INTO file (state, storage_key) VALUES (%s, %s)", (state, f"files/{state}")
        )
    named = ReferenceCheck(connection).named(["files/ready", "files/x", "files/pending"])
    assert named == {"files/ready": ("file",), "files/pending": ("file",)}
    assert set(ReferenceCheck(connection).named(["files/deleted"])) == {"files/deleted"}


def test_a_thousand_keys_are_looked_up_by_the_index(connection: psycopg.Connection) -> None:
    connection.execute(
        "INSERT INTO file (storage_key) SELECT 'files/' || n FROM generate_series(1, 20000) AS n"
    )
    connection.execute("ANALYZE file")
    keys = [f"files/{number}" for number in range(0, 20_000, 200)]
    plan = psycopg.RawCursor(connection).execute(
        f"EXPLAIN {OWN_TABLES[0].query('public')}", (keys,)
    )
    lines = "\n".join(line for (line,) in plan)
    assert "file_storage_key_unique" in lines
    assert "Seq Scan" not in lines
    assert len(ReferenceCheck(connection).named(keys)) == 99


def test_the_own_table_is_found_in_another_schema(connection: psycopg.Connection) -> None:
    connection.execute("CREATE SCHEMA elsewhere")
    for own in OWN_TABLES:
        connection.execute(f"ALTER TABLE {own.table} SET SCHEMA elsewhere")
    connection.execute("INSERT INTO elsewhere.file (storage_key) VALUES ('files/a')")
    assert ReferenceCheck(connection, schema="elsewhere").named(["files/a"]) == {
        "files/a": ("file",)
    }
    with pytest.raises(ReferencesUnknown, match="'file' could not be asked"):
        ReferenceCheck(connection).named(["files/a"])


# Exact bytes


NEAR = [
    "files/a",
    "files/A",
    "files/a ",
    " files/a",
    "files//a",
    "/files/a",
    "files/a%20b",
    "files/a b",
    "files/a+b",
    "files/a%2Fb",
    "files/\U0001f642",
    COMPOSED,
    DECOMPOSED,
]


@pytest.mark.parametrize("named_key", NEAR)
def test_only_the_exact_key_is_named_by_either_kind_of_source(
    connection: psycopg.Connection, named_key: str
) -> None:
    insert(connection, named_key)
    both = check(connection, "select storage_key from file").named(NEAR)
    assert both == {named_key: ("file", "avatars")}


@pytest.mark.parametrize("kind", ["text", "varchar(100)", "name", "bytea", "key_domain", "citext"])
def test_every_kind_of_column_that_holds_keys_is_compared_byte_by_byte(
    connection: psycopg.Connection, kind: str
) -> None:
    connection.execute("CREATE EXTENSION citext")
    connection.execute("CREATE DOMAIN key_domain AS varchar(200) CHECK (value <> 'x')")
    connection.execute(f"CREATE TABLE account (avatar_key {kind})")
    stored = "convert_to(%s, 'UTF8')" if kind == "bytea" else "%s"
    connection.execute(f"INSERT INTO account VALUES ({stored}), (NULL)", (COMPOSED,))
    named = check(connection, "select avatar_key from account", 1).named(
        [COMPOSED, DECOMPOSED, COMPOSED.upper()]
    )
    assert named == {COMPOSED: ("avatars",)}


def test_a_domain_over_bytes_is_read_as_bytes(connection: psycopg.Connection) -> None:
    connection.execute("CREATE DOMAIN raw_key AS bytea")
    connection.execute("CREATE TABLE account (avatar_key raw_key)")
    connection.execute("INSERT INTO account VALUES ('files/a'::bytea), ('\\x66006f'::bytea)")
    named = check(connection, "select avatar_key from account").named(["files/a", "f\x00o", "b"])
    assert named == {"files/a": ("avatars",), "f\x00o": ("avatars",)}


def test_a_column_that_ignores_case_would_name_another_key_control(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE EXTENSION citext")
    connection.execute("CREATE TABLE account (avatar_key citext)")
    connection.execute("INSERT INTO account VALUES ('files/A')")
    row = connection.execute(
        "SELECT count(*) FROM account WHERE avatar_key = any(%s::citext[])", (["files/a"],)
    ).fetchone()
    assert row == (1,)
    sql = "select avatar_key from account"
    assert check(connection, sql).named(["files/a", "files/A"]) == {"files/A": ("avatars",)}


def test_null_and_empty_name_nothing(connection: psycopg.Connection) -> None:
    sql = "select key from (values (null), (''), ('files/a')) as v(key)"
    assert check(connection, sql).named(["", "files/a", "files/b"]) == {"files/a": ("avatars",)}


def test_a_key_that_text_cannot_hold_is_asked_for_where_it_can_stand(
    connection: psycopg.Connection,
) -> None:
    insert(connection, "files/a")
    assert ReferenceCheck(connection).named(["f\x00", "\udc80", "files/a"]) == {
        "files/a": ("file",)
    }


def test_no_key_needs_no_query(connection: psycopg.Connection) -> None:
    connection.close()
    assert check(connection, "select 1 / 0").named([]) == {}


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    stored=st.sets(st.text(alphabet="aAb%/ \u00e9\u0301\u0131I", min_size=1, max_size=4)),
    asked=st.sets(st.text(alphabet="aAb%/ \u00e9\u0301\u0131I\x00", max_size=4)),
)
def test_whatever_is_stored_exactly_that_is_named(
    connection: psycopg.Connection, stored: set[str], asked: set[str]
) -> None:
    connection.execute("TRUNCATE file")
    insert(connection, *sorted(stored))
    named = check(connection, "select storage_key from file").named(sorted(asked))
    assert set(named) == stored & asked
    assert all(names == ("file", "avatars") for names in named.values())


# The operator's SQL


@pytest.mark.parametrize(
    "sql",
    [
        "select 'files/a' -- the avatars",
        "select 'files/a' where 'x%s' like '%' -- 100 %",
        "with k as (select 'files/a'::text as key) select key from k order by 1 limit 5",
        "values ('files/a'::text)",
        "select 'files/a'\n\n",
        "select data->>'key' from (values ('{\"key\": \"files/a\"}'::jsonb)) as v(data)",
        "select unnest(array['files/a', 'files/b'])",
    ],
)
def test_sql_that_operators_write_is_run_as_it_is(connection: psycopg.Connection, sql: str) -> None:
    references = check(connection, sql, 1)
    references.examine()
    assert references.named(["files/a"]) == {"files/a": ("avatars",)}


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("select 'a';", "no semicolon"),
        ("select 'a'; drop table file", "no semicolon"),
        ("select 'a' where 'b' = $1", "parameter"),
        ("select 'a\x00'", "NUL"),
        ("  \n", "is empty"),
    ],
)
def test_sql_that_would_not_stay_one_query_is_refused_at_once(
    connection: psycopg.Connection, sql: str, reason: str
) -> None:
    with pytest.raises(ReferencesUnknown, match=reason) as caught:
        check(connection, sql)
    assert "avatars" in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("select 'a', 'b'", "2 columns"),
        ("select", "0 columns"),
        ("select 42", "int4"),
        ("select array['files/a']", "_text"),
        ("select '\"files/a\"'::jsonb", "jsonb"),
        ("select 'files/a'::char(20)", "bpchar"),
        ("select gen_random_uuid()", "uuid"),
        ("select nothing from nowhere", "UndefinedTable"),
        ("select 'a' /* and", "SyntaxError"),
        ("select ('a'", "SyntaxError"),
        ("select (1 / 0)::text", "DivisionByZero"),
        ("insert into file (storage_key) values ('x') returning storage_key", "SyntaxError"),
        ("select nextval('made_up')::text", "ReadOnlySqlTransaction"),
    ],
)
def test_a_source_that_cannot_answer_raises_and_names_itself(
    connection: psycopg.Connection, sql: str, reason: str
) -> None:
    connection.execute("CREATE SEQUENCE made_up")
    with pytest.raises(ReferencesUnknown, match=reason) as at_first:
        check(connection, sql).examine()
    with pytest.raises(ReferencesUnknown, match=reason) as later:
        check(connection, sql).named(["files/a"])
    assert "'avatars'" in str(at_first.value)
    assert "'avatars'" in str(later.value)
    assert connection.execute("SELECT count(*) FROM file").fetchone() == (0,)


# Sources that look empty


@pytest.mark.parametrize("rows", ["", "('')", "(null), (null)"])
def test_a_source_that_returns_nothing_is_a_failure_and_says_how_to_allow_it(
    connection: psycopg.Connection, rows: str
) -> None:
    connection.execute("CREATE TABLE account (avatar_key text)")
    if rows:
        connection.execute(f"INSERT INTO account VALUES {rows}")
    sql = "select avatar_key from account"
    with pytest.raises(ReferencesUnknown, match="returned 0 keys") as caught:
        check(connection, sql, 1).examine()
    assert "min_rows: 0" in str(caught.value)
    assert "'avatars'" in str(caught.value)
    with pytest.raises(ReferencesUnknown, match="returned 0 keys"):
        check(connection, sql, 1).named(["files/a"])
    check(connection, sql, 0).examine()
    assert check(connection, sql, 0).named(["files/a"]) == {}


def test_a_source_must_have_as_many_keys_as_its_settings_say(
    connection: psycopg.Connection,
) -> None:
    sql = "select 'files/' || n from generate_series(1, 10) as n"
    check(connection, sql, 10).examine()
    with pytest.raises(ReferencesUnknown, match="returned 10 keys, and at least 11"):
        check(connection, sql, 11).examine()


def test_a_source_that_became_empty_after_the_preflight_is_noticed(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE TABLE account AS SELECT 'files/a'::text AS avatar_key")
    references = check(connection, "select avatar_key from account", 1)
    references.examine()
    connection.execute("TRUNCATE account")
    with pytest.raises(ReferencesUnknown, match="returned 0 keys"):
        references.named(["files/a"])


def test_rows_that_a_policy_hides_are_an_error_and_not_an_absence(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE TABLE account AS SELECT 'files/a'::text AS avatar_key")
    connection.execute("ALTER TABLE account ENABLE ROW LEVEL SECURITY")
    connection.execute("CREATE ROLE collector")
    connection.execute("GRANT SELECT ON account, file, upload, attachment TO collector")
    connection.execute("SET ROLE collector")
    try:
        hidden = connection.execute("SELECT count(*) FROM account").fetchone()
        assert hidden == (0,)
        with pytest.raises(ReferencesUnknown, match="row-level security"):
            check(connection, "select avatar_key from account").named(["files/a"])
    finally:
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY collector")
        connection.execute("DROP ROLE collector")


# Failures


def test_a_timeout_is_a_failure(connection: psycopg.Connection) -> None:
    references = ReferenceCheck(
        connection,
        [source("select 'files/a' from pg_sleep(5)")],
        statement_timeout=timedelta(milliseconds=100),
    )
    with pytest.raises(ReferencesUnknown, match="statement timeout") as caught:
        references.named(["files/a"])
    assert isinstance(caught.value.__cause__, psycopg.errors.QueryCanceled)


def test_the_limits_of_one_call_do_not_stay_on_the_connection(
    connection: psycopg.Connection,
) -> None:
    before = connection.execute("SHOW statement_timeout").fetchone()
    ReferenceCheck(connection, statement_timeout=timedelta(seconds=7)).named(["files/a"])
    assert connection.execute("SHOW statement_timeout").fetchone() == before
    assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)


def test_a_lost_connection_is_a_failure(connection: psycopg.Connection, database_url: str) -> None:
    references = ReferenceCheck(connection)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(ReferencesUnknown) as caught:
        references.named(["files/a"])
    assert isinstance(caught.value.__cause__, psycopg.OperationalError)
    with pytest.raises(ReferencesUnknown):
        references.examine()


def test_a_connection_with_uncommitted_changes_is_refused(
    connection: psycopg.Connection,
) -> None:
    insert(connection, "files/a")
    with connection.transaction():
        connection.execute("DELETE FROM file")
        with pytest.raises(ReferencesUnknown, match="Commit first"):
            ReferenceCheck(connection).named(["files/a"])


def test_a_row_committed_a_moment_ago_by_somebody_else_is_seen(
    connection: psycopg.Connection, database_url: str
) -> None:
    references = ReferenceCheck(connection)
    assert references.named(["files/a"]) == {}
    with psycopg.connect(database_url, autocommit=True) as other:
        insert(other, "files/a")
    assert references.named(["files/a"]) == {"files/a": ("file",)}


def test_a_connection_that_is_not_in_autocommit_mode_is_left_idle(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert ReferenceCheck(connection).named(["files/a"]) == {}
        assert connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE
