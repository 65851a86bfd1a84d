"""Whatever was done before: what is touched at or below the newest pin is found."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from filejobs_dagster.audit.note import TrustedKey, TrustedKeys, generate
from filejobs_dagster.audit.session import TrimRefused
from filejobs_dagster.audit.verify import CHECKS, Full, judge
from filejobs_dagster.postgres.connect import Connection, Database
from tests.audit.matrix import look_at
from tests.audit.tampers import Tamper
from tests.audit.world import DAY, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from tests.audit.tools import Attack

pytestmark = pytest.mark.thorough

REFUSALS = {"LEGAL_HOLD", "NO_COVERING_SEAL"}
TABLES = ("event", "seal", "checkpoint", "hold", "pin", "chain")


def edit(a: Attack, seq: int) -> None:
    a.edit(seq)


def edit_and_rechain(a: Attack, seq: int) -> None:
    a.edit(seq)
    a.rechain()


def edit_rechain_and_reseal(a: Attack, seq: int) -> None:
    a.edit(seq)
    a.rechain()
    a.reseal(a.world.signer)


def delete(a: Attack, seq: int) -> None:
    a.delete(f"seq = {seq}")


def delete_and_rechain(a: Attack, seq: int) -> None:
    a.delete(f"seq = {seq}")
    a.rechain()
    a.reseal(a.world.signer)


def cut_the_end(a: Attack, seq: int) -> None:
    a.delete(f"seq >= {seq}")
    a.run("DELETE FROM audit_seal WHERE chain_id = 'a' AND size >= %s", seq)
    a.head()


TAMPERINGS = [
    edit, edit_and_rechain, edit_rechain_and_reseal, delete, delete_and_rechain, cut_the_end,
]  # fmt: skip


class Chain(RuleBasedStateMachine):
    database: Database
    connection: Connection

    @initialize()
    def begin(self) -> None:
        with self.connection.transaction():
            self.connection.execute("SET LOCAL session_replication_role = replica")
            for table in TABLES:
                self.connection.execute(f"DELETE FROM audit_{table}".encode())
        self.world = World(self.database, self.connection)
        self.keys = [TrustedKey(self.world.signer.verifier)]
        self.holds: list[str] = []
        self.age = 100 * DAY
        self.world.append_in_the_past(3, self.age)

    @rule(count=st.integers(1, 5))
    def append(self, count: int) -> None:
        self.age -= DAY
        self.world.append_in_the_past(count, self.age)

    @rule()
    def seal(self) -> None:
        self.world.seal()

    @rule(days=st.integers(1, 99), batch=st.integers(1, 8))
    def trim(self, days: int, batch: int) -> None:
        try:
            self.world.trim(retention=days * DAY, batch=batch)
        except TrimRefused as refused:
            assert refused.code in REFUSALS  # noqa: PT017 (any other refusal is a failure)

    @precondition(lambda self: len(self.holds) < 2)
    @rule(seq=st.integers(1, 30))
    def hold(self, seq: int) -> None:
        self.holds.append(self.world.hold(from_seq=seq))

    @precondition(lambda self: self.holds)
    @rule()
    def release(self) -> None:
        self.world.release(self.holds.pop())

    @rule(way=st.sampled_from(TAMPERINGS), place=st.floats(0, 1))
    def tamper(self, way: Callable[[Attack, int], None], place: float) -> None:
        result = self.world.verify()
        first, last = result.trimmed_to + 1, result.pinned_to or 0
        if first > last:
            return
        seq = first + round(place * (last - first))
        tamper = Tamper(way.__name__, lambda attack: way(attack, seq), "", "", "")
        found = judge(look_at(self.world, tamper, Full()), CHECKS)
        assert not found.clean, f"{way.__name__} at {seq} of {first} to {last} was missed"

    @invariant()
    def nobody_is_accused(self) -> None:
        if hasattr(self, "world"):
            assert self.world.verify().findings == ()


@pytest.fixture(scope="module")
def database(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[Database]:
    name = f"test_{uuid.uuid4().hex}"
    yield Database(postgres_server.create_database(name, template_database))
    postgres_server.drop_database(name)


def test_whatever_is_touched_below_the_newest_pin_is_found(database: Database) -> None:
    with database.connect("stateful") as connection:
        machine: Any = type("Machine", (Chain,), {"database": database, "connection": connection})
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=10,
                stateful_step_count=15,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_keys_may_change_between_seals(database: Database) -> None:
    with database.connect("stateful") as connection:
        chain = Chain()
        chain.database, chain.connection = database, connection
        chain.begin()
        world = chain.world
        policies = []
        for number in range(1, 4):
            signer = generate("files.example/audit-seal")
            policies.append(TrustedKey(signer.verifier, number, number))
            world.append(2)
            trusted = TrustedKeys(tuple(policies))
            verify = world.verify_policy.__class__(world.verify_policy.origin, trusted, world.pins)
            world.seal(policy=world.seal_policy.__class__(verify, (signer,)))
        assert world.verify(policy=verify).clean
