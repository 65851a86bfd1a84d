"""The Merkle tree against the vectors of Certificate Transparency, and against itself."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filejobs_dagster.audit.rows import EMPTY_ROOT, BrokenFrontier, Frontier

LEAVES = [
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
]  # fmt: skip

# The roots over the first 1 to 8 of these leaves, as Certificate Transparency's own tests have
# them.
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def slow_root(entries: list[bytes]) -> bytes:
    """RFC 6962, 2.1, word by word."""
    if not entries:
        return hashlib.sha256(b"").digest()
    if len(entries) == 1:
        return hashlib.sha256(b"\x00" + entries[0]).digest()
    split = 1
    while split * 2 < len(entries):
        split *= 2
    return hashlib.sha256(
        b"\x01" + slow_root(entries[:split]) + slow_root(entries[split:])
    ).digest()


def test_the_roots_are_those_of_certificate_transparency() -> None:
    tree = Frontier()
    assert tree.root() == EMPTY_ROOT
    assert EMPTY_ROOT.hex().startswith("e3b0c442")
    for leaf, root in zip(LEAVES, ROOTS, strict=True):
        tree.add(leaf)
        assert tree.root().hex() == root


@given(st.lists(st.binary(max_size=40), max_size=70), st.data())
def test_a_tree_continued_at_any_place_is_the_same_tree(
    entries: list[bytes], data: st.DataObject
) -> None:
    split = data.draw(st.integers(0, len(entries)))
    tree = Frontier()
    tree.extend(entries[:split])
    again = Frontier.from_bytes(split, tree.to_bytes())
    kept = tree.copy()
    again.extend(entries[split:])
    assert again.root() == slow_root(entries)
    assert again.size == len(entries)
    assert kept.root() == slow_root(entries[:split])


@pytest.mark.parametrize(("size", "content"), [(1, b""), (2, bytes(64)), (1, bytes(31)), (-1, b"")])
def test_bytes_that_are_no_frontier_of_that_size_are_refused(size: int, content: bytes) -> None:
    with pytest.raises(BrokenFrontier):
        Frontier.from_bytes(size, content)
