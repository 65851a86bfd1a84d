from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from filejobs_dagster.streams import NotEnoughRoom, Scratch, SpoolDamaged
from filejobs_dagster.streams.scratch import PREFIX, remove_leftovers

CHECKOUT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from filejobs_dagster.streams import Scratch
with Scratch(Path(sys.argv[1])) as scratch:
    scratch.spool("something").append([b"a"])
    print(scratch.folder, flush=True)
    time.sleep(60)
"""


def test_the_folder_is_private_and_goes_at_the_end(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        scratch.spool("keys").append([b"a"])
        assert stat.S_IMODE(scratch.folder.stat().st_mode) == 0o700
        assert len(list(scratch.folder.iterdir())) == 2
    assert list(tmp_path.iterdir()) == []


def test_the_folder_goes_when_the_run_fails(tmp_path: Path) -> None:
    def fail() -> None:
        with Scratch(tmp_path) as scratch:
            scratch.spool("keys")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_outside_of_its_block_a_scratch_has_no_folder(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="with"):
        _ = Scratch(tmp_path).folder


def test_what_a_killed_process_left_goes_and_what_a_living_one_uses_stays(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    try:
        assert holder.stdout is not None
        folder = Path(holder.stdout.readline().strip())
        assert remove_leftovers(tmp_path) == []
        assert folder.is_dir()
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    assert folder.is_dir(), "a killed process cannot clean up"

    with Scratch(tmp_path) as scratch:
        assert list(tmp_path.iterdir()) == [scratch.folder]


def test_a_folder_whose_lock_is_not_there_yet_is_somebody_who_just_begins(tmp_path: Path) -> None:
    folder = tmp_path / f"{PREFIX}young"
    folder.mkdir()
    assert remove_leftovers(tmp_path) == []

    os.utime(folder, (1, 1))
    assert remove_leftovers(tmp_path) == [folder]


def test_a_link_of_that_name_is_left_alone(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    os.utime(elsewhere, (1, 1))
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)
    assert remove_leftovers(tmp_path) == []
    assert elsewhere.is_dir()


def test_too_little_room_is_refused_with_both_numbers(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughRoom, match=r"1024\.0 TiB are needed .* are free"):
        Scratch(tmp_path, needs=1 << 50).__enter__()
    assert list(tmp_path.iterdir()) == []
    with Scratch(tmp_path, needs=1) as scratch, pytest.raises(NotEnoughRoom, match="scratch_dir"):
        scratch.require(1 << 50)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotEnoughRoom, match=r"no folder .*nowhere"):
        Scratch(tmp_path / "nowhere").__enter__()


def test_a_spool_gives_back_what_was_put_in_any_number_of_times(tmp_path: Path) -> None:
    blocks = [[b"", b"\x00\xff"], [], [(b"k", 1, -1, None, "é", 1.5)], ([b"a"], b"numbers")]
    with Scratch(tmp_path) as scratch:
        spool = scratch.spool("a name/with: odd parts")
        for block in blocks:
            spool.append(block, items=3 if isinstance(block, tuple) else None)
        assert list(spool.blocks()) == blocks
        spool.append([b"later"])
        spool.finish()
        assert list(spool.blocks()) == [*blocks, [b"later"]]
        assert spool.count == 7
        [file] = [it for it in scratch.folder.iterdir() if it.name != "lock"]
        assert spool.bytes_on_disk == file.stat().st_size
        spool.remove()
        assert not file.exists()


def test_two_spools_of_one_name_are_two(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        one, two = scratch.spool("same"), scratch.spool("same")
        one.append([b"1"])
        two.append([b"2"])
        assert list(one.blocks()) == [[b"1"]]


@pytest.mark.parametrize("left", [0, 4, 8, 20])
def test_a_spool_that_was_cut_is_noticed(tmp_path: Path, left: int) -> None:
    with Scratch(tmp_path) as scratch:
        spool = scratch.spool("keys")
        spool.append([b"some key", b"some other key"])
        spool.finish()
        [file] = [it for it in scratch.folder.iterdir() if it.name != "lock"]
        os.truncate(file, left)
        with pytest.raises(SpoolDamaged, match="1 blocks"):
            list(spool.blocks())


def test_a_spool_with_a_senseless_length_is_noticed(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        spool = scratch.spool("keys")
        spool.append([b"a key"])
        spool.finish()
        [file] = [it for it in scratch.folder.iterdir() if it.name != "lock"]
        file.write_bytes(b"\xff" * file.stat().st_size)
        with pytest.raises(SpoolDamaged, match="changed"):
            list(spool.blocks())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_says_so(tmp_path: Path) -> None:
    with Scratch(tmp_path) as scratch:
        spool = scratch.spool("keys")
        full = Path("/dev/full").open("wb")  # noqa: SIM115 (closed below, where that fails)
        spool._file.close()
        spool._file = full
        spool.append([b"k" * 10])
        with pytest.raises(NotEnoughRoom, match="The disk is full"):
            list(spool.blocks())
        with pytest.raises(OSError, match="No space left"):
            full.close()
