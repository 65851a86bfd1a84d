"""A source of references that fails half-way through."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.prove.evidence import Claim, Evidence, NotShown, Side
from filejobs_dagster.prove.sweeper import sweep
from filejobs_dagster.settings import SourceSettings

if TYPE_CHECKING:
    from filejobs_dagster.prove.stage import Scene, Stage
    from filejobs_dagster.prove.store import Store

KEYS = tuple(f"files/{number}.pdf" for number in range(1, 7))

# The third value is none: the division fails when the cursor comes to it.
_SOURCE = """
select case when number <= 2 then 'files/' || number || '.pdf'
            else (1 / (number - number))::text end
  from generate_series(1, 6) as number
""".strip()


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as careless_scene, stage.scene() as guarded_scene:
        return Evidence(
            _careless(careless_scene, stage.store()), _guarded(guarded_scene, stage.store())
        )


def _careless(scene: Scene, store: Store) -> Side:
    _prepare(store)
    named, error = _as_far_as_it_goes(scene)
    for key in KEYS:
        if key not in named:
            store.client.delete_object(Bucket=store.name, Key=key)
    return _side(
        store,
        "takes what it read before the error for all there is",
        f"DECLARE keys CURSOR FOR\n{_SOURCE};\n"
        "-- FETCH, FETCH, error: logged, and on it goes\n"
        "-- S3: DeleteObject of every key that was not read",
        (("keys it had read", len(named)), ("the error", error)),
    )


def _as_far_as_it_goes(scene: Scene) -> tuple[set[str], str]:
    named: set[str] = set()
    with scene.connect("careless") as connection:
        try:
            with connection.transaction(), connection.cursor("keys") as cursor:
                cursor.execute(_SOURCE.encode())
                while (row := cursor.fetchone()) is not None:
                    named.add(str(row[0]))
        except psycopg.Error as error:
            return named, error.diag.message_primary or type(error).__name__
    raise NotShown("the source did not fail")


def _guarded(scene: Scene, store: Store) -> Side:
    _prepare(store)
    source = SourceSettings(name="documents", sql=_SOURCE, min_rows=0)
    outcomes = [sweep(scene, store, sources=(source,)) for _ in range(2)]
    if any(outcome.ok for outcome in outcomes):
        raise NotShown("the sweep did not notice the error")
    marked = int(scene.value("SELECT count(*) FROM orphan_candidate"))
    return _side(
        store,
        "the project's storage_orphans: no answer is never an empty answer",
        f"{_SOURCE}\n"
        "-- error, already when every source is asked for one key, before anything is listed:\n"
        "-- the run fails, nothing is marked, nothing is deleted",
        (
            ("the run", "failed, twice"),
            ("objects marked as orphans", marked),
        ),
    )


def _prepare(store: Store) -> None:
    for key in KEYS:
        store.put(key, b"a document")


def _side(
    store: Store, title: str, statement: str, facts: tuple[tuple[str, str | int], ...]
) -> Side:
    left = sum(store.has(key) for key in KEYS)
    return Side(
        title,
        statement,
        (*facts, (f"objects left of {len(KEYS)} that are all in use", left)),
        lost=left < len(KEYS),
    )


CLAIM = Claim(
    "half-a-source",
    "A source that fails half-way fails the sweep, and no object is taken for an orphan.",
    _demonstrate,
)
