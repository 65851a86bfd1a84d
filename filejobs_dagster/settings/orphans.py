"""The sections of `storage_orphans`: its breakers, and where its list goes."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001, TC003
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field, StrictInt

from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Found, Section
from filejobs_dagster.settings.values import Folder, Fraction, Prefix


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
    tolerated: StrictInt = Field(
        default=10,
        ge=0,
        description="So many ambiguous or missing objects never trip a breaker, whatever their "
        "share: reservations name objects that have not arrived.",
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
