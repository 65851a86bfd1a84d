"""Which key a text means, on servers that spell in different ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.listing import ListingFailed
from tests.objects.listing.bucket import SPELLINGS, Asked, BucketOfKeys, keys_of
from tests.objects.listing.odd import BELOW

if TYPE_CHECKING:
    from tests.objects.listing.conftest import List

URL = [name for name in SPELLINGS if name != "as it is"]
ENCODED = [key.encode() for key in BELOW]


@pytest.mark.parametrize("spelling", URL)
def test_every_odd_key_is_read_exactly(list_scripted: List, spelling: str) -> None:
    listed = list_scripted(BucketOfKeys(BELOW, spell=SPELLINGS[spelling], page=20))
    assert keys_of(listed) == ENCODED
    assert listed.ordered_by_server
    assert listed.objects == len(BELOW)
    assert listed.bytes == 7 * len(BELOW)


def test_a_server_that_spells_nothing_and_says_so_is_read_as_it_is(list_scripted: List) -> None:
    # What no XML parser would let through is left out, as such a server cannot send it.
    keys = [key for key in BELOW if "\ufffe" not in key and "\uffff" not in key]
    listed = list_scripted(BucketOfKeys(keys, spell=SPELLINGS["as it is"], says_url=False, page=20))
    assert keys_of(listed) == [key.encode() for key in keys]


@pytest.mark.parametrize("spelling", URL)
def test_a_server_that_spells_and_does_not_say_so_is_refused(
    list_scripted: List, spelling: str
) -> None:
    bucket = BucketOfKeys(["files/a b+c%"], spell=SPELLINGS[spelling], says_url=False)
    with pytest.raises(ListingFailed, match="which key that is cannot be learnt"):
        list_scripted(bucket)


def test_a_server_that_says_it_spells_and_does_not_is_refused(list_scripted: List) -> None:
    bucket = BucketOfKeys(["files/100%"], spell=SPELLINGS["as it is"])
    with pytest.raises(ListingFailed, match=r"100%.*, which is not"):
        list_scripted(bucket)


def test_the_server_is_asked_what_it_means_only_once(list_scripted: List) -> None:
    keys = [f"files/a {number}+" for number in range(40)]
    bucket = BucketOfKeys(keys, page=5)
    assert keys_of(list_scripted(bucket)) == sorted(key.encode() for key in keys)
    assert len(bucket.asked) == 8 + 2


def test_a_plus_whose_object_is_gone_again_is_learnt_from_the_next(list_scripted: List) -> None:
    bucket = BucketOfKeys(["files/a b", "files/c d"])

    def delete_after_listing(asked: Asked, body: str) -> str:
        bucket.keys = ["files/c d"]
        return body

    bucket.change = delete_after_listing
    assert keys_of(list_scripted(bucket)) == [b"files/a b", b"files/c d"]


def test_taking_every_plus_for_a_space_names_other_objects_control(list_scripted: List) -> None:
    """boto3's own decoding, on a server that leaves a plus as it is."""
    from urllib.parse import unquote_plus  # noqa: PLC0415 (only the careless need it)

    bucket = BucketOfKeys(["files/a+b"], spell=SPELLINGS["with a bare plus"])
    assert unquote_plus(SPELLINGS["with a bare plus"]("files/a+b")) == "files/a b"
    assert keys_of(list_scripted(bucket)) == [b"files/a+b"]


def test_a_key_that_is_no_text_is_listed_as_its_bytes(list_scripted: List) -> None:
    bucket = BucketOfKeys(["files/a", "files/x"])
    bucket.change = lambda _asked, body: body.replace(">files/x<", ">files/%FF%fe<")
    assert keys_of(list_scripted(bucket)) == [b"files/a", b"files/\xff\xfe"]
