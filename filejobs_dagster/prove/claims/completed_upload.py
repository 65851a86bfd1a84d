"""The race that loses a completed upload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.upload_reservations.statements import BEGINNING, CANDIDATES, LAST_ID
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.prove import collector
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, NotShown, Side, tidy
from filejobs_dagster.prove.stage import those_that, watch

if TYPE_CHECKING:
    import uuid

    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

BY_BELIEF = tidy(
    """
    DELETE FROM file
     WHERE id = ANY(%(ids)s)
    RETURNING storage_key
    """
)


@dataclass(frozen=True)
class _Uploads:
    """Two expired reservations: nobody comes back for one, a slow client completes the other."""

    scene: Scene
    store: Store
    abandoned: uuid.UUID
    slow: uuid.UUID

    ABANDONED_KEY = "files/abandoned"
    SLOW_KEY = "files/holiday.jpg"

    @classmethod
    def begin(cls, scene: Scene, store: Store) -> _Uploads:
        return cls(
            scene,
            store,
            collector.reserve(scene, store, cls.ABANDONED_KEY, b"half a file"),
            collector.reserve(scene, store, cls.SLOW_KEY, b"the only copy of a holiday"),
        )

    def complete(self) -> None:
        """The client completes its upload, and is told that it succeeded."""
        if not collector.complete(self.scene, self.slow):
            raise NotShown("complete_upload refused a pending row")

    @property
    def lost(self) -> bool:
        """Whether the user's row or the user's bytes are missing."""
        return self._row() != "ready" or not self.store.has(self.SLOW_KEY)

    def seen(self) -> tuple[tuple[str, FactValue], ...]:
        """What is there now."""
        return (
            ("the client was told", "true: your upload is complete"),
            ("the user's row now", self._row()),
            ("HEAD of the user's object", self.store.head(self.SLOW_KEY)),
            ("HEAD of the abandoned object", self.store.head(self.ABANDONED_KEY)),
        )

    def _row(self) -> str:
        found = self.scene.rows("SELECT state FROM file WHERE id = %(id)s", {"id": self.slow})
        return str(found[0][0]) if found else "gone"


def _demonstrate(stage: Stage) -> Evidence:
    store = stage.store()
    with stage.scene() as scene:
        careless = _careless(_Uploads.begin(scene, store))
    with stage.scene() as scene:
        guarded = _guarded(_Uploads.begin(scene, store))
    return Evidence(careless, guarded)


def _careless(uploads: _Uploads) -> Side:
    scene, store = uploads.scene, uploads.store
    with scene.connect("careless collector") as connection:
        with scene.database.transaction(connection) as cursor:
            page = {"before": database_now(cursor), "after": BEGINNING, "after_id": LAST_ID}
            cursor.execute(CANDIDATES, {**page, "size": 500})
            ids = [row[0] for row in cursor.fetchall()]
        uploads.complete()
        with scene.database.transaction(connection) as cursor:
            cursor.execute(BY_BELIEF.encode(), {"ids": ids})
            keys = [row[0] for row in cursor.fetchall()]
    for key in keys:
        store.client.delete_object(Bucket=store.name, Key=key)
    return Side(
        "delete what the select has found",
        BY_BELIEF,
        (("rows selected", len(ids)), ("rows deleted", len(keys)), *uploads.seen()),
        lost=uploads.lost,
    )


def _guarded(uploads: _Uploads) -> Side:
    statements: list[str] = []
    moments = 0

    def before(statement: str) -> None:
        nonlocal moments
        if statement.lstrip().startswith("DELETE FROM file"):
            moments += 1
            if moments == 1:
                uploads.complete()

    def prepare(connection: object) -> None:
        nonlocal statements
        statements = watch(connection, before)  # type: ignore[arg-type]

    outcome = collector.collect(uploads.scene.database, uploads.store, collector.new_run(), prepare)
    if not outcome.ok or moments == 0:
        raise NotShown(f"the collector did not get to its claim: {outcome.error}")
    return Side(
        "the claim is the write: the project's collector, interrupted right before its DELETE",
        those_that(statements, "DELETE FROM file"),
        (
            ("rows selected", outcome.scanned),
            ("rows claimed", outcome.detail["claimed"]),
            ("rows left to the client", outcome.detail["classes"].get("won by others", 0)),
            *uploads.seen(),
        ),
        lost=uploads.lost or uploads.store.has(uploads.ABANDONED_KEY),
    )


CLAIM = Claim(
    "completed-upload",
    "A client that completes its upload while the collector runs keeps its file, row and bytes.",
    _demonstrate,
)
