"""What must be true after every step, and what at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uuid

    from tests.interleavings.seen import Seen
    from tests.interleavings.world import World

COLLECTED = "upload_reservation.collected"
INTENT = "objects.delete.intent"
RESULT = "objects.delete.result"


def check_after_every_step(world: World) -> None:
    """The contract, as far as it holds in the middle of everything.

    Raises:
        AssertionError: It is broken; the message says what was found.
    """
    for complaint in world.storage.complaints:
        raise complaint
    seen = world.look()
    check_files(world, seen)
    check_numbers(world, seen)
    check_answers_were_read(world, seen)


def check_files(world: World, seen: Seen) -> None:
    """No file without its bytes, no completed upload lost, each claim with its audit event."""
    collected = Counter(event.file for event in seen.of_kind(COLLECTED))
    for file in world.files:
        state = seen.states.get(file.id)
        if state == "ready":
            assert file.key in seen.objects, f"a ready file has no bytes: {file}"
        if file.completed and not file.removed:
            assert state in ("ready", "deleted"), f"a completed upload is lost: {file}"
        claimed = state is None and not file.removed
        assert collected[file.id] == claimed, (
            f"{collected[file.id]} events say that a row was collected; its state: {state}, {file}"
        )
    for event in seen.of_kind(COLLECTED):
        assert event.due is not None
        assert event.due < event.recorded_at, "collected before the database's clock said so"


def check_numbers(world: World, seen: Seen) -> None:
    """What stands in job_progress is what was really committed."""
    claimed = Counter(event.run_id for event in seen.of_kind(COLLECTED))
    for run_id, rows in seen.progress.items():
        for row in rows:
            said, acted = row["detail"].get("claimed", 0), row["acted"] or 0
            assert said == claimed[run_id], (
                f"run {run_id} says {said} claimed; committed are {claimed[run_id]}"
            )
            assert acted <= said <= (row["scanned"] or 0), row
            assert acted + row["detail"].get("objects_left", 0) == said, row


def check_answers_were_read(world: World, seen: Seen) -> None:
    """An object that counts as deleted is not there, unless its upload arrived late."""
    keys: dict[uuid.UUID, str] = {file.id: file.key for file in world.files}
    there = {file.key for file in world.files if not file.late} & seen.objects
    there_of_run = Counter(
        event.run_id
        for event in seen.of_kind(COLLECTED)
        if event.file is not None and keys[event.file] in there
    )
    for run_id, rows in seen.progress.items():
        for row in rows:
            most = row["detail"].get("claimed", 0) - there_of_run[run_id]
            assert (row["acted"] or 0) <= most, (
                f"run {run_id} counts {row['acted']} as collected, but of "
                f"{row['detail']['claimed']} objects {there_of_run[run_id]} are in storage"
            )
    intents = {(event.run_id, event.batch): event.keys for event in seen.of_kind(INTENT)}
    for event in seen.of_kind(RESULT):
        named = intents[event.run_id, event.batch]
        assert event.deleted <= len(named) - len(there & set(named)), event


def check_at_the_end(world: World) -> None:
    """After one undisturbed run: nothing due, one record a run, no lock held, nothing unexplained.

    Raises:
        AssertionError: Something is left.
    """
    due = world.admin.execute(
        "SELECT storage_key FROM file WHERE state = 'pending' AND upload_expires_at < now()"
    ).fetchall()
    assert due == [], f"still due after an undisturbed run: {due}"
    seen, records = world.look(), world.records()
    for run in world.runs:
        assert len(seen.progress[run.run_id]) == len(records[run.run_id]) == 1, run.run_id
        [row], [record] = seen.progress[run.run_id], records[run.run_id]
        assert (row["scanned"], row["acted"]) == (record["scanned"], record["acted"])
        assert row["closed_at"] is not None
    world.wait_for_the_dead()
    assert not world.exclusive_lock_is_held()
    check_orphans(world, seen)


def check_orphans(world: World, seen: Seen) -> None:
    """An object without a row is named by an intent, or was left by the application itself."""
    intended = {key for event in seen.of_kind(INTENT) for key in event.keys}
    for file in world.files:
        if file.key in seen.objects and file.id not in seen.states:
            assert file.removed or file.key in intended, f"nothing explains an object: {file}"
