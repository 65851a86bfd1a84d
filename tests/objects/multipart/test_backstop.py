"""Whether the bucket itself would abort multipart uploads, if nobody ran the job."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.multipart.backstop import read_backstop, rule_to_add
from tests.objects.scripted import XML, Answer, errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from tests.objects.multipart.server import MultipartServer

ABORT = (
    "<AbortIncompleteMultipartUpload><DaysAfterInitiation>{}</DaysAfterInitiation>"
    "</AbortIncompleteMultipartUpload>"
)


def rule(where: str, days: int = 14, status: str = "Enabled", does: str = ABORT) -> str:
    return f"<Rule><ID>r</ID><Status>{status}</Status>{where}{does.format(days)}</Rule>"


def lifecycle(*rules: str) -> str:
    return f"{XML}<LifecycleConfiguration>{''.join(rules)}</LifecycleConfiguration>"


@pytest.mark.parametrize(
    ("rules", "days"),
    [
        ([rule("<Filter></Filter>")], 14),
        ([rule("<Filter><Prefix></Prefix></Filter>")], 14),
        ([rule("<Filter><Prefix>files/</Prefix></Filter>")], 14),
        ([rule("<Prefix>fi</Prefix>")], 14),
        ([rule("<Filter><And><Prefix>files/</Prefix></And></Filter>", 3)], 3),
        ([rule("<Prefix>files/</Prefix>", 9), rule("<Prefix></Prefix>", 5)], 5),
        ([], None),
        ([rule("<Prefix>files/images/</Prefix>")], None),
        ([rule("<Prefix>other/</Prefix>")], None),
        ([rule("<Prefix>files/</Prefix>", status="Disabled")], None),
        ([rule("<Prefix></Prefix>", does="<Expiration><Days>{}</Days></Expiration>")], None),
    ],
)
def test_a_rule_counts_when_it_is_enabled_and_covers_the_whole_prefix(
    server: MultipartServer, scripted_client: S3Client, rules: list[str], days: int | None
) -> None:
    server.lifecycle = lifecycle(*rules)
    found = read_backstop(scripted_client, "acme", ["files/"])
    assert found.days == days
    assert found.state == ("missing" if days is None else "there")


def test_one_prefix_of_two_without_a_rule_is_named(
    server: MultipartServer, scripted_client: S3Client
) -> None:
    server.lifecycle = lifecycle(rule("<Prefix>files/</Prefix>", 9))
    found = read_backstop(scripted_client, "acme", ["files/", "previews/"])
    assert (found.state, found.uncovered) == ("missing", ("previews/",))
    [added] = json.loads(rule_to_add(found.uncovered, timedelta(hours=25)))["Rules"]
    assert added["Filter"] == {"Prefix": "previews/"}
    assert added["AbortIncompleteMultipartUpload"]["DaysAfterInitiation"] == 9


@pytest.mark.parametrize(
    "answer",
    [
        Answer(403, errors("AccessDenied")),
        Answer(501, errors("NotImplemented")),
        Answer(200, errors("InternalError")),
    ],
)
def test_what_is_no_lifecycle_is_unknown_and_never_missing(
    server: MultipartServer, scripted_client: S3Client, answer: Answer
) -> None:
    server.hooks = [lambda _request: answer]
    found = read_backstop(scripted_client, "acme", ["files/"])
    assert (found.state, found.uncovered) == ("unknown", ())
