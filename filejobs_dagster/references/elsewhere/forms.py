"""The forms in which a value may name a key that no source names, and which of them say something.

What is searched for decides what is found, and not how: a uuid column names
`avatars/UUID_large.webp` only for somebody who looks for the uuid. Each key is looked for

- by its shortest tail that no other candidate has: `a.jpg`, else `7/a.jpg`, else the whole key;
- by the name without its extension, when that is long;
- by each long word in it (uuid with and without dashes, digest, also one cut by slashes), whoever
  else has it: a row that names a folder keeps what lies below; but not by that of a folder whose
  files are named one by one (`folders_of_many`), where only a value that says more means them;
- by each folder above it: a value that goes on from there names the key while it may be a spelling
  of the way to it, whether it ends above the key (a folder) or leaves a part open (a template);
- by the name of a file that is a folder of its key: `variants/t/cat.jpg/100.webp`;

and each of these as it is, percent-encoded, escaped as JSON (once and twice) and as HTML, composed
and decomposed, in both cases.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias, TypeVar
from urllib.parse import quote, quote_plus, unquote, unquote_plus

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

SHORTEST_NAME = 6
"""Characters. A shorter name is looked for with its folder in front."""

LONG = 12
"""Characters. A shorter name must not be the end of a longer one; from here on, it says enough."""

UNMISTAKABLE = 24
"""Characters. A name as long as this is the same file in whatever folder it stands."""

FEWEST_BESIDE = 10
SHARE_BESIDE = 9
"""References in a folder, and for each candidate there, from which on its files are named one by
one: a tenant's number then says nothing of them. What is derived without a row has none of its own
beside it, or too few."""

LONGEST_CONTEXT = 400
"""Bytes before and after a hit that are looked at."""

_Text = TypeVar("_Text", str, bytes)
Layer: TypeAlias = tuple[bytes, str]
"""A folder, and a way below it (`way_below`)."""

_PLAIN = re.compile(r"[A-Za-z0-9._~/-]+")
_LETTER = re.compile(r"[^\W\d_]")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_WORD = re.compile(r"[A-Za-z0-9]{16,}")
_CUT_DIGEST = re.compile(r"(?i)(?<![^/])(?:[0-9a-f]{1,8}/)+[0-9a-f]{16,}")
_HEX = re.compile(r"(?i)(?:[0-9a-f]{2}){16,64}")
_NO_PROSE = re.compile(r"\d|[a-z][A-Z]")
_MEDIA = re.compile(
    r"(?i)\.(?:avif|bmp|docx?|gif|heic|jpe?g|m4[av]|mkv|mov|mp[34]|ogg|pdf|png|svg|tiff?|wav|web[mp])\Z"
)
_DIGITS = re.compile(r"\d+")
_LONG_SEGMENT = 16
_SHORTEST_DIGEST = 32

TAIL, STEM, WORD, FOLDER = "name", "name without extension", "word", "folder"
"""What of a key a needle is."""

_SEPARATORS = (b"\\\\/", b"\\/", b"/", b"%252f", b"%2f", b"&#x2f;", b"&#47;", b"\\\\", b"\\")
_RUN = re.compile(rb"[0-9a-z._-]*")
_PLAIN_WAY = re.compile(
    rb"((?:/(?!\.{1,2}(?![0-9a-z._-]))[0-9a-z._-]+)+)(?:[\x00-\x20\"'<>?#,;|)}\]]|\Z)"
)
_RUN_AT_END = re.compile(rb"[0-9a-z._-]*\Z")
_ENDS_A_TOKEN = re.compile(rb"[\x00-\x20\"'`<>?#,;|(){}\[\]]|&(?:quot|amp|lt|gt|#x27|#39);")
# `seg_%03d.ts`, `seg_$Number$.m4s`, `thumb_*.jpg`, `:style/:name`; `thumb_{size}.jpg` ends a token.
_OPEN = re.compile(rb"\*|\$(?=[a-z0-9_(]|\Z)|%(?![0-9a-f]{2})|%[01][0-9a-f]|\A:(?=[a-z])")
# As code and expressions write a character: not the slash that a backslash may be.
_ESCAPED = re.compile(rb"\\+(?:x[0-9a-f]{2}|u[0-9a-f]{4}|[!#$()*+,.:;=?@\[\]^{|}~ -])")
_END_OF_LINE = re.compile(rb"\\+[nrt]")
_PLAYLISTS = (b".m3u8", b".mpd")
_IN_A_NAME = frozenset("-_")
_LONGEST_CHARACTER = 4
# What stands around a name, escaped: / \ " ' < > = & : , ; | ( [ { # ? and the ends of lines.
_ESCAPED_BEFORE = re.compile(
    rb"(?:%(?:25)?(?:2[23678cf]|3[abcdef]|5[bc]|7[bc]|0[9ad])|\\[nrt]|\\u00(?:2[267f]|3[cde]))\Z"
)


@dataclass(slots=True)
class Needle:
    """What a pattern says of the candidates that have it in common.

    Attributes:
        kind: Which part of their keys it is.
        before: The segment in front, where the pattern begins a segment that has one below what is
            owned; empty otherwise.
        keys: Candidates, by their place, of which it says enough by itself.
        by_rest: Candidates by the way that follows in their key, as far as each folder of it and
            to its end, of each segment how it begins (`_beginning`), with a slash in front: what
            goes on otherwise names another object below.
    """

    kind: str
    before: str
    keys: list[int] = field(default_factory=list)
    by_rest: dict[bytes, list[int]] = field(default_factory=dict)

    @property
    def is_spent(self) -> bool:
        """True when there is no candidate left that it could name."""
        return not self.keys and not self.by_rest

    def take(self, value: bytes, start: int, end: int) -> Iterable[int]:
        """Which candidates a hit names; none where it looks like them by accident.

        In doubt it names them: an object that is kept for nothing costs less than one that is lost.

        Args:
            value: What the column holds, with ASCII letters in lower case.
            start: Where the pattern stands in it.
            end: Where it ends.
        """
        if not self._stands_for_itself(value, start, end):
            return ()
        if self.before and end - start < UNMISTAKABLE:
            other = _segment_before(value, start)
            if other and not _may_end_as(other, self.before):
                return ()
        named, self.keys = self.keys, []
        if self.by_rest:
            for way in self._ways(value, start, end):
                named = [*named, *self.by_rest[way]]
                # With it goes all that lies below.
                del self.by_rest[way]
            if not self.by_rest.get(b""):
                self.by_rest = {}
        return named

    def _ways(self, value: bytes, start: int, end: int) -> list[bytes]:
        plain = _PLAIN_WAY.match(value, end)
        # Most values; the other way leads to the same, ten times as slowly.
        if plain and plain.end() - end < LONGEST_CONTEXT and not plain[1].endswith(_PLAYLISTS):
            way = plain[1] if self.kind != WORD else b"/" + plain[1].split(b"/", 2)[1]
            return [way] if way in self.by_rest else []
        rest, ways = _way_behind(value, start, end), [b""]
        for segment in rest[:1] if self.kind == WORD else rest:
            further = [b"/" + beginning for beginning in _may_begin_as(segment)]
            ways = [way + it for way in ways for it in further if way + it in self.by_rest]
        return ways

    def _stands_for_itself(self, value: bytes, start: int, end: int) -> bool:
        if self.kind == FOLDER:
            return _begins_a_name(value, start) and _ends_a_name(value, end)
        if self.kind == TAIL:
            if end - start < LONG and not _begins_a_name(value, start):
                return False
            if b"." in value[start:end].rpartition(b"/")[2]:
                return _ends_a_name(value, end, frozenset())
            return _ends_a_name(value, end)
        return True


class Needles:
    """What is searched for, for a number of candidates.

    Attributes:
        patterns: Bytes, with ASCII letters in lower case, each once.
        needles: Of each pattern, what it says.
        whole_only: Candidates that are looked for by their whole key alone: what else there is of
            their name says too little, or others have it too.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        owned: Sequence[bytes],
        of_many: Container[Layer] = (),
        *,
        of_rows: bool = False,
    ) -> None:
        """Find the forms.

        Args:
            keys: The candidates, each once.
            owned: The owned prefixes; the empty one owns the whole bucket.
            of_many: What `folders_of_many` has found.
            of_rows: True for keys that rows name: of a row the number alone, or the name of the
                file as somebody has uploaded it, stands in many others that do not mean its object.
        """
        prefixes = [prefix.decode("utf-8", "replace") for prefix in owned]
        names = [_Name(key.decode("utf-8", "replace"), prefixes) for key in keys]
        tails = Counter(tail for name in names for tail in name.tails)
        stems = Counter(name.stem for name in names if name.stem)
        found: dict[tuple[str, str, str], Needle] = {}
        self.whole_only = 0
        for place, name in enumerate(names):
            parts = list(name.whole(tails) if of_rows else name.parts(tails, stems, of_many))
            self.whole_only += all(text == name.key for text, kind, *_ in parts if kind != FOLDER)
            for text, kind, before, rest in parts:
                needle = found.get((text, kind, before))
                if needle is None:
                    needle = found[text, kind, before] = Needle(kind, before)
                # What is encoded in the key may stand decoded in a value.
                if not rest or "%" in rest[0]:
                    needle.keys.append(place)
                    continue
                for way in _ways(rest):
                    needle.by_rest.setdefault(way, []).append(place)
        by_pattern: dict[bytes, tuple[Needle, ...]] = {}
        for (text, kind, _), needle in found.items():
            only, forms = (needle,), forms_of(text)
            if kind == WORD and _HEX.fullmatch(text):
                # As a column of bytes holds it.
                forms.add(bytes.fromhex(text).lower())
            for form in forms:
                others = by_pattern.get(form)
                by_pattern[form] = only if others is None else (*others, needle)
        self.patterns = list(by_pattern)
        self.needles = list(by_pattern.values())


class _Name:
    """One key, taken apart."""

    def __init__(self, key: str, owned: Iterable[str]) -> None:
        self.key = key
        starts = [prefix for prefix in owned if key.startswith(prefix)]
        self.prefix = max(starts, key=len, default="")
        self._segments = key[len(self.prefix) :].split("/")
        self.tails = list(dict.fromkeys(self._tails()))
        stem = self._segments[-1].split(".", 1)[0]
        long = len(stem) >= (LONG if _LETTER.search(stem) else _LONG_SEGMENT)
        self.stem = stem if long else ""

    def _tails(self) -> Iterator[str]:
        """From the last segment to the whole key; those that say too little are left out."""
        segments = self._segments
        for start in range(len(segments) - 1, 0, -1):
            tail = "/".join(segments[start:])
            if _says_something(tail):
                yield tail
        below = "/".join(segments)
        if below != self.key and _says_something(below):
            yield below
        yield self.key

    def parts(
        self, tails: Counter[str], stems: Counter[str], of_many: Container[Layer]
    ) -> Iterator[tuple[str, str, str, list[str]]]:
        """(text, kind, segment in front, segments behind) of everything to look for."""
        last, words = len(self._segments) - 1, list(self._words())
        crowded = {place for place, layer in self.layers() if layer in of_many}
        for place, word, after in words:
            if place not in crowded:
                yield word, WORD, "", [after] if after else []
            elif after:
                # Apart from the word alone, which says nothing here.
                yield f"{word}/{after}", FOLDER, "", self._segments[place + 2 :]
        for place in crowded:
            yield from self._as_folder(place)
        # Whatever holds the last segment then holds its word.
        if not any(place == last for place, *_ in words):
            tail = next((it for it in self.tails if tails[it] == 1), self.key)
            yield tail, TAIL, self._in_front_of(tail), []
            if self.stem and stems[self.stem] == 1:
                yield self.stem, STEM, self._segments[-2] if last else "", []
        yield from self._folders({word for _, word, _ in words})

    def whole(self, tails: Counter[str]) -> Iterator[tuple[str, str, str, list[str]]]:
        """The same for a key that a row names: the key below the prefix, and its folders."""
        below = "/".join(self._segments)
        is_word = _UUID.fullmatch(below) or _WORD.fullmatch(below)
        said = below in self.tails and tails[below] == 1 and not is_word
        yield (below if said else self.key), TAIL, "", []
        yield from self._folders({word for _, word, _ in self._words()})

    def _as_folder(self, place: int) -> Iterator[tuple[str, str, str, list[str]]]:
        """How a value means all that lies below a folder, by more than the word in its name."""
        yield f"{self._segments[place]}/", FOLDER, "", []
        above = self.prefix + "".join(f"{segment}/" for segment in self._segments[:place])
        if above:
            rest = self._segments[place + 1 :]
            yield f"{above}{self._segments[place]}", FOLDER, "", rest

    def _folders(self, words: Container[str]) -> Iterator[tuple[str, str, str, list[str]]]:
        for place in range(len(self._segments) - 1):
            if self._segments[place] in words:
                continue
            folder = "/".join(self._segments[: place + 1])
            rest = self._segments[place + 1 :]
            if "/" in folder and _says_something(folder):
                yield folder, FOLDER, "", rest
            elif self.prefix:
                yield self.prefix + folder, FOLDER, "", rest
            if place and _MEDIA.search(self._segments[place]):
                # A folder of what is derived from a file of that name.
                start = place - (not _says_something(self._segments[place]))
                name = "/".join(self._segments[start : place + 1])
                before = self._segments[start - 1] if start > 1 else ""
                if start and _says_something(name):
                    yield name, FOLDER, before, rest

    def layers(self) -> Iterator[tuple[int, Layer]]:
        """Each folder with a long word in its name: its place, and the layer of the key below."""
        for place in sorted({place for place, *_ in self._words()} - {len(self._segments) - 1}):
            folder = self.prefix + "/".join(self._segments[: place + 1]) + "/"
            yield place, (folder.encode(), way_below("/".join(self._segments[place + 1 :])))

    def _in_front_of(self, tail: str) -> str:
        count = tail.count("/") + 1
        return self._segments[-count - 1] if count < len(self._segments) else ""

    def _words(self) -> Iterator[tuple[int, str, str]]:
        """(place of the segment, word, segment behind) of every long word."""
        last = len(self._segments) - 1
        for place, segment in enumerate(self._segments):
            behind = self._segments[place + 1] if place < last else ""
            found: dict[str, str] = {}
            for match in _UUID.finditer(segment):
                after = behind if match.end() == len(segment) else ""
                found[match[0]] = found[match[0].replace("-", "")] = after
            rest = _UUID.sub("/", segment)
            for match in _WORD.finditer(rest):
                word = match[0]
                if _NO_PROSE.search(word):
                    after = behind if rest.endswith(word) else ""
                    found[word] = after
                    if len(word) == _SHORTEST_DIGEST and _HEX.fullmatch(word):
                        found[_with_dashes(word)] = after
            if place < last and len(segment) >= _LONG_SEGMENT and _NO_PROSE.search(segment):
                found.setdefault(segment, behind)
            yield from ((place, word, after) for word, after in found.items())
        for match in _CUT_DIGEST.finditer("/".join(self._segments)):
            joined = match[0].replace("/", "")
            if len(joined) >= _SHORTEST_DIGEST:
                yield last, joined, ""
                if len(joined) == _SHORTEST_DIGEST:
                    yield last, _with_dashes(joined), ""


def way_below(below: str) -> str:
    """The folders of the way from a folder to a key, with anything for numbers and long words."""
    folders = below.rpartition("/")[0]
    return _DIGITS.sub("0", _WORD.sub("*", _UUID.sub("*", folders))) if folders else ""


def folders_of_many(
    candidates: Sequence[bytes],
    step: int,
    references: Iterator[Sequence[bytes]],
    owned: Sequence[bytes],
) -> set[Layer]:
    """Folders with a long word in their name whose files the sources name one by one.

    Only what lies the same way below counts: originals say nothing of what is derived from them.

    Args:
        candidates: A sample of what no source names.
        step: For how many each of them stands.
        references: Blocks of the keys that sources name, in order, each once.
        owned: The owned prefixes.
    """
    prefixes = [prefix.decode("utf-8", "replace") for prefix in owned]
    there = Counter(
        layer
        for key in candidates
        for _, layer in _Name(key.decode("utf-8", "replace"), prefixes).layers()
    )
    missing: dict[bytes, dict[str, int]] = {}
    for (folder, way), count in there.items():
        most = max(FEWEST_BESIDE, SHARE_BESIDE * count * step)
        missing.setdefault(folder, {})[way] = most
    folders, found = sorted(missing), set[Layer]()
    for block in references if folders else ():
        # The zero comes right behind the slash.
        folders = [it for it in folders if missing[it] and it[:-1] + b"0" > block[0]]
        for folder in folders[: bisect_right(folders, block[-1])]:
            left = missing[folder]
            start = bisect_left(block, folder)
            for key in block[start : bisect_left(block, folder[:-1] + b"0", start)]:
                way = way_below(key[len(folder) :].decode("utf-8", "replace"))
                if way in left:
                    left[way] -= 1
                    if not left[way]:
                        del left[way]
                        found.add((folder, way))
                        if not left:
                            break
    return found


def words_of(key: str) -> set[str]:
    """Every long word of a key, in lower case, by which a value may name it."""
    return {word.lower() for _, word, _ in _Name(key, ())._words()}  # noqa: SLF001


def _says_something(text: str) -> bool:
    return len(text) >= (SHORTEST_NAME if _LETTER.search(text) else _LONG_SEGMENT)


def _with_dashes(word: str) -> str:
    return "-".join((word[:8], word[8:12], word[12:16], word[16:20], word[20:]))


def forms_of(text: str) -> set[bytes]:
    """How else a value may spell a part of a key; ASCII letters are in lower case.

    Args:
        text: The part, as the key has it.
    """
    if _PLAIN.fullmatch(text):
        plain = text.encode().lower()
        return {plain.replace(b"/", slash) for slash in _SEPARATORS} if b"/" in plain else {plain}
    spelled = {text, unquote(text), unquote_plus(text)}
    if not text.isascii():
        for each in list(spelled):
            for form in ("NFC", "NFD"):
                composed = unicodedata.normalize(form, each)
                spelled |= {composed, composed.lower(), composed.upper()}
    return {form.encode("utf-8", "replace").lower() for each in spelled for form in _encoded(each)}


def _encoded(text: str) -> Iterator[str]:
    yield text
    percent = quote(text)
    yield from (percent, quote(text, safe=""), quote(percent, safe="/"), quote(percent, safe=""))
    yield from (quote_plus(text), quote_plus(text, safe="/"))
    # As encodeURIComponent and encodeURI leave them.
    yield from (quote(text, safe="!'()*"), quote(text, safe="/!'()*;,?:@&=+$#"))
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        for escaped in (once, once.replace("/", "\\/")):
            yield escaped
            yield json.dumps(escaped, ensure_ascii=ascii_only)[1:-1]
    for with_quotes in (True, False):
        html = escape(text, quote=with_quotes)
        yield from (html, html.replace("&#x27;", "&#39;"))
        yield html.encode("ascii", "xmlcharrefreplace").decode()
        yield html.replace("/", "&#x2F;")
    yield from (text.replace("/", "\\"), text.replace("/", "\\\\"))


def _begins_a_name(value: bytes, start: int) -> bool:
    """False where the needle is the end of a longer name."""
    before = value[max(0, start - _LONGEST_CHARACTER) : start].decode("utf-8", "ignore")[-1:]
    if not before.isalnum() and before not in _IN_A_NAME:
        return True
    return _ESCAPED_BEFORE.search(value, max(0, start - 8), start) is not None


def _ends_a_name(value: bytes, end: int, also: frozenset[str] = _IN_A_NAME) -> bool:
    """False where the needle is the beginning of a longer name."""
    after = value[end : end + _LONGEST_CHARACTER].decode("utf-8", "ignore")[:1]
    return not after.isalnum() and after not in also


def _segment_before(value: bytes, start: int) -> bytes:
    """The segment in front of a place, when a slash stands between; empty otherwise."""
    before = value[max(0, start - LONGEST_CONTEXT) : start]
    for separator in _SEPARATORS:
        if before.endswith(separator):
            token = before[: -len(separator)]
            ends = [match.end() for match in _ENDS_A_TOKEN.finditer(token)]
            return _apart(token[ends[-1] if ends else 0 :])[-1]
    return b""


def _way_behind(value: bytes, start: int, end: int) -> list[bytes]:
    """The segments behind a needle, when a slash stands between, as far as the value says them."""
    behind, needle = value[end : end + LONGEST_CONTEXT], value[start:end]
    if b"/" in needle or b"\\" not in needle:
        # Where folders are not cut by backslashes, this is the end of a line in JSON.
        behind = _END_OF_LINE.split(behind, maxsplit=1)[0]
    separator = next(filter(behind.startswith, _SEPARATORS), None)
    if separator is None:
        return []
    whole = _ESCAPED.sub(b"\xff", behind[len(separator) :])
    over = _ENDS_A_TOKEN.search(whole)
    segments = _apart(whole[: over.start()] if over else whole)
    if over[0] == b"{" if over else len(behind) == LONGEST_CONTEXT:
        segments.pop()
    is_open = (place for place, segment in enumerate(segments) if _OPEN.search(segment))
    segments = segments[: next(is_open, len(segments))]
    if segments and segments[-1].endswith(_PLAYLISTS):
        # It is read together with what lies beside and below it.
        segments.pop()
    return _resolved(segments, b".", b"..")


def _apart(token: bytes) -> list[bytes]:
    for separator in _SEPARATORS:
        token = token.replace(separator, b"/")
    return token.split(b"/")


def _resolved(segments: list[_Text], here: _Text, above: _Text) -> list[_Text]:
    """The segments without those that lead nowhere: `//`, `/./`, `/x/../`."""
    found: list[_Text] = []
    for segment in segments:
        if segment == above and found:
            found.pop()
        elif segment and segment != here:
            found.append(segment)
    return found


def _ways(rest: list[str]) -> set[bytes]:
    """What of a way a value may say (`Needle.by_rest`); what is encoded may stand decoded."""
    joined = "/".join(rest)
    found = {b""}
    for spelled in {joined, unquote(joined)}:
        segments = map(_beginning, _resolved(spelled.split("/"), ".", ".."))
        found.update(accumulate(b"/" + segment for segment in segments))
    return found


def _beginning(segment: str) -> bytes:
    """What every spelling of a segment begins with: letters, digits and marks of ASCII.

    The last letter before one that is not ASCII may be composed with that.
    """
    raw = unicodedata.normalize("NFD", segment).encode().lower()
    run = _RUN.match(raw)
    end = run.end() if run else 0
    return raw[: max(0, end - 1)] if raw[end : end + 1] >= b"\x80" else raw[:end]


def _may_begin_as(spelled: bytes) -> Iterator[bytes]:
    """Which `_beginning` the segment may have that is spelled so."""
    run = _RUN.match(spelled)
    end = run.end() if run else 0
    yield spelled[:end]
    if end and end < len(spelled):
        yield spelled[: end - 1]


def _may_end_as(spelled: bytes, segment: str) -> bool:
    """Whether what is spelled so may be the segment."""
    raw = unicodedata.normalize("NFD", segment).encode().lower()
    found, wanted = (
        it[match.start() :] if (match := _RUN_AT_END.search(it)) else b"" for it in (spelled, raw)
    )
    if wanted == raw and spelled[: len(spelled) - len(found)][-1:] not in (b"%", b"\\"):
        return found == wanted
    return "%" in segment or found.endswith(wanted)
