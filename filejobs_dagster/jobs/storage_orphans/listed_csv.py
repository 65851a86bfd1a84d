"""The list of a run as CSV: what a person reviews, edits and hands back.

The first rows begin with `#` and say whose list it is. Spreadsheets keep them as ordinary rows.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol

from dateutil.parser import isoparse

from filejobs_dagster.jobs.storage_orphans.keys_in_lists import NotAKey, escape_key, unescape_key
from filejobs_dagster.objects.etags import strong
from filejobs_dagster.objects.identity import milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

REMOVE = "remove"
KEEP = "keep"

COLUMNS = (
    "decision",
    "key",
    "size",
    "last_modified",
    "etag",
    "class",
    "reason",
    "first_seen",
    "belonged_to",
)
_ONLY_FOR_PEOPLE = "belonged_to"
"""Nothing goes by it, and the lists of older versions do not have it."""

MISSING = "missing"
"""The class of a line about a reference without an object: nothing to remove, somebody to ask."""

TITLE = "filejobs storage_orphans"
"""The value of the first row."""

_HOW = "change remove to keep, or delete rows; then: filejobs apply FILE. Keys are percent-encoded."
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_NEEDED = ("run_id", "installation", "bucket", "endpoint", "fingerprint", "written_at")


class NotAList(ValueError):
    """The file is not a list that a run wrote; the message says where and what to do."""


class Writer(Protocol):
    """A text file."""

    def write(self, text: str, /) -> object:
        """Write text."""
        ...


@dataclass(frozen=True)
class Heading:
    """Whose list it is.

    Attributes:
        run_id: The run that wrote it.
        installation: Its installation.
        bucket: The bucket's name on the server.
        endpoint: The server, `AWS` where the settings name none.
        fingerprint: Of the sources and rules it was judged by.
        written_at: By the database's clock.
        mode: Of that run; for people.
    """

    run_id: str
    installation: str
    bucket: str
    endpoint: str
    fingerprint: str
    written_at: datetime
    mode: str = "dry"


@dataclass(frozen=True)
class Line:
    """One object of a list.

    Attributes:
        decision: `remove` or `keep`; only `remove` counts.
        key: Its exact bytes.
        size: Bytes.
        modified: Unix milliseconds, -1 when unknown.
        etag: Without quotation marks.
        of_class: Its class when the list was written.
        reason: Why it is kept, or nothing.
        first_seen: When it was first seen as an orphan, or None when it is not one.
        belonged_to: Whom, as far as anything tells; for people.
    """

    decision: str
    key: bytes
    size: int
    modified: int
    etag: str
    of_class: str
    reason: str = ""
    first_seen: datetime | None = None
    belonged_to: str = ""


class ListWriter:
    """Writes the rows of one list."""

    def __init__(self, file: Writer, heading: Heading) -> None:
        """Write the heading and the names of the columns."""
        self._csv = csv.writer(file, lineterminator="\n")
        self.rows = 0
        for name, value in (
            ("# list", TITLE),
            ("# run_id", heading.run_id),
            ("# installation", heading.installation),
            ("# bucket", heading.bucket),
            ("# endpoint", heading.endpoint),
            ("# fingerprint", heading.fingerprint),
            ("# written_at", heading.written_at.isoformat()),
            ("# mode", heading.mode),
            (
                "# how",
                _HOW,
            ),
        ):
            self._csv.writerow([name, value])
        self._csv.writerow(COLUMNS)

    def write(self, lines: Iterable[Line]) -> None:
        """Write some objects."""
        rows = [_as_row(line) for line in lines]
        self._csv.writerows(rows)
        self.rows += len(rows)


def read_list(file: Iterable[str]) -> tuple[Heading, Iterator[Line]]:
    """Read a list: its heading at once, its lines as they are taken.

    Raises:
        NotAList: It is no such list, or a line was changed where it must not be; the iterator
            raises too.
    """
    rows = enumerate(csv.reader(file, strict=True), start=1)
    said: dict[str, str] = {}
    columns: list[str] | None = None
    try:
        for _, row in rows:
            if not any(row):
                continue
            if not row[0].startswith("#"):
                columns = [cell.strip() for cell in row]
                break
            said[row[0].lstrip("# ").strip()] = row[1].strip() if len(row) > 1 else ""
    except csv.Error as error:
        raise NotAList(f"It is not CSV with commas and quotation marks: {error}.") from error
    if said.get("list") != TITLE or columns is None:
        raise NotAList(
            "Its first row is not `# list,filejobs storage_orphans`: it is not the list of a run, "
            "or its heading was removed. Save it as CSV with commas, heading and all."
        )
    missing = [name for name in _NEEDED if not said.get(name)]
    absent = [name for name in COLUMNS if name not in {*columns, _ONLY_FOR_PEOPLE}]
    repeated = [name for name in COLUMNS if columns.count(name) > 1]
    if missing or absent or repeated:
        problem = "lacks" if missing or absent else "repeats"
        raise NotAList(
            f"Its heading {problem} {', '.join(missing or absent or repeated)}: take the file that "
            "the run wrote, and change only the column `decision`, or delete rows."
        )
    try:
        written_at = isoparse(said["written_at"]).astimezone(timezone.utc)
    except ValueError as error:
        raise NotAList("`written_at` of its heading is no moment any more.") from error
    heading = Heading(
        said["run_id"], said["installation"], said["bucket"], said["endpoint"],
        said["fingerprint"], written_at, said.get("mode", ""),
    )  # fmt: skip
    return heading, _lines(rows, columns)


def _lines(rows: Iterator[tuple[int, list[str]]], columns: list[str]) -> Iterator[Line]:
    while True:
        try:
            number, row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise NotAList(f"It is not CSV with commas and quotation marks: {error}.") from error
        if any(row):
            try:
                yield _as_line(dict(zip(columns, row, strict=False)))
            except (NotAKey, ValueError, KeyError, OverflowError) as error:
                raise NotAList(
                    f"Row {number} is not as the run wrote it ({error}). Change only the column "
                    "`decision`, or delete rows; some spreadsheets rewrite numbers and dates, and "
                    "a text editor does not."
                ) from error


def _as_row(line: Line) -> list[Any]:
    return [
        line.decision,
        escape_key(line.key),
        line.size,
        moment_as_text(line.modified),
        f'"{line.etag}"',
        line.of_class,
        line.reason,
        "" if line.first_seen is None else line.first_seen.isoformat(),
        line.belonged_to,
    ]


def _as_line(row: dict[str, str]) -> Line:
    decision = row["decision"].strip().lower()
    if decision not in {REMOVE, KEEP}:
        raise ValueError(f"its decision is {decision!r}; it can be remove or keep")
    return Line(
        decision=decision,
        key=unescape_key(row["key"].strip()),
        size=int(row["size"]),
        modified=_moment_from_text(row["last_modified"].strip()),
        etag=strong(row["etag"]),
        of_class=row["class"].strip(),
    )


def moment_as_text(at: int) -> str:
    """Write a listing's time with its milliseconds; nothing when it is unknown."""
    if at < 0:
        return ""
    moment = _EPOCH + timedelta(milliseconds=at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment_from_text(text: str) -> int:
    if not text:
        return -1
    moment = isoparse(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has lost its time zone")
    return milliseconds(moment)
