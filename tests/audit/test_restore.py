"""A database that was restored is recognised, refused, acknowledged, and goes on."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.audit.note import generate
from filejobs_dagster.audit.origin import Origin
from filejobs_dagster.audit.pins.read import read_pins
from filejobs_dagster.audit.restore import acknowledge_restore
from filejobs_dagster.audit.session import RestoreRefused, SealRefused, TrimRefused
from filejobs_dagster.audit.verify import CHECKS, Full, Incremental, Rolling, examine, judge
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate
from tests.audit.test_seal import forced
from tests.audit.world import ORIGIN, MemoryPins, World
from tests.door.test_restored import tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from filejobs_dagster.audit.seal import SealPolicy
    from filejobs_dagster.audit.statement import SealStatement
    from filejobs_dagster.audit.tables import RestoreRow
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.thorough

TABLES = ("audit_chain", "audit_event", "audit_seal", "audit_checkpoint", "audit_pin")


def copy_tables(source: psycopg.Connection, url: str) -> None:
    """What a dump and a restore do: the rows as they are, the function not called."""
    with psycopg.connect(url) as target:
        target.execute("SET session_replication_role = replica")
        for table in TABLES:
            with (
                source.cursor().copy(f"COPY {table} TO STDOUT".encode()) as out,
                target.cursor().copy(f"COPY {table} FROM STDIN".encode()) as back,
            ):
                for block in out:
                    back.write(block)


@pytest.fixture
def restored(own_world: World, separate_postgres_server: EmbeddedPostgres) -> Iterator[World]:
    """Another server with the state at seal 4, while the first one went on to seal 6."""
    url = separate_postgres_server.create_database("restored")
    migrate(url)
    copy_tables(own_world.connection, url)
    for _ in range(2):
        own_world.append(5)
        own_world.seal()
    own_world.trim(batch=30)
    assert own_world.verify().clean
    database = Database(url)
    with database.connect("tests") as connection:
        yield replace(own_world, database=database, connection=connection)


def acknowledge(world: World, policy: SealPolicy | None = None) -> RestoreRow:
    return acknowledge_restore(
        world.database, world.connection, "a", policy or world.seal_policy,
        actor="operator", reason="disk lost, backup of 3 o'clock",
    )  # fmt: skip


def test_another_server_with_older_rows_is_rolled_back_and_not_tampered(restored: World) -> None:
    result = restored.verify()
    assert result.codes == {"PIN_AHEAD_SEAL", "PIN_TAIL"}
    assert result.verdict == "rolled back"
    assert not result.clean
    assert "restored from a backup" in result.explanation
    assert restored.verify(mode=Incremental()).verdict == "rolled back"
    assert restored.verify(mode=Rolling(2, 1)).verdict == "rolled back"


def test_the_same_state_on_the_same_server_is_not_excused(own_world: World) -> None:
    own_world.append(5)
    own_world.seal()
    forced(own_world, "DELETE FROM audit_event WHERE seq > 100")
    forced(own_world, "DELETE FROM audit_seal WHERE seal_no = 5")
    forced(
        own_world,
        "UPDATE audit_chain SET (head_seq, head_hash) ="
        " (SELECT seq, hash FROM audit_event WHERE seq = 100)",
    )
    result = own_world.verify()
    assert result.codes == {"PIN_AHEAD_SEAL", "PIN_TAIL"}
    assert result.verdict == "does not match"
    assert "its newest part was removed" in result.explanation


def test_a_standby_that_lags_is_told_to_be_one(own_world: World) -> None:
    evidence = examine(
        own_world.database, own_world.connection, "a", own_world.verify_policy, mode=Full()
    )
    assert evidence.standby is False
    older = replace(evidence, seals=evidence.seals[:-1], standby=True)
    result = judge(older, CHECKS)
    assert result.codes == {"PIN_AHEAD_SEAL"}
    assert not result.clean
    assert "it is a standby" in result.explanation


def test_damage_in_a_restored_database_is_not_excused(restored: World) -> None:
    forced(restored, "UPDATE audit_event SET body = '{}' WHERE seq = 30")
    assert restored.verify().verdict == "does not match"
    with pytest.raises(RestoreRefused, match="does not match: EV_BODY"):
        acknowledge(restored)


def test_seal_and_trim_refuse_and_say_what_to_do(restored: World) -> None:
    with pytest.raises(SealRefused, match="ROLLED_BACK: PIN_AHEAD_SEAL"):
        restored.seal()
    with pytest.raises(TrimRefused, match="ROLLED_BACK: PIN_AHEAD_SEAL"):
        restored.trim()
    restored.append(50)
    # More events than were lost do not hide it.
    with pytest.raises(SealRefused, match="ROLLED_BACK"):
        restored.seal()


def test_an_acknowledged_restore_goes_on_under_the_next_incarnation(restored: World) -> None:
    row = acknowledge(restored)
    assert (row.incarnation, row.survived_seal, row.survived_size) == (2, 4, 100)
    assert (row.lost_seal, row.lost_size) == (6, 110)
    assert restored.verify().clean
    sealed = restored.seal()
    assert sealed.seal_no == 5
    assert sealed.note.startswith("files.example/audit/a@2\n")
    assert restored.trim().events == 50
    restored.append(3)
    restored.seal()
    for mode in (None, Incremental(), Rolling(2, 0), Rolling(2, 1)):
        assert restored.verify(mode=mode).clean
    kinds = restored.connection.execute(
        "SELECT body::jsonb ->> 'kind' FROM audit_event WHERE seq = 101"
    ).fetchall()
    assert kinds == [("audit.restore",)]
    # What was lost stays where it was pinned.
    assert any("/1/seal/000000000006" in key for key in restored.pins.objects)
    with pytest.raises(RestoreRefused, match="NOT_ROLLED_BACK"):
        acknowledge(restored)


@pytest.fixture
def went_on(
    empty_world: World,
    postgres_server: EmbeddedPostgres,
    separate_postgres_server: EmbeddedPostgres,
    tmp_path: Path,
) -> Iterator[World]:
    """Pins at 13, 19 and 23; another server with a dump of 13, and six events appended there."""
    world = empty_world
    world.append(13)
    world.seal()
    dump = tmp_path / "backup"
    tool(postgres_server, "pg_dump", "--format=custom", f"--file={dump}", world.database.url)
    for more in (6, 4):
        world.append(more)
        world.seal()
    assert [pin.size for pin in pinned(world)] == [13, 19, 23]
    url = separate_postgres_server.create_database(f"restored_{uuid.uuid4().hex}")
    tool(separate_postgres_server, "pg_restore", f"--dbname={url}", str(dump))
    database = Database(url)
    with database.connect("tests") as connection:
        restored = replace(world, database=database, connection=connection)
        restored.append(6, more="of the restored one")
        yield restored


def pinned(world: World) -> list[SealStatement]:
    found = read_pins(world.pins, Origin(ORIGIN, "a")).seals
    return [one for _, pin in sorted(found.items()) if (one := pin.statement) is not None]


def test_events_that_were_appended_since_do_not_close_the_way_back(went_on: World) -> None:
    _, second, third = pinned(went_on)
    found = went_on.verify()
    assert found.codes == {"PIN_AHEAD_SEAL", "PIN_HEAD", "PIN_ROOT", "PIN_TAIL"}
    assert found.verdict == "rolled back"
    assert found.lost is not None
    assert found.lost.as_json() == {
        "matched_to": 13, "matched_seal": 1, "matched_hash": pinned(went_on)[0].head.hex(),
        "lost_from": 14, "lost_to": 23,
        "pins": [{"seal": 2, "event": 19, "hash": second.head.hex()},
                 {"seal": 3, "event": 23, "hash": third.head.hex()}],
    }  # fmt: skip
    assert "The events 14 to 23 that were pinned are not here" in found.explanation
    with pytest.raises(SealRefused, match=r"ROLLED_BACK: .*filejobs audit restore"):
        went_on.seal()

    row = acknowledge(went_on)
    assert (row.incarnation, row.survived_seal, row.survived_size, row.matched_size) == (
        2, 1, 19, 13,
    )  # fmt: skip
    assert [(pin.seal_no, pin.size, pin.head) for pin in row.lost] == [
        (2, 19, second.head), (3, 23, third.head),
    ]  # fmt: skip
    [note] = read_pins(went_on.pins, Origin(ORIGIN, "a")).restores.values()
    assert note.note == row.note
    assert "lost-pin 3 23 " in row.note

    result = went_on.verify()
    assert result.clean
    assert (result.pinned_to, result.unprotected) == (13, 7)
    [said] = result.restores
    for part in (
        "operator declared a restore (disk lost", "Up to event 13 the pins of before agree",
        "The events 14 to 23 of before are lost", f"19 as {second.head.hex()}",
        "The events 14 to 19 that stand there now are others",
    ):  # fmt: skip
        assert part in said
    assert went_on.seal().note.startswith("files.example/audit/a@2\n20\n")
    went_on.append(2)
    went_on.seal()
    for mode in (Full(), Incremental(), Rolling(2, 0), Rolling(2, 1)):
        assert went_on.verify(mode=mode).clean
    # The note goes on to be held against the pins and the events that it names.
    forced(went_on, "UPDATE audit_restore SET matched_size = 12")
    assert went_on.verify().codes == {"RESTORE"}


def test_control_what_does_not_match_the_newest_pin_that_is_left_is_not_excused(
    went_on: World,
) -> None:
    forced(went_on, "UPDATE audit_event SET body = '{}' WHERE seq = 7")
    assert went_on.verify().verdict == "does not match"
    with pytest.raises(RestoreRefused, match="does not match: EV_BODY"):
        acknowledge(went_on)


def test_a_pin_that_is_gone_for_good_does_not_close_the_way_back(went_on: World) -> None:
    del went_on.pins.objects[f"{ORIGIN}/a/1/seal/000000000001.note"]
    with pytest.raises(SealRefused, match="ROLLED_BACK"):
        went_on.seal()
    assert acknowledge(went_on).matched_size == 0
    assert went_on.verify().codes == {"PIN_GONE"}


@pytest.mark.parametrize("number", [2, 3])
def test_a_lost_pin_that_is_deleted_after_the_restore_was_declared_is_found(
    went_on: World, number: int
) -> None:
    """Their rows were lost with the database; the pins are all that is left of these events."""
    acknowledge(went_on)
    went_on.seal()
    assert went_on.verify().clean
    del went_on.pins.objects[f"{ORIGIN}/a/1/seal/00000000000{number}.note"]
    assert "PIN_GONE" in went_on.verify().codes


def test_an_acknowledged_restore_has_time_until_its_first_seal(restored: World) -> None:
    acknowledge(restored)
    policy = replace(restored.verify_policy, seal_max_age=timedelta(hours=1))
    assert restored.verify(policy=policy).clean
    late = restored.verify(policy=replace(policy, seal_max_age=timedelta(microseconds=1)))
    assert late.codes == {"SEALING_STOPPED"}
    assert "nothing is sealed any more" in late.explanation
    with pytest.raises(RestoreRefused, match="NOT_ROLLED_BACK"):
        acknowledge(restored, replace(restored.seal_policy, verify=policy))


def test_a_restore_that_nobody_signed_or_pinned_is_found(restored: World) -> None:
    acknowledge(restored)
    pins = restored.pins.copy()
    [key] = [one for one in pins.objects if "restore" in one]
    del pins.objects[key]
    policy = replace(restored.verify_policy, pins=pins)
    assert restored.verify(policy=policy).codes == {"RESTORE", "PIN_GONE"}
    forced(restored, "UPDATE audit_restore SET lost_size = 100")
    assert restored.verify().codes == {"RESTORE"}
    forced(restored, "DELETE FROM audit_restore")
    assert "RESTORE" in restored.verify().codes


def test_a_restore_that_dies_after_its_pin_is_acknowledged_again(
    restored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filejobs_dagster.audit import restore  # noqa: PLC0415 (only to interrupt it)

    def die(*_: object, **__: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr(restore, "append", die)
        with pytest.raises(InterruptedError):
            acknowledge(restored)
    assert restored.verify().verdict == "rolled back"
    acknowledge(restored)
    assert restored.verify().clean
    assert sum("restore" in key for key in restored.pins.objects) == 2


def test_nothing_is_acknowledged_without_reason(own_world: World) -> None:
    with pytest.raises(RestoreRefused, match="NOT_ROLLED_BACK"):
        acknowledge(own_world)
    blind = replace(own_world.seal_policy, verify=replace(own_world.verify_policy, pins=None))
    with pytest.raises(RestoreRefused, match="SEAL_UNPINNED"):
        acknowledge(own_world, blind)
    forced(own_world, "UPDATE audit_event SET body = '{}' WHERE seq = 30")
    with pytest.raises(RestoreRefused, match="VERIFY_FAILED"):
        acknowledge(own_world)


def test_a_key_that_nobody_believes_acknowledges_nothing(restored: World) -> None:
    with pytest.raises(RestoreRefused, match="KEY_UNKNOWN"):
        acknowledge(restored, replace(restored.seal_policy, signers=(generate("x"),)))


def test_a_dump_and_a_restore_change_no_hash(restored: World) -> None:
    """CONTROL of the fixture: without pins ahead the copy is as good as the original."""
    forced(restored, "UPDATE audit_chain SET incarnation = 1")
    older = MemoryPins(
        {k: v for k, v in restored.pins.objects.items() if "000000000001-" in k or k[-6] in "1234"}
    )
    assert restored.verify(policy=replace(restored.verify_policy, pins=older)).clean


@pytest.fixture
def copies(postgres_server: EmbeddedPostgres) -> Iterator[Callable[[World], World]]:
    """Makes a copy of a world's database, as a snapshot of its volume is one; both stay usable."""
    made: list[tuple[World, str]] = []

    def copy(world: World) -> World:
        source = world.connection.info.dbname
        world.connection.close()
        name = f"copy_{uuid.uuid4().hex}"
        database = Database(postgres_server.create_database(name, source))
        world.connection = world.database.connect("tests")
        copied = replace(world, database=database, connection=database.connect("tests"))
        made.append((copied, name))
        return copied

    yield copy
    for world, name in made:
        world.connection.close()
        postgres_server.drop_database(name)


def test_the_same_backup_is_restored_twice_and_the_chain_goes_on(
    empty_world: World, copies: Callable[[World], World]
) -> None:
    empty_world.append(13)
    empty_world.seal()
    backup = copies(empty_world)
    empty_world.append(6)
    empty_world.seal()
    first, second, third = copies(backup), copies(backup), backup
    for number, world in enumerate((first, second, third), start=2):
        world.append(2 + number)
        with pytest.raises(SealRefused, match="ROLLED_BACK"):
            world.seal()
        row = acknowledge(world)
        assert (row.incarnation, row.survived_seal, len(row.lost)) == (number, 1, 2 * number - 3)
        assert world.verify().clean
        for _ in range(2):
            assert world.seal().note.startswith(f"files.example/audit/a@{number}\n")
            world.append(3)
        for mode in (Full(), Incremental(), Rolling(2, 0), Rolling(2, 1)):
            assert world.verify(mode=mode).clean, mode
    # Whoever goes on in a database that was given up is refused, and so is found there.
    with pytest.raises(SealRefused, match="ROLLED_BACK"):
        first.seal()
    assert "PIN_AHEAD_SEAL" in first.verify().codes
    # The pins of the restores before stay demanded, as every other lost pin.
    del third.pins.objects[f"{ORIGIN}/a/2/seal/000000000003.note"]
    assert "PIN_GONE" in third.verify().codes


def test_a_younger_backup_does_not_meet_the_pins_of_a_restore_that_it_is_newer_than(
    empty_world: World, copies: Callable[[World], World]
) -> None:
    """The pins of the first restore count other events under numbers that are here, too."""
    empty_world.append(5)
    empty_world.seal()
    older = copies(empty_world)
    for _ in range(4):
        empty_world.append(5)
        empty_world.seal()
    younger = copies(empty_world)
    for _ in range(2):
        older.append(2)
        if older.value("SELECT incarnation FROM audit_chain") == 1:
            acknowledge(older)
        older.seal()
    row = acknowledge(younger)
    assert (row.incarnation, row.survived_seal) == (3, 5)
    younger.seal()
    younger.append(1)
    younger.seal()
    for mode in (Full(), Incremental(), Rolling(2, 0), Rolling(2, 1)):
        assert younger.verify(mode=mode).clean, mode
    # Numbers may be passed over, and a restore cannot be left out for that.
    forced(younger, "DELETE FROM audit_restore")
    assert "RESTORE" in younger.verify().codes


def test_a_restore_that_nobody_sealed_after_is_seen_by_a_younger_backup_that_seals(
    empty_world: World, copies: Callable[[World], World]
) -> None:
    empty_world.append(5)
    empty_world.seal()
    older = copies(empty_world)
    empty_world.append(5)
    empty_world.seal()
    younger = copies(empty_world)
    # Two restores, of which the first never sealed: nothing is pinned as a seal under 2.
    acknowledge(copies(older))
    assert acknowledge(older).incarnation == 3
    older.seal()
    younger.append(1)
    with pytest.raises(SealRefused, match="ROLLED_BACK"):
        younger.seal()
