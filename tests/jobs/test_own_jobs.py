"""Jobs of the operator's own: each kind from the settings to its record, in Dagster."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from typer.testing import CliRunner

from filejobs_dagster.alerts.conditions import look
from filejobs_dagster.alerts.rounds import limits_of
from filejobs_dagster.cli.main import app
from filejobs_dagster.doctor.examination import examine
from filejobs_dagster.doctor.rights import asked_of
from filejobs_dagster.door.databases import Databases
from filejobs_dagster.expectations import expectations
from filejobs_dagster.jobs.collecting.detail import SourceRefused
from filejobs_dagster.jobs.own import foreign
from filejobs_dagster.jobs.own.settings import OwnRuleSettings
from filejobs_dagster.jobs.upload_reservations.opening import opened_tables
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.ledger.runs import newest_runs
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.ledger.swept_days import swept_days
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.postgres.locks import Lease, exclusive_lock
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings.tables import RowRuleSettings
from filejobs_dagster.trigger.reporting import Report, Reporter
from filejobs_dagster.trigger.tokens import TokenHolder
from tests.instances import dagster_instance
from tests.orchestration import conftest
from tests.orchestration.conftest import Code, failure_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import Installation

DRAFTS = """
CREATE TABLE draft (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state text NOT NULL DEFAULT 'open',
    abandoned_at timestamptz
);
CREATE INDEX ON draft (abandoned_at, id);
"""

RULE = {"table": "draft", "due": "abandoned_at", "where": "state = 'open'"}


installation = conftest.installation


class OnceLoaded(Code):
    """A code location that is loaded anew only when what its settings say has changed."""

    _loaded: tuple[str, dg.Definitions] | None = None

    @property
    def definitions(self) -> dg.Definitions:
        said = json.dumps([self.installation.document, self.installation.environment])
        if self._loaded is None or self._loaded[0] != said:
            self._loaded = (said, super().definitions)
        return self._loaded[1]


@pytest.fixture
def code(installation: Installation) -> Iterator[Code]:
    with dagster_instance() as instance:
        yield OnceLoaded(installation, instance)


class World:
    """An installation with own jobs, and its Dagster."""

    def __init__(self, code: Code) -> None:
        self.code = code
        self.installation = code.installation
        self.installation.document["jobs"] = {}

    def declare(self, name: str, **said: Any) -> None:
        said = {"by_hand": True, "mode": "live", "stale_after": "1h"} | said
        self.installation.document.setdefault("own_jobs", {})[name] = {
            key: value for key, value in said.items() if value is not None
        }

    def run(self, name: str, **config: Any) -> Any:
        result = self.code.run(name, **({"dry_run": False} | config))
        self.mirror()
        return result

    def mirror(self, **more: Any) -> None:
        done = reconcile(self.code.instance, self.installation.settings(), **more)
        assert not done.failed, done.failed

    def record(self) -> dict[str, Any]:
        return self.installation.records()[-1]

    def standing(self, name: str) -> Standing:
        settings = self.installation.settings()
        with (
            self.installation.database.connect("test") as connection,
            self.installation.database.transaction(connection, read_only=True) as cursor,
        ):
            found = standings(cursor, settings.installation, expectations(settings))
        return next(one for one in found if one.job == name)

    def drafts(self, *ages: str) -> None:
        for age in ages:
            self.installation.execute(
                "INSERT INTO draft (abandoned_at) VALUES (now() - %s::interval)", (age,)
            )

    def count(self, where: str = "true") -> int:
        return int(self.installation.value(f"SELECT count(*) FROM draft WHERE {where}"))

    def module(self, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
        (self.installation.folder / f"{name}.py").write_text(textwrap.dedent(text))
        monkeypatch.syspath_prepend(str(self.installation.folder))
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def world(code: Code) -> World:
    return World(code)


@pytest.fixture
def drafts(world: World) -> World:
    world.installation.execute(DRAFTS)
    return world


# A rule ---------------------------------------------------------------------------------------


def test_a_rule_deletes_what_is_due_and_stands_in_the_record(drafts: World) -> None:
    drafts.declare("own_drafts", rule=RULE, older_than="1d")
    drafts.drafts("2 days", "25 hours", "1 hour")

    assert drafts.standing("own_drafts").word == "never run"
    dry = drafts.code.run("own_drafts")
    assert dry.success, failure_of(dry)
    assert drafts.count() == 3
    live = drafts.run("own_drafts")
    assert live.success, failure_of(live)

    assert drafts.count() == 1
    record = drafts.record()
    assert (record["job"], record["mode"], record["outcome"]) == ("own_drafts", "live", "ok")
    assert (record["scanned"], record["acted"], record["detail"]["swept"]) == (2, 2, True)
    assert drafts.standing("own_drafts").word == "ok"
    [event] = [
        row[0]
        for row in drafts.installation.execute("SELECT body::jsonb FROM audit_event")
        if row[0]["kind"] == "rows.deleted"
    ]
    assert (event["job"], event["rows"]) == ("own_drafts", 2)


def test_a_rule_with_set_changes_rows_in_batches_up_to_its_limit(drafts: World) -> None:
    drafts.declare("own_drafts", rule=RULE | {"set": {"state": "left"}}, limit=3, batch_size=2)
    drafts.drafts("4h", "3h", "2h", "1h")

    first = drafts.run("own_drafts")
    assert first.success, failure_of(first)

    assert (drafts.count("state = 'left'"), drafts.count()) == (3, 4)
    assert drafts.record()["detail"]["stopped_reason"] == "limit"
    assert drafts.run("own_drafts").success
    assert drafts.count("state = 'left'") == 4
    assert drafts.record()["detail"]["swept"]


def test_a_day_of_a_backfill_takes_that_day_only(drafts: World) -> None:
    drafts.declare("own_drafts", rule=RULE)
    drafts.drafts("3 days", "2 days", "1 day")
    day = (datetime.now(timezone.utc) - timedelta(days=2)).date().isoformat()

    result = drafts.code.run("own_drafts", dry_run=False, partition_key=day)
    assert result.success, failure_of(result)
    drafts.mirror()

    assert drafts.count() == 2
    assert drafts.record()["detail"]["window"]["covers"] == day
    assert drafts.standing("own_drafts").word != "ok"


def test_a_rule_over_the_projects_own_tables_is_refused(drafts: World) -> None:
    drafts.declare(
        "own_files",
        rule={"table": "file", "due": "upload_expires_at", "where": "state = 'pending'"},
    )
    drafts.installation.reserve("files/a")

    result = drafts.run("own_files")

    assert not result.success
    assert drafts.installation.has_row("files/a")
    assert drafts.record()["outcome"] == "failed"


def test_a_rule_whose_condition_answers_anew_each_time_is_refused(drafts: World) -> None:
    database = drafts.installation.database
    with database.connect("test") as connection:
        for condition, named in (
            ("random() < id", "random"),
            ("clock_timestamp() > abandoned_at", "clock_timestamp"),
            ("lo_unlink(id::oid) = 1", "lo_unlink"),
            ("now() > abandoned_at", None),
            ("length(trim(state)) > 2", None),
        ):
            rule = RowRuleSettings(table="draft", due="abandoned_at", where=condition)
            table = OperatorTable(rule, database, lambda: connection)
            if named is None:
                table.preflight()
                continue
            with pytest.raises(SourceRefused, match=named):
                table.preflight()


def revived(world: World, claim: str) -> tuple[int, int]:
    """A client completes a draft between the read and the claim; rows left, and its state's."""
    url = world.installation.database_url
    with psycopg.connect(url) as reader, psycopg.connect(url) as client:
        ids = [row[0] for row in reader.execute("SELECT id FROM draft WHERE state = 'open'")]
        client.execute("UPDATE draft SET state = 'kept' WHERE id = %s", (ids[0],))
        client.commit()
        reader.execute(claim.encode(), (ids,))
        reader.commit()
    return world.count(), world.count("state = 'kept'")


def test_a_draft_that_comes_into_use_between_look_and_claim_stays(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.declare("own_drafts", rule=RULE)
    drafts.drafts("2h", "1h")
    read = OperatorTable.read

    def then_in_use(self: OperatorTable, *given: Any) -> Any:
        page = read(self, *given)
        drafts.installation.execute(
            "UPDATE draft SET state = 'kept' WHERE id = (SELECT min(id) FROM draft)"
        )
        return page

    monkeypatch.setattr(OperatorTable, "read", then_in_use)
    result = drafts.run("own_drafts")
    assert result.success, failure_of(result)

    assert (drafts.count(), drafts.count("state = 'kept'")) == (1, 1)
    assert drafts.record()["detail"]["classes"]["won by others"] == 1


def test_control_a_claim_that_trusts_what_was_read_takes_a_draft_that_came_into_use(
    drafts: World,
) -> None:
    drafts.drafts("2h", "1h")

    assert revived(drafts, "DELETE FROM draft WHERE id = ANY(%s)") == (0, 0)


def test_what_another_session_holds_is_passed_over_and_is_no_sweep(drafts: World) -> None:
    drafts.declare("own_drafts", rule=RULE)
    drafts.drafts("2h", "1h")
    with psycopg.connect(drafts.installation.database_url) as client:
        client.execute("SELECT FROM draft WHERE id = 1 FOR UPDATE")
        result = drafts.run("own_drafts")
        assert result.success, failure_of(result)

    assert drafts.count() == 1
    detail = drafts.record()["detail"]
    assert (detail["classes"]["held by another session"], detail["swept"]) == (1, False)


def test_a_row_that_postgresql_refuses_does_not_stop_the_others(drafts: World) -> None:
    drafts.declare("own_drafts", rule=RULE)
    drafts.drafts("3h", "2h", "1h")
    drafts.installation.execute("CREATE TABLE page (draft_id bigint REFERENCES draft)")
    drafts.installation.execute("INSERT INTO page VALUES (2)")

    assert drafts.run("own_drafts").success

    assert drafts.count() == 1
    detail = drafts.record()["detail"]
    assert (detail["classes"]["claim refused"], detail["swept"]) == (1, False)


def test_what_a_rule_passes_over_is_counted_waits_and_starves_nobody(drafts: World) -> None:
    drafts.declare("own_drafts", rule=RULE, limit=2, batch_size=1)
    drafts.drafts("60 days", "59 days", "58 days", "57 days", "56 days", "55 days")
    drafts.installation.execute("CREATE TABLE page (draft_id bigint REFERENCES draft)")
    drafts.installation.execute("INSERT INTO page VALUES (1), (2), (3)")
    drafts.installation.execute(
        "INSERT INTO draft (abandoned_at) VALUES ('-infinity'), ('0001-01-01'), ('12000-01-01')"
    )
    day = (datetime.now(timezone.utc) - timedelta(days=57)).date()

    def run() -> dict[str, Any]:
        result = drafts.run("own_drafts")
        assert result.success, failure_of(result)
        record = drafts.record()
        with psycopg.connect(drafts.installation.database_url) as connection:
            swept = swept_days(connection.cursor(), "test", "own_drafts", [day]).swept(day)
        detail: dict[str, Any] = record["detail"]
        assert (detail["swept"], swept) == (False, False)
        assert drafts.standing("own_drafts").word == "behind"
        return detail | {"acted": record["acted"]}

    first = run()
    assert (first["acted"], first["classes"]["claim refused"]) == (2, 3), "the limit counts claims"
    second = run()
    assert (second["acted"], second["classes"]["waits after a failure"]) == (1, 3)
    assert sum(many for it, many in second["classes"].items() if "no usable time" in it) == 3
    assert "2 rows are due without a key or with a time that no calendar" in second["finding"]
    drafts.installation.execute("DROP TABLE page")
    assert run()["acted"] == 0, "a pause outlives its run"
    drafts.installation.execute("UPDATE setback SET not_before = now()")
    assert run()["acted"] == 2


def test_a_rule_over_a_published_table_without_replica_identity_is_refused_before(
    drafts: World,
) -> None:
    drafts.declare("own_drafts", rule=RULE)
    drafts.drafts("1h")
    drafts.installation.execute("ALTER TABLE draft DROP CONSTRAINT draft_pkey")
    drafts.installation.execute("ALTER TABLE draft ADD UNIQUE (id)")
    drafts.installation.execute("CREATE PUBLICATION everything FOR TABLE draft")
    for dry_run in (True, False):
        said = failure_of(drafts.run("own_drafts", dry_run=dry_run))
        assert "PostgreSQL refuses claim of source" in said
        assert 'table "draft" because it does not have a replica identity' in said
        assert "set REPLICA IDENTITY using ALTER TABLE" in said
        assert "Nothing was claimed" in said
    found = [str(it) for it in examine(drafts.installation.loaded(), {}) if it.verdict == "failed"]
    assert any("own rule" in it and "REPLICA IDENTITY" in it for it in found)
    assert drafts.count() == 1


# A callable -----------------------------------------------------------------------------------

THUMBNAILS = """
    def rebuild(run):
        run.log.info("mode %s", run.mode)
        for number in (1, 2, 3):
            run.prove_alive()
            with run.transaction() as cursor:
                if run.live:
                    cursor.execute("UPDATE draft SET state = 'done' WHERE id = %s", (number,))
            run.progress(scanned=number, acted=number, thumbnails=number)
        return run.outcome(truncated=run.limit < 3)

    def careless(run):
        with run.transaction() as cursor:
            cursor.execute("DELETE FROM draft")

    def broken(run):
        run.progress(scanned=5, acted=2)
        raise ValueError("the disk is full")

    def wrong(run):
        return 7
"""

TALKATIVE = """
    import os

    def talk(run):
        run.progress(short=float("nan"), token="it is " + os.environ["ACME_TOKEN"])
        run.progress(long="x" * 10_000_000)
"""


def test_a_callable_is_given_the_run_and_its_progress_is_the_record(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_jobs", THUMBNAILS)
    drafts.declare("own_thumbs", python="acme_jobs:rebuild", touches=["rows"])
    drafts.drafts("1h", "1h", "1h")

    dry = drafts.code.run("own_thumbs")
    assert dry.success, failure_of(dry)
    assert drafts.count("state = 'done'") == 0
    live = drafts.run("own_thumbs")
    assert live.success, failure_of(live)

    record = drafts.record()
    assert (record["scanned"], record["acted"]) == (3, 3)
    assert record["detail"]["reported"] == {"thumbnails": 3}
    assert drafts.count("state = 'done'") == 3
    assert drafts.standing("own_thumbs").word == "ok"
    assert drafts.run("own_thumbs", limit=2).success
    assert not drafts.record()["detail"]["swept"]


def test_a_callable_cannot_change_anything_in_a_dry_run(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_jobs", THUMBNAILS)
    drafts.declare("own_careless", python="acme_jobs:careless", touches=["rows"])
    drafts.drafts("1h")

    dry = drafts.code.run("own_careless")

    assert not dry.success
    assert "read-only" in failure_of(dry)
    assert drafts.count() == 1
    assert drafts.run("own_careless").success
    assert drafts.count() == 0


HANDLES = """
    import psycopg

    TAKE = "DELETE FROM draft"

    def by_connection(run):
        run.connection.execute(TAKE)

    def by_transaction(run):
        with run.database.transaction(run.connection) as cursor:
            cursor.execute(TAKE)

    def by_another(run):
        with run.database.connect("acme") as connection:
            connection.execute(TAKE)

    def by_itself(run):
        with psycopg.connect(run.database.url) as connection:
            connection.execute(TAKE)
"""


def test_whatever_a_dry_callable_is_handed_changes_nothing(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_handles", HANDLES)
    drafts.drafts("1h")
    for how in ("by_connection", "by_transaction", "by_another"):
        drafts.declare("own_handles", python=f"acme_handles:{how}", touches=["rows"])
        dry = drafts.code.run("own_handles")
        assert not dry.success
        assert "read-only transaction" in failure_of(dry)
    assert drafts.count() == 1

    # CONTROL: what it opens itself nobody stops, as the page says.
    drafts.declare("own_handles", python="acme_handles:by_itself", touches=["rows"])
    assert drafts.code.run("own_handles").success
    assert drafts.count() == 0


def test_a_callable_that_fails_fails_its_run_and_alerts(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_jobs", THUMBNAILS)
    said = {
        "acme_jobs:broken": "the disk is full",
        "acme_jobs:wrong": "returned int",
        "acme_jobs:absent": "cannot be imported",
        "no_such_module:rebuild": "cannot be imported",
    }
    for number, place in enumerate(said):
        drafts.declare(f"own_{number}", python=place, touches=["rows"])

    for number, words in enumerate(said.values()):
        assert not drafts.run(f"own_{number}").success
        record = drafts.record()
        assert record["outcome"] == "failed"
        assert words in record["error"]
        if number == 0:
            assert (record["scanned"], record["acted"]) == (5, 2)
            standing = drafts.standing("own_0")
            assert (standing.word, standing.severity) == ("failed", "critical")


def test_what_a_callable_reports_fits_into_the_record_and_holds_no_secret(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_jobs", TALKATIVE)
    monkeypatch.setenv("ACME_TOKEN", "a-token-of-acme-0123456789")
    drafts.declare("own_talk", python="acme_jobs:talk", touches=["rows"])
    drafts.declare("own_other", command=["/bin/true"], touches=["elsewhere"],
                   environment={"TOKEN": {"env": "ACME_TOKEN"}})  # fmt: skip
    environment = drafts.installation.environment | {"ACME_TOKEN": "a-token-of-acme-0123456789"}
    monkeypatch.setattr(type(drafts.installation), "environment", property(lambda _: environment))

    result = drafts.run("own_talk")
    assert result.success, failure_of(result)

    reported = drafts.record()["detail"]["reported"]
    assert (reported["short"], "long" in reported) == ("nan", False)
    assert drafts.installation.value("SELECT detail::text FROM job_progress").count("token-of") == 0
    assert "***" in reported["token"] or "token-of-acme" not in reported["token"]


# A command ------------------------------------------------------------------------------------


def python(text: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text)]


REPORTING = python(
    """
    import json, os
    with open(os.environ["FILEJOBS_REPORT"], "a") as report:
        for number in range(1, 4):
            said = {"scanned": number, "acted": number, "files": number}
            report.write(json.dumps(said) + "\\n")
    print("done", os.environ["FILEJOBS_MODE"], os.environ["FILEJOBS_LIMIT"])
    """
)

PIPES = python(
    """
    from dagster_pipes import open_dagster_pipes
    with open_dagster_pipes() as pipes:
        pipes.log.info("working in %s" % pipes.get_extra("mode"))
        pipes.report_custom_message({"scanned": 9, "acted": 4})
    """
)


def test_a_command_reports_through_pipes_or_a_few_lines_or_not_at_all(world: World) -> None:
    told = {"own_lines": (REPORTING, (3, 3)), "own_pipes": (PIPES, (9, 4)),
            "own_none": (["/bin/true"], (None, None))}  # fmt: skip
    for name, (command, _) in told.items():
        world.declare(name, command=command, touches=["rows"])

    for name, (_, numbers) in told.items():
        result = world.run(name)
        assert result.success, failure_of(result)
        record = world.record()
        assert (record["job"], record["scanned"], record["acted"]) == (name, *numbers)
        assert record["detail"]["swept"]
        assert world.standing(name).word == "ok"


SAYING = """
    import os, sys
    with open(os.environ["FILEJOBS_REPORT"], "ab") as report:
        report.write({said!r})
    sys.exit({code})
"""

ODD = (
    b'{"scanned": 5, "self": 1, "said": 2, "scan": NaN, "a": "\\u0000\\ud800"}\n'
    b'[1]\n{"scanned": true, "acted": -1}\n\xff\xfe\n{"scanned": 1' + b"0" * 30 + b"}\n"
    b'{"long": "' + b"x" * 100_000 + b'"}\n{"acted": 2}'
)


def test_what_a_command_reports_oddly_is_left_out_and_its_last_line_needs_no_end(
    world: World,
) -> None:
    world.declare("own_odd", command=python(SAYING.format(said=ODD, code=0)), touches=["rows"])
    world.declare(
        "own_liar", touches=["rows"],
        command=python(SAYING.format(said=b'{"error": "no paper", "truncated": true}', code=0)),
    )  # fmt: skip
    world.declare(
        "own_boaster", touches=["rows"],
        command=python(SAYING.format(said=b'{"acted": 1000}', code=3)),
    )  # fmt: skip

    result = world.run("own_odd")
    assert result.success, failure_of(result)
    record = world.record()
    assert (record["scanned"], record["acted"]) == (5, 2)
    assert set(record["detail"]["reported"]) == {"self", "said", "scan", "a"}

    assert not world.run("own_liar").success
    assert world.record()["error"] == "no paper"
    assert not world.run("own_boaster").success
    assert "exit code 3" in world.record()["error"]
    assert world.standing("own_boaster").word == "failed"


def test_a_report_that_was_taken_away_or_begun_anew_stops_nobody(world: World) -> None:
    again = """
        import os, time
        path = os.environ["FILEJOBS_REPORT"]
        with open(path, "w") as report:
            report.write('{"scanned": 1000}\\n' * 100)
        time.sleep(1)
        os.remove(path)
        time.sleep(1)
        with open(path, "w") as report:
            report.write('{"scanned": 7}')
    """
    world.declare("own_anew", command=python(again), touches=["rows"])

    result = world.run("own_anew")

    assert result.success, failure_of(result)
    assert world.record()["scanned"] == 7


def test_much_output_is_kept_short_and_ends_with_what_was_said_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "READ_AT_ONCE", 10_000)
    talk = python(
        """
        import sys, time
        for _ in range(40):
            sys.stdout.write("x" * 20_000)
            sys.stdout.flush()
            time.sleep(0.03)
        print("the disk is full")
        """
    )
    largest = 0

    def look() -> None:
        nonlocal largest
        largest = max(largest, (tmp_path / "output").stat().st_size)

    code, last = foreign.run_command(talk, dict(os.environ), tmp_path, look=look)

    assert (code, last[-16:]) == (0, "the disk is full")
    assert len(last) <= 4 * foreign.LAST_WORDS
    assert largest < 800_000


def test_half_of_a_secret_is_not_told_where_the_last_words_begin(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "a-token-of-acme-0123456789"
    monkeypatch.setenv("ACME_TOKEN", secret)
    environment = world.installation.environment | {"ACME_TOKEN": secret}
    monkeypatch.setattr(type(world.installation), "environment", property(lambda _: environment))
    # The last words begin in the middle of it.
    told = f"import os, sys; print(os.environ['T'] + 'y' * {foreign.LAST_WORDS - 9}); sys.exit(1)"
    world.declare("own_tell", command=python(told), touches=["elsewhere"],
                  environment={"T": {"env": "ACME_TOKEN"}})  # fmt: skip

    assert not world.run("own_tell").success

    assert "yyy" in world.record()["error"]
    assert "123456" not in world.record()["error"]


def test_a_command_that_will_not_end_is_killed_with_all_of_its_group(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "ENDS_WITHIN", 0.5)
    pid = tmp_path / "pid"
    deaf = f"trap '' TERM; (trap '' TERM; sleep 600) & echo $! > {pid}; while :; do sleep 1; done"
    world.declare("own_deaf", command=["/bin/sh", "-c", deaf], touches=["elsewhere"],
                  max_runtime="1s")  # fmt: skip

    assert not world.run("own_deaf").success

    assert "max_runtime" in world.record()["error"]
    until(lambda: not is_alive(int(pid.read_text())))


def test_a_dry_run_starts_no_command_that_knows_no_dry(world: World, tmp_path: Path) -> None:
    touched = tmp_path / "touched"
    world.declare("own_touch", command=["/usr/bin/touch", str(touched)], touches=["elsewhere"])

    dry = world.code.run("own_touch")
    assert dry.success, failure_of(dry)
    assert not touched.exists()
    assert world.run("own_touch").success
    assert touched.exists()

    touched.unlink()
    world.declare(
        "own_touch", command=["/usr/bin/touch", str(touched)], touches=["elsewhere"], knows_dry=True
    )
    assert world.code.run("own_touch").success
    assert touched.exists()


TAKES = """
import os, psycopg
with psycopg.connect(os.environ["ACME_URL"], **{}) as connection:
    connection.execute("DELETE FROM draft")
"""


def test_a_command_that_knows_dry_begins_its_sessions_read_only(drafts: World) -> None:
    drafts.drafts("1h")

    def declared(takes: str, **given: str) -> None:
        drafts.declare(
            "own_takes", command=[sys.executable, "-c", takes], touches=["rows"], knows_dry=True,
            environment={"ACME_URL": drafts.installation.database_url, **given},
        )  # fmt: skip

    for given in ({}, {"PGOPTIONS": "-c statement_timeout=9s"}):
        declared(TAKES, **given)
        dry = drafts.code.run("own_takes")
        assert not dry.success
        assert "read-only transaction" in failure_of(dry)
    assert drafts.count() == 1

    # CONTROL: a client that brings its own options is not stopped, as the page says.
    declared(TAKES.replace("**{}", 'options=" "'))
    assert drafts.code.run("own_takes").success
    assert drafts.count() == 0
    drafts.drafts("1h")
    declared(TAKES)
    assert drafts.run("own_takes").success
    assert drafts.count() == 0


def test_a_command_is_given_what_it_is_told_and_none_of_our_secrets(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("ACME_TOKEN", "a-token-of-acme-0123456789")
    world.declare(
        "own_look",
        command=[*python("import json, os, sys; json.dump({**os.environ}, open(sys.argv[1], 'w'));"
                         "print(os.environ['TOKEN'], file=sys.stderr); sys.exit(3)"), str(seen)],
        touches=["elsewhere"],
        environment={"TOKEN": {"env": "ACME_TOKEN"}, "PLAIN": "said"},
    )  # fmt: skip
    environment = world.installation.environment | {"ACME_TOKEN": os.environ["ACME_TOKEN"]}
    monkeypatch.setattr(type(world.installation), "environment", property(lambda _: environment))

    result = world.run("own_look")

    assert not result.success
    given = json.loads(seen.read_text())
    assert (given["TOKEN"], given["PLAIN"]) == ("a-token-of-acme-0123456789", "said")
    assert world.installation.database_url not in given.values()
    assert not {"FILEJOBS_DATABASE_URL", "FILEJOBS_S3_SECRET_ACCESS_KEY", "ACME_TOKEN"} & set(given)
    record = world.record()
    assert "exit code 3" in record["error"]
    assert "a-token-of-acme" not in json.dumps(record, default=str)
    assert "a-token-of-acme" not in failure_of(result)


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(
    world: World, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    world.declare(
        "own_slow",
        command=["/bin/sh", "-c", f"sleep 600 & echo $! > {pid}; wait"],
        touches=["elsewhere"],
        max_runtime="1s",
    )

    assert not world.run("own_slow").success

    assert "max_runtime" in world.record()["error"]
    assert not is_alive(int(pid.read_text()))


def test_a_hold_stops_a_command_at_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "PROVE_EVERY", 0.0)
    world.declare("own_slow", command=["/bin/sleep", "600"], touches=["elsewhere"])
    holding = threading.Thread(target=hold_once_at_work, args=(world,))
    holding.start()

    result = world.run("own_slow")
    holding.join()

    assert not result.success
    assert "look into it" in world.record()["error"]


def hold_once_at_work(world: World) -> None:
    for _ in range(600):
        if world.installation.execute("SELECT 1 FROM job_progress WHERE closed_at IS NULL"):
            break
        time.sleep(0.05)
    world.installation.execute(
        "INSERT INTO hold (installation, job, held_by, why)"
        " VALUES ('test', 'own_slow', 'ada', 'look into it')"
    )


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


# Watched --------------------------------------------------------------------------------------


def filejobs(world: World, *arguments: str) -> subprocess.Popen[bytes]:
    world.installation.write()
    return subprocess.Popen(
        [sys.executable, "-m", "filejobs_dagster.cli", *arguments],
        env={**os.environ, **world.installation.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def backup(world: World) -> World:
    world.declare("own_backup", reports=True, by_hand=None, schedule="@daily", stale_after="25h",
                  mode=None)  # fmt: skip
    return world


@pytest.mark.thorough
def test_a_command_of_a_cron_is_recorded_with_its_exit_code(backup: World) -> None:
    said = backup.standing("own_backup")
    assert said.word == "never run"
    well = filejobs(backup, "record", "own_backup", "--", "/bin/echo", "saved")
    output, _ = well.communicate(timeout=120)
    assert (well.returncode, output) == (0, b"saved\n")
    record = backup.record()
    assert (record["job"], record["mode"], record["outcome"]) == ("own_backup", "live", "ok")
    assert backup.standing("own_backup").word == "ok"

    failed = filejobs(backup, "record", "own_backup", "--", "/bin/sh", "-c", "exit 7")
    assert failed.wait(timeout=120) == 7
    assert "exit code 7" in backup.record()["error"]
    assert backup.standing("own_backup").word == "failed"


@pytest.mark.thorough
def test_a_command_whose_record_keeper_is_killed_ends_and_is_recorded_as_lost(
    backup: World, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    keeper = filejobs(
        backup, "record", "own_backup", "--", "/bin/sh", "-c", f"echo $$ > {pid}; exec sleep 600"
    )
    until(lambda: pid.exists() and pid.read_text().strip())
    keeper.kill()
    keeper.communicate(timeout=60)

    until(lambda: not is_alive(int(pid.read_text())))
    until(lambda: lost(backup))
    assert backup.record()["error"].startswith("Lost")
    assert backup.standing("own_backup").word == "failed"


def test_control_without_its_guard_a_command_outlives_whoever_recorded_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    keeper = subprocess.Popen(["/bin/sh", "-c", f"setsid sleep 600 & echo $! > {pid}; wait"])
    until(lambda: pid.exists() and pid.read_text().strip())
    keeper.kill()
    keeper.wait()
    try:
        assert is_alive(int(pid.read_text()))
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.thorough
def test_a_command_runs_although_nothing_can_be_recorded(
    backup: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched = tmp_path / "touched"
    environment = backup.installation.environment | {
        "FILEJOBS_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere"
    }
    monkeypatch.setattr(type(backup.installation), "environment", property(lambda _: environment))

    keeper = filejobs(backup, "record", "own_backup", "--", "/usr/bin/touch", str(touched))
    _, said = keeper.communicate(timeout=120)

    assert (keeper.returncode, touched.exists()) == (0, True)
    assert b"not recorded" in said


def until(true: Any) -> None:
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError("it never came true")


def lost(world: World) -> bool:
    world.mirror(silence=timedelta(0))
    return bool(world.installation.records())


@pytest.fixture
def reporter(backup: World) -> Any:
    return Reporter(backup.installation.settings)


CRON = TokenHolder("cron", None, may_go_live=False)
OTHER = TokenHolder("other", frozenset({"own_thumbs"}), may_go_live=True)


def test_what_a_cron_reports_over_http_stands_in_the_record(backup: World, reporter: Any) -> None:
    start = reporter.report(CRON, "own_backup", Report("start"))
    assert (start.status, backup.installation.records()) == ("recorded", [])
    assert backup.standing("own_backup").running is not None

    end = reporter.report(CRON, "own_backup", Report("success", scanned=7, acted=5))

    assert end.run_id == start.run_id
    record = backup.record()
    assert (record["outcome"], record["scanned"], record["acted"]) == ("ok", 7, 5)
    assert record["detail"]["trigger"] == {"kind": "http", "name": "cron"}
    assert backup.standing("own_backup").word == "ok"
    # Once more: the run has its record, and no second one.
    name = end.run_id.rpartition("/")[2]
    again = reporter.report(CRON, "own_backup", Report("success", run=name))
    assert (again.status, len(backup.installation.records())) == ("recorded before", 1)

    reporter.report(CRON, "own_backup", Report("failure", error="the disk is full"))
    assert backup.record()["error"] == "the disk is full"
    assert backup.standing("own_backup").word == "failed"


def test_a_start_without_an_end_is_stuck_and_not_before_its_time(
    backup: World, reporter: Any
) -> None:
    reporter.report(CRON, "own_backup", Report("start", run="monday"))
    backup.mirror(silence=timedelta(0))
    backup.mirror(silence=timedelta(0))
    assert backup.installation.records() == []

    backup.installation.execute(
        "UPDATE job_progress SET detail = detail || jsonb_build_object('ends_by', now())"
    )
    until(lambda: lost(backup))

    assert backup.record()["error"].startswith("Stuck")
    assert backup.standing("own_backup").word == "failed"
    late = reporter.report(CRON, "own_backup", Report("success", run="monday"))
    assert late.status == "recorded before"


def test_nobody_reports_what_is_not_theirs(backup: World, reporter: Any) -> None:
    backup.declare("own_thumbs", command=["/bin/true"], touches=["elsewhere"])
    started = reporter.report(CRON, "own_backup", Report("start", run="monday"))

    for holder, job, status in (
        (CRON, "own_unknown", "unknown job"),
        (CRON, "own_thumbs", "not allowed"),
        (OTHER, "own_backup", "not allowed"),
    ):
        answer = reporter.report(holder, job, Report("success", run="monday"))
        assert answer.status == status
    assert backup.installation.records() == []
    assert started.status == "recorded"


def test_reports_in_any_order_make_one_record_a_run(backup: World, reporter: Any) -> None:
    def say(said: Any, **more: Any) -> str:
        return str(reporter.report(CRON, "own_backup", Report(said, **more)).status)

    assert say("success", run="a") == "recorded"
    for late in ("success", "failure", "start"):
        assert say(late, run="a") == "recorded before"
    assert (say("start", run="b"), say("start", run="b")) == ("recorded", "recorded before")
    assert say("failure", run="b", error="x" * 1_000_000 + "\0") == "recorded"
    assert [one["outcome"] for one in backup.installation.records()] == ["ok", "failed"]
    assert len(backup.record()["error"]) < 20_000
    assert not backup.installation.execute("SELECT 1 FROM job_progress WHERE closed_at IS NULL")


def test_a_watched_job_is_not_started_here(backup: World) -> None:
    assert "own_backup" not in {job.name for job in backup.code.definitions.jobs or ()}
    assert backup.code.definitions.schedules == []


@dg.op
def bill() -> None:
    """Somebody else's work."""


@dg.op
def bill_badly() -> None:
    raise ValueError("no paper")


def billing(op: Any) -> dg.JobDefinition:
    @dg.job(name="nightly_billing")
    def made() -> None:
        op()

    return made


def test_a_dagster_job_of_others_stands_in_the_same_table(world: World) -> None:
    world.declare("own_billing", dagster_job="nightly_billing", mode=None, stale_after="25h")
    world.mirror()
    assert world.standing("own_billing").word == "never run"

    billing(bill).execute_in_process(instance=world.code.instance)
    world.mirror()
    record = world.record()
    assert (record["job"], record["mode"], record["outcome"]) == ("own_billing", "live", "ok")
    assert world.standing("own_billing").word == "ok"

    billing(bill_badly).execute_in_process(instance=world.code.instance, raise_on_error=False)
    world.mirror()
    world.mirror()
    assert [one["outcome"] for one in world.installation.records()] == ["ok", "failed"]
    assert "no paper" in world.record()["error"]
    assert world.standing("own_billing").word == "failed"


def test_what_is_heard_of_late_counts_from_when_it_ended(world: World) -> None:
    world.declare("own_billing", dagster_job="nightly_billing", mode=None, stale_after="25h")
    billing(bill).execute_in_process(instance=world.code.instance)
    runs: Any = world.code.instance.run_storage
    with runs.connect() as connection:
        connection.exec_driver_sql(
            "UPDATE runs SET start_time = start_time - 259200, end_time = end_time - 259200"
        )

    world.mirror()

    record = world.record()
    assert datetime.now(timezone.utc) - record["finished_at"] > timedelta(days=2)
    assert world.standing("own_billing").word == "stale"


def test_a_dagster_run_of_others_that_never_ends_is_stuck_and_left_to_them(world: World) -> None:
    world.declare("own_billing", dagster_job="nightly_billing", mode=None, max_runtime="1s")
    instance = world.code.instance
    run = instance.create_run_for_job(billing(bill))
    instance.report_engine_event("starting", run)
    instance.handle_run_event(
        run.run_id, dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, "nightly_billing")
    )
    until(lambda: lost(world))

    assert world.record()["error"].startswith("Stuck")
    assert world.standing("own_billing").word == "failed"
    found = instance.get_run_by_id(run.run_id)
    assert found is not None
    assert not found.is_finished


# Names ----------------------------------------------------------------------------------------


def test_the_record_of_a_job_that_left_the_settings_stays_readable(backup: World) -> None:
    backup.declare("own_done", command=["/bin/true"], touches=["elsewhere"])
    assert backup.run("own_done").success
    del backup.installation.document["own_jobs"]["own_done"]

    settings = backup.installation.settings()
    with (
        backup.installation.database.connect("test") as connection,
        backup.installation.database.transaction(connection, read_only=True) as cursor,
    ):
        found = newest_runs(cursor, settings.installation, limit=10)

    assert "own_done" not in BY_NAME
    assert [run.job for run in found] == ["own_done"]


def test_a_name_that_is_not_ours_to_give_is_a_mistake(backup: World) -> None:
    names = ["drafts", "own_", "own_Drafts", "upload_reservations", "own_größe", "own_a\n",
             "own_" + "a" * 60]  # fmt: skip
    for name in names:
        backup.declare(name, command=["/bin/true"], touches=["elsewhere"])

    problems = backup.installation.loaded().problems

    assert len(problems) == len(names)
    assert all("own_" in problem.expected for problem in problems)


def test_the_book_takes_the_names_that_the_settings_take_and_control_no_other(
    backup: World,
) -> None:
    for name in ("own_drafts", "own_1", "own_" + "a" * 59):
        record_of(backup, name)
    for name in ("drafts", "own_", "own_Drafts", "own_" + "a" * 60, "xown_a", "own_a\n", "own_ä"):
        with pytest.raises(psycopg.errors.CheckViolation):
            record_of(backup, name)


def record_of(world: World, name: str) -> None:
    world.installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
        " VALUES (%s, 'test', %s, now(), 'ok', 'live')",
        (name, name),
    )


def test_a_job_says_one_thing_that_it_is(backup: World) -> None:
    backup.declare("own_both", command=["/bin/true"], python="a:b", touches=["rows"])
    backup.declare("own_none")
    backup.declare("own_shell", command="rm -rf /", touches=["elsewhere"])
    backup.declare("own_untold", command=["/bin/true"])
    backup.declare("own_bytes", command=["/bin/true"], touches=["objects"], bucket="absent")
    backup.declare("own_far", rule=RULE | {"database": {"url": {"env": "FAR"}}, "key": "path"})

    found = {problem.path: problem.expected for problem in backup.installation.loaded().problems}
    assert "FAR" in found.pop("own_jobs.own_far.rule.database.url")
    assert "name no object" in found.pop("own_jobs.own_far.rule.key")
    assert found.keys() == {
        "own_jobs.own_both",
        "own_jobs.own_none",
        "own_jobs.own_shell.command",
        "own_jobs.own_untold.touches",
        "own_jobs.own_bytes.bucket",
    }


def test_what_ours_get_for_nothing_theirs_get_as_well(backup: World) -> None:
    backup.declare("own_drafts", rule=RULE, by_hand=None, schedule="@hourly", about="Takes drafts.")
    definitions = backup.code.definitions
    dg.Definitions.validate_loadable(definitions)

    job = definitions.resolve_job_def("own_drafts")
    schedule = definitions.resolve_schedule_def("own_drafts_schedule")
    assets = {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}

    assert job.partitions_def is not None
    assert job.description is not None
    assert job.description.startswith("Takes drafts.")
    assert schedule.cron_schedule == "@hourly"
    assert {"own_drafts", "own_backup"} <= set(assets)
    found = {one.check: one for one in examine(backup.installation.loaded(), {})}
    assert "draft" in found["own rule draft"].found


# The door -------------------------------------------------------------------------------------


def test_the_package_of_the_examples_declares_its_job_in_the_words_of_this_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    examples = Path(__file__).parents[2] / "examples" / "own-package"
    monkeypatch.syspath_prepend(str(examples / "src"))
    monkeypatch.delitem(sys.modules, "acme_filejobs", raising=False)
    declared = importlib.import_module("acme_filejobs").OLD_DRAFTS
    settings = declared.settings.model_validate({"by_hand": True, "older_than": "7d"})

    assert (declared.name, settings.older_than) == ("own_old_drafts", timedelta(days=7))
    assert (
        f'{declared.name} = "acme_filejobs:OLD_DRAFTS"' in (examples / "pyproject.toml").read_text()
    )


def test_what_a_job_says_that_it_touches_is_what_the_door_asks(world: World) -> None:
    world.code.adopted = False
    for name, touches in (("rows", "rows"), ("bytes", "objects"), ("mail", "elsewhere")):
        world.declare(f"own_{name}", command=["/bin/true"], touches=[touches])

    refused = world.run("own_bytes")
    assert not refused.success
    assert "adopt" in failure_of(refused)
    assert world.run("own_rows").success
    world.installation.execute("ALTER TABLE file DISABLE TRIGGER ALL")
    refused = world.run("own_rows")
    assert not refused.success
    assert "trigger" in failure_of(refused)
    assert world.run("own_mail").success


def test_a_second_live_run_beside_the_first_is_refused(world: World) -> None:
    world.declare("own_slow", command=["/bin/sh", "-c", "sleep 600"], touches=["elsewhere"])
    database = world.installation.database
    first = Lease(database, "another run")
    first.take(exclusive_lock(database.schema, "own_slow"))

    result = world.run("own_slow")
    first.release()

    assert not result.success
    assert "at work already" in failure_of(result)


# Killed, and told -----------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from contextlib import contextmanager
from filejobs_dagster.book import bookkeeping
from filejobs_dagster.cli.main import run
from filejobs_dagster.jobs.own import foreign
from filejobs_dagster.jobs.own.rows import Rows
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

class Deadly:
    def __init__(self, database):
        self.database = database

    @contextmanager
    def transaction(self, connection):
        with self.database.transaction(connection) as cursor:
            yield cursor
        die()

prepare = OperatorTable.__init__

def deadly(self, *arguments, **named):
    prepare(self, *arguments, **named)
    database, connection = self._records
    self._records = (Deadly(database), connection)

points = {
    "before the claim": lambda: setattr(Rows, "_claim", die),
    "before the commit": lambda: setattr(bookkeeping, "append", die),
    "between the commits": lambda: setattr(OperatorTable, "__init__", deadly),
    "after the commit": lambda: setattr(Rows, "_take_bytes", die),
    "before the final word": lambda: setattr(Rows, "_outcome", die),
}
points[sys.argv.pop(1)]()
run()
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("point", "gone"),
    [
        ("before the claim", 0),
        ("before the commit", 0),
        ("after the commit", 2),
        ("before the final word", 5),
    ],
)
def test_a_rule_killed_anywhere_has_written_what_it_took_and_the_next_run_goes_on(
    drafts: World, point: str, gone: int
) -> None:
    drafts.declare("own_drafts", rule=RULE, batch_size=2)
    drafts.drafts(*["1h"] * 5)
    drafts.installation.adopt()
    drafts.installation.write()

    killed = subprocess.run(
        [sys.executable, "-c", KILLED, point, "run", "own_drafts", "--live"],
        env={**os.environ, **drafts.installation.environment},
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert (killed.returncode, drafts.count()) == (-signal.SIGKILL, 5 - gone)
    until(lambda: lost(drafts))
    record = drafts.record()
    assert (record["outcome"], record["acted"] or 0) == ("failed", gone)
    assert drafts.standing("own_drafts").word == "failed"
    drafts.declare("own_drafts", rule=RULE, batch_size=500)
    assert drafts.run("own_drafts").success
    assert drafts.count() == 0
    told = drafts.installation.value(
        "SELECT sum((body::jsonb ->> 'rows')::int) FROM audit_event"
        " WHERE body::jsonb ->> 'kind' = 'rows.deleted'"
    )
    assert told == 5


# A rule over rows of another database ------------------------------------------------------------


@pytest.fixture
def far(world: World, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Far:
    """Its drafts are in a database of the operator's."""
    known = type(world.installation).environment.fget  # type: ignore[attr-defined]
    with_far = property(lambda it: {**known(it), "FAR": empty_database_url})
    monkeypatch.setattr(type(world.installation), "environment", with_far)
    made = Far(world, empty_database_url)
    made.execute(DRAFTS)
    world.installation.adopt()
    return made


@dataclass
class Far:
    """An installation, and a database of the operator's beside it."""

    world: World
    url: str

    def execute(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def drafts(self, many: int) -> None:
        self.execute(
            "INSERT INTO draft (abandoned_at) SELECT now() - interval '2h'"
            " FROM generate_series(1, %s)",
            (many,),
        )

    def declare(self, **said: Any) -> None:
        rule = RULE | {"database": {"url": {"env": "FAR"}}}
        self.world.declare("own_far", **({"rule": rule} | said))

    def count(self) -> int:
        return int(self.execute("SELECT count(*) FROM draft")[0][0])

    def events(self) -> list[tuple[str, int]]:
        """Kind and number of rows of each event about rows."""
        return [
            (str(kind), int(rows))
            for kind, rows in self.world.installation.execute(
                "SELECT body::jsonb ->> 'kind', (body::jsonb ->> 'rows')::int FROM audit_event"
                " WHERE body::jsonb ->> 'kind' LIKE 'rows.%' ORDER BY seq"
            )
        ]


def test_a_rule_takes_rows_of_another_database_after_their_intent_and_tells_what_went(
    far: Far,
) -> None:
    far.declare(batch_size=2)
    far.drafts(3)

    dry = far.world.code.run("own_far")
    assert dry.success, failure_of(dry)
    assert (far.count(), far.events()) == (3, [])
    live = far.world.run("own_far")
    assert live.success, failure_of(live)

    assert far.count() == 0
    assert far.events() == [
        ("rows.intent", 2), ("rows.deleted", 2), ("rows.intent", 1), ("rows.deleted", 1),
    ]  # fmt: skip
    record = far.world.record()
    assert (record["scanned"], record["acted"], record["detail"]["swept"]) == (3, 3, True)
    assert "FAR leads to" in record["detail"]["door"]["databases"]
    assert "FAR: synchronous_commit is on" in record["detail"]["door"]["commits"]
    assert far.world.standing("own_far").word == "ok"
    settings = far.world.installation.settings()
    assert {one.database.url.env for one in asked_of(settings) if one.database} == {"FAR"}
    found = [one for one in examine(far.world.installation.loaded(), {}) if "draft" in one.check]
    assert {one.verdict for one in found} == {"ok"}, found


def test_an_old_primary_of_another_database_loses_no_row_to_a_rule(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    far.declare()
    assert far.world.run("own_far").success
    far.drafts(2)
    far.world.installation.execute("UPDATE watched_database SET timeline = timeline + 1")

    result = far.world.run("own_far")
    assert not result.success
    assert "this is the old primary" in failure_of(result)
    assert (far.count(), far.events()) == (2, [])

    # CONTROL: whoever does not ask takes them.
    monkeypatch.setattr(Databases, "protects", frozenset())
    assert far.world.run("own_far").success
    assert far.count() == 0


def test_a_rule_finds_the_projects_own_tables_behind_any_address(far: Far) -> None:
    own = {"table": "file", "due": "upload_expires_at", "where": "state = 'pending'"}
    far.url = far.world.installation.database_url
    environment = far.world.installation.environment | {"FAR": far.url}
    far.declare(rule=own | {"database": {"url": {"env": "FAR"}}})
    far.world.installation.reserve("files/a")
    request = far.world.installation.settings(environment).jobs["own_far"]
    assert isinstance(request, OwnRuleSettings)
    database = far.world.installation.database

    with (
        database.connect("test") as connection,
        opened_tables([(request.rule, timedelta(0))], database, lambda: connection) as (table,),
        pytest.raises(SourceRefused, match="a table of this project's"),
    ):
        table.preflight()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("point", "gone", "told"),
    [("between the commits", 0, 0), ("after the commit", 2, 0), ("before the final word", 5, 5)],
)
def test_a_rule_over_another_database_killed_anywhere_counts_nothing_that_is_still_there(
    far: Far, point: str, gone: int, told: int
) -> None:
    far.declare(batch_size=2)
    far.drafts(5)
    far.world.installation.write()

    killed = subprocess.run(
        [sys.executable, "-c", KILLED, point, "run", "own_far", "--live"],
        env={**os.environ, **far.world.installation.environment},
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip

    assert (killed.returncode, far.count()) == (-signal.SIGKILL, 5 - gone), killed.stderr.decode()
    until(lambda: lost(far.world))
    assert (far.world.record()["outcome"], far.world.record()["acted"] or 0) == ("failed", told)
    far.declare(batch_size=500)
    result = far.world.run("own_far")
    assert result.success, failure_of(result)
    assert far.count() == 0
    meant, went = (
        sum(rows for kind, rows in far.events() if kind == it)
        for it in ("rows.intent", "rows.deleted")
    )
    # Whatever went was meant before; what nobody could tell any more stands as meant alone.
    assert (meant, went) == (5 + 2 * (point == "between the commits"), 5 - gone + told)


def told_of(world: World) -> list[tuple[str, str | None]]:
    settings = world.installation.settings()
    with (
        world.installation.database.connect("test") as connection,
        world.installation.database.transaction(connection, read_only=True) as cursor,
    ):
        found = standings(cursor, settings.installation, expectations(settings))
        said = look(cursor, settings.installation, found, limits_of(settings))
    return [(one.kind, one.job) for one in said.conditions if one.job is not None]


@pytest.mark.thorough
def test_somebody_is_told_when_a_job_of_any_kind_stops(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_jobs", "def nothing(run): run.progress(scanned=0, acted=0)")
    package = Path(__file__).parents[2] / "examples" / "own-package" / "src"
    monkeypatch.syspath_prepend(str(package))
    monkeypatch.setattr(BY_NAME, "installed", {"own_old_drafts": "acme_filejobs:OLD_DRAFTS"})
    here, elsewhere = {"by_hand": True, "mode": "live", "stale_after": "25h"}, {
        "schedule": "@daily", "stale_after": "25h", "by_hand": None, "mode": None,
    }  # fmt: skip
    drafts.installation.document["jobs"]["own_old_drafts"] = here | {"older_than": "7d"}
    drafts.declare("own_rule", rule=RULE, **here)
    drafts.declare("own_python", python="acme_jobs:nothing", touches=["rows"], **here)
    drafts.declare("own_command", command=["/bin/true"], touches=["rows"], **here)
    drafts.declare("own_cron", reports=True, **elsewhere)
    drafts.declare("own_http", reports=True, **elsewhere)
    drafts.declare("own_billing", dagster_job="nightly_billing", **elsewhere)
    names = {name for name in drafts.installation.settings().jobs if name.startswith("own_")}
    assert len(names) == 7
    assert {job for _, job in told_of(drafts)} == names

    for name in ("own_old_drafts", "own_rule", "own_python", "own_command"):
        result = drafts.run(name)
        assert result.success, failure_of(result)
    # In a process of its own, where the package is not installed.
    packaged = drafts.installation.document["jobs"].pop("own_old_drafts")
    kept = filejobs(drafts, "record", "own_cron", "--", "/bin/true")
    assert kept.wait(timeout=120) == 0
    drafts.installation.document["jobs"]["own_old_drafts"] = packaged
    Reporter(drafts.installation.settings).report(CRON, "own_http", Report("success"))
    billing(bill).execute_in_process(instance=drafts.code.instance)
    drafts.mirror()
    assert told_of(drafts) == []

    drafts.installation.execute("ALTER TABLE job_run DISABLE RULE job_run_never_updated")
    drafts.installation.execute(
        "UPDATE job_run SET started_at = started_at - interval '3 days',"
        " finished_at = finished_at - interval '3 days'"
    )

    assert {drafts.standing(name).word for name in names} == {"stale"}
    assert sorted(told_of(drafts)) == sorted(("stale", name) for name in names)


def test_somebody_is_told_when_an_own_job_stops(backup: World, reporter: Any) -> None:
    assert told_of(backup) != []
    reporter.report(CRON, "own_backup", Report("success"))
    assert backup.standing("own_backup").severity == "ok"
    assert told_of(backup) == []
    backup.installation.execute("ALTER TABLE job_run DISABLE RULE job_run_never_updated")
    backup.installation.execute(
        "UPDATE job_run SET started_at = now() - interval '3 days',"
        " finished_at = now() - interval '3 days'"
    )

    standing = backup.standing("own_backup")
    assert (standing.word, standing.severity) == ("stale", "critical")
    assert told_of(backup) == [("stale", "own_backup")]


def test_a_name_that_nobody_declares_is_answered_with_the_names_there_are(backup: World) -> None:
    path = backup.installation.write()

    for arguments in (
        ["status", "--job", "own_backups"],
        ["status", "--stale-after", "own_backups=1h"],
        ["backfill", "own_backups", "--from", "2026-01-01"],
    ):
        said = CliRunner().invoke(
            app, ["--config", str(path), *arguments], env=backup.installation.environment
        )
        assert said.exit_code != 0
        assert "did you mean own_backup?" in said.output


# Settings that change while others hold them --------------------------------------------------


def test_settings_read_anew_take_no_job_from_who_still_works_by_the_old(backup: World) -> None:
    old = backup.installation.settings()
    del backup.installation.document["own_jobs"]["own_backup"]
    backup.declare("own_later", command=["/bin/true"], touches=["elsewhere"])
    new = backup.installation.settings()

    with (
        backup.installation.database.connect("test") as connection,
        backup.installation.database.transaction(connection, read_only=True) as cursor,
    ):
        by_old, by_new = (
            {one.job: one.word for one in standings(cursor, "test", expectations(settings))}
            for settings in (old, new)
        )

    assert (by_old["own_backup"], by_new["own_later"]) == ("never run", "never run")
    assert "own_backup" not in by_new
    assert BY_NAME["own_backup"].watched
    assert "own_backup" not in BY_NAME


def test_a_run_at_work_ends_well_although_its_job_left_the_settings(
    drafts: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts.module(monkeypatch, "acme_jobs", LEAVING)
    drafts.declare("own_leaving", python="acme_jobs:leave", touches=["rows"])
    path = str(drafts.installation.write())
    monkeypatch.setenv("ACME_SETTINGS", path)

    result = drafts.run("own_leaving")

    assert result.success, failure_of(result)
    assert (drafts.record()["job"], drafts.record()["outcome"]) == ("own_leaving", "ok")


LEAVING = """
    import os, yaml
    from pathlib import Path
    from filejobs_dagster.settings import read_settings

    def leave(run):
        path = Path(os.environ["ACME_SETTINGS"])
        said = yaml.safe_load(path.read_text())
        said["own_jobs"] = {}
        path.write_text(yaml.safe_dump(said))
        read_settings(path)
"""
