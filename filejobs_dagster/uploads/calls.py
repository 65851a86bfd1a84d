"""The calls of an application, each one statement on its own connection.

What an upload is, in the words of its table, stands here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from uuid import UUID

# What an upload is, in the words of its table.

UploadState: TypeAlias = Literal[
    "writing", "stored", "ready", "cleanup", "cleaned", "uncertain", "retained"
]
"""Of a row of `upload`; the transitions between them are in the migration that makes the table."""


class NoSuchUpload(LookupError):
    """There is no row of `upload` with that id: never begun, or its beginning rolled back."""

    def __init__(self, upload: UUID) -> None:
        super().__init__(
            f"There is no upload {upload}. Was the transaction committed that began it? Begin a "
            "new one; its key is a new one, too."
        )
        self.upload = upload


@dataclass(frozen=True)
class BegunUpload:
    """An upload whose row stands.

    Attributes:
        id: The row's.
        key: The exact key to store the object under; no other upload has it, nor ever will.
    """

    id: UUID
    key: str


class Uploads:
    """The uploads of one database, over a connection of the application.

    Each call is one statement in the transaction that the connection is in. It commits nothing:
    commit `begin` and `record_upload_id` before anything is sent to the storage, and take the other
    answers for settled once they are committed. A call whose answer was lost may be repeated;
    `begin` then makes another upload, and the first one is cleaned up.

    Under REPEATABLE READ and SERIALIZABLE, whoever loses a race gets
    `psycopg.errors.SerializationFailure` instead of an answer: roll back, and call again.
    """

    def __init__(
        self, connection: psycopg.Connection[Any] | psycopg.Cursor[Any], schema: str = "public"
    ) -> None:
        """Prepare the calls; nothing is sent yet.

        Args:
            connection: The application's, or a cursor of it, with any row factory.
            schema: Where the project's tables and functions are.
        """
        self._connection = (
            connection.connection if isinstance(connection, psycopg.Cursor) else connection
        )
        self._schema = schema

    def begin(self, prefix: str, suffix: str = "") -> BegunUpload:
        """Write the durable record of an upload. Commit it before the storage hears of it.

        Args:
            prefix: A folder in an owned prefix, such as `files/`.
            suffix: What follows the id in the key, such as `.pdf` or `/report.pdf`.

        Raises:
            psycopg.errors.InvalidParameterValue: They make no key that every server and proxy
                keeps as it is; the hint says what does.
        """
        found = self._rows(
            sql.SQL("SELECT id, key FROM {}(%s::text, %s::text)"), "begin_upload", prefix, suffix
        )
        ((upload, key),) = found
        return BegunUpload(upload, key)

    def record_upload_id(self, upload: UUID, provider_id: str) -> bool:
        """Note the provider's id of a multipart upload. Commit it before the first part is sent.

        Returns:
            True when the writer may go on. False: stop, abort the multipart upload and call
            `mark_uncertain`; the id is noted all the same, so that its parts are found.

        Raises:
            NoSuchUpload: There is no such row.
            psycopg.errors.IntegrityConstraintViolation: Another id is noted already.
        """
        return bool(self._one("record_upload_id", upload, provider_id))

    def touch(self, upload: UUID) -> bool:
        """Give a sign of life; a writer that takes long does so after each part.

        Returns:
            True when the writer may go on. False: somebody has cancelled, or the row is no longer
            written to. Stop, and call `mark_stored` or `mark_uncertain`.

        Raises:
            NoSuchUpload: There is no such row.
        """
        return bool(self._one("touch_upload", upload))

    def mark_stored(
        self,
        upload: UUID,
        *,
        etag: str | None = None,
        size_bytes: int | None = None,
        version_id: str | None = None,
    ) -> UploadState:
        """Say that the storage has confirmed the object.

        Args:
            upload: The row's id.
            etag: As the storage gave it, with its quotes or without.
            size_bytes: Of the object.
            version_id: In a bucket that keeps versions.

        Returns:
            The state it came to: `stored`, or `cleanup` when it was cancelled meanwhile. A row that
            was past that already stays as it is; the first record stands.

        Raises:
            NoSuchUpload: There is no such row.
        """
        return self._state("mark_stored", upload, etag, size_bytes, version_id)

    def mark_uncertain(self, upload: UUID, reason: str) -> UploadState:
        """Say that nobody knows whether the object is there; upload_cleanup then asks the storage.

        Args:
            upload: The row's id.
            reason: For people, without secrets; the first 2,000 characters are kept.

        Returns:
            The state after the call. Only a row that is being written becomes `uncertain`.

        Raises:
            NoSuchUpload: There is no such row.
        """
        return self._state("mark_uncertain", upload, reason)

    def publish(self, upload: UUID, subject: str) -> UUID | None:
        """Make a stored upload visible: claim it, and insert its attachment.

        Args:
            upload: The row's id.
            subject: What it belongs to, in the application's own words.

        Returns:
            The attachment's id, the same one when it is called again for the same subject. None
            when there is nothing to publish: cancelled, not stored, published for another subject,
            or no such row.
        """
        found: UUID | None = self._value("publish_upload", upload, subject)
        return found

    def cancel(self, upload: UUID) -> UploadState:
        """Cancel an upload that is not published.

        Returns:
            The state after the call. `cleanup`: this or an earlier cancel has won. `writing` or
            `uncertain`: remembered, and honoured once it is known where the upload stands.
            `ready`: publish has won; `remove_attachment` takes it back.

        Raises:
            NoSuchUpload: There is no such row.
        """
        return self._state("cancel_upload", upload)

    def remove_attachment(self, attachment: UUID) -> bool:
        """Take an attachment away, and move its upload to cleanup.

        Returns:
            True when this call removed it; False when it was not there.
        """
        return bool(self._value("remove_attachment", attachment))

    def state(self, upload: UUID) -> UploadState:
        """Return the state of an upload, as this connection sees it now.

        Nothing may be concluded from it for later: let the calls above decide.

        Raises:
            NoSuchUpload: There is no such row.
        """
        found = self._rows(sql.SQL("SELECT state FROM {} WHERE id = %s::uuid"), "upload", upload)
        if not found:
            raise NoSuchUpload(upload)
        state: UploadState = found[0][0]
        return state

    def left_stored(self, *, longer_than: timedelta, limit: int = 100) -> list[BegunUpload]:
        """Return uploads that were stored and neither published nor cancelled, oldest first.

        No collector takes them, because only the application knows whether it will publish them.
        `cancel` those that it has forgotten: should it publish one meanwhile, publish wins.

        Args:
            longer_than: Since when, by the database's clock.
            limit: How many at most.
        """
        found = self._rows(
            sql.SQL(
                "SELECT id, storage_key FROM {}"
                " WHERE state = 'stored' AND stored_at < clock_timestamp() - %s::interval"
                " ORDER BY stored_at, id LIMIT %s::bigint"
            ),
            "upload",
            longer_than,
            limit,
        )
        return [BegunUpload(upload, key) for upload, key in found]

    # Statements -------------------------------------------------------------------------------

    def _state(self, function: str, upload: UUID, *more: object) -> UploadState:
        state: UploadState = self._one(function, upload, *more)
        return state

    def _one(self, function: str, upload: UUID, *more: object) -> Any:
        found = self._value(function, upload, *more)
        if found is None:
            raise NoSuchUpload(upload)
        return found

    def _value(self, function: str, *arguments: object) -> Any:
        # Cast, so that None finds its function as well.
        casts = ", ".join(f"%s::{_CASTS[function][place]}" for place in range(len(arguments)))
        ((found,),) = self._rows(sql.SQL(f"SELECT {{}}({casts})"), function, *arguments)
        return found

    def _rows(self, statement: sql.SQL, name: str, *arguments: object) -> Sequence[tuple[Any, ...]]:
        query = statement.format(sql.Identifier(self._schema, name))
        with self._connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(query, arguments).fetchall()


_CASTS: dict[str, tuple[str, ...]] = {
    "record_upload_id": ("uuid", "text"),
    "touch_upload": ("uuid",),
    "mark_stored": ("uuid", "text", "bigint", "text"),
    "mark_uncertain": ("uuid", "text"),
    "publish_upload": ("uuid", "text"),
    "cancel_upload": ("uuid",),
    "remove_attachment": ("uuid",),
}
