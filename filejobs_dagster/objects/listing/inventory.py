"""Reads an S3 Inventory from files: its manifest, and each file that this names, in CSV or Parquet.

All of it or nothing: what the manifest names must be there with the checksum that it gives. Of a
bucket with versions only what a listing shows is returned, in the order of the files.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote_to_bytes

from dateutil.parser import isoparse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

_AT_ONCE = 10_000
"""Rows of a Parquet file."""

_BYTES_AT_ONCE = 2**20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

_IN_PARQUET = {
    "Key": "key",
    "Size": "size",
    "LastModifiedDate": "last_modified_date",
    "IsLatest": "is_latest",
    "IsDeleteMarker": "is_delete_marker",
}
"""Columns of a Parquet file by what they are called in CSV."""

_NEEDED = ("Key", "Size", "LastModifiedDate")
_CURRENT = {"IsLatest": True, "IsDeleteMarker": False}


class InventoryUnusable(Exception):
    """It is no whole inventory of this bucket, or cannot be read here; the message says why."""


class Entry(NamedTuple):
    """An object as an inventory has it.

    Attributes:
        key: Exact.
        size: In bytes.
        modified: When it was written.
    """

    key: bytes
    size: int
    modified: datetime


def inventory(manifest: Path, bucket: str) -> Iterator[Entry]:
    """The objects of an S3 Inventory.

    Args:
        manifest: Its manifest.json. The files lie beside it, or where the inventory has put them.
        bucket: Of which it must be.

    Raises:
        InventoryUnusable: It is of another bucket, or not all of it is there and as it was.
        OSError: A file cannot be read.
    """
    raw = manifest.read_bytes()
    try:
        said = json.loads(raw)
        source, form, schema, files = (
            said[name] for name in ("sourceBucket", "fileFormat", "fileSchema", "files")
        )
        parts = [(str(it["key"]), str(it["MD5checksum"])) for it in files]
    except (ValueError, KeyError, TypeError) as error:
        raise InventoryUnusable(f"{manifest} is no manifest of an S3 Inventory: {error!r}.") from (
            error
        )
    checksum = manifest.with_name("manifest.checksum")
    if checksum.exists() and checksum.read_text().strip() != _md5(raw):
        raise InventoryUnusable(
            f"{manifest} is not what {checksum.name} beside it says: copy both again."
        )
    if source != bucket:
        raise InventoryUnusable(
            f"{manifest} is of the bucket {source}, and the settings sweep {bucket}."
        )
    if form not in ("CSV", "Parquet"):
        raise InventoryUnusable(
            f"{manifest} is of the format {form}: let the inventory write CSV or Parquet."
        )
    if form == "Parquet" and find_spec("pyarrow") is None:
        raise InventoryUnusable(
            f"{manifest} is of the format Parquet, which pyarrow reads, and pyarrow is not "
            "installed: pip install 'filejobs_dagster[inventory]', or let the inventory write CSV."
        )
    for key, digest in parts:
        part = _part(manifest, key)
        if _md5_of(part) != digest:
            raise InventoryUnusable(f"{part} is not what the manifest says: copy it again.")
        yield from _of_csv(part, manifest, schema) if form == "CSV" else _of_parquet(part)


# CSV ----------------------------------------------------------------------------------------------


def _of_csv(part: Path, manifest: Path, schema: str) -> Iterator[Entry]:
    columns = [name.strip() for name in schema.split(",")]
    _require_columns(columns, _NEEDED, manifest)
    current = [
        (columns.index(name), str(value).lower())
        for name, value in _CURRENT.items()
        if name in columns
    ]
    with gzip.open(part, "rt", encoding="utf-8", newline="") as file:
        rows = (
            row for row in csv.reader(file) if all(row[place] == value for place, value in current)
        )
        yield from entries_of(part, rows, [columns.index(name) for name in _NEEDED], _decoded)


def entries_of(
    path: Path, rows: Iterable[list[str]], places: Sequence[int], as_key: Callable[[str], bytes]
) -> Iterator[Entry]:
    """Rows of a CSV as entries.

    Args:
        path: Where they stand, for a message.
        rows: Without a first line of names; empty ones are passed over.
        places: Of key, size and time in a row.
        as_key: Makes the exact key of what stands there; raises ValueError for what is none.

    Raises:
        InventoryUnusable: A row is none.
    """
    for number, row in enumerate(rows, start=1):
        if not row:
            continue
        try:
            key, size, modified = (row[place] for place in places)
            # A directory marker has no size in some inventories.
            found = Entry(as_key(key), int(size or 0), _moment(modified))
        except (ValueError, IndexError) as error:
            raise InventoryUnusable(
                f"Row {number} of {path} is no key, size and moment: {error}."
            ) from error
        yield found


def _moment(text: str) -> datetime:
    try:
        # A tenth of the time, for all that S3 writes.
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        at = isoparse(text)
    if at.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return at


def _decoded(text: str) -> bytes:
    # As forms are encoded: a plus sign stands for a space.
    return unquote_to_bytes(text.replace("+", " "))


# Parquet ------------------------------------------------------------------------------------------


def _of_parquet(part: Path) -> Iterator[Entry]:
    """The objects of a file; keys are not encoded in this format."""
    import pyarrow as pa  # noqa: PLC0415 (of an extra)
    from pyarrow import parquet  # noqa: PLC0415

    try:
        with parquet.ParquetFile(part) as file:
            there = file.schema_arrow.names
            _require_columns(there, [_IN_PARQUET[name] for name in _NEEDED], part)
            columns = [name for name in _IN_PARQUET.values() if name in there]
            for batch in file.iter_batches(_AT_ONCE, columns=columns):
                yield from _entries(pa, part, {it: batch.column(it) for it in columns})
    except pa.ArrowException as error:
        raise InventoryUnusable(f"{part} cannot be read as Parquet: {error}.") from error


def _entries(pa: Any, part: Path, batch: Mapping[str, Any]) -> Iterator[Entry]:
    key, size, modified = (batch[_IN_PARQUET[name]] for name in _NEEDED)
    if pa.types.is_timestamp(modified.type):
        # By its count, since a time without a zone is one in UTC here.
        modified = modified.cast(pa.timestamp("ms", modified.type.tz), safe=False)
    rows = zip(
        key.cast(pa.binary()).to_pylist(),
        size.to_pylist(),
        modified.cast(pa.int64()).to_pylist(),
        *(
            batch[name].to_pylist()
            for name in (_IN_PARQUET[it] for it in _CURRENT)
            if name in batch
        ),
        strict=True,
    )
    wanted = [value for name, value in _CURRENT.items() if _IN_PARQUET[name] in batch]
    for raw, count, at, *current in rows:
        if current != wanted:
            continue
        if raw is None or at is None:
            raise InventoryUnusable(f"A row of {part} has no key, or no time: {raw!r}, {at!r}.")
        yield Entry(raw, count or 0, _EPOCH + timedelta(milliseconds=at))


# Files --------------------------------------------------------------------------------------------


def _require_columns(there: Sequence[str], wanted: Sequence[str], path: Path) -> None:
    lacking = [name for name in wanted if name not in there]
    if lacking:
        raise InventoryUnusable(
            f"{path} lacks {', '.join(lacking)}: add these fields to the inventory, and wait for "
            "the next one."
        )


def _part(manifest: Path, key: str) -> Path:
    """A file of the inventory: beside the manifest, or where the bucket keeps it."""
    name = key.rsplit("/", 1)[-1]
    places = [manifest.parent / name, *(above / "data" / name for above in manifest.parents)]
    for place in places[:4]:
        if place.exists():
            return place
    raise InventoryUnusable(
        f"{name}, which the manifest names, is not there: copy it beside {manifest}. A part of a "
        "listing would say nothing."
    )


def _md5(raw: bytes) -> str:
    return hashlib.md5(raw, usedforsecurity=False).hexdigest()


def _md5_of(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(_BYTES_AT_ONCE):
            digest.update(block)
    return digest.hexdigest()
