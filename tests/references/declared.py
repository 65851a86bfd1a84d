"""Transforms and rewrites as the settings give them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.references.transforms import Transforms

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class TransformForTests:
    prepend: str | None = None
    strip_base: Sequence[str] | None = None
    drop_query: bool | None = None
    percent_decode: bool | None = None
    strip_suffix: str | None = None


@dataclass(frozen=True)
class RewriteForTests:
    name: str
    match: str
    owner: str


def transforms(*declared: TransformForTests) -> Transforms:
    return Transforms.of(declared)
