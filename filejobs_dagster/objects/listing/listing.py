"""Lists the owned prefixes of a bucket: completely, in byte order, side by side, in flat memory.

`Listed` is what comes of it: a bucket's objects on disk, after the listing was complete.
"""

from __future__ import annotations

import time
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.ask import BACK_OFF, Asker
from filejobs_dagster.objects.listing.page import (
    Disorder,
    ListingFailed,
    ListingStopped,
    Page,
    Row,
    pages_of,
    shown,
)
from filejobs_dagster.objects.listing.part import Part, Reader
from filejobs_dagster.objects.listing.workers import Worked, Workers
from filejobs_dagster.objects.targets import apart
from filejobs_dagster.streams import OutOfOrder, Sorter, in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mypy_boto3_s3 import S3Client
    from tenacity.wait import wait_base

    from filejobs_dagster.objects.listing.page import ListingProgress
    from filejobs_dagster.streams import Scratch, Spool

# A bucket's objects on disk, after the listing was complete.


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


SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_REPORTS = 1.0


def list_objects(
    client: S3Client,
    bucket: str,
    prefixes: Sequence[str],
    *,
    parts: int,
    scratch: Scratch,
    on_progress: Callable[[ListingProgress], None] = lambda _progress: None,
    should_stop: Callable[[], bool] = lambda: False,
    back_off: wait_base = BACK_OFF,
) -> Listed:
    """List every object below the prefixes, and keep what was read on disk.

    A server that does not list in the order of the bytes is noticed, listed again without ranges,
    and sorted on disk. That costs time, and is never a reason to trust it less or more.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        prefixes: What the keys begin with; "" for the whole bucket. One inside another is left out.
        parts: How many pages are asked for at a time.
        scratch: Where the pages go: about 100 bytes and the key for each object, twice that while
            the order is made here.
        on_progress: Called in this thread, about once a second and at the end.
        should_stop: Asked in this thread, a few times a second.
        back_off: Between tries of a page whose failure may pass.

    Raises:
        ListingFailed: Any page is missing, or the listing does not add up. Nothing may be
            concluded.
        ListingStopped: `should_stop` said so. There is no partial result.
        NotEnoughRoom: The disk is full.
    """
    if parts < 1:
        raise ValueError(f"parts must be at least 1, not {parts}")
    whole = [Part(prefix) for prefix in apart(prefixes)]
    if not whole:
        raise ListingFailed(
            f"There is nothing to list in bucket {bucket!r}: no prefix is owned. Set `owns`."
        )
    asker = Asker(client, bucket, wait=back_off)
    begun = datetime.now(timezone.utc)

    def read(*, in_order: bool) -> Workers:
        workers = Workers(whole, Reader(asker), scratch, asker.stop, in_order=in_order)
        try:
            _run(workers, parts, asker, on_progress, should_stop)
        except BaseException:
            workers.discard()
            raise
        return workers

    try:
        workers = read(in_order=True)
        ordered_by_server = True
        spools = [worked.spool for worked in sorted(workers.done, key=_place)]
    except Disorder:
        asker.stop.clear()
        workers = read(in_order=False)
        ordered_by_server = False
        spools = [_sorted(workers.done, scratch, should_stop)]
    totals = workers.progress()
    return Listed(
        objects=totals.objects,
        bytes=totals.bytes,
        server_date=asker.server_date,
        read_at=asker.read_at or begun,
        ordered_by_server=ordered_by_server,
        parts=totals.parts,
        spools=spools,
    )


def _place(worked: Worked) -> tuple[bytes, bytes]:
    return worked.part.prefix.encode(), worked.part.after or b""


def _run(
    workers: Workers,
    threads: int,
    asker: Asker,
    on_progress: Callable[[ListingProgress], None],
    should_stop: Callable[[], bool],
) -> None:
    """Let the threads work; one that fails stops all."""
    with ThreadPoolExecutor(threads, thread_name_prefix="filejobs-listing") as pool:
        futures = [pool.submit(workers.work) for _ in range(threads)]
        try:
            _watch(futures, workers, on_progress, should_stop)
        finally:
            # Nobody waits for those that still work: a failure, or a caller that had enough.
            if not all(_succeeded(future) for future in futures):
                asker.stop.set()
    errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        # Whoever was only told to stop has nothing to say about the reason.
        raise next((it for it in errors if not isinstance(it, ListingStopped)), errors[0])
    on_progress(workers.progress())


def _watch(
    futures: Sequence[Future[None]],
    workers: Workers,
    on_progress: Callable[[ListingProgress], None],
    should_stop: Callable[[], bool],
) -> None:
    reported = time.monotonic()
    while True:
        over, working = wait(futures, SECONDS_BETWEEN_LOOKS, return_when=FIRST_EXCEPTION)
        if not working or any(future.exception() for future in over):
            return
        _require_time(should_stop)
        if time.monotonic() - reported >= SECONDS_BETWEEN_REPORTS:
            reported = time.monotonic()
            on_progress(workers.progress())


def _succeeded(future: Future[None]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _sorted(done: Sequence[Worked], scratch: Scratch, should_stop: Callable[[], bool]) -> Spool:
    """Sort what came in the server's own order, and prove that nothing came twice."""
    sorter: Sorter[Row] = Sorter(scratch, "listing")
    for worked in done:
        for packed in worked.spool.blocks():
            _require_time(should_stop)
            sorter.add(Page.unpacked(packed).rows())
        worked.spool.remove()
    spool = scratch.spool("sorted listing")
    try:
        for page in pages_of(in_order(sorter.sorted_blocks(), strictly=True)):
            _require_time(should_stop)
            spool.append(page.packed(), items=len(page))
    except OutOfOrder as error:
        raise ListingFailed(
            f"The server's listing has a key twice, so it may lack others: {error}"
        ) from error
    spool.finish()
    return spool


def _require_time(should_stop: Callable[[], bool]) -> None:
    if should_stop():
        raise ListingStopped("The listing was stopped before it was complete: no time is left.")
