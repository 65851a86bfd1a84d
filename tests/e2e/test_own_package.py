"""A collector as a package: really installed, into an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.e2e.deployment import CHECKOUT, SCRIPTS
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

PACKAGE = CHECKOUT / "examples" / "own-package"
BROKEN = "[filejobs.jobs]\nown_broken = no_such_module:JOB\nstorage_orphans = acme_filejobs:X\n"


def install(*where: str | Path) -> None:
    """Install the package of the examples with uv, where its options say: nothing is downloaded.

    What builds it is looked for in the environment of `--python`, which has to be given: without it
    uv takes a `.venv` in the working directory, or the system's Python.
    """
    subprocess.run(
        [
            str(SCRIPTS / "uv"), "pip", "install", "--offline", "--no-deps",
            "--no-build-isolation", *map(str, where), str(PACKAGE),
        ],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """The interpreter of a new environment that has what this one has, and the package."""
    home = tmp_path / "environment"
    venv.create(home, with_pip=False)
    inside = Path(sysconfig.get_path("purelib", vars={"base": str(home), "platbase": str(home)}))
    here = sysconfig.get_path("purelib")
    (inside / "everything.pth").write_text(f"{here}\n{CHECKOUT}\n")
    found = home / "bin" / "python"
    install("--python", found)
    return found


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    made = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    made.adopt()
    made.document["jobs"] = {
        "own_old_drafts": {"by_hand": True, "mode": "live", "older_than": "7d", "stale_after": "1h"}
    }
    made.execute(
        "CREATE TABLE draft (id serial PRIMARY KEY, state text, abandoned_at timestamptz);"
        "INSERT INTO draft (state, abandoned_at) VALUES ('open', now() - interval '8 days'),"
        " ('kept', now() - interval '8 days'), ('open', now())"
    )
    return made


def filejobs(
    python: Path, installation: Installation, *arguments: str
) -> subprocess.CompletedProcess[str]:
    installation.write()
    return subprocess.run(
        [str(python), "-m", "filejobs_dagster.cli", *arguments],
        env={**os.environ, **installation.environment},
        cwd=installation.folder, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip


def test_an_installed_package_adds_a_job_that_runs_and_stands_in_the_book(
    python: Path, installation: Installation
) -> None:
    ran = filejobs(python, installation, "run", "own_old_drafts", "--live")
    assert ran.returncode == 0, ran.stderr

    [record] = installation.records()
    assert (record["job"], record["mode"], record["acted"]) == ("own_old_drafts", "live", 1)
    assert installation.value("SELECT count(*) FROM draft") == 2
    status = filejobs(python, installation, "status", "--check")
    assert "own_old_drafts" in status.stdout
    assert status.returncode == 0, status.stdout


def test_a_package_that_cannot_be_read_silences_nobody_and_takes_no_name_of_ours(
    python: Path, installation: Installation
) -> None:
    [made] = python.parents[1].glob("lib/*/site-packages/acme_filejobs-*.dist-info")
    (made / "entry_points.txt").write_text(BROKEN)
    installation.document["jobs"] = {
        "own_broken": {"by_hand": True, "whatever": 1},
        "storage_orphans": {"by_hand": True},
    }

    ran = filejobs(python, installation, "run", "own_broken", "--live")
    assert ran.returncode == 1
    assert "no_such_module" in ran.stderr
    [record] = installation.records()
    assert (record["job"], record["outcome"]) == ("own_broken", "failed")
    assert filejobs(python, installation, "status").returncode == 0


def test_control_without_the_package_nobody_knows_the_job(installation: Installation) -> None:
    ran = filejobs(Path(sys.executable), installation, "run", "own_old_drafts", "--live")

    assert ran.returncode == 1
    assert "no job has this name" in ran.stderr
    assert installation.records() == []
