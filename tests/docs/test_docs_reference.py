"""The reference is what the code declares, and whatever points at a page points at one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.book.meanings import FINDINGS, PRE_IMAGE, REFUSALS
from tests.docs import reference
from tests.docs.pages import CHECKOUT, read

if TYPE_CHECKING:
    from pathlib import Path

_POINTER = re.compile(r"\bdocs/(?P<page>[\w./-]+\.md)(?:#(?P<anchor>[\w-]+))?")
_POINTING = ("*.py", "*.yaml", "*.yml", "*.json", "*.sql", "*.toml", "*.example", "Dockerfile")
_PLACES = ("filejobs_dagster", "examples", "deploy", "benchmarks", "tests")

MADE = reference.pages()


@pytest.mark.parametrize("name", MADE)
def test_the_reference_says_what_the_code_declares(name: str) -> None:
    said = (reference.PLACE / name).read_text(encoding="utf-8")
    assert said == MADE[name], f"{name} is old: python -m tests.docs.reference"


def test_the_reference_has_no_other_page() -> None:
    assert {path.name for path in reference.PLACE.iterdir()} == set(MADE)


def _pointing() -> list[Path]:
    files = [path for place in _PLACES for glob in _POINTING for path in
             (CHECKOUT / place).rglob(glob)]  # fmt: skip
    return sorted([*files, *CHECKOUT.glob("*.yaml"), *CHECKOUT.glob("*.yml"),
                   CHECKOUT / "pyproject.toml", CHECKOUT / "Makefile"])  # fmt: skip


def test_every_page_that_code_and_examples_point_at_is_there() -> None:
    pointed = 0
    for path in _pointing():
        for found in _POINTER.finditer(path.read_text(encoding="utf-8")):
            pointed += 1
            page = CHECKOUT / "docs" / found["page"]
            assert page.is_file(), f"{path.relative_to(CHECKOUT)} points at {found[0]}"
            if found["anchor"]:
                assert found["anchor"] in read(page).anchors, f"{path.name}: {found[0]}"
    assert pointed > 20


def test_a_code_of_the_audit_log_is_a_finding_or_a_refusal_of_its_own_words() -> None:
    for code, (means, to_do) in {**FINDINGS, **REFUSALS}.items():
        assert means, code
        assert to_do, code


def test_the_text_in_front_of_what_is_hashed_is_as_long_as_the_reference_says() -> None:
    assert PRE_IMAGE[0][0] == len(b"filejobs/audit/event")
    assert PRE_IMAGE[0][1] == "the text `filejobs/audit/event`"
