"""A bucket in memory that answers ListObjectsV2 as this or that server would, or badly."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, quote_plus, urlsplit
from xml.sax.saxutils import escape

from tests.objects.scripted import XML, Answer

if TYPE_CHECKING:
    from filejobs_dagster.objects.listing import Listed
    from tests.objects.scripted import Request

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'

Spell = Callable[[str], str]
SPELLINGS: dict[str, Spell] = {
    "as AWS does": lambda key: quote_plus(key, safe="/*-._"),
    "as Ceph does": lambda key: quote(key, safe="~-_.*()!$'"),
    "with a bare plus": lambda key: quote(key, safe="/+"),
    "as it is": lambda key: key,
}


def by_bytes(key: str) -> bytes:
    return key.encode()


def by_utf16(key: str) -> bytes:
    """As servers do that are written in Java or JavaScript and compare their strings."""
    return key.encode("utf-16-be", "surrogatepass")


def by_folders(key: str) -> bytes:
    """As servers do that keep keys as files: what is in a folder comes right behind its name."""
    return key.encode().replace(b"/", b"\x01")


def entry(text: str, size: int = 7, modified: str = "2026-11-29T12:34:56.789Z") -> str:
    return (
        f"<Contents><Key>{text}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>&quot;{len(text):032x}&quot;</ETag><Size>{size}</Size>"
        "<StorageClass>STANDARD</StorageClass></Contents>"
    )


@dataclass
class Asked:
    """What a request asked for."""

    prefix: str
    after: str | None
    token: str | None
    limit: int


Change = Callable[[Asked, str], "str | Answer"]


@dataclass
class BucketOfKeys:
    """Answers as a well-behaved server does, unless told otherwise.

    Attributes:
        keys: What is in the bucket; may be changed between requests.
        page: The most keys of a page.
        spell: How a key is written.
        says_url: Whether the answer says that keys are spelled for URLs.
        order: What the server sorts by.
        knows_start_after: Whether it heeds `start-after`.
        entry: The XML of an object.
        change: What becomes of an answer in the end.
        asked: Every request.
    """

    keys: Iterable[str]
    page: int = 1000
    spell: Spell = SPELLINGS["as AWS does"]
    says_url: bool = True
    order: Callable[[str], bytes] = by_bytes
    knows_start_after: bool = True
    entry: Callable[[str], str] = entry
    change: Change = field(default=lambda _asked, body: body)
    asked: list[Asked] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        """Answer a request."""
        query = dict(parse_qsl(urlsplit(request.path).query, keep_blank_values=True))
        asked = Asked(
            prefix=query.get("prefix", ""),
            after=query.get("start-after"),
            token=query.get("continuation-token"),
            limit=min(int(query.get("max-keys", "1000")), self.page),
        )
        self.asked.append(asked)
        changed = self.change(asked, self.body(asked))
        return changed if isinstance(changed, Answer) else Answer(body=changed)

    def body(self, asked: Asked) -> str:
        """The page that was asked for."""
        keys = sorted((it for it in self.keys if it.startswith(asked.prefix)), key=self.order)
        place = asked.token[1:] if asked.token else asked.after if self.knows_start_after else None
        if place is not None:
            keys = [key for key in keys if self.order(key) > self.order(place)]
        page, rest = keys[: asked.limit], keys[asked.limit :]
        return document(
            [self.entry(escape(self.spell(key), {"\r": "&#13;", "\x01": "&#x1;"})) for key in page],
            prefix=escape(asked.prefix),
            token="t" + escape(page[-1], {"\r": "&#13;", "\x01": "&#x1;"}) if rest else None,
            encoding="<EncodingType>url</EncodingType>" if self.says_url else "",
        )


def document(
    entries: list[str],
    *,
    prefix: str = "",
    token: str | None = None,
    count: int | None = None,
    encoding: str = "<EncodingType>url</EncodingType>",
) -> str:
    next_token = "" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>"
    return (
        f"{XML}<ListBucketResult {NAMESPACE}><Name>bucket</Name><Prefix>{prefix}</Prefix>"
        f"{encoding}<MaxKeys>1000</MaxKeys>"
        f"<KeyCount>{len(entries) if count is None else count}</KeyCount>"
        f"<IsTruncated>{str(token is not None).lower()}</IsTruncated>{next_token}"
        f"{''.join(entries)}</ListBucketResult>"
    )


def keys_of(listed: Listed) -> list[bytes]:
    return [key for page in listed.pages() for key in page.keys]
