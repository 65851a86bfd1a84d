"""Definitions made from a settings file of the test's own, and a Dagster instance in memory."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from filejobs_dagster.orchestration.build import build_definitions
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3


class Code:
    """The code location of an installation, loaded in this process."""

    def __init__(self, installation: Installation, instance: dg.DagsterInstance) -> None:
        self.installation = installation
        self.instance = instance
        self.adopted = True

    @property
    def definitions(self) -> dg.Definitions:
        os.environ.update(self.installation.environment)
        return build_definitions(self.installation.loaded())

    def run(
        self, job: str = "upload_reservations", *, tags: dict[str, str] | None = None,
        partition_key: str | None = None, **config: Any,
    ) -> dg.ExecuteInProcessResult:  # fmt: skip
        """Run a job as Dagster would; a failure is a result."""
        if self.adopted and (config.get("dry_run") is False or "live" in (tags or {}).values()):
            self.installation.adopt()
        run_config = {"ops": {job: {"config": config}}} if config else {}
        return self.definitions.resolve_job_def(job).execute_in_process(
            run_config=run_config,
            instance=self.instance,
            raise_on_error=False,
            tags=tags,
            partition_key=partition_key,
        )

    def sensor(self, name: str) -> Any:
        """Evaluate one tick of a sensor."""
        definitions = self.definitions
        context = dg.build_sensor_context(instance=self.instance, definitions=definitions)
        return definitions.resolve_sensor_def(name).evaluate_tick(context)


def failure_of(result: dg.ExecuteInProcessResult) -> str:
    """The words of the failed step."""
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_FAILURE"]
    failure = event.step_failure_data
    if failure.user_failure_data is not None and failure.user_failure_data.description:
        return failure.user_failure_data.description
    assert failure.error is not None
    return failure.error.to_string()


def metadata_of(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """What the run's page shows as the op's output."""
    [event] = [e for e in result.all_events if e.event_type_value == "STEP_OUTPUT"]
    return {key: value.value for key, value in event.step_output_data.metadata.items()}


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    return make_installation(tmp_path, database_url, bucket, s3_client, s3_server)


@pytest.fixture
def code(installation: Installation) -> Iterator[Code]:
    with dagster_instance() as instance:
        yield Code(installation, instance)
