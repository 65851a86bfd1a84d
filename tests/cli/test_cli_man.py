"""Man pages that are made from the help of each command."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = (".TH ", ".SH ", ".PP", ".TP", ".nf", ".fi")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("man1")
    done = CliRunner().invoke(app, ["man", "--to", str(folder)])
    assert done.exit_code == 0, done.output
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_every_command_has_a_page_that_says_what_its_help_says(pages: dict[str, str]) -> None:
    assert {"filejobs.1", "filejobs-status.1", "filejobs-audit-show.1"} <= set(pages)
    for name, page in pages.items():
        lines = page.splitlines()
        assert lines[0].startswith(f'.TH "{name[:-2].upper()}"'.replace("-", r"\-"))
        requests = [line for line in lines if line.startswith((".", "'"))]
        assert all(line.startswith(KNOWN) for line in requests), name
        assert page.isascii(), name
        assert "[bold]" not in page, name
        assert page.count("\n.nf\n") == page.count("\n.fi\n"), name
    assert r"\-\-stale\-after" in pages["filejobs-status.1"]
    named = re.findall(r"\\fB(filejobs[^\\ ]*(?:\\-[^\\ ]+)*)\\fR\(1\)", "".join(pages.values()))
    assert {f"{each.replace(chr(92), '')}.1" for each in named} <= set(pages)


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
def test_groff_has_nothing_to_say_against_any_page(pages: dict[str, str], tmp_path: Path) -> None:
    for name, page in pages.items():
        (tmp_path / name).write_text(page, encoding="utf-8")
    names = sorted(pages)
    done = subprocess.run(
        ["groff", "-man", "-ww", "-rHY=0", "-Tutf8", *names],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    assert "Say where each job stands" in done.stdout

    # CONTROL: it does find what is wrong.
    (tmp_path / "wrong.1").write_text(".SH NAME\n.nosuchrequest\n")
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "wrong.1"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "nosuchrequest" in done.stderr


def test_one_page_is_printed_and_a_command_that_is_not_there_is_answered() -> None:
    said = CliRunner().invoke(app, ["man", "audit", "show"])
    assert said.exit_code == 0
    assert said.output.startswith('.TH "FILEJOBS\\-AUDIT\\-SHOW"')
    assert CliRunner().invoke(app, ["man", "nothing"]).exit_code != 0
