"""What docs/audit.md says of codes, fields and rules is what the code has."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, get_args

from filejobs_dagster.audit.trim.batch import StoppedBy
from filejobs_dagster.book import meanings
from filejobs_dagster.jobs import audit_setup
from filejobs_dagster.jobs.audit import Check
from tests.docs.pages import CHECKOUT, WORDS, names_in, page

if TYPE_CHECKING:
    from pathlib import Path

PAGE = page("audit.md").text
LIBRARY = CHECKOUT / "filejobs_dagster" / "audit"

_CODE = re.compile(r"[A-Z]{2,}(_[A-Z]+)*")
_NO_CODES = {"ISO", "UTC", "CHECKS", "COMPLIANCE"}
"""Other texts of capital letters: settings of a session, a name in `__all__`, a mode of S3."""

_STOPPED = set(get_args(StoppedBy))


def _texts(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def _codes_of_the_library() -> set[str]:
    found = {text for path in LIBRARY.rglob("*.py") for text in _texts(path)}
    return {text for text in found if _CODE.fullmatch(text)} - _NO_CODES


def test_every_code_of_the_library_stands_in_the_tables_and_no_other() -> None:
    told = set(meanings.FINDINGS) | set(meanings.REFUSALS)
    codes = _codes_of_the_library()
    assert len(codes) > 50
    assert codes - told - _STOPPED == set()
    assert told - codes == {
        audit_setup.KEY_UNUSABLE,
        audit_setup.NOT_PINNED,
        audit_setup.PINS_UNUSABLE,
        audit_setup.NOT_FINISHED,
        audit_setup.NOT_READ,
    }


def test_everything_that_stops_a_trim_is_explained() -> None:
    for word in _STOPPED - {"UP_TO"}:
        assert f"`{word}`" in WORDS["audit_trim"]["Field"]["chains"]


def test_every_check_is_explained() -> None:
    assert set(get_args(Check)) <= set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))


def test_no_field_is_explained_that_no_run_has() -> None:
    of_every_run = {"scanned", "acted", "signatures", "pins"}
    for job in ("audit_seal", "audit_trim", "audit_verify"):
        texts = of_every_run | _texts(CHECKOUT / "filejobs_dagster" / "jobs" / f"{job}.py")
        told = names_in(WORDS[job]["Field"])
        assert {"scanned", "acted", "chains"} <= told
        for field in told:
            assert field in texts, f"{job} has no {field}"


def test_the_bucket_policy_is_json() -> None:
    policies = [json.loads(each.text) for each in page("security.md").blocks
                if each.language == "json"]  # fmt: skip
    effects = [{one["Effect"] for one in policy["Statement"]} for policy in policies]
    assert effects == [{"Deny"}]
