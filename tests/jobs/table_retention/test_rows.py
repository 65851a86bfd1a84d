"""Which rows a rule takes, in which batches, and what is written down."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.table_retention import work
from filejobs_dagster.ledger.progress import GivenUp
from tests.jobs.table_retention.conftest import between_steps, rule

if TYPE_CHECKING:
    from filejobs_dagster.jobs.table_retention.work import Work
    from tests.jobs.table_retention.conftest import Keeper


def test_only_rows_that_are_past_go_and_everything_is_written_down(sessions: Keeper) -> None:
    sessions.session("2 days", "23 hours", None, "25 hours")
    sessions.execute("INSERT INTO session (expires_at) VALUES ('infinity'), ('-infinity')")
    outcome = sessions.run()
    assert outcome.ok, outcome.error
    assert sessions.ids() == [2, 3, 5, 6]
    assert (outcome.scanned, outcome.acted) == (2, 2)
    assert outcome.detail["classes"] == {"deleted": 2, "no usable time": 1}
    assert outcome.detail["swept"] is False, "minus infinity is past, and nobody takes it"
    assert outcome.detail["oldest_left"] is None
    row = sessions.rows_of["sessions"]
    assert (row["state"], row["deleted"], row["left"]) == ("done", 2, "0 due")
    assert row["without time"] == "3"
    (event,) = sessions.events()
    assert event["kind"] == "table_retention.deleted"
    assert (event["table"], event["rows"], event["rule"]) == ("public.session", 2, "sessions")
    assert (event["from_key"], event["to_key"]) == (["1"], ["4"])


def test_a_dry_run_counts_and_changes_nothing(sessions: Keeper) -> None:
    sessions.session(*["2 days"] * 5, "1 hour")
    outcome = sessions.run(mode="dry")
    assert outcome.ok, outcome.error
    assert len(sessions.ids()) == 6
    assert outcome.detail["would_collect"] == 5
    assert (outcome.scanned, outcome.acted) == (5, 0)
    assert sessions.events() == []
    assert outcome.detail["swept"] is False


def test_null_keeps_a_row_in_the_condition_and_in_the_exemption(sessions: Keeper) -> None:
    sessions.execute("ALTER TABLE session ADD state text, ADD held boolean")
    sessions.execute(
        "INSERT INTO session (expires_at, state, held) SELECT now() - interval '9 days', s, h"
        " FROM (VALUES ('over', false), ('over', true), ('over', NULL), (NULL, false),"
        " ('open', false)) AS v (s, h)"
    )
    outcome = sessions.run(
        rule(where="state like '%ve%' and state <> '{$1}'", **{"except": "held"})
    )
    assert outcome.ok, outcome.error
    assert sessions.ids() == [2, 3, 4, 5]


def test_a_careless_list_of_what_lives_takes_everything_or_nothing_at_a_null(
    sessions: Keeper,
) -> None:
    """CONTROL: `<> NULL` takes nothing, and `<> ANY` takes what is on the list."""
    sessions.execute("ALTER TABLE session ADD owner text")
    insert = (
        "INSERT INTO session (expires_at, owner) SELECT now() - interval '9 days', o"
        " FROM unnest(ARRAY['a', 'b', 'c', NULL]) AS o"
    )
    sessions.execute(insert)
    sessions.execute("DELETE FROM session WHERE owner NOT IN ('a', 'b', NULL)")
    assert len(sessions.ids()) == 4
    sessions.execute("DELETE FROM session WHERE owner <> ANY(ARRAY['a', 'b'])")
    assert sessions.value("SELECT count(*) FROM session WHERE owner IN ('a', 'b')") == 0
    # The rule takes c alone: not the living, and not the row of which nobody knows.
    sessions.execute("TRUNCATE session")
    sessions.execute(insert)
    outcome = sessions.run(rule(where="owner not in ('a', 'b')"))
    assert outcome.acted == 1
    assert sessions.execute("SELECT owner FROM session ORDER BY owner") == [("a",), ("b",), (None,)]


def test_ten_thousand_rows_go_in_batches_while_the_application_works(
    sessions: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.execute(
        "INSERT INTO session (expires_at)"
        " SELECT now() - interval '9 days' + n * interval '1 second'"
        " FROM generate_series(1, 10050) AS n"
    )
    acts: list[int] = []
    with psycopg.connect(sessions.url, autocommit=True) as application:
        application.execute("SET lock_timeout = '200ms'")

        def act(_: Work) -> None:
            # A new session, and a visit to the youngest one that is due: neither waits.
            application.execute("INSERT INTO session (expires_at) VALUES (now() + '1 day')")
            application.execute("UPDATE session SET note = 'seen' WHERE id = 10050")
            acts.append(1)

        between_steps(monkeypatch, act)
        outcome = sessions.run(rule(batch_size=1000))
    assert outcome.ok, outcome.error
    assert outcome.acted == 10_050
    assert [event["rows"] for event in sessions.events()] == [*[1000] * 10, 50]
    assert sessions.value("SELECT count(*) FROM session") == len(acts) == 11


def test_one_unbounded_delete_keeps_the_application_waiting(sessions: Keeper) -> None:
    """CONTROL: until it ends, and then the row is gone."""
    sessions.session(*["9 days"] * 50)
    with psycopg.connect(sessions.url) as careless, psycopg.connect(sessions.url) as application:
        careless.execute("DELETE FROM session WHERE expires_at < now() - interval '1 day'")
        application.execute("SET lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            application.execute("UPDATE session SET expires_at = now() WHERE id = 50")


def test_a_row_that_somebody_refreshes_meanwhile_stays(sessions: Keeper) -> None:
    sessions.session("9 days", "8 days")
    with psycopg.connect(sessions.url) as application:
        application.execute("UPDATE session SET expires_at = now() + '1 day' WHERE id = 1")
        outcome = sessions.run()
        assert outcome.acted == 1
        assert sessions.rows_of["sessions"]["left"] == "1 due"
        application.commit()
    assert sessions.ids() == [1]
    assert sessions.run().acted == 0


def test_selecting_first_and_deleting_by_id_loses_a_refreshed_row(sessions: Keeper) -> None:
    """CONTROL: the same interleaving with two statements that do not know of each other."""
    sessions.session("9 days")
    ids = sessions.execute("SELECT id FROM session WHERE expires_at < now() - interval '1 day'")
    sessions.execute("UPDATE session SET expires_at = now() + '1 day' WHERE id = 1")
    sessions.execute("DELETE FROM session WHERE id = ANY(%s)", ([row[0] for row in ids],))
    assert sessions.ids() == []


def test_rows_of_a_composite_key_go_in_batches(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE reading (device text, at timestamptz, id int GENERATED ALWAYS AS IDENTITY,"
        ' "Tag" date, PRIMARY KEY ("Tag", device, at));'
        "CREATE INDEX ON reading (at);"
        'INSERT INTO reading (device, at, "Tag")'
        " SELECT d, now() - interval '9 days' - n * interval '1 hour', date '2020-01-01'"
        " FROM unnest(ARRAY['it''s', '{a,\"b\\c\"}', '']) AS d,"
        " generate_series(0, 9) AS n"
    )
    outcome = keeper.run(rule(table="reading", time="at", batch_size=7))
    assert outcome.ok, outcome.error
    assert (outcome.acted, keeper.ids("reading")) == (30, [])
    # A key that is a text may be somebody's name: it is not written down.
    assert all("from_key" not in event for event in keeper.events())


def test_a_row_that_postgresql_refuses_is_skipped_and_counted(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE parent (id int PRIMARY KEY, at timestamptz"
        " DEFAULT now() - interval '9 days');"
        "CREATE INDEX ON parent (at, id);"
        "CREATE TABLE child (id int REFERENCES parent);"
        "INSERT INTO parent SELECT n FROM generate_series(1, 40) AS n;"
        "INSERT INTO child VALUES (7), (23)"
    )
    outcome = keeper.run(rule(table="parent", time="at", batch_size=16))
    assert outcome.ok, outcome.error
    assert keeper.ids("parent") == [7, 23]
    assert outcome.detail["classes"] == {"deleted": 38, "refused by PostgreSQL": 2}
    assert outcome.detail["swept"] is False
    assert outcome.detail["oldest_left"] is not None
    assert "foreign key" in keeper.rows_of["sessions"]["reason"]
    # When nothing else is left, the word stays the same.
    assert keeper.run(rule(table="parent", time="at")).ok


def test_rows_that_a_foreign_key_keeps_do_not_hide_the_younger_ones(keeper: Keeper) -> None:
    """What is kept on purpose is the oldest before long, and stands before everything else."""
    keeper.execute(
        "CREATE TABLE parent (id int PRIMARY KEY, at timestamptz);"
        "CREATE INDEX ON parent (at, id);"
        "CREATE TABLE child (id int PRIMARY KEY REFERENCES parent);"
        "INSERT INTO parent SELECT n, now() - interval '1 year' + n * interval '1 minute'"
        " FROM generate_series(1, 160) AS n;"
        "INSERT INTO child SELECT n FROM generate_series(1, 150) AS n"
    )
    outcome = keeper.run(rule(table="parent", time="at"))
    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 10, "refused by PostgreSQL": 150}
    assert keeper.ids("parent") == list(range(1, 151))


def test_a_rule_ends_after_many_refused_rows(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "MOST_REFUSED_IN_A_ROW", 5)
    keeper.execute(
        "CREATE TABLE parent (id int PRIMARY KEY, at timestamptz"
        " DEFAULT now() - interval '9 days');"
        "CREATE INDEX ON parent (at, id);"
        "CREATE TABLE child (id int REFERENCES parent);"
        "INSERT INTO parent SELECT n FROM generate_series(1, 400) AS n;"
        "INSERT INTO child SELECT n FROM generate_series(1, 400) AS n"
    )
    outcome = keeper.run(rule(table="parent", time="at"))
    assert "refused 5 rows" in str(outcome.error)
    assert outcome.scanned == 5


def test_children_go_first_and_in_the_same_transaction(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz);"
        "CREATE INDEX ON note (at, id);"
        "CREATE TABLE delivery (id int PRIMARY KEY, note_id bigint REFERENCES note);"
        "INSERT INTO note SELECT n, now() - n * interval '1 day' FROM generate_series(1, 9) AS n;"
        "INSERT INTO delivery SELECT n, 1 + n % 9 FROM generate_series(1, 27) AS n"
    )
    children = [{"table": "delivery", "column": "note_id"}]
    one = rule(table="note", time="at", delete_after="3d", batch_size=2, children=children)
    outcome = keeper.run(one)
    assert outcome.ok, outcome.error
    assert keeper.ids("note") == [1, 2]
    assert keeper.value("SELECT count(*) FROM delivery") == 6
    assert outcome.detail["classes"] == {"deleted": 7, "children deleted": 21}
    assert keeper.events()[0]["children"] == {"public.delivery": 6}


def test_what_goes_by_a_cascade_is_told(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE note (id bigint PRIMARY KEY, at timestamptz);"
        "CREATE TABLE delivery (note_id bigint REFERENCES note ON DELETE CASCADE)"
    )
    outcome = keeper.run(rule(table="note", time="at"), mode="dry")
    (told,) = outcome.detail["warnings"]
    assert "public.delivery" in told["warning"]
    assert "cascades" in told["warning"]


def test_a_row_past_both_ages_is_deleted_and_a_younger_one_is_scrubbed(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE visit (id int PRIMARY KEY, at timestamptz, ip text, agent text, page text);"
        "CREATE INDEX ON visit (at, id);"
        "INSERT INTO visit SELECT n, now() - n * interval '10 days', 'ip', 'agent', 'page'"
        " FROM generate_series(1, 12) AS n"
    )
    one = rule(
        table="visit", time="at", delete_after="90d", scrub_after="30d", scrub=["ip", "agent"],
        batch_size=2,
    )  # fmt: skip
    dry = keeper.run(one, mode="dry")
    assert dry.detail["classes"] == {"would delete": 4, "would scrub": 6}
    outcome = keeper.run(one)
    assert outcome.ok, outcome.error
    rows = keeper.execute("SELECT id, ip, agent, page FROM visit ORDER BY id")
    assert rows == [
        *((n, "ip", "agent", "page") for n in (1, 2)),
        *((n, None, None, "page") for n in range(3, 9)),
    ]
    assert outcome.detail["classes"] == {"deleted": 4, "scrubbed": 6}
    columns = [event.get("columns") for event in keeper.events()]
    assert columns == [None, None, *[["ip", "agent"]] * 3]
    # Nothing is scrubbed twice.
    assert keeper.run(one).acted == 0


def test_a_row_past_both_ages_that_cannot_be_deleted_is_scrubbed(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE visit (id int PRIMARY KEY, at timestamptz, ip text);"
        "CREATE INDEX ON visit (at, id);"
        "CREATE TABLE case_file (visit int REFERENCES visit);"
        "INSERT INTO visit VALUES (1, now() - interval '99 days', 'ip');"
        "INSERT INTO case_file VALUES (1)"
    )
    one = rule(table="visit", time="at", delete_after="90d", scrub_after="30d", scrub=["ip"])
    outcome = keeper.run(one)
    assert outcome.detail["classes"] == {"scrubbed": 1, "refused by PostgreSQL": 1}
    assert keeper.execute("SELECT id, ip FROM visit") == [(1, None)]


def test_scrubbing_that_makes_a_row_young_again_is_refused(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE visit (id int PRIMARY KEY, updated_at timestamptz, ip text);"
        "INSERT INTO visit VALUES (1, now() - interval '40 days', 'ip');"
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN NEW.updated_at = now(); RETURN NEW; END';"
        "CREATE TRIGGER touch BEFORE UPDATE ON visit FOR EACH ROW EXECUTE FUNCTION touch()"
    )
    one = rule(
        table="visit", time="updated_at", delete_after="90d", scrub_after="30d", scrub=["ip"]
    )
    assert "its age would begin anew" in str(keeper.run(one).error)
    assert keeper.value("SELECT updated_at < now() - interval '39 days' FROM visit")


def test_scrubbing_after_which_the_rule_would_not_know_the_row_again_is_refused(
    keeper: Keeper,
) -> None:
    keeper.execute(
        "CREATE TABLE visit (id int PRIMARY KEY, at timestamptz, mail text,"
        " known boolean GENERATED ALWAYS AS (mail IS NOT NULL) STORED);"
        "INSERT INTO visit VALUES (1, now() - interval '40 days', 'a@example.org')"
    )
    one = rule(
        table="visit", time="at", delete_after="90d", scrub_after="30d", scrub=["mail"],
        where="known",
    )  # fmt: skip
    assert "it would never be deleted" in str(keeper.run(one).error)
    assert keeper.value("SELECT mail FROM visit") == "a@example.org"


def test_a_run_that_was_given_up_takes_nothing_more(
    sessions: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.session(*["9 days"] * 6)
    steps: list[Any] = []

    def give_up_after_the_first(at_work: Work) -> None:
        steps.append(at_work)
        if len(steps) == 2:
            sessions.execute("UPDATE job_progress SET closed_at = now()")

    between_steps(monkeypatch, give_up_after_the_first)
    with pytest.raises(GivenUp):
        sessions.run(rule(batch_size=2))
    assert len(sessions.ids()) == 4
    assert sum(event["rows"] for event in sessions.events()) == 2


def test_a_table_over_its_size_is_told_although_nothing_is_due(sessions: Keeper) -> None:
    sessions.execute(
        "INSERT INTO session (expires_at, note) SELECT now() - interval '19 days', 'note'"
        " FROM generate_series(1, 5000)"
    )
    outcome = sessions.run(rule(delete_after="365d", warn_over_bytes=100_000))
    assert (outcome.ok, outcome.acted) == (True, 0)
    (told,) = outcome.detail["warnings"]
    assert "0 rows are due, and the table is over its size" in told["warning"]


def test_rows_that_a_trigger_leaves_alone_do_not_make_a_run_endless(sessions: Keeper) -> None:
    sessions.session(*["9 days"] * 5)
    sessions.execute(
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';"
        "CREATE TRIGGER keep BEFORE DELETE ON session FOR EACH ROW EXECUTE FUNCTION keep()"
    )
    outcome = sessions.run(rule(batch_size=2))
    assert "none could be taken: a trigger left them alone" in str(outcome.error)
    assert outcome.detail["classes"] == {"left by a trigger": 5}
    # Its children would be gone while it is there: nothing goes.
    sessions.execute(
        "CREATE TABLE line (session_id bigint); INSERT INTO line SELECT id FROM session"
    )
    children = [{"table": "line", "column": "session_id"}]
    assert "whose children would be gone" in str(sessions.run(rule(children=children)).error)
    assert sessions.value("SELECT count(*) FROM line") == 5


@pytest.mark.thorough
def test_a_batch_that_takes_too_long_is_halved(sessions: Keeper) -> None:
    sessions.database = replace(sessions.database, statement_timeout=timedelta(seconds=1))
    sessions.session(*["9 days"] * 16)
    sessions.execute(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql"
        " AS 'BEGIN PERFORM pg_sleep(0.1); RETURN OLD; END';"
        "CREATE TRIGGER slow BEFORE DELETE ON session FOR EACH ROW EXECUTE FUNCTION slow()"
    )
    outcome = sessions.run(rule(batch_size=16))
    assert outcome.ok, outcome.error
    assert (sessions.ids(), outcome.acted) == ([], 16)


@pytest.mark.thorough
def test_no_session_that_its_user_refreshed_is_ever_lost(sessions: Keeper) -> None:
    """Two real backends on the same rows: what a visit has refreshed is there afterwards."""
    sessions.execute(
        "INSERT INTO session (expires_at) SELECT now() - interval '9 days'"
        " FROM generate_series(1, 5000)"
    )
    over, refreshed = threading.Event(), set()

    def visit() -> None:
        chance = random.Random(7)  # noqa: S311 (no cryptography)
        with psycopg.connect(sessions.url, autocommit=True) as application:
            while not over.is_set():
                found = application.execute(
                    "UPDATE session SET expires_at = now() + interval '1 day' WHERE id = %s"
                    " RETURNING id",
                    (chance.randint(1, 5000),),
                ).fetchone()
                if found is not None:
                    refreshed.add(found[0])

    visitors = [threading.Thread(target=visit) for _ in range(3)]
    for visitor in visitors:
        visitor.start()
    try:
        outcome = sessions.run(rule(batch_size=20))
    finally:
        over.set()
        for visitor in visitors:
            visitor.join()
    assert outcome.ok, outcome.error
    assert len(refreshed) > 10
    assert refreshed <= set(sessions.ids())
    assert (outcome.acted or 0) + len(sessions.ids()) == 5000


def test_rows_that_a_pass_over_a_bucket_had_counted_are_told_from_newer_ones(
    sessions: Keeper,
) -> None:
    sessions.session("5 days", "4 days", "30 hours")
    sessions.execute(
        """
        INSERT INTO orphan_pass (bucket, run_id, mode, fingerprint, objects, bytes, keys_by_source,
                                 orphans, orphan_bytes)
        VALUES ('b', 'pass', 'dry', 'f', 0, 0, '{}', 0, 0);
        INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder, closed_at,
                                  detail)
        SELECT run_id, 'test', 'storage_orphans', 'dry', 'cli', 'x', now(),
               jsonb_build_object('references_read_at', now() - ago::interval)
          FROM (VALUES ('pass', '2 days'), ('long ago', '1 hour')) AS known (run_id, ago)
        """
    )
    outcome = sessions.run(rule(batch_size=2))
    assert outcome.ok, outcome.error
    assert outcome.acted == 3
    assert outcome.detail["rows_that_passes_had_counted"] == {"pass": {"public.session": 2}}
