"""Ceph RADOS Gateway for the tests: a real S3 implementation, in processes of its own.

Unlike the embedded server it checks signatures, policies and locks, and tells versions apart.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from tests.conformance.ceph_cluster import GUEST, OWNER, Account, CephFailed, missing_programs

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["GUEST", "HOW_TO_INSTALL", "OWNER", "Account", "Ceph", "CephFailed", "missing_programs"]

CHECKOUT = Path(__file__).parents[2]
SECONDS_TO_START = 180.0
SECONDS_TO_STOP = 60.0

HOW_TO_INSTALL = "apt-get install -y --no-install-recommends radosgw ceph-mon ceph-osd ceph-common"


class Ceph:
    """A running gateway; use it as a context manager.

    It ends with the process that started it, however that process ends.
    """

    def __init__(self, process: subprocess.Popen[str], endpoint_url: str) -> None:
        """Internal: use `start`."""
        self._process = process
        self.endpoint_url = endpoint_url

    @classmethod
    def start(cls) -> Ceph:
        """Start a cluster of its own, empty, in about ten seconds.

        Raises:
            CephFailed: A part of it did not start; the message has what its logs say.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance.ceph_cluster"],
            # The cluster serves until this pipe closes: on stop(), or when its owner dies.
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=CHECKOUT,
            # Ctrl-C in the terminal reaches the owner, who stops the cluster when it is done.
            start_new_session=True,
        )
        return cls(process, _wait_for_address(process))

    @property
    def pid(self) -> int:
        """The id of the process whose children the parts of Ceph are."""
        return self._process.pid

    def stop(self) -> None:
        """Stop every part, and wait until nothing is left; a second call does nothing.

        Raises:
            CephFailed: Something said at the end what should be known, or did not end in time.
        """
        try:
            said, _ = self._process.communicate(timeout=SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            raise CephFailed(f"Ceph did not stop within {SECONDS_TO_STOP:.0f} seconds") from None
        if self._process.returncode:
            raise CephFailed(f"Ceph ended with {self._process.returncode}. It said:\n{said}")

    def __enter__(self) -> Self:
        """Return the running gateway."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the gateway."""
        self.stop()


def _wait_for_address(process: subprocess.Popen[str]) -> str:
    if process.stdout is None:
        raise CephFailed("Ceph's process was started without a standard output.")
    timer = threading.Timer(SECONDS_TO_START, process.terminate)
    timer.start()
    try:
        said = process.stdout.readline()
        if said.startswith("http://"):
            return said.strip()
        # It is ending already: what it says to the end is the reason.
        said += process.stdout.read()
    finally:
        timer.cancel()
    process.communicate()
    raise CephFailed(f"Ceph did not start. It said:\n{said or '(nothing)'}")
