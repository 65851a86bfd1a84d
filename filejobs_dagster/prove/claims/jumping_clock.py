"""A clock of the database that is a month ahead for a minute."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import TYPE_CHECKING

from filejobs_dagster.door.clocks import Clocks
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs import deleted_files
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, NotShown, Side, tidy
from filejobs_dagster.prove.workplace import refused_in_bucket

if TYPE_CHECKING:
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.prove.workplace import Workplace

AHEAD = timedelta(days=31)
WINDOW = timedelta(days=30)

DELETE = tidy(
    """
    DELETE FROM file
     WHERE state = 'deleted'
       AND deleted_at < now() - interval '30 days'
    RETURNING storage_key
    """
)

_DELETED = """
INSERT INTO file (state, storage_key, deleted_at)
VALUES ('deleted', %(key)s, %(at)s)
RETURNING id
"""


def everybody_else() -> datetime:
    """The right time.

    Nobody can move the clock of a PostgreSQL from outside, so everything else is moved: by a
    database that is 31 days ahead, this machine, the bucket's server and the user who deletes a
    file are 31 days behind.
    """
    return datetime.now(timezone.utc) - AHEAD


@dataclass(frozen=True)
class _File:
    """A file that its user deleted two seconds ago, with a restore window of 30 days."""

    scene: Scene
    store: Store

    KEY = "files/thesis.tex"

    @classmethod
    def begin(cls, scene: Scene, store: Store) -> _File:
        store.put(cls.KEY, b"three years of work")
        deleted_at = everybody_else() - timedelta(seconds=2)
        scene.rows(_DELETED, {"key": cls.KEY, "at": deleted_at})
        return cls(scene, store)

    @property
    def lost(self) -> bool:
        """Whether row or bytes are missing."""
        return not self._rows() or not self.store.has(self.KEY)

    def seen(self) -> tuple[tuple[str, FactValue], ...]:
        """What is there now."""
        return (
            ("rows of the file", self._rows()),
            ("HEAD of its object", self.store.head(self.KEY)),
        )

    def _rows(self) -> int:
        found: int = self.scene.value(
            "SELECT count(*)::int FROM file WHERE storage_key = %(key)s", {"key": self.KEY}
        )
        return found


def _demonstrate(stage: Stage) -> Evidence:
    store = stage.store()
    with stage.scene() as scene:
        careless = _careless(_File.begin(scene, store))
    with stage.scene() as scene:
        return Evidence(careless, _guarded(_File.begin(scene, store)))


def _careless(file: _File) -> Side:
    gone = file.scene.rows(DELETE)
    for (key,) in gone:
        file.store.client.delete_object(Bucket=file.store.name, Key=key)
    return Side(
        "believe the one clock",
        f"{DELETE};\n-- S3: DeleteObject",
        (("its user deleted it", "2 seconds ago"), ("rows deleted", len(gone)), *file.seen()),
        lost=file.lost,
    )


def _guarded(file: _File) -> Side:
    def body(at: Workplace) -> Outcome:
        storage = deleted_files.Storage(file.store.name, file.store.client, at.gate, at.references)
        return deleted_files.run(
            at.context, deleted_files.DeletedFilesRun(restore_window=WINDOW), storage
        )

    guards = tuple(
        Clocks(everybody_else) if isinstance(guard, Clocks) else guard for guard in GUARDS
    )
    with file.store.dated_by(lambda: format_datetime(everybody_else(), usegmt=True)):
        refused = refused_in_bucket(file.scene, file.store, deleted_files.JOB, body, guards)
    if "by the database it is" not in refused:
        raise NotShown(f"it was refused for another reason: {refused}")
    return Side(
        "compare the database with this machine and the bucket: the project's deleted_files",
        f"-- {refused}",
        (("its user deleted it", "2 seconds ago"), ("the run", "refused"), *file.seen()),
        lost=file.lost,
    )


CLAIM = Claim(
    "jumping-clock",
    "A database clock that is a month ahead for a minute makes nothing old.",
    _demonstrate,
)
