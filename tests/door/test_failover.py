"""A standby is promoted while a run drains on the old primary; a real one, over a real stream."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.door import belonging
from filejobs_dagster.door.adoption import inspect, judge
from filejobs_dagster.door.refusals import DatabaseRestored, LeftBehind
from filejobs_dagster.door.sides import Place
from filejobs_dagster.embedded.postgres import EmbeddedPostgres
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.references.replica import catch_up
from filejobs_dagster.references.unknown import ReferencesUnknown
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance
from tests.orchestration.conftest import Code, failure_of
from tests.references.test_replica import start_replica

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

BATCH = 4
KEYS = [f"files/{number:02}" for number in range(3 * BATCH)]


@dataclass
class Pair:
    """A primary, its standby, and the address that everybody is told, as a virtual IP would be."""

    primary: EmbeddedPostgres
    standby: EmbeddedPostgres
    address: Path

    @property
    def url(self) -> str:
        return self.primary.url().replace(str(self.primary._place.socket), str(self.address))

    def move_address(self) -> None:
        self.address.unlink()
        self.address.symlink_to(self.standby._place.socket)

    def promote(self) -> None:
        """Once the standby has everything: a switch that loses no commit."""
        with (
            psycopg.connect(self.primary.url(), autocommit=True) as primary,
            psycopg.connect(self.standby.url(), autocommit=True) as standby,
        ):
            catch_up(primary, standby, "nothing")
            standby.execute("SELECT pg_promote()")


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)
        primary = stack.enter_context(EmbeddedPostgres.start(durable=False))
        migrate(primary.url())
        standby = stack.enter_context(start_replica(primary))
        address = folder / "current"
        address.symlink_to(primary._place.socket)
        yield Pair(primary, standby, address)


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


def after_first_batch(monkeypatch: pytest.MonkeyPatch, then: Callable[[], None]) -> None:
    """Do it right before the proof that comes first once some objects are gone."""
    proven = RunContext.prove_alive
    done: list[int] = []

    def prove_alive(self: RunContext) -> None:
        with self.database.transaction(self.connection, read_only=True) as cursor:
            _, acted, _ = self.progress.committed(cursor)
        if acted and not done:
            done.append(acted)
            then()
        proven(self)

    monkeypatch.setattr(RunContext, "prove_alive", prove_alive)


def verdict(installation: Installation) -> str:
    """What bucket and database say together, by the name of the refusal."""
    settings = installation.settings()
    with installation.database.connect("test") as connection:
        place = Place.of(
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
