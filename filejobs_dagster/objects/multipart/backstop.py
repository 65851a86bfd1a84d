"""The bucket's own rule that aborts old multipart uploads: read, judged, never set."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from filejobs_dagster.objects.lifecycle import LifecycleUnknown, fewest, read_rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import LifecycleRuleOutputTypeDef

BackstopState = Literal["there", "missing", "unknown"]

DAYS_BEHIND_THE_JOB = 7
"""A rule counts from the initiation and knows of no progress: it must come well after the job."""


@dataclass(frozen=True)
class Backstop:
    """What would abort multipart uploads if nobody ran the job.

    Attributes:
        state: `there` when a rule covers every prefix; `unknown` when the server does not say.
        said: One sentence for people, without secrets.
        uncovered: The prefixes without a rule.
        days: Of the rules that cover one, the fewest days since initiation; None without any.
    """

    state: BackstopState
    said: str
    uncovered: tuple[str, ...] = ()
    days: int | None = None


def read_backstop(client: S3Client, bucket: str, prefixes: Sequence[str]) -> Backstop:
    """Read the lifecycle of a bucket (s3:GetLifecycleConfiguration).

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        prefixes: What is owned; "" for the whole bucket.
    """
    try:
        rules = read_rules(client, bucket)
    except LifecycleUnknown as error:
        return Backstop(
            "unknown",
            "Whether a lifecycle rule of the bucket aborts incomplete multipart uploads is not "
            f"known: {error}. Reading it takes s3:GetLifecycleConfiguration.",
        )
    found = {prefix: fewest(prefix, rules, _days_of) for prefix in prefixes}
    uncovered = tuple(prefix for prefix, days in found.items() if days is None)
    days = min((days for days in found.values() if days is not None), default=None)
    if uncovered:
        where = ", ".join(repr(prefix) for prefix in uncovered)
        return Backstop(
            "missing",
            f"No lifecycle rule of the bucket aborts incomplete multipart uploads below {where}: "
            "while this job does not run, their bytes are kept and paid for without end.",
            uncovered,
            days,
        )
    return Backstop(
        "there",
        f"A lifecycle rule of the bucket aborts multipart uploads {days} days after their "
        "initiation, running ones included.",
        days=days,
    )


def rule_to_add(prefixes: Sequence[str], idle_for: timedelta) -> str:
    """The lifecycle that is missing, as JSON of the S3 API.

    Whoever sets it must keep the rules that are there: the API replaces them all.

    Args:
        prefixes: Those without a rule.
        idle_for: How long an upload may be idle before the job takes it.
    """
    days = math.ceil(idle_for / timedelta(days=1)) + DAYS_BEHIND_THE_JOB
    rules: list[dict[str, Any]] = [
        {
            "ID": f"abort-incomplete-multipart-uploads-{number}",
            "Status": "Enabled",
            "Filter": {"Prefix": prefix},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": days},
        }
        for number, prefix in enumerate(prefixes, start=1)
    ]
    return json.dumps({"Rules": rules}, ensure_ascii=False)


def _days_of(rule: LifecycleRuleOutputTypeDef) -> int | None:
    return rule.get("AbortIncompleteMultipartUpload", {}).get("DaysAfterInitiation")
