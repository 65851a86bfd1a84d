"""Lists millions of objects fast, in the order of their bytes, and completely or not at all."""

from filejobs_dagster.objects.listing.ask import date_of, read_server_date
from filejobs_dagster.objects.listing.listing import Listed, list_objects
from filejobs_dagster.objects.listing.page import (
    ListingFailed,
    ListingProgress,
    ListingStopped,
    Page,
)
from filejobs_dagster.objects.listing.part import Part

__all__ = [
    "Listed",
    "ListingFailed",
    "ListingProgress",
    "ListingStopped",
    "Page",
    "Part",
    "date_of",
    "list_objects",
    "read_server_date",
]
