"""SeaweedFS for the tests: a real S3 server that keeps keys as paths of a file system."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from tests.conformance.ceph import OWNER
from tests.conformance.gateway import client_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

SECONDS_TO_START = 90.0
SECONDS_TO_STOP = 20.0
GRPC = 10_000
"""The port of each part's gRPC is its own and so many."""

HIGHEST = 65_535 - GRPC


class SeaweedFailed(Exception):
    """It did not start; the message has what it said."""


def weed_program() -> str | None:
    """The program, beside this Python or on the PATH; None where it is not installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


class SeaweedFS:
    """A running server.

    Attributes:
        endpoint_url: Its address.
        client: For the user to whom all buckets belong.
    """

    def __init__(self, endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        self.client: S3Client = client_of(endpoint_url, OWNER)

    @classmethod
    @contextmanager
    def start(cls, weed: str, folder: Path) -> Iterator[SeaweedFS]:
        """A server of its own, empty, on the loopback address, in a few seconds.

        Raises:
            SeaweedFailed: It did not start.
        """
        (folder / "data").mkdir()
        access = {"accessKey": OWNER.access_key_id, "secretKey": OWNER.secret_access_key}
        identity = {
            "name": "owner",
            "credentials": [access],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        master, volume, filer, s3 = _free_ports(4)
        said = folder / "said.txt"
        with said.open("w") as output:
            process = subprocess.Popen(
                [
                    *(weed, "server", f"-dir={folder / 'data'}"),
                    *("-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                    *(f"-master.port={master}", f"-volume.port={volume}"),
                    *("-filer", f"-filer.port={filer}"),
                    *("-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}"),
                    *("-volume.max=200", "-master.volumeSizeLimitMB=64"),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )
        try:
            running = cls(f"http://127.0.0.1:{s3}")
            _wait_for(running.client, process, said)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(client: S3Client, process: subprocess.Popen[bytes], said: Path) -> None:
    ends = time.monotonic() + SECONDS_TO_START
    while process.poll() is None and time.monotonic() < ends:
        try:
            client.create_bucket(Bucket="is-it-there")
            client.put_object(Bucket="is-it-there", Key="yes", Body=b"yes")
        except (ClientError, BotoCoreError):
            time.sleep(0.2)
        else:
            return
    raise SeaweedFailed(f"SeaweedFS did not start. It said:\n{said.read_text()[-4000:]}")


def _free_ports(count: int) -> list[int]:
    """Ports that are free, with those of their gRPC."""
    found: list[int] = []
    held: list[socket.socket] = []
    try:
        while len(found) < count:
            port, other = socket.socket(), socket.socket()
            held += [port, other]
            port.bind(("127.0.0.1", 0))
            number = port.getsockname()[1]
            if number > HIGHEST:
                continue
            try:
                other.bind(("127.0.0.1", number + GRPC))
            except OSError:
                continue
            found.append(number)
    finally:
        for each in held:
            each.close()
    return found
