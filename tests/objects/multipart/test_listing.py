"""Listing multipart uploads and their parts: all of them, by their exact keys, or an error."""

from __future__ import annotations

import itertools
import tracemalloc
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

import pytest

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.objects.listing import ListingFailed
from filejobs_dagster.objects.multipart import Parts, PartsUnknown, list_parts, list_uploads
from tests.objects.multipart.server import NOW, MultipartServer, Part, Upload, is_listing
from tests.objects.scripted import XML, Answer, Request, ScriptedS3, errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

ODD = [
    "files/a b",
    "files/a+b",
    "files/a%20b",
    "files/a%2Bb",
    "files/100%",
    "files/100%25",
    "files/\u00e9",
    "files/e\u0301",
    "files/a\nb",
    "files/<&>",
]
"""Keys that a wrong reading turns into each other's."""


def ids(client: S3Client, prefix: str = "files/", page: int = 1000) -> dict[str, list[str]]:
    """The ids by key."""
    found: dict[str, list[str]] = {}
    for upload in list_uploads(client, "acme", prefix, page=page):
        found.setdefault(upload.key, []).append(upload.upload_id)
    return found


@pytest.mark.parametrize("most", [1, 2, 3, 1000])
def test_every_upload_is_listed_also_those_of_one_key_on_two_pages(
    server: MultipartServer, scripted_client: S3Client, most: int
) -> None:
    server.most = most
    expected = {"files/a": [server.begin("files/a") for _ in range(5)]}
    expected["files/b"] = [server.begin("files/b")]
    server.begin("other/c")

    assert ids(scripted_client) == expected


def test_control_the_key_marker_alone_loses_uploads_of_the_same_key(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.most = 2
    for _ in range(5):
        server.begin("files/a")
    found, marker, more = 0, "", True
    while more:
        page = scripted_client.list_multipart_uploads(Bucket="acme", KeyMarker=marker)
        found += len(page.get("Uploads", []))
        # Who goes on behind the key passes over the rest of its uploads.
        more = page["IsTruncated"] and marker == ""
        marker = "files/a\uffff"
    assert found == 2


@pytest.mark.parametrize("most", [1, 1000])
@pytest.mark.parametrize("spelling", ["aws", "ceph", "plain"])
def test_keys_are_read_as_the_server_means_them_however_it_spells(
    server: MultipartServer,
    scripted_client: S3Client,
    spelling: Literal["aws", "ceph", "plain"],
    most: int,
) -> None:
    server.spelling, server.most = spelling, most
    keys = [*ODD, "files/a\x01b"] if spelling != "plain" else ODD
    expected = {key: [server.begin(key)] for key in keys}

    assert ids(scripted_client) == expected


def test_control_a_reading_that_takes_the_server_at_its_word_names_other_keys(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.spelling = "ceph"
    server.begin("files/a b")
    [entry] = scripted_client.list_multipart_uploads(Bucket="acme", EncodingType="url")["Uploads"]
    assert entry["Key"] == "files/a%20b", "and this server does not say that it is spelled"
    assert list_parts(scripted_client, "acme", entry["Key"], entry["UploadId"]) is None


def test_a_server_that_goes_in_circles_fails_the_listing(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.most, server.ignores_markers = 2, True
    for number in range(5):
        server.begin(f"files/{number}")
    with pytest.raises(ListingFailed, match="in circles"):
        list(list_uploads(scripted_client, "acme", "files/"))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(403, errors("AccessDenied")), "s3:ListBucketMultipartUploads"),
        (Answer(200, errors("InternalError")), "InternalError"),
        (Answer(200, ""), "cut off"),
        (Answer(200, f"{XML}<Html/>"), "cut off"),
        (Answer(200, f"{XML}<ListMultipartUploadsResult><IsTruncated>tr"), "not listed"),
        (
            Answer(
                200,
                f"{XML}<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>"
                "</ListMultipartUploadsResult>",
            ),
            "gives none",
        ),
    ],
    ids=["403", "200 with an error", "empty", "other", "cut", "more of nothing"],
)
def test_a_second_page_that_is_missing_fails_the_listing(
    server: MultipartServer, scripted_client: S3Client, answer: Answer, says: str
) -> None:
    server.most = 2
    for number in range(4):
        server.begin(f"files/{number}")
    pages = itertools.count()
    server.hooks = [lambda request: answer if is_listing(request) and next(pages) else None]
    with pytest.raises(ListingFailed, match=says):
        list(list_uploads(scripted_client, "acme", "files/"))


def test_an_upload_of_another_prefix_fails_the_listing(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.begin("other/a")

    def ask_for_everything(request: Request) -> Answer | None:
        if "prefix=files" not in request.path:
            return None
        return server(Request("GET", request.path.replace("prefix=files%2F", "prefix="), {}, ""))

    server.hooks = [ask_for_everything]
    with pytest.raises(ListingFailed, match="Asked for multipart uploads below 'files/'"):
        list(list_uploads(scripted_client, "acme", "files/"))


def peak_of_listing(scripted: ScriptedS3, client: S3Client, pages: int) -> int:
    """Bytes at the peak of a listing of a thousand uploads a page, without the first page."""
    scripted.requests.clear()
    scripted.script = lambda _request: Answer(body=_page(len(scripted.requests), pages))
    listed = list_uploads(client, "acme", "files/")
    next(listed)
    tracemalloc.start()
    count = 1 + sum(1 for _ in listed)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == pages * 1000
    return peak


@pytest.mark.thorough
def test_many_more_uploads_take_no_more_memory(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    few, many = (peak_of_listing(scripted, scripted_client, pages) for pages in (2, 7))
    assert many < few * 2, f"{few:,} bytes became {many:,}"


# Parts


def test_all_parts_of_all_pages_are_summed_and_the_newest_counts(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.most = 2
    upload_id = server.begin("files/a", 5, 7, 11, idle=timedelta(days=3))
    server.uploads[upload_id].parts[2].modified = NOW - timedelta(minutes=5)

    parts = list_parts(scripted_client, "acme", "files/a", upload_id)

    assert parts == Parts(count=3, size=23, newest=NOW - timedelta(minutes=5))


def test_an_upload_without_parts_is_not_one_that_is_gone(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    upload_id = server.begin("files/a")
    assert list_parts(scripted_client, "acme", "files/a", upload_id) == Parts(0, 0, None)
    assert list_parts(scripted_client, "acme", "files/a", "another") is None


def test_a_part_without_a_date_makes_the_newest_unknown(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.uploads["u"] = Upload("files/a", NOW, {1: Part(3, NOW), 2: Part(4, None)})
    assert list_parts(scripted_client, "acme", "files/a", "u") == Parts(2, 7, None)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(404, ""), PartsUnknown),
        (Answer(404, errors("NoSuchBucket")), StorageRejected),
        (Answer(403, errors("AccessDenied")), PartsUnknown),
        (Answer(403, errors("ExpiredToken")), StorageRejected),
        (Answer(503, errors("SlowDown")), StorageRejected),
        (Answer(200, ""), PartsUnknown),
        (Answer(200, errors("InternalError")), PartsUnknown),
        (
            Answer(200, f"{XML}<ListPartsResult><IsTruncated>true</IsTruncated></ListPartsResult>"),
            PartsUnknown,
        ),
    ],
)
def test_whatever_is_no_list_of_parts_is_never_no_parts(
    scripted: ScriptedS3, scripted_client: S3Client, answer: Answer, error: type[Exception]
) -> None:
    scripted.script = lambda _request: answer
    with pytest.raises(error):
        list_parts(scripted_client, "acme", "files/a", "u")


def _page(number: int, pages: int) -> str:
    uploads = "".join(
        f"<Upload><Key>files/{number:04}/{entry:04}</Key><UploadId>{number}-{entry}</UploadId>"
        "<Initiated>2020-01-01T00:00:00Z</Initiated></Upload>"
        for entry in range(1000)
    )
    more = str(number < pages).lower()
    root = "ListMultipartUploadsResult"
    return f"{XML}<{root}><IsTruncated>{more}</IsTruncated>{uploads}</{root}>"
