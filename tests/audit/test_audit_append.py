"""Appending to the audit log: dense, linked, whole, and the same whoever's session it is."""

from __future__ import annotations

import hashlib
import json
import re
import struct
import threading
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

import filejobs_dagster
from filejobs_dagster.audit.append import (
    COLLECTORS_CHAIN,
    NotCanonical,
    _quickly,
    append,
    canonical,
)
from filejobs_dagster.audit.origin import quoted
from tests.postgres.backends import is_waiting, together, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EPOCH_OF_POSTGRESQL = datetime(2000, 1, 1, tzinfo=timezone.utc)


def sha256(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def genesis(chain: str) -> bytes:
    return sha256(b"filejobs/audit/genesis\n" + chain.encode())


def event_hash(chain: str, seq: int, moment: datetime, previous: bytes, body: str) -> bytes:
    """The documented pre-image, written down a second time and independently."""
    return sha256(
        b"filejobs/audit/event\n"
        + struct.pack(">h", 1)
        + sha256(chain.encode())
        + struct.pack(">q", seq)
        + struct.pack(">q", (moment - EPOCH_OF_POSTGRESQL) // timedelta(microseconds=1))
        + previous
        + sha256(body.encode())
    )


def add(connection: psycopg.Connection, *events: dict[str, Any], chain: str = "c") -> Any:
    with connection.cursor() as cursor:
        return append(cursor, events, chain=chain)


def check_chain(connection: psycopg.Connection, chain: str = "c") -> int:
    """Recompute the whole chain, and return how many events it has."""
    rows = connection.execute(
        "SELECT seq, recorded_at, body, body_hash, prev_hash, hash, alg FROM audit_event"
        " WHERE chain_id = %s ORDER BY seq",
        (chain,),
    ).fetchall()
    previous, last_moment = genesis(chain), EPOCH_OF_POSTGRESQL
    for number, (seq, moment, body, body_hash, prev_hash, own_hash, alg) in enumerate(rows, 1):
        assert (seq, alg) == (number, 1)
        assert moment >= last_moment
        assert prev_hash == previous
        assert body_hash == sha256(body.encode())
        assert own_hash == event_hash(chain, seq, moment, previous, body)
        previous, last_moment = own_hash, moment
    head = connection.execute(
        "SELECT genesis, head_seq, head_hash, head_at FROM audit_chain WHERE chain_id = %s",
        (chain,),
    ).fetchone()
    if rows:
        assert head == (genesis(chain), len(rows), previous, last_moment)
    return len(rows)


def test_the_chain_is_dense_and_equals_the_documented_pre_image(
    connection: psycopg.Connection,
) -> None:
    assert add(connection, {"n": 1}) == (1, 1)
    assert add(connection, {"n": 2}, {"key": "fïles/📦"}, {"n": 4}) == (2, 4)
    assert check_chain(connection) == 4


def test_nothing_to_append_makes_no_chain(connection: psycopg.Connection) -> None:
    assert add(connection) is None
    query = "SELECT * FROM audit_append_many('c', %s::text[])"
    assert connection.execute(query, ([],)).fetchall() == []
    assert connection.execute(query, (None,)).fetchall() == []
    assert connection.execute("SELECT count(*) FROM audit_chain").fetchone() == (0,)


@pytest.mark.parametrize(
    ("bodies", "error"),
    [
        (['{"n": 1}', None], psycopg.errors.NullValueNotAllowed),
        (['{"n": 1}', "{n: 1}"], psycopg.errors.InvalidTextRepresentation),
        ([""], psycopg.errors.InvalidTextRepresentation),
        (['"\\u0000"'], psycopg.errors.UntranslatableCharacter),
    ],
)
def test_what_is_no_json_is_refused_and_takes_its_neighbours_along(
    connection: psycopg.Connection, bodies: list[str | None], error: type[psycopg.Error]
) -> None:
    add(connection, {"n": 0})
    with pytest.raises(error):
        connection.execute("SELECT * FROM audit_append_many('c', %s::text[])", (bodies,))
    assert check_chain(connection) == 1


def test_a_chain_without_a_name_is_refused(connection: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute("SELECT * FROM audit_append_many(NULL, ARRAY['{}'])")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_event SET body = '{}'",
        "DELETE FROM audit_event",
        "TRUNCATE audit_event",
        "TRUNCATE audit_chain CASCADE",
        "DELETE FROM audit_chain",
    ],
)
def test_events_are_never_changed_and_never_removed(
    connection: psycopg.Connection, statement: str
) -> None:
    add(connection, {"n": 1})
    with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.ForeignKeyViolation)):
        connection.execute(statement)
    assert check_chain(connection) == 1


def test_microseconds_are_kept_and_hashed(connection: psycopg.Connection) -> None:
    for number in range(20):
        add(connection, {"n": number})
    rows = connection.execute("SELECT recorded_at FROM audit_event").fetchall()
    assert any(row[0].microsecond % 1000 for row in rows)
    assert check_chain(connection) == 20


def test_the_session_of_the_appender_changes_no_hash(
    connection: psycopg.Connection, database_url: str
) -> None:
    odd = {
        "TimeZone": "Asia/Kathmandu",
        "DateStyle": "German",
        "bytea_output": "escape",
        "IntervalStyle": "sql_standard",
        "extra_float_digits": "-15",
        "search_path": "pg_catalog",
        "client_encoding": "LATIN1",
        "standard_conforming_strings": "off",
    }
    for name, value in odd.items():
        with psycopg.connect(database_url, autocommit=True) as session:
            session.execute("SELECT set_config(%s, %s, false)", (name, value))
            session.execute(
                "SELECT FROM public.audit_append_many('c', ARRAY[%s])",
                ('{"key":"files/\u00e9"}',),
            )
    assert check_chain(connection) == len(odd)
    bodies = connection.execute("SELECT DISTINCT body FROM audit_event").fetchall()
    assert bodies == [('{"key":"files/\u00e9"}',)]


def test_each_name_has_a_chain_of_its_own(connection: psycopg.Connection) -> None:
    add(connection, {"n": 1}, chain="a")
    add(connection, {"n": 1}, chain="b")
    add(connection, {"n": 2}, chain="a")
    with connection.cursor() as cursor:
        append(cursor, [{"n": 1}])
    assert check_chain(connection, "a") == 2
    assert check_chain(connection, "b") == 1
    assert check_chain(connection, COLLECTORS_CHAIN) == 1
    hashes = connection.execute("SELECT count(DISTINCT hash) FROM audit_event").fetchone()
    assert hashes == (4,)


def test_a_clock_that_went_back_a_little_is_clamped(connection: psycopg.Connection) -> None:
    add(connection, {"n": 1})
    ahead = connection.execute(
        "UPDATE audit_chain SET head_at = now() + interval '4 minutes' RETURNING head_at"
    ).fetchone()
    add(connection, {"n": 2}, {"n": 3})
    rows = connection.execute(
        "SELECT DISTINCT recorded_at FROM audit_event WHERE seq > 1"
    ).fetchall()
    assert rows == [ahead]
    assert check_chain(connection) == 3


def test_a_clock_that_was_a_year_ahead_does_not_date_what_follows(
    connection: psycopg.Connection,
) -> None:
    add(connection, {"n": 1})
    connection.execute("UPDATE audit_chain SET head_at = '2999-01-01Z'")
    assert add(connection, {"n": 2}, {"n": 3}) == (3, 4)
    bodies = connection.execute(
        "SELECT body, recorded_at < now() + interval '1 minute' FROM audit_event ORDER BY seq"
    ).fetchall()
    assert all(in_time for _, in_time in bodies)
    assert [body for body, _ in bodies][2:] == ['{"n":2}', '{"n":3}']
    said = json.loads(bodies[1][0])
    assert (said["kind"], said["from"]) == ("audit.clock", "2999-01-01T00:00:00.000000Z")
    assert canonical(said) == bodies[1][0]
    assert check_chain(connection) == 4


@pytest.fixture
def writers(connection: psycopg.Connection) -> Iterator[list[str]]:
    """A group of an application, two of its members, and a stranger; they may call audit_record."""
    roles = [f"writer_{uuid.uuid4().hex}" for _ in range(4)]
    group, web, worker, _ = roles
    for role in roles:
        connection.execute(f"CREATE ROLE {role}; GRANT EXECUTE ON FUNCTION "
                           f"audit_record(text, text[]) TO {role}".encode())  # fmt: skip
    connection.execute(f"GRANT {group} TO {web}, {worker}".encode())
    yield roles
    connection.execute("RESET ROLE")
    for role in roles:
        connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def record(connection: psycopg.Connection, role: str, chain: str = "app") -> Any:
    with connection.transaction():
        connection.execute(f"SET LOCAL ROLE {role}".encode())
        return connection.execute(
            'SELECT * FROM audit_record(%s, ARRAY[\'{"kind":"x"}\'])', (chain,)
        ).fetchone()


def test_a_chain_belongs_to_the_role_that_began_it_and_to_its_members(
    connection: psycopg.Connection, writers: list[str]
) -> None:
    group, web, worker, stranger = writers
    assert record(connection, group) == (1, 1)
    assert record(connection, web) == (2, 2)
    assert record(connection, worker) == (3, 3)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is not one of the role"):
        record(connection, stranger)
    assert record(connection, worker, "workers") == (1, 1)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        record(connection, web, "workers")
    # One of an earlier version has no writer until the owner names it.
    add(connection, {"n": 1}, chain="old")
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is not one of the role"):
        record(connection, web, "old")
    connection.execute("UPDATE audit_chain SET writer = %s WHERE chain_id = 'old'", (group,))
    assert record(connection, web, "old") == (2, 2)
    assert check_chain(connection, "app") == 3
    assert check_chain(connection, "old") == 2


LOG = ("chain", "event", "seal", "checkpoint", "restore", "hold", "pin")
NOT_FOR_APPLICATIONS = [
    *(f"SELECT FROM audit_{table}" for table in LOG),
    *(f"DELETE FROM audit_{table}" for table in LOG),
    *(f"TRUNCATE audit_{table} CASCADE" for table in LOG),
    *(f"ALTER TABLE audit_{table} DISABLE TRIGGER ALL" for table in LOG),
    *(f"CREATE TRIGGER t BEFORE INSERT ON audit_{table} FOR EACH ROW EXECUTE FUNCTION"
      " refuse_audit_change()" for table in LOG),
    *(f"LOCK TABLE audit_{table} IN ACCESS SHARE MODE" for table in LOG),
    "UPDATE audit_chain SET writer = session_user, head_seq = 0",
    "UPDATE audit_event SET body = '{}'",
    "INSERT INTO audit_chain VALUES ('new', sha256(''), 0, sha256(''), now())",
    "INSERT INTO audit_event SELECT 'app', 9, now(), '{}', sha256(''), sha256(''), sha256(''), 1",
    "INSERT INTO audit_pin (object_key, chain_id, sha256) VALUES ('x', 'app', '')",
    "SELECT audit_append_many('app', ARRAY['{}'])",
    "SELECT audit_append_many('collectors', ARRAY['{\"kind\":\"audit.trim\"}'])",
    "SELECT audit_record('collectors', ARRAY['{\"kind\":\"x\"}'])",
    "SELECT audit_record('others', ARRAY['{\"kind\":\"x\"}'])",
    "SELECT audit_record('app', ARRAY['{\"kind\":\"audit.trim\"}'])",
    "SELECT audit_record('app', ARRAY['{\"kind\":\"x\"}', '{\"kind\":\"run.x\"}'])",
    "ALTER FUNCTION audit_record(text, text[]) SECURITY INVOKER",
    "CREATE OR REPLACE FUNCTION audit_record(text, text[]) RETURNS text LANGUAGE sql AS 'SELECT 1'",
    "DROP FUNCTION audit_record(text, text[])",
    "SET session_replication_role = replica",
]  # fmt: skip
"""What a role is refused that has exactly what docs/audit.md grants to an application."""


def attempt(connection: psycopg.Connection, role: str, statement: str) -> None:
    with connection.transaction():
        connection.execute(f"SET LOCAL ROLE {role}".encode())
        connection.execute(statement.encode())


def test_a_role_with_exactly_an_application_s_grants_can_do_nothing_but_append(
    connection: psycopg.Connection, writers: list[str]
) -> None:
    role, stranger = writers[0], writers[3]
    record(connection, role)
    record(connection, stranger, "others")
    add(connection, {"n": 1})

    def state() -> list[Any]:
        return [
            connection.execute(f"SELECT * FROM audit_{table} ORDER BY 1, 2".encode()).fetchall()
            for table in LOG
        ]

    before = state()
    for statement in NOT_FOR_APPLICATIONS:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            attempt(connection, role, statement)
        assert state() == before, statement
    assert record(connection, role) == (2, 2)
    assert check_chain(connection, "app") == 2


def test_tables_of_the_caller_are_not_met_by_a_function_that_runs_as_the_owner(
    connection: psycopg.Connection, writers: list[str]
) -> None:
    """A decoy with a trigger would run as the owner: the way in through a careless definer."""
    role = writers[0]
    with connection.transaction():
        connection.execute(f"SET LOCAL ROLE {role}".encode())
        connection.execute("CREATE TEMPORARY TABLE audit_chain (chain_id text)")
        connection.execute("SET LOCAL search_path = pg_temp")
        connection.execute("SELECT public.audit_record('app', ARRAY['{\"kind\":\"x\"}'])")
        assert connection.execute("SELECT count(*) FROM pg_temp.audit_chain").fetchone() == (0,)
        connection.execute("DROP TABLE pg_temp.audit_chain")
    assert check_chain(connection, "app") == 1


@pytest.mark.parametrize("body", ["[]", '"x"', "{}", '{"kind":1}', '{"kind":null}', "null", None])
def test_an_event_of_an_application_says_what_happened(
    connection: psycopg.Connection, body: str | None
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SELECT audit_record('app', ARRAY[%s])", (body,))
    assert connection.execute("SELECT count(*) FROM audit_chain").fetchone() == (0,)


@pytest.mark.parametrize(
    "body",
    [
        '{"kind":"audit.trim","kind":"app.x"}',
        '{"kind":"app.x","ki\\u006ed":"audit.trim"}',
        '{"kind":"app.x","n":1,"n":1}',
    ],
)
def test_a_name_that_stands_twice_in_an_event_is_refused(
    connection: psycopg.Connection, body: str
) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="a name twice"):
        connection.execute("SELECT audit_record('app', ARRAY[%s])", (body,))
    deeper = '{"kind":"app.x","n":{"kind":"app.x"},"m":{"n":1}}'
    connection.execute("SELECT audit_record('app', ARRAY[%s])", (deeper,))


def test_a_name_of_a_chain_that_no_key_of_a_pin_can_hold_is_refused(
    connection: psycopg.Connection,
) -> None:
    for chain in ("\u00e9" * 41, "/" * 81, "/" * 80 + "a"):
        assert len(quoted(chain)) > 240
        with pytest.raises(psycopg.errors.InvalidParameterValue, match="too long for a pin"):
            connection.execute('SELECT audit_record(%s, ARRAY[\'{"kind":"x"}\'])', (chain,))
    for chain in ("\u00e9" * 40, "/" * 79 + "a.b", "a" * 200):
        assert len(quoted(chain)) <= 240
        connection.execute('SELECT audit_record(%s, ARRAY[\'{"kind":"x"}\'])', (chain,))
    # One that is there already goes on.
    add(connection, {"n": 1}, chain="/" * 200)
    connection.execute("UPDATE audit_chain SET writer = session_user")
    connection.execute('SELECT audit_record(%s, ARRAY[\'{"kind":"x"}\'])', ("/" * 200,))


NO_KINDS = {
    "audit.archive",
    "buckets.",
    "on.",
    "own.",
    "public.documents",
    "public.messages",
    "public.draft",
    "public.notification_delivery",
    "public.photos",
    "public.session",
    "reviewed.csv",
}
"""Texts of the same form that stand beside the kinds of events."""


def kinds_of_the_jobs() -> set[str]:
    """What the package calls its events, by their form; of a composed one what it begins with."""
    package = Path(filejobs_dagster.__file__).parent
    found: set[str] = set()
    for folder in ("audit", "book", "door", "jobs"):
        for path in (package / folder).rglob("*.py"):
            text = path.read_text(encoding="utf-8").replace("{JOB}", path.parent.name)
            found |= set(re.findall(r'"([a-z_]+(?:\.[a-z_]+)+)"', text))
            found |= set(re.findall(r'f"([a-z_]+\.[a-z_.]*)\{', text))
            found |= set(re.findall(r'f"([a-z_]+(?:\.[a-z_]+)+)"', text))
    return found - NO_KINDS


def test_what_the_jobs_write_is_what_an_application_may_not(
    connection: psycopg.Connection,
) -> None:
    """One list in SQL: whoever gives events a new first word adds a migration, or breaks this."""
    kinds = kinds_of_the_jobs()
    assert {"bucket.adopted", "table_retention.", "run_history.progress.removed"} <= kinds
    (text,) = connection.execute(
        "SELECT prosrc FROM pg_proc WHERE proname = 'audit_record'"
    ).fetchone() or ("",)
    listed = re.search(r"'\^\((.*?)\)\[\.\]'", text, re.DOTALL)
    assert listed is not None
    reserved = set(re.findall(r"[a-z_]+", listed[1]))
    assert {kind.partition(".")[0] for kind in kinds} == reserved
    for kind in kinds:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="is the jobs' own"):
            connection.execute(
                "SELECT audit_record('app', ARRAY[%s])", (json.dumps({"kind": f"{kind}x"}),)
            )


@pytest.mark.parametrize(
    "decoy",
    [
        "FUNCTION public.pg_has_role(text, oid, text) RETURNS boolean",
        "FUNCTION public.cardinality(text[]) RETURNS integer",
        "FUNCTION public.format(text, text, text) RETURNS text",
        "FUNCTION public.taken(text, text[]) RETURNS text[]",
    ],
)
def test_what_somebody_makes_in_the_schema_does_not_run_as_the_owner(
    connection: psycopg.Connection, writers: list[str], decoy: str
) -> None:
    """In a cluster that was upgraded from PostgreSQL 14 everybody has CREATE on public."""
    role = writers[0]
    connection.execute(f"GRANT CREATE ON SCHEMA public TO {role}".encode())
    record(connection, role)
    connection.execute("UPDATE audit_chain SET head_at = '2999-01-01Z'")
    with connection.transaction():
        connection.execute(f"SET LOCAL ROLE {role}".encode())
        connection.execute(
            f"CREATE {decoy} LANGUAGE plpgsql AS"
            " $$BEGIN RAISE EXCEPTION 'ran as %', current_user; END$$".encode()
        )
        if "taken" in decoy:
            connection.execute(
                "CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = text[],"
                " FUNCTION = public.taken)"
            )
    # As in a session that has called neither function before.
    connection.execute("DISCARD PLANS")
    # The event of the clock, which is put together in SQL, is among them.
    assert record(connection, role) == (3, 3)
    assert check_chain(connection, "app") == 3


def test_whatever_a_definer_calls_is_named_with_its_schema(
    connection: psycopg.Connection,
) -> None:
    """CONTROL in the text: the functions before this were met by a better fitting overload."""
    rows = connection.execute(
        "SELECT proname, prosrc FROM pg_proc"
        " WHERE prosecdef AND pronamespace = 'public'::regnamespace"
    ).fetchall()
    assert {"audit_append_many", "audit_record", "refuse_key_in_deletion"} < {
        one for one, _ in rows
    }
    for name, source in rows:
        text = re.sub(r"--[^\n]*|'(?:[^']|'')*'|OPERATOR\(pg_catalog\.[^)]+\)", " , ", source)
        calls = set(re.findall(r"(?<![.\w])([a-z_0-9]+)\s*\(", text))
        # What the grammar makes of these does not look along the search path, and what takes no
        # argument fits exactly where it is looked for first.
        assert calls <= {
            "coalesce", "greatest", "audit_append_many",
            "audit_chain", "audit_event", "chain_id", "values", "exists", "clock_timestamp",
        }, (name, calls)  # fmt: skip
        if name.startswith(("audit_", "refuse_")):
            operators = re.findall(r"<>|[<>~+-]|\|\||(?:WHERE|IF|AND|OR|WHEN)\s+[\w.]+\s*=", text)
            assert operators == [], name


def test_every_function_finds_only_what_it_was_made_with(connection: psycopg.Connection) -> None:
    loose = connection.execute(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " AND NOT EXISTS (SELECT FROM unnest(proconfig) AS one WHERE one LIKE 'search_path=%')"
    ).fetchall()
    assert loose == []


def test_a_trigger_that_runs_as_the_owner_calls_no_function_of_somebody_else(
    connection: psycopg.Connection, writers: list[str]
) -> None:
    """CONTROL by hand: before it was named with its schema, this one ran as the owner."""
    role = writers[0]
    connection.execute(
        f"""
        CREATE TABLE watched (avatar text);
        CREATE TRIGGER refuses AFTER INSERT ON watched FOR EACH ROW
            EXECUTE FUNCTION refuse_key_in_deletion('avatar');
        GRANT INSERT ON watched TO {role};
        GRANT CREATE ON SCHEMA public TO {role};
        SET ROLE {role};
        CREATE FUNCTION public.to_jsonb(public.watched) RETURNS jsonb LANGUAGE plpgsql
            AS $$BEGIN RAISE EXCEPTION 'ran as %', current_user; END$$;
        INSERT INTO watched VALUES ('x');
        RESET ROLE;
        DROP TABLE watched CASCADE
        """.encode()
    )


def test_a_rollback_leaves_no_gap(connection: psycopg.Connection) -> None:
    add(connection, {"n": 1})
    with connection.transaction(force_rollback=True):
        assert add(connection, {"n": "lost"}) == (2, 2)
    assert add(connection, {"n": 2}) == (2, 2)
    assert check_chain(connection) == 2
    # CONTROL: a sequence leaves one.
    connection.execute("CREATE TABLE careless (seq bigserial)")
    for rolls_back in (False, True, False):
        with connection.transaction(force_rollback=rolls_back):
            connection.execute("INSERT INTO careless DEFAULT VALUES")
    rows = connection.execute("SELECT seq FROM careless ORDER BY seq").fetchall()
    assert rows == [(1,), (3,)]


def test_appenders_at_once_make_no_fork_and_no_gap(
    connection: psycopg.Connection, database_url: str
) -> None:
    """From the very first event on, where there is no head to lock yet."""

    def work(index: int, barrier: threading.Barrier) -> None:
        with psycopg.connect(database_url) as appender:
            barrier.wait()
            for number in range(15):
                add(appender, *({"by": index, "n": f"{number}.{part}"} for part in range(3)))
                if number % 4 == 3:
                    appender.rollback()
                else:
                    appender.commit()

    together(3, work)
    assert check_chain(connection) == 3 * 12 * 3


def test_the_second_appender_waits_for_the_first(
    connection: psycopg.Connection, database_url: str
) -> None:
    with (
        psycopg.connect(database_url) as first,
        psycopg.connect(database_url) as second,
    ):
        add(first, {"n": 1})
        thread = threading.Thread(target=lambda: add(second, {"n": 2}))
        thread.start()
        pid = second.info.backend_pid
        wait_until(lambda: is_waiting(connection, pid), "the second waits")
        first.commit()
        thread.join()
        second.commit()
    assert check_chain(connection) == 2


def test_control_reading_the_last_event_and_inserting_forks(
    connection: psycopg.Connection, database_url: str
) -> None:
    connection.execute("CREATE TABLE careless (seq bigint, prev_hash bytea, hash bytea)")
    connection.execute("INSERT INTO careless VALUES (1, '\\x00', '\\x01')")
    last = "SELECT seq, hash FROM careless ORDER BY seq DESC LIMIT 1"

    def insert(session: psycopg.Connection, head: Sequence[Any], own: bytes) -> None:
        values = (head[0] + 1, head[1], own)
        session.execute("INSERT INTO careless VALUES (%s, %s, %s)", values)
        session.commit()

    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as second:
        heads = [session.execute(last).fetchone() for session in (first, second)]
        assert heads[0] is not None
        assert heads[1] is not None
        insert(first, heads[0], b"\x02")
        insert(second, heads[1], b"\x03")
    children = connection.execute(
        "SELECT count(*) FROM careless GROUP BY prev_hash HAVING count(*) > 1"
    ).fetchall()
    assert children == [(2,)]


def test_a_fork_that_is_written_by_hand_is_refused(connection: psycopg.Connection) -> None:
    add(connection, {"n": 1})
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(
            "INSERT INTO audit_event SELECT chain_id, seq + 1, recorded_at, body, body_hash,"
            " prev_hash, hash, alg FROM audit_event"
        )


@pytest.mark.parametrize(
    "value",
    [2**53, -(2**53), float("nan"), float("inf"), b"bytes", {1: "a"}, "\ud800", "a\x00b", object()],
)
def test_what_does_not_survive_json_is_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        canonical({"value": value})


def test_a_backslash_before_u0000_is_no_nul(connection: psycopg.Connection) -> None:
    add(connection, {"key": "files/\\u0000"}, {"key": "\\\\u0000"})
    assert check_chain(connection) == 2
    with pytest.raises(NotCanonical):
        canonical({"key": "\\\x00"})


def test_the_text_is_rfc_8785() -> None:
    event = {"b": 2**53 - 1, "a": "\u20ac$\u000f\nA'B\"\\", "\ufb33": 1, "\U0001f600": 2, "": -0.0}
    assert canonical(event) == (
        '{"":0,"a":"\u20ac$\\u000f\\nA\'B\\"\\\\","b":9007199254740991,"\U0001f600":2,"\ufb33":1}'
    )


_VALUES = st.recursive(
    st.text(st.characters(categories=None))
    | st.integers()
    | st.booleans()
    | st.none()
    | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("az\u00e9\ufb33\U0001f600"), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text("kA_\u20ac\ufb33\U0001f600", max_size=3), _VALUES, max_size=4))
def test_the_quick_way_writes_what_rfc_8785_writes_or_nothing(event: dict[str, Any]) -> None:
    try:
        expected: str | None = rfc8785.dumps(event).decode()
    except rfc8785.CanonicalizationError:
        expected = None
    assert _quickly(event) in (expected, None)


def test_the_events_of_a_collector_go_the_quick_way() -> None:
    keys = ["files/a", "files/\u00e9\U0001f600", 'files/"\\\n']
    event: dict[str, Any] = {
        "kind": "objects.delete.result",
        "batch": 3,
        "keys": keys,
        "failed": {"x": "y"},
    }
    assert _quickly(event) == rfc8785.dumps(event).decode()


@given(st.dictionaries(st.text(), st.recursive(st.text() | st.integers() | st.none(), st.lists)))
def test_canonical_text_is_one_text_whatever_the_order_of_keys(event: dict[str, Any]) -> None:
    try:
        text = canonical(event)
    except NotCanonical:
        return
    assert canonical(dict(reversed(event.items()))) == text
    assert "\n" not in text
