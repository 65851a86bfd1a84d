"""Pins on a real server: locked, never written over, read below a delete marker."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from botocore.exceptions import ClientError

from filejobs_dagster.audit.pins.places import S3Pins
from filejobs_dagster.audit.pins.store import Equivocation, PinStoreUnusable
from filejobs_dagster.audit.seal import SealPolicy
from filejobs_dagster.audit.trim import TrimPolicy
from filejobs_dagster.audit.trim.archive import StoreArchive
from filejobs_dagster.jobs import audit_seal, audit_trim, audit_verify
from filejobs_dagster.jobs.audit import AuditSealRun, AuditTrimRun, AuditVerifyRun
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.postgres.connect import Database
from tests.audit.world import DAY, ORIGIN, World
from tests.conformance.gateway import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

pytestmark = pytest.mark.conformance

KEEP_FOR = 300 * DAY


@pytest.fixture
def world(owner: S3Client, locking_bucket: str, database_url: str) -> Iterator[World]:
    """30 events of 200 days ago, and a place for pins that locks."""
    database = Database(database_url)
    with database.connect("test") as connection:
        pins = S3Pins(owner, locking_bucket, prefix="pins/")
        world = World(database, connection, pins=pins, grace=timedelta(minutes=15))
        world.append_in_the_past(30, 200 * DAY)
        yield world


def _run(
    world: World, job: str, body: Callable[[RunContext], Outcome], mode: Mode = "live"
) -> Outcome:
    identity = RunIdentity(str(uuid.uuid4()), "test", job, mode, Trigger("cli"), "the test")
    return run_job(RunSpec(identity), world.database, body, logging.getLogger("test"), door=None)


def seal(world: World) -> Outcome:
    policy = SealPolicy(world.verify_policy, (world.signer,), pin_for=KEEP_FOR)
    return _run(world, "audit_seal", lambda run: audit_seal.run(run, AuditSealRun(), policy))


def verify(world: World) -> Outcome:
    return _run(
        world,
        "audit_verify",
        lambda run: audit_verify.run(run, AuditVerifyRun(), world.verify_policy),
        "dry",
    )


def trim(world: World, policy: TrimPolicy | None = None) -> Outcome:
    chosen = policy or TrimPolicy(world.verify_policy, 150 * DAY, (world.signer,), pin_for=KEEP_FOR)
    return _run(world, "audit_trim", lambda run: audit_trim.run(run, AuditTrimRun(), chosen))


def test_seal_trim_and_verify_with_locked_pins(
    world: World, owner: S3Client, locking_bucket: str
) -> None:
    assert seal(world).ok
    world.append(5)
    outcome = seal(world)
    assert outcome.ok, outcome.error
    assert "COMPLIANCE" in outcome.detail["pins"]
    archive = StoreArchive(S3Pins(owner, locking_bucket, prefix="archive/"))
    outcome = trim(
        world,
        TrimPolicy(
            world.verify_policy, 150 * DAY, (world.signer,), pin_for=KEEP_FOR, archive=archive
        ),
    )
    assert outcome.ok, outcome.error
    assert outcome.acted == 30
    outcome = verify(world)
    assert outcome.ok, outcome.error
    kept = sorted(key for key, _ in versions(owner, locking_bucket).kept)
    words = [key.removeprefix(f"pins/{ORIGIN}/a/1/").split("/")[0] for key in kept]
    assert words == ["archive", "manifest", "seal", "seal", "trim"]
    assert all(
        owner.get_object_retention(Bucket=locking_bucket, Key=key)["Retention"]["Mode"]
        == "COMPLIANCE"
        for key in kept[1:]
    )


def test_nobody_removes_a_pin_before_its_time_and_a_marker_hides_nothing(
    world: World, owner: S3Client, locking_bucket: str
) -> None:
    assert seal(world).ok
    pins = sorted(versions(owner, locking_bucket).kept)
    assert len(pins) == 2, "a manifest and a seal"
    for key, version in pins:
        with pytest.raises(ClientError, match="AccessDenied"):
            owner.delete_object(Bucket=locking_bucket, Key=key, VersionId=version)
        owner.delete_object(Bucket=locking_bucket, Key=key)
        outcome = verify(world)
        assert outcome.error is not None
        assert outcome.error.startswith("a: PIN_MARKER")
        # CONTROL: whoever only gets the key finds no pin at all.
        with pytest.raises(ClientError, match="NoSuchKey"):
            owner.get_object(Bucket=locking_bucket, Key=key)


def test_an_edit_that_was_chained_anew_is_found_by_the_pin_alone(world: World) -> None:
    assert seal(world).ok
    with world.connection.transaction():
        world.connection.execute("SET LOCAL session_replication_role = replica")
        world.connection.execute("DELETE FROM audit_event WHERE seq > 20")
        world.connection.execute("DELETE FROM audit_seal")
        world.connection.execute(
            "UPDATE audit_chain SET head_seq = 20,"
            " head_hash = (SELECT hash FROM audit_event WHERE seq = 20)"
        )
    found = verify(world)
    assert found.error is not None
    assert "PIN_AHEAD_SEAL" in found.error
    assert "PIN_TAIL" in found.error
    # CONTROL: without the pins nothing is found.
    world.pins = None
    assert verify(world).ok


def test_another_text_is_not_written_over_also_below_a_marker(
    owner: S3Client, locking_bucket: str
) -> None:
    pins = S3Pins(owner, locking_bucket, prefix="pins/")
    until = datetime.now(timezone.utc) + DAY
    first = pins.put_once("x", b"one", retain_until=until)
    assert first.locked_until is not None
    assert pins.put_once("x", b"one", retain_until=until).was_there
    with pytest.raises(Equivocation):
        pins.put_once("x", b"two", retain_until=until)
    owner.delete_object(Bucket=locking_bucket, Key="pins/x")
    with pytest.raises(Equivocation):
        pins.put_once("x", b"two", retain_until=until)
    assert len(versions(owner, locking_bucket).kept) == 1


def test_a_reader_without_the_right_to_list_versions_says_nothing(
    world: World, guest: S3Client, locking_bucket: str
) -> None:
    assert seal(world).ok
    blind = replace(world, pins=S3Pins(guest, locking_bucket, prefix="pins/"))
    outcome = verify(blind)
    assert outcome.error is not None
    assert outcome.error.startswith("PINS_UNUSABLE: ")
    with pytest.raises(PinStoreUnusable, match="AccessDenied"):
        blind.pins.list("")


def test_a_bucket_without_object_lock_says_that_it_protects_nothing(
    owner: S3Client, bucket: str
) -> None:
    pins = S3Pins(owner, bucket, prefix="pins/")
    assert pins.protects is False
    assert "no Object Lock" in pins.description
    assert pins.put_once("x", b"one", retain_until=datetime.now(timezone.utc) + DAY).key == "x"
    assert pins.get(pins.list("")[0]).content == b"one"
