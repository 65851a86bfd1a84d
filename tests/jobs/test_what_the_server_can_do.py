"""Every job goes by what the server can do: batches, spellings of ETags, rounded times."""

from __future__ import annotations

from datetime import timedelta
from io import BytesIO
from typing import TYPE_CHECKING, Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders

from filejobs_dagster.objects import identity, sending
from filejobs_dagster.objects.client import make_client
from tests.jobs.conftest import Collector
from tests.jobs.deleted_files.collecting import Files
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

    from tests.installation import Installation

SIX = [f"{number}" for number in range(6)]


class WithoutBatches:
    """A client whose server refuses `POST ?delete`, and knows DELETE."""

    def __init__(self, installation: Installation, status: int, code: str) -> None:
        self.status = status
        self.code = code
        self.asked = 0
        self.client = make_client(installation.settings().buckets["uploads"])
        events: Any = self.client.meta.events
        events.register("before-send.s3.DeleteObjects", self._refuse)

    def _refuse(self, request: Any, **_event: object) -> AWSResponse:
        self.asked += 1
        raw: Any = _Raw(f"<Error><Code>{self.code}</Code></Error>".encode())
        return AWSResponse(request.url, self.status, HTTPHeaders(), raw)


class _Raw(BytesIO):
    def stream(self, *_amount: object) -> Any:
        yield self.read()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        pytest.param(400, "InvalidArgument", marks=pytest.mark.thorough),
        pytest.param(405, "MethodNotAllowed", marks=pytest.mark.thorough),
        (501, "NotImplemented"),
    ],
)
def test_a_server_that_refuses_batches_deletes_one_by_one_in_every_job(
    installation: Installation, status: int, code: str
) -> None:
    server = WithoutBatches(installation, status, code)
    jobs = {
        "reserved": _reservations(installation, server.client),
        "deleted": _deleted_files(installation, server.client),
        "files": _upload_cleanup(installation, server.client),
    }
    for prefix, run in jobs.items():
        asked = server.asked
        outcome = run()
        assert outcome.ok, (prefix, outcome.error)
        assert outcome.acted == len(SIX), prefix
        # What the first batch of the first run has met, no other one begins with.
        assert server.asked - asked == (1 if prefix == "reserved" else 0)
    assert not installation.keys()

    sweep = Sweeper(installation, server.client)
    sweep.seen_before(*(f"files/{each}" for each in SIX))
    outcome = sweep(batch_size=2)
    assert outcome.acted == len(SIX), outcome.error
    # It is kept: another process, with another client, does not ask for a batch at all.
    other = WithoutBatches(installation, status, code)
    sweep = Sweeper(installation, other.client)
    sweep.put("files/late")
    assert sweep().ok
    assert sweep().acted == 1
    assert other.asked == 0


def test_control_rows_go_and_objects_stay_where_a_refused_batch_ends_the_run(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "refuses_many", lambda _error: False)
    run = _reservations(installation, WithoutBatches(installation, 501, "NotImplemented").client)
    rows: list[int] = []
    for _ in range(3):
        assert not run().ok
        rows.append(installation.value("SELECT count(*) FROM file"))
    assert rows == [4, 2, 0]
    assert len(installation.keys()) == len(SIX)


def _reservations(installation: Installation, client: S3Client) -> Callable[[], Any]:
    for each in SIX:
        installation.reserve(f"files/reserved/{each}")
    collect = Collector(installation, client)
    return lambda: collect(batch_size=2)


def _deleted_files(installation: Installation, client: S3Client) -> Callable[[], Any]:
    files = Files(installation, client)
    for each in SIX:
        files.delete(f"files/deleted/{each}")
    return lambda: files(batch_size=2)


def _upload_cleanup(installation: Installation, client: S3Client) -> Callable[[], Any]:
    uploads = Uploads(installation)
    for _ in SIX:
        uploads.cancelled()
    cleaner = Cleaner(installation, client)
    return lambda: cleaner(batch_size=2)


# One object, two looks


def _later(parsed: dict[str, Any], **_event: object) -> None:
    parsed["LastModified"] += timedelta(seconds=1)


def _weak(parsed: dict[str, Any], **_event: object) -> None:
    parsed["ETag"] = f"W/{parsed['ETag']}"


def _compressed(parsed: dict[str, Any], **_event: object) -> None:
    parsed["ETag"] = parsed["ETag"].removesuffix('"') + '-gzip"'


def _saying(installation: Installation, says: Callable[..., None]) -> S3Client:
    client = make_client(installation.settings().buckets["uploads"])
    client.meta.events.register("after-call.s3.HeadObject", _of_success(says))
    return client


def _of_success(says: Callable[..., None]) -> Callable[..., None]:
    def change(parsed: dict[str, Any], **event: Any) -> None:
        if "ETag" in parsed:
            says(parsed, **event)

    return change


@pytest.mark.parametrize(
    "says",
    [
        _later,
        pytest.param(_weak, marks=pytest.mark.thorough),
        pytest.param(_compressed, marks=pytest.mark.thorough),
    ],
)
def test_what_differs_in_spelling_or_rounding_only_is_the_same_object(
    installation: Installation,
    monkeypatch: pytest.MonkeyPatch,
    says: Callable[..., None],
) -> None:
    # No object of a test is an hour old.
    monkeypatch.setattr(identity, "OLD", -10.0)
    client = _saying(installation, says)
    sweep = Sweeper(installation, client)
    sweep.seen_before("files/a", "files/b", "files/c")
    outcome = sweep()
    assert outcome.acted == 3, outcome.detail

    uploads = Uploads(installation)
    upload = uploads.cancelled()
    assert Cleaner(installation, client)().ok
    row = uploads.row(upload)
    assert (row["state"], row["outcome"]) == ("cleaned", "deleted")
    assert not installation.has_object(upload.key)


def test_a_weak_etag_alone_neither_removes_an_object_nor_calls_it_superseded(
    installation: Installation,
) -> None:
    uploads = Uploads(installation)
    upload = uploads.cancelled()
    uploads.change(upload, "size_bytes = NULL")
    Cleaner(installation, _saying(installation, _weak))()
    row = uploads.row(upload)
    assert (row["state"], row["outcome"]) == ("cleanup", None)
    assert "weak ETag" in row["last_error"]
    assert installation.has_object(upload.key)


def test_an_object_that_is_young_may_be_another_one_a_second_later(
    installation: Installation,
) -> None:
    sweep = Sweeper(installation, _saying(installation, _later))
    sweep.seen_before("files/a")
    outcome = sweep()
    assert outcome.detail["fates"] == {"undecided": 1}
    assert outcome.detail["swept"] is False
    assert installation.has_object("files/a")
