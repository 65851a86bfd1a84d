"""Lists millions of objects fast, in the order of their bytes, and completely or not at all."""

from filejobs_dagster.objects.listing.clock import date_of, read_server_date
from filejobs_dagster.objects.listing.failure import ListingFailed, ListingStopped
from filejobs_dagster.objects.listing.listed import Listed
from filejobs_dagster.objects.listing.listing import list_objects
from filejobs_dagster.objects.listing.page import Page
from filejobs_dagster.objects.listing.part import Part
from filejobs_dagster.objects.listing.progress import ListingProgress

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
