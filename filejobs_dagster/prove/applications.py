"""What an application does with uploads, and the project's upload_cleanup afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs import upload_cleanup
from filejobs_dagster.prove.store import PREFIX
from filejobs_dagster.prove.workplace import run_in_bucket
from filejobs_dagster.uploads import Uploads

if TYPE_CHECKING:
    from uuid import UUID

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.prove.stage import Scene
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.prove.workplace import Workplace


def store_upload(scene: Scene, store: Store, body: bytes = b"a document") -> UUID:
    """Begin an upload, send its bytes, say that they are stored; return the row's id."""
    with scene.connect("application") as connection:
        with scene.database.transaction(connection) as cursor:
            begun = Uploads(cursor, scene.database.schema).begin(PREFIX, ".pdf")
        answer = store.client.put_object(Bucket=store.name, Key=begun.key, Body=body)
        with scene.database.transaction(connection) as cursor:
            Uploads(cursor, scene.database.schema).mark_stored(
                begun.id, etag=answer["ETag"], size_bytes=len(body)
            )
    return begun.id


def clean_up(scene: Scene, store: Store) -> Outcome:
    """Run `upload_cleanup` live.

    Raises:
        NotShown: It failed.
    """

    def body(at: Workplace) -> Outcome:
        storage = upload_cleanup.Storage(store.name, store.client, at.gate, at.references)
        return upload_cleanup.run(at.context, upload_cleanup.Request(), storage)

    return run_in_bucket(scene, store, upload_cleanup.JOB, body)
