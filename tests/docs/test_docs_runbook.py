"""Every message that somebody must act on ends in an anchor of the runbook, and no other does."""

from __future__ import annotations

import ast
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import pytest

from filejobs_dagster import doctor, runbook
from filejobs_dagster.alerts.conditions import Condition
from filejobs_dagster.alerts.digest import SEVERITY, Kind, Notice, compose
from filejobs_dagster.doctor.finding import failed, ok, skipped
from filejobs_dagster.door.door import asked
from filejobs_dagster.door.guard import AdoptionRefused, Guard, NotAdopted, Refusal
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.ledger.standing import Standing, Word
from filejobs_dagster.orchestration.sensors import alarm_text
from tests.docs.pages import CHECKOUT, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.door.guard import Look

PAGE = read(CHECKOUT / runbook.PAGE)
QUIET: set[Word] = {"ok", "ok (dry)"}


def links() -> set[str]:
    """Where all messages of the product lead."""
    return {
        *map(runbook.of_condition, get_args(Kind)),
        *map(runbook.of_condition, set(get_args(Word)) - QUIET),
        *(runbook.of_refusal(guard.name) for guard in GUARDS),
        *(runbook.of_refusal(kind.__name__) for kind in AdoptionRefused.__subclasses__()),
        runbook.of_refusal("buckets"),
        runbook.of_refusal(runbook.RUNNING),
        *map(runbook.of_finding, (*runbook.CHECKS, runbook.OWN)),
    }


def test_every_message_has_its_anchor_and_every_anchor_its_message() -> None:
    named = {link.removeprefix(f"{runbook.PAGE}#") for link in links()}
    assert len(named) > 60
    assert named == PAGE.own_anchors
    assert len(named) == PAGE.text.count("<a id="), "no anchor stands twice"


def checks_in_the_code() -> Iterator[str]:
    """How the names of the doctor's checks begin, as far as they are written out."""
    for path in Path(doctor.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="ok" | "warning" | "failed" | "skipped")):
                    said: ast.expr = node.args[0]
                case ast.Assign(targets=[ast.Name(id="check" | "name" | "CHECK")]):
                    said = node.value
                case _:
                    continue
            first = said.values[0] if isinstance(said, ast.JoinedStr) else said
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value.strip()


def test_every_check_of_the_doctor_has_an_anchor_of_its_own() -> None:
    found = {name for name in checks_in_the_code() if name}
    assert {"pooler", "bucket", "audit key", "named elsewhere"} <= found
    nobody_s = runbook.of_finding("what a job of somebody else looks at")
    assert nobody_s.endswith("#doctor-own-check")
    assert {name for name in found if runbook.of_finding(name) == nobody_s} == set()
    assert runbook.of_finding("audit key") != runbook.of_finding("audit keys of old")
    assert runbook.of_finding("door hold") == runbook.of_refusal("hold")


@pytest.mark.parametrize("kind", get_args(Kind))
def test_an_alert_ends_in_its_anchor(kind: Kind) -> None:
    condition = Condition(kind, None, "why")
    notice = Notice(
        "raised", kind, None, SEVERITY[kind], "why", datetime(2026, 1, 1, tzinfo=timezone.utc)
    )
    digest = compose("acme", [notice])
    assert digest.text.endswith(condition.see)
    assert digest.markdown.endswith(condition.see)


def standing(word: Word) -> Standing:
    return Standing(
        "audit_verify", word, "ok" if word in QUIET else "critical", "why", True, "dry",
        None, None, None, None, None, 0, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize("word", sorted(set(get_args(Word)) - QUIET))
def test_a_failed_tick_ends_in_the_anchor_of_the_standing(word: Word) -> None:
    text = alarm_text([standing(word)])
    assert text is not None
    assert text.endswith(f"what now: {runbook.of_condition(word)}")
    assert all(standing(fine).see == "" for fine in QUIET)


class Objects(Guard):
    name = "clocks"
    protects = frozenset()

    def look(self, at: Look) -> str:
        del at
        raise Refusal("It is late.", "Go home.")


class OfTheMarker(Guard):
    name = "marker"
    protects = frozenset()

    def look(self, at: Look) -> str:
        del at
        raise Refusal("Nobody's.", "Nothing was touched.") from NotAdopted("Nobody's.")


class Breaks(Guard):
    name = "server"
    protects = frozenset()

    def look(self, at: Look) -> str:
        del at
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("guard", "anchor"),
    [(Objects(), "clocks"), (OfTheMarker(), "not-adopted"), (Breaks(), "server")],
)
def test_a_refusal_ends_in_its_anchor(guard: Guard, anchor: str) -> None:
    with pytest.raises(Refusal) as refused:
        asked(guard, None)  # type: ignore[arg-type]
    assert str(refused.value).endswith(f" See {runbook.PAGE}#refused-{anchor}")


def test_a_finding_that_needs_somebody_has_an_anchor_and_no_other() -> None:
    assert failed("bucket uploads", "gone", "look").see == f"{runbook.PAGE}#doctor-bucket"
    assert ok("bucket uploads", "there").see == skipped("bucket uploads", "away").see == ""
