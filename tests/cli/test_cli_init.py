"""`filejobs init` without a terminal: what is missing is named, nothing half right is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typer.testing import CliRunner

from filejobs_dagster.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = ("--installation", "acme", "--bucket", "acme-uploads")


def test_each_missing_flag_is_named_and_a_file_that_is_there_stays(tmp_path: Path) -> None:
    path = tmp_path / "filejobs.yaml"

    def call(*arguments: str) -> tuple[int, str]:
        said = CliRunner().invoke(app, ["init", str(path), *arguments])
        return said.exit_code, said.stderr

    for given, missing in (
        ((), "--journey"),
        (("--journey", "files"), "--installation"),
        (("--journey", "files", *FLAGS), "--owns"),
        (("--journey", "own-tables", *FLAGS, "--owns", "files/"), "--table"),
    ):
        code, said = call(*given)
        assert (code, missing in said) == (64, True), said
    code, said = call("--journey", "files", *FLAGS, "--owns", "files")
    assert code == 1
    assert "Nothing was written" in said
    (tmp_path / "scan.json").write_text("[]", encoding="utf-8")
    code, said = call("--journey", "orphans", *FLAGS, "--from-scan", str(tmp_path / "scan.json"))
    assert (code, "is not what `filejobs scan --json` prints" in said) == (64, True)
    (tmp_path / "scan.json").write_text('{"bucket": "acme", "sources": []}', encoding="utf-8")
    code, said = call("--from-scan", str(tmp_path / "scan.json"))
    assert (code, "scan with a role that may read your" in said) == (64, True)
    assert not path.exists()
    assert call("--journey", "files", *FLAGS, "--owns", "files/")[0] == 0
    written = path.read_text(encoding="utf-8")
    assert "allow_live: false" in written
    assert call("--journey", "files", *FLAGS, "--owns", "other/")[0] == 1
    assert path.read_text(encoding="utf-8") == written
