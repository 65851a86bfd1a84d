"""What must fail, with nothing deleted, and what is counted apart and lets the others go on."""

from __future__ import annotations

import io
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.door import clocks
from filejobs_dagster.jobs.storage_orphans import one_pass
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings
from filejobs_dagster.objects.listing import list_objects
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.operator import ReferencesUnknown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from filejobs_dagster.references.reference_set import ReferenceSet
    from tests.jobs.storage_orphans.conftest import Sweeper

IN_USE = [f"files/{number:03d}" for number in range(5)]


@pytest.fixture
def full(sweep: Sweeper) -> Sweeper:
    """Objects that are all in use, one that is not, and a first run that has seen it."""
    sweep.refer(*IN_USE)
    sweep.put(*IN_USE)
    sweep.seen_before("files/orphan")
    return sweep


def unharmed(sweep: Sweeper) -> bool:
    return sweep.installation.keys() >= {*IN_USE, "files/orphan", "files/used"}


def test_a_source_that_fails_half_way_fails_the_run_with_nothing_deleted(full: Sweeper) -> None:
    full.installation.document["buckets"]["uploads"]["sources"] = [
        {
            "name": "breaks",
            "sql": "select case when n < 25000 then 'files/' || n else (1 / (n - n))::text end "
            "from generate_series(1, 30000) as n",
            "min_rows": 0,
        }
    ]
    outcome = full()
    assert not outcome.ok
    assert "breaks" in str(outcome.error)
    assert "nothing is deleted" in str(outcome.error).lower()
    assert unharmed(full)


class ForgetsWhatItCouldNotRead:
    """CONTROL: takes what a source returned before it broke for all of it."""

    def __init__(self, *given: Any, **more: Any) -> None:
        self._careful = BulkReferences(*given, **more)
        self._empty = BulkReferences(given[0], (), **{**more, "own_tables": ()})

    def read(self) -> ReferenceSet:
        try:
            return self._careful.read()
        except ReferencesUnknown:
            return self._empty.read()


def test_control_who_goes_on_with_what_was_read_deletes_everything(
    full: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "breaks", "sql": "select (1 / 0)::text", "min_rows": 0}
    ]
    monkeypatch.setattr(one_pass, "BulkReferences", ForgetsWhatItCouldNotRead)

    def examine(self: ReferenceCheck) -> tuple[str, ...]:
        self.samples["breaks"] = {}
        return ()

    monkeypatch.setattr(ReferenceCheck, "examine", examine)
    monkeypatch.setattr(full.gate, "_judged", lambda _self, _keys, _claims: {})
    monkeypatch.setattr(one_pass, "_prove_check_knows", lambda _storage, _references: None)
    monkeypatch.setattr(
        "filejobs_dagster.jobs.storage_orphans.breakers.Reading.blocks", property(lambda _: False)
    )
    full()
    full()
    assert full.installation.keys() == set()


@pytest.mark.parametrize("left", [0, 1])
def test_a_table_that_is_suddenly_empty_or_nearly_so_is_not_believed(
    full: Sweeper, left: int
) -> None:
    full.installation.execute(
        "DELETE FROM file WHERE storage_key NOT IN"
        " (SELECT storage_key FROM file ORDER BY storage_key LIMIT %s)",
        (left,),
    )
    outcome = full(breakers=BreakersSettings(max_orphan_fraction=1))
    assert not outcome.ok
    assert "reference_shrink" in str(outcome.error)
    assert unharmed(full)


def test_a_listing_that_ends_early_without_saying_so_is_not_believed(
    full: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing = list_objects

    def ends_early(*given: Any, **more: Any) -> Any:
        listed = listing(*given, **more)
        pages = list(listed.pages())

        class Early:
            objects, bytes = listed.objects, listed.bytes
            ordered_by_server, parts = True, 1

            def pages(self) -> Any:
                return iter([page.first(len(page) // 2) for page in pages])

        return Early()

    monkeypatch.setattr(one_pass, "list_objects", ends_early)
    outcome = full(breakers=BreakersSettings(max_orphan_fraction=1, tolerated=0))
    assert not outcome.ok
    assert "the listing seems to have ended early" in str(outcome.error)
    assert unharmed(full)


def test_a_missing_transform_is_named(sweep: Sweeper) -> None:
    keys = [f"files/{number:03d}" for number in range(20)]
    sweep.put(*keys)
    sweep.installation.execute("CREATE TABLE asset (address text)")
    sweep.installation.execute(
        "INSERT INTO asset SELECT 'https://cdn.example.com/' || key FROM unnest(%s::text[]) AS key",
        (keys,),
    )
    sweep.installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "assets", "sql": "select address from asset"}
    ]
    outcome = sweep("dry", breakers=BreakersSettings())
    assert not outcome.ok
    assert "nothing_matched" in str(outcome.error)
    assert 'strip_base: ["https://cdn.example.com/"]' in str(outcome.error)
    assert sweep.candidates() == {}


def test_a_source_whose_check_does_not_know_its_own_keys_is_refused(full: Sweeper) -> None:
    full.installation.document["buckets"]["uploads"]["sources"] = [
        {
            "name": "assets",
            "sql": "select storage_key || '?v=1' from file",
            "transforms": [{"drop_query": True}],
            "recheck_sql": "select 'nothing' where $1::text[] is null",
        }
    ]
    outcome = full()
    assert not outcome.ok
    assert "its own check before a deletion does not know that key" in str(outcome.error)
    # The list of a dry run would be wrong, so it fails as well.
    dry = full("dry")
    assert not dry.ok
    assert "recognises none of" in str(dry.error)
    assert unharmed(full)


def test_the_wrong_database_is_refused(full: Sweeper) -> None:
    body = full.installation.client.get_object(
        Bucket=full.installation.bucket, Key="filejobs-adopted/test.json"
    )["Body"].read()
    identifier = full.installation.value(
        "SELECT system_identifier::text FROM pg_control_system()"
    ).encode()
    assert identifier in body
    full.installation.client.put_object(
        Bucket=full.installation.bucket,
        Key="filejobs-adopted/test.json",
        Body=body.replace(identifier, b"7000000000000000000"),
    )
    full.adopted = False
    outcome = full()
    assert not outcome.ok
    assert "belongs to the database" in str(outcome.error)
    assert unharmed(full)


def test_a_restored_database_is_refused(full: Sweeper) -> None:
    saved = full.installation.execute("SELECT counter FROM bucket_adoption")[0][0]
    assert full().acted == 1
    full.installation.execute("UPDATE bucket_adoption SET counter = %s", (saved,))
    full.adopted = False
    outcome = full()
    assert not outcome.ok
    assert "restored from a backup" in str(outcome.error)
    said = full("dry")
    assert said.ok, said.error
    assert said.detail["door"]["marker"].startswith("would be refused")


def test_another_environment_is_refused(full: Sweeper) -> None:
    full.environment = "staging"
    full.adopted = False
    outcome = full()
    assert "the settings say the environment 'staging'" in str(outcome.error)
    assert unharmed(full)


def test_clocks_that_are_six_minutes_apart_are_refused_and_both_are_printed(
    full: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = datetime.now(timezone.utc) - timedelta(minutes=6)
    monkeypatch.setattr(clocks, "read_server_date", lambda *_: other)
    outcome = full()
    assert not outcome.ok
    assert f"{other:%Y-%m-%d %H:%M:%S}" in str(outcome.error)
    assert unharmed(full)


def test_a_server_without_a_clock_is_refused(
    full: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "read_server_date", lambda *_: None)
    assert "does not say what time it is" in str(full().error)


def test_a_run_whose_time_is_over_before_the_pass_is_complete_concludes_nothing(
    full: Sweeper,
) -> None:
    outcome = full(max_runtime=timedelta(0))
    assert not outcome.ok
    assert "so nothing was concluded" in str(outcome.error)
    assert unharmed(full)


def test_a_list_that_cannot_be_written_fails_the_run_before_anything_is_deleted(
    full: Sweeper, tmp_path: Path
) -> None:
    from filejobs_dagster.jobs.storage_orphans import ReportSettings  # noqa: PLC0415

    in_the_way = tmp_path / "file"
    in_the_way.write_text("no folder")
    outcome = full(report_to=ReportSettings(folder=str(in_the_way)))
    assert "could not be written" in str(outcome.error)
    assert unharmed(full)


Refusal = tuple[str, int]


def refuse(sweep: Sweeper, refusals: Callable[[str], Refusal | None]) -> list[str]:
    """Answer deletions of single objects as the function says; returns the keys that were asked."""
    asked: list[str] = []

    def answer(params: dict[str, Any], request_signer: Any, **_: Any) -> Any:
        del request_signer
        _, owned, name = params["url"].partition("/files/")
        if not owned:
            return None  # the probe deletes objects of its own
        key = f"files/{name}"
        asked.append(key)
        refusal = refusals(key)
        if refusal is None:
            return None
        code, status = refusal
        body = f"<Error><Code>{code}</Code><Message>made up</Message></Error>".encode()
        return _answer(status, body)

    sweep.client.meta.events.register_first("before-call.s3.DeleteObject", answer)
    return asked


def _answer(status: int, body: bytes) -> Any:
    from botocore.awsrequest import AWSResponse  # noqa: PLC0415 (only where answers are made up)

    response = AWSResponse("http://made.up", status, {}, io.BytesIO(body))  # type: ignore[arg-type]
    code = body.split(b"<Code>")[1].split(b"<")[0].decode()
    return response, {
        "Error": {"Code": code, "Message": "made up"},
        "ResponseMetadata": {"HTTPStatusCode": status, "HTTPHeaders": {}},
    }


def test_one_object_that_is_refused_is_counted_and_the_others_go(full: Sweeper) -> None:
    full.put("files/second")
    assert full("dry").ok
    refuse(full, lambda key: ("AccessDenied", 403) if key.endswith("orphan") else None)
    outcome = full()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1
    assert outcome.detail["fates"] == {"deleted": 1, "failed": 1}
    assert outcome.detail["objects_left"] == 1
    assert outcome.detail["swept"] is False
    assert outcome.detail["oldest_left"] is not None
    assert full.candidates() == {"files/orphan": "failed"}
    assert full.installation.has_object("files/orphan")


def test_a_run_in_which_every_object_is_refused_has_failed(full: Sweeper) -> None:
    refuse(full, lambda _key: ("AccessDenied", 403))
    outcome = full()
    assert not outcome.ok
    assert unharmed(full)


def test_expired_credentials_stop_the_sweep_and_the_next_run_goes_on(full: Sweeper) -> None:
    full.put("files/second")
    assert full("dry").ok
    expired = True
    asked = refuse(full, lambda _key: ("ExpiredToken", 400) if expired else None)
    outcome = full(batch_size=1)
    assert not outcome.ok
    assert outcome.acted == 0
    assert len(set(asked)) == 1, "no further batch was begun"
    assert "deleting" in full.candidates().values(), "it may yet go: nobody may refer to it"
    expired = False
    full.deletions_have_arrived()
    after = full()
    assert after.ok, after.error
    assert after.detail["recovered"] == {"gone": 0, "there": 1}
    assert after.acted == 2
