"""Multipart uploads that are known by the id in their row, whatever the server lists.

A server may forget an upload and keep its parts, and a part may arrive after the abort that ended
the upload. The row of such an upload is `cleaned`; for some time it is asked for once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from filejobs_dagster.jobs.multipart_uploads.statements import AT_WORK, CLEANED, CLEANED_OF
from filejobs_dagster.objects.multipart import MultipartUpload

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.context import RunContext

ROWS_AT_ONCE = 500

_FIRST = UUID(int=0)


class KnownUploads:
    """The rows that were cleaned between two moments."""

    def __init__(self, context: RunContext, *, since: datetime, until: datetime) -> None:
        """Nothing is read yet.

        Args:
            context: The run.
            since: Rows that were cleaned before are left to the listing.
            until: The run's own time.
        """
        self._context = context
        self._range = {"since": since, "until": until}

    def each(self) -> Iterator[MultipartUpload]:
        """All of them, a page at a time."""
        after_at, after_id = self._range["since"], _FIRST
        while True:
            values = {"after_at": after_at, "after_id": after_id, "most": ROWS_AT_ONCE}
            with self._context.database.transaction(
                self._context.connection, read_only=True
            ) as cursor:
                rows = cursor.execute(CLEANED, self._range | values).fetchall()
            for after_at, after_id, key, upload_id in rows:  # noqa: B007 (the last one counts)
                yield MultipartUpload(key, upload_id, initiated=None)
            if len(rows) < ROWS_AT_ONCE:
                return

    def at_work(self, most: int) -> list[MultipartUpload]:
        """Some of the uploads whose rows are not done, whoever began last first."""
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            rows = cursor.execute(AT_WORK, {"most": most}).fetchall()
        return [MultipartUpload(key, upload_id, initiated=None) for key, upload_id in rows]

    def among(self, uploads: Sequence[MultipartUpload]) -> set[tuple[str, str]]:
        """Key and id of those uploads that `each` yields, too."""
        # A text column holds neither NUL nor what is no UTF-8, so it cannot name such a key.
        keys = [it.key for it in uploads if "\x00" not in it.key and _encodes(it.key)]
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            rows = cursor.execute(CLEANED_OF, {**self._range, "keys": keys}).fetchall()
        return {(key, upload_id) for key, upload_id in rows}


def _encodes(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
