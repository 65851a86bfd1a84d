"""A deleted file that somebody restores while the collector runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.jobs import deleted_files
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, NotShown, Side, tidy
from filejobs_dagster.prove.stage import those_that, watch
from filejobs_dagster.prove.workplace import run_in_bucket

if TYPE_CHECKING:
    from uuid import UUID

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store
    from filejobs_dagster.prove.workplace import Workplace

WINDOW = timedelta(days=30)

SELECT = tidy(
    """
    SELECT id, storage_key
      FROM file
     WHERE state = 'deleted'
       AND deleted_at < now() - interval '30 days'
    """
)
THEN_DELETE = "DELETE FROM file WHERE id = ANY(%(ids)s)"

_DELETED = """
INSERT INTO file (state, storage_key, deleted_at)
VALUES ('deleted', %(key)s, clock_timestamp() - interval '31 days')
RETURNING id
"""


@dataclass(frozen=True)
class _Files:
    """Two files past their restore window: nobody misses one, somebody restores the other."""

    scene: Scene
    store: Store
    restored: UUID

    MISSED = "files/thesis.tex"
    UNWANTED = "files/draft.tex"

    @classmethod
    def begin(cls, scene: Scene, store: Store) -> _Files:
        for key in (cls.MISSED, cls.UNWANTED):
            store.put(key, b"three years of work")
        scene.rows(_DELETED, {"key": cls.UNWANTED})
        return cls(scene, store, scene.value(_DELETED, {"key": cls.MISSED}))

    def restore(self) -> None:
        """Somebody wants the file back, and is told that it is back."""
        if not self.scene.value("SELECT restore_file(%(id)s)", {"id": self.restored}):
            raise NotShown("restore_file refused a row that is there")

    @property
    def lost(self) -> bool:
        """Whether the restored row or its bytes are missing."""
        return self._row() != "ready" or not self.store.has(self.MISSED)

    def seen(self) -> tuple[tuple[str, FactValue], ...]:
        """What is there now."""
        return (
            ("who restored it was told", "true: your file is back"),
            ("the restored row now", self._row()),
            ("HEAD of its object", self.store.head(self.MISSED)),
            ("HEAD of the other one's object", self.store.head(self.UNWANTED)),
        )

    def _row(self) -> str:
        found = self.scene.rows("SELECT state FROM file WHERE id = %(id)s", {"id": self.restored})
        return str(found[0][0]) if found else "gone"


def _demonstrate(stage: Stage) -> Evidence:
    store = stage.store()
    with stage.scene() as scene:
        careless = _careless(_Files.begin(scene, store))
    with stage.scene() as scene:
        return Evidence(careless, _guarded(_Files.begin(scene, store)))


def _careless(files: _Files) -> Side:
    rows = files.scene.rows(SELECT)
    files.restore()
    files.scene.rows(THEN_DELETE, {"ids": [identity for identity, _ in rows]})
    for _, key in rows:
        files.store.client.delete_object(Bucket=files.store.name, Key=key)
    return Side(
        "select what is due, then delete it",
        f"{SELECT};\n-- meanwhile a client: SELECT restore_file(…)\n{THEN_DELETE};\n"
        "-- S3: DeleteObject",
        (("rows selected", len(rows)), *files.seen()),
        lost=files.lost,
    )


def _guarded(files: _Files) -> Side:
    statements: list[str] = []
    moments = 0

    def before(statement: str) -> None:
        nonlocal moments
        if statement.lstrip().startswith("DELETE FROM file"):
            moments += 1
            if moments == 1:
                files.restore()

    def body(at: Workplace) -> Outcome:
        nonlocal statements
        statements = watch(at.context.connection, before)
        storage = deleted_files.Storage(
            files.store.name, files.store.client, at.gate, at.references
        )
        return deleted_files.run(
            at.context, deleted_files.DeletedFilesRun(restore_window=WINDOW), storage
        )

    outcome = run_in_bucket(files.scene, files.store, deleted_files.JOB, body)
    if moments == 0:
        raise NotShown("the collector did not get to its claim")
    return Side(
        "the claim repeats every predicate: the project's deleted_files, interrupted before it",
        those_that(statements, "DELETE FROM file"),
        (
            ("rows selected", outcome.scanned),
            ("rows claimed", outcome.detail["claimed"]),
            *files.seen(),
        ),
        lost=files.lost or files.store.has(files.UNWANTED),
    )


CLAIM = Claim(
    "restored-file",
    "A deleted file that is restored while the collector runs keeps row and bytes.",
    _demonstrate,
)
