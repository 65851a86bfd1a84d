"""What drops out, run after run: the reason is said, and no such pass is a sweep."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from filejobs_dagster.jobs.storage_orphans import removal
from filejobs_dagster.ledger.standing import Expectation, standings
from filejobs_dagster.objects import identity
from tests.jobs.storage_orphans.test_sweep_doubted import put_so_long_ago

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.jobs.storage_orphans.marks import Intended
    from filejobs_dagster.objects.targets import Expected
    from tests.jobs.storage_orphans.conftest import Sweeper


def upload_again(sweep: Sweeper, key: str) -> Callable[[], None]:
    """The same bytes under the same key, in another second."""

    def put() -> None:
        bucket = sweep.installation.bucket
        before = sweep.installation.client.head_object(Bucket=bucket, Key=key)["LastModified"]
        while datetime.now(timezone.utc) < before + timedelta(seconds=1):
            time.sleep(0.05)
        sweep.put(key)

    return put


def answer_looks(sweep: Sweeper, key: str, status: int) -> list[str]:
    """From now on, a HEAD of the key is answered so; returns those that were asked."""
    asked: list[str] = []

    def answer(request: Any, **_event: object) -> AWSResponse | None:
        if not request.url.endswith(f"/{key}"):
            return None
        asked.append(request.url)
        raw: Any = BytesIO()
        raw.stream = lambda *_amount, **_more: iter(())
        return AWSResponse(request.url, status, HTTPHeaders(), raw)

    events: Any = sweep.client.meta.events
    events.register_last("before-send.s3.HeadObject", answer)
    return asked


def tried_again_now(sweep: Sweeper) -> None:
    sweep.installation.execute("UPDATE setback SET not_before = now()")


def standing_of(
    sweep: Sweeper, detail: dict[str, Any], stale_after: timedelta | None = None
) -> tuple[str, str]:
    """The word and the reason of the job after a run with this record."""
    sweep.installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, scanned, acted,"
        " detail) VALUES (gen_random_uuid()::text, 'test', 'storage_orphans', now(), 'ok', 'live',"
        ' 1, 0, %s::jsonb || \'{"window": {"covers": "everything"}}\')',
        (json.dumps(detail),),
    )
    expected = Expectation("storage_orphans", configured=True, mode="live", stale_after=stale_after)
    with (
        sweep.installation.database.connect("standing") as connection,
        sweep.installation.database.transaction(connection, read_only=True) as cursor,
    ):
        found = next(
            it for it in standings(cursor, "test", [expected]) if it.job == "storage_orphans"
        )
    return found.word, found.reason


def test_the_same_bytes_uploaded_again_stay_and_the_pass_is_no_sweep(sweep: Sweeper) -> None:
    sweep.seen_before("files/a")
    sweep.when["Removing up to"] = upload_again(sweep, "files/a")
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert sweep.installation.has_object("files/a")
    assert outcome.detail["fates"] == {"undecided": 1}
    assert outcome.detail["swept"] is False
    assert "of 1 candidate none went (1 undecided)" in outcome.detail["finding"]
    assert "uploaded again" in outcome.detail["samples"]["undecided"][0]
    word, reason = standing_of(sweep, dict(outcome.detail))
    assert (word, "1 undecided" in reason) == ("behind", True)
    # The listing knows it as another object: it begins anew, and goes when it has waited.
    assert sweep().detail["waiting"] == 1
    assert sweep().acted == 1


def test_control_who_compares_etag_and_size_alone_deletes_the_new_upload(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    same = identity.Comparison("same")
    monkeypatch.setattr(identity, "_by_time", lambda *_looks, **_known: same)
    sweep.seen_before("files/a")
    sweep.when["Removing up to"] = upload_again(sweep, "files/a")
    assert sweep().acted == 1
    assert not sweep.installation.has_object("files/a")


def test_of_a_version_whose_time_was_moved_the_listing_of_versions_decides(sweep: Sweeper) -> None:
    sweep.installation.client.put_bucket_versioning(
        Bucket=sweep.installation.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    sweep.seen_before("files/tagged", "files/again")

    def moved(parsed: dict[str, Any], **_event: object) -> None:
        if "ETag" in parsed:
            parsed["LastModified"] += timedelta(seconds=20)

    sweep.client.meta.events.register("after-call.s3.HeadObject", moved)
    sweep.guards = [it for it in sweep.guards if it.name != "clocks"]
    sweep.when["Removing up to"] = upload_again(sweep, "files/again")
    outcome = sweep()
    assert outcome.detail["fates"] == {"marked": 1, "undecided": 1}, outcome.detail
    assert sweep.installation.keys() == {"files/used", "files/again"}
    assert outcome.detail["swept"] is False
    assert outcome.detail["finding"] is None, "something went"


@dataclass
class DatedAnew:
    """An orphan that HEAD and the listing of versions date later than the listing of objects."""

    sweep: Sweeper
    days: int = 0

    def __post_init__(self) -> None:
        sweep = self.sweep
        sweep.installation.client.put_bucket_versioning(
            Bucket=sweep.installation.bucket, VersioningConfiguration={"Status": "Enabled"}
        )
        put_so_long_ago(sweep, {"files/held": self.days})
        sweep.seen_before_there("files/held")
        events: Any = sweep.client.meta.events
        events.register("after-call.s3.HeadObject", self._moved)
        events.register("after-call.s3.ListObjectVersions", self._versions_moved)
        sweep.guards = [it for it in sweep.guards if it.name != "clocks"]

    @staticmethod
    def _moved(parsed: dict[str, Any], **_event: object) -> None:
        if "ETag" in parsed:
            parsed["LastModified"] += timedelta(seconds=20)

    def _versions_moved(self, parsed: dict[str, Any], **_event: object) -> None:
        for version in parsed.get("Versions", []):
            self._moved(version)

    def undecided(self) -> None:
        """One run, in which nobody can tell; the next one tries again."""
        outcome = self.sweep()
        assert outcome.detail["fates"] == {"undecided": 1}, outcome.detail
        assert self.is_there()
        tried_again_now(self.sweep)

    def is_there(self) -> bool:
        return self.sweep.installation.has_object("files/held")


@pytest.mark.parametrize("purge", [False, True])
def test_what_is_dated_anew_for_good_goes_when_its_version_was_there_before_the_listing(
    sweep: Sweeper, purge: bool
) -> None:
    sweep.installation.document["buckets"]["uploads"]["purge_versions"] = purge
    dated_anew = DatedAnew(sweep)
    dated_anew.undecided()
    outcome = sweep()
    assert outcome.detail["fates"] == {"purged" if purge else "marked": 1}, outcome.detail
    assert outcome.detail["swept"] is True
    assert not dated_anew.is_there()


def test_a_version_that_was_first_seen_less_than_the_minimum_age_ago_decides_nothing(
    sweep: Sweeper,
) -> None:
    dated_anew = DatedAnew(sweep, days=3)
    sweep.min_age = timedelta(days=1)
    dated_anew.undecided()
    dated_anew.undecided()
    sweep.installation.execute(
        "UPDATE orphan_candidate SET seen_as_at = seen_as_at - interval '25 hours'"
    )
    assert sweep().detail["fates"] == {"marked": 1}


def test_the_same_bytes_uploaded_since_the_version_was_seen_stay(sweep: Sweeper) -> None:
    dated_anew = DatedAnew(sweep)
    dated_anew.undecided()
    sweep.when["Removing up to"] = upload_again(sweep, "files/held")
    outcome = sweep()
    assert outcome.detail["fates"] == {"changed meanwhile": 1}, outcome.detail
    assert dated_anew.is_there()


def test_control_who_forgets_which_version_it_was_deletes_the_new_upload(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    dated_anew = DatedAnew(sweep)
    dated_anew.undecided()
    same = identity.Comparison("same")
    monkeypatch.setattr(identity, "_by_time", lambda *_looks, **_known: same)
    expected = removal.Drain._expected

    def forgetful(drain: removal.Drain, one: Intended) -> Expected:
        return replace(expected(drain, one), seen_as=None)

    monkeypatch.setattr(removal.Drain, "_expected", forgetful)
    sweep.when["Removing up to"] = upload_again(sweep, "files/held")
    assert sweep().acted == 1
    assert not dated_anew.is_there()


def test_what_is_listed_and_is_not_there_is_a_ghost_and_does_not_begin_anew(
    sweep: Sweeper,
) -> None:
    sweep.seen_before("files/g")
    asked = answer_looks(sweep, "files/g", 404)
    outcome = sweep()
    assert outcome.detail["fates"] == {"already gone": 1}
    assert outcome.detail["finding"] is None, "whoever was faster is no ghost yet"
    for _ in range(2):
        outcome = sweep()
        assert outcome.detail["put_off"] == {"ghost": 1}
        assert "1 ghost" in outcome.detail["finding"]
        assert outcome.detail["swept"] is False
        assert len(asked) == 1, "later and later"
    tried_again_now(sweep)
    assert sweep().detail["fates"] == {"ghost": 1}
    assert len(asked) == 2
    # Once the listing does not show it any more, it is gone.
    sweep.installation.client.delete_object(Bucket=sweep.installation.bucket, Key="files/g")
    outcome = sweep()
    assert (outcome.detail["finding"], outcome.detail["swept"]) == (None, True)
    assert sweep.candidates() == {}


@pytest.mark.parametrize("status", [400, pytest.param(403, marks=pytest.mark.thorough)])
def test_what_cannot_be_looked_at_has_a_class_of_its_own_and_fails_no_run(
    sweep: Sweeper, status: int
) -> None:
    sweep.seen_before("files/encrypted", "files/plain")
    asked = answer_looks(sweep, "files/encrypted", status)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["fates"] == {"deleted": 1, "cannot be looked at": 1}
    assert (outcome.detail["swept"], outcome.detail["objects_left"]) == (False, 1)
    asked.clear()
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert (outcome.detail["put_off"], asked) == ({"cannot be looked at": 1}, [])
    assert "1 cannot be looked at" in outcome.detail["finding"]
    assert outcome.detail["oldest_left"] is not None
    tried_again_now(sweep)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["fates"] == {"cannot be looked at": 1}
    assert asked
    assert sweep.installation.has_object("files/encrypted")


def test_rules_that_alternate_are_named_and_the_first_sighting_survives_them(
    sweep: Sweeper,
) -> None:
    bucket = sweep.installation.document["buckets"]["uploads"]
    sweep.seen_before("files/a", "files/b")
    sweep.installation.execute(
        "UPDATE orphan_candidate SET first_seen_at = now() - interval '10 days'"
    )
    ago = datetime.now(timezone.utc) - timedelta(days=9)
    for protect in (["files/other/"], ["files/brand/"]):
        bucket["protect"] = protect
        outcome = sweep()
        assert outcome.ok, outcome.error
        assert (outcome.acted, outcome.detail["swept"]) == (0, False)
        assert datetime.fromisoformat(outcome.detail["oldest_left"]) < ago
        assert standing_of(sweep, dict(outcome.detail), timedelta(days=8))[0] == "behind"
        if protect == ["files/other/"]:
            assert outcome.detail["finding"] is None, "the age alone says it"
    assert "to and fro" in outcome.detail["finding"]
    assert "the test" in outcome.detail["finding"], "who ran by the other rules"
    # By one set of rules, seen twice: it goes, whatever came before.
    outcome = sweep()
    assert (outcome.acted, outcome.detail["swept"]) == (2, True), outcome.detail
