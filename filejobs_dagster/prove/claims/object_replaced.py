"""An object that was written anew under the key of a cancelled upload."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, NotShown, Side, tidy
from filejobs_dagster.prove.stage import clean_up, store_upload
from filejobs_dagster.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

NEW = b"what a restore has put there"

DUE = "SELECT storage_key FROM upload WHERE state = 'cleanup'"

_ROW = "SELECT storage_key, state, outcome FROM upload WHERE id = %(id)s"

_LOOKS = "before-call.s3.HeadObject"


@dataclass(frozen=True)
class _Cancelled:
    """Two cancelled uploads: the object of one is replaced while somebody collects them."""

    scene: Scene
    store: Store
    plain: UUID
    replaced: UUID

    @classmethod
    def begin(cls, scene: Scene, store: Store) -> _Cancelled:
        uploads = [store_upload(scene, store, b"cancelled") for _ in range(2)]
        with scene.connect("cancels") as connection:
            for upload in uploads:
                with scene.database.transaction(connection) as cursor:
                    Uploads(cursor, scene.database.schema).cancel(upload)
        return cls(scene, store, *uploads)

    def replace(self) -> None:
        """Somebody writes another object under the key."""
        self.store.put(self.key_of(self.replaced), NEW)

    def key_of(self, upload: UUID) -> str:
        return str(self._row(upload)[0])

    def seen(self) -> tuple[tuple[str, FactValue], ...]:
        """What is there now."""
        rows = [self._row(upload) for upload in (self.replaced, self.plain)]
        return (
            ("the row of the replaced object", " ".join(filter(None, rows[0][1:]))),
            ("HEAD of the object that replaced it", self.store.head(str(rows[0][0]))),
            ("the other row", " ".join(filter(None, rows[1][1:]))),
            ("HEAD of its object", self.store.head(str(rows[1][0]))),
        )

    def _row(self, upload: UUID) -> tuple[str | None, ...]:
        (row,) = self.scene.rows(_ROW, {"id": upload})
        return row


def _demonstrate(stage: Stage) -> Evidence:
    store = stage.store()
    with stage.scene() as scene:
        careless = _careless(_Cancelled.begin(scene, store))
    with stage.scene() as scene:
        return Evidence(careless, _guarded(_Cancelled.begin(scene, store)))


def _careless(uploads: _Cancelled) -> Side:
    keys = [key for (key,) in uploads.scene.rows(DUE)]
    uploads.replace()
    for key in keys:
        uploads.store.client.delete_object(Bucket=uploads.store.name, Key=key)
    return Side(
        "delete by key, whatever is there",
        f"{DUE};\n-- meanwhile somebody: PutObject\n-- S3: DeleteObject(Key)",
        (("objects deleted", len(keys)), *uploads.seen()),
        lost=not uploads.store.has(uploads.key_of(uploads.replaced)),
    )


def _guarded(uploads: _Cancelled) -> Side:
    with _interrupted(uploads):
        outcome = clean_up(uploads.scene, uploads.store)
    return Side(
        "the project's upload_cleanup: only the object that was stored, by its ETag",
        tidy(
            """
            UPDATE upload SET attempts = attempts + 1, … WHERE state = 'cleanup' …;  COMMIT;
            -- meanwhile somebody: PutObject
            -- S3: HeadObject; another ETag than the row's is another object, which stays
            UPDATE upload SET state = 'cleaned', outcome = …
             WHERE state = 'cleanup' AND attempts = …;
            """
        ),
        (
            ("rows claimed", outcome.scanned),
            ("what became of them", _classes(outcome.detail["classes"])),
            *uploads.seen(),
        ),
        lost=not uploads.store.has(uploads.key_of(uploads.replaced))
        or uploads.store.has(uploads.key_of(uploads.plain)),
    )


@contextmanager
def _interrupted(uploads: _Cancelled) -> Iterator[None]:
    """Replace the object once its row is claimed, right before the first look at any object."""
    first = threading.Lock()
    done = threading.Event()
    events = uploads.store.client.meta.events

    def replace(**_: object) -> None:
        # Objects are looked at by several threads: none of them looks before it is replaced.
        with first:
            if not done.is_set():
                uploads.replace()
                done.set()

    events.register(_LOOKS, replace)
    try:
        yield
    finally:
        events.unregister(_LOOKS, replace)
    if not done.is_set():
        raise NotShown("the cleanup never looked at an object")


def _classes(classes: dict[str, int]) -> str:
    return ", ".join(f"{count} {fate}" for fate, count in sorted(classes.items()))


CLAIM = Claim(
    "object-replaced",
    "An object that was written anew under the key of a cancelled upload is kept.",
    _demonstrate,
)
