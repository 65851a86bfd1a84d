"""Says which transform seems to be missing, from objects and rows that nearly meet."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from filejobs_dagster.ledger.sanitize import display_key
from filejobs_dagster.references.transforms import percent_decoded

if TYPE_CHECKING:
    from collections.abc import Iterable


class NearMatch(NamedTuple):
    """An object and the row that may mean it.

    Attributes:
        key: The object's exact key.
        row: The row's form: a source's key, or its value before the transforms.
    """

    key: bytes
    row: bytes


def suggestion_for(pairs: Iterable[NearMatch]) -> str | None:
    """Return the change that most pairs have in common, with its share and an example."""
    explained = [(explanation, pair) for pair in pairs if (explanation := explain(*pair))]
    if not explained:
        return None
    counts = Counter(explanation for explanation, _ in explained)
    explanation, count = counts.most_common(1)[0]
    pair = next(pair for said, pair in explained if said == explanation)
    return (
        f"In {count} of {len(explained)} pairs that were looked at, the row would be the object's "
        f"key with {explanation}: for example the row {_shown(pair.row)} and the object "
        f"{_shown(pair.key)}."
    )


def explain(key: bytes, row: bytes) -> str | None:
    """Return how the row would become the key; None when no simple change does it."""
    if key == row:
        return None
    values = _further(row)
    steps = next((steps for value, steps in values if value == key), None)
    if steps is None:
        # An ending that begins with ? is a query, so one step alone has been tried before.
        bridges = ((steps, _bridged(key, value)) for value, steps in values)
        steps = next(([*steps, bridge] for steps, bridge in bridges if bridge is not None), None)
    if steps is None:
        return _not_by_a_transform(key, row)
    return f"`transforms: [{', '.join(steps)}]` in its source"


def _further(row: bytes) -> list[tuple[bytes, list[str]]]:
    """The row as it is, without its query, decoded: as far as each step changes anything."""
    further: list[tuple[bytes, list[str]]] = [(row, [])]
    short = row.partition(b"?")[0]
    if short != row:
        further.append((short, ["{drop_query: true}"]))
    decoded = percent_decoded(short)
    if decoded != short:
        further.append((decoded, [*further[-1][1], "{percent_decode: true}"]))
    return further


def _bridged(key: bytes, value: bytes) -> str | None:
    """One step that takes something off the row, or puts something before it."""
    if value.endswith(key):
        return f"{{strip_base: [{_quoted(value[: -len(key)])}]}}"
    if value and key.endswith(value):
        return f"{{prepend: {_quoted(key[: -len(value)])}}}"
    if value.startswith(key):
        return f"{{strip_suffix: {_quoted(value[len(key) :])}}}"
    return _other_base(key, value)


def _other_base(key: bytes, value: bytes) -> str | None:
    """Two steps: another base before what both have in common, a whole number of levels."""
    at = 0
    while (at := key.find(b"/", at)) >= 0:
        rest = key[at + 1 :]
        if rest and value.endswith(b"/" + rest):
            base, prefix = value[: -len(rest)], key[: at + 1]
            return f"{{strip_base: [{_quoted(base)}]}}, {{prepend: {_quoted(prefix)}}}"
        at += 1
    return None


def _not_by_a_transform(key: bytes, row: bytes) -> str | None:
    texts = [value.decode("utf-8", "surrogateescape") for value in (key, row)]
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    if composed[0] == composed[1]:
        return "its accents composed as in the object's key (NFC and NFD differ); correct the rows"
    if composed[0].casefold() == composed[1].casefold():
        return "its upper and lower case as in the object's key; correct the rows"
    if row.strip() == key.strip():
        return "no white space at its ends that the object's key lacks; correct the rows"
    if row.replace(b"+", b" ") == key.replace(b"+", b" "):
        return "a space in place of its + (or the other way round); correct the rows"
    return None


def _quoted(value: bytes) -> str:
    return json.dumps(value.decode("utf-8", "backslashreplace"), ensure_ascii=False)


def _shown(value: bytes) -> str:
    return repr(display_key(value.decode("utf-8", "backslashreplace")))
