"""An S3 Inventory in files: all of it as it is, or nothing."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

import pyarrow as pa
import pytest
from pyarrow import parquet

from filejobs_dagster.objects.listing import inventory as reading
from filejobs_dagster.objects.listing.inventory import Entry, InventoryUnusable, inventory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUCKET = "uploads"
AT = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=timezone.utc)
KEYS = ("files/a+b c", "files/two\nlines", "files/\U0001f600", "files/100%20", "files/folder/")
SAID = [Entry(key.encode(), n, AT + timedelta(days=n)) for n, key in enumerate(KEYS)]
OLDER = Entry(b"files/a+b c", 77, AT)
MARKER = Entry(b"files/marked", 0, AT)
ROWS = [(it, True, False) for it in SAID] + [(OLDER, False, False), (MARKER, True, True)]
FIELDS = "Bucket, Key, IsLatest, IsDeleteMarker, Size, LastModifiedDate"


def as_csv(path: Path) -> None:
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows(
        (BUCKET, quote_plus(it.key), str(latest).lower(), str(marker).lower(), it.size or "",
         it.modified.isoformat())
        for it, latest, marker in ROWS
    )  # fmt: skip
    path.write_bytes(gzip.compress(text.getvalue().encode()))


def as_parquet(kind: Any, *, versions: bool = True, key: Any = None) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        rows = ROWS if versions else ROWS[: len(SAID)]
        columns: dict[str, Any] = {
            "bucket": [BUCKET] * len(rows),
            "key": pa.array([it.key.decode() for it, *_ in rows]).cast(key or pa.string()),
            "size": pa.array([it.size or None for it, *_ in rows], pa.int64()),
            "last_modified_date": pa.array(
                [int(it.modified.timestamp() * 1000) for it, *_ in rows], pa.int64()
            ).cast(pa.timestamp("ms")).cast(kind),
        }  # fmt: skip
        if versions:
            columns["is_latest"] = [latest for _, latest, _ in rows]
            columns["is_delete_marker"] = [marker for *_, marker in rows]
        parquet.write_table(pa.table(columns), path, row_group_size=2)

    return write


def manifest(folder: Path, write: Callable[[Path], None], form: str) -> Path:
    (folder / "data").mkdir()
    path = folder / "data" / "1.part"
    write(path)
    digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
    said = {
        "sourceBucket": BUCKET,
        "fileFormat": form,
        "fileSchema": FIELDS if form == "CSV" else "message s3.inventory { … }",
        "files": [{"key": "inv/data/1.part", "size": 1, "MD5checksum": digest}],
    }
    place = folder / "manifest.json"
    place.write_text(json.dumps(said))
    return place


@pytest.mark.parametrize(
    ("write", "form"),
    [
        (as_csv, "CSV"),
        (as_parquet(pa.timestamp("ms")), "Parquet"),
        (as_parquet(pa.timestamp("ms", "UTC"), key=pa.binary()), "Parquet"),
        (as_parquet(pa.timestamp("ns"), versions=False), "Parquet"),
        (as_parquet(pa.int64(), key=pa.large_string()), "Parquet"),
    ],
    ids=["csv", "as S3 writes it", "with a zone", "without versions", "numbers"],
)
def test_what_is_there_now_comes_as_it_is_in_each_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None], form: str
) -> None:
    monkeypatch.setattr(reading, "_AT_ONCE", 3)
    assert list(inventory(manifest(tmp_path, write, form), BUCKET)) == SAID


def damaged(place: Path) -> None:
    part = place.parent / "data" / "1.part"
    part.write_bytes(part.read_bytes()[:-1] + b"?")


def cut_off(place: Path) -> None:
    """As it arrived; and the manifest agrees."""
    part = place.parent / "data" / "1.part"
    part.write_bytes(part.read_bytes()[:-9])
    said = json.loads(place.read_text())
    digest = hashlib.md5(part.read_bytes(), usedforsecurity=False).hexdigest()
    said["files"][0]["MD5checksum"] = digest
    place.write_text(json.dumps(said))


def lacking(place: Path) -> None:
    (place.parent / "data" / "1.part").unlink()


def another(place: Path) -> None:
    place.write_text(place.read_text().replace(BUCKET, "downloads"))


def orc(place: Path) -> None:
    place.write_text(place.read_text().replace("Parquet", "ORC"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (damaged, "is not what the manifest says: copy it again"),
        (cut_off, "cannot be read as Parquet"),
        (lacking, "which the manifest names, is not there"),
        (another, "is of the bucket downloads"),
        (orc, "let the inventory write CSV or Parquet"),
    ],
)
def test_a_parquet_inventory_that_is_not_whole_or_of_another_bucket_is_refused(
    tmp_path: Path, change: Callable[[Path], None], words: str
) -> None:
    place = manifest(tmp_path, as_parquet(pa.timestamp("ms")), "Parquet")
    change(place)
    with pytest.raises(InventoryUnusable, match=words):
        list(inventory(place, BUCKET))


def test_a_column_that_is_not_in_it_is_named(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        parquet.write_table(pa.table({"key": ["files/a"], "size": [1]}), path)

    with pytest.raises(InventoryUnusable, match="lacks last_modified_date: add these fields"):
        list(inventory(manifest(tmp_path, write, "Parquet"), BUCKET))


def test_without_pyarrow_only_parquet_is_refused_and_what_to_install_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "find_spec", lambda _: None)
    for name, write, form in (
        ("csv", as_csv, "CSV"),
        ("parquet", as_parquet(pa.timestamp("ms")), "Parquet"),
    ):
        (tmp_path / name).mkdir()
        found = inventory(manifest(tmp_path / name, write, form), BUCKET)
        if form == "CSV":
            assert list(found) == SAID
        else:
            with pytest.raises(InventoryUnusable, match=r"filejobs_dagster\[inventory\]"):
                list(found)
