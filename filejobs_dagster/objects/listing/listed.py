"""A bucket's objects on disk, after the listing was complete."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.failure import ListingFailed, shown
from filejobs_dagster.objects.listing.page import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.streams import Spool


@dataclass(frozen=True)
class Listed:
    """What the owned prefixes hold.

    Attributes:
        objects: How many.
        bytes: Their sizes together.
        server_date: What the server's first answer said of its time, None when it said nothing.
        read_at: This machine's time when that answer came.
        ordered_by_server: Whether the server itself listed in the order of the bytes.
        parts: How many ranges were listed side by side or one after the other.
        spools: On disk, in the order of their keys.
    """

    objects: int
    bytes: int
    server_date: datetime | None
    read_at: datetime
    ordered_by_server: bool
    parts: int
    spools: Sequence[Spool]

    def pages(self) -> Iterator[Page]:
        """Every object once, in the order of the bytes of the keys; any number of times.

        Raises:
            SpoolDamaged: The files were changed.
            ListingFailed: Two parts overlap, which would be a mistake of this package.
        """
        last: bytes | None = None
        for spool in self.spools:
            for packed in spool.blocks():
                page = Page.unpacked(packed)
                if last is not None and page.keys[0] <= last:
                    raise ListingFailed(
                        f"The listing's parts overlap: {shown(page.keys[0])} after {shown(last)}. "
                        "Please report this; nothing was concluded from it."
                    )
                last = page.keys[-1]
                yield page

    def remove(self) -> None:
        """Give the room on disk back before the scratch folder goes."""
        for spool in self.spools:
            spool.remove()
