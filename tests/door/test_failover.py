"""A standby is promoted while a run drains on the old primary; a real one, over a real stream."""

from __future__ import annotations

import json
import time
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.doctor.database import check_standbys
from filejobs_dagster.door import belonging
from filejobs_dagster.door.adoption import inspect, judge
from filejobs_dagster.door.adoption_target import AdoptionTarget
from filejobs_dagster.door.belonging import Belonging
from filejobs_dagster.door.guard import DatabaseRestored, LeftBehind
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.references.replica import catch_up
from tests.door.pairs import Pair, after_first_batch, started_pair
from tests.installation import MARKERS, Installation, make_installation
from tests.instances import dagster_instance
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.orchestration.conftest import Code, failure_of
from tests.references.test_replica import start_replica

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

BATCH = 4
KEYS = [f"files/{number:02}" for number in range(3 * BATCH)]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with started_pair(migrate) as pair:
        yield pair


@pytest.fixture
def installation(
    tmp_path: Path, pair: Pair, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    installation = make_installation(tmp_path, pair.url, bucket, s3_client, s3_server)
    for key in KEYS:
        installation.reserve(key)
    return installation


def on(installation: Installation, server: EmbeddedPostgres) -> Installation:
    """The same installation, whose settings lead straight to one of the servers."""
    return Installation(
        installation.folder,
        server.url(),
        installation.bucket,
        installation.client,
        installation.endpoint_url,
        installation.document,
    )


def verdict(installation: Installation) -> str:
    """What bucket and database say together, by the name of the refusal."""
    settings = installation.settings()
    with installation.database.connect("test") as connection:
        place = AdoptionTarget.of(
            settings,
            settings.buckets["uploads"],
            installation.client,
            installation.database,
            connection,
        )
        try:
            judge(place, inspect(place))
        except (DatabaseRestored, LeftBehind) as refused:
            return type(refused).__name__
    return "adopted"


@pytest.mark.parametrize("told_by", ["the address", "the marker", "nobody: control"])
def test_a_drain_on_the_old_primary_stops_once_it_can_know_of_the_promotion(
    installation: Installation, pair: Pair, monkeypatch: pytest.MonkeyPatch, told_by: str
) -> None:
    """Of what the promoted server refers to, nothing is lost; unless nobody tells the old one."""
    monkeypatch.setattr(belonging, "FRESH_FOR", 0.0)
    new = on(installation, pair.standby)
    used: list[str] = []

    def fail_over() -> None:
        pair.promote()
        # The clients go on at the promoted server, and complete what is still reserved there.
        used.extend(
            key for (key,) in new.execute("UPDATE file SET state = 'ready' RETURNING storage_key")
        )
        if told_by == "the address":
            pair.move_address()
        elif told_by == "the marker":
            new.adopt()

    after_first_batch(monkeypatch, fail_over)
    with dagster_instance() as instance:
        result = Code(installation, instance).run(dry_run=False, batch_size=BATCH)

        assert len(used) == len(KEYS) - BATCH
        lost = set(used) - installation.keys()
        if told_by == "nobody: control":
            assert lost == set(used)
            return
        assert lost == set()
        assert "promoted" in failure_of(result)

        # The new primary is not taken for restored, and the old one never gets the bucket back.
        monkeypatch.undo()
        new.reserve("files/late")
        again = Code(new, instance).run(dry_run=False)
        assert again.success, failure_of(again)
        assert set(used) <= installation.keys()
        assert not installation.has_object("files/late")
        assert verdict(on(installation, pair.primary)) == "LeftBehind"
        left_behind = Code(on(installation, pair.primary), instance)
        left_behind.adopted = False
        assert "old primary" in failure_of(left_behind.run(dry_run=False))


@pytest.mark.parametrize("told", [True, False], ids=["told", "nobody tells: control"])
def test_a_drain_of_orphans_stops_once_the_standby_is_promoted(
    installation: Installation, pair: Pair, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """A quarter is referred to on the new primary, which is not taken for a restored one."""
    monkeypatch.setattr(belonging, "FRESH_FOR", 0.0)
    installation.execute("DELETE FROM file")
    new = on(installation, pair.standby)
    orphans = [f"files/orphan-{number:04}" for number in range(240)]
    used = orphans[-60:]
    client = make_client(installation.settings().buckets["uploads"])
    sweep = Sweeper(installation, client)
    sweep.put(*orphans)
    for key in KEYS:
        client.delete_object(Bucket=installation.bucket, Key=key)
    sweep.seen_before_there(*orphans)

    def fail_over() -> None:
        pair.promote()
        Sweeper(new, client).refer(*used)
        if told:
            pair.move_address()

    with monkeypatch.context() as patch:
        after_first_batch(patch, fail_over)
        outcome = sweep(batch_size=50)
    left = installation.keys()
    if not told:
        assert outcome.ok, outcome.error
        assert left == {"files/used"}
        return
    assert "a standby was promoted" in (outcome.error or "")
    assert len(left) == 240 - 50 + 1
    assert set(used) <= left

    assert verdict(new) == "adopted"
    again = Sweeper(new, client)(batch_size=50)
    assert again.ok, again.error
    assert installation.keys() == {*used, "files/used"}
    left_behind = Sweeper(on(installation, pair.primary), client, adopted=False)
    assert "old primary" in (left_behind().error or "")


@pytest.mark.parametrize("told", [True, False], ids=["told", "nobody looks: control"])
def test_a_drain_of_orphans_stops_once_another_database_has_the_marker(
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
    told: bool,
) -> None:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    client = make_client(installation.settings().buckets["uploads"])
    guards = [guard for guard in GUARDS if told or not isinstance(guard, Belonging)]
    sweep = Sweeper(installation, client, guards=guards)
    orphans = [f"files/orphan-{number:04}" for number in range(350)]
    sweep.seen_before(*orphans)

    def somebody_else_takes_the_bucket() -> None:
        key = f"{MARKERS}/test.json"
        marker = json.loads(client.get_object(Bucket=bucket, Key=key)["Body"].read())
        marker["counter"] += 7
        marker["database"] = {**marker["database"], "system_identifier": "1"}
        client.put_object(Bucket=bucket, Key=key, Body=json.dumps(marker).encode())

    after_first_batch(monkeypatch, somebody_else_takes_the_bucket)
    outcome = sweep(batch_size=50)
    left = installation.keys() - {"files/used"}
    if not told:
        assert outcome.ok, outcome.error
        assert left == set()
        return
    assert len(left) == 300, "one batch went, and none after it"
    assert "belongs to the database" in (outcome.error or "")
    assert "What this run had not deleted yet it leaves alone." in (outcome.error or "")


def test_a_promotion_that_lost_commits_is_refused_and_told_from_one_that_lost_none(
    installation: Installation, pair: Pair
) -> None:
    installation.adopt()
    new, old = on(installation, pair.standby), on(installation, pair.primary)
    # What an asynchronous standby had not got: the old primary's last count.
    pair.promote()
    assert verdict(new) == "adopted"
    with dagster_instance() as instance:
        assert Code(old, instance).run(dry_run=False).success
        assert verdict(new) == "DatabaseRestored"
        behind = Code(new, instance)
        behind.adopted = False
        said = failure_of(behind.run(dry_run=False))
    assert "asynchronous standby was promoted" in said
    assert "restored to a point in time" in said
    assert "filejobs bucket adopt --again" in said


def test_the_doctor_says_which_standby_can_lose_what_was_committed(pair: Pair) -> None:
    def said(url: str) -> Finding:
        with psycopg.connect(url) as connection:
            return check_standbys("standbys", connection.cursor())

    role = pair.primary.url().replace("postgres@", "collector@")
    with psycopg.connect(pair.primary.url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE collector LOGIN")
        unseen, seen = said(role), said(pair.primary.url())
        assert (unseen.verdict, seen.verdict) == ("warning", "warning")
        assert "GRANT pg_read_all_stats TO collector" in unseen.advice
        assert "replicates asynchronously" in seen.found
        assert "synchronous_standby_names" in seen.advice
        connection.execute("GRANT pg_read_all_stats TO collector")
        connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        connection.execute("SELECT pg_reload_conf()")
        while said(role).verdict == "warning":
            time.sleep(0.1)
        assert said(role).found == "a commit waits for a synchronous standby (*)"
    assert "no standby is connected" in said(pair.standby.url()).found


def test_a_promoted_replica_is_not_taken_for_the_primary(pair: Pair) -> None:
    with (
        psycopg.connect(pair.primary.url(), autocommit=True) as primary,
        psycopg.connect(pair.standby.url(), autocommit=True) as standby,
    ):
        assert catch_up(primary, standby, "x") is not None
        pair.promote()
        primary.execute("CREATE TABLE since (key text)")
        seen = standby.execute("SELECT to_regclass('since')").fetchone()
        assert seen == (None,), "what the careless version would read from"
        with pytest.raises(ReferencesUnknown, match="it was promoted"):
            catch_up(primary, standby, "x")
        with pytest.raises(ReferencesUnknown, match="it was promoted"):
            catch_up(standby, primary, "x")
        assert catch_up(standby, standby, "x") is None


def test_a_replica_that_still_follows_the_old_primary_is_no_replica_of_the_new_one(
    pair: Pair,
) -> None:
    with start_replica(pair.primary) as second:
        pair.promote()
        with (
            psycopg.connect(pair.primary.url(), autocommit=True) as old,
            psycopg.connect(pair.standby.url(), autocommit=True) as new,
            psycopg.connect(second.url(), autocommit=True) as replica,
        ):
            # Its log grows further than that of the new one: by positions alone it would pass.
            old.execute(
                "CREATE TABLE padding AS SELECT repeat('x', 9000) FROM generate_series(1,99)"
            )
            assert catch_up(old, replica, "x") is not None
            with pytest.raises(ReferencesUnknown, match="follows timeline 1, and the primary"):
                catch_up(new, replica, "x", wait=timedelta(seconds=0.3))
