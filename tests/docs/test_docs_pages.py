"""Links lead somewhere, and nothing in the pages belongs to one machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ANCHOR, CHECKOUT, DOCS, EXAMPLES, Page, blocks, page, pages, read

EVERYTHING = [
    *(each.path for each in pages()),
    *sorted(path for path in EXAMPLES.iterdir() if path.suffix in (".yaml", ".json", ".sql")),
]

MOST_WORDS = 25_000
"""Of all pages by hand: whoever adds a page says what it replaces."""

_URL = re.compile(r"\b(?:https?|postgresql)://[^\s\"'`<>)\]|]+")
_OWN_PATHS = re.compile(r"(?<![\w.])/(?:work|root|home|tmp|mnt|Users)/")
_MEANT_HOSTS = re.compile(
    r"(?:.+\.)?example\.com|127\.0\.0\.1|localhost|db\.internal|host|json-schema\.org"
)


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.path.name)
def test_every_relative_link_resolves(each: Page) -> None:
    for target in each.links:
        name, _, anchor = target.partition("#")
        found = each.path if not name else (each.path.parent / name).resolve()
        assert found.exists(), f"{each.path.name} links to {target}"
        if anchor:
            assert anchor in read(found).anchors, f"{each.path.name} links to {target}"


def test_the_map_links_to_every_page() -> None:
    # The page of presets has the map of those.
    links = (*page("README.md").links, *page("presets.md").links)
    linked = {target.partition("#")[0] for target in links}
    for each in pages():
        if each.path.name != "README.md":
            expected = str(each.path.relative_to(DOCS))
            assert expected in linked, f"docs/README.md does not link to {expected}"


@pytest.mark.parametrize("path", EVERYTHING, ids=lambda path: path.name)
def test_no_path_of_a_machine_and_no_foreign_host_is_named(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert str(CHECKOUT) not in text
    assert str(Path.home()) + "/" not in text
    assert not _OWN_PATHS.search(text)
    for url in _URL.findall(text):
        host = urlsplit(url.replace("…", "x")).hostname or ""
        assert _MEANT_HOSTS.fullmatch(host), f"{path.name} names {url}"


def test_every_json_block_is_json() -> None:
    found = blocks("json")
    assert found
    for block in found:
        json.loads(block.text)


@pytest.mark.parametrize("each", pages(), ids=lambda each: each.path.name)
def test_every_fence_is_closed(each: Page) -> None:
    assert "```" not in each.prose


def test_the_pages_by_hand_can_be_read() -> None:
    by_hand = [each for each in pages() if each.path.parent.name != "reference"]
    texts = [ANCHOR.sub("", each.text) for each in by_hand]
    # What stands between the cells of a table, and other signs, are no words.
    words = [it for text in texts for it in text.split() if any(map(str.isalnum, it))]
    assert len(words) <= MOST_WORDS
