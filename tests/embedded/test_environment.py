"""Nothing of the developer's shell reaches a test or a child process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from filejobs_dagster.embedded import clean_environment

REAL = {
    "AWS_PROFILE": "production",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
    "DAGSTER_HOME": "/somewhere/real",
    "FILEJOBS_DATABASE_URL": "postgresql://real",
    "PGHOST": "real",
}
PROBE = """
import os
def test_probe():
    assert not {"AWS_PROFILE", "AWS_ENDPOINT_URL", "DAGSTER_HOME"} & set(os.environ)
    assert not {"FILEJOBS_DATABASE_URL", "PGHOST"} & set(os.environ)
    assert os.environ["AWS_CONFIG_FILE"] == os.devnull
"""


def test_a_clean_environment_keeps_only_what_is_not_about_real_systems() -> None:
    kept = {"PATH": "/bin", "HOME": "/home/somebody", "LANG": "C.UTF-8"}
    assert clean_environment({**REAL, **kept}) == kept


def test_variables_of_the_shell_do_not_reach_a_test(tmp_path: Path) -> None:
    conftest = Path(__file__).parents[1] / "conftest.py"
    (tmp_path / "conftest.py").write_text(conftest.read_text())
    (tmp_path / "test_probe.py").write_text(PROBE)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        env={**os.environ, **REAL, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout
    assert "1 passed" in result.stdout
