"""Reading one page: what is exact, what is refused, and that the fast way reads as the slow one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filejobs_dagster.objects.listing.answer import (
    Answer,
    _read_section,
    milliseconds,
    read_answer,
    unescaped,
)
from filejobs_dagster.objects.listing.page import ListingFailed
from tests.objects.listing.bucket import NAMESPACE, SPELLINGS, Asked, BucketOfKeys, document, entry
from tests.objects.listing.odd import BELOW

AT = 1_795_955_696_789  # 2026-11-29T12:34:56.789Z
EVERYTHING = Asked(prefix="", after=None, token=None, limit=1000)


def page(*entries: str) -> bytes:
    return document(list(entries)).encode()


def slowly(body: bytes) -> Answer:
    """Read with the XML parser: a comment keeps the fast way out."""
    return read_answer(body.replace(b"<Name>", b"<!-- slowly --><Name>", 1))


@pytest.mark.parametrize("spelling", ["as AWS does", "as Ceph does", "with a bare plus"])
def test_the_fast_way_and_the_slow_one_read_the_same(spelling: str) -> None:
    body = BucketOfKeys(BELOW, spell=SPELLINGS[spelling]).body(EVERYTHING).encode()
    answer = read_answer(body)
    assert answer == slowly(body)
    assert answer.texts == [SPELLINGS[spelling](key).encode() for key in BELOW]
    assert set(answer.modified) == {AT}
    assert set(answer.sizes) == {7}
    assert all(len(etag) == 32 for etag in answer.etags)
    assert (answer.truncated, answer.token, answer.url_encoded) == (False, None, True)


LAYOUTS = {
    "no ETag": entry("k").replace(f"<ETag>&quot;{1:032x}&quot;</ETag>", ""),
    "a checksum": entry("k").replace(
        "<Size>",
        "<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm><ChecksumType>F</ChecksumType><Size>",
    ),
    "two checksums": entry("k").replace(
        "<Size>",
        "<ChecksumAlgorithm>A</ChecksumAlgorithm><ChecksumAlgorithm>B</ChecksumAlgorithm><Size>",
    ),
    "an owner behind": entry("k").replace(
        "</Contents>",
        "<Owner><ID>me</ID><DisplayName>Me</DisplayName></Owner><Type>Normal</Type></Contents>",
    ),
    "an owner in front of the size": entry("k").replace(
        "<Size>", "<Owner><ID>me</ID></Owner><Size>"
    ),
    "an unknown element": entry("k").replace(
        "</Contents>", "<New><Deep a='b'>x</Deep></New></Contents>"
    ),
    "an empty element": entry("k").replace("</Contents>", "<Owner/></Contents>"),
    "white space": entry("k").replace("><", ">\n  <"),
    "the size first": re.sub(r"(<Key>.*)(<Size>7</Size>)", r"\2\1", entry("k")),
    "a namespace of its own": entry("k").replace("<Key>", f"<Key {NAMESPACE}>"),
    "a restore status": entry("k").replace(
        "</Contents>",
        "<RestoreStatus><IsRestoreInProgress>false</IsRestoreInProgress></RestoreStatus></Contents>",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_an_object_is_read_whatever_else_the_server_says_of_it(layout: str) -> None:
    plain = entry("other")
    answer = read_answer(page(plain, layout, plain))
    assert answer.texts == [b"other", b"k", b"other"]
    assert answer.sizes == [7, 7, 7]
    assert answer.modified == [AT] * 3
    assert answer.etags[1] == (b"" if "ETag" not in layout else b"%032x" % 1)
    assert answer == slowly(page(plain, layout, plain))


FAST = ["a checksum", "no ETag", "an owner behind", "an unknown element", "a restore status"]


@pytest.mark.parametrize("layout", FAST)
def test_what_servers_really_send_is_read_the_fast_way(layout: str) -> None:
    assert _read_section(f"{entry('k')}{LAYOUTS[layout]}".encode()) is not None
    assert _read_section(f"{LAYOUTS['white space']}".encode()) is None


def test_prefixed_names_and_no_namespace_are_read() -> None:
    body = page(entry("k"))
    assert read_answer(body.replace(NAMESPACE.encode(), b"")).texts == [b"k"]
    prefixed = re.sub(rb"<(/?)(?=[A-Z])", rb"<\1s3:", body).replace(b"xmlns=", b"xmlns:s3=")
    assert read_answer(prefixed).texts == [b"k"]


def test_quotes_of_an_etag_go_in_every_spelling() -> None:
    spelled = ['"e"', "&quot;e&quot;", "&#34;e&#34;", "&#x22;e&#x22;", "e"]
    entries = [re.sub(r"<ETag>.*</ETag>", f"<ETag>{it}</ETag>", entry("k")) for it in spelled]
    for each in entries:
        assert read_answer(page(each)).etags == [b"e"]
    assert read_answer(page(*entries)).etags == [b"e"] * 5


TIMES = {
    "2026-11-29T12:34:56.789Z": AT,
    "2026-11-29T12:34:56Z": AT - 789,
    "2026-11-29T12:34:56.7Z": AT - 89,
    "2026-11-29T12:34:56.789999Z": AT,
    "2026-11-29T12:34:56.789+00:00": AT,
    "2026-11-29T13:34:56.789+01:00": AT,
    "Sun, 29 Nov 2026 12:34:56 GMT": AT - 789,
    "2126-11-29T12:34:56.789Z": AT + 36_524 * 86_400_000,
    "1970-01-01T00:00:00.000Z": 0,
    "2024-02-29T00:00:00.000Z": 1_709_164_800_000,
    "": -1,
    "yesterday": -1,
    "2026-11-29T12:34:56.789": AT,
    "2026-11-29T12:34:>": -1,
    "2026-11-29T12:34": -1,
    "2026-11-29": -1,
    "1795955696": -1,
    "2026-02-30T00:00:00.000Z": -1,
    "2026-11-29T24:34:56.789Z": -1,
    "2026-11-29T12:34:61.789Z": -1,
}


@pytest.mark.parametrize(("text", "expected"), TIMES.items())
def test_a_time_is_read_to_the_millisecond_or_unknown(text: str, expected: int) -> None:
    assert milliseconds([text.encode()]) == [expected]
    assert read_answer(page(entry("k", modified=text))).modified == [expected]


def test_one_unreadable_time_spoils_no_other() -> None:
    texts = [text.encode() for text in TIMES]
    assert milliseconds([*texts, None]) == [*TIMES.values(), -1]
    missing = re.sub(r"<LastModified>.*</LastModified>", "", entry("k"))
    assert read_answer(page(entry("k"), missing)).modified == [AT, -1]


REFUSED = {
    "fewer objects than it says": (
        document([entry("k")], count=2),
        "says .* 2 objects, and it has 1",
    ),
    "more objects than it says": (document([entry("k")] * 2, count=1), "1 objects, and it has 2"),
    "common prefixes": (
        document([entry("k")]).replace(
            "</ListBucketResult>",
            "<CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes></ListBucketResult>",
        ),
        "common prefixes",
    ),
    "not whether there is more": (
        document([]).replace("<IsTruncated>false</IsTruncated>", ""),
        "IsTruncated",
    ),
    "nonsense about more": (document([]).replace("false", "perhaps"), "'perhaps'"),
    "no key": (document([entry("k").replace("<Key>k</Key>", "")]), "whose key is ''"),
    "an empty key": (document([entry("")]).replace("<Key></Key>", "<Key />"), "whose key is ''"),
    "no size": (document([entry("k").replace("<Size>7</Size>", "")]), "size is ''"),
    "a negative size": (document([entry("k", size=-7)]), "size is '-7'"),
    "an object that is a closed tag": (document(["<Contents/>"]), "nothing can be concluded"),
    "an object outside of the list": (
        document([entry("k")])
        .replace("<Contents>", "<Wrapped><Contents>")
        .replace("</Contents>", "</Contents></Wrapped>"),
        "outside of its list|says that a page",
    ),
    "no end": (document([entry("k")]).replace("</ListBucketResult>", ""), "no XML"),
    "two documents": (document([entry("k")]) + "<Error/>", "no XML"),
    "a document type": (
        document([]).replace("<ListBucketResult", "<!DOCTYPE x><ListBucketResult", 1),
        "type",
    ),
    "an unknown entity": (document([entry("a&nbsp;b")]), "&nbsp;"),
    "half of a pair": (document([entry("a&#xd83d;b")]), "d83d"),
    "another answer": ("<ListAllMyBucketsResult/>", "ListAllMyBucketsResult"),
    "a web page": ("<html><body>Log in</body></html>", "<html>"),
    "a bare return in a key": (document([entry("a\rb")]), "carriage return"),
    "a bare return in a key of another layout": (
        document([entry("a\rb").replace("</ETag><", "</ETag>\n<")]),
        "carriage return",
    ),
}


@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_a_page_is_refused_that_has(body: str, message: str) -> None:
    with pytest.raises(ListingFailed, match=message):
        read_answer(body.encode())


@pytest.mark.parametrize("body", [it for it, _ in REFUSED.values()], ids=REFUSED)
def test_every_refused_page_can_be_refused_the_slow_way_too(body: str) -> None:
    with pytest.raises(ListingFailed):
        slowly(body.encode())


def test_an_object_in_a_comment_is_none() -> None:
    commented = document([entry("k")]).replace("<Contents>", "<!-- <Contents>", 1)
    commented = commented.replace("</Contents>", "</Contents> -->", 1).replace(
        "<KeyCount>1", "<KeyCount>0"
    )
    assert read_answer(commented.encode()).texts == []


def test_another_encoding_is_read_as_what_it_says() -> None:
    body = document([entry("é")]).replace('encoding="UTF-8"', 'encoding="ISO-8859-1"')
    assert read_answer(body.encode("latin-1")).texts == ["é".encode()]


def test_a_token_is_exact_also_where_no_xml_parser_would_read_it() -> None:
    body = document([entry("k")], token="a&#x01;b&#xd;&amp;c'")
    assert read_answer(body.encode()).token == "a\x01b\r&c'"


@pytest.mark.parametrize(
    ("escaped", "plain"),
    [("&amp;lt;", "&lt;"), ("&#38;#13;", "&#13;"), ("&#x1F642;", "\U0001f642"), ("&apos;", "'")],
)
def test_references_are_replaced_once(escaped: str, plain: str) -> None:
    assert unescaped(escaped.encode()) == plain.encode()


@settings(max_examples=200, derandomize=True)
@given(st.data())
def test_a_damaged_page_is_never_read_differently_by_the_fast_way(data: st.DataObject) -> None:
    body = bytearray(page(*(entry(f"k{number}") for number in range(4))))
    # In front of it a processing instruction could come about, which may hold anything.
    begin = body.index(b"<Name>")
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(begin, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 30))] = data.draw(
            st.sampled_from([b"", b"<", b">", b"/", b"x", b"<Contents>", b"</Contents>", b"<Key>"])
        )
    try:
        fast = read_answer(bytes(body))
    except ListingFailed:
        return
    # The fast way is lenient about elements that nobody reads, and about nothing else.
    assert len(fast.texts) == len(re.findall(rb"<Contents>", body))
    try:
        slow = slowly(bytes(body))
    except ListingFailed:
        return
    assert fast == slow
