"""What Dagster's own delete_run leaves of a run, and what is left after ours."""

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import yaml

from filejobs_dagster.orchestration.history import remove_files, remove_rows
from tests.installation import ACCESS_KEY, SECRET_KEY

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3


def a_run(instance: dg.DagsterInstance) -> str:
    @dg.op
    def speaks(context: dg.OpExecutionContext) -> None:
        print("this is printed")
        context.log_event(dg.AssetMaterialization("numbers", metadata={"acted": 3}))

    graph = dg.GraphDefinition(name="graph", node_defs=[speaks])
    return graph.to_job(name="job").execute_in_process(instance=instance).run_id


def files_of(instance: dg.DagsterInstance, run_id: str) -> list[str]:
    root = Path(instance.root_directory)
    return sorted(
        path.relative_to(root).parts[0] for path in root.rglob("*") if path.is_file()
        and run_id in str(path)
    )  # fmt: skip


def test_with_files_nothing_of_a_run_is_left_and_the_catalog_keeps_its_newest_entry(
    tmp_path: Path,
) -> None:
    (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        careless, ours = a_run(instance), a_run(instance)
        assert files_of(instance, ours) == ["history", "storage", "storage", "storage"]

        instance.delete_run(careless)
        # CONTROL: what it printed, and the file of its events.
        assert files_of(instance, careless) == ["history", "storage", "storage", "storage"]

        for _ in range(2):  # what is gone already is fine
            remove_files(instance, ours)
        remove_rows(instance, ours)

        assert files_of(instance, ours) == []
        assert not (tmp_path / "storage" / ours).exists()
        assert instance.get_runs_count() == 0
        numbers = dg.AssetKey("numbers")
        assert instance.fetch_materializations(numbers, limit=9).records == []
        newest = instance.get_latest_materialization_event(numbers)
        assert newest is not None
        assert newest.run_id == ours


def test_what_a_run_printed_goes_from_object_storage_too(
    tmp_path: Path,
    bucket: str,
    s3_client: "S3Client",
    s3_server: "EmbeddedS3",
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    logs = {
        "module": "dagster_aws.s3.compute_log_manager",
        "class": "S3ComputeLogManager",
        "config": {
            "bucket": bucket,
            "prefix": "logs",
            "endpoint_url": s3_server.endpoint_url,
            "local_dir": str(tmp_path / "local"),
        },
    }
    document = {"telemetry": {"enabled": False}, "compute_logs": logs}
    (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(document))

    def printed() -> set[str]:
        return {
            each["Key"] for each in s3_client.list_objects_v2(Bucket=bucket).get("Contents", [])
        }

    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        kept, gone = a_run(instance), a_run(instance)
        assert {kept, gone} == {key.split("/")[2] for key in printed()}

        remove_files(instance, gone)

        assert {kept} == {key.split("/")[2] for key in printed()}
        assert list((tmp_path / "local").rglob(f"*{gone}*")) == []
