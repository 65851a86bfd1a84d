"""Jobs of the operator's own: each kind from the settings to its record, in Dagster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.alerts.conditions import look
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.runs import newest_runs
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.registry import BY_NAME
from tests.orchestration.conftest import Code, code, failure_of, installation  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Iterator

DRAFTS = """
CREATE TABLE draft (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state text NOT NULL DEFAULT 'open',
    abandoned_at timestamptz
);
CREATE INDEX ON draft (abandoned_at, id);
"""

RULE = {"table": "draft", "due": "abandoned_at", "where": "state = 'open'"}


@pytest.fixture(autouse=True)
def no_own_job_of_another_test() -> Iterator[None]:
    yield
    BY_NAME.own = {}


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
def world(code: Code) -> World:  # noqa: F811
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
    from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable

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


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("acme_jobs:broken", "the disk is full"),
        ("acme_jobs:wrong", "returned int"),
        ("acme_jobs:absent", "cannot be imported"),
        ("no_such_module:rebuild", "cannot be imported"),
    ],
)
def test_a_callable_that_fails_fails_its_run_and_alerts(
    drafts: World, monkeypatch: pytest.MonkeyPatch, place: str, said: str
) -> None:
    drafts.module(monkeypatch, "acme_jobs", THUMBNAILS)
    drafts.declare("own_thumbs", python=place, touches=["rows"])

    assert not drafts.run("own_thumbs").success

    record = drafts.record()
    assert record["outcome"] == "failed"
    assert said in record["error"]
    if said == "the disk is full":
        assert (record["scanned"], record["acted"]) == (5, 2)
    standing = drafts.standing("own_thumbs")
    assert (standing.word, standing.severity) == ("failed", "critical")


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


@pytest.mark.parametrize(
    ("command", "numbers"),
    [(REPORTING, (3, 3)), (PIPES, (9, 4)), (["/bin/true"], (None, None))],
    ids=["a few lines", "dagster pipes", "none"],
)
def test_a_command_reports_through_pipes_or_a_few_lines_or_not_at_all(
    world: World, command: list[str], numbers: tuple[int | None, int | None]
) -> None:
    world.declare("own_rebuild", command=command, touches=["rows"])

    result = world.run("own_rebuild")
    assert result.success, failure_of(result)

    record = world.record()
    assert (record["scanned"], record["acted"]) == numbers
    assert record["detail"]["swept"]
    assert world.standing("own_rebuild").word == "ok"


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


def test_a_command_is_given_what_it_is_told_and_none_of_our_secrets(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv("ACME_TOKEN", "a-token-of-acme-0123456789")
    world.declare(
        "own_look",
        command=[*python("import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1], 'w'));"
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
    from filejobs_dagster.jobs.own import foreign

    monkeypatch.setattr(foreign, "PROVE_EVERY", 0.0)
    world.declare("own_slow", command=["/bin/sleep", "600"], touches=["elsewhere"])
    world.code.definitions
    holding = threading.Thread(target=hold_once_at_work, args=(world,))
    holding.start()

    result = world.run("own_slow")
    holding.join()

    assert not result.success
    assert "look into it" in world.record()["error"]


def hold_once_at_work(world: World) -> None:
    for _ in range(600):
        if world.installation.execute("SELECT FROM job_progress WHERE closed_at IS NULL"):
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
