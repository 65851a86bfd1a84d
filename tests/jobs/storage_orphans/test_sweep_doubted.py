"""A database that knows less than the bucket is not believed; each test ends with its CONTROL."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.doubt import Doubt
from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings, Override
from filejobs_dagster.registry import BY_NAME, JOBS
from tests.jobs.storage_orphans.conftest import NEVER_TRIPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.collector import Collector
    from filejobs_dagster.ledger.outcome import Mode
    from tests.jobs.conftest import Collector as CollectsReservations
    from tests.jobs.storage_orphans.conftest import Sweeper


def put_so_long_ago(sweep: Sweeper, days: Mapping[str, int]) -> None:
    """Objects of that age. The embedded server is this process's, so that they can be made old."""
    sweep.put(*days)
    there = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[sweep.installation.bucket].keys
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    for key, ago in days.items():
        there[key].last_modified = now - timedelta(days=ago)


def enter(sweep: Sweeper, job: Collector[Any, Any]) -> None:
    installation = sweep.installation
    door = Door(job, installation.settings(), sweep.client, entry="uploads")
    with installation.database.connect("door") as connection:
        door.enter(installation.database, connection, logging.getLogger("door"), live=True)


def vouch(sweep: Sweeper, reason: str) -> None:
    installation = sweep.installation
    settings = installation.settings()
    with installation.database.connect("adopt") as connection:
        place = AdoptionTarget.of(
            settings, settings.buckets["uploads"], sweep.client, installation.database, connection
        )
        adopt(place, by="the test", again=reason)


def test_no_later_pass_takes_a_doubt_back_and_whoever_vouches_for_the_database_is_on_record(
    sweep: Sweeper,
) -> None:
    sweep.min_age = timedelta(hours=48)
    lost = {f"files/lost/{days}": days for days in range(3, 8)}
    put_so_long_ago(sweep, {"files/used": 20, **lost})
    sweep.refer("files/used")
    sweep.adopt()
    normal = NEVER_TRIPS.model_copy(update={"max_newer": 4})
    assert not sweep("dry", breakers=normal).ok
    with pytest.raises(Refusal):
        enter(sweep, BY_NAME["upload_reservations"])
    # The first upload after a restore: nothing is newer than that, so the breaker goes blind.
    put_so_long_ago(sweep, {"files/new": 0})
    sweep.refer("files/new")
    assert sweep("dry", breakers=normal).ok
    with pytest.raises(Refusal, match="filejobs bucket adopt uploads --again"):
        enter(sweep, BY_NAME["upload_reservations"])
    vouch(sweep, "the uploads of these days failed")
    enter(sweep, BY_NAME["upload_reservations"])
    [event] = sweep.events("bucket.doubt_dismissed")
    assert event["reason"] == "the uploads of these days failed"


def test_a_database_that_looks_older_than_the_bucket_is_not_believed(sweep: Sweeper) -> None:
    sweep.min_age = timedelta(hours=48)
    known = [f"files/{number:03d}" for number in range(200)]
    lost = {f"files/lost/{days}": days for days in range(1, 10)}
    put_so_long_ago(sweep, {key: 10 + number for number, key in enumerate(known)} | lost)
    sweep.refer(*known)
    everything = {*known, *lost}

    sweep.adopt()
    modes: tuple[Mode, ...] = ("live", "dry")
    for mode in modes:
        # The live one without the guard that a finding closes.
        sweep.guards = () if mode == "live" else GUARDS
        outcome = sweep(mode, breakers=BreakersSettings())
        said = str(outcome.error)
        assert ("A live run would be blocked" in said) is (mode == "dry")
        assert "by database_older, so nothing was marked and nothing deleted" in said
        assert "7 objects without a reference are newer, by more than min_age" in said
        assert "The database looks older than the bucket" in said
        assert "would_collect" not in outcome.detail
    assert sweep.installation.keys() >= everything
    assert sweep.candidates() == {}

    # Every job that goes by rows is told, until somebody says for the record that they are right.
    override = Override(breakers=("database_older",), reason="the uploads of these days failed")
    assert sweep("dry", breakers=BreakersSettings(), override=override).ok
    for job in JOBS:
        if job.touches & Doubt.protects:
            with pytest.raises(Refusal, match="database looks older than the bucket") as refused:
                enter(sweep, job)
            assert "7 objects without a reference are newer" in str(refused.value)

    vouch(sweep, "the uploads of these days failed")
    # CONTROL: who passes over it, the run that only marks and the next, loses files in use.
    acted = [sweep(breakers=BreakersSettings(), override=override).acted for _ in range(2)]
    assert acted == [0, 8]
    event, _ = sweep.events("storage_orphans.breakers.overridden")
    assert event["reason"] == "the uploads of these days failed"
    enter(sweep, BY_NAME["deleted_files"])
    assert everything - sweep.installation.keys() == {f"files/lost/{n}" for n in range(2, 10)}


DELETES = [job for job in JOBS if job.deletes_bytes]


def refused_everywhere(sweep: Sweeper, words: str) -> None:
    """Every live run that deletes from the bucket."""
    for job in DELETES:
        with pytest.raises(Refusal, match=words) as refused:
            enter(sweep, job)
        assert "filejobs bucket adopt uploads --again --reason" in str(refused.value), job.name


def test_references_that_are_gone_and_that_no_job_removed_stop_every_job(
    sweep: Sweeper, collect: CollectsReservations
) -> None:
    known = [f"files/{number:03d}" for number in range(75)]
    sweep.put(*known)
    sweep.refer(*known)
    normal = BreakersSettings(max_newer=1000)
    assert sweep(breakers=normal).ok
    lost = known[:6]
    sweep.installation.execute("DELETE FROM file WHERE storage_key = ANY(%s)", (lost,))
    # In the backup this file is a reservation, which its client has completed since.
    sweep.installation.execute(
        "UPDATE file SET state = 'pending', upload_expires_at = now() - interval '1 day'"
        " WHERE storage_key = %s",
        (known[6],),
    )

    outcome = sweep("dry", breakers=normal)
    assert "by reference_shrink, so nothing was marked" in str(outcome.error)
    assert "source file: 69 keys, 75 in the last complete pass, 8 % fewer" in str(outcome.error)
    assert "filejobs bucket adopt uploads --again --reason" in str(outcome.error)
    assert "would_collect" not in outcome.detail
    refused_everywhere(sweep, "references are gone that no job has removed .source file: 69 keys")
    assert sweep.installation.keys() == set(known)

    # One command, and both what was found and what it was compared with are history.
    vouch(sweep, "the application has deleted six accounts")
    for job in DELETES:
        enter(sweep, job)
    assert sweep("dry", breakers=normal).ok

    # CONTROL: a job that does not hear of it deletes what was in use.
    assert collect().acted == 1
    assert set(known) - sweep.installation.keys() == {known[6]}
    assert sweep(breakers=NEVER_TRIPS).acted == 6


EXPIRE = """
UPDATE file SET state = 'pending', upload_expires_at = now() - interval '1 day'
 WHERE storage_key = ANY(%s)
"""


def test_what_jobs_have_removed_since_the_last_pass_is_no_loss(
    sweep: Sweeper, collect: CollectsReservations
) -> None:
    known = [f"files/{number:03d}" for number in range(75)]
    sweep.put(*known)
    sweep.refer(*known)
    normal = BreakersSettings(max_newer=1000)
    assert sweep(breakers=normal).ok
    lost = known[:6]
    sweep.installation.execute("DELETE FROM file WHERE storage_key = ANY(%s)", (lost,))
    # Six that the pass counted as well, and that a job takes: those are no loss.
    sweep.installation.execute(EXPIRE, (known[6:12],))
    assert collect().acted == 6
    outcome = sweep("dry", breakers=normal)
    assert "source file: 63 keys, 75 in the last complete pass, at most 6 removed" in str(
        outcome.error
    )
    vouch(sweep, "those six were test data")
    assert sweep("dry", breakers=normal).ok
    sweep.installation.execute(EXPIRE, (known[12:18],))
    assert collect().acted == 6
    outcome = sweep("dry", breakers=normal)
    assert outcome.ok, outcome.error


def test_rows_that_came_and_went_since_the_last_pass_hide_no_loss(
    sweep: Sweeper, collect: CollectsReservations
) -> None:
    known = [f"files/{number:03d}" for number in range(75)]
    new = [f"files/new/{number:02d}" for number in range(30)]
    sweep.put(*known)
    sweep.refer(*known)
    normal = BreakersSettings(max_newer=1000)
    assert sweep(breakers=normal).ok
    lost = known[:6]
    sweep.installation.execute("DELETE FROM file WHERE storage_key = ANY(%s)", (lost,))
    sweep.put(*new)
    sweep.refer(*new)
    sweep.installation.execute(EXPIRE, (new[:20],))
    assert collect().acted == 20

    assert "source file: 69 keys, 75 in the last complete pass, 10 newer ones" in str(
        sweep("dry", breakers=normal).error
    )
    refused_everywhere(sweep, "references are gone that no job has removed .source file: 69 keys")

    # CONTROL: who adds up all rows that there are, or that jobs took, deletes what was in use.
    sweep.guards = ()
    vouch(sweep, "there are more rows than before")
    assert sweep(breakers=normal).ok
    assert sweep(breakers=normal).acted == 6
    assert set(known) - sweep.installation.keys() == set(lost)


@pytest.mark.parametrize("references", [1, 40])
def test_an_empty_listing_where_references_lie_stops_every_job(
    sweep: Sweeper, collect: CollectsReservations, references: int
) -> None:
    """The settings lead to another bucket of that name: a copy, a new server, a lost disk."""
    sweep.adopt()
    sweep.refer(*(f"files/{number:03d}" for number in range(references)))
    due = sweep.installation.reserve("files/due", body=None)
    outcome = sweep("dry", breakers=BreakersSettings())
    assert "by missing_fraction" in str(outcome.error)
    refused_everywhere(sweep, f"nothing lies in owns, and {references} references say")
    # An empty bucket to which nothing refers is none.
    vouch(sweep, "the bucket was lost, and is filled again from its copy")
    sweep.installation.execute("DELETE FROM file WHERE state = 'ready'")
    assert sweep("dry", breakers=BreakersSettings()).ok
    for job in DELETES:
        enter(sweep, job)

    # CONTROL: a job that does not hear of it takes the row, and leaves its object where it is.
    assert collect().acted == 1
    assert sweep.installation.execute("SELECT id FROM file WHERE id = %s", (due,)) == []
