"""A chain that an earlier version made verifies as before, and whoever appended goes on."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate, shipped

if TYPE_CHECKING:
    from tests.audit.world import World

BEFORE = [one for one in shipped() if one.name < "0014"]
COLUMNS = {
    "audit_chain": "chain_id, genesis, head_seq, head_hash, head_at, incarnation",
    "audit_event": "chain_id, seq, recorded_at, body, body_hash, prev_hash, hash, alg",
    "audit_seal": "chain_id, seal_no, incarnation, size, head_hash, root, frontier, sealed_at,"
    " prev_seal, system_id, timeline, note",
    "audit_pin": "object_key, chain_id, version_id, sha256, retain_until, pinned_at",
}


def test_a_chain_of_an_earlier_version_verifies_as_before_and_its_appenders_go_on(
    own_world: World, empty_database_url: str
) -> None:
    migrate(empty_database_url, available=BEFORE)
    role = f"appender_{uuid.uuid4().hex}"
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for table, columns in COLUMNS.items():
            with (
                own_world.connection.cursor().copy(
                    f"COPY {table} ({columns}) TO STDOUT".encode()
                ) as out,
                connection.cursor().copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as back,
            ):
                for block in out:
                    back.write(block)
        connection.execute(
            f"CREATE ROLE {role}; GRANT SELECT, INSERT, UPDATE ON audit_chain TO {role};"
            f"GRANT INSERT ON audit_event TO {role}".encode()
        )
        appended = as_role(connection, role, "audit_append_many")
        assert appended == (101, 101)

        migrate(empty_database_url)
        assert as_role(connection, role, "audit_append_many") == (102, 102)
        # Its table rights are not needed any more.
        connection.execute(f"REVOKE ALL ON audit_chain, audit_event FROM {role}".encode())
        assert as_role(connection, role, "audit_append_many") == (103, 103)

        database = Database(empty_database_url)
        with database.connect("tests") as upgraded:
            world = replace(own_world, database=database, connection=upgraded)
            assert world.verify().clean
            assert world.seal().size == 103
            assert world.trim().events == 50
            assert world.verify().clean
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def as_role(connection: psycopg.Connection, role: str, function: str) -> object:
    with connection.transaction():
        connection.execute(f"SET LOCAL ROLE {role}".encode())
        return connection.execute(
            f"SELECT * FROM {function}('a', ARRAY['{{\"kind\":\"x\"}}'])".encode()
        ).fetchone()
