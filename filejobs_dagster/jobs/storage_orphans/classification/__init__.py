"""Which objects nothing keeps, and why the others stay."""

from filejobs_dagster.jobs.storage_orphans.classification.breakdown import (
    Breakdown,
    ClassTotals,
    Shown,
)
from filejobs_dagster.jobs.storage_orphans.classification.classify import (
    ClassificationProgress,
    classify,
)
from filejobs_dagster.jobs.storage_orphans.classification.joining import (
    Classification,
    ListingContradicts,
    suggest_transform,
)
from filejobs_dagster.jobs.storage_orphans.classification.records import Kept, Orphan, Rules

__all__ = [
    "Breakdown",
    "ClassTotals",
    "Classification",
    "ClassificationProgress",
    "Kept",
    "ListingContradicts",
    "Orphan",
    "Rules",
    "Shown",
    "classify",
    "suggest_transform",
]
