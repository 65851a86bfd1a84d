"""A dry run writes its bookkeeping and the list that it was asked for, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans import Override, ReportSettings
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.locks import exclusive_lock, lock_number
from tests.jobs.storage_orphans.recording import recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psycopg

    from tests.jobs.storage_orphans.conftest import Sweeper
    from tests.jobs.storage_orphans.recording import Recorder

BOOKKEEPING = {"job_run", "job_progress", "orphan_candidate", "orphan_pass"}


@pytest.fixture
def recorder(sweep: Sweeper) -> Iterator[Recorder]:
    """A bucket with a confirmed orphan and an interrupted intent, behind a recording server."""
    sweep.seen_before("files/orphan", "files/interrupted")
    sweep.installation.execute(
        "UPDATE orphan_candidate SET state = 'deleting', intent_at = now(), intent_run = 'dead'"
        " WHERE key = 'files/interrupted'"
    )
    with recording(sweep.installation.endpoint_url) as server:
        sweep.installation.endpoint_url = server.url
        sweep.installation.document["buckets"]["uploads"]["endpoint_url"] = server.url
        sweep.client = make_client(sweep.installation.settings().buckets["uploads"])
        yield server


def rows_besides_bookkeeping(sweep: Sweeper) -> dict[str, list[object]]:
    tables = sweep.installation.execute(
        "SELECT table_name FROM information_schema.tables"
        " WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
    )
    return {
        name: [
            row
            for (row,) in sweep.installation.execute(f"SELECT t::text FROM {name} AS t ORDER BY 1")
        ]
        for (name,) in tables
        if name not in BOOKKEEPING
    }


def test_a_dry_run_asks_storage_to_change_nothing_and_writes_no_row_but_its_bookkeeping(
    sweep: Sweeper, recorder: Recorder, tmp_path: Path
) -> None:
    # Under the address that the marker was written by.
    sweep.installation.execute("UPDATE bucket_adoption SET endpoint = %s", (recorder.url,))
    before = rows_besides_bookkeeping(sweep)
    for _ in range(2):
        outcome = sweep(
            "dry",
            report_to=ReportSettings(folder=str(tmp_path / "lists")),
            breakers=BreakersSettings(),
            override=Override(breakers=("orphan_fraction",), reason="to see what would happen"),
        )
        assert outcome.ok, outcome.error
    assert outcome.detail["override"]["reason"] == "to see what would happen"
    assert outcome.detail["would_collect"] == 1
    assert outcome.detail["interrupted"] == 1
    [path] = list((tmp_path / "lists").iterdir())[:1]
    assert sweep("dry", reviewed=str(path)).ok
    assert len(recorder.asked) > 6
    assert recorder.writes == []
    assert rows_besides_bookkeeping(sweep) == before


def test_control_a_live_run_is_seen_by_the_recording_server(
    sweep: Sweeper, recorder: Recorder
) -> None:
    sweep.adopted = False  # under the address that the marker was written by
    sweep.installation.execute("UPDATE bucket_adoption SET endpoint = %s", (recorder.url,))
    sweep("dry")
    assert sweep().acted == 1
    assert {method for method, _ in recorder.writes} >= {"PUT", "DELETE"}


def test_the_list_in_the_bucket_is_the_only_object_that_a_dry_run_writes(
    sweep: Sweeper, recorder: Recorder
) -> None:
    assert sweep("dry", report_to=ReportSettings(prefix="lists/")).ok
    [(method, path)] = recorder.writes
    assert method == "PUT"
    assert path.startswith(f"/{sweep.installation.bucket}/lists/storage_orphans-")


def test_a_live_run_that_begins_while_a_dry_one_marks_gets_the_marks(
    sweep: Sweeper, connection: psycopg.Connection
) -> None:
    sweep.put("files/orphan", "files/used")
    sweep.refer("files/used")
    name = exclusive_lock("public", "storage_orphans")
    sweep.when["Marking 1 orphans"] = lambda: connection.execute(
        "SELECT pg_advisory_lock(%s)", (lock_number(name),)
    )
    outcome = sweep("dry")
    assert outcome.ok, outcome.error
    assert outcome.detail["marks"] == "left to the live run at work"
    assert "would_collect" not in outcome.detail
    assert sweep.candidates() == {}
