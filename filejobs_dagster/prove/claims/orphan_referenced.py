"""A client that refers to an old object between the listing and the deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.prove.evidence import Claim, Evidence, NotShown, Side, tidy
from filejobs_dagster.prove.sweeper import BEFORE_DELETING, Moment, sweep

if TYPE_CHECKING:
    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

KEY = "files/shared.pdf"
USED = "files/used.pdf"

_REFER = "INSERT INTO file (state, storage_key) VALUES ('ready', %(key)s)"
_NAMES = "SELECT count(*) FROM file WHERE storage_key = %(key)s"


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as careless_scene, stage.scene() as guarded_scene:
        return Evidence(
            _careless(careless_scene, stage.store()), _guarded(guarded_scene, stage.store())
        )


def _careless(scene: Scene, store: Store) -> Side:
    _prepare(scene, store)
    listed = {entry["Key"] for entry in store.client.list_objects_v2(Bucket=store.name)["Contents"]}
    named = {str(key) for (key,) in scene.rows("SELECT storage_key FROM file")}
    orphans = sorted(listed - named)
    scene.rows(_REFER, {"key": KEY})
    for key in orphans:
        store.client.delete_object(Bucket=store.name, Key=key)
    return _side(
        scene,
        store,
        "lists, reads the references, deletes the difference",
        """
        -- S3: ListObjectsV2
        SELECT storage_key FROM file;
        -- meanwhile a client: INSERT INTO file (state, storage_key) …
        -- S3: DeleteObject
        """,
        (("orphans that it saw", ", ".join(orphans)),),
    )


def _guarded(scene: Scene, store: Store) -> Side:
    _prepare(scene, store)
    first = sweep(scene, store)
    if not first.ok or first.acted:
        raise NotShown(f"the first sweep was to mark and nothing else: {first.error}")
    second = sweep(scene, store, Moment(BEFORE_DELETING, lambda: scene.rows(_REFER, {"key": KEY})))
    if not second.ok:
        raise NotShown(f"the sweep failed: {second.error}")
    fates = ", ".join(second.detail["fates"]).replace("kept: ", "left it alone: ")
    return _side(
        scene,
        store,
        "the project's storage_orphans: it asks again, right before",
        """
        -- S3: list, then: every reference, in one snapshot
        -- meanwhile a client: INSERT INTO file (state, storage_key) …
        UPDATE orphan_candidate SET state = 'deleting' …;  COMMIT;
        -- wait for every older transaction, then ask every source again
        SELECT storage_key FROM file WHERE storage_key = any($1);
        """,
        (
            ("marked by the first sweep", first.detail["orphans"]),
            ("what the second sweep did", fates),
        ),
    )


def _prepare(scene: Scene, store: Store) -> None:
    store.put(KEY, b"an old object")
    store.put(USED, b"in use")
    scene.rows(_REFER, {"key": USED})


def _side(
    scene: Scene,
    store: Store,
    title: str,
    statement: str,
    facts: tuple[tuple[str, str | int], ...],
) -> Side:
    rows = int(scene.value(_NAMES, {"key": KEY}))
    return Side(
        title,
        tidy(statement),
        (
            *facts,
            ("rows that name the object", rows),
            ("HEAD of the object", store.head(KEY)),
        ),
        lost=rows > 0 and not store.has(KEY),
    )


CLAIM = Claim(
    "orphan-referenced",
    "A client may refer to an old object while it is being swept, and keeps it.",
    _demonstrate,
)
