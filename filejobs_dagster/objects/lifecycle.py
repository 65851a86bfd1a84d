"""The bucket's own lifecycle rules: read, judged, never set.

In a bucket with versions a deletion leaves a marker, and what lies behind it is ended by such a
rule alone: no job removes what somebody may bring back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from filejobs_dagster.objects.errors import described

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import timedelta

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import LifecycleRuleOutputTypeDef

_NONE_AT_ALL = "NoSuchLifecycleConfiguration"


class LifecycleUnknown(Exception):
    """The server does not say which rules there are; the message says why."""


def read_rules(client: S3Client, bucket: str) -> Sequence[LifecycleRuleOutputTypeDef]:
    """The rules that are in force (s3:GetLifecycleConfiguration).

    Args:
        client: From `make_client`.
        bucket: The bucket's name.

    Raises:
        LifecycleUnknown: The server does not say.
    """
    try:
        found = client.get_bucket_lifecycle_configuration(Bucket=bucket)
    except ClientError as error:
        if described(error).code != _NONE_AT_ALL:
            raise LifecycleUnknown(str(described(error))) from error
        return []
    except Exception as error:
        raise LifecycleUnknown(str(described(error))) from error
    return [rule for rule in found.get("Rules", []) if rule.get("Status") == "Enabled"]


def fewest(
    prefix: str,
    rules: Sequence[LifecycleRuleOutputTypeDef],
    days_of: Callable[[LifecycleRuleOutputTypeDef], int | None],
) -> int | None:
    """The fewest days of all rules that cover the whole prefix; None where none does."""
    return min(
        (
            days
            for rule in rules
            if (days := days_of(rule)) is not None and prefix.startswith(_prefix_of(rule))
        ),
        default=None,
    )


def _prefix_of(rule: LifecycleRuleOutputTypeDef) -> str:
    condition = rule.get("Filter", {})
    both = condition.get("And", {})
    return rule.get("Prefix") or condition.get("Prefix") or both.get("Prefix") or ""


# What ends what lies behind a delete marker ------------------------------------------------------


@dataclass(frozen=True)
class Ending:
    """What becomes of noncurrent versions and of markers.

    Attributes:
        good: True when rules end both everywhere, and none of them too early.
        said: One sentence for people, without secrets.
        rules: The lifecycle that is missing, as JSON of the S3 API; empty where none is.
    """

    good: bool
    said: str
    rules: str = ""


def judge_ending(
    rules: Sequence[LifecycleRuleOutputTypeDef], prefixes: Sequence[str], keep: timedelta
) -> Ending:
    """Say what stays without end in a bucket with versions, and what goes too early.

    Args:
        rules: From `read_rules`.
        prefixes: What is owned; "" for the whole bucket.
        keep: So long what goes must be there to be brought back.
    """
    versions = {it: fewest(it, rules, _days_of_versions) for it in prefixes}
    markers = {it: fewest(it, rules, _days_of_markers) for it in prefixes}
    early = {it: days for it, days in versions.items() if days is not None and days < keep.days}
    for_ever = {
        "noncurrent versions, so every byte of what was deleted or written over": versions,
        "delete markers with nothing behind them, which make each listing longer": markers,
    }
    said = [
        f"no rule ends {what}, below {', '.join(map(repr, lacking))}: they stay for ever"
        for what, found in for_ever.items()
        if (lacking := [it for it, days in found.items() if days is None])
    ]
    said += [
        f"below {it!r} a rule ends them after {days} days, and they are kept for {keep.days}"
        for it, days in early.items()
    ]
    if said:
        lacking = [it for it in prefixes if None in (versions[it], markers[it]) or it in early]
        return Ending(good=False, said="; ".join(said), rules=_to_add(lacking, keep))
    return Ending(
        good=True,
        said="lifecycle rules of the bucket end noncurrent versions after "
        f"{', '.join(sorted({str(days) for days in versions.values()}))} days, and delete markers "
        "with nothing behind them",
    )


def _to_add(prefixes: Sequence[str], keep: timedelta) -> str:
    rules: Iterator[dict[str, Any]] = (
        {
            "ID": f"end-noncurrent-versions-{number}",
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "NoncurrentVersionExpiration": {"NoncurrentDays": max(1, keep.days)},
            "Expiration": {"ExpiredObjectDeleteMarker": True},
        }
        for number, prefix in enumerate(prefixes, start=1)
    )
    return json.dumps({"Rules": list(rules)}, ensure_ascii=False)


def _covers_all(rule: LifecycleRuleOutputTypeDef) -> bool:
    """False of a rule that is for objects of some tags or sizes alone."""
    condition = rule.get("Filter", {})
    return not (condition.keys() | condition.get("And", {}).keys()) - {"And", "Prefix"}


def _days_of_versions(rule: LifecycleRuleOutputTypeDef) -> int | None:
    said = rule.get("NoncurrentVersionExpiration", {})
    # One that keeps the newest of them keeps what lies behind a marker, without end.
    if not _covers_all(rule) or said.get("NewerNoncurrentVersions"):
        return None
    return said.get("NoncurrentDays")


def _days_of_markers(rule: LifecycleRuleOutputTypeDef) -> int | None:
    said = rule.get("Expiration", {})
    if not _covers_all(rule):
        return None
    # A rule that ends objects by their age ends such markers, too.
    return 0 if said.get("ExpiredObjectDeleteMarker") else said.get("Days")
