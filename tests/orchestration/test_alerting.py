"""The watchdog tells somebody, and barks in any case."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from filejobs_dagster.alerts import rounds
from filejobs_dagster.alerts.conditions import QueuedRun
from filejobs_dagster.orchestration.sensors import InstanceMemory, queued_runs
from filejobs_dagster.text import sanitize
from tests.alerts.receiver import TOKEN, Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.orchestration.conftest import Code

VARIABLES = ("FILEJOBS_ALERT_URL", "FILEJOBS_HEARTBEAT_URL")


@pytest.fixture
def receiver(code: Code, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Whom the settings of `code` name."""
    with receiving() as receiver:
        monkeypatch.setenv(VARIABLES[0], receiver.url)
        monkeypatch.setenv(VARIABLES[1], receiver.heartbeat_url)
        environment = dict(code.installation.environment)
        environment |= {VARIABLES[0]: receiver.url, VARIABLES[1]: receiver.heartbeat_url}
        monkeypatch.setattr(type(code.installation), "environment", environment)
        code.installation.document["alerts"] = {
            "to": [{"name": "on-call", "url": {"env": VARIABLES[0]}}],
            "recovered_after": "0s",
            "heartbeat": {"url": {"env": VARIABLES[1]}},
        }
        yield receiver


def tick(code: Code) -> str | None:
    """What a tick of the watchdog raised, or None."""
    try:
        code.sensor("job_freshness")
    except Exception as raised:  # noqa: BLE001 (Dagster wraps them)
        return str(raised)
    return None


def sweep(code: Code, **columns: Any) -> None:
    code.installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, detail)"
        " VALUES (gen_random_uuid()::text, 'test', 'upload_reservations', now(), 'ok', 'live',"
        ' \'{"window": {"covers": "everything"}}\')'
    )


def beats(receiver: Receiver) -> int:
    return sum("/ping/" in path for path in receiver.requests)


def test_a_tick_tells_once_raises_each_time_and_beats_only_when_all_is_well(
    code: Code, receiver: Receiver
) -> None:
    for _ in range(2):
        assert "never run" in (tick(code) or "")
    assert len(receiver.messages) == 1
    assert "upload_reservations has never run" in receiver.texts[0]
    assert beats(receiver) == 0

    sweep(code)
    assert tick(code) is None
    assert beats(receiver) == 1
    assert "1 over" in receiver.texts[1]
    assert tick(code) is None
    assert (beats(receiver), len(receiver.messages)) == (2, 2)


def test_a_notifier_that_is_down_breaks_no_tick_and_is_told_in_it_after_a_while(
    code: Code, receiver: Receiver
) -> None:
    receiver.status = 503
    assert "never run" in (tick(code) or "")
    sweep(code)
    assert tick(code) is None, "one failure is no news"
    code.installation.execute("UPDATE alert_delivery SET attempts = 3")
    said = tick(code) or ""
    assert "on-call has not been told 2 things" in said
    assert "it answered 503" in said
    assert TOKEN not in said
    assert beats(receiver) == 1, "a watchdog that nobody hears does not beat"


def test_a_notifier_that_is_broken_leaves_the_watchdogs_own_words_alone(
    code: Code, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: Any, **__: Any) -> None:
        raise RuntimeError(f"a fault with {TOKEN} in it")

    for broken in ("record", "deliver"):
        with monkeypatch.context() as patch:
            patch.setattr(rounds, broken, fault)
            said = tick(code) or ""
        assert "1 job needs attention: upload_reservations (never run)" in said
        assert "RuntimeError" in said
        assert TOKEN not in said


def test_a_database_that_is_away_is_told_by_dagsters_own_memory(
    code: Code, receiver: Receiver
) -> None:
    sweep(code)
    url = code.installation.database_url
    code.installation.database_url = "postgresql://app:hunter2secret@127.0.0.1:9/files"
    _rewire(code)
    for _ in range(2):
        assert "standing of the jobs cannot be read" in (tick(code) or "")
    assert len(receiver.messages) == 1
    assert "hunter2secret" not in receiver.texts[0]
    assert beats(receiver) == 0

    code.installation.database_url = url
    _rewire(code)
    assert tick(code) is None
    assert "1 over: The standing of the jobs cannot be read" in receiver.texts[1]


def _rewire(code: Code) -> None:
    code.installation.environment["FILEJOBS_DATABASE_URL"] = code.installation.database_url


@pytest.mark.parametrize(
    "broken",
    ["min_age: 48h -> min_age: 48", "installation: test -> installation: test\n\tnot YAML: ["],
)
def test_a_broken_file_is_told_to_those_whom_it_names_or_named(
    code: Code, receiver: Receiver, broken: str
) -> None:
    sweep(code)
    assert tick(code) is None
    beaten = beats(receiver)
    old, new = broken.split(" -> ")

    for _ in range(2):
        assert "filejobs.yaml has mistakes" in (_tick_of(code, old, new) or "")
    (said,) = receiver.texts
    assert "filejobs.yaml has mistakes, so no job can run" in said
    assert beats(receiver) == beaten

    assert tick(code) is None
    assert "1 over" in receiver.texts[1]
    assert len(receiver.messages) == 2


def _tick_of(code: Code, old: str, new: str) -> str | None:
    """A tick of the file with one passage replaced, as it was loaded."""
    from filejobs_dagster.orchestration.build import build_definitions  # noqa: PLC0415
    from filejobs_dagster.settings import read_settings  # noqa: PLC0415

    path = code.installation.write()
    path.write_text(path.read_text().replace(old, new))
    loaded = read_settings(path, code.installation.environment)
    assert loaded.settings is None
    definitions = build_definitions(loaded)
    context = dg.build_sensor_context(instance=code.instance, definitions=definitions)
    try:
        definitions.resolve_sensor_def("job_freshness").evaluate_tick(context)
    except Exception as raised:  # noqa: BLE001 (Dagster wraps them)
        return str(raised)
    return None


def test_what_dagster_remembers_holds_no_secret(code: Code, receiver: Receiver) -> None:
    tick(code)
    kept = InstanceMemory(code.instance, "test").read()
    assert kept["last_good"]["alerts"]["to"][0]["url"] == {"env": VARIABLES[0]}
    assert TOKEN not in str(kept)
    assert sanitize(str(kept)) == str(kept)


def test_a_run_that_waits_for_long_is_told(
    code: Code, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(code)
    code.installation.document["alerts"]["queued_longer_than"] = "1s"
    job = code.definitions.resolve_job_def("upload_reservations")
    waits = code.instance.create_run_for_job(
        job, status=dg.DagsterRunStatus.STARTING, tags=job.tags
    )
    (queued,) = queued_runs(code.instance, "test")
    assert queued.run_id == waits.run_id
    assert abs(datetime.now(timezone.utc) - queued.since) < timedelta(minutes=5)
    early = [QueuedRun(queued.run_id, queued.job, queued.since - timedelta(hours=26))]
    monkeypatch.setattr(
        "filejobs_dagster.orchestration.sensors.queued_runs_if_readable", lambda *_: early
    )
    assert tick(code) is None, "the job itself stands as it should"
    assert "upload_reservations has a run that does not start" in receiver.texts[0]


def test_a_run_that_is_stuck_is_told_and_keeps_the_heartbeat_silent(
    code: Code, receiver: Receiver
) -> None:
    sweep(code)
    assert tick(code) is None
    assert beats(receiver) == 1
    code.installation.execute(
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder, started_at)"
        " VALUES ('hangs', 'test', 'upload_reservations', 'live', 'schedule', 'host 4711',"
        " now() - interval '41 minutes')"
    )
    assert tick(code) is None, "the job itself stands as it should"
    assert beats(receiver) == 1
    assert "upload_reservations has a run that is stuck" in receiver.texts[-1]
    code.installation.execute("UPDATE job_progress SET started_at = now() - interval '9 minutes'")
    assert tick(code) is None
    assert beats(receiver) == 2
