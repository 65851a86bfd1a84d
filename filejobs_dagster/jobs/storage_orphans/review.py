"""A reviewed list: which of today's orphans a person has agreed to."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.door.clocks import MOST_APART
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.storage_orphans.listed_csv import (
    REMOVE,
    Heading,
    Line,
    NotAList,
    read_list,
)
from filejobs_dagster.jobs.storage_orphans.marks import etag_text
from filejobs_dagster.jobs.storage_orphans.settings import OLDEST_LIST
from filejobs_dagster.objects.identity import Seen, compare
from filejobs_dagster.settings.durations import format_duration
from filejobs_dagster.streams import Cursor, Sorter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from filejobs_dagster.jobs.storage_orphans.classification import Orphan
    from filejobs_dagster.streams import Scratch

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
    age = expected.now - heading.written_at
    if age < -MOST_APART:
        raise JobFailed(
            f"The reviewed list says that it was written at {heading.written_at:%Y-%m-%d %H:%M} "
            "UTC, which is not yet: its heading was changed. Take the file that the run wrote. "
            "Nothing was done."
        )
    if age > OLDEST_LIST:
        raise JobFailed(
            f"The reviewed list was written at {heading.written_at:%Y-%m-%d %H:%M} UTC, more than "
            f"{format_duration(OLDEST_LIST)} ago. Let a dry run write a new one. Nothing was done."
        )
    if heading.fingerprint != expected.fingerprint:
        raise JobFailed(
            "Sources or rules in filejobs.yaml have changed since the reviewed list was written "
            f"(fingerprint {heading.fingerprint}, now {expected.fingerprint}): what it says was "
            "judged by others. Let a dry run write a new one. Nothing was done."
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
