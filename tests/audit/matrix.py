"""Applying a tamper in a transaction, looking at it in three ways, and rolling it back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from filejobs_dagster.audit.session import set_session
from filejobs_dagster.audit.verify import Evidence, Full, Incremental, Mode
from filejobs_dagster.audit.verify.load import list_pins, load
from tests.audit.tools import CHAIN, Attack
from tests.audit.world import tampering

if TYPE_CHECKING:
    from tests.audit.tampers import Tamper
    from tests.audit.world import World


def evidence_of(world: World, tamper: Tamper) -> tuple[Evidence, Evidence, Evidence]:
    """What a verifier without pins, one with pins, and an incremental one have to look at."""
    without, full, incremental = looks_at(
        world, tamper, [(Full(), False), (Full(), True), (Incremental(), True)]
    )
    return without, full, incremental


def look_at(world: World, tamper: Tamper, mode: Mode) -> Evidence:
    return looks_at(world, tamper, [(mode, True)])[0]


def looks_at(world: World, tamper: Tamper, looks: list[tuple[Mode, bool]]) -> list[Evidence]:
    connection = world.connection
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        cursor.execute("SET LOCAL search_path = public")
        tampering(cursor)
        attack = Attack(cursor, world, world.pins.copy())
        tamper.apply(attack)
        set_session(cursor, connection.info.server_version)
        policy = tamper.policy(replace(world.verify_policy, pins=attack.pins))
        found = []
        for mode, with_pins in looks:
            known = policy if with_pins else replace(policy, pins=None)
            pinned = list_pins(known, CHAIN, mode)
            found.append(load(cursor, world.database, known, CHAIN, mode=mode, pinned=pinned))
        return found
