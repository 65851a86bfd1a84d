"""Which columns name keys, and how their values become keys: learnt from samples of both sides.

Pieces of listed keys (the key, its tails, its folders, its long words) are kept as sorted hashes:
eight bytes each. Each value is taken apart, and its pieces are looked up, the longest first. What
was found is put together by column, place in its JSON and kind: a `Lead`.
"""

from __future__ import annotations

import json
import re
from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from filejobs_dagster.references.elsewhere.forms import words_of
from filejobs_dagster.references.near import MOST_BYTES_OF_A_LIST, pieces
from filejobs_dagster.references.transforms import percent_decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from filejobs_dagster.references.elsewhere.columns import Table

MOST_KEYS = 1 << 20
"""Of an index."""

Kind = Literal["key", "suffix", "name", "folder", "word"]
How = tuple[str, ...]

PART, DROP_QUERY, PERCENT_DECODE = "part", "drop_query", "percent_decode"
"""Steps from a value to a piece: cut out of a longer text; without query and fragment; decoded."""

WHOLE, NAMES = "", ".<name>"
LIST = "[]"
_LONGEST = 1100
_SHORTEST_PART = 6
_MOST_PARTS = 2000
_MOST_SEGMENTS = 12
_TOO_COMMON = 50
_HASH, _PLACE = (1 << 44) - 1, 20
_EDGES = b" \t\r\n\xef\xbb\xbf\xc2\xa0"
_LONG_TEXT = re.compile(rb"[\s\"'<>|,;=()\\]")
_WORDS = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9A-Za-z]{16,}")
_SEGMENT = re.compile(rb"[^/]{16,}")
_EXTENSION = re.compile(rb"(?<=[^/])\.[^./]{1,8}\Z")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KEY_LIKE = re.compile(r"[0-9]+\Z|.*[/.]|[0-9a-f-]{16,}\Z", re.DOTALL)
_DEPTH = 3
_STRONG = 12
_MOST_CONSTANTS = 3
_MOST_OF = 0.9
_FEW = 3


def bare(name: bytes) -> bytes:
    """A key or a name without its extension; `.htaccess` has none."""
    return _EXTENSION.sub(b"", name)


def says_enough(core: bytes) -> bool:
    """Whether a piece is unlikely to meet a key by accident."""
    return (
        len(core) >= _SHORTEST_PART
        and not core.isdigit()
        and len(set(core)) > _FEW
        and (b"." in core or b"/" in core or len(core) >= _STRONG)
    )


def words(piece: bytes) -> Iterator[bytes]:
    """The long words of a value, as `words_of` spells those of a key."""
    for match in _WORDS.finditer(piece):
        yield match[0].lower()
    for match in _SEGMENT.finditer(piece):
        yield match[0].lower()


def leaves(value: str) -> Iterator[tuple[str, str]]:
    """(path, text) of what a value holds: the texts and names of its JSON, else the whole.

    JSON inside of a text of JSON goes on behind `::`.
    """
    yield from _leaves(value, WHOLE, 0)


def _leaves(value: str, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if depth <= _DEPTH and value[:1] in ("{", "[", '"') and value[-1:] in ("}", "]", '"'):
        try:
            tree = json.loads(value)
        except ValueError:
            tree = value
        if not isinstance(tree, str) or depth == 0:
            yield from _below(tree, f"{path}::$" if path else "$", depth + 1)
            return
    yield path, value


def _below(tree: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(tree, dict):
        for name, below in tree.items():
            yield path + NAMES, name
            step = ".*" if _KEY_LIKE.match(name) else f".{_step(name)}"
            yield from _below(below, path + step, depth)
    elif isinstance(tree, list):
        for below in tree:
            yield from _below(below, f"{path}[*]", depth)
    elif isinstance(tree, str):
        yield from _leaves(tree, path, depth)


def _step(name: str) -> str:
    return name if _IDENTIFIER.match(name) else json.dumps(name)


def spelled(text: bytes) -> Iterator[tuple[How, bytes]]:
    """(steps, piece) of everything in a text that may be a key, the whole first."""
    whole = text.strip(_EDGES)
    found: dict[bytes, How] = {}
    if len(whole) <= _LONGEST:
        found[whole] = ()
    if _LONG_TEXT.search(whole):
        for piece in pieces(whole):
            if _SHORTEST_PART <= len(piece) <= _LONGEST and len(found) < _MOST_PARTS:
                found.setdefault(piece, (PART,))
    for piece, how in list(found.items()):
        yield how, piece
        for steps, plain in _undressed(piece):
            if plain and plain not in found:
                yield (*how, *steps), plain


def _undressed(piece: bytes) -> Iterator[tuple[How, bytes]]:
    """What an address may hide."""
    if b"%" in piece:
        yield (PERCENT_DECODE,), percent_decoded(piece)
    if b"?" in piece or b"#" in piece:
        cut = re.split(rb"[?#]", piece, maxsplit=1)[0]
        yield (DROP_QUERY,), cut
        if b"%" in cut:
            yield (DROP_QUERY, PERCENT_DECODE), percent_decoded(cut)


def tails(piece: bytes) -> Iterator[tuple[int, bytes]]:
    """(place, tail) from each of the first segments on, the longest first."""
    at, count = 0, 0
    while count <= _MOST_SEGMENTS:
        yield at, piece[at:]
        at = piece.find(b"/", at) + 1
        if not at:
            return
        count += 1


@dataclass(frozen=True)
class Hit:
    """What a piece has met.

    Attributes:
        kind: How the piece stands in the key.
        core: What both have in common.
        strip: What stands before it in the piece.
        of: (place of the key, what stands before and behind in the key) of each.
    """

    kind: Kind
    core: bytes
    strip: bytes
    of: tuple[tuple[int, bytes, bytes], ...]


class Index:
    """The pieces of a sample of the listed keys."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """Take the keys apart.

        Args:
            keys: At most `MOST_KEYS`.
        """
        self.keys = keys
        names, folders, parts = array("Q"), dict[int, int](), array("Q")
        for place, key in enumerate(keys):
            for start, tail in tails(key):
                names.append(_packed(tail, place))
                short = bare(tail)
                if short != tail:
                    names.append(_packed(short, place))
                for end in _slashes(tail):
                    if says_enough(tail[:end]):
                        packed = _packed(tail[:end], place)
                        folders.setdefault(packed >> _PLACE, packed)
                del start
            for word in words_of(key.decode("utf-8", "replace")):
                parts.append(_packed(word.encode(), place))
        self._names, self._words = (array("Q", sorted(each)) for each in (names, parts))
        self._folders = array("Q", sorted(folders.values()))

    def find(self, piece: bytes) -> Hit | None:
        """The longest tail of a piece that is a part of a key, else a word; None when none is."""
        for at, tail in tails(piece):
            core = tail.rstrip(b"/")
            if not core:
                break
            hit = self._name(core, piece[:at]) or self._folder(core, piece[:at])
            if hit is not None:
                return hit
        for word in words(piece):
            places = self._places(self._words, word)
            if places:
                of = []
                for place in places:
                    key = self.keys[place]
                    start = key.lower().find(word)
                    known = start >= 0
                    before, behind = key[: max(start, 0)], key[start + len(word) :]
                    of.append((place, before, behind) if known else (place, b"?", b"?"))
                at = piece.lower().find(word)
                return Hit("word", word, piece[:at], tuple(of))
        return None

    def _name(self, core: bytes, strip: bytes) -> Hit | None:
        by_kind: dict[Kind, list[tuple[int, bytes, bytes]]] = {}
        short = bare(core)
        for form in (core,) if short == core or not says_enough(short) else (core, short):
            for place in self._places(self._names, form):
                key = self.keys[place]
                if key == core:
                    by_kind.setdefault("key", []).append((place, b"", b""))
                elif key.endswith(b"/" + core):
                    by_kind.setdefault("suffix", []).append((place, key[: -len(core)], b""))
                else:
                    stem = bare(key)
                    if stem == form or stem.endswith(b"/" + form):
                        front = stem[: len(stem) - len(form)]
                        by_kind.setdefault("name", []).append((place, front, key[len(stem) :]))
            for kind in ("key", "suffix", "name"):
                if kind in by_kind:
                    return Hit(kind, form, strip, tuple(by_kind[kind]))
        return None

    def _folder(self, core: bytes, strip: bytes) -> Hit | None:
        of = []
        for place in self._places(self._folders, core):
            key = self.keys[place]
            at = 0 if key.startswith(core + b"/") else key.find(b"/" + core + b"/") + 1
            if at or key.startswith(core + b"/"):
                of.append((place, key[:at], key[at + len(core) :]))
        return Hit("folder", core, strip, tuple(of)) if of else None

    def _places(self, where: array[int], text: bytes) -> list[int]:
        least = (hash(text) & _HASH) << _PLACE
        at = bisect_left(where, least)
        found: list[int] = []
        while at < len(where) and where[at] >> _PLACE == least >> _PLACE:
            found.append(where[at] & (MOST_KEYS - 1))
            if len(found) > _TOO_COMMON:
                return []
            at += 1
        return found


def _packed(text: bytes, place: int) -> int:
    return (hash(text) & _HASH) << _PLACE | place


def _slashes(text: bytes) -> Iterator[int]:
    at = text.find(b"/")
    while at > 0:
        yield at
        at = text.find(b"/", at + 1)


@dataclass
class Lead:
    """A column, a place in its values and a kind of hit: perhaps a source.

    Attributes:
        table: Where the column is.
        place: Of the column in the table.
        path: In its JSON.
        kind: How its pieces stand in keys.
        keys: Places of the sampled keys that it named.
        cores: What values and keys had in common.
        values: Hashes of the values that named something.
        of: How many different values were looked at.
        hows: Steps from value to piece, counted.
        strips: What stands before the core in pieces, counted.
        fronts: What stands before it in keys, counted.
        behinds: What stands behind it in keys, counted.
        sample: A value, and the key that it named.
        unsure: Why it is not believed, None when it is.
    """

    table: Table
    place: int
    path: str
    kind: Kind
    keys: set[int] = field(default_factory=set)
    cores: set[bytes] = field(default_factory=set)
    values: set[int] = field(default_factory=set)
    of: int = 0
    hows: Counter[How] = field(default_factory=Counter)
    strips: Counter[bytes] = field(default_factory=Counter)
    fronts: Counter[bytes] = field(default_factory=Counter)
    behinds: Counter[bytes] = field(default_factory=Counter)
    sample: tuple[str, str] = ("", "")
    unsure: str | None = None

    def take(self, how: How, text: bytes, hit: Hit, keys: Sequence[bytes]) -> None:
        """Note a hit."""
        if not self.keys:
            shown = text if len(text) < _LONGEST else hit.strip + hit.core
            self.sample = (
                shown.decode("utf-8", "replace"),
                keys[hit.of[0][0]].decode("utf-8", "replace"),
            )
        for place, front, behind in hit.of:
            self.keys.add(place)
            self.fronts[front] += 1
            self.behinds[behind] += 1
        self.cores.add(hit.core)
        self.values.add(hash(text))
        self.hows[how] += 1
        self.strips[hit.strip] += 1

    @property
    def column(self) -> str:
        """`schema.table.column`."""
        return self.table.column(self.place)

    @property
    def front(self) -> tuple[bytes, ...] | None:
        """What stands in front in keys, when that is one of few; None when it varies."""
        return constants(self.fronts)

    @property
    def strip(self) -> tuple[bytes, ...] | None:
        """What stands in front in values, when that is one of few; None when it varies."""
        return constants(self.strips)

    @property
    def is_exact(self) -> bool:
        """Whether its values become whole keys."""
        if self.kind == "key":
            return True
        if self.front is None:
            return False
        return self.kind == "suffix" or (self.kind == "word" and self.ending is not None)

    @property
    def ending(self) -> bytes | None:
        """What stands behind the word in every key; None when it varies, or is not known."""
        found = constants(self.behinds, 1)
        known = found is not None and b"?" not in found and b"?" not in (self.front or ())
        return found[0] if known and found and b"/" not in found[0] else None

    @property
    def is_believable(self) -> bool:
        """Whether it is more than an accident.

        Nobody types one whole key by chance; of anything weaker there must be several, or what
        stands before it in the keys must be the same.
        """
        good = sum(map(says_enough, self.cores))
        if self.kind == "key":
            return good > 0
        shared = sum(n for _, n in self.fronts.most_common(_MOST_CONSTANTS))
        is_constant = shared >= 0.8 * self.fronts.total()
        return good >= _FEW or (good > 0 and is_constant)

    @property
    def is_few(self) -> bool:
        """Whether what it named may be an accident."""
        few = len(self.cores) < _FEW and len(self.keys) < _FEW
        return few and 2 * len(self.values) < max(self.of, 1)

    @property
    def is_ambiguous(self) -> bool:
        """Whether the same name lies in several folders, and no value says in which."""
        several = len(self.keys) > 1.5 * len(self.cores)
        return self.kind in ("suffix", "name") and self.front is None and several

    @property
    def depth(self) -> float:
        """How many segments its cores have."""
        return sum(core.count(b"/") + 1 for core in self.cores) / max(len(self.cores), 1)

    @property
    def length(self) -> float:
        """Bytes of its cores: of two that name the same, the one that says more of it is meant."""
        return sum(map(len, self.cores)) / max(len(self.cores), 1)

    def texts(self, value: str) -> Iterator[bytes]:
        """What stands at its place in a value."""
        if self.path == WHOLE:
            yield value.encode("utf-8", "surrogateescape")
        elif self.path == LIST:
            yield from (each.encode("utf-8", "surrogateescape") for each in value.split("\n"))
        else:
            for path, text in leaves(value):
                if path == self.path:
                    yield text.encode("utf-8", "surrogateescape")

    def cores_of(self, text: bytes) -> Iterator[bytes]:
        """What may be common with a key: pieces by the steps that were seen, without their front.

        Of a kind that has no front of its own in values, all tails.
        """
        plain = self.hows.keys() == {()}
        strips = self.strip
        for how, piece in [((), text.strip(_EDGES))] if plain else spelled(text):
            if how not in self.hows:
                continue
            if self.kind == "word":
                yield from words(piece)
            elif strips is None:
                yield from (tail for _, tail in tails(piece))
            else:
                for strip in strips:
                    if piece.startswith(strip):
                        yield piece[len(strip) :]

    def all_names(self, values: Iterable[str | None]) -> set[bytes]:
        """What these values name.

        Whole keys where it is exact; otherwise what `anchors` make of the keys.
        """
        if self.path == WHOLE and self.kind != "word" and self.hows.keys() == {()}:
            texts: Iterable[bytes] = {
                value.encode("utf-8", "surrogateescape").strip(_EDGES) for value in values if value
            }
            if self.strips.keys() == {b""}:
                if self.kind == "key":
                    return set(texts) - {b""}
                if self.kind == "suffix" and self.front is not None:
                    return {front + text for front in self.front for text in texts if text}
        else:
            texts = {text for value in values if value for text in self.texts(value)}
        return {
            name for text in texts for core in self.cores_of(text) for name in self._names(core)
        }

    def _names(self, core: bytes) -> Iterable[bytes]:
        if self.kind == "key":
            return (core,)
        core = core.rstrip(b"/")
        if not core:
            return ()
        front = self.front
        if self.is_exact and front is not None:
            ending = self.ending if self.kind == "word" else b""
            return tuple(each + core + (ending or b"") for each in front)
        if self.kind == "word":
            return (core,)
        if self.kind == "name":
            core = bare(core)
        return (core,) if front is None else tuple(each + core for each in front)

    def anchors(self, key: bytes) -> Iterable[bytes]:
        """What of a key may be what `names` gives, for a lead that is not exact."""
        if self.kind == "word":
            return [word.encode() for word in words_of(key.decode("utf-8", "replace"))]
        front = self.front
        if front is not None and not key.startswith(front):
            return ()
        if self.kind == "folder":
            if front is not None:
                return [key[:end] for end in _slashes(key)]
            return [tail[:end] for _, tail in tails(key) for end in _slashes(tail)]
        whole = bare(key) if self.kind == "name" else key
        if front is not None:
            return (whole,)
        return [tail for _, tail in tails(whole) if says_enough(tail) or b"/" in tail]


def constants(counted: Counter[bytes], most: int = _MOST_CONSTANTS) -> tuple[bytes, ...] | None:
    """The few values that nearly all have, else None."""
    common = counted.most_common(most)
    if sum(count for _, count in common) < _MOST_OF * counted.total():
        return None
    return tuple(value for value, _ in common)


class Learner:
    """Collects the leads of all columns."""

    def __init__(self, index: Index) -> None:
        """Begin with nothing."""
        self._index = index
        self._leads: dict[tuple[str, str, Kind], Lead] = {}

    def read(self, table: Table, place: int, values: Iterable[str]) -> None:
        """Take the values of a column apart."""
        seen: dict[str, set[int]] = {}
        is_list = table.columns[place].kind.startswith("array of ")
        for value in values:
            found = ((LIST, each) for each in value.split("\n")) if is_list else leaves(value)
            for path, text in found:
                known = seen.setdefault(path, set())
                hashed = hash(text)
                if hashed not in known:
                    known.add(hashed)
                    self._take(table, place, path, text.encode("utf-8", "surrogateescape"))
        for (column, path, _), lead in self._leads.items():
            if column == table.column(place) and path in seen:
                lead.of += len(seen[path])

    def _take(self, table: Table, place: int, path: str, text: bytes) -> None:
        done: set[bytes] = set()
        for how, piece in spelled(text):
            if len(piece) < _FEW + 1:
                continue
            hit = self._index.find(piece)
            if (
                hit is None
                or hit.core in done
                or (hit.kind == "word" and len(text) > _LONGEST * 20)
            ):
                continue
            if PART in how and len(text) > MOST_BYTES_OF_A_LIST and not says_enough(hit.core):
                continue
            done.add(hit.core)
            which = (table.column(place), path, hit.kind)
            lead = self._leads.get(which)
            if lead is None:
                lead = self._leads[which] = Lead(table, place, path, hit.kind)
            lead.take(how, text, hit, self._index.keys)

    def leads(self) -> list[Lead]:
        """Those that are more than an accident."""
        return [lead for lead in self._leads.values() if lead.is_believable]
