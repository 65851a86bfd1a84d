"""A database that was restored from a backup, beside a bucket that was not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.prove import collector
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, NotShown, Side, tidy

if TYPE_CHECKING:
    import uuid

    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

DELETE = tidy(
    """
    DELETE FROM file
     WHERE state = 'pending'
       AND upload_expires_at < now()
    RETURNING storage_key
    """
)

# Nobody restores a whole database for a demonstration: what the backup sets back of the rows that
# matter here is set back.
_RESTORE_FILE = """
UPDATE file
   SET state = 'pending', upload_expires_at = clock_timestamp() - interval '1 hour',
       completed_at = NULL
 WHERE id = %(id)s
"""
_BACKED_UP = "SELECT counter FROM bucket_adoption"
_RESTORE_ADOPTION = "UPDATE bucket_adoption SET counter = %(counter)s"


@dataclass(frozen=True)
class _Upload:
    """An upload that was late, and completed after the backup was taken."""

    scene: Scene
    store: Store
    row: uuid.UUID

    KEY = "files/wedding.mp4"

    @classmethod
    def begin(cls, scene: Scene, store: Store) -> _Upload:
        store.adopt(scene.database)
        return cls(scene, store, collector.reserve(scene, store, cls.KEY, b"the only copy"))

    def live_through_a_restore(self) -> None:
        """A backup, a client that completes, a live run that finds nothing due, and the restore."""
        counter = self.scene.value(_BACKED_UP)
        if not collector.complete(self.scene, self.row):
            raise NotShown("complete_upload refused a pending row")
        between = collector.collect(self.scene.database, self.store, collector.new_run())
        if not between.ok or between.acted != 0:
            raise NotShown(f"the run before the restore was to find nothing: {between.error}")
        self.scene.rows(_RESTORE_FILE, {"id": self.row})
        self.scene.rows(_RESTORE_ADOPTION, {"counter": counter})

    @property
    def lost(self) -> bool:
        """Whether the bytes are missing; what the row said is lost with the database."""
        return not self.store.has(self.KEY)

    def seen(self) -> tuple[tuple[str, FactValue], ...]:
        """What is there now."""
        return (
            ("the client was told, after the backup", "true: your upload is complete"),
            ("HEAD of its object", self.store.head(self.KEY)),
        )


def _demonstrate(stage: Stage) -> Evidence:
    # A bucket for each: its marker belongs to one database.
    with stage.scene() as scene:
        careless = _careless(_Upload.begin(scene, stage.store()))
    with stage.scene() as scene:
        guarded = _guarded(_Upload.begin(scene, stage.store()))
    return Evidence(careless, guarded)


def _careless(upload: _Upload) -> Side:
    upload.live_through_a_restore()
    gone = upload.scene.rows(DELETE)
    for (key,) in gone:
        upload.store.client.delete_object(Bucket=upload.store.name, Key=key)
    return Side(
        "believe the rows that are there",
        f"{DELETE};\n-- S3: DeleteObject",
        (("rows deleted", len(gone)), *upload.seen()),
        lost=upload.lost,
    )


def _guarded(upload: _Upload) -> Side:
    upload.live_through_a_restore()
    outcome = collector.collect(upload.scene.database, upload.store, collector.new_run())
    if outcome.error is not None and "was restored from a backup" not in outcome.error:
        raise NotShown(f"it was refused for another reason: {outcome.error}")
    return Side(
        "count each live run in database and bucket: the project's upload_reservations",
        f"-- {outcome.error or 'let in'}",
        (("the run", "let in" if outcome.ok else "refused"), *upload.seen()),
        lost=upload.lost,
    )


CLAIM = Claim(
    "restored-database",
    "A database that was restored from a backup takes nothing that came after it.",
    _demonstrate,
)
