"""Rows that name another row, which is not there any more."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from filejobs_dagster.jobs.table_retention.statements import Statements
from filejobs_dagster.postgres.connect import Database
from tests.jobs.table_retention.conftest import between_steps, rule
from tests.postgres.backends import wait_until

if TYPE_CHECKING:
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from filejobs_dagster.jobs.table_retention.work import Work
    from filejobs_dagster.ledger.outcome import Outcome
    from tests.jobs.table_retention.conftest import Keeper

SCHEMA = """
CREATE TABLE message (id bigint PRIMARY KEY, record_id bigint, deleted_at timestamptz);
CREATE TABLE letter (id bigint PRIMARY KEY);
CREATE TABLE pinned (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    record_type text NOT NULL,
    record_id   bigint,
    created_at  timestamp NOT NULL DEFAULT (now() AT TIME ZONE 'UTC' - interval '9 days')
);
CREATE INDEX ON pinned (created_at, id);
INSERT INTO message SELECT n, -n FROM generate_series(1, 10) AS n;
INSERT INTO letter VALUES (77);
INSERT INTO pinned (record_type, record_id)
SELECT 'Message', n FROM generate_series(1, 10) AS n;
"""
WAITS = """
SELECT FROM pg_locks
 WHERE NOT granted AND relation = 'message'::regclass AND mode = 'ShareLock'
"""
DEAD = "INSERT INTO pinned (record_type, record_id) VALUES ('Message', 99), ('Message', 98)"


def of_messages(**said: Any) -> RetentionRuleSettings:
    dangling = said.pop("dangling", {})
    return rule(
        **{
            "table": "pinned",
            "time": "created_at",
            "time_zone": "UTC",
            "where": "record_type = 'Message'",
            "dangling": {"column": "record_id", "nowhere_in": [{"table": "message"}], **dangling},
            **said,
        }
    )


@pytest.fixture
def attachments(keeper: Keeper) -> Keeper:
    keeper.execute(SCHEMA)
    keeper.execute(DEAD)
    return keeper


def test_what_names_a_row_that_is_gone_goes_and_nothing_else(attachments: Keeper) -> None:
    # A deleted row that is there is there; NULL names nothing; 77 is a letter; 97 is young.
    attachments.execute("UPDATE message SET deleted_at = now() WHERE id = 3")
    attachments.execute(
        "INSERT INTO pinned (record_type, record_id) VALUES ('Message', NULL), ('Letter', 77);"
        "INSERT INTO pinned (record_type, record_id, created_at)"
        " VALUES ('Message', 97, now() AT TIME ZONE 'UTC')"
    )
    kept = [*range(1, 11), 13, 14, 15]
    dry = attachments.run(of_messages(), mode="dry")
    assert (dry.detail["would_collect"], attachments.ids("pinned")) == (2, list(range(1, 16)))

    outcome = attachments.run(of_messages(batch_size=1))
    assert outcome.ok, outcome.error
    assert (outcome.acted, attachments.ids("pinned")) == (2, kept)
    assert attachments.rows_of["sessions"]["left"] == "0 due"

    # CONTROL: the same without a word on what kind of row is named takes what a letter has.
    attachments.execute(
        "DELETE FROM pinned WHERE created_at < now() - interval '1 day'"
        " AND record_id NOT IN (SELECT id FROM message)"
    )
    assert 14 not in attachments.ids("pinned")


def test_a_row_that_may_be_in_an_archive_dangles_only_when_it_is_in_neither(
    attachments: Keeper,
) -> None:
    attachments.execute("CREATE TABLE old_message (id bigint PRIMARY KEY)")
    attachments.execute("INSERT INTO old_message VALUES (99)")
    both = [{"table": "message"}, {"table": "old_message"}]
    outcome = attachments.run(of_messages(dangling={"nowhere_in": both}))
    assert (outcome.ok, outcome.acted) == (True, 1)
    assert attachments.value("SELECT count(*) FROM pinned WHERE record_id = 99") == 1


def brought_back_while_it_works(keeper: Keeper) -> Outcome:
    """Let an application bring the message 99 back, and commit when a run waits or is over."""
    outcomes: list[Outcome] = []
    with psycopg.connect(keeper.url) as client, psycopg.connect(keeper.url) as watcher:
        watcher.autocommit = True
        client.execute("INSERT INTO message VALUES (99)")
        run = threading.Thread(target=lambda: outcomes.append(keeper.run(of_messages())))
        run.start()
        wait_until(
            lambda: not run.is_alive() or bool(watcher.execute(WAITS).fetchall()),
            "the run waits, or is over",
        )
        client.commit()
        run.join(timeout=30)
    return outcomes[0]


def test_a_row_that_is_brought_back_and_not_committed_yet_keeps_what_names_it(
    attachments: Keeper,
) -> None:
    outcome = brought_back_while_it_works(attachments)
    assert (outcome.ok, outcome.acted) == (True, 1)
    assert attachments.value("SELECT count(*) FROM pinned WHERE record_id = 99") == 1


def test_control_without_the_lock_the_row_comes_back_without_its_attachment(
    attachments: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Statements, "keep_out", lambda _: iter(()))
    outcome = brought_back_while_it_works(attachments)
    assert (outcome.ok, outcome.acted) == (True, 2)
    assert attachments.value("SELECT count(*) FROM message WHERE id = 99") == 1
    assert attachments.value("SELECT count(*) FROM pinned WHERE record_id = 99") == 0


def test_a_table_that_others_write_to_all_the_time_is_not_waited_for_and_the_reason_is_told(
    attachments: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filejobs_dagster.jobs.table_retention.work.PATIENCE", "10ms")
    with psycopg.connect(attachments.url) as client:
        client.execute("INSERT INTO message VALUES (1000)")
        outcome = attachments.run(of_messages())
    assert outcome.error is not None
    assert "wrote for longer to a table of `nowhere_in`" in outcome.error
    assert len(attachments.ids("pinned")) == 12


def test_a_table_that_is_emptied_for_a_load_between_two_batches_ends_the_rule(
    attachments: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[Work] = []

    def empty(work: Work) -> None:
        steps.append(work)
        if len(steps) == 2:
            attachments.execute("TRUNCATE message")

    between_steps(monkeypatch, empty)
    outcome = attachments.run(of_messages(batch_size=1))
    assert outcome.error is not None
    assert "11 of the newest 11 rows" in outcome.error
    assert len(attachments.ids("pinned")) == 11

    # CONTROL: who says that all may dangle loses what the messages have, which come back.
    steps.clear()
    everything = of_messages(dangling={"at_most": 1.0})
    assert attachments.run(everything).acted == 11


REFUSED = {
    "another kind of id": (
        "CREATE TABLE other (id text PRIMARY KEY)",
        {"dangling": {"nowhere_in": [{"table": "other"}]}},
        "7 and 007 would be two ids",
    ),
    "a scope that hides rows": (
        "CREATE VIEW other AS SELECT * FROM message WHERE deleted_at IS NULL",
        {"dangling": {"nowhere_in": [{"table": "other"}]}},
        "is a view",
    ),
    "nothing says what is named": (
        "SELECT",
        {"where": None},
        "`where` does not look at it",
    ),
    "what is named is said and not fixed": (
        "INSERT INTO pinned (record_type, record_id) VALUES ('Letter', 77)",
        {"where": "record_type is not null"},
        "have 2 values of record_type",
    ),
    "a column with other collation": (
        (
            "ALTER TABLE pinned ADD slug text COLLATE \"C\" DEFAULT 'Abc';"
            'CREATE TABLE other (id text COLLATE "POSIX" PRIMARY KEY);'
            "INSERT INTO other VALUES ('Abc')"
        ),
        {"dangling": {"column": "slug", "nowhere_in": [{"table": "other"}]}},
        "collation",
    ),
    "another table than is meant": (
        "CREATE TABLE other (id bigint PRIMARY KEY)",
        {"dangling": {"nowhere_in": [{"table": "other"}]}},
        "12 of the newest 12 rows",
    ),
}


@pytest.mark.parametrize(("make", "said", "words"), REFUSED.values(), ids=list(REFUSED))
def test_a_rule_that_would_take_what_lives_is_refused_dry_and_live_with_its_reason(
    attachments: Keeper, make: str, said: dict[str, Any], words: str
) -> None:
    attachments.execute(make)
    before = attachments.ids("pinned")
    for mode in ("dry", "live"):
        outcome = attachments.run(of_messages(**said), mode=mode)
        assert outcome.error is not None
        assert words in outcome.error
    assert attachments.ids("pinned") == before


def test_rows_that_a_policy_hides_are_an_error_and_do_not_make_others_dangle(
    attachments: Keeper,
) -> None:
    role = f"owner_{attachments.value('SELECT current_database()')}"
    attachments.execute(
        f'CREATE ROLE "{role}" LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO "{role}";'
        f'GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "{role}";'
        "CREATE POLICY mine ON message USING (id < 8);"
        "ALTER TABLE message ENABLE ROW LEVEL SECURITY"
    )
    try:
        url = make_conninfo(attachments.url, user=role)
        with psycopg.connect(url) as careless:
            # CONTROL: what the role sees by itself says that three more dangle.
            found = careless.execute(
                "SELECT count(*) FROM pinned WHERE record_id NOT IN (SELECT id FROM message)"
            )
            assert found.fetchone() == (5,)
        attachments.database = Database(url)
        for mode in ("dry", "live"):
            outcome = attachments.run(of_messages(), mode=mode)
            assert outcome.error is not None
            assert "row-level security" in outcome.error
        assert len(attachments.ids("pinned")) == 12
    finally:
        attachments.execute(f'DROP OWNED BY "{role}"; DROP ROLE "{role}"')


def test_rows_that_name_a_row_of_their_own_table(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE remark (id int PRIMARY KEY, at timestamptz, parent_id int);"
        "CREATE INDEX ON remark (at);"
        "INSERT INTO remark SELECT n, now() - interval '9 days', NULL FROM generate_series(1, 5) n;"
        "INSERT INTO remark VALUES (6, now() - interval '9 days', 1),"
        " (7, now() - interval '9 days', 99), (8, now() - interval '9 days', 6)"
    )
    own = {"column": "parent_id", "nowhere_in": [{"table": "remark"}]}
    outcome = keeper.run(rule(table="remark", time="at", dangling=own))
    assert (outcome.ok, outcome.acted) == (True, 1)
    assert keeper.ids("remark") == [1, 2, 3, 4, 5, 6, 8]
