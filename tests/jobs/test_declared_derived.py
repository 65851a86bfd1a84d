"""What was made from a declared row's object goes with it: rows that name it, and folders."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends

from filejobs_dagster.book import bookkeeping
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.upload_reservations import collection
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.settings import read_settings
from tests.jobs.test_declared_tables import (
    World,
    between_look_and_claim,
    collect_deleted,
    world,  # noqa: F401 (a fixture)
)

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """
CREATE TABLE photo (
    id bigserial PRIMARY KEY, path text, deleted_at timestamptz, UNIQUE (id, path));
CREATE TABLE thumb (
    id bigserial PRIMARY KEY, photo_id bigint NOT NULL REFERENCES photo (id), name text);
CREATE TABLE crop (
    id bigserial PRIMARY KEY, thumb_id bigint NOT NULL REFERENCES thumb (id), crop_key text);
"""
DECLARED: dict[str, Any] = {
    "name": "photos",
    "table": "photo",
    "key": "path",
    "due": "deleted_at",
    "where": "path is not null",
    "derived_below": ["files/variants/{key}/"],
    "also_delete": [
        {
            "table": "thumb",
            "column": "photo_id",
            "key": "name",
            "transforms": [{"prepend": "files/"}],
            "also_delete": [{"table": "crop", "column": "thumb_id", "key": "crop_key"}],
        }
    ],
}
OF_DEAD = {
    "files/dead",
    "files/thumbs/dead",
    "files/crops/dead",
    "files/variants/files/dead/200",
    "files/variants/files/dead/400",
}
OF_LIVING = {key.replace("dead", "living") for key in OF_DEAD}


@pytest.fixture
def photos(world: World) -> World:  # noqa: F811
    """A photo that was deleted and one that was not, each with all that was made from it."""
    world.create(SCHEMA)
    for name, days in (("dead", 40), ("living", None)):
        old(world, *(key.replace("dead", name) for key in OF_DEAD))
        world.app(
            "WITH photo AS (INSERT INTO photo (path, deleted_at)"
            " VALUES ('files/' || %s, now() - %s * interval '1 d') RETURNING id),"
            " thumb AS (INSERT INTO thumb (photo_id, name)"
            " SELECT id, 'thumbs/' || %s FROM photo RETURNING id)"
            " INSERT INTO crop (thumb_id, crop_key) SELECT id, 'files/crops/' || %s FROM thumb",
            (name, days, name, name),
        )
    declare(world)
    return world


def declare(world: World, **changes: Any) -> None:  # noqa: F811
    world.document["jobs"] = {
        "deleted_files": {
            "by_hand": True,
            "restore_window": "30d",
            "tables": [{**DECLARED, **changes}],
        }
    }


def old(world: World, *keys: str, days: int = 100) -> None:  # noqa: F811
    """Objects that have been there for so long."""
    world.put(*keys)
    there = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[world.bucket].keys
    for key in keys:
        now = datetime.now(timezone.utc).replace(tzinfo=None)
        there[key].last_modified = now - timedelta(days=days)


def test_what_was_made_from_a_deleted_file_goes_with_it_in_one_run(photos: World) -> None:
    # Below a folder of the folder, and since the row was due: others', for all that is known.
    kept = {"files/variants/files/dead/x/200", "files/variants/files/dead/new"}
    old(photos, "files/variants/files/dead/x/200")
    old(photos, "files/variants/files/dead/new", days=1)

    dry = collect_deleted(photos, "dry")
    live = collect_deleted(photos)

    assert dry.ok, dry.error
    assert dry.detail["classes"] == {"would collect": 1, "derived: would collect": 4}
    assert live.ok, live.error
    assert live.detail["classes"] == {"deleted": 1, "derived: deleted": 4}
    assert live.detail["also_deleted"] == {"thumb": 1, "crop": 1}
    assert photos.keys() == OF_LIVING | kept
    (intent,) = photos.events("objects.delete.intent")
    assert sorted(intent["keys"]) == sorted(OF_DEAD), "each once"
    assert collect_deleted(photos).acted == 0


def test_what_another_row_names_stays_and_so_does_what_was_made_from_it(photos: World) -> None:
    """The photo was copied: two rows have the same object, and one of them lives."""
    photos.app("INSERT INTO photo (path) VALUES ('files/dead')")
    photos.app(
        "INSERT INTO thumb (photo_id, name)"
        " SELECT id, 'thumbs/dead' FROM photo WHERE path = 'files/living'"
    )

    outcome = collect_deleted(photos)

    assert outcome.ok, outcome.error
    gone = {"files/crops/dead"}
    assert photos.keys() == (OF_LIVING | OF_DEAD) - gone
    assert "derived from 'files/dead'" in str(outcome.detail["classes"])


def without_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    delete = Gate.delete
    monkeypatch.setattr(
        Gate, "delete", lambda self, *said, **named: delete(self, *said, **{**named, "owners": {}})
    )


def without_children_as_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("filejobs_dagster.settings.tables._of_children", lambda _: iter(()))


@pytest.mark.parametrize(
    ("careless", "lost"),
    [
        (without_owners, {"files/variants/files/dead/200", "files/variants/files/dead/400"}),
        (without_children_as_sources, {"files/thumbs/dead"}),
    ],
)
def test_control_without_the_owner_or_the_source_what_the_copy_shows_is_lost(
    photos: World,
    monkeypatch: pytest.MonkeyPatch,
    careless: Callable[[pytest.MonkeyPatch], None],
    lost: set[str],
) -> None:
    photos.app("INSERT INTO photo (path) VALUES ('files/dead')")
    photos.app(
        "INSERT INTO thumb (photo_id, name)"
        " SELECT id, 'thumbs/dead' FROM photo WHERE path = 'files/living'"
    )
    careless(monkeypatch)

    collect_deleted(photos)

    assert photos.keys() == (OF_LIVING | OF_DEAD) - {"files/crops/dead"} - lost


def test_a_file_that_is_restored_meanwhile_keeps_all_that_was_made_from_it(
    photos: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    restore = "UPDATE photo SET deleted_at = NULL WHERE path = 'files/dead'"
    between_look_and_claim(monkeypatch, lambda: photos.app(restore))

    outcome = collect_deleted(photos)

    assert outcome.detail["classes"] == {"won by others": 1}
    assert photos.keys() == OF_LIVING | OF_DEAD
    assert photos.app("SELECT count(*) FROM thumb") == [(2,)]


class Died(BaseException):
    """The process ends here."""


def die(*_: Any, **__: Any) -> None:
    raise Died


POINTS: dict[str, tuple[Any, str, bool]] = {
    "before the commit": (bookkeeping, "append", False),
    "after the commit": (Removal, "remove", True),
    "before the result": (Removal, "_record", True),
    "before the final word": (Collection, "_outcome", True),
}


@pytest.mark.parametrize(("room", "name", "committed"), POINTS.values(), ids=list(POINTS))
def test_a_run_that_ends_between_any_two_lines_leaves_a_row_with_its_object_or_an_intent(
    photos: World, monkeypatch: pytest.MonkeyPatch, room: Any, name: str, committed: bool
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(room, name, die)
        with pytest.raises(Died):
            collect_deleted(photos)

    named = {
        key
        for (key,) in photos.app(
            "SELECT path FROM photo UNION SELECT 'files/' || name FROM thumb"
            " UNION SELECT crop_key FROM crop"
        )
    }
    assert named <= photos.keys(), "a row whose bytes are gone is a broken download"
    intended = [key for event in photos.events("objects.delete.intent") for key in event["keys"]]
    assert set(intended) == (OF_DEAD if committed else set())
    assert (OF_LIVING | OF_DEAD) - photos.keys() <= set(intended)

    again = collect_deleted(photos)

    assert again.ok, again.error
    assert photos.keys() >= OF_LIVING
    assert photos.app("SELECT count(*) FROM crop") == [(1,)]


@pytest.mark.parametrize(
    "folder", ["variants/", "{key}", "files/{key}x/", "{key}/{key}/", "a{key}/"]
)
def test_a_folder_that_is_not_of_one_key_alone_is_refused(photos: World, folder: str) -> None:
    declare(photos, derived_below=[folder])
    (problem,) = read_settings(photos.write(), photos.environment).problems
    assert problem.path == "jobs.deleted_files.tables[0].derived_below[0]"
    assert "variants/{key}/" in problem.expected


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "row by row"])
def test_all_that_lies_in_a_folder_goes_with_its_row_however_many_pages_it_is(
    photos: World, monkeypatch: pytest.MonkeyPatch, at_once: bool
) -> None:
    many = [f"files/variants/files/dead/{n:04}" for n in range(1100)]
    old(photos, *many, "files/second", "files/variants/files/second/1")
    photos.app(
        "INSERT INTO photo (path, deleted_at) SELECT 'files/second', now() - '50 d'::interval"
    )
    if not at_once:
        monkeypatch.setattr(collection, "MOST_BELOW", 1000)

    dry, live = collect_deleted(photos, "dry"), collect_deleted(photos)

    made = len(OF_DEAD) - 1 + len(many) + 1
    assert dry.detail["classes"] == {"would collect": 2, "derived: would collect": made}
    assert live.ok, live.error
    assert live.detail["classes"] == {"deleted": 2, "derived: deleted": made}
    assert photos.keys() == OF_LIVING
    batches = {event["batch"] for event in photos.events("objects.delete.intent")}
    assert len(batches) == (1 if at_once else 2)


def test_of_too_many_objects_below_one_row_the_first_go_with_it_and_the_others_are_said(
    photos: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(collection, "MOST_BELOW_ONE", 1)

    outcome = collect_deleted(photos)

    assert outcome.ok, outcome.error
    assert photos.keys() == OF_LIVING | {"files/variants/files/dead/400"}
    assert "storage_orphans takes the others" in caplog.text
