"""Legal holds as events of the chain, and what is told of one file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.audit.append import FileEvent, append, events_of_file
from filejobs_dagster.audit.holds import Hold, HoldRefused, active_holds, set_hold
from filejobs_dagster.audit.session import snapshot

if TYPE_CHECKING:
    from tests.audit.world import World


def holds(world: World) -> list[Hold]:
    with snapshot(world.database, world.connection) as cursor:
        return active_holds(cursor, world.database, "a")


def test_a_hold_and_its_event_commit_together(own_world: World) -> None:
    hold = own_world.hold(file_id="file 40")
    assert holds(own_world) == [Hold(hold, 40)]
    event = own_world.value("SELECT body::jsonb FROM audit_event WHERE seq = 101")
    assert (event["kind"], event["from_seq"], event["by"]) == ("audit.hold.set", "40", "counsel")

    def set_and_fail() -> None:
        with own_world.database.transaction(own_world.connection) as cursor:
            set_hold(cursor, chain="a", actor="x", reason="y")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        set_and_fail()
    assert [one.hold_id for one in holds(own_world)] == [hold]
    own_world.release(hold)
    assert holds(own_world) == []
    assert own_world.verify().clean


def test_the_earliest_hold_comes_first(own_world: World) -> None:
    late, early = own_world.hold(from_seq=90), own_world.hold(from_seq=20)
    nothing_yet = own_world.hold(file_id="not there yet")
    whole = own_world.hold()
    assert holds(own_world) == [
        Hold(whole, 1), Hold(early, 20), Hold(late, 90), Hold(nothing_yet, 103),
    ]  # fmt: skip


def test_what_cannot_be_held_or_released_is_refused(own_world: World) -> None:
    with pytest.raises(HoldRefused, match="no chain"):
        own_world.hold("nowhere")
    with pytest.raises(HoldRefused, match="not both"):
        own_world.hold(file_id="x", from_seq=1)
    with pytest.raises(HoldRefused, match="no hold"):
        own_world.release("x")
    hold = own_world.hold()
    own_world.release(hold)
    with pytest.raises(HoldRefused, match="before"):
        own_world.release(hold)


def history(world: World, file: str) -> list[FileEvent]:
    with snapshot(world.database, world.connection) as cursor:
        return events_of_file(cursor, world.database, file)


def test_the_history_of_a_file_has_its_bytes_and_what_covers_them(own_world: World) -> None:
    key = 'files/"odd" \\ k\u00e9y'
    batch = {"run_id": "r" * 300, "bucket": "b", "batch": 2}
    events = [
        {"kind": "upload_reservation.collected", "file_id": "F", "storage_key": key, **batch},
        {"kind": "objects.delete.intent", "keys": ["other", key], **batch},
        {"kind": "objects.delete.intent", "keys": ["stranger"], **batch, "batch": 3},
        {"kind": "objects.delete.result", "deleted": 1, **batch, "batch": 3},
        {"kind": "objects.delete.result", "deleted": 2, **batch},
    ]
    with own_world.database.transaction(own_world.connection) as cursor:
        append(cursor, events, chain="a")
    own_world.seal()
    with own_world.database.transaction(own_world.connection) as cursor:
        append(cursor, [{"kind": "file.shared", "file_id": "F"}], chain="application")
    found = history(own_world, "F")
    assert [(one.chain, one.seq, one.kind) for one in found] == [
        ("a", 101, "upload_reservation.collected"),
        ("a", 102, "objects.delete.intent"),
        ("a", 105, "objects.delete.result"),
        ("application", 1, "file.shared"),
    ]
    assert {one.seal_no for one in found[:3]} == {5}
    assert {one.pin for one in found[:3]} == {"files.example/audit/a/1/seal/000000000005.note"}
    assert (found[3].seal_no, found[3].pin) == (None, None)
    assert [one.seq for one in history(own_world, key)] == [102, 105]
    assert history(own_world, "nobody") == []


def test_numbers_and_depths_that_python_does_not_read_break_no_history(empty_world: World) -> None:
    digits = "9" * 5000
    for more in (f'"n":{digits}', '"n":' + "[" * 3000 + "]" * 3000):
        body = '{"file_id":"F","kind":"app.x",' + more + "}"
        empty_world.connection.execute("SELECT audit_record('app', ARRAY[%s])", (body,))
    number, depth = history(empty_world, "F")
    assert (number.kind, number.body["n"]) == ("app.x", digits)
    assert json.dumps(number.body)
    assert (depth.kind, depth.body) == ("", {})
    # The chain's own work looks at them, too.
    empty_world.seal("app")
    assert empty_world.verify("app").clean


def test_long_names_do_not_stop_an_append(own_world: World) -> None:
    name = "\u00e9" * 5000
    with own_world.database.transaction(own_world.connection) as cursor:
        append(cursor, [{"file_id": name, "run_id": name, "kind": "objects.x", "keys": [name]}])
    assert len(history(own_world, name)) == 1
    assert history(own_world, name[:-1]) == []


def test_whatever_is_asked_of_the_log_has_an_index(own_world: World) -> None:
    own_world.append_in_the_past(3000, own_world.grace)
    connection = own_world.connection
    connection.execute("ANALYZE audit_event")
    connection.execute("SET enable_seqscan = off")
    from_events = "EXPLAIN SELECT seq FROM audit_event WHERE chain_id = 'a' AND "
    questions = {
        "audit_event_of_file": "body LIKE '%\"file_id\"%' AND left(body::jsonb ->> 'file_id', 200)"
        " = left('file 7', 200)",
        "audit_event_of_key": "body LIKE '%\"keys\"%' AND body::jsonb -> 'keys' @> '[\"k\"]'",
        "audit_event_of_run": "body LIKE '%\"objects.%' AND left(body::jsonb ->> 'run_id', 200)"
        " = left('r', 200)",
        "audit_event_of_the_log": "body LIKE '%\"audit.%'",
    }
    for index, question in questions.items():
        plan = connection.execute((from_events + question).encode()).fetchall()
        assert index in str(plan)
