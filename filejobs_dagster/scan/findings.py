"""From what was counted to the document: amounts by class, and lines for the settings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.references.elsewhere.search import quoted
from filejobs_dagster.scan.learning import (
    DROP_QUERY,
    LIST,
    NAMES,
    PART,
    PERCENT_DECODE,
    WHOLE,
)
from filejobs_dagster.scan.result import CLASSES, Amount, Shape, Slice, Source, Unsure
from filejobs_dagster.scan.shapes import general
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from filejobs_dagster.objects.listing.page import Page
    from filejobs_dagster.scan.learning import Lead
    from filejobs_dagster.scan.scanning import Counts
    from filejobs_dagster.scan.shapes import Learnt

MOST_PREFIXES = 40
MOST_LABELS = 5000
MOST_SHOWN = 5
TOP, OTHERS = "(no folder)", "(others)"
_DAY = 86_400_000
_KEPT_FOLDERS = 100_000
_VARIES = re.compile(r"(?=.*[0-9])(?:[0-9a-f-]{8,}|[0-9]+|[0-9a-f]{1,3}|[0-9A-Za-z_-]{20,})")
_AGES = (
    (2, "under 2 days"),
    (30, "under 30 days"),
    (90, "under 90 days"),
    (365, "under a year"),
    (3 * 365, "under 3 years"),
)
_OLDEST, _AGELESS = "3 years and more", "of unknown age"
_LEVELS = 2
_MOST_RULES = 3
_UNSURE, _UNREFERENCED = CLASSES.index("unsure"), CLASSES.index("unreferenced")
_TEXT_TYPES = ("text", "character varying", "character")


class Tally:
    """Amounts by class, prefix, month and age, counted in one pass."""

    def __init__(self, now: datetime) -> None:
        """Begin with nothing.

        Args:
            now: From which ages count.
        """
        self._now = round(now.timestamp() * 1000)
        self._labels: dict[bytes, str] = {}
        self._known: set[str] = set()
        self._by_label: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0])
        self._by_day: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
        self._unsure: dict[str, tuple[list[int], str]] = {}
        self._sample: list[str] = []

    def add(
        self, page: Page, states: bytes, classes: bytes, why: Callable[[int, bytes], str]
    ) -> None:
        """Count a page.

        Args:
            page: The objects.
            states: Of each.
            classes: Of each state, the place of its class in `CLASSES`.
            why: Says of a state and a key why it is unsure.
        """
        by_label, by_day, labels = self._by_label, self._by_day, self._labels
        rows = zip(
            page.keys, page.sizes, page.modified, states, states.translate(classes), strict=True
        )
        for key, size, modified, state, what in rows:
            folder = key[: key.rfind(b"/") + 1]
            cell = by_label[labels.get(folder) or self._label(folder), what]
            cell[0] += 1
            cell[1] += size
            cell = by_day[modified // _DAY if modified >= 0 else -1, what]
            cell[0] += 1
            cell[1] += size
            if what == _UNSURE:
                self._note(why(state, key), key, size)
            elif what == _UNREFERENCED and len(self._sample) < MOST_SHOWN:
                self._sample.append(_shown(key))

    def guess(self, amount: Amount, why: str) -> None:
        """Count what was seen and not looked at."""
        for cells in (self._by_label[OTHERS, _UNSURE], self._by_day[-1, _UNSURE]):
            cells[0], cells[1] = amount.objects, amount.bytes
        self._unsure[why] = ([amount.objects, amount.bytes], "")

    def _label(self, folder: bytes) -> str:
        text = folder.decode("utf-8", "replace")
        parts = ["*" if _VARIES.fullmatch(it) else it for it in text.split("/")[:-1][:_LEVELS]]
        label = display_key("/".join(parts) + "/", 60) if parts else TOP
        if label not in self._known and len(self._known) >= MOST_LABELS:
            label = OTHERS
        self._known.add(label)
        if len(self._labels) >= _KEPT_FOLDERS:
            self._labels.clear()
        self._labels[folder] = label
        return label

    def _note(self, why: str, key: bytes, size: int) -> None:
        noted = self._unsure.get(why)
        if noted is None:
            noted = self._unsure[why] = ([0, 0], _shown(key))
        noted[0][0] += 1
        noted[0][1] += size

    @property
    def unreferenced_sample(self) -> tuple[str, ...]:
        """A few keys that nothing names."""
        return tuple(self._sample)

    def total(self) -> Slice:
        """All objects."""
        return _slice("all", [(what, cell) for (_, what), cell in self._by_label.items()])

    def prefixes(self) -> tuple[Slice, ...]:
        """By the first folders, the largest first."""
        found = self._slices((label, what, cell) for (label, what), cell in self._by_label.items())
        found.sort(key=lambda each: (-each.all.bytes, -each.all.objects, each.label))
        if len(found) <= MOST_PREFIXES:
            return tuple(found)
        rest = [
            (number, [each.of(what).objects, each.of(what).bytes])
            for each in found[MOST_PREFIXES:]
            for number, what in enumerate(CLASSES)
        ]
        return (*found[:MOST_PREFIXES], _slice(OTHERS, rest))

    def months(self) -> tuple[Slice, ...]:
        """By the month of the last change."""
        found = self._slices(
            (f"{datetime.fromtimestamp(day * 86400, timezone.utc):%Y-%m}", what, cell)
            for (day, what), cell in self._by_day.items()
            if day >= 0
        )
        return tuple(sorted(found, key=lambda each: each.label))

    def ages(self) -> tuple[Slice, ...]:
        """By age, the youngest first."""
        order = [*(label for _, label in _AGES), _OLDEST, _AGELESS]
        found = self._slices(
            (self._age(day), what, cell) for (day, what), cell in self._by_day.items()
        )
        return tuple(sorted(found, key=lambda each: order.index(each.label)))

    def _age(self, day: int) -> str:
        if day < 0:
            return _AGELESS
        days = self._now // _DAY - day
        return next((label for most, label in _AGES if days < most), _OLDEST)

    def _slices(self, cells: Iterable[tuple[str, int, list[int]]]) -> list[Slice]:
        by_label: dict[str, list[tuple[int, list[int]]]] = defaultdict(list)
        for label, what, cell in cells:
            by_label[label].append((what, cell))
        return [_slice(label, found) for label, found in by_label.items()]

    def unsure(self) -> tuple[Unsure, ...]:
        """The reasons, those of most bytes first."""
        found = [
            Unsure(why=why, objects=Amount(objects=cell[0], bytes=cell[1]), sample=sample)
            for why, (cell, sample) in self._unsure.items()
        ]
        return tuple(sorted(found, key=lambda each: -each.objects.bytes))


def _slice(label: str, cells: Iterable[tuple[int, Sequence[int]]]) -> Slice:
    sums = [[0, 0] for _ in CLASSES]
    for what, (objects, size) in cells:
        sums[what][0] += objects
        sums[what][1] += size
    amounts = {
        what: Amount(objects=objects, bytes=size)
        for what, (objects, size) in zip(CLASSES, sums, strict=True)
    }
    return Slice(label=label, **amounts)


def sources_of(
    counted: Sequence[tuple[Counts, bool]], types: Mapping[str, str], *, is_sample: bool
) -> tuple[Source, ...]:
    """The sources, those that name most first.

    Args:
        counted: What each lead names, and whether its column was read to its end.
        types: Of the columns, as PostgreSQL calls them.
        is_sample: Whether only a sample of the bucket is known, so that nothing can be missing.
    """
    taken: set[str] = set()
    found = []
    for counts, complete in counted:
        lead = counts.lead
        if lead is not None and counts.objects:
            name = _name(lead, taken)
            found.append(_source(lead, counts, name, types, complete=complete, known=not is_sample))
    found.sort(key=lambda each: (each.unsure is not None, each.redundant, -each.objects.objects))
    return tuple(found)


def _name(lead: Lead, taken: set[str]) -> str:
    column, table = lead.table.columns[lead.place].name, lead.table.known_as[1]
    name = next(
        each
        for each in (f"{table} {column}", *(f"{table} {column} {n}" for n in range(2, 999)))
        if each not in taken
    )
    taken.add(name)
    return name


def _source(
    lead: Lead,
    counts: Counts,
    name: str,
    types: Mapping[str, str],
    *,
    complete: bool,
    known: bool,
) -> Source:
    is_cut = any(PART in how for how in lead.hows)
    fronts = lead.front or ()
    each = max(1, len(fronts)) if lead.is_exact else 1
    values = max(counts.met, counts.values // each)
    query, note = _sql(lead, types)
    may_miss = lead.is_exact and not is_cut and known
    rewrites: tuple[dict[str, str], ...] = ()
    transforms = _transforms(lead)
    if not lead.is_exact:
        rewrites = tuple(_rewrites(lead, name))
        if not rewrites:
            note = note or "no rule leads from the objects to its values: write one"
    elif len(fronts) > 1:
        spelled = ", ".join(_shown(front) or "nothing" for front in fronts)
        query = None
        note = f"its keys begin in several ways ({spelled}): make a source of each"
    if lead.strip is None and lead.kind != "word":
        query, note = None, "what stands before the key in its values varies: cut it off in SQL"
    return Source(
        name=name,
        column=lead.column,
        path="$"
        if is_cut and lead.path == WHOLE
        else lead.path.replace(LIST, "", 1)
        if lead.path == LIST
        else lead.path,
        names="keys" if lead.is_exact else "owners",
        sql=query,
        transforms=tuple(transforms),
        rewrites=rewrites,
        recheck_sql=_recheck(lead, transforms) if query is not None and lead.is_exact else None,
        values=values,
        missing=max(0, values - counts.met) if may_miss else None,
        missing_sample=tuple(map(_shown, counts.sample)) if may_miss else (),
        objects=Amount(objects=counts.objects, bytes=counts.size),
        alone=Amount(objects=counts.alone, bytes=counts.alone_size),
        sample=(display_key(lead.sample[0]), display_key(lead.sample[1])),
        complete=complete,
        unsure=lead.unsure,
        redundant=counts.alone == 0,
        note=note,
    )


def _transforms(lead: Lead) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = []
    strips = [strip for strip in lead.strip or () if strip]
    if strips and lead.kind != "word":
        steps.append({"strip_base": [_text(strip) for strip in strips]})
    used = {step for how in lead.hows for step in how}
    steps += [{step: True} for step in (DROP_QUERY, PERCENT_DECODE) if step in used]
    fronts = lead.front or ()
    if len(fronts) == 1 and fronts[0] and (lead.is_exact or lead.kind != "word"):
        steps.append({"prepend": _text(fronts[0])})
    return steps


def _recheck(lead: Lead, transforms: Sequence[Mapping[str, Any]]) -> str | None:
    """Whether keys are in use, where a step cannot be inverted; rather yes than no.

    A value may spell anything but letters and digits in another way, so nothing else of the key is
    compared: some orphans are kept, and nothing that is in use is let go.
    """
    if not any(step.keys() & {DROP_QUERY, PERCENT_DECODE} for step in transforms):
        return None
    schema, table = lead.table.known_as
    place = f"{quoted(schema)}.{quoted(table)}"
    key, begins = "k", ""
    front = _text((lead.front or (b"",))[0]).replace("'", "''")
    if front:
        key, begins = f"substr(k, length('{front}') + 1)", f"starts_with(k, '{front}') and "
    column = quoted(lead.table.columns[lead.place].name)
    spelled = f"'%' || regexp_replace({key}, '[^A-Za-z0-9]+', '%', 'g') || '%'"
    return (
        f"select k from unnest($1::text[]) as k where {begins}exists (select from {place} as t "  # noqa: S608
        f"where t.{column}::text like {spelled})"
    )


def _rewrites(lead: Lead, name: str) -> Iterable[dict[str, str]]:
    """How an object leads to what the column holds."""
    fronts = lead.front
    if fronts is None and lead.kind != "word":
        return
    shapes = Counter(general(core.decode("utf-8", "replace")) for core in lead.cores)
    patterns = [shape for shape, _ in shapes.most_common(_MOST_RULES)]
    # An owner that stands alone must not lead to itself.
    before, inside, behind = ".*?[^0-9A-Za-z]", "", ".*"
    if fronts is not None:
        spelled = [re.escape(_text(front)).replace(r"\-", "-") for front in fronts]
        before = spelled[0] if len(spelled) == 1 else f"(?:{'|'.join(spelled)})"
        behind = ".+" if b"" in fronts else behind
    if len(fronts or ()) == 1 and lead.kind != "word":
        # It is prepended to the values, too.
        before, inside = "", before
    if lead.kind == "name":
        patterns, behind = [".+?"], r"\.[^./]+"
    elif lead.kind == "folder":
        behind = "/.+"
    for number, pattern in enumerate(patterns, 1):
        yield {
            "name": name if number == 1 else f"{name} {number}",
            "match": f"{before}(?P<owner>{inside}{pattern}){behind}",
            "owner": "{owner}",
        }


def _sql(lead: Lead, types: Mapping[str, str]) -> tuple[str | None, str]:
    """(the query, what is to be known about it)."""
    schema, table = lead.table.known_as
    column, kind = lead.table.columns[lead.place], types.get(lead.column, "")
    place = f"{quoted(schema)}.{quoted(table)}"
    name = quoted(column.name)
    text = name if kind in _TEXT_TYPES else f"{name}::text"
    if lead.kind == "word" and lead.is_exact and lead.ending and lead.path == WHOLE:
        text = f"{text} || '{_text(lead.ending)}'"
    if NAMES in lead.path or "::" in lead.path or "bytes" in column.kind:
        return None, "the query must be written: no step takes the key out of such a value"
    if column.kind.startswith("array of "):
        return f"select unnest({name})::text from {place}", ""  # noqa: S608 (shown, not sent)
    if any(PART in how for how in lead.hows):
        return _from_text(lead, text, place)
    if lead.path != WHOLE:
        json = name if kind == "jsonb" else f"{name}::jsonb"
        path = lead.path.replace("'", "''")
        note = "" if kind in ("json", "jsonb") else "every value of the column must be JSON"
        found = f"jsonb_path_query({json}, '{path}') as found"
        return f"select found #>> '{{}}' from {place} cross join {found}", note  # noqa: S608
    where = f"{name} <> ''" if kind in _TEXT_TYPES else f"{name} is not null"
    return f"select {text} from {place} where {where}", ""  # noqa: S608


def _from_text(lead: Lead, text: str, place: str) -> tuple[str | None, str]:
    """Cut keys out of a text by what stands before them."""
    strips = [strip for strip in lead.strip or () if strip]
    heads = strips or sorted({core.partition(b"/")[0] + b"/" for core in lead.cores})
    if lead.path != WHOLE or not heads or len(heads) > MOST_SHOWN:
        return None, "the keys stand among other text: write the query that cuts them out"
    head = "|".join(re.escape(_text(each)) for each in heads).replace("'", "''")
    end = r"""[^"''<>\s)]+"""
    found = f"(regexp_matches({text}, '((?:{head}){end})', 'g'))[1]"
    note = "the keys stand among other text: look at what the query returns"
    return f"select {found} from {place}", note  # noqa: S608


def shapes_of(learnt: Sequence[tuple[Learnt, Counts]]) -> tuple[Shape, ...]:
    """The shapes that have objects, those of most first."""
    found = []
    for number, (shape, counts) in enumerate(learnt, 1):
        if not counts.objects:
            continue
        owner, is_key = _owner(shape)
        found.append(
            Shape(
                name=f"derived {number}",
                match=shape.match,
                owner=owner,
                owner_is="key" if is_key else "stem",
                objects=Amount(objects=counts.objects, bytes=counts.size),
                owners=counts.values,
                sample=_shown(counts.sample[0]),
                unsure=shape.unsure,
            )
        )
    return tuple(sorted(found, key=lambda each: (each.unsure is not None, -each.objects.objects)))


def _owner(shape: Learnt) -> tuple[str, bool]:
    """The owner's key, or its stem; whether it is the key."""
    front = ""
    if shape.form in ("name", "stem"):
        folders = {owner.rpartition("/")[0] + "/" for owner in shape.owners if "/" in owner}
        front = folders.pop() if len(folders) == 1 else ""
    endings = {owner.rpartition(".")[2] for owner in shape.owners if "." in owner}
    ending = f".{endings.pop()}" if len(endings) == 1 and shape.form in ("path", "stem") else ""
    return f"{front}{{owner}}{ending}", bool(ending) or shape.form in ("key", "name")


def _text(part: bytes) -> str:
    return part.decode("utf-8", "replace")


def _shown(key: bytes) -> str:
    return display_key(key.decode("utf-8", "backslashreplace"))
