"""Rows of `upload` in every state, made as an application and the collector make them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from filejobs_dagster.uploads import Uploads, UploadState

if TYPE_CHECKING:
    from uuid import UUID

    import psycopg

STATES: tuple[str, ...] = get_args(UploadState)

ALLOWED = {
    ("writing", "stored"),
    ("writing", "uncertain"),
    ("uncertain", "stored"),
    ("uncertain", "cleanup"),
    ("stored", "ready"),
    ("stored", "cleanup"),
    ("cleanup", "cleaned"),
    ("cleanup", "retained"),
    ("retained", "cleanup"),
}
"""By a plain UPDATE of a row whose cancelling nobody has asked for, and that has its attachment."""


def in_state(connection: psycopg.Connection[Any], state: str, prefix: str = "files/") -> UUID:
    """The id of a new upload in that state."""
    uploads = Uploads(connection)
    upload = uploads.begin(prefix).id
    if state == "uncertain":
        uploads.mark_uncertain(upload, "the connection broke")
    elif state != "writing":
        uploads.mark_stored(upload, etag='"0a1b"', size_bytes=4)
    if state == "ready":
        assert uploads.publish(upload, f"message of {upload}")
    elif state in ("cleanup", "cleaned", "retained"):
        assert uploads.cancel(upload) == "cleanup"
    if state == "cleaned":
        change(connection, upload, "state = 'cleaned', outcome = 'deleted'")
    elif state == "retained":
        change(connection, upload, "state = 'retained', legal_hold = true")
    assert uploads.state(upload) == state
    return upload


def change(connection: psycopg.Connection[Any], upload: UUID, what: str) -> None:
    """A plain client's UPDATE."""
    statement = f"UPDATE upload SET {what} WHERE id = %s"
    assert connection.execute(statement.encode(), (upload,)).rowcount == 1


def column(connection: psycopg.Connection[Any], upload: UUID, name: str) -> Any:
    row = connection.execute(
        f"SELECT {name} FROM upload WHERE id = %s".encode(), (upload,)
    ).fetchone()
    assert row is not None
    return row[0]


def attachments(connection: psycopg.Connection[Any]) -> list[UUID]:
    """The uploads that users see."""
    found = connection.execute("SELECT upload_id FROM attachment ORDER BY created_at").fetchall()
    return [row[0] for row in found]
