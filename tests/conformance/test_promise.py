"""Where Ceph was promised its absence is a failure; elsewhere the tests say how to install it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.conformance.ceph import CHECKOUT, HOW_TO_INSTALL

if TYPE_CHECKING:
    from pathlib import Path


def run_without_ceph(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one test of this folder as `make conformance` does, where PATH leads to no program."""
    environment = {**os.environ, "PATH": str(folder), **variables}
    test = "tests/conformance/test_access.py::test_a_bucket_of_ours_can_be_used"
    command = [sys.executable, "-m", "pytest", "-rs", "-m", "conformance", test]
    return subprocess.run(
        command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("variables", [{}, {"FILEJOBS_PROMISED_CEPH": ""}])
def test_without_a_promise_the_tests_are_skipped_and_say_what_to_install(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    result = run_without_ceph(tmp_path, **variables)
    assert result.returncode == 0, result.stdout
    assert "1 skipped" in result.stdout
    assert HOW_TO_INSTALL in result.stdout


def test_where_ceph_was_promised_its_absence_fails_the_tests(tmp_path: Path) -> None:
    result = run_without_ceph(tmp_path, FILEJOBS_PROMISED_CEPH="1")
    assert result.returncode == 1, result.stdout
    assert "FILEJOBS_PROMISED_CEPH=1 promises Ceph" in result.stdout
    assert HOW_TO_INSTALL in result.stdout
