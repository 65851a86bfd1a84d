"""Which multipart uploads go, which stay, and what the record says of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.multipart_uploads.sweep import KnownUploads
from filejobs_dagster.objects.deletion_mode import abilities_of
from filejobs_dagster.objects.gate import NO_OWNERS, Admission, Gate
from tests.objects.multipart.server import NOW, Part, is_abort

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.references.own_tables import Claim
    from filejobs_dagster.run_context import RunContext
    from tests.jobs.multipart_uploads.conftest import Sweeper
    from tests.objects.scripted import ScriptedS3

HOURS = timedelta(hours=1)
TWO_DAYS = timedelta(days=2)


class GateThatAsksNobody(Gate):
    """CONTROL: looks at names and dates only, as a lifecycle rule does."""

    def admit(
        self,
        keys: Sequence[str],
        *,
        claims: Sequence[Claim] = (),
        owners: Mapping[str, Sequence[str]] = NO_OWNERS,
    ) -> Admission:
        del claims, owners
        return Admission(admitted=tuple(keys))


# Idle by the newest part


def test_a_slow_upload_that_began_long_ago_stays_while_its_parts_keep_coming(
    sweep: Sweeper,
) -> None:
    slow = sweep.server.begin("files/slow", 5, 7, idle=TWO_DAYS + HOURS)
    sweep.server.uploads[slow].parts[2].modified = NOW - timedelta(minutes=5)
    idle = sweep.server.begin("files/idle", 5, 7, idle=TWO_DAYS + HOURS, age=9 * TWO_DAYS)
    young = sweep.server.begin("files/young", idle=HOURS)
    empty = sweep.server.begin("files/empty", idle=TWO_DAYS + HOURS)

    outcome = sweep(idle_for=TWO_DAYS)

    assert outcome.ok, outcome.error
    assert sweep.there == {slow, young}
    assert (outcome.scanned, outcome.acted) == (4, 2)
    assert outcome.detail["classes"] == {"still active": 1, "young": 1, "aborted": 2}
    assert outcome.detail["bytes_freed"] == 12
    assert outcome.detail["swept"] is True
    assert {idle, empty}.isdisjoint(sweep.there)


def test_control_age_by_initiation_aborts_the_running_upload(sweep: Sweeper) -> None:
    slow = sweep.server.begin("files/slow", 5, 7, idle=TWO_DAYS + HOURS)
    sweep.server.uploads[slow].parts[2].modified = NOW - timedelta(minutes=5)

    listed = sweep.client.list_multipart_uploads(Bucket="acme")["Uploads"]
    for upload in listed:
        if upload["Initiated"] < NOW - TWO_DAYS:
            sweep.client.abort_multipart_upload(
                Bucket="acme", Key=upload["Key"], UploadId=upload["UploadId"]
            )

    assert sweep.there == set(), "five minutes ago its client had sent a part"


@pytest.mark.parametrize("said", [None, datetime(1970, 1, 1, tzinfo=timezone.utc)])
def test_what_has_no_date_is_young(sweep: Sweeper, said: datetime | None) -> None:
    """Some servers write zero for what they do not know."""
    undated = sweep.server.begin("files/a", 5)
    sweep.server.uploads[undated].parts[1].modified = said
    without = sweep.server.begin("files/b")
    sweep.server.uploads[without].initiated = said

    outcome = sweep()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"age unknown": 2}
    assert sweep.there == {undated, without}


def test_idle_for_exactly_as_long_as_the_setting_is_not_yet_idle(sweep: Sweeper) -> None:
    # The cutoff is read later than the part is dated, so a second on either side is told apart.
    before = sweep.server.begin("files/a", 5)
    sweep.server.uploads[before].parts[1].modified = sweep.now - TWO_DAYS - timedelta(seconds=1)
    after = sweep.server.begin("files/b", 5)
    sweep.server.uploads[after].parts[1].modified = sweep.now - TWO_DAYS + timedelta(minutes=1)
    future = sweep.server.begin("files/c", 5)
    sweep.server.uploads[future].parts[1].modified = sweep.now + timedelta(days=400)

    assert sweep(idle_for=TWO_DAYS).ok
    assert sweep.there == {after, future}


# Rows and sources


@pytest.mark.parametrize("state", ["writing", "stored", "uncertain", "cleanup"])
def test_an_upload_whose_row_is_alive_stays_however_old_its_parts_are(
    sweep: Sweeper, state: str
) -> None:
    key, upload_id = sweep.row(state)
    sweep.server.begin(key, 5, 7, upload_id=upload_id)
    other = sweep.server.begin("files/nobody", 3)

    outcome = sweep()

    assert outcome.ok, outcome.error
    assert sweep.there == {upload_id}
    assert outcome.detail["classes"] == {"referenced": 1, "aborted": 1}
    [sample] = outcome.detail["samples"]["referenced"]
    assert sample == f"{key}: referenced by upload"
    assert other not in sweep.there


def test_control_a_collector_that_asks_no_row_aborts_the_upload_of_a_client_at_work(
    sweep: Sweeper,
) -> None:
    key, upload_id = sweep.row("writing")
    sweep.server.begin(key, 5, 7, upload_id=upload_id)
    sweep.gate = GateThatAsksNobody

    assert sweep().ok
    assert sweep.there == set(), "its row says `writing`, and the client is on a slow train"


def test_an_upload_whose_key_a_reservation_or_a_source_of_the_operator_names_stays(
    sweep: Sweeper,
) -> None:
    sweep.installation.execute("CREATE TABLE account (avatar_key text)")
    sweep.installation.execute("INSERT INTO account VALUES ('files/avatar')")
    sweep.installation.execute(
        "INSERT INTO file (storage_key, upload_expires_at) VALUES ('files/reserved', now())"
    )
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {
            "name": "avatars",
            "sql": "select avatar_key from public.account",
            # Its only key is that of an upload at work, so nothing lies under it yet.
            "keys_checked_by_hand": True,
        }
    ]
    # The avatar that the new one is to replace.
    sweep.installation.client.put_object(
        Bucket=sweep.installation.bucket, Key="files/avatar", Body=b"old"
    )
    named = {sweep.server.begin(f"files/{name}", 5) for name in ("avatar", "reserved")}
    sweep.server.begin("files/nobody", 5)

    outcome = sweep()

    assert outcome.ok, outcome.error
    assert sweep.there == named
    assert outcome.detail["classes"] == {"referenced": 2, "aborted": 1}


def test_what_is_protected_or_not_owned_is_never_asked_for(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    kept = {sweep.server.begin(key, 5) for key in ("files/brand/logo", "other/a")}

    outcome = sweep()

    assert outcome.ok, outcome.error
    assert sweep.there == kept
    assert outcome.detail["classes"] == {"kept: protected": 1}
    assert outcome.detail["untouched"] == 1
    assert not any("uploadId=" in request.path for request in scripted.requests)


# Known by the id in a row


def test_an_upload_that_the_server_has_forgotten_is_aborted_by_the_id_of_its_row(
    sweep: Sweeper,
) -> None:
    key, upload_id = sweep.row("cleaned")
    sweep.server.begin(key, 5, 7, upload_id=upload_id, idle=timedelta(minutes=1))
    sweep.server.uploads[upload_id].listed = False
    sweep.row("cleaned")

    outcome = sweep()

    assert outcome.ok, outcome.error
    assert sweep.there == set()
    assert (outcome.scanned, outcome.acted) == (1, 1)
    assert outcome.detail["asked_by_id"] == 2
    assert outcome.detail["bytes_freed"] == 12


def test_control_a_sweep_of_the_listing_alone_never_sees_it(sweep: Sweeper) -> None:
    key, upload_id = sweep.row("cleaned")
    sweep.server.begin(key, 5, 7, upload_id=upload_id)
    sweep.server.uploads[upload_id].listed = False

    assert sweep(ask_again_for=timedelta(0)).ok
    assert sweep.there == {upload_id}, "paid for without end, and in no listing"


@pytest.mark.parametrize("mode", ["dry", "live"])
def test_an_upload_that_is_listed_and_known_by_its_row_counts_once(
    sweep: Sweeper, mode: str
) -> None:
    key, upload_id = sweep.row("cleaned")
    sweep.server.begin(key, 5, 7, upload_id=upload_id)
    outcome = sweep("live" if mode == "live" else "dry")
    assert outcome.ok, outcome.error
    assert outcome.scanned == 1
    assert sum(outcome.detail["classes"].values()) == 1


def test_rows_that_were_cleaned_long_ago_are_left_to_the_listing(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    sweep.row("cleaned", cleaned_ago=timedelta(days=8))
    outcome = sweep(ask_again_for=timedelta(days=7))
    assert outcome.detail["asked_by_id"] == 0
    assert not any("uploadId=" in request.path for request in scripted.requests)


# Parts that land later


def test_parts_that_stay_after_every_try_are_left_and_said_and_taken_by_the_next_run(
    sweep: Sweeper,
) -> None:
    upload_id = sweep.server.begin("files/a", 5, 7)
    sweep.server.uploads[upload_id].stubborn = 6
    sweep.server.begin("files/b", 100)

    first = sweep()
    assert first.ok, first.error
    assert first.detail["classes"] == {"parts left": 1, "aborted": 1}
    assert (first.detail["uploads_left"], first.detail["swept"]) == (1, False)
    assert first.detail["bytes_freed"] == 100
    oldest = NOW - timedelta(days=30) + timedelta(days=7)
    assert first.detail["oldest_left"] == oldest.isoformat()

    second = sweep()
    assert second.ok, second.error
    assert (second.acted, second.detail["bytes_freed"], second.detail["swept"]) == (1, 12, True)
    assert sweep.there == set()


def test_a_part_that_lands_after_the_run_is_found_by_a_later_one(sweep: Sweeper) -> None:
    upload_id = sweep.server.begin("files/a", 5)
    assert sweep().acted == 1
    # It was on its way: the server brings the upload back to life.
    sweep.server.begin("files/a", 9, upload_id=upload_id, idle=timedelta(days=8))
    again = sweep()
    assert (again.acted, again.detail["bytes_freed"]) == (1, 9)
    assert sweep.there == set()


# No such upload


def test_an_upload_that_was_completed_meanwhile_is_told_by_its_object(sweep: Sweeper) -> None:
    upload_id = sweep.server.begin("files/a", 5, 7)

    def complete(request: object) -> None:
        if is_abort(request):  # type: ignore[arg-type]
            sweep.server.uploads.pop(upload_id, None)
            sweep.server.objects["files/a"] = b"complete"

    sweep.server.hooks = [complete]
    outcome = sweep()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"gone, and its key has an object": 1}
    assert outcome.detail["samples"]["gone, and its key has an object"] == [
        "files/a: its key has an object of 8 bytes"
    ]
    assert (outcome.acted, outcome.detail["bytes_freed"]) == (0, 0)
    assert "files/a" in sweep.server.objects


# Many


def test_uploads_of_many_pages_and_of_one_key_are_all_taken(sweep: Sweeper) -> None:
    sweep.server.most = 2
    for number in range(7):
        sweep.server.begin(f"files/{number // 4}", 1, 1, 1)

    outcome = sweep(batch_size=3)

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (7, 7)
    assert outcome.detail["parts_freed"] == 21
    assert len(sweep.events("multipart.abort.intent")) == 3
    assert sweep.there == set()


@pytest.mark.thorough
def test_1001_and_more_uploads_are_all_taken(sweep: Sweeper) -> None:
    for number in range(1_300):
        sweep.server.begin(f"files/{number:05}", 3)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (1_300, 1_300)
    assert outcome.detail["bytes_freed"] == 3_900
    assert sweep.there == set()


# The record


def test_the_intent_is_written_before_and_the_result_after_with_every_number(
    sweep: Sweeper,
) -> None:
    upload_id = sweep.server.begin("files/a\x01", 5, 7)
    seen: list[int] = []
    sweep.server.hooks = [
        lambda request: (
            seen.append(len(sweep.events("multipart.abort.intent"))) if is_abort(request) else None
        )
    ]

    assert sweep(run_id="the-run").ok

    assert seen == [1], "the intent was committed when the abort was sent"
    [intent] = sweep.events("multipart.abort.intent")
    assert intent["uploads"] == [
        {"key": "files/a\x01", "upload_id": upload_id, "parts": 2, "bytes": "12"}
    ]
    assert (intent["job"], intent["run_id"], intent["bucket"]) == (
        "multipart_uploads", "the-run", "acme",
    )  # fmt: skip
    [result] = sweep.events("multipart.abort.result")
    assert (result["aborted"], result["parts"], result["bytes_freed"]) == (1, 2, "12")
    assert result["others"] == []


def test_a_part_that_comes_between_the_look_and_the_abort_keeps_its_upload(
    sweep: Sweeper, scripted: ScriptedS3
) -> None:
    upload_id = sweep.server.begin("files/a", 5, 7)

    def resume(_request: object) -> None:
        if sweep.events("multipart.abort.intent"):
            sweep.server.uploads[upload_id].parts[3] = Part(9, NOW)

    sweep.server.hooks = [resume]
    outcome = sweep()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"still active": 1}
    assert sweep.there == {upload_id}
    assert not any(map(is_abort, scripted.requests))


# A server that lists none


def test_a_server_that_lists_no_uploads_is_told_from_a_bucket_without_any(sweep: Sweeper) -> None:
    hidden = []
    for state in ("writing", "uncertain"):
        key, upload_id = sweep.row(state)
        hidden.append(sweep.server.begin(key, 5, upload_id=upload_id))
        sweep.server.uploads[upload_id].listed = False

    outcome = sweep()
    assert outcome.ok, outcome.error
    assert (outcome.acted, outcome.detail["swept"]) == (0, False)
    assert "does not list multipart uploads" in outcome.detail["finding"]
    assert "does not list multipart uploads" in sweep("dry").detail["explained"]

    for upload_id in hidden:
        sweep.server.uploads[upload_id].listed = True
    outcome = sweep()
    assert (outcome.detail["finding"], outcome.detail["swept"]) == (None, True)

    def as_probed(_run: RunContext) -> None:
        abilities_of(sweep.client, "acme").lists_uploads = False

    sweep.hook = as_probed
    assert "does not list" in sweep().detail["finding"], "as the probe has found it out"


def test_control_an_empty_listing_alone_says_nothing_of_what_lies_there(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, upload_id = sweep.row("uncertain")
    sweep.server.begin(key, 5, upload_id=upload_id)
    sweep.server.uploads[upload_id].listed = False
    monkeypatch.setattr(KnownUploads, "at_work", lambda _self, _most: [])
    assert sweep().detail["swept"] is True
    assert sweep.there == {upload_id}
