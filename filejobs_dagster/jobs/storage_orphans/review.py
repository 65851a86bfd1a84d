"""What a person has agreed to: a reviewed list of today's orphans, or a rehearsal of the rules."""

from __future__ import annotations

import csv
import hashlib
import json
import re
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote_from_bytes, unquote_to_bytes

from dateutil.parser import isoparse

from filejobs_dagster.door.clocks import MOST_APART
from filejobs_dagster.jobs.storage_orphans.marks import etag_text
from filejobs_dagster.jobs.storage_orphans.settings import OLDEST_LIST
from filejobs_dagster.objects.identity import Seen, compare, milliseconds, strong
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.streams import Cursor, Sorter
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from filejobs_dagster.jobs.storage_orphans.classification import Orphan
    from filejobs_dagster.settings.storage import BucketSettings
    from filejobs_dagster.streams import Scratch

# Keys as the list of a run writes them: plain text that survives editors and spreadsheets.
#
# Whatever is not a plain character is percent-encoded, byte by byte: control characters, spaces,
# the percent sign itself, and everything beyond ASCII, since an editor may normalise `é` and make
# it another key. So is a first character that a spreadsheet takes for the beginning of a formula
# or a number. Decoding gives the exact bytes back.

PLAIN = "!#$&()*+,/:;<=>?@[]^_`{|}"
"""Printable ASCII beside letters, digits and `-._~` that stays as it is."""

_ESCAPED = re.compile(r"(?:[A-Za-z0-9\-._~" + re.escape(PLAIN) + r"]|%[0-9A-F]{2})+")
_FIRST = frozenset("=+-@0123456789")


class NotAKey(ValueError):
    """The text is not a key as a list writes it."""


def escape_key(key: bytes) -> str:
    """Write a key for a list."""
    text = quote_from_bytes(key, safe=PLAIN)
    if text[:1] in _FIRST:
        return f"%{ord(text[0]):02X}{text[1:]}"
    return text


def unescape_key(text: str) -> bytes:
    """Read a key of a list.

    Raises:
        NotAKey: It is empty or holds something that `escape_key` would have encoded.
    """
    if not _ESCAPED.fullmatch(text):
        raise NotAKey("the key is not written as the report wrote it")
    return unquote_to_bytes(text)


def named(name: str, keys: Iterable[bytes]) -> dict[str, list[str]]:
    r"""Keys for an event; those that JSON text cannot carry stand apart, percent-encoded.

    jsonb refuses `\x00`, and no JSON text holds bytes that are not UTF-8.
    """
    plain: list[str] = []
    escaped: list[str] = []
    for key in keys:
        text = _as_text(key)
        if text is None:
            escaped.append(escape_key(key))
        else:
            plain.append(text)
    found = {name: plain}
    return found | {f"{name}_percent_encoded": escaped} if escaped else found


def reasons(name: str, why: Mapping[bytes, object]) -> dict[str, dict[str, str]]:
    """Keys with their reasons for an event, as `named` does it."""
    plain: dict[str, str] = {}
    escaped: dict[str, str] = {}
    for key, reason in why.items():
        text = _as_text(key)
        if text is None:
            escaped[escape_key(key)] = str(reason)
        else:
            plain[text] = str(reason)
    found = {name: plain}
    return found | {f"{name}_percent_encoded": escaped} if escaped else found


def _as_text(key: bytes) -> str | None:
    if b"\x00" in key:
        return None
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return None


# The list of a run as CSV: what a person reviews, edits and hands back.
#
# The first rows begin with `#` and say whose list it is. Spreadsheets keep them as ordinary rows.

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


_AT_ONCE = 5000
_Row = tuple[bytes, int, int, str, int]
"""Key, size, modified, etag, and 1 when it may be removed."""


@dataclass(frozen=True)
class Expectation:
    """Whose list it must be.

    Attributes:
        installation: This one.
        bucket: Its name on the server.
        endpoint: The server.
        fingerprint: Of today's sources and rules.
        now: By the database's clock.
    """

    installation: str
    bucket: str
    endpoint: str
    fingerprint: str
    now: datetime


class ReviewedList:
    """The lines of a reviewed list, sorted on disk.

    Attributes:
        heading: Whose list it was.
        asked: Lines that say `remove`.
        agreed: Orphans of this pass that the list agrees to; counted by `agree`.
    """

    def __init__(self, file: Iterable[str], scratch: Scratch, expected: Expectation) -> None:
        """Read all of it.

        Raises:
            JobFailed: It is no list, or not one for here and today.
        """
        self._rows: Sorter[_Row] = Sorter(scratch, "reviewed")
        self._by_age: Sorter[tuple[bytes, bytes]] = Sorter(scratch, "agreed")
        self.asked = 0
        self.agreed = 0
        try:
            self.heading, lines = read_list(file)
            _refuse_foreign(self.heading, expected)
            for portion in _portions(lines):
                rows = [_row(line) for line in portion]
                self.asked += sum(row[4] for row in rows)
                self._rows.add(rows)
        except (NotAList, UnicodeDecodeError) as error:
            raise JobFailed(
                f"The reviewed list cannot be used. {error} Nothing was done."
            ) from error

    def agree(self, blocks: Iterable[list[Orphan]]) -> None:
        """Compare the list with all orphans of this pass, in the order of their keys."""
        reviewed = Cursor(self._rows.sorted_blocks())
        for block in blocks:
            if not block:
                continue
            said: dict[bytes, list[_Row]] = {orphan.key: [] for orphan in block}
            for rows in reviewed.blocks_through(block[-1].key):
                for row in rows:
                    if row[0] in said:
                        said[row[0]].append(row)
            agreed = [
                (struct.pack(">q", orphan.modified) + orphan.key, orphan.key)
                for orphan in block
                if _agrees(orphan, said[orphan.key])
            ]
            self.agreed += len(agreed)
            self._by_age.add(agreed)

    def keys_by_age(self) -> Iterator[list[bytes]]:
        """The keys that both agree on, oldest object first; once."""
        for block in self._by_age.sorted_blocks():
            yield [key for _, key in block]


def _refuse_foreign(heading: Heading, expected: Expectation) -> None:
    for what, listed, here in (
        ("installation", heading.installation, expected.installation),
        ("bucket", heading.bucket, expected.bucket),
        ("server", heading.endpoint, expected.endpoint),
    ):
        if listed != here:
            raise JobFailed(
                f"The reviewed list is of the {what} {listed!r}, and this is {here!r}. Nothing was "
                "done."
            )
    _refuse_outdated(
        "The reviewed list", heading.written_at, heading.fingerprint, expected,
        taken="Take the file that the run wrote", again="Let a dry run write a new one",
    )  # fmt: skip


def _refuse_outdated(
    what: str, made_at: datetime, rules: str, expected: Expectation, *, taken: str, again: str
) -> None:
    """Refuse what was made by other rules, or at another time, than a run may go by.

    Args:
        what: A list or a rehearsal.
        made_at: When it was made, as it says.
        rules: The fingerprint that it names.
        expected: What is here.
        taken: What to do where it says what cannot be.
        again: How to make another.

    Raises:
        JobFailed: It is so.
    """
    age = expected.now - made_at
    if age < -MOST_APART:
        raise JobFailed(
            f"{what} says that it was made at {made_at:%Y-%m-%d %H:%M} UTC, which is not yet: it "
            f"was changed, or made where the clock is wrong. {taken}. Nothing was done."
        )
    if age > OLDEST_LIST:
        raise JobFailed(
            f"{what} was made at {made_at:%Y-%m-%d %H:%M} UTC, more than "
            f"{format_duration(OLDEST_LIST)} ago. {again}. Nothing was done."
        )
    if rules != expected.fingerprint:
        raise JobFailed(
            f"Sources or rules in filejobs.yaml have changed since {what[0].lower()}{what[1:]} was "
            f"made (fingerprint {rules}, now {expected.fingerprint}): what it says was judged by "
            f"others. {again}. Nothing was done."
        )


# The hash of a rehearsal: one line that is copied from the machine on which somebody rehearsed to
# wherever the run begins. It proves nothing against somebody who lies; it tells mistakes.

_HASH = re.compile(
    r"(?P<rules>[0-9a-f]{16})-(?P<at>\d{8}T\d{6}Z)-(?P<objects>\d+)-(?P<references>\d+)"
    r"-(?P<digest>[0-9a-f]{16})"
)
_STAMP = "%Y%m%dT%H%M%SZ"
OF_A_DUMP = "a dump"
"""Stands for the database's identity where the rows came from a dump, which has none."""


def of_a_dump(adopted_at: datetime | None) -> str:
    """What a dump is known by: the moment at which its database adopted the bucket.

    Args:
        adopted_at: None where the bucket is not adopted.
    """
    return OF_A_DUMP if adopted_at is None else f"{OF_A_DUMP}, adopted {milliseconds(adopted_at)}"


MOST_GROWTH = 2
"""How many times as many references one database may have than the rehearsed one, or as few."""

FEW_REFERENCES = 10
"""A difference that says nothing."""


@dataclass(frozen=True)
class Rehearsed:
    """A rehearsal that went as it must.

    Attributes:
        rules: The fingerprint of the sources and rules that were rehearsed.
        ended_at: When, to the second.
        objects: How many objects went there.
        references: How many keys the sources named there.
    """

    rules: str
    ended_at: datetime
    objects: int
    references: int

    def as_hash(self, place: Expectation, database: str, bucket: BucketSettings) -> str:
        """The line that a run is given.

        Args:
            place: Installation, bucket and server.
            database: The identity of the database whose rows were copied, or `of_a_dump`.
            bucket: Whose settings beyond the fingerprint count, too.
        """
        stamp = f"{self.ended_at.astimezone(timezone.utc):{_STAMP}}"
        said = f"{self.rules}-{stamp}-{self.objects}-{self.references}"
        elsewhere = bucket.named_elsewhere.model_dump(mode="json", exclude={"databases"})
        beside = [
            said, place.installation, place.bucket, place.endpoint, database,
            bucket.min_age.total_seconds(), elsewhere,
        ]  # fmt: skip
        digest = hashlib.sha256(json.dumps(beside, sort_keys=True).encode()).hexdigest()[:16]
        return f"{said}-{digest}"

    @classmethod
    def of(
        cls, text: str, expected: Expectation, databases: Collection[str], bucket: BucketSettings
    ) -> Rehearsed:
        """Read a hash, as a run is given it.

        Args:
            text: The hash.
            expected: Of here and today.
            databases: What the database is known by that the run works on.
            bucket: The settings of today.

        Raises:
            JobFailed: It is none, or not one of these rules, this place and these days.
        """
        again = "Run filejobs rehearse again"
        parts = _HASH.fullmatch(text)
        if parts is None:
            raise JobFailed(
                f"{text!r} is not the hash of a rehearsal. Copy the whole line that filejobs "
                "rehearse prints last; it is printed only when every run and every planted file "
                "went as it must. Nothing was done."
            )
        at = datetime.strptime(parts["at"], _STAMP).replace(tzinfo=timezone.utc)
        made = cls(parts["rules"], at, int(parts["objects"]), int(parts["references"]))
        _refuse_outdated(
            "The rehearsal", at, made.rules, expected, taken="Correct the clock", again=again
        )
        if text not in {made.as_hash(expected, it, bucket) for it in databases}:
            raise JobFailed(
                "The hash of the rehearsal fits the sources and rules, and not the rest: another "
                "installation, bucket, server or database was rehearsed, min_age or "
                f"named_elsewhere was changed since, or the line was not copied whole. {again}, "
                f"for {expected.installation} and the bucket {expected.bucket} at "
                f"{expected.endpoint}. Nothing was done."
            )
        return made

    def compare(self, references: int) -> None:
        """Refuse a database that is another than the rehearsed one; a dump has no other identity.

        Args:
            references: How many keys the sources name here.

        Raises:
            JobFailed: They are far more, or far fewer.
        """
        less, more = sorted((self.references, references))
        if more > less * MOST_GROWTH and more - less > FEW_REFERENCES:
            raise JobFailed(
                f"In the rehearsal the sources named {self.references:,} keys, and here they name "
                f"{references:,}: another database was rehearsed (an old dump, or one of a test), "
                "or rows are missing in one of both. Find out which; then run filejobs rehearse "
                "again, on the database of this run or a dump of today. Nothing was deleted."
            )


def _row(line: Line) -> _Row:
    return line.key, line.size, line.modified, line.etag, int(line.decision == REMOVE)


def _agrees(orphan: Orphan, said: list[_Row]) -> bool:
    """The same object, and every line about it says remove."""
    seen = Seen(etag_text(orphan.etag), orphan.size, _known(orphan.modified))
    return bool(said) and all(
        remove and compare(Seen(etag, size, _known(modified)), seen).same
        for _, size, modified, etag, remove in said
    )


def _known(modified: int) -> int | None:
    return modified if modified >= 0 else None


def _portions(lines: Iterator[Line]) -> Iterator[list[Line]]:
    portion: list[Line] = []
    for line in lines:
        portion.append(line)
        if len(portion) == _AT_ONCE:
            yield portion
            portion = []
    if portion:
        yield portion
