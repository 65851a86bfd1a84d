"""A crash between the bytes and the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.prove import collector, victim
from filejobs_dagster.prove.evidence import Claim, Evidence, NotShown, Side
from filejobs_dagster.prove.stage import those_that

if TYPE_CHECKING:
    import uuid

    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

KEY = "files/report.pdf"

# Waits until the killed backend's transaction has ended, and then says what is left of the row.
_ROW_AFTER = "SELECT state FROM file WHERE id = %(id)s FOR UPDATE"

_INTENTS = """
SELECT count(*)
  FROM audit_event
 WHERE body::jsonb ->> 'kind' = 'objects.delete.intent'
   AND body::jsonb -> 'keys' @> to_jsonb(%(key)s::text)
"""

GUARDED_ORDER: victim.Order = "guarded"


def _demonstrate(stage: Stage) -> Evidence:
    careless_store, guarded_store = stage.store(), stage.store()
    with stage.scene() as careless_scene, stage.scene() as guarded_scene:
        careless_file = collector.reserve(careless_scene, careless_store, KEY, b"a report")
        guarded_file = collector.reserve(guarded_scene, guarded_store, KEY, b"a report")
        with (
            victim.start(
                "careless", stage.child_environment(careless_scene, careless_store)
            ) as careless,
            victim.start(
                GUARDED_ORDER, stage.child_environment(guarded_scene, guarded_store)
            ) as guarded,
        ):
            return Evidence(
                _careless(careless, careless_scene, careless_store, careless_file),
                _guarded(guarded, guarded_scene, guarded_store, guarded_file),
            )


def _careless(process: victim.Victim, scene: Scene, store: Store, file_id: uuid.UUID) -> Side:
    statements = process.wait_for_the_moment()
    ended = process.kill()
    row = _row_after(scene, file_id)
    completed = collector.complete(scene, file_id)
    return Side(
        "the object goes first, then the commit",
        _in_order(statements, "-- S3: DeleteObject", "-- killed here", "COMMIT"),
        (
            ("the process ended by", ended),
            ("the row after the crash", f"{row}: rolled back" if row else "gone"),
            ("HEAD of its object", store.head(KEY)),
            ("the client then completes", "true: a file is ready" if completed else "refused"),
            ("its first download", store.head(KEY)),
        ),
        lost=row is not None and not store.has(KEY),
    )


def _guarded(process: victim.Victim, scene: Scene, store: Store, file_id: uuid.UUID) -> Side:
    statements = process.wait_for_the_moment()
    ended = process.kill()
    row = _row_after(scene, file_id)
    has_bytes = store.has(KEY)
    if row is not None and has_bytes:
        raise NotShown("the collector was killed before it had committed anything")
    completed = collector.complete(scene, file_id)
    return Side(
        "row, commit, bytes: the project's collector, killed right before its DeleteObjects",
        _in_order(statements, "COMMIT", "-- killed here", "-- S3: DeleteObjects"),
        (
            ("the process ended by", ended),
            ("the row after the crash", row or "gone: committed"),
            ("HEAD of its object", store.head(KEY)),
            ("the client then completes", "true" if completed else "refused: there is no row"),
            ("audited intents that name the key", scene.value(_INTENTS, {"key": KEY})),
            ("what is left", "an object without a row: a later run can take it"),
        ),
        lost=row is not None or not has_bytes,
    )


def _in_order(statements: list[str], *then: str) -> str:
    claim = those_that(statements, "DELETE FROM file")
    return "\n".join(["BEGIN;", "", f"{claim};", "", *then])


def _row_after(scene: Scene, file_id: uuid.UUID) -> str | None:
    found = scene.rows(_ROW_AFTER, {"id": file_id})
    return str(found[0][0]) if found else None


CLAIM = Claim(
    "bytes-before-commit",
    "A collector killed with SIGKILL never leaves a row that names bytes which are gone.",
    _demonstrate,
)
