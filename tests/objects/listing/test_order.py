"""Servers that list in an order of their own: noticed, sorted on disk, and never trusted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.listing import ListingFailed
from filejobs_dagster.streams import Cursor
from tests.objects.listing.bucket import (
    Asked,
    BucketOfKeys,
    by_bytes,
    by_folders,
    by_utf16,
    keys_of,
)
from tests.objects.listing.odd import BELOW

if TYPE_CHECKING:
    from filejobs_dagster.streams import Scratch
    from tests.objects.listing.conftest import List

ENCODED = [key.encode() for key in BELOW]
Order = Callable[[str], bytes]


def by_hash(key: str) -> bytes:
    """As servers do that spread keys over machines."""
    import hashlib  # noqa: PLC0415 (only here)

    return hashlib.sha256(key.encode()).digest()


def without_case(key: str) -> bytes:
    return key.lower().encode() + b"\x00" + key.encode()


@pytest.mark.parametrize("order", [by_utf16, by_folders, by_hash, without_case])
@pytest.mark.parametrize("page", [10, 1000])
@pytest.mark.parametrize("parts", [1, 3])
def test_another_order_is_noticed_and_mended(
    list_scripted: List, order: Order, page: int, parts: int
) -> None:
    listed = list_scripted(BucketOfKeys(BELOW, order=order, page=page), parts=parts)
    assert not listed.ordered_by_server
    assert keys_of(listed) == ENCODED
    assert listed.objects == len(ENCODED)
    assert listed.bytes == 7 * len(ENCODED)


def test_what_was_read_in_vain_gives_its_room_back(list_scripted: List, scratch: Scratch) -> None:
    listed = list_scripted(BucketOfKeys(BELOW, order=by_folders, page=10), parts=3)
    kept = [it for it in scratch.folder.iterdir() if it.name != "lock"]
    assert len(kept) == len(listed.spools) == 1
    listed.remove()
    assert not kept[0].exists()


def test_one_prefix_out_of_order_is_enough_to_sort_all(list_scripted: List) -> None:
    keys = ["a/1", "a/2", "b/x/1", "b/x-1", "c/1"]
    listed = list_scripted(BucketOfKeys(keys, order=by_folders), ["a/", "b/", "c/"], parts=2)
    assert keys_of(listed) == sorted(key.encode() for key in keys)
    assert not listed.ordered_by_server


def test_an_unordered_listing_makes_referenced_objects_look_like_orphans_control(
    list_scripted: List,
) -> None:
    """A merge join that trusts the server, against the same listing through this package."""
    keys = ["files/a/x", "files/a-b"]
    references = sorted(key.encode() for key in keys)
    assert [by_folders(key) for key in keys] == sorted(map(by_folders, keys))

    def orphans(listed: list[bytes]) -> list[bytes]:
        cursor = Cursor(iter([references]))
        return [key for key in listed if key not in cursor.take_through(key)]

    assert orphans([key.encode() for key in keys]) == [b"files/a-b"]
    assert orphans(keys_of(list_scripted(BucketOfKeys(keys, order=by_folders)))) == []


def repeat_the_first_key(asked: Asked, body: str) -> str:
    start, end = body.index("<Contents>"), body.index("</Contents>") + len("</Contents>")
    repeated = body[:end] + body[start:end] + body[end:]
    count = body.count("<Contents>")
    return repeated.replace(f"<KeyCount>{count}", f"<KeyCount>{count + 1}")


@pytest.mark.parametrize("order", [by_bytes, by_folders])
def test_a_key_that_comes_twice_on_a_page_fails_the_listing(
    list_scripted: List, order: Order
) -> None:
    bucket = BucketOfKeys(BELOW, order=order, page=10, change=repeat_the_first_key)
    with pytest.raises(ListingFailed, match="twice"):
        list_scripted(bucket)


def test_a_key_that_comes_twice_far_apart_fails_the_listing(list_scripted: List) -> None:
    bucket = BucketOfKeys([f"files/{number:03}" for number in range(50)], page=10)

    def repeat_an_early_key(asked: Asked, body: str) -> str:
        return body.replace("files/045<", "files/003<")

    bucket.change = repeat_an_early_key
    with pytest.raises(ListingFailed, match="twice"):
        list_scripted(bucket)


def test_pages_that_go_round_in_circles_fail_the_listing(list_scripted: List) -> None:
    bucket = BucketOfKeys([f"files/{number:03}" for number in range(50)], page=10)
    turn = 0

    def go_back(asked: Asked, body: str) -> str:
        nonlocal turn
        turn += 1
        return body.replace(">tfiles/029<", f">tfiles/009{'x' * turn}<")

    bucket.change = go_back
    with pytest.raises(ListingFailed, match="twice"):
        list_scripted(bucket)
    assert turn < 20
