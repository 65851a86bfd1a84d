"""Trimming: how far it goes, what it refuses and by which number, and where it may die."""

from __future__ import annotations

import gzip
import hashlib
import json
import threading
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, text_of
from filejobs_dagster.audit.pins.store import PinStoreUnusable
from filejobs_dagster.audit.rows import scan
from filejobs_dagster.audit.session import TrimRefused, chain_lock
from filejobs_dagster.audit.statement import TrimFacts
from filejobs_dagster.audit.trim import TrimPolicy, batch, trim_chain
from filejobs_dagster.audit.trim.archive import StoreArchive, check_archive
from filejobs_dagster.audit.trim.batch import make_plan
from filejobs_dagster.postgres.locks import Lease
from tests.audit.test_seal import forced
from tests.audit.tools import Attack
from tests.audit.world import DAY, ORIGIN, MemoryPins, World, genesis, tampering
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    from filejobs_dagster.audit.pins.store import PinReceipt
    from filejobs_dagster.audit.tables import CheckpointRow
    from filejobs_dagster.audit.trim import Batch, TrimPlan


def live_events(world: World) -> tuple[int, int]:
    row = world.connection.execute(
        "SELECT min(seq), count(*) FROM audit_event WHERE chain_id = 'a'"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def cuts(world: World) -> list[tuple[int, int]]:
    return world.connection.execute(
        "SELECT from_seq, to_seq FROM audit_checkpoint ORDER BY checkpoint_no"
    ).fetchall()


class Interrupted(Exception):
    pass


def test_what_is_due_goes_in_batches_with_a_receipt_each(own_world: World) -> None:
    trimmed = own_world.trim(batch=20)
    assert [(one.from_seq, one.to_seq) for one in trimmed.batches] == [(1, 20), (21, 40), (41, 50)]
    assert trimmed.events == 50
    assert trimmed.plan.stopped_by == "RETENTION"
    assert live_events(own_world) == (51, 53), "the three events of the trim stand behind"
    assert cuts(own_world) == [(1, 20), (21, 40), (41, 50)]
    result = own_world.verify()
    assert result.clean
    assert result.trimmed_to == 50
    pins = [key for key in own_world.pins.objects if "/trim/" in key]
    assert sorted(pins) == sorted(one.pin for one in trimmed.batches)
    facts = TrimFacts.parse(text_of(own_world.pins.objects[pins[-1]][0][1].decode()))
    assert (facts.from_seq, facts.to_seq, facts.retention) == (41, 50, 150 * DAY)
    event = json.loads(
        own_world.value("SELECT body FROM audit_event WHERE chain_id = 'a' AND seq = 103")
    )
    assert (event["kind"], event["checkpoint"], event["by"]) == ("audit.trim", "3", "tester")


def test_a_dry_run_tells_and_removes_nothing(own_world: World) -> None:
    trimmed = own_world.trim(live=False)
    plan = trimmed.plan
    assert (plan.base, plan.to_seq, plan.events, plan.covering_seal) == (0, 50, 50, 2)
    assert plan.first_at is not None
    assert plan.last_at is not None
    assert plan.last_at < plan.cutoff
    assert live_events(own_world) == (1, 100)
    assert not any("/trim/" in key for key in own_world.pins.objects)


def test_a_later_run_goes_on_and_the_chain_stays_whole(own_world: World) -> None:
    own_world.trim()
    own_world.seal()
    assert own_world.trim().events == 0
    assert own_world.trim(retention=50 * DAY).plan.to_seq == 100
    own_world.append(3)
    own_world.seal()
    result = own_world.verify()
    assert result.clean
    assert (result.trimmed_to, live_events(own_world)[0]) == (100, 101)


def test_a_run_may_end_between_batches(own_world: World) -> None:
    trimmed = trim_chain(
        own_world.database, own_world.connection, "a", own_world.trim_policy(batch=10),
        live=True, actor="tester", run_id="r",
        go_on=lambda done: done is None or done.to_seq < 20,
    )  # fmt: skip
    assert len(trimmed.batches) == 2
    assert own_world.verify().clean


@pytest.mark.parametrize(
    ("changes", "to_seq", "stopped_by"),
    [
        ({}, 50, "RETENTION"),
        ({"up_to": 33}, 33, "UP_TO"),
        ({"retention": 300 * DAY}, 0, "RETENTION"),
        ({"retention": 50 * DAY}, 99, "WOULD_EMPTY"),
    ],
)
def test_the_nearest_limit_decides(
    own_world: World, changes: dict[str, Any], to_seq: int, stopped_by: str
) -> None:
    plan = own_world.trim(live=False, **changes).plan
    assert (plan.to_seq, plan.stopped_by) == (to_seq, stopped_by)


def test_a_seal_that_is_not_due_as_a_whole_is_waited_for(own_world: World) -> None:
    """No failure: a later run will find it due."""
    own_world.append_in_the_past(5, 60 * DAY)
    own_world.append(5)
    own_world.seal()
    plan = own_world.trim(live=False, retention=50 * DAY).plan
    assert (plan.due_to, plan.to_seq, plan.stopped_by) == (105, 100, "SEAL")
    own_world.trim(retention=50 * DAY)
    plan = own_world.trim(live=False, retention=50 * DAY).plan
    assert (plan.due_to, plan.to_seq, plan.stopped_by) == (105, 100, "SEAL")


def test_a_hold_stops_the_trim_before_it_until_it_is_released(own_world: World) -> None:
    hold = own_world.hold(file_id="file 38")
    plan = own_world.trim(live=False).plan
    assert (plan.to_seq, plan.stopped_by) == (37, "LEGAL_HOLD")
    assert [one.hold_id for one in plan.holds] == [hold]
    assert own_world.trim(batch=10).events == 37
    with pytest.raises(
        TrimRefused, match=f"LEGAL_HOLD: hold {hold} keeps everything from event 38"
    ):
        own_world.trim()
    own_world.release(hold)
    assert own_world.trim().plan.to_seq == 50
    assert own_world.verify().clean


def test_a_hold_whose_row_was_removed_still_holds_by_its_event(own_world: World) -> None:
    own_world.hold(from_seq=1)
    forced(own_world, "DELETE FROM audit_hold")
    with pytest.raises(TrimRefused, match="VERIFY_FAILED: HOLD_MISMATCH"):
        own_world.trim()
    # CONTROL: a trim that believes the rows alone would have gone.
    assert own_world.value("SELECT count(*) FROM audit_hold") == 0


def refuse(world: World, code: str, **changes: Any) -> TrimRefused:
    before = live_events(world), len(world.pins.objects)
    with pytest.raises(TrimRefused) as raised:
        world.trim(**changes)
    assert raised.value.code == code
    assert (live_events(world), len(world.pins.objects)) == before
    return raised.value


def test_damage_inside_or_behind_the_cut_refuses(own_world: World) -> None:
    for seq in (10, 90):
        forced(own_world, f"UPDATE audit_event SET alg = alg + 1 WHERE seq = {seq}")
        assert f"Event {seq}" in str(refuse(own_world, "VERIFY_FAILED"))
        forced(own_world, f"UPDATE audit_event SET alg = alg - 1 WHERE seq = {seq}")
    assert own_world.trim().events == 50


def test_a_seal_without_its_pin_refuses(own_world: World) -> None:
    del own_world.pins.objects[f"{ORIGIN}/a/1/seal/000000000002.note"]
    assert "seal/000000000002" in str(refuse(own_world, "VERIFY_FAILED"))


def test_a_missing_last_seal_is_an_older_database(own_world: World) -> None:
    forced(own_world, "DELETE FROM audit_seal WHERE seal_no = 4")
    refuse(own_world, "ROLLED_BACK")


def test_without_a_place_for_pins_nothing_is_trimmed(own_world: World) -> None:
    refuse(own_world, "SEAL_UNPINNED", verify=replace(own_world.verify_policy, pins=None))


def test_events_behind_every_pinned_seal_are_not_trimmed(empty_world: World) -> None:
    empty_world.append_in_the_past(10, 200 * DAY)
    assert "counts 0" in str(refuse(empty_world, "NO_COVERING_SEAL"))
    empty_world.seal()
    empty_world.append_in_the_past(10, 200 * DAY)
    assert empty_world.trim().events == 10
    error = refuse(empty_world, "NO_COVERING_SEAL")
    assert "events 11 to 20 are due" in str(error)
    assert "counts 10" in str(error)


def test_a_hold_on_the_first_event_refuses(own_world: World) -> None:
    own_world.hold()
    assert "Events up to 50 are due" in str(refuse(own_world, "LEGAL_HOLD"))


def test_the_last_event_stays(own_world: World) -> None:
    assert "the newest event, 100" in str(refuse(own_world, "WOULD_EMPTY", up_to=100))


def test_a_pin_that_is_not_locked_any_more_refuses(own_world: World) -> None:
    own_world.pins.protects = True
    assert "not locked" in str(refuse(own_world, "SEAL_UNPINNED"))
    own_world.pins.locked_until = datetime.now(timezone.utc) - DAY
    assert "locked until" in str(refuse(own_world, "SEAL_UNPINNED"))
    own_world.pins.locked_until = datetime.now(timezone.utc) + DAY
    assert own_world.trim().events == 50


def test_clocks_that_differ_refuse(own_world: World) -> None:
    """CONTROL in words: by the database's clock alone, a year ahead would make everything due."""
    own_world.pins.skew = timedelta(minutes=-6)
    assert "apart" in str(refuse(own_world, "CLOCK_WRONG"))
    own_world.pins.skew = timedelta()
    key = f"{ORIGIN}/a/1/seal/000000000004.note"
    [(moment, content)] = own_world.pins.objects[key]
    own_world.pins.objects[key] = [(moment + DAY, content)]
    assert "newest pin was stored" in str(refuse(own_world, "RETENTION"))


def test_a_key_that_nobody_believes_refuses(own_world: World) -> None:
    refuse(own_world, "KEY_UNKNOWN", signers=(generate("files.example/audit-seal"),))
    refuse(own_world, "KEY_UNKNOWN", signers=())


def test_two_histories_refuse(own_world: World) -> None:
    key = f"{ORIGIN}/a/1/seal/000000000002.note"
    own_world.pins.objects[key].append((datetime.now(timezone.utc), b"other"))
    refuse(own_world, "EQUIVOCATION")


def test_two_trims_of_one_chain_do_not_meet(own_world: World) -> None:
    lease = Lease(own_world.database, "another trim")
    lease.take(chain_lock("public", "a"))
    try:
        refuse(own_world, "CHAIN_BUSY")
    finally:
        lease.release()


@pytest.mark.parametrize("changes", [{"retention": timedelta()}, {"batch": 0}])
def test_a_policy_that_keeps_nothing_is_refused(own_world: World, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="keeps events"):
        own_world.trim_policy(**changes)


class InterruptedPins(MemoryPins):
    """The process dies before or after the pin of a trim."""

    when: str | None = None

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        if "/trim/" in key and self.when == "before":
            raise Interrupted
        receipt = super().put_once(key, content, retain_until=retain_until)
        if "/trim/" in key and self.when == "after":
            raise Interrupted
        return receipt


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_trim_that_dies_around_its_pin_has_removed_nothing(own_world: World, when: str) -> None:
    own_world.pins = pins = InterruptedPins(own_world.pins.objects)
    pins.when = when
    with pytest.raises(Interrupted):
        own_world.trim()
    assert live_events(own_world) == (1, 100)
    assert own_world.verify().clean, "a pin of a trim that never was is no alarm"
    pins.when = None
    assert own_world.trim().events == 50
    assert own_world.verify().clean
    assert sum("/trim/" in key for key in pins.objects) == (2 if when == "after" else 1)


@pytest.mark.parametrize("place", ["append", "_insert", "active_holds", "_delete", "scan"])
def test_a_batch_that_dies_anywhere_has_removed_nothing(
    own_world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    real = getattr(batch, place)

    def die(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(batch, place, die)
        with pytest.raises(Interrupted):
            own_world.trim()
    assert live_events(own_world) == (1, 100)
    assert cuts(own_world) == []
    assert own_world.verify().clean
    assert own_world.trim().events == 50
    assert own_world.verify().clean


def test_a_hold_that_is_set_during_a_batch_is_seen_before_its_commit(own_world: World) -> None:
    """The pin's place is slow; meanwhile somebody holds what is about to go."""
    setter = World(own_world.database, own_world.database.connect("holder"))

    class SlowPins(MemoryPins):
        def put_once(
            self, key: str, content: bytes, *, retain_until: datetime | None
        ) -> PinReceipt:
            if "/trim/" in key:
                setter.hold(from_seq=30)
            return super().put_once(key, content, retain_until=retain_until)

    own_world.pins = SlowPins(own_world.pins.objects)
    with pytest.raises(TrimRefused, match="was set meanwhile"):
        own_world.trim()
    assert live_events(own_world) == (1, 101)
    own_world.pins = MemoryPins(own_world.pins.objects)
    assert own_world.trim().plan.to_seq == 29
    assert own_world.verify().clean
    setter.connection.close()


def test_the_receipt_of_a_trim_that_a_hold_refused_cannot_be_used_by_somebody_else(
    own_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is signed and pinned: whoever may write the tables needs no key to use it."""
    setter = World(own_world.database, own_world.database.connect("holder"))

    class SlowPins(MemoryPins):
        def put_once(
            self, key: str, content: bytes, *, retain_until: datetime | None
        ) -> PinReceipt:
            if "/trim/" in key:
                setter.hold(from_seq=30)
            return super().put_once(key, content, retain_until=retain_until)

    own_world.pins = SlowPins(own_world.pins.objects)
    receipts: list[CheckpointRow] = []
    record = batch._record

    def remember(cursor: psycopg.Cursor[Any], task: Any, row: CheckpointRow) -> None:
        receipts.append(row)
        record(cursor, task, row)

    monkeypatch.setattr(batch, "_record", remember)
    with pytest.raises(TrimRefused, match="was set meanwhile"):
        own_world.trim()
    setter.connection.close()
    assert own_world.verify().clean
    [row] = receipts  # Everything in it stands in the pinned note, or follows from the events.
    with own_world.connection.transaction(), own_world.connection.cursor() as cursor:
        tampering(cursor)
        cursor.execute("DELETE FROM audit_event WHERE chain_id = 'a' AND seq <= %s", (row.to_seq,))
        event = {
            "kind": "audit.trim", "checkpoint": str(row.checkpoint_no),
            "note_sha256": row.sha256.hex(),
        }  # fmt: skip
        numbers = append(cursor, [event], chain="a")
        assert numbers is not None
        batch._insert(cursor, "a", replace(row, event_seq=numbers[0]))
    assert own_world.verify().codes == {"CP_HOLD"}
    with pytest.raises(TrimRefused, match="CP_HOLD"):
        own_world.trim()


def test_a_hold_that_comes_with_the_commit_waits_and_holds_what_is_left(own_world: World) -> None:
    with psycopg.connect(own_world.database.url) as trimmer:
        trimmer.execute("SELECT FROM audit_append_many('a', ARRAY['{}'])")
        holder = World(own_world.database, own_world.database.connect("holder"))
        thread = threading.Thread(target=holder.hold)
        thread.start()
        pid = holder.connection.info.backend_pid
        wait_until(lambda: is_waiting(own_world.connection, pid), "the hold waits for the head")
        trimmer.execute("SELECT set_config('session_replication_role', 'replica', true)")
        trimmer.execute("DELETE FROM audit_event WHERE chain_id = 'a' AND seq <= 50")
        trimmer.commit()
        thread.join()
        holder.connection.close()
    assert own_world.value("SELECT from_seq FROM audit_hold") == 51


def test_events_are_kept_and_checked_before_they_go(own_world: World) -> None:
    kept = MemoryPins()
    own_world.trim(archive=StoreArchive(kept, keep_for=DAY), batch=30)
    assert len(kept.objects) == 2
    keys = own_world.connection.execute(
        "SELECT archive, last_hash FROM audit_checkpoint ORDER BY checkpoint_no"
    ).fetchall()
    assert [key for key, _ in keys] == sorted(kept.objects)
    content = kept.objects[keys[0][0]][0][1]
    assert hashlib.sha256(content).hexdigest() in keys[0][0]
    lines = gzip.decompress(content).decode().splitlines()
    assert len(lines) == 30
    assert json.loads(json.loads(lines[4])["body"])["file_id"] == "file 5"
    last = keys[0][1]
    assert check_archive(content, "a", 0, genesis("a"), last) is None
    assert check_archive(content, "b", 0, genesis("b"), last) is not None
    assert check_archive(content[:-9], "a", 0, genesis("a"), last) is not None
    shorter = gzip.compress("\n".join(lines[:-1]).encode())
    assert check_archive(shorter, "a", 0, genesis("a"), last) is not None
    assert own_world.verify().clean


def test_an_archive_that_gives_something_else_back_keeps_the_events(own_world: World) -> None:
    class Forgetful:
        def keep(self, key: str, content: bytes) -> None:
            assert key not in str(content)

        def read(self, key: str) -> bytes:
            assert "/events/" in key
            return gzip.compress(b'{"seq":"1","recorded_at":"","alg":1,"body":"","hash":""}')

    error = refuse(own_world, "ARCHIVE_MISSING", archive=Forgetful())
    assert "event 1 does not match" in str(error)

    class Away(Forgetful):
        def keep(self, key: str, content: bytes) -> None:
            raise PinStoreUnusable(f"away: {key}, {len(content)}")

    with pytest.raises(PinStoreUnusable):
        own_world.trim(archive=Away())
    assert live_events(own_world) == (1, 100)


def test_odd_bodies_come_back_from_the_archive_as_they_were(empty_world: World) -> None:
    texts = ["\u2028", "\u2029", "\x85", "\x0b\x0c\x1c", "a\nb", "\u00e9\U0001f600", "\\u2028"]
    with empty_world.database.transaction(empty_world.connection) as cursor:
        for text in texts:
            body = json.dumps({"text": text}, ensure_ascii=False)
            cursor.execute("SELECT FROM audit_append_many('a', ARRAY[%s])", (body,))
    empty_world.append(1)
    empty_world.seal()
    kept = MemoryPins()
    empty_world.trim(archive=StoreArchive(kept), retention=timedelta(microseconds=1), up_to=7)
    [[(_, content)]] = kept.objects.values()
    lines = gzip.decompress(content).decode().split("\n")
    assert [json.loads(json.loads(line)["body"])["text"] for line in lines] == texts


def test_a_careless_delete_is_stopped_by_the_trigger_or_by_the_commit(own_world: World) -> None:
    """A speed bump: each statement is one that an owner could go around on purpose."""
    connection = own_world.connection
    setting = "SELECT set_config('filejobs.audit_trim', %s, true)"
    delete = "DELETE FROM audit_event WHERE seq <= 50"

    def remove(allowed: str) -> None:
        with connection.transaction():
            connection.execute(setting, (allowed,))
            connection.execute(delete)

    for allowed in ("", "50 b", "49 a"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            remove(allowed)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="without a checkpoint"):
        remove("50 a")
    assert live_events(own_world) == (1, 100)
    own_world.trim()
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
        connection.execute("UPDATE audit_checkpoint SET events = 1")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("DELETE FROM audit_event WHERE seq <= 60")


def test_a_policy_says_how_long_pins_are_locked(own_world: World) -> None:
    policy = own_world.trim_policy(pin_for=400 * DAY)
    assert isinstance(policy, TrimPolicy)
    own_world.trim(pin_for=400 * DAY)
    kept = own_world.value(
        "SELECT min(retain_until - now()) FROM audit_pin WHERE object_key LIKE '%%/trim/%%'"
    )
    assert kept > 399 * DAY


def rewrite(world: World) -> None:
    """What an owner of the tables can do: another event 10, and the whole chain anew."""
    with world.connection.transaction(), world.connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = public")
        tampering(cursor)
        attack = Attack(cursor, world, world.pins)
        attack.edit(10)
        attack.rechain()


@pytest.mark.parametrize("looks", [True, False], ids=["as it is", "CONTROL: without a look"])
def test_a_chain_that_is_rewritten_behind_the_verification_is_not_removed(
    own_world: World, monkeypatch: pytest.MonkeyPatch, looks: bool
) -> None:
    def trim() -> None:
        trim_chain(
            own_world.database, own_world.connection, "a", own_world.trim_policy(batch=20),
            live=True, actor="tester", run_id="run 1", go_on=rewrite_first,
        )  # fmt: skip

    def rewrite_first(before: Batch | None) -> bool:
        if before is None:
            rewrite(own_world)
        return before is None

    if looks:
        with pytest.raises(TrimRefused, match="VERIFY_FAILED: the chain up to event 20 is not"):
            trim()
        assert live_events(own_world) == (1, 100)
    else:

        def believed(*arguments: Any, **more: Any) -> Any:
            found = scan(*arguments, **more)
            ends = arguments[0].connection.execute(
                "SELECT seq, hash FROM audit_event WHERE chain_id = 'a'"
            )
            plans[-1].ends.update((seq, bytes(digest)) for seq, digest in ends.fetchall())
            return found

        plans: list[Any] = []

        def kept(*arguments: Any) -> Any:
            plans.append(make_plan(*arguments))
            return plans[-1]

        monkeypatch.setattr("filejobs_dagster.audit.trim.make_plan", kept)
        monkeypatch.setattr("filejobs_dagster.audit.trim.batch.scan", believed)
        trim()
        assert live_events(own_world)[0] == 21, "the evidence is gone"
    assert not own_world.verify().clean


def test_what_a_caller_records_stands_or_falls_with_the_batch(own_world: World) -> None:
    own_world.connection.execute("CREATE TABLE public.books (checkpoint bigint, planned bigint)")

    def record(cursor: psycopg.Cursor[Any], plan: TrimPlan, batch: Batch) -> None:
        cursor.execute("INSERT INTO books VALUES (%s, %s)", (batch.checkpoint_no, plan.events))
        if batch.checkpoint_no == 2:
            raise LookupError("no books, no batch")

    with pytest.raises(LookupError):
        trim_chain(
            own_world.database, own_world.connection, "a", own_world.trim_policy(batch=20),
            live=True, actor="tester", run_id="run 1", record=record,
        )  # fmt: skip
    books = own_world.connection.execute("SELECT * FROM public.books").fetchall()
    assert books == [(1, 50)]
    assert live_events(own_world)[0] == 21
    assert own_world.value("SELECT count(*) FROM audit_checkpoint") == 1
    own_world.trim(batch=20)
    assert live_events(own_world)[0] == 51
    assert own_world.verify().clean


def test_a_hold_that_is_set_behind_the_verification_holds_by_its_event_alone(
    own_world: World,
) -> None:
    def hold_meanwhile(before: Batch | None) -> bool:
        if before is not None:
            own_world.hold(from_seq=30)
            with own_world.connection.transaction(), own_world.connection.cursor() as cursor:
                tampering(cursor)
                cursor.execute("DELETE FROM public.audit_hold")
        return True

    with pytest.raises(TrimRefused, match=r"LEGAL_HOLD: hold .* keeps everything from event 30 on"):
        trim_chain(
            own_world.database, own_world.connection, "a", own_world.trim_policy(batch=20),
            live=True, actor="tester", run_id="run 1", go_on=hold_meanwhile,
        )  # fmt: skip
    assert live_events(own_world)[0] == 21
