"""Sealing: what it writes, what it skips (nothing), what it refuses, and where it may die."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.audit import seal, session
from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import TrustedKey, TrustedKeys, generate, text_of
from filejobs_dagster.audit.pins.store import Equivocation, PinContent, PinStoreUnusable
from filejobs_dagster.audit.seal import NotPinned, SealPolicy, seal_chain
from filejobs_dagster.audit.session import SealRefused, TrimRefused, chain_lock
from filejobs_dagster.audit.statement import SealStatement
from filejobs_dagster.audit.verify import Incremental, VerifyPolicy, known_chains
from filejobs_dagster.postgres import connect
from filejobs_dagster.postgres.locks import Lease
from tests.audit.world import DAY, ORIGIN, MemoryPins, World

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from filejobs_dagster.audit.pins.store import PinEntry, PinReceipt


def forced(world: World, statement: str) -> None:
    """What only the owner of the tables can do."""
    with world.connection.transaction():
        world.connection.execute("SET LOCAL session_replication_role = replica")
        world.connection.execute(statement.encode())


def seals(world: World, chain: str = "a") -> list[tuple[int, int]]:
    return world.connection.execute(
        "SELECT seal_no, size FROM audit_seal WHERE chain_id = %s ORDER BY 1", (chain,)
    ).fetchall()


class FailingPins(MemoryPins):
    """Fails before or after it has stored the pin."""

    fail: str | None = None

    def put_once(self, key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        if self.fail == "before":
            raise PinStoreUnusable("the place does not answer")
        receipt = super().put_once(key, content, retain_until=retain_until)
        if self.fail == "after":
            raise PinStoreUnusable("the answer was lost")
        return receipt


def test_a_seal_says_where_the_chain_has_reached(empty_world: World) -> None:
    empty_world.append(5)
    sealed = empty_world.seal()
    assert (sealed.seal_no, sealed.size, sealed.events) == (1, 5, 5)
    assert (sealed.made, sealed.signed, sealed.pinned) == (True, True, True)
    statement = SealStatement.parse(text_of(sealed.note))
    assert statement.origin == f"{ORIGIN}/a"
    assert statement.head == empty_world.value("SELECT head_hash FROM audit_chain")
    assert int(statement.system_id) > 0
    assert statement.timeline == "1"
    assert empty_world.pins.under("/seal/") == [f"{ORIGIN}/a/1/seal/000000000001.note"]
    assert empty_world.value("SELECT count(*) FROM audit_pin") == len(empty_world.pins.objects)
    assert empty_world.verify().clean


def test_a_dry_run_tells_and_writes_nothing(empty_world: World) -> None:
    empty_world.append(5)
    told = seal_chain(
        empty_world.database, empty_world.connection, "a", empty_world.seal_policy, live=False
    )
    assert (told.seal_no, told.size, told.events, told.made) == (1, 5, 5, False)
    assert seals(empty_world) == []
    assert empty_world.pins.objects == {}


def test_an_idle_chain_is_sealed_again_unless_heartbeats_are_off(empty_world: World) -> None:
    empty_world.append(5)
    empty_world.seal()
    assert empty_world.seal().events == 0
    assert seals(empty_world) == [(1, 5), (2, 5)]
    quiet = replace(empty_world.seal_policy, heartbeat=False)
    assert empty_world.seal(policy=quiet).made is False
    assert seals(empty_world) == [(1, 5), (2, 5)]
    empty_world.append(1)
    assert empty_world.seal(policy=quiet).made is True
    assert empty_world.verify().clean


def test_an_append_in_flight_is_neither_skipped_nor_waited_for(empty_world: World) -> None:
    empty_world.append(5)
    with psycopg.connect(empty_world.database.url) as writer, writer.cursor() as cursor:
        assert append(cursor, [{"late": True}], chain="a") == (6, 6)
        assert empty_world.seal().size == 5
        writer.commit()
    assert empty_world.seal().size == 6
    assert empty_world.verify().clean
    # CONTROL: a number from a sequence, and a seal up to the highest one that is visible.
    connection = empty_world.connection
    connection.execute("CREATE TABLE careless (seq bigserial, body text)")
    with psycopg.connect(empty_world.database.url) as writer:
        writer.execute("INSERT INTO careless (body) VALUES ('slow')")
        connection.execute("INSERT INTO careless (body) VALUES ('fast')")
        sealed_to = empty_world.value("SELECT max(seq) FROM careless")
        sealed = connection.execute("SELECT count(*) FROM careless").fetchone()
        writer.commit()
    below = empty_world.value("SELECT count(*) FROM careless WHERE seq <= %s", (sealed_to,))
    assert (sealed, below) == ((1,), 2), "an event appeared below the seal"


def test_without_a_key_it_seals_unsigned_and_says_so(empty_world: World) -> None:
    empty_world.append(5)
    policy = SealPolicy(VerifyPolicy(ORIGIN, pins=empty_world.pins))
    sealed = empty_world.seal(policy=policy)
    assert (sealed.made, sealed.signed, sealed.pinned) == (True, False, True)
    assert "—" not in sealed.note
    result = empty_world.verify(policy=policy.verify)
    assert result.clean
    assert result.signatures is False
    # Once there is a key, unsigned seals are accepted up to where the settings say.
    keyed = TrustedKeys((TrustedKey(empty_world.signer.verifier, 2),), unsigned_through=1)
    verify = replace(policy.verify, trusted=keyed)
    empty_world.seal(policy=SealPolicy(verify, (empty_world.signer,)))
    assert empty_world.verify(policy=verify).clean
    strict = replace(verify, trusted=replace(keyed, unsigned_through=0))
    assert empty_world.verify(policy=strict).codes == {"SEAL_SIG", "PIN_SIG", "MANIFEST"}


def test_without_a_place_for_pins_nothing_is_protected_and_that_is_told(
    empty_world: World,
) -> None:
    empty_world.append(5)
    verify = VerifyPolicy(ORIGIN, empty_world.trusted)
    sealed = empty_world.seal(policy=SealPolicy(verify, (empty_world.signer,)))
    assert (sealed.made, sealed.pinned) == (True, False)
    result = empty_world.verify(policy=verify)
    assert result.clean
    assert result.pins is None
    assert result.pinned_to is None
    assert "could have made it match" in result.explanation


def test_a_key_is_replaced_by_signing_with_both_once(empty_world: World) -> None:
    new = generate("files.example/audit-seal")
    trusted = TrustedKeys(
        (TrustedKey(empty_world.signer.verifier, 1, 2), TrustedKey(new.verifier, 2))
    )
    verify = replace(empty_world.verify_policy, trusted=trusted)
    for signers in ((empty_world.signer,), (empty_world.signer, new), (new,)):
        empty_world.append(2)
        empty_world.seal(policy=SealPolicy(verify, signers))
    assert empty_world.verify(policy=verify).clean
    with pytest.raises(SealRefused, match="KEY_UNKNOWN"):
        empty_world.seal(policy=SealPolicy(verify, (empty_world.signer,)))
    with pytest.raises(SealRefused, match="KEY_UNKNOWN"):
        empty_world.seal(policy=SealPolicy(verify))


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_pin_that_failed_is_put_first_by_the_next_run(empty_world: World, when: str) -> None:
    empty_world.pins = pins = FailingPins()
    pins.fail = when
    empty_world.append(3)
    with pytest.raises(NotPinned, match="Seal 1 of the chain"):
        empty_world.seal()
    assert len(pins.objects) == (0 if when == "before" else 1)
    empty_world.append(1)
    with pytest.raises(NotPinned, match="of the chain"):
        empty_world.seal()
    # The older one first: a later pin never stands without those before.
    assert seals(empty_world) == ([(1, 3)] if when == "before" else [(1, 3), (2, 4)])
    pins.fail = None
    sealed = empty_world.seal()
    assert sealed.pinned_late == ((1,) if when == "before" else ())
    assert empty_world.verify().clean


def test_a_seal_without_its_pin_is_a_warning_while_it_is_young(empty_world: World) -> None:
    empty_world.pins = pins = FailingPins()
    pins.fail = "before"
    empty_world.append(3)
    with pytest.raises(NotPinned):
        empty_world.seal()
    young = replace(empty_world.verify_policy, pin_grace=DAY)
    result = empty_world.verify(policy=young)
    assert result.clean
    assert [one.code for one in result.warnings] == ["SEAL_NOT_YET_PINNED"]
    assert result.unprotected == 3
    assert empty_world.verify().codes == {"SEAL_UNPINNED"}


@pytest.mark.parametrize("place", ["_look", "_next_seal", "_write", "_pin"])
def test_a_sealer_that_dies_anywhere_is_followed_by_one_that_goes_on(
    own_world: World, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Before the commit nothing was written; behind it the seal is there, and pinned at last."""
    own_world.append(5)
    real = getattr(seal, place)

    def die(*args: Any, **kwargs: Any) -> Any:
        real(*args, **kwargs)
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(seal, place, die)
        with pytest.raises(InterruptedError):
            own_world.seal()
    assert len(seals(own_world)) == (5 if place in {"_write", "_pin"} else 4)
    own_world.append(5)
    sealed = own_world.seal()
    assert sealed.size == 110
    assert sealed.pinned_late == ((5,) if place == "_write" else ())
    assert own_world.verify().clean


def test_a_chain_that_was_never_sealed_is_not_told_as_protected(empty_world: World) -> None:
    empty_world.append(7)
    result = empty_world.verify()
    assert result.clean
    assert (result.pinned_to, result.unprotected) == (0, 7)
    assert "nothing of the newest 7 event(s)" in result.explanation.replace("says ", "")


def test_a_pin_that_came_late_is_told(own_world: World) -> None:
    """Its seal may also be dated back, which nobody can tell from here."""
    key = f"{ORIGIN}/a/1/seal/000000000003.note"
    [(moment, content)] = own_world.pins.objects[key]
    own_world.pins.objects[key] = [(moment + timedelta(hours=1), content)]
    result = own_world.verify()
    assert result.clean
    assert [(one.code, one.count) for one in result.warnings] == [("PIN_LATE", 1)]


def test_a_place_of_pins_that_was_emptied_is_read_once_more(own_world: World) -> None:
    for _ in range(25):
        own_world.seal()
    full = own_world.pins
    own_world.pins = MemoryPins()
    result = own_world.verify()
    assert result.codes == {"PIN_GONE"}
    assert result.findings[0].count == len(full.objects)
    assert (result.pinned_to, result.unprotected) == (0, 100)
    own_world.pins = full
    assert own_world.verify().clean


def test_a_pin_that_is_gone_is_a_finding_for_good_and_nobody_puts_it_again(
    own_world: World,
) -> None:
    key = f"{ORIGIN}/a/1/seal/000000000003.note"
    content = own_world.pins.objects.pop(key)
    assert own_world.verify().codes == {"PIN_GONE"}
    for _ in range(2):
        own_world.append(1)
        assert own_world.seal().pinned_late == ()
        assert key not in own_world.pins.objects
        assert own_world.verify().codes == {"PIN_GONE"}
        assert own_world.verify(mode=Incremental()).codes == {"PIN_GONE"}
    # What somebody puts himself, with the very text, is not the version that was put.
    own_world.pins.objects[key] = content
    own_world.pins.replaced.add(key)
    assert own_world.verify().codes == {"PIN_REPLACED"}
    # CONTROL: nothing but its row tells.
    forced(own_world, "DELETE FROM audit_pin WHERE object_key LIKE '%000000000003.note'")
    assert own_world.verify().clean


def test_events_under_a_clock_that_jumped_are_a_finding_and_stop_nothing(
    own_world: World,
) -> None:
    own_world.append_in_the_past(2, -365 * DAY)
    assert own_world.verify().codes == {"EV_AHEAD"}
    own_world.append(3)
    result = own_world.verify()
    assert result.codes == {"EV_AHEAD"}, "that the clock went back is written down, and no finding"
    assert [(one.seq, one.count) for one in result.findings] == [(102, 1)]
    assert own_world.seal().size == 106
    own_world.append(1)
    assert own_world.seal().size == 107
    assert "Event 102 was recorded at" in own_world.verify().findings[0].message
    # CONTROL: the same step back without the event that says so.
    forced(own_world, "UPDATE audit_event SET body = '{}' WHERE seq = 103")
    assert "EV_TIME" in own_world.verify().codes


def test_an_event_that_is_dated_ahead_keeps_what_is_behind_it_and_not_what_is_before(
    own_world: World,
) -> None:
    own_world.append_in_the_past(2, -365 * DAY)
    own_world.append(3)
    own_world.seal()
    assert [batch.to_seq for batch in own_world.trim().batches] == [50]


def test_a_seal_lists_the_newest_pins_only(own_world: World) -> None:
    """What a seal asks of the place does not grow with the age of the chain."""
    asked: list[str] = []

    class Counting(MemoryPins):
        def list_after(self, prefix: str, key: str) -> Sequence[PinEntry]:
            found = super().list_after(prefix, key)
            asked.extend(entry.key for entry in found)
            return found

        def get(self, entry: PinEntry) -> PinContent:
            read.append(entry.key)
            return super().get(entry)

    read: list[str] = []
    own_world.pins = Counting(own_world.pins.objects)
    own_world.append(1)
    assert own_world.seal().seal_no == 5
    assert [key[-6] for key in asked] == ["4"]
    manifests = own_world.pins.under("/manifest/")
    assert [key[-6] for key in read if key not in manifests] == ["4"]
    assert len(read) == 2
    # CONTROL: a verification reads them all.
    assert own_world.verify().clean
    assert set(read) == own_world.pins.objects.keys()


def test_a_row_without_its_seal_does_not_make_a_seal_pass_over_others(own_world: World) -> None:
    forced(
        own_world,
        "INSERT INTO audit_pin (object_key, chain_id, sha256) VALUES"
        " ('files.example/audit/a/1/seal/000000000009.note', 'a', '')",
    )
    own_world.append(1)
    assert own_world.seal().seal_no == 5
    assert own_world.verify().codes == {"PIN_GONE"}


def test_the_row_of_a_pin_stays(own_world: World) -> None:
    for change in ("UPDATE audit_pin SET sha256 = ''", "DELETE FROM audit_pin"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
            own_world.connection.execute(change.encode())


def test_a_pin_whose_row_was_not_written_gets_it_from_the_next_seal(own_world: World) -> None:
    forced(own_world, "DELETE FROM audit_pin WHERE object_key LIKE '%000000000004.note'")
    assert own_world.verify().clean
    assert own_world.seal().pinned_late == ()
    del own_world.pins.objects[f"{ORIGIN}/a/1/seal/000000000004.note"]
    assert own_world.verify().codes == {"PIN_GONE"}


def test_a_place_of_pins_that_is_away_gives_no_verdict(own_world: World) -> None:
    class Away(MemoryPins):
        def list(self, prefix: str) -> list[PinEntry]:
            raise PinStoreUnusable(f"nothing under {prefix} can be listed")

    own_world.pins = Away()
    for attempt in (own_world.verify, own_world.seal, own_world.trim):
        with pytest.raises(PinStoreUnusable):
            attempt()
    assert seals(own_world) == [(1, 25), (2, 50), (3, 75), (4, 100)]


def test_a_forged_seal_that_waits_for_its_pin_is_not_pinned_for_its_forger(
    own_world: World,
) -> None:
    forced(
        own_world,
        "INSERT INTO audit_seal SELECT chain_id, 5, incarnation, size, head_hash, root, frontier,"
        " sealed_at, sha256(convert_to(note, 'UTF8')), system_id, timeline, note"
        " FROM audit_seal WHERE seal_no = 4",
    )
    with pytest.raises(SealRefused, match="VERIFY_FAILED: SEAL_FIELDS"):
        own_world.seal()
    assert len(own_world.pins.under("/seal/")) == 4


REFUSALS = {
    "SEAL_GAP": "DELETE FROM audit_event WHERE seq = 102",
    "VERIFY_FAILED: EV_BODY": "UPDATE audit_event SET body = '{}' WHERE seq = 102",
    "VERIFY_FAILED: EV_HASH": ("UPDATE audit_event SET hash = sha256(hash) WHERE seq = 101"),
    "VERIFY_FAILED: HEAD_ROW": "UPDATE audit_chain SET head_seq = 102",
    "VERIFY_FAILED: SEAL_FIELDS": "UPDATE audit_seal SET size = 99 WHERE seal_no = 4",
    "ROLLED_BACK: PIN_AHEAD_SEAL": "DELETE FROM audit_seal WHERE seal_no = 4",
    "EQUIVOCATION": "UPDATE audit_seal SET note = note || '— other AAAAAAAA' || chr(10)"
    " WHERE seal_no = 4",
    "CHAIN_MISSING": "DELETE FROM audit_chain",
    "GENESIS": "UPDATE audit_chain SET genesis = head_hash",
}


@pytest.mark.parametrize("code", REFUSALS)
def test_what_does_not_match_is_not_sealed(own_world: World, code: str) -> None:
    own_world.append(4)
    forced(own_world, REFUSALS[code])
    before = seals(own_world)
    with pytest.raises(SealRefused, match=code):
        own_world.seal()
    assert seals(own_world) == before
    assert len(own_world.pins.under("/seal/")) == 4


def test_damage_far_below_does_not_stop_new_events_from_being_sealed(own_world: World) -> None:
    own_world.append(4)
    forced(own_world, "UPDATE audit_event SET body = '{}' WHERE seq = 10")
    own_world.pins.markers.add(next(iter(own_world.pins.objects)))
    assert own_world.seal().size == 104
    assert own_world.verify().codes == {"EV_BODY", "PIN_MARKER"}


class NoClock(MemoryPins):
    """A place without a clock, as a folder is one: this machine's is the witness."""

    def list(self, prefix: str) -> list[PinEntry]:
        return [replace(entry, stored_at=None) for entry in super().list(prefix)]

    def now(self) -> datetime | None:
        return None


def jump(monkeypatch: pytest.MonkeyPatch, ahead: timedelta) -> None:
    """The database's clock goes wrong, as far as this process can see."""
    for module in (session, import_module("filejobs_dagster.audit.verify.load")):
        monkeypatch.setattr(
            module, "database_now", lambda cursor: connect.database_now(cursor) + ahead
        )


@pytest.mark.parametrize("ahead", [timedelta(days=365), timedelta(days=-365)])
@pytest.mark.parametrize("place", [MemoryPins, NoClock])
def test_nothing_is_sealed_or_trimmed_under_a_clock_that_jumped(
    own_world: World,
    monkeypatch: pytest.MonkeyPatch,
    ahead: timedelta,
    place: type[MemoryPins],
) -> None:
    own_world.pins = place(own_world.pins.objects)
    jump(monkeypatch, ahead)
    for attempt, kind in ((own_world.seal, SealRefused), (own_world.trim, TrimRefused)):
        with pytest.raises(kind, match="CLOCK_WRONG: the database's clock says"):
            attempt()
    assert len(seals(own_world)) == 4
    monkeypatch.undo()
    assert own_world.seal().seal_no == 5
    assert own_world.trim().events == 50
    assert own_world.verify().clean


@pytest.mark.parametrize(
    ("place", "codes"),
    [(MemoryPins, {"PIN_TIME", "SEAL_TIME", "EV_AHEAD"}), (NoClock, {"SEAL_TIME", "EV_AHEAD"})],
)
def test_a_seal_that_was_made_a_year_ahead_stops_nothing_once_the_clock_is_right(
    own_world: World,
    monkeypatch: pytest.MonkeyPatch,
    place: type[MemoryPins],
    codes: set[str],
) -> None:
    """Every clock was ahead, as on a machine on which everything runs, and nobody could tell."""
    own_world.pins = place(own_world.pins.objects)
    own_world.append_in_the_past(2, -365 * DAY)
    jump(monkeypatch, 365 * DAY)
    monkeypatch.setattr(seal, "must_have_the_right_time", lambda *_: None)
    assert own_world.seal().seal_no == 5
    monkeypatch.undo()
    assert own_world.verify().codes == codes, "also before anything is sealed behind it"
    for number in (6, 7):
        own_world.append(1)
        assert own_world.seal().seal_no == number
        assert own_world.verify().codes == codes
        assert own_world.verify(mode=Incremental()).codes >= {"SEAL_TIME"}
    assert [batch.to_seq for batch in own_world.trim().batches] == [50]


def test_another_text_at_the_next_place_is_equivocation(own_world: World) -> None:
    own_world.pins.put_once(f"{ORIGIN}/a/1/seal/000000000005.note", b"?", retain_until=None)
    with pytest.raises(SealRefused, match="ROLLED_BACK"):
        own_world.seal()
    late = MemoryPins(dict(own_world.pins.objects))
    late.objects.pop(f"{ORIGIN}/a/1/seal/000000000005.note")
    own_world.pins = late
    put = late.put_once

    def another_first(key: str, content: bytes, *, retain_until: datetime | None) -> PinReceipt:
        put(key, b"theirs", retain_until=None)
        return put(key, content, retain_until=retain_until)

    late.put_once = another_first  # type: ignore[method-assign]
    with pytest.raises(Equivocation):
        own_world.seal()


def test_two_sealers_of_one_chain_do_not_meet(own_world: World) -> None:
    lease = Lease(own_world.database, "another sealer")
    lease.take(chain_lock("public", "a"))
    try:
        with pytest.raises(SealRefused, match="CHAIN_BUSY"):
            own_world.seal()
        own_world.append(1, "b")
        assert own_world.seal("b").made
    finally:
        lease.release()
    assert own_world.seal().made


def test_a_chain_that_was_wiped_is_known_from_its_pins(own_world: World) -> None:
    own_world.append(1, "b")
    for table in ("event", "seal", "chain"):
        forced(own_world, f"DELETE FROM audit_{table} WHERE chain_id = 'a'")
    assert known_chains(own_world.database, own_world.connection, own_world.verify_policy) == [
        "a",
        "b",
    ]
    without = replace(own_world.verify_policy, pins=None)
    assert known_chains(own_world.database, own_world.connection, without) == ["b"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_seal SET size = 1",
        "DELETE FROM audit_seal",
        "TRUNCATE audit_seal",
        "TRUNCATE audit_checkpoint",
        "TRUNCATE audit_restore",
        "TRUNCATE audit_hold",
    ],
)
def test_triggers_refuse_what_nobody_does_on_purpose(own_world: World, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
        own_world.connection.execute(statement.encode())


def test_a_role_that_may_not_ask_for_the_server_seals_as_unknown(own_world: World) -> None:
    connection = own_world.connection
    connection.execute("CREATE ROLE sealer_without_rights")
    connection.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM public")
    connection.execute(
        "GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA public TO sealer_without_rights"
    )
    connection.execute("SET ROLE sealer_without_rights")
    try:
        note = own_world.seal().note
    finally:
        connection.execute("RESET ROLE")
        connection.execute("GRANT EXECUTE ON FUNCTION pg_control_system() TO public")
        connection.execute("DROP OWNED BY sealer_without_rights")
        connection.execute("DROP ROLE sealer_without_rights")
    assert "sys unknown/1\n" in note
