"""An S3 server in Python (moto), in this process or in one of its own. It forgets when it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING

from filejobs_dagster.embedded.environment import clean_environment
from filejobs_dagster.embedded.s3_server import LOOPBACK, serve

if TYPE_CHECKING:
    from types import TracebackType

    from mypy_boto3_s3 import S3Client
    from typing_extensions import Self

ACCESS_KEY_ID = "embedded"
SECRET_ACCESS_KEY = "embedded-test-value"  # noqa: S105 (the server accepts any credentials)
REGION = "us-east-1"

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 10.0


class EmbeddedS3Error(Exception):
    """The embedded S3 server did not start."""


class S3Endpoint:
    """How to reach an embedded S3 server."""

    def __init__(self, endpoint_url: str) -> None:
        """Describe a server that runs already.

        Args:
            endpoint_url: For instance `http://127.0.0.1:40001`, without a closing slash.
        """
        self.endpoint_url = endpoint_url

    def environment(self) -> dict[str, str]:
        """Variables that make boto3 in a child process use this server and nothing else.

        They name the credentials, the region and the endpoint, close boto3's other ways to
        credentials, and keep a proxy out of the way to this machine. Add them to a
        `clean_environment`, where no other AWS variable is left.
        """
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            "NO_PROXY": f"{LOOPBACK},localhost",
            "no_proxy": f"{LOOPBACK},localhost",
        }

    def client(self) -> S3Client:
        """A boto3 client for this server, whatever proxies the environment names."""
        import boto3  # noqa: PLC0415 (half a second that callers of this module may never need)
        from botocore.config import Config  # noqa: PLC0415

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=REGION,
            aws_access_key_id=ACCESS_KEY_ID,
            aws_secret_access_key=SECRET_ACCESS_KEY,
            config=Config(s3={"addressing_style": "path"}, proxies={}),
        )

    def forget(self) -> None:
        """Remove every bucket and object of the server."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(  # noqa: S310 (the scheme is ours)
            f"{self.endpoint_url}/moto-api/reset", method="POST"
        )
        with opener.open(request, timeout=SECONDS_TO_STOP):
            pass

    def stop(self) -> None:
        """Stop the server, where this object started one; a second call does nothing."""

    def __enter__(self) -> Self:
        """Return the running server."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()


class EmbeddedS3(S3Endpoint):
    """An S3 server in a thread of this process; use it as a context manager, or call `stop()`.

    All servers in one process share one memory: moto keeps its buckets in a module.
    """

    def __init__(self) -> None:
        """Internal: use `start`."""
        self._server = serve()
        host, port = self._server.get_host_and_port()
        self._serving = True
        super().__init__(f"http://{host}:{port}")

    @classmethod
    def start(cls) -> EmbeddedS3:
        """Start a server on a free port of the loopback address.

        Raises:
            EmbeddedExtraMissingError: The extra `embedded` is not installed.
        """
        return cls()

    def stop(self) -> None:
        """Stop serving; a second call does nothing."""
        if self._serving:
            self._server.stop()
            self._serving = False


class EmbeddedS3Process(S3Endpoint):
    """An S3 server in a process of its own, which ends with the process that started it."""

    def __init__(self, process: subprocess.Popen[str], endpoint_url: str) -> None:
        """Internal: use `start`."""
        super().__init__(endpoint_url)
        self._process = process

    @classmethod
    def start(cls) -> EmbeddedS3Process:
        """Start a process that serves on a free port of the loopback address.

        Returns:
            The server, ready to answer.

        Raises:
            EmbeddedS3Error: The process ended or stayed silent; the message has what it said.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "filejobs_dagster.embedded.s3_server"],
            # The process serves until this pipe closes: on stop(), or when its owner dies.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=clean_environment(os.environ),
            # Ctrl-C in the terminal reaches the owner, who stops the server when it is done.
            start_new_session=True,
        )
        return cls(process, _wait_for_address(process))

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    def stop(self) -> None:
        """Stop the process and wait for its end; a second call does nothing."""
        _end(self._process)


def _wait_for_address(process: subprocess.Popen[str]) -> str:
    said: list[str] = []
    if process.stdout is None:
        raise EmbeddedS3Error("The S3 server's process was started without a standard output.")
    timer = threading.Timer(SECONDS_TO_START, process.kill)
    timer.start()
    try:
        for line in process.stdout:
            if line.startswith("http://"):
                _drain(process)
                return line.strip()
            said.append(line)
    finally:
        timer.cancel()
    _end(process)
    raise EmbeddedS3Error(
        f"The embedded S3 server ended with exit code {process.returncode} before it named its "
        f"address (within {SECONDS_TO_START:.0f} seconds). It said:\n{''.join(said) or '(nothing)'}"
    )


def _drain(process: subprocess.Popen[str]) -> None:
    """Keep reading, so that a server that prints a traceback never blocks on a full pipe."""

    def read() -> None:
        for _ in process.stdout or ():
            pass

    threading.Thread(target=read, daemon=True).start()


def _end(process: subprocess.Popen[str]) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
