"""Where lists are kept: a folder of this machine, or a prefix of the bucket."""

from __future__ import annotations

import contextlib
import os
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.objects.errors import described

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.storage_orphans.settings import ReportSettings

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
