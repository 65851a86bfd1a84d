"""What `storage_orphans` can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, StrictInt

from filejobs_dagster.jobs.storage_orphans.breakers import BREAKERS
from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.section import (
    Around,
    Found,
    MaxRuntime,
    OneBucketSettings,
    OneRun,
    Run,
    Section,
    part,
)
from filejobs_dagster.settings.storage import owner_of
from filejobs_dagster.settings.values import Duration, Folder, Fraction, Prefix, Wait, between

JOB = "storage_orphans"

OLDEST_LIST = timedelta(days=14)
"""A reviewed list, or a rehearsal, older than this says nothing about today."""

UNREHEARSED = "unrehearsed"
"""As an override writes it: rules that were neither rehearsed nor looked at as a list."""

OVERRIDABLE = (*BREAKERS, UNREHEARSED)
"""What one run may pass over, with a reason."""

_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)


class BreakersSettings(Section):
    """From which numbers on a pass is not believed: nothing is marked, nothing is deleted."""

    max_orphan_fraction: Fraction = Field(
        default=0.1,
        description="The largest share of the owned objects that may be orphans.",
        examples=[0.1],
    )
    max_orphans: StrictInt | None = Field(
        default=None,
        ge=1,
        description="The most orphans that a pass may find. Without it, only the share counts.",
        examples=[100_000],
    )
    max_orphan_bytes: StrictInt | None = Field(
        default=None,
        ge=1,
        description="The most bytes that the orphans of a pass may hold.",
        examples=[1_000_000_000_000],
    )
    max_reference_shrink: Fraction = Field(
        default=0.05,
        description="The largest share of the references (of all, and of each source) that may "
        "have vanished since the last complete pass, beyond the rows that jobs have removed. Of "
        "few references up to five may vanish, and no more than a fifth.",
        examples=[0.05],
    )
    max_ambiguous_fraction: Fraction = Field(
        default=0.05,
        description="The largest share of the owned objects that may match a reference only after "
        "a normalisation that nobody declared. More of them mean that a transform is missing.",
        examples=[0.05],
    )
    max_missing_fraction: Fraction = Field(
        default=0.02,
        description="The largest share of the references inside owns whose object may be missing. "
        "More of them mean that the listing ended early.",
        examples=[0.02],
    )
    max_named_elsewhere_fraction: Fraction = Field(
        default=0.1,
        description="The largest share, of the objects that no source names, that one column may "
        "name which is no source. More of them mean that it should be one. Also the largest share "
        "of all owned objects that one ignored column alone may name (only_ignored).",
        examples=[0.1],
    )
    tolerated: StrictInt = Field(
        default=10,
        ge=0,
        description="So many objects that are ambiguous, missing or named elsewhere never trip a "
        "breaker, whatever their share: reservations name objects that have not arrived.",
        examples=[10],
    )
    max_newer: StrictInt = Field(
        default=4,
        ge=0,
        description="How many objects without a reference may be newer, by more than min_age, "
        "than the newest object with one. More of them mean that the database is older than the "
        "bucket: it was restored from a backup, or is a copy.",
        examples=[4],
    )


class ReportSettings(Section):
    """Where the reviewable list of a run goes: exactly one of these keys."""

    folder: Folder | None = Field(
        default=None,
        description="A folder of the machine that runs the job, as an absolute path.",
        examples=["/var/lib/filejobs/reports"],
    )
    prefix: Prefix | None = Field(
        default=None,
        description="A prefix of the job's bucket, outside of owns.",
        examples=["filejobs-reports/"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether it is exactly one place."""
        given = [key for key in ("folder", "prefix") if said.get(key) is not None]
        if len(given) != 1:
            found = "it has folder and prefix" if given else "it names no place"
            yield (), mistake(found, "write folder or prefix")


class StorageOrphansSettings(OneBucketSettings):
    """What `storage_orphans` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most orphans to remove in this run, {least} to {most}; the oldest first. What is left "
            "is reported as deferred.",
            safer="less",
        ),
    ] = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="The most orphans one run removes, the oldest first. The rest is reported and "
        "waits for the next run.",
        examples=[100_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run("Orphans in one delete request, {least} to {most}.", safer="less"),
    ] = Field(
        default=1000,
        ge=1,
        le=1000,
        description="How many orphans one delete request names.",
        examples=[1000],
    )
    max_runtime: Annotated[
        MaxRuntime,
        Run(
            "No further batch is begun after this time, and a pass that is not complete is given "
            "up, with a unit: 30m, 6h; at most {most}.",
            safer="less",
        ),
    ] = Field(
        default=timedelta(hours=6),
        description="How long one run may take before it stops and says so.",
        examples=["6h"],
    )
    confirm_after: Annotated[
        Duration,
        between(_HOUR),
        Run(
            "How long ago an earlier run must have seen an orphan, with a unit: 24h, 7d; at least "
            "{least}.",
            default="24h",
            safer="more",
        ),
    ] = Field(
        default=timedelta(hours=24),
        description="How long ago an earlier run must have seen an object as an orphan before a "
        "run removes it; the floor is 1h.",
        examples=["24h"],
    )
    parts: Annotated[
        StrictInt,
        Run("Parts of the bucket that are listed side by side, {least} to {most}.", safer="less"),
    ] = Field(
        default=8,
        ge=1,
        le=64,
        description="How many parts of the bucket are listed side by side.",
        examples=[8],
    )
    wait_for_transactions: Annotated[
        Wait,
        between(_SECOND, _HOUR),
        Run(
            "How long a batch waits for older transactions, which could still refer to its "
            "objects, with a unit: 60s, 5m; at most {most}. Then it is left for the next run.",
            default="60s",
            safer="less",
        ),
    ] = Field(
        default=timedelta(seconds=60),
        description="How long a batch waits for older transactions, which could still reference "
        "its objects. Then it is left for the next run.",
        examples=["60s"],
    )
    breakers: BreakersSettings = Field(
        default_factory=BreakersSettings,
        description="From which numbers on a pass is not believed.",
        examples=[{"max_orphan_fraction": 0.1}],
    )
    personal_data_kept_for: Annotated[Duration, between(_HOUR)] | None = Field(
        default=None,
        description="For how long personal data is kept, as it is published. Orphans that are "
        "older are counted, and named in the list: an erasure that goes by rows cannot reach them.",
        examples=["90d"],
    )
    report_to: ReportSettings | None = Field(
        default=None,
        description="Where each run writes its list of orphans, for a person to review and for "
        "`filejobs apply`.",
        examples=[{"folder": "/var/lib/filejobs/reports"}],
    )

    @classmethod
    def beside(cls, said: Mapping[str, Any], around: Around) -> Iterator[Found]:
        """Find a list's prefix inside what is owned: a later run would take the list away."""
        prefix = part(said.get("report_to"), "prefix")
        if not isinstance(prefix, str) or around.entry is None:
            return
        owner = owner_of(prefix, around.entry, around.buckets)
        if owner is not None:
            yield (
                ("jobs", JOB, "report_to", "prefix"),
                mistake(
                    f"{shown(prefix)} lies inside {owner}, where things are deleted",
                    "write a prefix outside of everything owned, or a folder",
                ),
            )


class Override(Section):
    """Breakers that one run may pass over."""

    breakers: Annotated[
        tuple[str, ...],
        Run(
            "Names of breakers whose numbers are right although they trip: "
            f"{', '.join(BREAKERS)}; or {UNREHEARSED}, for rules that go live for the first time "
            "and were neither rehearsed nor reviewed. The bucket's marker cannot be passed over.",
            safer="either",
        ),
    ] = ()
    reason: Annotated[
        str,
        Run(
            "Why. Needed with breakers; it is recorded in the run and in the audit log.",
            safer="either",
        ),
    ] = ""


class StorageOrphansRun(OneRun, StorageOrphansSettings):
    """What one run does."""

    reviewed: Annotated[
        str,
        Run(
            "A list that an earlier run wrote and a person has reviewed: a path on the machine "
            "that runs this, or s3://BUCKET/KEY. Only what it says to remove, and what this run "
            "finds to be an orphan too, may go. Empty: everything that is due.",
            safer="either",
        ),
    ] = ""
    rehearsed: Annotated[
        str,
        Run(
            "The hash of a rehearsal, as `filejobs rehearse` prints it. The first live run by "
            "changed sources or rules asks for it; all runs by it remove no more than went there. "
            "Empty: none.",
            safer="either",
        ),
    ] = ""
    override: Annotated[
        Override, Run("Breakers that this one run may pass over.", safer="either")
    ] = Override()
