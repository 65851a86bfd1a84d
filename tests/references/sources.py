"""A source as the settings give it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceForTests:
    name: str
    sql: str
    min_rows: int = 1
