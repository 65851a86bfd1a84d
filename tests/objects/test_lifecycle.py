"""What the bucket's own rules end of what lies behind delete markers, and what stays for ever."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.objects.lifecycle import LifecycleUnknown, judge_ending, read_rules

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

KEEP = timedelta(days=30)
VERSIONS = {"NoncurrentVersionExpiration": {"NoncurrentDays": 30}}
MARKERS = {"Expiration": {"ExpiredObjectDeleteMarker": True}}
EVERY_BYTE = "every byte of what was deleted"
EMPTY_MARKERS = "delete markers with nothing behind them"


def rule(*does: dict[str, Any], where: dict[str, Any] | None = None) -> dict[str, Any]:
    said: dict[str, Any] = {"Status": "Enabled", "Filter": where or {"Prefix": "files/"}}
    for it in does:
        said |= it
    return said


@pytest.mark.parametrize(
    ("rules", "stays"),
    [
        ([rule(VERSIONS, MARKERS)], []),
        ([rule(VERSIONS), rule(MARKERS, where={"Prefix": ""})], []),
        ([rule(VERSIONS, {"Expiration": {"Days": 400}})], []),
        ([rule(VERSIONS)], [EMPTY_MARKERS]),
        ([rule(MARKERS)], [EVERY_BYTE]),
        ([], [EVERY_BYTE, EMPTY_MARKERS]),
        # They are for a part of what is owned, or keep the newest.
        ([rule(VERSIONS, MARKERS, where={"Prefix": "files/images/"})],
         [EVERY_BYTE, EMPTY_MARKERS]),
        ([rule(VERSIONS, MARKERS, where={"Tag": {"Key": "a", "Value": "b"}})],
         [EVERY_BYTE, EMPTY_MARKERS]),
        ([rule(VERSIONS, MARKERS, where={"And": {"Prefix": "", "ObjectSizeGreaterThan": 5}})],
         [EVERY_BYTE, EMPTY_MARKERS]),
        ([rule({"NoncurrentVersionExpiration": {"NoncurrentDays": 30,
                                                "NewerNoncurrentVersions": 1}}, MARKERS)],
         [EVERY_BYTE]),
        ([rule({"NoncurrentVersionExpiration": {"NoncurrentDays": 7}}, MARKERS)],
         ["after 7 days, and they are kept for 30"]),
    ],
)  # fmt: skip
def test_what_no_rule_ends_is_named_and_what_is_said_to_add_ends_it(
    rules: list[Any], stays: list[str]
) -> None:
    found = judge_ending(rules, ["files/"], KEEP)
    assert found.good == (not stays)
    assert [
        words
        for words in (EVERY_BYTE, EMPTY_MARKERS)
        if f"no rule ends {words}" in (found.said.replace("noncurrent versions, so ", ""))
    ] == [words for words in stays if not words.startswith("after")]
    assert all(words in found.said for words in stays)
    if stays and not stays[0].startswith("after"):
        more = json.loads(found.rules)["Rules"]
        assert judge_ending([*rules, *more], ["files/"], KEEP).good


def test_of_two_prefixes_the_one_without_a_rule_is_named() -> None:
    found = judge_ending([rule(VERSIONS, MARKERS)], ["files/", "other/"], KEEP)  # type: ignore[list-item]
    assert "'other/'" in found.said
    assert "'files/'" not in found.said


def test_rules_that_are_off_are_none_and_a_server_that_does_not_say_is_not_taken_for_none(
    s3_client: S3Client, bucket: str
) -> None:
    assert read_rules(s3_client, bucket) == []
    said: Any = [{"ID": "a", "Status": "Disabled", "Filter": {"Prefix": ""}, **VERSIONS}]
    s3_client.put_bucket_lifecycle_configuration(
        Bucket=bucket, LifecycleConfiguration={"Rules": said}
    )
    assert read_rules(s3_client, bucket) == []
    with pytest.raises(LifecycleUnknown, match="NoSuchBucket"):
        read_rules(s3_client, f"{bucket}-not-there")
