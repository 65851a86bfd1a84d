"""The processes of a small Ceph: one monitor, one OSD that keeps everything in memory, one gateway.

`python -m tests.conformance.ceph_cluster` starts them in a temporary directory, on free ports of
the loopback address, prints the gateway's address as one line, and serves until its standard input
closes. Then it stops them and removes the directory. Nothing is kept.

Authentication inside the cluster is off: whoever reaches the ports on this machine may use it.
That of the gateway, S3's own, is on, and is what the tests are for.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

LOOPBACK = "127.0.0.1"
SECONDS_TO_ANSWER = 60.0
SECONDS_TO_STOP = 15.0
LOG_LINES_IN_ERRORS = 15


@dataclass(frozen=True)
class Account:
    """A user of the gateway."""

    name: str
    access_key_id: str
    secret_access_key: str


OWNER = Account("owner", "owner-access-key", "owner-secret-key-for-tests")
"""Makes the buckets, and so may do everything in them."""

GUEST = Account("guest", "guest-access-key", "guest-secret-key-for-tests")
"""May do what a bucket's policy allows, and nothing else."""

PROGRAMS = ("ceph", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v2:{loopback}:{monitor_port}/0]
public addr = {loopback}
cluster addr = {loopback}
ms bind ipv4 = true
ms bind ipv6 = false

# There is nobody to authenticate, and no key file to make.
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms mon cluster mode = crc
ms mon service mode = crc

# One copy of everything, on the only OSD.
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 1000

# In memory, and without regard to how full this machine's disk is.
osd objectstore = memstore
memstore device bytes = 4294967296
mon data avail crit = 1
mon data avail warn = 2

# Every file in the temporary directory, and no sockets of the administrator's.
run dir = {root}
crash dir = {root}
admin socket =
log file = {root}/$name.log

# An S3 key may have 1024 bytes; the gateway adds its own names to it.
osd max object name len = 4096
osd max object namespace len = 256
rgw override bucket index max shards = 1
rgw dynamic resharding = false
rgw enable usage log = false
rgw enable ops log = false

[mon.a]
mon data = {root}/mon

[osd.0]
osd data = {root}/osd

[client.admin]
rgw data = {root}/rgw
rgw frontends = beast endpoint={loopback}:{gateway_port}
"""


class CephFailed(Exception):
    """A part of Ceph did not start; the message has what it said."""


class Cluster:
    """Starts and stops the processes, in a directory that it does not remove."""

    def __init__(self, root: Path) -> None:
        """Prepare to start in an empty directory."""
        self._root = root
        self._monitor_port, self._gateway_port = free_ports(2)
        self._daemons: list[tuple[str, subprocess.Popen[bytes]]] = []

    @property
    def endpoint_url(self) -> str:
        """Where the gateway answers S3."""
        return f"http://{LOOPBACK}:{self._gateway_port}"

    def start(self) -> None:
        """Start everything and wait until the gateway answers.

        Raises:
            CephFailed: A program ended, or the gateway stayed silent.
        """
        identity = str(uuid.uuid4())
        self._configure(identity)
        self._start_monitor(identity)
        self._start_osd()
        for account in (OWNER, GUEST):
            self._make_user(account)
        self._start_daemon("radosgw", "--name", "client.admin", "--no-mon-config")
        self._wait_for_gateway()

    def stop(self) -> None:
        """Stop everything, the last started first: a gateway without its OSD would hang."""
        while self._daemons:
            _name, process = self._daemons.pop()
            process.terminate()
            try:
                process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _configure(self, identity: str) -> None:
        text = CONFIGURATION.format(
            fsid=identity,
            loopback=LOOPBACK,
            monitor_port=self._monitor_port,
            gateway_port=self._gateway_port,
            root=self._root,
        )
        (self._root / "ceph.conf").write_text(text)
        for name in ("mon", "osd", "rgw"):
            (self._root / name).mkdir()

    def _start_monitor(self, identity: str) -> None:
        monitor_map, data = str(self._root / "monmap"), str(self._root / "mon")
        address = f"[v2:{LOOPBACK}:{self._monitor_port}]"
        # monmaptool knows no --conf of its own.
        self._run("monmaptool", "--create", "--fsid", identity, "--addv", "a", address, monitor_map)
        self._run("ceph-mon", "--mkfs", "--id", "a", "--monmap", monitor_map, "--mon-data", data)
        self._start_daemon("ceph-mon", "--id", "a")

    def _start_osd(self) -> None:
        identity = str(uuid.uuid4())
        self._run("ceph", "osd", "new", identity, "0")
        self._run("ceph-osd", "--id", "0", "--mkfs", "--osd-uuid", identity)
        self._start_daemon("ceph-osd", "--id", "0")

    def _make_user(self, account: Account) -> None:
        self._run(
            "radosgw-admin",
            "user",
            "create",
            f"--uid={account.name}",
            f"--display-name={account.name}",
            f"--access-key={account.access_key_id}",
            f"--secret-key={account.secret_access_key}",
        )

    def _run(self, *command: str) -> None:
        try:
            subprocess.run(
                command,
                env=self._environment(),
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=True,
                timeout=SECONDS_TO_ANSWER,
            )
        except subprocess.CalledProcessError as error:
            said = str(error.stdout)
            what = f"{command[0]} ended with {error.returncode}: {said}"
            raise CephFailed(self._report(what)) from error
        except subprocess.TimeoutExpired as error:
            raise CephFailed(self._report(f"{command[0]} did not end")) from error

    def _start_daemon(self, *command: str) -> None:
        with (self._root / f"{command[0]}.out").open("wb") as output:
            process = subprocess.Popen(
                [*command, "--foreground"],
                env=self._environment(),
                cwd=self._root,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._daemons.append((command[0], process))

    def _environment(self) -> dict[str, str]:
        configuration = str(self._root / "ceph.conf")
        return {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "CEPH_CONF": configuration}

    def _wait_for_gateway(self) -> None:
        ends_at = time.monotonic() + SECONDS_TO_ANSWER
        while not _answers(self.endpoint_url):
            for name, process in self._daemons:
                if process.poll() is not None:
                    raise CephFailed(self._report(f"{name} ended with {process.returncode}"))
            if time.monotonic() > ends_at:
                raise CephFailed(self._report("The gateway did not answer"))
            time.sleep(0.1)

    def _report(self, what: str) -> str:
        """What went wrong, and the end of every log: which part is to blame, nobody knows yet."""
        parts = [what]
        for path in sorted((*self._root.glob("*.log"), *self._root.glob("*.out"))):
            lines = path.read_text(errors="replace").splitlines()[-LOG_LINES_IN_ERRORS:]
            parts += [f"--- {path.name}", *lines]
        return "\n".join(parts)


def missing_programs() -> tuple[str, ...]:
    """The programs of Ceph that this machine lacks."""
    return tuple(name for name in PROGRAMS if shutil.which(name) is None)


def free_ports(count: int) -> Sequence[int]:
    """Find ports of the loopback address that nobody listens on."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind((LOOPBACK, 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def _answers(address: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5):
            return True
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def _end(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


def main() -> None:
    """Serve until standard input closes, or until told to end."""
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory(prefix="filejobs-ceph-") as directory:
        cluster = Cluster(Path(directory))
        try:
            cluster.start()
            sys.stdout.write(f"{cluster.endpoint_url}\n")
            sys.stdout.flush()
            sys.stdin.read()
        except CephFailed as error:
            raise SystemExit(str(error)) from error
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
