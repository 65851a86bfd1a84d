"""Every claim holds, its careless version loses, and a sabotaged guard is found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.audit.pins.places import S3Pins
from filejobs_dagster.jobs.upload_reservations import collection, statements
from filejobs_dagster.ledger import standing
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.prove.claims import CLAIMS, bytes_before_commit, one_record
from filejobs_dagster.prove.report import prove
from tests.prove.trying import BY_NAME, after_migrating, careless_of, guarded_of, try_claim

if TYPE_CHECKING:
    from filejobs_dagster.ledger.mirror import FinishedRun
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.prove.evidence import Claim
    from filejobs_dagster.prove.stage import Stage

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_claim_holds_and_its_careless_version_really_lost(claim: Claim, stage: Stage) -> None:
    (finding,) = prove([claim], stage)

    assert finding.error is None
    assert finding.evidence is not None
    assert finding.evidence.careless.lost
    assert not finding.evidence.guarded.lost
    assert finding.held
    assert "no such statement" not in finding.evidence.guarded.statement


def test_every_claim_has_a_name_of_its_own() -> None:
    assert len(BY_NAME) == len(CLAIMS)


def test_the_race_shows_the_projects_own_claim_and_the_bytes_of_both_versions(
    stage: Stage,
) -> None:
    finding = try_claim("completed-upload", stage)

    assert careless_of(finding)["HEAD of the user's object"] == "404, gone"
    assert careless_of(finding)["rows deleted"] == 2
    guarded = guarded_of(finding)
    assert guarded["HEAD of the user's object"] == "200, 26 bytes"
    assert guarded["HEAD of the abandoned object"] == "404, gone"
    assert (guarded["rows claimed"], guarded["rows left to the client"]) == (1, 1)
    assert finding.evidence is not None
    assert finding.evidence.guarded.statement == statements.CLAIM.strip()


def test_a_claim_that_trusts_the_select_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = """
        DELETE FROM file WHERE id = ANY(%(ids)s)
        RETURNING id, storage_key, upload_expires_at, size_bytes
        """
    monkeypatch.setattr(collection, "CLAIM", trusting)

    finding = try_claim("completed-upload", stage)

    assert not finding.held
    assert finding.verdict == "not proven: the guarded version lost"
    assert guarded_of(finding)["HEAD of the user's object"] == "404, gone"


def test_both_processes_are_killed_and_only_the_careless_one_leaves_a_broken_file(
    stage: Stage,
) -> None:
    finding = try_claim("bytes-before-commit", stage)

    careless, guarded = careless_of(finding), guarded_of(finding)
    assert careless["the process ended by"] == guarded["the process ended by"] == "SIGKILL"
    assert careless["the row after the crash"] == "pending: rolled back"
    assert careless["HEAD of its object"] == "404, gone"
    assert careless["the client then completes"] == "true: a file is ready"
    assert guarded["the row after the crash"] == "gone: committed"
    assert guarded["HEAD of its object"] == "200, 8 bytes"
    assert guarded["audited intents that name the key"] == 1


def test_bytes_that_go_before_the_commit_are_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytes_before_commit, "GUARDED_ORDER", "careless")

    finding = try_claim("bytes-before-commit", stage)

    assert not finding.held
    assert finding.verdict == "not proven: the guarded version lost"


def test_a_process_that_never_reaches_the_moment_proves_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bytes_before_commit, "GUARDED_ORDER", "nobody knows this order")

    finding = try_claim("bytes-before-commit", stage)

    assert not finding.held
    assert finding.error is not None
    assert "ended before" in finding.error


def test_a_standing_that_counts_dry_runs_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_any_mode = standing._STANDING.replace("AND mode = expected.mode", "")
    assert of_any_mode != standing._STANDING
    monkeypatch.setattr(standing, "_STANDING", of_any_mode)

    finding = try_claim("dry-runs", stage)

    assert not finding.held
    assert guarded_of(finding)["standing"] == "ok"


def test_a_standing_that_knows_only_jobs_with_runs_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def only_those_that_ran(*arguments: Any) -> list[Standing]:
        return [found for found in standings(*arguments) if found.last_run is not None]

    monkeypatch.setattr("filejobs_dagster.prove.stage.standings", only_those_that_ran)

    finding = try_claim("never-run", stage)

    assert finding.verdict == "not proven: the guarded version lost"
    assert guarded_of(finding)["audit_seal"] == "no word of it"


def test_a_table_that_takes_a_success_with_an_error_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(monkeypatch, "ALTER TABLE job_run DROP CONSTRAINT job_run_error_iff_failed")

    finding = try_claim("null-counts", stage)

    assert finding.verdict == "not proven: the guarded version lost"
    assert guarded_of(finding)["a success with an error"] == "was accepted"


def test_a_table_that_makes_a_missing_count_zero_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(
        monkeypatch,
        """
        CREATE FUNCTION zero() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN NEW.scanned := coalesce(NEW.scanned, 0); RETURN NEW; END $$
        """,
        "CREATE TRIGGER zero BEFORE INSERT ON job_run FOR EACH ROW EXECUTE FUNCTION zero()",
    )

    assert try_claim("null-counts", stage).verdict == "not proven: the guarded version lost"


@pytest.mark.parametrize(
    "damage",
    [
        "DROP RULE job_run_never_updated ON job_run",
        "DROP RULE job_run_never_deleted ON job_run",
        "DROP TRIGGER job_run_never_truncated ON job_run",
    ],
)
def test_a_record_that_can_be_changed_is_found_out(
    damage: str, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(monkeypatch, damage)

    finding = try_claim("one-record", stage)

    assert finding.verdict == "not proven: the guarded version lost"
    assert guarded_of(finding)["every record is as it was"] is False


def test_a_mirror_that_records_a_run_twice_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def careless_mirror(database: Database, connection: Connection, run: FinishedRun) -> bool:
        with database.transaction(connection) as cursor:
            cursor.execute(
                "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
                " VALUES (%s, 'prove', %s, now(), 'ok', 'live')",
                (run.run_id, run.job),
            )
        return True

    after_migrating(monkeypatch, "ALTER TABLE job_run DROP CONSTRAINT job_run_run_id_unique")
    monkeypatch.setattr(one_record, "mirror", careless_mirror)

    finding = try_claim("one-record", stage)

    assert finding.verdict == "not proven: the guarded version lost"
    assert guarded_of(finding)["records"] == 100


# The pause stands where the lock stood: both appenders have read the head before either moves it.
# Without it, the INSERT that waits for an uncommitted head row would often hide the fork.
WITHOUT_THE_LOCK = """
DO $$
BEGIN
    EXECUTE replace(
        pg_get_functiondef('audit_append_many'::regproc),
        'FOR UPDATE;',
        '; PERFORM pg_sleep(0.2);'
    );
END
$$
"""


def test_an_append_that_does_not_lock_the_head_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(
        monkeypatch,
        WITHOUT_THE_LOCK,
        "ALTER TABLE audit_event DROP CONSTRAINT audit_event_pkey",
        "ALTER TABLE audit_event DROP CONSTRAINT audit_event_one_child_per_parent",
    )

    finding = try_claim("audit-fork", stage)

    assert finding.verdict == "not proven: the guarded version lost"
    assert guarded_of(finding)["forks: events with a sibling of the same parent"] > 0


def test_an_append_that_only_the_constraints_keep_from_forking_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(monkeypatch, WITHOUT_THE_LOCK)

    finding = try_claim("audit-fork", stage)

    assert not finding.held
    assert finding.error is not None
    assert "UniqueViolation" in finding.error


def test_the_edited_event_is_found_by_its_pin_alone(stage: Stage) -> None:
    finding = try_claim("audit-edited", stage)
    assert careless_of(finding)["the check says"] == "matches"
    assert careless_of(finding)["what it found"] == "nothing"
    assert guarded_of(finding)["before the edit it said"] == "matches"
    assert guarded_of(finding)["what it found"] == "PIN_HEAD, PIN_ROOT, SEAL_PIN_MISMATCH"


def test_a_pin_that_is_not_read_is_found_out(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(S3Pins, "list", lambda *_: [])
    finding = try_claim("audit-edited", stage)
    assert not finding.held
