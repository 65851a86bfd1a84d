"""One pass: list, read the references, and put every object into its class. Changes nothing.

Where lists are kept, a folder of this machine or a prefix of the bucket, is opened here too.
"""

from __future__ import annotations

import contextlib
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.jobs.storage_orphans.classification import (
    Classification,
    ClassificationProgress,
    ListingContradicts,
    Rules,
    classify,
)
from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.identity import milliseconds
from filejobs_dagster.objects.listing import (
    ListingFailed,
    ListingProgress,
    ListingStopped,
    list_objects,
)
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.references.transforms import RewriteMistaken
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.streams import NotEnoughRoom, OutOfOrder, SpoolDamaged
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.storage_orphans import Storage, StorageOrphansRun
    from filejobs_dagster.jobs.storage_orphans.breakers import EarlierPass
    from filejobs_dagster.jobs.storage_orphans.settings import ReportSettings
    from filejobs_dagster.jobs.storage_orphans.ticker import Ticker
    from filejobs_dagster.references.elsewhere.search import Elsewhere
    from filejobs_dagster.references.reference_set import ReferenceSet
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.streams import Scratch

INCOMPLETE = (
    ListingFailed,
    ListingContradicts,
    ReferencesUnknown,
    RewriteMistaken,
    NotEnoughRoom,
    OutOfOrder,
    SpoolDamaged,
)
"""Whatever of these is raised, nothing may be concluded about any object."""

LISTING = "listing"
REFERENCES = "references"
CLASSIFYING = "classifying"


@dataclass(frozen=True)
class Pass:
    """A complete pass.

    Attributes:
        found: Every listed object in its class.
        references: Every key in use, and what each source returned.
        parts: Ranges that were listed.
        ordered_by_server: False when the listing had to be sorted here.
        earlier: The last complete pass, as it was known right before the references were read:
            what went later they name still.
    """

    found: Classification
    references: ReferenceSet
    parts: int
    ordered_by_server: bool
    earlier: EarlierPass | None = None


class TimeOver(JobFailed):
    """The run's time was over before the pass was complete."""


def make_pass(
    context: RunContext,
    request: StorageOrphansRun,
    storage: Storage,
    scratch: Scratch,
    ticker: Ticker,
    *,
    now: datetime,
    ends_at: float,
    elsewhere: Elsewhere,
    last_pass: Callable[[], EarlierPass | None] = lambda: None,
    on_read: Callable[[ReferenceSet], None] = lambda _: None,
) -> Pass:
    """List, then read the references, then classify.

    The order matters: a reference that was made while the bucket was listed is seen.

    Args:
        context: The run.
        request: Its limits.
        storage: The bucket.
        scratch: Where what does not fit into memory goes.
        ticker: Is told how far it is.
        now: By the database's clock, from before anything was listed.
        ends_at: By the monotonic clock; then the pass is given up.
        elsewhere: Looks for what would be orphans in columns that no source reads.
        last_pass: Says which was the last complete pass.
        on_read: Told the references as soon as they are read.

    Raises:
        TimeOver: It was not complete when the time was over.
        JobFailed: It is not complete for another reason. Nothing may be concluded either way.
    """
    bucket = storage.bucket

    def listing(progress: ListingProgress) -> None:
        ticker.objects(LISTING, progress.objects, progress.position)

    def rows(source: str, count: int) -> None:
        _stop_when_over(ends_at)
        ticker.objects(REFERENCES, count, source.encode())

    def classifying(progress: ClassificationProgress) -> None:
        _stop_when_over(ends_at)
        facts = {"referenced": progress.referenced, "missing": progress.missing}
        ticker.objects(CLASSIFYING, progress.objects, facts=facts)

    try:
        rules = Rules.of(bucket)
        ticker.phase(LISTING, f"Listing {', '.join(bucket.owned_prefixes) or 'the whole bucket'}.")
        listed = list_objects(
            storage.client,
            bucket.bucket,
            bucket.owned_prefixes,
            parts=request.parts,
            scratch=scratch,
            on_progress=listing,
            should_stop=lambda: time.monotonic() >= ends_at,
        )
        ticker.phase(
            REFERENCES,
            f"Listed {listed.objects:,} objects, {listed.bytes:,} bytes"
            + ("." if listed.ordered_by_server else ", in no order: sorted here.")
            + " Reading all references.",
        )
        earlier = last_pass()
        references = BulkReferences(
            context.database,
            bucket.sources,
            scratch=scratch,
            owned=tuple(prefix.encode() for prefix in bucket.owned_prefixes),
            made_before=None if earlier is None else earlier.read_at,
            on_rows=rows,
        ).read()
        on_read(references)
        _prove_check_knows(storage, references)
        ticker.phase(
            CLASSIFYING,
            f"Read {references.keys:,} distinct keys from {len(references.per_source)} sources. "
            "Comparing.",
        )
        cutoff = now - bucket.min_age
        found = classify(
            listed,
            references,
            rules,
            milliseconds(cutoff),
            scratch,
            classifying,
            now=milliseconds(now),
            elsewhere=elsewhere.look_for,
        )
    except (ListingStopped, _Over) as error:
        raise TimeOver(
            f"The run's time ({format_duration(request.max_runtime)}) was over before every object "
            "was listed and compared, so nothing was concluded and nothing deleted. Give it more "
            "max_runtime or parts."
        ) from error
    except INCOMPLETE as error:
        raise JobFailed(f"{error} Nothing was marked, and nothing was deleted.") from error
    return Pass(found, references, listed.parts, listed.ordered_by_server, earlier)


class _Over(Exception):
    """Ends what is being read."""


def _prove_check_knows(storage: Storage, references: ReferenceSet) -> None:
    """Make sure that the check before a deletion asks what the long read asked.

    Raises:
        ReferencesUnknown: It recognises none of the keys that a source has just returned.
    """
    for name, count in references.per_source.items():
        samples = [key.decode() for key in count.samples if _is_text(key)]
        if not samples:
            continue
        known = storage.references.named(samples)
        if not any(name in names for names in known.values()):
            raise ReferencesUnknown(
                f"Source {name!r} returned {count.keys:,} keys, and the check of single keys that "
                f"comes before a deletion recognises none of {len(samples)} of them. Its "
                "transforms and its recheck_sql do not say the same, or the replica that it is "
                "read from is not a copy of the primary."
            )


def _is_text(key: bytes) -> bool:
    try:
        return "\x00" not in key.decode()
    except UnicodeDecodeError:
        return False


def _stop_when_over(ends_at: float) -> None:
    if time.monotonic() >= ends_at:
        raise _Over


# Where lists are kept: a folder of this machine, or a prefix of the bucket.

SCHEME = "s3://"


@contextmanager
def written_list(
    place: ReportSettings, name: str, scratch: Path, client: S3Client, bucket: str
) -> Iterator[tuple[IO[str], str]]:
    """Open a new list; at the end it stands in its place as a whole, or not at all.

    Args:
        place: Where it goes.
        name: The file's name there.
        scratch: A private folder for a list on its way to the bucket.
        client: Of the bucket.
        bucket: Its name on the server.

    Yields:
        The file, readable and writable by this user alone, and where it will stand.

    Raises:
        JobFailed: It could not be written there.
    """
    if place.folder is not None:
        folder = Path(place.folder)
        final = folder / name
        with _from_system(f"the folder {folder}"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _private(folder / f".{name}.partial") as (file, partial):
                yield file, str(final)
            partial.replace(final)
        return
    key = f"{place.prefix}{name}"
    where = f"{SCHEME}{bucket}/{key}"
    with _from_system("the scratch folder"), _private(scratch / name) as (file, partial):
        yield file, where
    try:
        client.upload_file(str(partial), bucket, key, ExtraArgs={"ContentType": "text/csv"})
    except (ClientError, BotoCoreError) as error:
        raise JobFailed(
            f"The list of this run could not be written to {where}: {described(error)}. Allow "
            "s3:PutObject there, or let report_to name a folder. Nothing was deleted."
        ) from error
    except Exception as error:
        # boto3's transfers wrap what they meet in an exception of their own.
        raise JobFailed(
            f"The list of this run could not be written to {where} ({type(error).__name__}). Allow "
            "s3:PutObject there, or let report_to name a folder. Nothing was deleted."
        ) from error


@contextmanager
def opened_list(where: str, scratch: Path, client: S3Client, bucket: str) -> Iterator[IO[str]]:
    """Open a reviewed list.

    Args:
        where: A path, or `s3://BUCKET/KEY` of the bucket that is swept.
        scratch: A private folder for a list from the bucket.
        client: Of the bucket.
        bucket: Its name on the server.

    Raises:
        JobFailed: It is not there, or in another bucket.
    """
    path = Path(where)
    if where.startswith(SCHEME):
        named, _, key = where.removeprefix(SCHEME).partition("/")
        if named != bucket or not key:
            raise JobFailed(
                f"The list {where} does not lie in the bucket {bucket} that this job sweeps. Give "
                f"its path, or s3://{bucket}/KEY."
            )
        path = scratch / "reviewed.csv"
        try:
            client.download_file(bucket, key, str(path))
        except (ClientError, BotoCoreError) as error:
            raise JobFailed(
                f"The list {where} could not be read: {described(error)}. Nothing was done."
            ) from error
    try:
        # A byte order mark is what some spreadsheets put in front of UTF-8.
        file = path.open(encoding="utf-8-sig", newline="")
    except OSError as error:
        raise JobFailed(
            f"The list {where} could not be read ({error.strerror}). It must lie on the machine "
            "that runs the job, or in the bucket. Nothing was done."
        ) from error
    with file:
        yield file


@contextmanager
def _private(path: Path) -> Iterator[tuple[IO[str], Path]]:
    """A new file of mode 0600, on disk for good at the end; removed when anything fails."""
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file, path
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


@contextmanager
def _from_system(where: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise JobFailed(
            f"The list of this run could not be written to {where} ({error.strerror}). Make it a "
            "folder that this user may write to, with room, or change report_to in filejobs.yaml. "
            "Nothing was deleted."
        ) from error
