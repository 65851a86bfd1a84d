"""Rules take turns: none starves the others, and what is wrong with one is told at the end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.table_retention import due
from filejobs_dagster.jobs.table_retention.due import SMALL_ROWS, Plan, is_served
from filejobs_dagster.jobs.table_retention.resolving import resolve
from filejobs_dagster.jobs.table_retention.retention import examined
from tests.jobs.table_retention.conftest import between_steps, looking, rule

if TYPE_CHECKING:
    import pytest

    from filejobs_dagster.jobs.table_retention.work import Work
    from tests.jobs.table_retention.conftest import Keeper

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)


def tables(keeper: Keeper, *names: str, rows: int = 5) -> None:
    for name in names:
        keeper.execute(
            f"CREATE TABLE {name} (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz,"
            f" note text); CREATE INDEX ON {name} (at, id);"
            f"INSERT INTO {name} (at) SELECT now() - interval '9 days'"
            f" FROM generate_series(1, {rows})"
        )


def of(name: str, **said: object) -> dict[str, object]:
    return {"name": name, "table": name, "time": "at", "delete_after": "1d", **said}


def test_a_rule_that_fails_does_not_stop_the_others_and_fails_the_run(keeper: Keeper) -> None:
    tables(keeper, "one", "two", "three")
    keeper.database = replace(keeper.database, statement_timeout=timedelta(seconds=0.5))
    keeper.execute(
        "CREATE FUNCTION slow(note text) RETURNS boolean LANGUAGE sql"
        " AS 'SELECT pg_sleep(2) IS NOT NULL'"
    )
    outcome = keeper.run(of("one", where="slow(note)"), of("two"), of("three"))
    assert outcome.error is not None
    assert "1 of 3 rules was not carried out" in outcome.error
    assert "one: " in outcome.error
    assert "statement_timeout" in outcome.error
    assert keeper.ids("two") == keeper.ids("three") == []
    assert len(keeper.ids("one")) == 5
    assert [keeper.rows_of[name]["state"] for name in ("one", "two")] == ["failed", "done"]
    assert outcome.detail["swept"] is False
    assert outcome.acted == 10


def test_a_rule_without_end_leaves_the_others_their_share_of_the_limit(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(keeper, "endless", "short")

    def refill(work: Work) -> None:
        if work.rule.name == "endless":
            keeper.execute(
                "INSERT INTO endless (at) SELECT now() - interval '8 days'"
                " FROM generate_series(1, 5)"
            )

    between_steps(monkeypatch, refill)
    outcome = keeper.run(of("endless", batch_size=2), of("short", batch_size=2), limit=30)
    assert outcome.ok, outcome.error
    assert keeper.ids("short") == []
    assert (outcome.acted, outcome.detail["truncated"]) == (30, True)
    assert outcome.detail["stopped_reason"] == "limit"
    assert outcome.detail["oldest_left"] is not None
    assert keeper.rows_of["endless"]["state"] == "unfinished"


def test_a_run_without_time_says_so_and_keeps_what_it_did(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(keeper, "one")
    between_steps(monkeypatch, lambda _: keeper.execute("SELECT pg_sleep(0.4)"))
    outcome = keeper.run(of("one", batch_size=1), max_runtime=timedelta(seconds=1.5))
    assert outcome.ok, outcome.error
    assert outcome.detail["stopped_reason"] == "max_runtime"
    assert 0 < (outcome.acted or 0) < 5


def test_a_run_of_some_rules_is_no_run_of_the_job(keeper: Keeper) -> None:
    tables(keeper, "one", "two")
    outcome = keeper.run(of("one"), of("two"), only=("two",))
    assert outcome.ok, outcome.error
    assert (len(keeper.ids("one")), keeper.ids("two")) == (5, [])
    assert outcome.detail["swept"] is False
    (window,) = keeper.execute("SELECT detail -> 'window' ->> 'covers' FROM job_progress")
    assert window == ("rules: two",)


# Indexes --------------------------------------------------------------------------------------


def large(keeper: Keeper, index: str = "") -> None:
    keeper.execute(
        "CREATE TABLE log (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamptz,"
        ' tenant int DEFAULT 1, state text, "sentAt" timestamptz);'
        "INSERT INTO log (at, state) SELECT now() - n * interval '1 minute', 'sent'"
        f" FROM generate_series(1, {SMALL_ROWS + 1}) AS n; {index}; ANALYZE log"
    )


def test_a_large_table_without_an_index_is_refused_live(keeper: Keeper) -> None:
    large(keeper)
    one = rule(table="log", time="at", where="state = 'sent'")
    for index in (
        "SELECT",
        "CREATE INDEX unfit ON log (tenant, at)",
        "DROP INDEX unfit; CREATE INDEX ON log (at) WHERE state = 'open'",
    ):
        keeper.execute(index)
        outcome = keeper.run(one)
        assert outcome.error is not None, index
        assert "would read the whole table public.log" in outcome.error
        assert 'CREATE INDEX CONCURRENTLY ON "public"."log" ("at", "id")' in outcome.error
    dry = keeper.run(one, mode="dry")
    assert dry.ok, dry.error
    assert any("a live run refuses it" in row["warning"] for row in dry.detail["warnings"])


def test_an_index_that_serves_the_rule_is_enough(keeper: Keeper) -> None:
    large(keeper)
    serving: list[tuple[str, dict[str, str]]] = [
        ("(at)", {}),
        ("(at) WHERE state = 'sent'", {"where": "state = 'sent'"}),
        ("(tenant, at)", {"where": "tenant = 1"}),
        ('("sentAt")', {"time": '"sentAt"'}),
    ]
    for index, said in serving:
        keeper.execute(f"CREATE INDEX serving ON log {index}")
        one = rule(**{"table": "log", "time": "at", "delete_after": "60d", **said})
        outcome = keeper.run(one)
        assert outcome.ok, (index, outcome.error)
        keeper.execute("DROP INDEX serving")


def test_a_child_or_a_referring_table_without_an_index_is_refused(keeper: Keeper) -> None:
    large(keeper, "CREATE INDEX ON log (at)")
    keeper.execute(
        "CREATE TABLE line (id int PRIMARY KEY, log_id int REFERENCES log);"
        f"INSERT INTO line SELECT n, 1 FROM generate_series(1, {SMALL_ROWS + 1}) AS n; ANALYZE line"
    )
    said = {"table": "log", "time": "at"}
    children = [{"table": "line", "column": "log_id"}]
    for one in (rule(**said), rule(**said, children=children)):
        error = str(keeper.run(one).error)
        assert 'CREATE INDEX CONCURRENTLY ON "public"."line" ("log_id")' in error
    keeper.execute("CREATE INDEX ON line (log_id)")
    assert keeper.run(rule(**said, children=children)).ok


def test_rows_without_a_time_are_never_sought_by_reading_a_large_table(keeper: Keeper) -> None:
    """A partial index serves the rule, and a table of any size is not read for a warning."""
    large(keeper, "CREATE INDEX ON log (at) WHERE state = 'sent'")
    one = rule(table="log", time="at", where="state = 'sent'", delete_after="60d")
    keeper.execute(
        "INSERT INTO log (at, state) VALUES (NULL, 'sent'), ('infinity', 'sent'), (NULL, 'open')"
    )
    assert keeper.run(one).ok
    assert keeper.rows_of["sessions"]["without time"] == "2"
    keeper.execute("CREATE INDEX known ON log (at, id) WHERE at IS NOT NULL AND state = 'sent'")
    keeper.execute("DROP INDEX log_at_idx")
    outcome = keeper.run(one)
    assert outcome.ok, outcome.error
    assert keeper.rows_of["sessions"]["without time"] == "-"
    with looking(keeper) as cursor:
        plan = Plan.of(resolve(cursor, one), NOW)
        careless, _ = plan.delete.without_time(10)
        assert not is_served(cursor, plan.target, careless), "the first way reads all of it"


def test_rows_that_are_not_found_in_time_fail_the_rule_and_name_the_index(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables(keeper, "log", rows=0)
    keeper.database = replace(keeper.database, statement_timeout=timedelta(milliseconds=700))
    one = rule(table="log", time="at", where="pg_sleep(0.2)::text <> id::text",
               scrub_after="1h", scrub=["note"])  # fmt: skip
    fill = (
        "INSERT INTO log (at, note) SELECT now() - interval '9 days', 'n' FROM generate_series(1,9)"
    )
    between_steps(monkeypatch, lambda _: keeper.execute(fill))
    error = str(keeper.run(one).error)
    for said in (
        "finding the next rows took longer than database.statement_timeout",
        'ON "public"."log" ("at", "id") WHERE (pg_sleep(0.2)::text <> id::text); ',
        ' AND ("note" IS NOT NULL)',
    ):
        assert said in error, (said, error)
    with keeper.database.connect("test") as connection:
        (seen,) = examined([one], keeper.database, connection, 10)
    assert "finding the next rows took longer" in str(seen.refused)
    assert "CREATE INDEX CONCURRENTLY" in seen.advice


def test_very_many_rows_of_one_time_need_an_index_that_goes_on_with_the_key(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each batch sorts all of them, and the run never ends."""
    monkeypatch.setattr(due, "MANY_OF_ONE_TIME", 5_000)
    large(keeper, "UPDATE log SET at = '2020-01-01'; CREATE INDEX ON log (at)")
    one = rule(table="log", time="at", batch_size=10_000)
    error = str(keeper.run(one).error)
    assert "each batch would read all rows of one at (about 10,001 of public.log)" in error
    assert 'CREATE INDEX CONCURRENTLY ON "public"."log" ("at", "id")' in error
    keeper.execute("CREATE INDEX ON log (at, id)")
    outcome = keeper.run(one)
    assert (outcome.error, outcome.acted) == (None, SMALL_ROWS + 1)
