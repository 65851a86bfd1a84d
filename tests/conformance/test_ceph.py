"""The Ceph of these tests serves this machine only, and leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.conformance.ceph import CHECKOUT, Ceph
from tests.conformance.ceph_cluster import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.conformance

PARTS = {"ceph-mon", "ceph-osd", "radosgw"}

OWNER_OF_A_CLUSTER = """
import time
from tests.conformance.ceph import Ceph
print(Ceph.start().pid, flush=True)
time.sleep(600)
"""


def wait_until(holds: Callable[[], bool], seconds: float = 30) -> bool:
    ends_at = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.1)
    return True


def test_every_part_listens_on_the_loopback_address_only(ceph: Ceph) -> None:
    parts = psutil.Process(ceph.pid).children()
    assert {part.name() for part in parts} == PARTS
    for part in parts:
        listening = [it for it in part.net_connections() if it.status == psutil.CONN_LISTEN]
        assert listening
        assert {it.laddr.ip for it in listening} == {LOOPBACK}


def test_nothing_is_left_when_its_owner_is_killed(ceph: Ceph) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER_OF_A_CLUSTER], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    cluster = psutil.Process(int(owner.stdout.readline()))
    family = [cluster, *cluster.children()]
    directory = Path(family[1].cwd())
    assert {process.name() for process in family[1:]} == PARTS
    assert directory.is_dir()

    owner.kill()
    owner.communicate()

    assert wait_until(lambda: not any(process.is_running() for process in family))
    assert not directory.exists()
