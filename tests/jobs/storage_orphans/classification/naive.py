"""The classification as one would write it for a handful of keys: everything in memory, by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.references.near import ReferenceForms, fold
from tests.jobs.storage_orphans.classification.worlds import CUTOFF, World

if TYPE_CHECKING:
    from collections.abc import Iterable


def naive_kinds(world: World) -> dict[bytes, str]:
    """The class of every object, one after the other."""
    return {key: _kind(world, key, modified) for key, (_, modified) in world.objects.items()}


def naive_missing(world: World) -> set[bytes]:
    """References in owned prefixes that have no object and should have one."""
    owned = {row for row in world.rows if row.startswith(world.rules.owned)}
    return owned - set(world.objects) - set(world.may_lack)


def _kind(world: World, key: bytes, modified: int) -> str:  # noqa: PLR0911 (one for each class)
    rules, rows = world.rules, set(world.rows)
    owners = rules.rewrites.owners(key)
    if key in rows:
        return "referenced"
    if not rows.isdisjoint(owners):
        return "derived"
    if _is_protected(key, rules.protect):
        return "protected"
    if key.endswith(b"/"):
        return "directory marker"
    if not _is_sane(key) or not rules.shape.known(key):
        return "unknown shape"
    if modified <= 0 or modified >= CUTOFF:
        return "young"
    forms = ReferenceForms(rules.owned, rules.bucket)
    meant = {form for row in rows for form in forms.of(row)}
    if key in world.as_written or not meant.isdisjoint(map(fold, (key, *owners))):
        return "ambiguous"
    return "orphan"


def _is_protected(key: bytes, protect: Iterable[bytes]) -> bool:
    return any(
        key.startswith(entry)
        if entry.endswith(b"/")
        else key == entry or key.startswith(entry + b"/")
        for entry in protect
    )


def _is_sane(key: bytes) -> bool:
    try:
        segments = key.decode().split("/")
    except UnicodeDecodeError:
        return False
    return "." not in segments and ".." not in segments
