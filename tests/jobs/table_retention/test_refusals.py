"""What no rule may do, by whatever name it calls the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from filejobs_dagster.jobs.table_retention.resolving import own_tables
from filejobs_dagster.jobs.table_retention.retention import examined
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate
from tests.jobs.table_retention.conftest import rule

if TYPE_CHECKING:
    from tests.jobs.table_retention.conftest import Keeper


def refusal(keeper: Keeper, **said: Any) -> str:
    """Why a rule is refused; one that is not fails the test."""
    with keeper.database.connect("test") as connection:
        (one,) = examined([rule(**said)], keeper.database, connection, 10)
    assert one.refused is not None, f"{said} is not refused"
    return one.refused


def test_every_table_that_the_migrations_make_is_refused(keeper: Keeper) -> None:
    there = keeper.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p')"
    )
    assert {name for (name,) in there} == set(own_tables())
    for name in own_tables():
        assert "a table of this project's" in refusal(keeper, table=name, time="x")


def test_the_own_tables_are_known_by_whatever_they_are_called(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE SCHEMA above;"
        "CREATE TABLE above.part (LIKE job_progress) PARTITION BY RANGE (started_at);"
        "ALTER TABLE above.part ATTACH PARTITION job_progress DEFAULT"
    )
    for table in ("job_run", "JOB_RUN", 'Public."job_run"', '"audit_event"', "above.part"):
        assert "a table of this project's" in refusal(keeper, table=table, time="started_at")


def test_the_tables_of_another_installation_are_refused_too(keeper: Keeper) -> None:
    migrate(Database(keeper.url, schema="other").url, "other")
    assert "other.job_run" in refusal(keeper, table="other.job_run", time="finished_at")
    # By the search path of the role as well: the name decides nothing.
    (name,) = keeper.execute("SELECT current_database()")[0]
    keeper.execute(f'ALTER DATABASE "{name}" SET search_path = other, public')
    assert "other.file" in refusal(keeper, table="file", time="created_at")


def test_a_table_of_the_operators_may_have_such_a_name(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE SCHEMA app; CREATE TABLE app.file (id int PRIMARY KEY, at timestamptz);"
        "INSERT INTO app.file VALUES (1, now() - interval '9 days')"
    )
    assert keeper.run(rule(table="app.file", time="at")).acted == 1


UNSAFE: list[tuple[str, dict[str, Any], str]] = [
    ("SELECT", {"table": "nowhere"}, "there is no table nowhere for the role"),
    ("CREATE VIEW thing AS SELECT * FROM job_run", {"time": "finished_at"}, "a view"),
    ("CREATE MATERIALIZED VIEW thing AS SELECT 1 AS at", {}, "a materialized view"),
    ("CREATE SEQUENCE thing", {}, "a sequence"),
    (
        (
            "CREATE EXTENSION IF NOT EXISTS postgres_fdw;"
            " CREATE SERVER far FOREIGN DATA WRAPPER"
            " postgres_fdw; CREATE FOREIGN TABLE thing (at timestamptz) SERVER far"
        ),
        {},
        "a foreign table",
    ),
    ("SELECT", {"table": "pg_catalog.pg_class", "time": "relname"}, "PostgreSQL's own"),
    ("CREATE TABLE thing (id int, at timestamptz)", {}, "no primary key"),
    ("CREATE TABLE thing (id int UNIQUE, at timestamptz)", {}, "no primary key"),
    ("CREATE TABLE thing (id int PRIMARY KEY, at text)", {}, "of type text"),
    ("CREATE TABLE thing (id int PRIMARY KEY)", {}, "has no column at"),
    ("CREATE TABLE thing (id int PRIMARY KEY, at timestamp)", {}, "does not say in which zone"),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz)",
        {"time_zone": "UTC"},
        "has a time zone of its own",
    ),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamp)",
        {"time_zone": "Nowhere/Land"},
        "knows no time zone Nowhere/Land",
    ),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz, prev_hash bytea)",
        {},
        "looks like a chained log",
    ),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz, hash_prev bytea)",
        {},
        "looks like a chained log",
    ),
    (
        'CREATE TABLE thing (id int PRIMARY KEY, at timestamptz, "parentHash" text)',
        {},
        "looks like a chained log",
    ),
    (
        (
            "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz);"
            "CREATE TABLE heir () INHERITS (thing)"
        ),
        {},
        "other tables inherit",
    ),
    (
        (
            "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz);"
            "CREATE RULE keep AS ON DELETE TO thing DO INSTEAD NOTHING"
        ),
        {},
        "a RULE on DELETE",
    ),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz, ip text NOT NULL)",
        {"scrub": ["ip"], "scrub_after": "1h"},
        "cannot be scrubbed: it is NOT NULL",
    ),
    (
        (
            "CREATE TABLE thing (id uuid PRIMARY KEY, at timestamptz);"
            "ALTER TABLE file ADD folder uuid REFERENCES thing ON DELETE CASCADE"
        ),
        {},
        "would change rows of public.file",
    ),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz)",
        {"children": [{"table": "file", "column": "id"}]},
        "public.file, a table of this project's",
    ),
    (
        "CREATE TABLE thing (a int, b int, at timestamptz, PRIMARY KEY (a, b))",
        {"children": [{"table": "child", "column": "a"}]},
        "has 2 columns",
    ),
    (
        "CREATE TABLE thing (id int PRIMARY KEY, at timestamptz)",
        {"where": "id"},
        "must be type boolean",
    ),
]


def test_each_unsafe_rule_is_refused_with_its_reason_and_the_good_one_goes_on(
    sessions: Keeper,
) -> None:
    sessions.session("9 days")
    rules = [rule()]
    for number, (prepare, said, _) in enumerate(UNSAFE):
        place = f"case_{number}"
        sessions.execute(f"CREATE SCHEMA {place}; SET search_path = {place}, public; {prepare}")
        about = {"table": f"{place}.thing", "time": "at", "name": place, **said}
        rules.append(rule(**about))
    outcome = sessions.run(*rules)
    for number, (_, said, why) in enumerate(UNSAFE):
        row = sessions.rows_of[f"case_{number}"]
        assert (row["state"], why in row["reason"]) == ("failed", True), (said, why, row)
    assert f"{len(UNSAFE)} of {len(rules)} rules were not carried out" in str(outcome.error)
    assert (sessions.ids(), outcome.acted) == ([], 1)


def test_a_unique_index_without_null_stands_for_a_primary_key(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE thing (id int NOT NULL UNIQUE, at timestamptz);"
        "INSERT INTO thing VALUES (1, now() - interval '9 days')"
    )
    assert keeper.run(rule(table="thing", time="at")).acted == 1


def test_a_role_that_only_reads_can_look_and_not_carry_out(sessions: Keeper) -> None:
    sessions.session("9 days")
    (name,) = sessions.execute("SELECT current_database()")[0]
    role = f"reader_{name}"
    sessions.execute(
        f'CREATE ROLE "{role}" LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{role}"'
    )
    try:
        database = Database(make_conninfo(sessions.url, user=role))
        with database.connect("test") as connection:
            (one,) = examined([rule()], database, connection, 10)
        assert one.refused is None
        assert one.look is not None
        assert one.look.deletes.rows == 1
        assert one.plan is not None
        assert one.plan.target.lacking == ("DELETE on public.session", "UPDATE on public.session")
    finally:
        sessions.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


def test_a_table_that_was_replaced_during_the_run_is_left_alone(
    sessions: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.jobs.table_retention.conftest import between_steps  # noqa: PLC0415

    sessions.session("9 days")
    sessions.execute("CREATE TABLE precious (LIKE session INCLUDING ALL)")
    sessions.execute("INSERT INTO precious (expires_at) VALUES (now() - interval '9 days')")
    between_steps(
        monkeypatch,
        lambda _: (
            sessions.execute(
                "ALTER TABLE session RENAME TO gone; ALTER TABLE precious RENAME TO session"
            )
            and None
        ),
    )
    outcome = sessions.run()
    assert "another table than when the run began" in str(outcome.error)
    assert sessions.ids() == [1]


def test_a_run_that_names_an_unknown_rule_refuses(sessions: Keeper) -> None:
    outcome = sessions.run(only=("sesions",))
    assert "No rule is called sesions" in str(outcome.error)


def test_what_a_row_holds_does_not_reach_the_record(sessions: Keeper) -> None:
    sessions.execute(
        "INSERT INTO session (expires_at, note) VALUES (now() - interval '9 days', 'a secret')"
    )
    outcome = sessions.run(rule(where="note::int > 3"))
    assert "InvalidTextRepresentation" in str(outcome.error)
    assert "a secret" not in str(outcome)
    assert isinstance(outcome.error, str)


def test_a_published_table_without_replica_identity_is_known_before_and_nothing_is_tried(
    keeper: Keeper,
) -> None:
    keeper.execute(
        "CREATE TABLE log (id int NOT NULL UNIQUE, at timestamptz NOT NULL)"
        " PARTITION BY RANGE (id);"
        "CREATE TABLE log_1 PARTITION OF log FOR VALUES FROM (0) TO (100);"
        "CREATE INDEX ON log (at, id);"
        "INSERT INTO log SELECT n, now() - interval '9 days' FROM generate_series(1, 5) AS n;"
        "CREATE PUBLICATION everything FOR TABLE log"
    )
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
        keeper.execute("DELETE FROM log WHERE id = 1")  # CONTROL: what the job would meet

    one = rule(table="log", time="at")
    dry, live = keeper.run(one, mode="dry"), keeper.run(one)

    said = "public.log_1 is published by everything and has no replica identity"
    assert said in str(dry.detail["warnings"])
    assert "REPLICA IDENTITY" in str(dry.detail["warnings"])
    assert not live.ok
    assert said in str(live.error)
    assert live.detail["classes"] == {}
    keeper.execute("ALTER TABLE log_1 REPLICA IDENTITY FULL")
    assert keeper.run(one).acted == 5


def test_a_partition_that_is_pending_detach_is_named_and_nothing_is_swept(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE log (id int, at timestamptz, PRIMARY KEY (at, id)) PARTITION BY RANGE (at);"
        "CREATE TABLE log_old PARTITION OF log FOR VALUES FROM ('2020-01-01Z') TO ('2021-01-01Z');"
        "CREATE TABLE log_new PARTITION OF log FOR VALUES FROM ('2021-01-01Z') TO ('2099-01-01Z');"
        "INSERT INTO log VALUES (1, '2020-05-05Z'), (2, '2022-05-05Z')"
    )
    with psycopg.connect(keeper.url) as reader, psycopg.connect(keeper.url) as other:
        reader.execute("SELECT FROM log")
        other.autocommit = True
        other.execute("SET statement_timeout = '300ms'")
        with pytest.raises(psycopg.errors.QueryCanceled):
            other.execute("ALTER TABLE log DETACH PARTITION log_old CONCURRENTLY")

    one = rule(table="log", time="at")
    dry, live = keeper.run(one, mode="dry"), keeper.run(one)

    statement = "ALTER TABLE public.log DETACH PARTITION public.log_old FINALIZE"
    assert statement in str(dry.detail["warnings"])
    assert live.ok, live.error
    assert live.acted == 1
    assert live.detail["classes"]["partitions pending detach"] == 1
    assert live.detail["swept"] is False
    keeper.execute(statement)
    assert keeper.run(one).detail["swept"] is True
