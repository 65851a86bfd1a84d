"""The check of single keys asks a source in the form in which its rows have them."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.operator import ReferencesUnknown
from tests.references.declared import TransformForTests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ACCOUNTS = "select avatar_key from account"
DECODED_BY_HAND = (
    "select k from unnest($1::text[]) as k"
    " where replace(k, ' ', '%20') in (select avatar_key from account)"
)


@dataclass(frozen=True)
class SourceForTests:
    name: str
    sql: str
    transforms: Sequence[TransformForTests] = ()
    recheck_sql: str | None = None
    min_rows: int = 0


def accounts(connection: psycopg.Connection, *keys: str) -> None:
    connection.execute("CREATE TABLE account (avatar_key text)")
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO account VALUES (%s)", [(key,) for key in keys])


@pytest.mark.parametrize(
    ("steps", "rows", "asked", "named"),
    [
        (
            [TransformForTests(strip_base=["s3://b/", "/"])],
            ["s3://b/files/a", "/files/b", "files/c", "https://b/files/d"],
            ["files/a", "files/b", "files/c", "files/d"],
            {"files/a", "files/b", "files/c"},
        ),
        (
            [TransformForTests(prepend="files/")],
            ["a", "files/b"],
            ["files/a", "files/b", "files/files/b", "a"],
            {"files/a", "files/files/b"},
        ),
        (
            [TransformForTests(strip_suffix=".gz"), TransformForTests(prepend="files/")],
            ["a.gz", "b"],
            ["files/a", "files/b", "files/a.gz"],
            {"files/a", "files/b"},
        ),
    ],
    ids=["strip_base", "prepend", "strip_suffix and prepend"],
)
def test_a_transformed_source_is_asked_for_every_value_that_becomes_the_key(
    connection: psycopg.Connection,
    steps: list[TransformForTests],
    rows: list[str],
    asked: list[str],
    named: set[str],
) -> None:
    accounts(connection, *rows)
    source = SourceForTests("avatars", ACCOUNTS, steps)
    assert set(ReferenceCheck(connection, [source]).named(asked)) == named
    assert not named & set(rows) - {"files/c"}, "control: asked as it is, no row names such a key"


def test_a_source_without_inverse_is_asked_by_its_own_recheck(
    connection: psycopg.Connection,
) -> None:
    accounts(connection, "files/a%20b")
    decode = TransformForTests(percent_decode=True)
    source = SourceForTests("avatars", ACCOUNTS, [decode], DECODED_BY_HAND)
    named = ReferenceCheck(connection, [source]).named(["files/a b", "files/a%20b", "files/x"])
    assert set(named) >= {"files/a b"}
    assert "files/x" not in named
    with pytest.raises(ReferencesUnknown, match="recheck_sql"):
        ReferenceCheck(connection, [SourceForTests("avatars", ACCOUNTS, [decode])])


def test_a_key_that_the_recheck_cannot_be_asked_about_counts_as_named(
    connection: psycopg.Connection,
) -> None:
    """`a%00b` decodes to a key that no text parameter can hold."""
    accounts(connection, "files/a%00b")
    decode = TransformForTests(percent_decode=True)
    source = SourceForTests("avatars", ACCOUNTS, [decode], DECODED_BY_HAND)
    assert set(ReferenceCheck(connection, [source]).named(["files/a\x00b"])) == {"files/a\x00b"}


# Snapshots


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def move(connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute("DELETE FROM account")
        connection.execute("INSERT INTO file (storage_key) VALUES ('files/moved')")


def test_a_key_that_moves_between_two_sources_while_they_are_asked_is_seen(
    connection: psycopg.Connection, database_url: str
) -> None:
    accounts(connection, "files/moved")
    gate = SourceForTests("gate", "select pg_advisory_xact_lock(7)::text")
    avatars = SourceForTests("avatars", ACCOUNTS)
    answers: list[object] = []
    with (
        psycopg.connect(database_url, autocommit=True) as other,
        psycopg.connect(database_url, autocommit=True) as asking,
    ):
        other.execute("SELECT pg_advisory_lock(7)")
        check = ReferenceCheck(asking, [gate, avatars])
        thread = threading.Thread(target=lambda: answers.append(check.named(["files/moved"])))
        thread.start()
        # `file` has been asked by now, and `account` has not.
        wait_for(lambda: bool(other.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall()))
        move(other)
        other.execute("SELECT pg_advisory_unlock(7)")
        thread.join()
    assert answers == [{"files/moved": ("avatars",)}]


def test_control_a_snapshot_for_each_statement_misses_a_key_that_moves(
    connection: psycopg.Connection, database_url: str
) -> None:
    accounts(connection, "files/moved")
    with psycopg.connect(database_url) as asking:
        asking.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        wanted = (["files/moved"],)
        found = asking.execute("SELECT 1 FROM file WHERE storage_key = any(%s)", wanted).fetchall()
        move(connection)
        found += asking.execute(
            "SELECT 1 FROM account WHERE avatar_key = any(%s)", wanted
        ).fetchall()
    assert found == [], "nobody names it, and its bytes would go"
