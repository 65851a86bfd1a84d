"""The Makefile teaches, and fails in a way that helps."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_alone_explains_every_target() -> None:
    result = make()
    assert result.returncode == 0
    makefile = (CHECKOUT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert phony is not None
    for target in set(phony[1].split()) - {"ready"}:
        assert re.search(rf"^  {target} +\S.*\.$", result.stdout, re.MULTILINE), target


def test_a_python_without_venv_is_answered_with_the_package_to_install(tmp_path: Path) -> None:
    result = make("ready", "PYTHON=", f"VENV={tmp_path / 'environment'}")
    assert result.returncode != 0
    assert "apt-get install python3-venv" in result.stderr
    assert not (tmp_path / "environment").exists()


def test_an_environment_is_made_anew_when_what_it_is_made_from_changed(tmp_path: Path) -> None:
    stamp = tmp_path / "installed"
    stamp.touch()
    assert "pip install" not in make("--dry-run", "ready", f"VENV={tmp_path}").stdout
    for file in ("pyproject.toml", "constraints.txt"):
        changed = make("--dry-run", "ready", f"VENV={tmp_path}", f"--what-if={file}").stdout
        assert "pip install" in changed, file


def test_the_continuous_integration_calls_the_targets_that_people_call() -> None:
    commands = (CHECKOUT / ".ci" / "run").read_text().splitlines()
    assert "make lint </dev/null" in commands
    assert "make test ARGS=--budget </dev/null" in commands
    long = "FILEJOBS_PROMISED_FAKETIME=1 FILEJOBS_PROMISED_PGBOUNCER=1"
    assert f"{long} make thorough ARGS=--budget </dev/null" in commands
    promised = [f"FILEJOBS_PROMISED_{name}=1" for name in ("CHROMIUM", "CEPH", "SEAWEEDFS")]
    assert f"export {' '.join(promised)}" in commands
    beside = "make --jobs=2 --output-sync=target --keep-going browser conformance </dev/null"
    assert beside in commands
    assert "set -euo pipefail" in commands


def test_the_licence_is_the_apache_licence_as_it_was_published() -> None:
    text = (CHECKOUT / "LICENSE").read_text()
    assert text.count("\n") == 202
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert "Copyright [yyyy] [name of copyright owner]" in text
