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
from filejobs_dagster.jobs.storage_orphans.classification.joining import ListingContradicts
from filejobs_dagster.jobs.storage_orphans.classification.records import Kept, Orphan
from filejobs_dagster.jobs.storage_orphans.classification.result import (
    Classification,
    suggest_transform,
)
from filejobs_dagster.jobs.storage_orphans.classification.rules import Rules

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
