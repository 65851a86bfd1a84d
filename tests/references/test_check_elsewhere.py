"""Sources in another database, and sources whose values are not keys yet."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from filejobs_dagster.references.check import ReferenceCheck, ReferencesUnknown
from filejobs_dagster.settings import OtherDatabase, Secret, SourceSettings
from filejobs_dagster.text import sanitize_exception
from tests.postgres.backends import terminate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.postgres.primary import ServerState


@dataclass(frozen=True)
class Elsewhere:
    url: str
    name: str = "documents"
    sql: str = "select storage_key from documents where status <> 'expired'"
    min_rows: int = 0
    database: Any = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "database", OtherDatabase(url=Secret("APP", self.url)))


@pytest.fixture
def app(empty_database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE documents (storage_key text, status text)")
        connection.execute("INSERT INTO documents VALUES ('files/1', 'complete')")
        connection.execute("INSERT INTO documents VALUES ('files/2', 'expired')")
        yield connection


def test_a_row_in_another_database_that_names_the_key_keeps_it(
    connection: psycopg.Connection, app: psycopg.Connection, empty_database_url: str
) -> None:
    connection.execute("INSERT INTO file (storage_key) VALUES ('files/1'), ('files/3')")
    with ReferenceCheck(connection, [Elsewhere(empty_database_url)]) as references:
        references.examine()
        named = references.named(["files/1", "files/2", "files/3"])
        assert named == {"files/1": ("file", "documents"), "files/3": ("file",)}
        app.execute("UPDATE documents SET status = 'complete'")
        assert "files/2" in references.named(["files/2"])


def test_two_sources_of_one_database_share_a_connection_that_close_ends_and_a_call_reopens(
    connection: psycopg.Connection, app: psycopg.Connection, empty_database_url: str
) -> None:
    sources = [Elsewhere(empty_database_url, name) for name in ("one", "two")]
    references = ReferenceCheck(connection, sources)
    assert open_connections(app) == []
    assert references.named(["files/1"]) == {"files/1": ("one", "two")}
    (pid,) = open_connections(app)
    references.close()
    assert references.named(["files/1"])
    (again,) = open_connections(app)
    assert again != pid
    references.close()


def test_a_broken_connection_is_no_answer_and_the_next_call_has_a_new_one(
    connection: psycopg.Connection, app: psycopg.Connection, empty_database_url: str
) -> None:
    with ReferenceCheck(connection, [Elsewhere(empty_database_url)]) as references:
        references.examine()
        terminate(app, open_connections(app)[0])
        with pytest.raises(ReferencesUnknown, match="documents"):
            references.named(["files/1"])
        assert references.named(["files/1"])


@pytest.mark.parametrize("what", ["away", "no table", "empty", "standby"])
def test_a_source_elsewhere_that_cannot_answer_raises_and_shows_no_password(
    connection: psycopg.Connection, app: psycopg.Connection, empty_database_url: str, what: str
) -> None:
    url, min_rows = empty_database_url, 0
    if what == "away":
        url = "postgresql://app:hunter2@127.0.0.1:1/app"
    elif what == "no table":
        app.execute("DROP TABLE documents")
    elif what == "empty":
        app.execute("TRUNCATE documents")
        min_rows = 1
    else:
        app.execute("CREATE SCHEMA fake")
        app.execute(
            "CREATE FUNCTION fake.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        )
        name = conninfo_to_dict(empty_database_url)["dbname"]
        app.execute(f'ALTER DATABASE "{name}" SET search_path = fake, pg_catalog, public'.encode())
    with (
        ReferenceCheck(connection, [Elsewhere(url, min_rows=min_rows)]) as references,
        pytest.raises(ReferencesUnknown) as raised,
    ):
        references.named(["files/1"])
    assert "hunter2" not in str(raised.value)
    told = sanitize_exception(raised.value)
    assert told.count("Could not connect") == (1 if what == "away" else 0), told


# Values that are not keys yet --------------------------------------------------------------------


def declared(**said: Any) -> SourceSettings:
    return SourceSettings.model_validate({"name": "posters", "min_rows": 0, **said})


def test_a_value_that_becomes_the_key_by_declared_steps_keeps_it(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE TABLE poster (address text)")
    connection.execute("INSERT INTO poster VALUES ('https://cdn.example.com/1#big'), ('2'), ('3#')")
    source = declared(
        sql="select address from poster",
        transforms=[
            {"strip_suffix": "#big"},
            {"strip_base": ["https://cdn.example.com/"]},
            {"prepend": "files/"},
        ],
    )
    named = ReferenceCheck(connection, [source]).named(["files/1", "files/2", "files/3", "1"])
    assert set(named) == {"files/1", "files/2"}


def test_what_cannot_be_inverted_is_asked_by_the_operators_own_check(
    connection: psycopg.Connection,
) -> None:
    connection.execute("CREATE TABLE poster (address text, storage_key text)")
    connection.execute("INSERT INTO poster VALUES ('files/%31', 'files/1')")
    source = declared(
        sql="select address from poster",
        transforms=[{"percent_decode": True}],
        recheck_sql="select key from unnest($1::text[]) as key"
        " where exists (select from poster where storage_key = key) -- all of them",
    )
    references = ReferenceCheck(connection, [source])
    references.examine()
    assert references.named(["files/1", "files/2"]) == {"files/1": ("posters",)}


def test_a_check_of_the_operators_that_is_not_one_statement_of_keys_is_refused(
    connection: psycopg.Connection,
) -> None:
    for recheck in ("select $1, $2", "select unnest($1::text[]); drop table file", "select 'a'"):
        source = declared(sql="select 'a'").model_copy(update={"recheck_sql": recheck})
        with pytest.raises(ReferencesUnknown, match="recheck_sql"):
            ReferenceCheck(connection, [source])
    without = declared(sql="select 'a'").model_copy(
        update={"transforms": declared(sql="select 'a'", recheck_sql="select unnest($1::text[])",
                                       transforms=[{"drop_query": True}]).transforms}
    )  # fmt: skip
    with pytest.raises(ReferencesUnknown, match="cannot be inverted"):
        ReferenceCheck(connection, [without])


def open_connections(watcher: psycopg.Connection) -> list[int]:
    rows = watcher.execute(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name LIKE 'filejobs/references%'"
    )
    return [pid for (pid,) in rows]


@pytest.mark.usefixtures("app")
def test_what_a_server_says_that_is_not_the_one_to_ask_is_no_answer(
    connection: psycopg.Connection, empty_database_url: str
) -> None:
    told: list[tuple[str, int | None]] = []

    def not_the_one(url: str, here: ServerState) -> None:
        told.append((url, here.timeline))
        raise RuntimeError("somebody else answers there")

    sources = [Elsewhere(empty_database_url)]
    with (
        ReferenceCheck(connection, sources, recognise=not_the_one) as references,
        pytest.raises(ReferencesUnknown, match="somebody else answers there"),
    ):
        references.named(["files/2"])
    assert told == [(empty_database_url, 1)]
    # CONTROL: believed, it lets the key go.
    with ReferenceCheck(connection, sources) as references:
        assert references.named(["files/2"]) == {}
