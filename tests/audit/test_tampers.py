"""The tamper matrix: exactly what is found, what is not, and that each check is needed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.audit import verify
from filejobs_dagster.audit.verify import CHECKS, Evidence, judge
from tests.audit.matrix import evidence_of, look_at
from tests.audit.tampers import TAMPERS, Tamper

if TYPE_CHECKING:
    from filejobs_dagster.audit.verify.evidence import Check
    from tests.audit.world import World

BY_NAME = {tamper.name: tamper for tamper in TAMPERS}
MISSED = [tamper for tamper in TAMPERS if tamper.name.startswith("MISSED")]

# What only rows and the head row say, without seals, checkpoints and pins.
OF_ROWS = {name: CHECKS[name] for name in CHECKS if CHECKS[name].__module__.endswith("check_rows")}


def codes(text: str) -> frozenset[str]:
    return frozenset(text.split())


@pytest.fixture(scope="module")
def looks(shared_world: World) -> dict[str, tuple[Evidence, Evidence, Evidence]]:
    return {}


def look(
    world: World, known: dict[str, tuple[Evidence, Evidence, Evidence]], tamper: Tamper
) -> tuple[Evidence, Evidence, Evidence]:
    if tamper.name not in known:
        known[tamper.name] = evidence_of(world, tamper)
    return known[tamper.name]


Looks = dict[str, tuple[Evidence, Evidence, Evidence]]


@pytest.mark.parametrize("tamper", TAMPERS, ids=lambda tamper: tamper.name)
def test_each_tamper_is_found_for_the_right_reason(
    shared_world: World, looks: Looks, tamper: Tamper
) -> None:
    found = [judge(evidence, CHECKS).codes for evidence in look(shared_world, looks, tamper)]
    expected = [codes(tamper.sealed), codes(tamper.full), codes(tamper.incremental)]
    assert found == expected


def test_the_untouched_chain_has_nothing_to_be_told(shared_world: World, looks: Looks) -> None:
    result = judge(look(shared_world, looks, BY_NAME["nothing"])[1], CHECKS)
    assert result.clean
    assert result.warnings == ()
    assert (result.trimmed_to, result.sealed_to, result.pinned_to, result.head_seq) == (
        50, 106, 106, 109,
    )  # fmt: skip
    assert result.unprotected == 3
    assert result.ranges == ((51, 109),)


def test_three_things_are_missed_by_every_verification(shared_world: World, looks: Looks) -> None:
    """The window since the last pin, and lies: whoever closes it changes the documentation."""
    assert len(MISSED) == 3
    for tamper in MISSED:
        for evidence in look(shared_world, looks, tamper):
            assert judge(evidence, CHECKS).clean
        unprotected = judge(look(shared_world, looks, tamper)[1], CHECKS).unprotected
        assert unprotected >= 2, "what is not pinned is told as unprotected"


def test_signatures_and_pins_each_find_more(shared_world: World, looks: Looks) -> None:
    def missed(which: int, checks: dict[str, Check] = CHECKS) -> set[str]:
        return {
            tamper.name
            for tamper in TAMPERS
            if tamper.name != "nothing"
            and judge(look(shared_world, looks, tamper)[which], checks).clean
        }

    rows, sealed, pinned, incremental = (
        missed(0, OF_ROWS), missed(0), missed(1), missed(2),
    )  # fmt: skip
    assert pinned == {tamper.name for tamper in MISSED}
    assert pinned < sealed < rows
    assert "edit, and chain anew up to the head" in rows - sealed
    assert "and rewrite the seals with the stolen key" in sealed - pinned
    assert "edit the body of one event" in incremental - pinned


def test_every_check_is_needed(shared_world: World, looks: Looks) -> None:
    """Take any one away, and some tamper is told otherwise."""
    evidence = [(tamper, look(shared_world, looks, tamper)[1]) for tamper in TAMPERS]
    superfluous = []
    for name in CHECKS:
        rest = {other: CHECKS[other] for other in CHECKS if other != name}
        if all(judge(one, rest).codes == codes(tamper.full) for tamper, one in evidence):
            superfluous.append(name)
    assert superfluous == []


def test_every_code_is_produced_by_some_tamper() -> None:
    folder = Path(verify.__file__).parent
    source = "".join(path.read_text() for path in folder.glob("check_*.py"))
    known = set(re.findall(r'(?:first_of\(|Finding\()\s*"([A-Z_]+)"', source))
    known |= set(re.findall(r"(?:_wrong\(evidence, |first_of\()(EV_[A-Z]+)", source))
    produced = {code for tamper in TAMPERS for code in codes(tamper.full)}
    # Warnings are no findings.
    assert known - {"SEAL_NOT_YET_PINNED", "PIN_LATE", "MANIFEST_MISSING"} == produced


OLD_DAMAGE = [one for one in TAMPERS if one.full.startswith("EV_") and not one.incremental]


@pytest.mark.parametrize("tamper", OLD_DAMAGE, ids=lambda tamper: tamper.name)
def test_all_parts_of_a_rolling_check_find_what_one_incremental_misses(
    shared_world: World, tamper: Tamper
) -> None:
    found: set[str] = set()
    for part in range(3):
        found |= judge(look_at(shared_world, tamper, verify.Rolling(3, part)), CHECKS).codes
    assert found


def test_a_rolling_check_covers_every_event_once(shared_world: World) -> None:
    tamper = BY_NAME["nothing"]
    seen: list[int] = []
    for part in range(3):
        evidence = look_at(shared_world, tamper, verify.Rolling(3, part))
        assert judge(evidence, CHECKS).clean
        for scan in evidence.scans[:-1]:
            seen += range(scan.start.seq + 1, scan.last.seq + 1)
    assert sorted(seen) == list(range(51, 107))


def test_a_broken_frontier_makes_no_verification_crash(shared_world: World) -> None:
    """A rolling check enters at a seal whose tree is broken, and says so."""
    tamper = BY_NAME["break a seal's frontier"]
    for mode in (verify.Full(), verify.Incremental(4), verify.Rolling(2, 0)):
        assert "SEAL_FIELDS" in judge(look_at(shared_world, tamper, mode), CHECKS).codes


def test_without_keys_signatures_are_not_checked_and_that_is_told(
    shared_world: World, looks: Looks
) -> None:
    evidence = look(shared_world, looks, BY_NAME["a seal without a signature"])[1]
    without = replace(evidence, policy=verify.VerifyPolicy(evidence.policy.origin))
    result = judge(without, CHECKS)
    assert "SEAL_SIG" not in result.codes
    assert result.signatures is False
