"""The canned S3 servers in processes of their own, as clients of them see them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

from filejobs_dagster.embedded.s3 import S3Endpoint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Self

SECONDS_TO_ANSWER = 60
SECONDS_TO_STOP = 10


class CannedProcess(S3Endpoint):
    """A server of the benchmarks at work; it ends with the process that started it."""

    def __init__(self, process: subprocess.Popen[str], endpoint_url: str) -> None:
        """Internal: use `start`."""
        super().__init__(endpoint_url)
        self._process = process

    @classmethod
    def _started(cls, module: str, *arguments: int) -> Self:
        """Start a module that prints its address.

        Raises:
            RuntimeError: The process ended before it named its address.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        address = process.stdout.readline().strip() if process.stdout else ""
        if not address:
            raise RuntimeError(f"{module} ended with exit code {process.wait()}.")
        return cls(process, address)

    def stop(self) -> None:
        """Stop the process and wait for its end; a second call does nothing."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        try:
            self._process.wait(SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class CannedS3Process(CannedProcess):
    """`benchmarks.canned_s3` at work."""

    @classmethod
    def start(cls, *, milliseconds: int = 0) -> Self:
        """Start a server that holds each answer back for some milliseconds."""
        return cls._started("benchmarks.canned_s3", milliseconds)

    def load(self, bucket: str, keys: Sequence[str]) -> None:
        """Make a bucket with an object of each key; a line break in a key is not possible here."""
        self._call(f"/-/load/{bucket}", "\n".join(keys).encode())

    def statistics(self) -> dict[str, Any]:
        """`objects` left by bucket, and `requests` answered by kind."""
        found: dict[str, Any] = json.loads(self._call("/-/statistics", None))
        return found

    def _call(self, path: str, body: bytes | None) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(f"{self.endpoint_url}{path}", data=body)  # noqa: S310
        with opener.open(request, timeout=SECONDS_TO_ANSWER) as answer:
            read: bytes = answer.read()
            return read


class CannedListingProcess(CannedProcess):
    """`benchmarks.canned_listing` at work: one bucket that is listed, and nothing else."""

    @classmethod
    def start(cls, objects: int, folders: int) -> Self:
        """Start a server whose bucket holds so many objects in so many folders."""
        return cls._started("benchmarks.canned_listing", objects, folders)
