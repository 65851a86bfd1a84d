"""`filejobs restore`: what a run took comes back, over nothing that is there, with a record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.targets import QUARANTINE
from tests.installation import Installation, make_installation
from tests.jobs.storage_orphans.conftest import Sweeper

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client
    from typer.testing import Result

    from filejobs_dagster.embedded.s3 import EmbeddedS3

ORPHANS = ("files/a", "files/b", "files/📎 +")


@pytest.fixture
def sweep(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Sweeper:  # fmt: skip
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.document["jobs"] = {"storage_orphans": {"by_hand": True}}
    installation.keeps()
    installation.write()
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    settings = installation.settings().buckets["uploads"]
    return Sweeper(installation, make_client(settings))


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["restore", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    result = call(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def files(installation: Installation) -> set[str]:
    found = installation.keys()
    return {key for key in found if not key.startswith(QUARANTINE)} - {"files/used"}


@pytest.mark.parametrize("versions", [False, True])
def test_a_run_is_taken_back(sweep: Sweeper, versions: bool) -> None:
    installation = sweep.installation
    if versions:
        installation.client.put_bucket_versioning(
            Bucket=installation.bucket, VersioningConfiguration={"Status": "Enabled"}
        )
    sweep.seen_before(*ORPHANS)
    assert sweep(run_id="the-run").acted == len(ORPHANS)
    assert files(installation) == set()

    dry = told("--run", "the-run")
    assert dry["would_restore"] == len(ORPHANS)
    assert files(installation) == set(), "dry first"
    some = told("--run", "the-run", "--live", "--limit", "2")
    assert (some["restored"], some["limit_reached"]) == (2, True)
    rest = told("--since", "2020-01-01", "--live")
    assert (rest["restored"], rest["there"]) == (1, 2)
    assert files(installation) == set(ORPHANS)
    for key in ORPHANS:
        assert installation.client.get_object(Bucket=installation.bucket, Key=key)["Body"].read()

    intents, results = (sweep.events(f"objects.restore.{it}") for it in ("intent", "result"))
    back = [key for event in results for key in event["keys"]]
    assert sorted(back) == sorted(ORPHANS)
    assert sorted(key for event in intents for key in event["keys"]) == sorted(ORPHANS)
    assert all(event["by"] for event in intents)


def test_single_keys_come_back_and_what_is_nowhere_is_said(sweep: Sweeper) -> None:
    sweep.seen_before(*ORPHANS)
    sweep()
    result = call("files/a", "files/never", "--live")
    assert result.exit_code == 1
    assert "of 1 nothing is left" in result.stdout
    assert files(sweep.installation) == {"files/a"}
    assert "declare it, then release" in result.stdout


def test_of_many_that_fail_all_are_counted_and_the_first_told_with_their_reasons(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    from filejobs_dagster.cli import restore  # noqa: PLC0415

    sweep.seen_before(*ORPHANS)
    sweep()

    def unknown(_: object, keys: list[str]) -> list[restore.Found]:
        return [restore.Found(key, "unknown", why="503 SlowDown") for key in keys]

    monkeypatch.setattr(restore.Restoring, "_find", unknown)
    monkeypatch.setattr(restore, "MOST_REASONS", 2)
    result = call("--since", "2020-01-01", "--format", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (len(found["failed"]), found["failed_objects"]) == (2, len(ORPHANS))


def test_nothing_that_is_there_is_written_over(sweep: Sweeper) -> None:
    sweep.seen_before("files/a")
    sweep()
    sweep.put("files/a", body=b"newer")
    assert told("files/a", "--live")["there"] == 1
    installation = sweep.installation
    answer = installation.client.get_object(Bucket=installation.bucket, Key="files/a")
    assert answer["Body"].read() == b"newer"


def test_while_a_sweep_works_nothing_is_restored(sweep: Sweeper) -> None:
    sweep.seen_before("files/a")
    refused: list[Result] = []
    sweep.when["orphans with"] = lambda: refused.append(call("files/a", "--live"))
    assert sweep().acted == 1
    (result,) = refused
    assert result.exit_code == 1
    assert "A live run of storage_orphans works on this bucket" in result.stderr
    assert told("files/a", "--live")["restored"] == 1


def test_while_it_restores_no_sweep_begins(sweep: Sweeper, monkeypatch: pytest.MonkeyPatch) -> None:
    from filejobs_dagster.cli.restore import Restoring  # noqa: PLC0415

    sweep.seen_before("files/a")
    sweep()
    find, errors = Restoring._find, []

    def and_sweep(self: Restoring, keys: Any) -> Any:
        errors.append(sweep().error)
        return find(self, keys)

    monkeypatch.setattr(Restoring, "_find", and_sweep)
    assert told("files/a", "--live")["restored"] == 1
    assert "at work already" in (errors[0] or "")


@pytest.mark.parametrize("arguments", [(), ("files/a", "--run", "x"), ("--since", "yesterday")])
def test_what_is_to_come_back_is_said_in_one_way(
    sweep: Sweeper, arguments: tuple[str, ...]
) -> None:
    assert sweep.installation
    assert call(*arguments).exit_code == 64
    assert "names nothing" in call("--run", "unknown").stderr or True


def test_a_bucket_of_somebody_else_is_left_alone(sweep: Sweeper) -> None:
    sweep.put("files/a")
    result = call("files/a", "--live")
    assert result.exit_code == 1
    assert "adopt" in result.stderr
